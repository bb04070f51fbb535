//! The gate to a rank's memory: once it is closed nobody writes there, or reads what is shown.
//!
//! A rank that shuts down gives memory back to its user, into which, or from which, peers could still be copying. So each
//! copy is made inside the gate, where every rank has a word of its own, which nobody else writes: to enter
//! costs a fence at most (see `fences`). Whoever closes the gate waits until nobody is inside. The words are the ranks' own,
//! and no count, so that one who was killed inside is known, and not waited for.
#![forbid(unsafe_code)]

use crossbeam_utils::CachePadded;

use super::fences::Fences;
use super::primitive::{AtomicU32, Ordering};

/// Whether a rank is inside a gate. Zeroed at first: it is not.
pub type Inside = CachePadded<AtomicU32>;

/// A gate as all ranks see it.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    closed: &'a AtomicU32,
    inside: &'a [Inside],
    fences: Fences,
}

/// A rank is inside until this is dropped.
#[must_use]
pub struct Entered<'a>(&'a AtomicU32);

impl<'a> Gate<'a> {
    /// With a word that is 0 at first, and one for each rank.
    pub fn new(closed: &'a AtomicU32, inside: &'a [Inside], fences: Fences) -> Gate<'a> {
        Gate { closed, inside, fences }
    }

    /// Enters as a rank that there is; `None` where the gate is closed.
    pub fn enter(&self, rank: usize) -> Option<Entered<'a>> {
        let entered = Entered(&self.inside[rank]);
        entered.0.store(1, Ordering::Relaxed);
        self.fences.often();
        (self.closed.load(Ordering::Relaxed) == 0).then_some(entered)
    }

    /// Lets nobody in any more. Who was before may still be [inside](Self::holds).
    pub fn close(&self) {
        self.closed.store(1, Ordering::Relaxed);
        self.fences.seldom();
    }

    /// Whether a rank is inside; what it did there is seen when it is not.
    pub fn holds(&self, rank: usize) -> bool {
        self.inside[rank].load(Ordering::Acquire) != 0
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_nobody_writes_behind_a_closed_gate() {
        struct Shared {
            closed: AtomicU32,
            inside: Vec<Inside>,
            memory: UnsafeCell<u32>,
        }
        loom::model(|| {
            let inside = (0..2).map(|_| Inside::default()).collect();
            let shared = Arc::new(Shared { closed: AtomicU32::new(0), inside, memory: UnsafeCell::new(0) });
            let putter = thread::spawn({
                let shared = shared.clone();
                move || {
                    if let Some(_entered) = Gate::new(&shared.closed, &shared.inside, Fences::Both).enter(1) {
                        shared.memory.with_mut(|_| ());
                    }
                }
            });
            let gate = Gate::new(&shared.closed, &shared.inside, Fences::Both);
            gate.close();
            while (0..2).any(|rank| gate.holds(rank)) {
                thread::yield_now();
            }
            // Loom itself checks that nobody else has it.
            shared.memory.with_mut(|_| ());
            putter.join().unwrap();
        });
    }
}
