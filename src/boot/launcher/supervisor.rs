//! The loop of a running job: sockets, output, deaths, signals, and the timetable of an end.
//!
//! It never waits for one rank alone and never reports more than the first failure: what follows from it
//! would only hide it.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use super::deaths::Deaths;
use super::orphans::{Orphans, is_group_orphaned};
use super::output::{Sinks, Stream};
use super::process::{End, Process, name_of};
use super::signals::{self, Signal as Caught};
use super::{DYING, GRACE, Job, LAST_WORDS, LONGEST_GRACE, line, refused, say};
use crate::boot::pmi1::server::{Answer, Server};
use crate::boot::socket::{may_have_open, raise_files, timespec};
use crate::error::Result;
use crate::locality::binding::Binding;

/// Where the job stands between running and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timetable {
    Running,
    TermAt(Instant),
    KillAt(Instant),
    Killed,
}

/// A job and all that belongs to it.
pub(super) struct Supervisor {
    orphans: Orphans,
    server: Server,
    processes: Vec<Process>,
    deaths: Deaths,
    sinks: Sinks,
    interrupts: Vec<Caught>,
    messages: Vec<Caught>,
    stops: Option<Caught>,
    goes_on: Caught,
    child_ended: Caught,
    timetable: Timetable,
    /// How long a rank has between SIGTERM, or an interrupt, and SIGKILL.
    grace: Duration,
    /// Whether what ranks write goes through here.
    is_labelled: bool,
    /// A signal has come that ends the job.
    interrupted: bool,
    /// When output that nobody takes is forgotten: some time after an interrupt.
    forget_at: Option<Instant>,
    /// The exit code of the first failure.
    failure: Option<u8>,
}

impl Supervisor {
    /// Starts all ranks, or none.
    pub(super) fn start(job: &Job) -> Result<Self> {
        let (stops, goes_on) = signals::stops().map_err(|error| refused("signals", error))?;
        let mut supervisor = Supervisor {
            orphans: Orphans::adopt().map_err(|error| refused("prctl", error))?,
            server: Server::new(job.ranks, job.nodes),
            processes: Vec::new(),
            deaths: Deaths::of_nobody(),
            sinks: Sinks::new(),
            interrupts: signals::interrupts().map_err(|error| refused("signals", error))?,
            messages: signals::messages().map_err(|error| refused("signals", error))?,
            stops,
            goes_on,
            child_ended: signals::child_ended().map_err(|error| refused("signals", error))?,
            timetable: Timetable::Running,
            grace: job.grace.min(LONGEST_GRACE),
            is_labelled: job.label,
            interrupted: false,
            forget_at: None,
            failure: None,
        };
        let binding = binding(job);
        let files = raise_files(job.files());
        for rank in 0..job.ranks {
            let cpus = binding.as_ref().map(|binding| binding.cpus(rank));
            match Process::start(job, rank, cpus, files) {
                Ok(process) => supervisor.processes.push(process),
                Err(error) if supervisor.is_unstartable(job, &error) => break,
                Err(error) => return Err(refused(format!("rank {rank} cannot be started"), error)),
            }
        }
        if may_have_open(job.files()) {
            supervisor.deaths = Deaths::of(supervisor.processes.iter().map(Process::pid));
        }
        Ok(supervisor)
    }

    /// Runs the job to its end and gives its exit code.
    pub(super) fn run(mut self) -> Result<u8> {
        while !self.is_over() {
            self.wait()?;
            self.note_stops();
            self.pass_interrupts_on();
            self.pass_messages_on();
            self.stop_and_go_on();
            self.serve();
            self.note_ends();
            self.note_lost_output();
            self.keep_the_timetable();
        }
        self.note_lost_output();
        Ok(self.failure.unwrap_or(0))
    }

    /// Whether the command itself is at fault, which no rank could help.
    fn is_unstartable(&mut self, job: &Job, error: &io::Error) -> bool {
        let missing = error.kind() == ErrorKind::NotFound;
        let scarce = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        if error.raw_os_error().is_none_or(|code| scarce.contains(&code)) {
            return false;
        }
        let command = job.command.display();
        self.fail(if missing { 127 } else { 126 }, format!("cannot start '{command}': {error}"));
        self.timetable = Timetable::TermAt(Instant::now());
        true
    }

