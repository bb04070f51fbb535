//! One rank's process: how it is started, how it ended.
//!
//! It never reaps a rank before the job's end: as long as the dead leader is not reaped, the kernel gives
//! its number to no other process, so a signal to the rank's group can hit nobody else.

use std::fmt;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpgrp, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, setrlimit, waitid,
};
use rustix::termios::tcgetpgrp;
use rustix::thread::sched_setaffinity;
use signal_hook::low_level::signal_name;

use super::Job;
use super::output::{Output, Sinks, Stream};
use crate::boot::pmi1::server::node_of;
use crate::locality::cpus::Cpus;
use crate::rank::Rank;
use crate::threads;

/// What an outer launcher may have set, and would make a rank look elsewhere for its job.
const FOREIGN: [&str; 8] = [
    "CIRCULANT_BOOT",
    "CIRCULANT_RENDEZVOUS",
    "CIRCULANT_NODE",
    "PMI_PORT",
    "PMI_ID",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "OMPI_COMM_WORLD_SIZE",
];

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    Signal(i32),
}

impl End {
    /// The exit code by which a shell would tell it.
    pub(super) fn code(self) -> u8 {
        match self {
            End::Exit(code) => code as u8,
            End::Signal(number) => 128_u8.saturating_add(number as u8),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exited with code {code}"),
            End::Signal(number) => {
                write!(f, "was killed by signal {number} ({})", name_of(*number))
            }
        }
    }
}

/// What a signal is called.
pub(super) fn name_of(signal: i32) -> &'static str {
    signal_name(signal).unwrap_or("no name")
}

/// A rank, from its start to its reaping.
pub(super) struct Process {
    pub(super) rank: Rank,
    /// Our end of its PMI socket, until it has closed the other.
    pub(super) pmi: Option<UnixStream>,
    /// Its stdout and stderr, where we pass them on, until it has closed them.
    pub(super) outputs: Vec<Output>,
    pub(super) end: Option<End>,
    /// It was said that it is stopped.
    stopped: bool,
    child: Child,
}

impl Process {
    /// Starts it, on these CPUs only if there are any, and with this limit to its files.
    pub(super) fn start(job: &Job, rank: Rank, cpus: Option<&Cpus>, files: Rlimit) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = command(job, rank, theirs.as_raw_fd());
        inherit(&mut command, theirs.into(), cpus, files);
        let mut child = command.spawn()?;
        if let Some(pipe) = child.stdin.take() {
            feed(pipe);
        }
        let outputs = outputs(&mut child, rank)?;
        Ok(Process { rank, pmi: Some(ours), outputs, end: None, stopped: false, child })
    }

    /// Looks whether it has ended; true the first time that it has.
    pub(super) fn has_just_ended(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Ok(Some(status)) = waitid(WaitId::Pid(self.pid()), options) else { return false };
        self.end = status.exit_status().map(End::Exit).or(status.terminating_signal().map(End::Signal));
        self.end.is_some()
    }

    /// Looks whether it was stopped because it uses the terminal, and by which signal; the first time that it was.
    pub(super) fn was_just_stopped(&mut self) -> Option<i32> {
        if self.stopped || self.end.is_some() {
            return None;
        }
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let signal = waitid(WaitId::Pid(self.pid()), options).ok()??.stopping_signal()?;
        self.stopped = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        self.stopped.then_some(signal)
    }

    /// What it has sent on its PMI socket; the socket is given up when it has closed the other end.
    pub(super) fn receive(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 16 * 1024];
        let Some(socket) = &mut self.pmi else { return vec![] };
        match socket.read(&mut buffer) {
            Ok(count @ 1..) => buffer.truncate(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => buffer.clear(),
            _ => {
                self.pmi = None;
                buffer.clear();
            }
        }
        buffer
    }

    /// Passes on what it has written, where there is room for it; or all, to be found room for.
    pub(super) fn pass_on(&mut self, sinks: &mut Sinks, all: bool) {
        self.outputs.retain_mut(|output| !(all || sinks.have_room(output)) || output.pass_on(sinks));
    }

    /// Passes on the last of what it, or what it has left behind, has written.
    pub(super) fn end_outputs(&mut self, sinks: &mut Sinks) {
        self.outputs.drain(..).for_each(|output| output.end(sinks));
    }

    /// Sends a signal to it and to what it has started. That nobody is left is no error.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid(), signal);
    }

    /// Gives its number back. It must have ended.
    pub(super) fn reap(&mut self) {
        let _ = self.child.wait();
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (pid {})", self.rank, self.child.id())
    }
}

