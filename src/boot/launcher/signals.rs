//! Signals as readable sockets, so that one poll waits for them and for everything else.
//!
//! It never runs anything in a signal handler but a write to its own socket. SIGHUP is left alone:
//! `nohup` must keep working, and without it the kernel kills the ranks with the launcher.
#![forbid(unsafe_code)]

use std::io::{Read, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// A signal that arrives as bytes; it has its old meaning again when this is dropped.
pub(super) struct Signal {
    /// Its number.
    pub(super) number: i32,
    socket: UnixStream,
    registration: SigId,
}

impl Signal {
    fn new(number: i32) -> Result<Self> {
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
pub(super) fn interrupts() -> Result<[Signal; 2]> {
    Ok([Signal::new(SIGINT)?, Signal::new(SIGTERM)?])
}

/// The signal that a child has ended.
pub(super) fn child_ended() -> Result<Signal> {
    Signal::new(SIGCHLD)
}