    fn is_over(&mut self) -> bool {
        if !self.have_all_ended() {
            return false;
        }
        // After SIGKILL, only what has left its group can still hold a rank's output open.
        if self.timetable == Timetable::Killed {
            self.processes.iter_mut().for_each(|process| process.end_outputs(&mut self.sinks));
        }
        !self.has_output() && self.sinks.waiting().next().is_none()
    }

    fn have_all_ended(&self) -> bool {
        self.processes.iter().all(|process| process.end.is_some())
    }

    fn has_output(&self) -> bool {
        self.processes.iter().any(|process| !process.outputs.is_empty())
    }

    /// Waits until something happens or the timetable has a step to take.
    fn wait(&self) -> Result<()> {
        let step = match self.timetable {
            Timetable::TermAt(at) | Timetable::KillAt(at) => {
                Some(at.saturating_duration_since(Instant::now()))
            }
            Timetable::Running | Timetable::Killed => None,
        };
        let forget = self.forget_at.map(|at| at.saturating_duration_since(Instant::now()));
        let reap = self.orphans.look_at().map(|at| at.saturating_duration_since(Instant::now()));
        let step = step.into_iter().chain(forget).chain(reap).min();
        let signals = self.interrupts.iter().chain(&self.messages).chain(&self.stops);
        let signals = signals.chain([&self.goes_on, &self.child_ended]);
        let mut fds: Vec<_> = signals.map(|signal| PollFd::new(signal, PollFlags::IN)).collect();
        for process in &self.processes {
            fds.extend(process.pmi.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
            let heard = process.outputs.iter().filter(|output| self.sinks.have_room(output));
            fds.extend(heard.map(|output| PollFd::new(output, PollFlags::IN)));
        }
        fds.extend(self.sinks.waiting().map(|sink| PollFd::new(sink, PollFlags::OUT)));
        match poll(&mut fds, step.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(refused("poll", error)),
        }
    }

    fn pass_interrupts_on(&mut self) {
        // Two that belong together, as a hangup and its SIGTERM, are one.
        let again = self.interrupted;
        for index in 0..self.interrupts.len() {
            if !self.interrupts[index].came() {
                continue;
            }
            let number = self.interrupts[index].number;
            self.interrupted = true;
            // Then it is only its output that is not taken.
            if self.have_all_ended() {
                self.sinks.give_up();
            }
            self.fail(End::Signal(number).code(), format!("{} came, ending all ranks", name_of(number)));
            self.signal_all(Signal::from_named_raw(number).unwrap_or(Signal::TERM));
            let patience = if again { GRACE } else { self.grace.max(GRACE) };
            self.forget_at = Some(Instant::now() + 2 * patience);
            // Whoever interrupts a job twice does not want to wait for its grace; and once makes no end later.
            let end = Instant::now() + if again { Duration::ZERO } else { self.grace };
            self.timetable = match self.timetable {
                Timetable::Killed => Timetable::Killed,
                Timetable::KillAt(at) => Timetable::KillAt(at.min(end)),
                Timetable::Running | Timetable::TermAt(_) => Timetable::KillAt(end),
            };
        }
    }

    /// What the ranks make of them is theirs.
    fn pass_messages_on(&mut self) {
        for index in 0..self.messages.len() {
            if self.messages[index].came() {
                let signal = Signal::from_named_raw(self.messages[index].number);
                signal.into_iter().for_each(|signal| self.signal_all(signal));
            }
        }
    }

    /// A shell stops this process only, as ranks have groups of their own. Where there is none that would let it go on, nothing stops,
    /// as the kernel has it.
    fn stop_and_go_on(&mut self) {
        let mut goes_on = false;
        if self.stops.as_mut().is_some_and(Caught::came) && !is_group_orphaned() {
            self.signal_all(Signal::TSTP);
            // What has come meanwhile takes it back.
            goes_on = self.goes_on.came();
            if !goes_on {
                let since = Instant::now();
                // It is refused to nobody.
                let _ = kill_process(getpid(), Signal::STOP);
                self.postpone(since.elapsed());
            }
        }
        if self.goes_on.came() || goes_on {
            self.signal_all(Signal::CONT);
        }
    }

    /// Ranks that were stopped had no time meanwhile.
    fn postpone(&mut self, by: Duration) {
        match &mut self.timetable {
            Timetable::TermAt(at) | Timetable::KillAt(at) => *at += by,
            Timetable::Running | Timetable::Killed => {}
        }
        self.forget_at.iter_mut().for_each(|at| *at += by);
    }

    /// Output that cannot be written is a failure, as it would be where ranks write themselves; but not where nobody reads it.
    fn note_lost_output(&mut self) {
        if let Some(error) = self.sinks.failure().filter(|_| self.is_labelled) {
            self.fail(1, format!("the output of ranks cannot be written: {error}"));
        }
    }

    fn serve(&mut self) {
        self.sinks.pour();
        for index in 0..self.processes.len() {
            self.processes[index].pass_on(&mut self.sinks, false);
            self.answer(index);
        }
    }

    /// What one that has ended sent and wrote last.
    fn hear_out(&mut self, index: usize) {
        self.processes[index].pass_on(&mut self.sinks, true);
        self.answer(index);
    }

    fn answer(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let bytes = process.receive();
        for answer in self.server.receive(process.rank, &bytes) {
            match answer {
                Answer::Reply { rank, line } => self.reply(rank as usize, &line),
                Answer::Abort { code, message } => self.abort(index, code, &message),
                Answer::Unintelligible(what) => {
                    self.end_now(1, format!("{} sent to PMI {what}", self.processes[index]));
                }
            }
        }
    }

    /// A rank has one answer under way at most, so there is room for it, unless the rank is not a client.
    fn reply(&mut self, index: usize, line: &str) {
        let process = &mut self.processes[index];
        let Some(socket) = &mut process.pmi else { return };
        match socket.write_all(line.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.end_now(1, format!("{} does not read the answers of PMI", self.processes[index]));
            }
            // A closed socket: how the rank ended says more.
            _ => {}
        }
    }

