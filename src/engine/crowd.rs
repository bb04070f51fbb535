//! The threads of a rank that want its engine while one of them waits in it.
//!
//! One thread at a time carries the engine on, and sleeps in it; whoever else comes rings, and is let in. So two
//! threads can wait on two communicators at once, in whatever order the peers get there.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::Result;
use crate::lifeline::bell;

/// Who stands at the door.
pub struct Crowd {
    outside: AtomicU32,
    /// How many have come in.
    inside: AtomicU32,
    bell: OwnedFd,
    /// Set after the bell has been rung, so that it is never left ringing.
    rung: AtomicBool,
}

impl Crowd {
    /// Nobody.
    pub fn new() -> Result<Crowd> {
        Ok(Crowd {
            outside: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            bell: bell::new()?,
            rung: AtomicBool::new(false),
        })
    }

    /// Comes in by `enter`, which waits for the engine.
    pub fn come<R>(&self, enter: impl FnOnce() -> R) -> R {
        self.outside.fetch_add(1, Ordering::SeqCst);
        bell::ring(&self.bell);
        self.rung.store(true, Ordering::SeqCst);
        let inside = enter();
        self.outside.fetch_sub(1, Ordering::SeqCst);
        self.inside.fetch_add(1, Ordering::SeqCst);
        inside
    }

    /// Whether somebody waits outside.
    pub fn is_outside(&self) -> bool {
        self.outside.load(Ordering::Relaxed) > 0
    }

    /// Waits until as many have come in as were outside, and not for those who come again: the engine must be free.
    pub fn let_in(&self) {
        let (outside, before) = (self.outside.load(Ordering::SeqCst), self.inside.load(Ordering::SeqCst));
        while self.is_outside() && self.inside.load(Ordering::SeqCst).wrapping_sub(before) < outside {
            std::thread::yield_now();
        }
    }

    /// Readable once somebody has rung.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whoever has rung has been heard.
    pub fn hush(&self) {
        if self.rung.swap(false, Ordering::SeqCst) {
            bell::hush(&self.bell);
        }
    }
}