fn command(job: &Job, rank: Rank, pmi_fd: i32) -> Command {
    let mut command = Command::new(&job.command);
    command.args(&job.args);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    command.env("PMI_FD", pmi_fd.to_string());
    command.env("PMI_RANK", rank.to_string());
    command.env("PMI_SIZE", job.ranks.to_string());
    if let Some(nodes) = job.nodes {
        command.env("CIRCULANT_NODE", node_of(rank, job.ranks, nodes).to_string());
    }
    command.stdin(if rank == 0 { input() } else { Stdio::null() });
    if job.label {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command
}

/// What rank 0 reads. It has a process group of its own, and a terminal stops a background group that
/// reads from it, so there the launcher reads for it, if it may itself.
fn input() -> Stdio {
    let stdin = io::stdin();
    match (stdin.is_terminal(), tcgetpgrp(&stdin)) {
        (false, _) => Stdio::inherit(),
        (true, Ok(foreground)) if foreground == getpgrp() => Stdio::piped(),
        _ => Stdio::null(),
    }
}

/// Copies the terminal's lines until either side closes; the process does not wait for this thread. To read while the job
/// is in the background is an error for a thread that takes no signals, where it would stop the launcher.
fn feed(mut pipe: ChildStdin) {
    let copy = move || {
        let mut buffer = [0; 4096];
        loop {
            match io::stdin().read(&mut buffer) {
                Ok(0) => return,
                Ok(count) if pipe.write_all(&buffer[..count]).is_err() => return,
                Ok(_) => {}
                Err(_) if is_in_background() => thread::sleep(BACKGROUND),
                Err(_) => return,
            }
        }
    };
    // Without a thread the rank reads nothing, as the others.
    let _ = threads::start("input".to_owned(), copy);
}

/// How often one looks whether the job is in the foreground again.
const BACKGROUND: Duration = Duration::from_millis(200);

fn is_in_background() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp())
}

fn outputs(child: &mut Child, rank: Rank) -> io::Result<Vec<Output>> {
    let out = child.stdout.take().map(|pipe| Output::new(pipe.into(), Stream::Out, rank));
    let err = child.stderr.take().map(|pipe| Output::new(pipe.into(), Stream::Err, rank));
    out.into_iter().chain(err).collect()
}

/// Makes the process inherit its PMI socket and die with the launcher, in a group of its own and on its CPUs.
fn inherit(command: &mut Command, socket: OwnedFd, cpus: Option<&Cpus>, files: Rlimit) {
    let launcher = getpid();
    let cpus = cpus.and_then(Cpus::for_the_system);
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The launcher may have died before the line above, and then nobody would end this process.
        if getppid() != Some(launcher) {
            return Err(Errno::SRCH.into());
        }
        fcntl_setfd(&socket, FdFlags::empty())?;
        setrlimit(Resource::Nofile, files)?;
        if let Some(cpus) = &cpus {
            sched_setaffinity(None, cpus)?;
        }
        Ok(())
    };
    command.process_group(0);
    // SAFETY: - between fork and exec only async-signal-safe calls are made: the closure makes five system
    //           calls (prctl, getppid, fcntl, prlimit, sched_setaffinity) and neither allocates nor locks; its errors
    //           are bare numbers
    //         - no memory is shared with the parent: std forks for a command that has such a closure
    //         - the socket is open: the closure owns it
    unsafe { command.pre_exec(before_exec) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_a_shell_tells_it() {
        assert_eq!(End::Exit(3).code(), 3);
        assert_eq!(End::Signal(9).code(), 137);
        assert_eq!(End::Exit(3).to_string(), "exited with code 3");
        assert_eq!(End::Signal(9).to_string(), "was killed by signal 9 (SIGKILL)");
        assert_eq!(End::Signal(64).to_string(), "was killed by signal 64 (no name)");
    }
}
