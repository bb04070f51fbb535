//! Signals as readable sockets, so that one poll waits for them and for everything else.
//!
//! It never runs anything in a signal handler but a write to its own socket. What was ignored when the launcher started
//! stays so, as `nohup` must keep working; but for SIGINT and SIGTERM, by which a job can always be ended.
#![forbid(unsafe_code)]

use std::io::{Read, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::low_level::{pipe, unregister};

use crate::threads;

/// A signal that arrives as bytes; it has its old meaning again when this is dropped.
pub(super) struct Signal {
    /// Its number.
    pub(super) number: i32,
    socket: UnixStream,
    registration: SigId,
}

impl Signal {
    fn new(number: i32) -> Result<Self> {
        // Who has started the launcher may have blocked it.
        threads::hear(number);
        let (socket, handler) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        Ok(Signal { number, socket, registration: pipe::register(number, handler)? })
    }

    /// Whether it came since the last call.
    pub(super) fn came(&mut self) -> bool {
        let mut came = false;
        while let Ok(1..) = self.socket.read(&mut [0; 64]) {
            came = true;
        }
        came
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        unregister(self.registration);
    }
}

/// The signals by which a job is ended, once the ranks have them.
pub(super) fn interrupts() -> Result<Vec<Signal>> {
    [SIGINT, SIGTERM].into_iter().chain(heeded([SIGHUP, SIGQUIT])).map(Signal::new).collect()
}

/// The signals that are for the ranks alone, to do with as they like.
pub(super) fn messages() -> Result<Vec<Signal>> {
    heeded([SIGUSR1, SIGUSR2]).map(Signal::new).collect()
}

/// The signals by which a shell stops a job and lets it go on; the first may be ignored.
pub(super) fn stops() -> Result<(Option<Signal>, Signal)> {
    Ok((heeded([SIGTSTP]).next().map(Signal::new).transpose()?, Signal::new(SIGCONT)?))
}

/// Those that are not ignored.
fn heeded<const N: usize>(numbers: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = ignored();
    numbers.into_iter().filter(move |number| ignored >> (number - 1) & 1 == 0)
}

/// The signal that a child has ended, or was stopped.
pub(super) fn child_ended() -> Result<Signal> {
    Signal::new(SIGCHLD)
}

/// Which signals are ignored, a bit each from 1 on; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
