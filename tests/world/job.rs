//! A job of real processes: how it is started, that it ends, and what its ranks said.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::rank::SCRIPT;

/// Ends a hang; nothing here takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What carries jobs that are about something else: CIRCULANT_TEST_PROVIDER, or native TCP.
pub fn usual() -> String {
    std::env::var("CIRCULANT_TEST_PROVIDER").unwrap_or("tcp".to_owned())
}

/// A job to be started.
pub struct Job {
    ranks: u32,
    /// The last ones of these are somebody else.
    started: u32,
    /// Pretended ones.
    nodes: u32,
    /// A rank that another command starts, and that command.
    inside: Option<(u32, Vec<String>)>,
    /// Of all ranks, or of one.
    variables: Vec<(Option<u32>, String, String)>,
}

impl Job {
    /// `ranks` ranks of one script, over the [usual](usual) transport.
    pub fn new(ranks: u32, script: &str) -> Job {
        Job { ranks, started: ranks, nodes: 1, inside: None, variables: Vec::new() }
            .set("CIRCULANT_PROVIDER", &usual())
            .set(SCRIPT, script)
    }

    /// Another script for one rank.
    pub fn but(self, rank: u32, script: &str) -> Job {
        self.set(&format!("{SCRIPT}_{rank}"), script)
    }

    /// A variable of all ranks.
    pub fn set(mut self, name: &str, value: &str) -> Job {
        self.variables.push((None, name.into(), value.into()));
        self
    }

    /// A variable of one rank; only for ranks without a launcher.
    pub fn set_of(mut self, rank: u32, name: &str, value: &str) -> Job {
        self.variables.push((Some(rank), name.into(), value.into()));
        self
    }

    /// Starts only the ranks below this one; only without a launcher.
    pub fn without(self, rank: u32) -> Job {
        Job { started: rank, ..self }
    }

    /// One rank is started by another command, which these words are the beginning of; only without a launcher.
    pub fn inside(self, rank: u32, words: &[&str]) -> Job {
        Job { inside: Some((rank, words.iter().map(|&word| word.to_owned()).collect())), ..self }
    }

    /// The ranks take themselves for so many nodes, divided as the launcher does.
    pub fn on_nodes(self, nodes: u32) -> Job {
        Job { nodes, ..self }
    }

    fn variables_of(&self, rank: Option<u32>) -> impl Iterator<Item = (&String, &String)> {
        let its = move |of: &Option<u32>| of.is_none() || *of == rank;
        self.variables.iter().filter(move |(of, ..)| its(of)).map(|(_, name, value)| (name, value))
    }

    /// Starts the ranks by `circulant run`.
    pub fn launch(&self) -> Launched {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_circulant"));
        launcher.args(["run", "--label", "-n", &self.ranks.to_string()]);
        if self.nodes > 1 {
            launcher.args(["--nodes", &self.nodes.to_string()]);
        }
        launcher.arg("--").args(this_program());
        launcher.envs(self.variables_of(None));
        Launched { ranks: self.ranks, launcher: Process::start(launcher) }
    }

    /// Starts the ranks without a launcher: they meet at an address.
    pub fn meet(&self) -> Met {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().port();
        let start = |rank: u32| {
            let outer =
                self.inside.iter().filter(|(inner, _)| *inner == rank).flat_map(|(_, words)| words.clone());
            let words: Vec<String> = outer.chain(this_program()).collect();
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).env("CIRCULANT_RENDEZVOUS", format!("127.0.0.1:{port}"));
            command.env("CIRCULANT_RANK", rank.to_string()).env("CIRCULANT_SIZE", self.ranks.to_string());
            if self.nodes > 1 {
                command.env("CIRCULANT_NODE", (rank * self.nodes / self.ranks).to_string());
            }
            command.envs(self.variables_of(Some(rank)));
            Process::start(command)
        };
        Met { port, ranks: (0..self.started).map(start).collect() }
    }
}

/// This executable as a rank.
fn this_program() -> [String; 5] {
    let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    [own, "a_rank".into(), "--exact".into(), "--ignored".into(), "--nocapture".into()]
}

/// A job under our launcher.
pub struct Launched {
    ranks: u32,
    launcher: Process,
}

/// What a job under our launcher came to.
#[derive(Debug)]
pub struct Outcome {
    /// The launcher's exit code.
    pub code: Option<i32>,
    /// What it said of its own.
    pub launcher: String,
    /// What each rank said, on both streams.
    pub ranks: Vec<String>,
}

impl Launched {
    /// Waits for a line with these words on a rank's standard output.
    pub fn wait_for(&self, words: &str) {
        self.launcher.out.next_with(words);
    }

