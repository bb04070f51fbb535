//! Sleeping until a descriptor is readable, which several transports do.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Waits until `descriptor` or `wake` is readable, or `timeout` is over.
pub(super) fn readable(
    descriptor: BorrowedFd<'_>,
    wake: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> Result<()> {
    let descriptor = PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
    match wake {
        Some(wake) => doze(&mut [descriptor, PollFd::from_borrowed_fd(wake, PollFlags::IN)], timeout),
        None => doze(&mut [descriptor], timeout),
    }
}

/// Waits until one of some descriptors, or of none, is ready, or `timeout` is over.
pub(super) fn doze(descriptors: &mut [PollFd<'_>], timeout: Duration) -> Result<()> {
    // Longer than the clock can say is for ever; the caller comes back when a signal interrupts.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(descriptors, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(Error::transport("poll", e.to_string(), "raise `ulimit -n`, or free memory")),
    }
}
