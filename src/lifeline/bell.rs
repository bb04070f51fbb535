//! An eventfd as a bell: rung by one thread, it wakes another that sleeps in poll.
#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// A silent bell.
pub fn new() -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|e| Error::boot(format!("eventfd: {e}"), "raise `ulimit -n`"))
}

/// Makes the bell readable.
pub fn ring(bell: &OwnedFd) {
    // It can fail only with EAGAIN, when it already counts 2^64 - 2 rings: readable all the same.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Makes the bell silent.
pub fn hush(bell: &OwnedFd) {
    // It fails only with EAGAIN, when the bell is silent already.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}
