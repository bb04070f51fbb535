//! Waiting for a completion queue without holding a core.
//!
//! Where the provider has a file descriptor that works, the wait is one `poll`. Others must be polled,
//! with naps between: they grow while nothing happens, so that an idle rank costs nothing, and are gone
//! after the first event, so that a busy one loses nothing.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// How many times the core is only offered to others before there are naps.
const YIELDS: u32 = 16;
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// How to wait for one completion queue.
pub(super) enum Waiter {
    /// Its descriptor, which the queue owns.
    Descriptor(RawFd),
    /// How many waits in a row there was nothing.
    Naps(u32),
}

impl Waiter {
    /// Something has happened: naps begin anew.
    #[inline]
    pub fn refresh(&mut self) {
        if let Waiter::Naps(idle) = self {
            *idle = 0;
        }
    }
}

/// Waits until `queue` or `wake` is readable, or `timeout` is over.
pub(super) fn readable(queue: BorrowedFd<'_>, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<()> {
    let queue = PollFd::from_borrowed_fd(queue, PollFlags::IN);
    match wake {
        Some(wake) => doze(&mut [queue, PollFd::from_borrowed_fd(wake, PollFlags::IN)], timeout),
        None => doze(&mut [queue], timeout),
    }
}

/// One yield or one nap, the longer the more often there was nothing; `wake` ends it.
pub(super) fn nap(idle: &mut u32, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<()> {
    *idle = idle.saturating_add(1);
    if *idle <= YIELDS {
        std::thread::yield_now();
        return Ok(());
    }
    let nap = FIRST_NAP.saturating_mul(1 << (*idle - YIELDS - 1).min(8)).min(LONGEST_NAP).min(timeout);
    match wake {
        Some(wake) => doze(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], nap),
        None => doze(&mut [], nap),
    }
}

fn doze(descriptors: &mut [PollFd<'_>], timeout: Duration) -> Result<()> {
    // Longer than the clock can say is for ever; the caller comes back when a signal interrupts.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(descriptors, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(Error::transport("poll", e.to_string(), "raise `ulimit -n`, or free memory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn naps_end_at_once_when_there_is_something_to_wake_for() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        // Would it sleep for the whole of this time, the test would hang.
        let long = Duration::from_secs(100_000);
        let mut idle = YIELDS;
        nap(&mut idle, Some(reader.as_fd()), long).unwrap();
        let (silent, _held) = rustix::pipe::pipe().unwrap();
        readable(silent.as_fd(), Some(reader.as_fd()), long).unwrap();
        readable(reader.as_fd(), None, long).unwrap();
    }

    #[test]
    fn a_fresh_waiter_yields_before_it_naps() {
        let mut waiter = Waiter::Naps(YIELDS + 5);
        waiter.refresh();
        assert!(matches!(waiter, Waiter::Naps(0)));
    }
}