    fn abort(&mut self, index: usize, code: i32, message: &str) {
        let words = if message.is_empty() { String::new() } else { format!(": {message}") };
        let process = &self.processes[index];
        // An abort is a failure, whatever the code that it asks for.
        self.end_now((code as u8).max(1), format!("{process} called abort with code {code}{words}"));
    }

    /// A rank that waits for the terminal waits for ever, which nobody would know.
    fn note_stops(&mut self) {
        for process in &mut self.processes {
            let Some(signal) = process.was_just_stopped() else { continue };
            let cure = match signal == Signal::TTOU.as_raw() {
                true => {
                    "which is set so that ranks may not write to it (stty -tostop), or they change how it is set"
                }
                false => "which ranks may not read; rank 0 has its lines on its standard input",
            };
            let name = name_of(signal);
            let sentence = format!("{process} was stopped by {name}: it uses the terminal, {cure}");
            self.sinks.of(Stream::Err).push(line(sentence).as_bytes());
        }
    }

    fn note_ends(&mut self) {
        if self.child_ended.came() {
            self.orphans.may_have_ended();
        }
        let processes = &self.processes;
        self.orphans.reap(|child| processes.iter().any(|process| process.pid() == child));
        let mut ended = self.just_ended();
        ended.iter().for_each(|&index| self.hear_out(index));
        // One that is killed may take longer to end than others to notice and to leave with an error.
        if self.failure.is_none() && ended.iter().any(|&index| self.has_given_up(index)) {
            std::thread::sleep(DYING);
            ended.extend(self.just_ended());
        }
        ended.sort_by_key(|&index| !matches!(self.processes[index].end, Some(End::Signal(_))));
        for index in ended {
            // This belongs before the sentence on its end.
            self.hear_out(index);
            self.judge_end(index);
        }
        self.judge_barrier();
    }

