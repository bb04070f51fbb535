//! A peer's process as others find it: its descriptors in /proc, and whether it lives.
//!
//! A process's number and a descriptor's are given again to others, so nothing is used before it is known to be
//! what it is taken for: a segment says so by its name, a pipe by its inode.

#[cfg(not(miri))]
mod proc;
#[cfg(miri)]
mod threads;

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::Error;
use crate::rank::Rank;
use crate::transport::segment::{Label, MAPPING_CURE};
#[cfg(not(miri))]
pub use proc::{LetWrite, has_ended};
#[cfg(miri)]
pub use threads::{LetWrite, has_ended};

/// A process of this machine, and of this process-number namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Its number.
    pub pid: Pid,
    /// Its random word.
    pub nonce: u64,
}

/// A pipe of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipe {
    /// The descriptor's number there.
    pub descriptor: u32,
    /// Which pipe it is.
    pub inode: u64,
}

/// What has become of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Lives,
    /// No thread of it runs any more.
    Ended,
    #[cfg_attr(miri, expect(dead_code, reason = "its ranks are threads, of which all is known"))]
    /// It is ending, or another process has its number, or this process may not or cannot look.
    Unclear,
}

impl Home {
    /// What has become of it, once that is clear, or for too long is not.
    pub fn settled(&self, board: Label) -> State {
        let start = Instant::now();
        loop {
            match self.state(board) {
                State::Unclear if start.elapsed() < UNCLEAR => std::thread::sleep(MOMENT),
                state => return state,
            }
        }
    }
}

/// How long a process may be neither seen nor known to have ended: the last thread of one that is being killed
/// needs less.
pub const UNCLEAR: Duration = Duration::from_secs(2);
/// Until a process that is about to do something is looked at again.
pub const MOMENT: Duration = Duration::from_micros(20);

/// Why something of another process cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The process has ended, or has let it go.
    Gone(Errno),
    /// There is something else in its place.
    Another,
    /// This process may not, or cannot.
    Refused(&'static str, Errno),
}

impl Missing {
    /// As an error of a put to this rank.
    pub fn of(self, rank: Rank, what: &str) -> Error {
        match self {
            Missing::Gone(error) => {
                Error::Lost { rank, how: format!("its {what} is gone from /proc: {error}, on shm") }
            }
            Missing::Another => {
                let what = format!("the {what} of rank {rank} is no more what it was");
                Error::transport("put", what, "has it ended, or put its window away?")
            }
            Missing::Refused(call, error) => {
                Error::transport(call, format!("{error}, the {what} of rank {rank}"), cure(call, error))
            }
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::Gone(error) => write!(f, "its process is not in /proc: {error}"),
            Missing::Another => write!(f, "/proc shows another process under its number"),
            Missing::Refused(call, error) => write!(f, "{call}: {error}; {}", cure(call, *error)),
        }
    }
}

fn cure(call: &str, error: Errno) -> &'static str {
    match error {
        Errno::MFILE | Errno::NFILE => "raise `ulimit -n`",
        Errno::ACCESS | Errno::PERM => {
            "start all ranks as one user, in one user namespace, from a program that it may read"
        }
        _ if call == "mmap" => MAPPING_CURE,
        _ => "see the system's log",
    }
}
