//! Waiting for a completion queue without holding a core.
//!
//! Where the provider has a file descriptor that works, the wait is one `poll`. Others must be polled,
//! with naps between: they grow while nothing happens, so that an idle rank costs nothing, and are gone
//! after the first event, so that a busy one loses nothing. A wait may overlook its `wake` for a
//! millisecond, no longer.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::error::Result;
use crate::transport::wait::doze;

/// How many times the core is only offered to others before there are naps.
const YIELDS: u32 = 16;
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// How to wait for one completion queue.
pub(super) struct Waiter {
    /// Its descriptor, which the queue owns; without one there are naps.
    pub descriptor: Option<RawFd>,
    /// How many waits in a row there was nothing.
    idle: u32,
}

impl Waiter {
    pub fn descriptor(descriptor: RawFd) -> Waiter {
        Waiter { descriptor: Some(descriptor), idle: 0 }
    }

    pub fn naps() -> Waiter {
        Waiter { descriptor: None, idle: 0 }
    }

    /// Something has happened: naps begin anew.
    #[inline]
    pub fn refresh(&mut self) {
        self.idle = 0;
    }

    /// Whether the last wait was for nothing. A descriptor may be stale: on `net` 1.17 it stays readable
    /// from the first event on, and a wait on it would spin, until `fi_cq_sread` has been called.
    pub fn woke_in_vain(&mut self) -> bool {
        self.idle = self.idle.saturating_add(1);
        self.idle > 1
    }

    /// One yield or one nap, the longer the more often there was nothing; `wake` ends it.
    pub fn nap(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<()> {
        self.idle = self.idle.saturating_add(1);
        if self.idle <= YIELDS {
            std::thread::yield_now();
            return Ok(());
        }
        let growth = 1 << (self.idle - YIELDS - 1).min(8);
        let nap = FIRST_NAP.saturating_mul(growth).min(LONGEST_NAP).min(timeout);
        match wake {
            Some(wake) => doze(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], nap),
            None => doze(&mut [], nap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::wait::readable;
    use std::os::fd::AsFd;

    #[test]
    fn naps_end_at_once_when_there_is_something_to_wake_for() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        // Would it sleep for the whole of this time, the test would hang.
        let long = Duration::from_secs(100_000);
        let mut waiter = Waiter { descriptor: None, idle: YIELDS };
        waiter.nap(Some(reader.as_fd()), long).unwrap();
        let (silent, _held) = rustix::pipe::pipe().unwrap();
        readable(silent.as_fd(), Some(reader.as_fd()), long).unwrap();
        readable(reader.as_fd(), None, long).unwrap();
    }

    #[test]
    fn only_the_second_wait_without_an_event_is_in_vain() {
        let mut waiter = Waiter::descriptor(0);
        assert!(!waiter.woke_in_vain());
        assert!(waiter.woke_in_vain());
        waiter.refresh();
        assert!(!waiter.woke_in_vain());
    }
}