    /// The first first, as far as that is known: who has lost another ends, too.
    fn just_ended(&mut self) -> Vec<usize> {
        let found = (0..self.processes.len()).filter(|&index| self.processes[index].has_just_ended());
        let mut ended: Vec<usize> = found.collect();
        self.deaths.sort(&mut ended);
        ended
    }

    /// Whether it has left with an error, or, as one may that has lost another at the end, without its farewell.
    fn has_given_up(&self, index: usize) -> bool {
        let process = &self.processes[index];
        matches!(process.end, Some(End::Exit(code)) if code != 0 || !self.server.owes_nothing(process.rank))
    }

    fn judge_end(&mut self, index: usize) {
        let process = &self.processes[index];
        match process.end {
            Some(End::Exit(0)) if self.server.owes_nothing(process.rank) => {}
            Some(End::Exit(0)) => {
                self.fail(1, format!("{process} exited with code 0, but joined PMI and did not finalize"))
            }
            Some(end) => self.fail(end.code(), format!("{process} {end}")),
            None => {}
        }
    }

    /// A barrier that an exited rank can never enter would wait for ever.
    fn judge_barrier(&mut self) {
        let left = self.processes.iter().find(|process| process.end.is_some());
        if let Some(process) = left.filter(|_| self.server.barrier_waits()) {
            self.fail(1, format!("{process} has exited, and other ranks wait for it in a PMI barrier"));
        }
    }

    /// Says the first failure, and lets the others say their last words.
    fn fail(&mut self, code: u8, sentence: String) {
        if self.failure.is_none() {
            self.failure = Some(code);
            self.sinks.of(Stream::Err).push(line(sentence).as_bytes());
            self.timetable = Timetable::TermAt(Instant::now() + LAST_WORDS);
        }
    }

    /// A failure after which a rank would wait in vain for an answer.
    fn end_now(&mut self, code: u8, sentence: String) {
        if self.failure.is_none() {
            self.fail(code, sentence);
            self.timetable = Timetable::TermAt(Instant::now());
        }
    }

    fn keep_the_timetable(&mut self) {
        let now = Instant::now();
        if self.forget_at.is_some_and(|at| at <= now) {
            self.forget_at = None;
            self.sinks.give_up();
        }
        match self.timetable {
            Timetable::TermAt(at) if at <= now => {
                self.signal_all(Signal::TERM);
                self.timetable = Timetable::KillAt(now + self.grace);
            }
            Timetable::KillAt(at) if at <= now => {
                self.signal_all(Signal::KILL);
                self.timetable = Timetable::Killed;
            }
            // Something that a rank left behind still has its output; it may finish, but not for ever.
            Timetable::Running if self.have_all_ended() => {
                self.timetable = Timetable::TermAt(now + GRACE);
            }
            _ => {}
        }
    }

    fn signal_all(&self, signal: Signal) {
        self.processes.iter().for_each(|process| process.signal(signal));
    }
}

/// Where the ranks are to run, if they are to be bound and can be; says how they are, or why they are not.
fn binding(job: &Job) -> Option<Binding> {
    match Binding::of_job(job.bind?, job.ranks) {
        Ok(binding) => {
            say(&binding);
            Some(binding)
        }
        Err(why) => {
            say(format_args!("ranks not bound: {why}"));
            None
        }
    }
}

/// However a job ends, also with an error while it starts, nothing of it stays.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.signal_all(Signal::TERM);
        for process in self.processes.iter_mut().filter(|process| process.end.is_some()) {
            process.reap();
        }
        // They have what is left of their ranks' time.
        let grace = match self.timetable {
            Timetable::KillAt(at) => at.saturating_duration_since(Instant::now()),
            Timetable::Killed => Duration::ZERO,
            Timetable::Running | Timetable::TermAt(_) => GRACE,
        };
        let interrupts = &mut self.interrupts;
        let left = self.orphans.end_all(grace, || interrupts.iter_mut().any(Caught::came));
        if !left.is_empty() {
            let pids: Vec<_> = left.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
            say(format_args!("process {} of a rank's could not be ended", pids.join(", ")));
        }
    }
}