    /// Waits for the end of the launcher, which is the end of all ranks.
    pub fn end(self) -> Outcome {
        let End { status, out, err } = self.launcher.end();
        let text = out + &err;
        let of = |label: &str| -> String {
            text.lines().filter_map(|line| line.strip_prefix(label)).map(|line| format!("{line}\n")).collect()
        };
        let ranks = (0..self.ranks).map(|rank| of(&format!("[{rank}] "))).collect();
        Outcome { code: status.code(), launcher: of("circulant: "), ranks }
    }
}

/// A job without a launcher.
pub struct Met {
    port: u16,
    ranks: Vec<Process>,
}

impl Met {
    /// Sends a signal to a rank.
    pub fn signal(&self, rank: u32, signal: Signal) {
        kill_process(Pid::from_child(&self.ranks[rank as usize].child), signal).unwrap();
    }

    /// Where the ranks meet.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The process number of a rank.
    pub fn id(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].child.id()
    }

    /// Waits for a line with these words on a rank's standard output.
    pub fn wait_for(&self, rank: u32, words: &str) {
        self.ranks[rank as usize].out.next_with(words);
    }

    /// Waits for such a line on its standard error, and gives it.
    pub fn wait_for_error(&self, rank: u32, words: &str) -> String {
        self.ranks[rank as usize].err.next_with(words)
    }

    /// Waits for the end of each rank, in rank order.
    pub fn end(self) -> Vec<End> {
        self.ranks.into_iter().map(Process::end).collect()
    }
}

/// The program `circulant`, or another, run to its end.
pub struct Program(Command);

impl Program {
    /// `circulant` with these words.
    pub fn new(arguments: &str) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_circulant"));
        command.args(arguments.split(' '));
        Program(command)
    }

    /// Any command.
    pub fn of(command: Command) -> Program {
        Program(command)
    }

    /// These words as a command.
    pub fn of_words(words: &[&str]) -> Program {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        Program(command)
    }

    /// With these variables.
    pub fn envs(mut self, variables: &[(&str, &str)]) -> Program {
        self.0.envs(variables.iter().copied());
        self
    }

    /// Waits for its end.
    pub fn end(self) -> End {
        Process::start(self.0).end()
    }
}

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct End {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl End {
    /// It ended by itself, with an error in which all of these words are.
    #[track_caller]
    pub fn assert_error(&self, words: &[&str]) {
        assert!(self.status.code().is_some_and(|code| code != 0), "{self:?}");
        words.iter().for_each(|&words| assert!(self.err.contains(words), "no `{words}` in {}", self.err));
    }

    /// It was ended by this signal.
    #[track_caller]
    pub fn assert_killed_by(&self, signal: Signal) {
        assert_eq!(self.status.signal(), Some(signal.as_raw()), "{self:?}");
    }
}

/// A process, ended when it is dropped; its output is read as it comes, so that it never waits for us.
struct Process {
    child: Child,
    out: Stream,
    err: Stream,
}

impl Process {
    fn start(mut command: Command) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Stream::of(child.stdout.take()), Stream::of(child.stderr.take()));
        Process { child, out, err }
    }

    fn end(mut self) -> End {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > PATIENCE => self.hangs(),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let (out, err) = self.said();
        End { status, out, err }
    }

    fn hangs(&mut self) -> ! {
        let _ = self.child.kill();
        let (out, err) = self.said();
        panic!("process {} hangs; it said: {out}{err}", self.child.id());
    }

    fn said(&mut self) -> (String, String) {
        (self.out.all(), self.err.all())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process writes, read as it comes.
struct Stream {
    lines: Receiver<String>,
    /// Those that were looked at before the end.
    seen: RefCell<String>,
}

impl Stream {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Stream {
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe.unwrap()).split(b'\n') {
                // Nobody listens after a test has failed.
                let _ = sender.send(String::from_utf8_lossy(&line.unwrap()).into_owned() + "\n");
            }
        });
        Stream { lines, seen: RefCell::default() }
    }

    /// The next line with these words in it.
    #[track_caller]
    fn next_with(&self, words: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.borrow_mut().push_str(&line),
                Err(_) => panic!("no `{words}` in {}", self.seen.borrow()),
            }
            let seen = self.seen.borrow();
            let last = seen.lines().last().unwrap_or_default();
            if last.contains(words) {
                return last.to_owned();
            }
        }
    }

    /// All of it, once the process has ended.
    fn all(&self) -> String {
        self.seen.take() + &self.lines.iter().collect::<String>()
    }
}
