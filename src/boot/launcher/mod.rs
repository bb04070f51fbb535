//! Starts the ranks of a job on this machine, serves PMI-1 to them, and leaves nothing behind.
//!
//! It never speaks for a rank: it passes on output, signals and exit codes, and adds a sentence only
//! when a rank fails, with its number, pid and how it ended. One thread and one poll loop, because a
//! rank lives as long as the thread that started it (Linux ties the parent-death signal to the thread).
//!
//! How a job ends: by itself, when all ranks have exited; or after the first failure, when the others
//! have a moment for their own last words ([`LAST_WORDS`]), then SIGTERM, then after [`GRACE`] SIGKILL.
//! Signals go to whole process groups; what has left its group is found among the orphans, which Linux
//! hands to the launcher. If the launcher itself is killed, the kernel kills the ranks; what these have
//! started is then out of reach, and so is a rank whose command is setuid, or has capabilities of its own: Linux forgets for such
//! a program whose end is to be its own.
//!
//! | file | what |
//! |---|---|
//! | `process` | one rank: how it is started, how it ended |
//! | `deaths` | in which order ranks have ended |
//! | `output` | its lines, labelled |
//! | `supervisor` | the loop: sockets, output, deaths, signals, the timetable of an end |
//! | `signals` | signals as readable sockets |
//! | `orphans` | what ranks left behind |

mod deaths;
mod orphans;
mod output;
mod process;
mod signals;
mod supervisor;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use crate::error::{Error, Result};
use crate::locality::binding::Bind;

/// How long the other ranks have to notice that one has failed, and to say so themselves.
pub const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long a rank that is being killed has to end before another one, which has left with an error because of
/// it, is taken for the first that failed.
pub const DYING: Duration = Duration::from_millis(30);

/// How long a rank has between SIGTERM and SIGKILL, unless a job says otherwise.
pub const GRACE: Duration = Duration::from_secs(2);

/// The longest of those.
const LONGEST_GRACE: Duration = Duration::from_secs(1_000_000);

/// Files that the launcher has open beside its ranks'.
const FILES: u64 = 64;
/// The least of them, those that it takes to start a rank included.
const OWN_FILES: u64 = 21;
/// The most ranks: more than a kernel has numbers for processes.
pub const MOST: u32 = 1 << 22;

/// What to start.
#[derive(Debug, Clone)]
pub struct Job {
    /// How many ranks; at least 1.
    pub ranks: u32,
    /// On how many nodes they pretend to be, in contiguous runs of nearly equal length (`CIRCULANT_NODE`
    /// tells a rank); none: they are where they are.
    pub nodes: Option<u32>,
    /// What each rank is bound to, before its program starts; none: nothing. How is said on stderr, and if it cannot or had
    /// better not be, why.
    pub bind: Option<Bind>,
    /// The program that every rank runs, looked up in `PATH`.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables beside those of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Whether each line of output begins with its rank: `[3] text`. If not, the ranks write straight to
    /// this process's output.
    pub label: bool,
    /// How long ranks that are to end have between SIGTERM, or a signal that is passed on to them, and SIGKILL; [`GRACE`] is usual,
    /// some eleven days the most.
    pub grace: Duration,
}

impl Job {
    /// Runs the job to its end and gives its exit code: 0 if every rank's is 0, else that of the first
    /// rank that failed, 128 + n for signal n; 127 for a command that does not exist, 126 for one that
    /// cannot be started. What failed is said on stderr.
    ///
    /// While it runs, SIGINT and SIGTERM are passed on to the ranks and end the job, as do SIGHUP and SIGQUIT if they were not
    /// ignored; SIGUSR1 and SIGUSR2 are passed on, and SIGTSTP and SIGCONT stop the ranks, too, and let them go on. This
    /// process should start no other children: orphans that are left at the end are taken for the job's.
    ///
    /// # Errors
    /// [`Error::Argument`] for impossible numbers, before anything is started; [`Error::Boot`] when this
    /// machine gives no process, socket or memory for a rank. No rank is left then, either.
    pub fn run(&self) -> Result<u8> {
        self.check()?;
        supervisor::Supervisor::start(self)?.run()
    }

    /// How many files the launcher has open at most: beside what each rank takes one that tells when it ends.
    fn files(&self) -> u64 {
        FILES + u64::from(self.ranks) + self.files_of_ranks()
    }

    /// Those without which no rank is started: of each a socket, and two pipes for its lines.
    fn files_of_ranks(&self) -> u64 {
        u64::from(self.ranks) * if self.label { 3 } else { 1 }
    }

    fn check(&self) -> Result<()> {
        if self.ranks == 0 {
            return Err(Error::argument("run", "a job of 0 ranks", "ask for at least one: -n 1"));
        }
        if self.ranks > MOST {
            let what = format!("a job of {} ranks", self.ranks);
            return Err(Error::argument("run", what, format!("ask for at most {MOST}")));
        }
        let may_have = getrlimit(Resource::Nofile).maximum;
        let least = self.files_of_ranks() + OWN_FILES;
        if may_have.is_some_and(|most| most < least) {
            let what = format!("{} ranks, which take {least} open files", self.ranks);
            return Err(Error::argument("run", what, "raise `ulimit -Hn`, or start fewer ranks"));
        }
        match self.nodes {
            Some(0) => Err(Error::argument("run", "a job on 0 nodes", "ask for at least one: --nodes 1")),
            Some(nodes) if nodes > self.ranks => {
                let what = format!("{nodes} nodes for {} ranks", self.ranks);
                Err(Error::argument("run", what, "ask for at most as many nodes as ranks"))
            }
            _ => Ok(()),
        }
    }
}

/// A sentence of the launcher's own. That stderr is closed is no reason to leave ranks alone.
fn say(sentence: impl Display) {
    let _ = std::io::stderr().write_all(line(sentence).as_bytes());
}

fn line(sentence: impl Display) -> String {
    format!("circulant: {sentence}\n")
}

/// A call that the kernel refused for want of something.
fn refused(what: impl Display, error: impl Display) -> Error {
    Error::boot(format!("{what}: {error}"), "see `ulimit -u` and `ulimit -n`, or start fewer ranks")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(ranks: u32, nodes: Option<u32>) -> String {
        let (command, args, env) = ("true".into(), vec![], vec![]);
        Job { ranks, nodes, bind: None, command, args, env, label: false, grace: GRACE }
            .run()
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn impossible_numbers_are_refused_before_anything_starts() {
        assert!(error(0, None).contains("0 ranks; ask for at least one"));
        assert!(error(u32::MAX, None).contains("a job of 4294967295 ranks; ask for at most"));
        assert!(error(2, Some(0)).contains("0 nodes"));
        assert!(error(2, Some(3)).contains("3 nodes for 2 ranks"));
    }
}
