//! Signals as readable sockets, so that one poll waits for them and for everything else.
//!
//! It never runs anything in a signal handler but a write to its own socket. What was ignored when the launcher started
//! stays so: `nohup` must keep working.
#![forbid(unsafe_code)]

use std::io::{Read, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
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

/// The signals that the launcher passes on.
pub(super) fn interrupts() -> Result<Vec<Signal>> {
    let ignored = ignored();
    let from_terminal = [SIGHUP, SIGQUIT].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    [SIGINT, SIGTERM].into_iter().chain(from_terminal).map(Signal::new).collect()
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
