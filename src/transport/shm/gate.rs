//! The gate to a rank's memory: once it is closed nobody writes there, or reads what is shown.
//!
//! A rank that shuts down gives memory back to its user, into which, or from which, peers could still be copying. So each
//! copy is made inside the gate, where every rank has a word of its own, which nobody else writes: to enter
//! costs one [fence](super::fences), which may be light. Whoever closes the gate waits until nobody is inside. The words are the ranks' own,
//! and no count, so that one who was killed inside is known, and not waited for.
#![forbid(unsafe_code)]

use crossbeam_utils::CachePadded;

use super::fences::{self, Fence};
use super::primitive::{AtomicU32, Ordering};

/// Whether a rank is inside a gate. Zeroed at first: it is not.
pub type Inside = CachePadded<AtomicU32>;

/// A gate as all ranks see it.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    closed: &'a AtomicU32,
    inside: &'a [Inside],
    fence: Fence,
}

/// A rank is inside until this is dropped.
#[must_use]
pub struct Entered<'a>(&'a AtomicU32);

impl<'a> Gate<'a> {
    /// With a word that is 0 at first, and one for each rank. Who enters makes the fence.
    pub fn new(closed: &'a AtomicU32, inside: &'a [Inside], fence: Fence) -> Gate<'a> {
        Gate { closed, inside, fence }
    }

    /// Enters as a rank that there is; `None` where the gate is closed.
    pub fn enter(&self, rank: usize) -> Option<Entered<'a>> {
        let entered = Entered(&self.inside[rank]);
        entered.0.store(1, Ordering::Relaxed);
        self.fence.make();
        (self.closed.load(Ordering::Relaxed) == 0).then_some(entered)
    }

    /// Lets nobody in any more. Who was before may still be [inside](Self::holds).
    pub fn close(&self) {
        self.closed.store(1, Ordering::Relaxed);
        fences::heavy();
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    const ROUNDS: u32 = if cfg!(miri) { 10 } else { 20_000 };

    /// Two threads that wait for each other.
    #[derive(Default)]
    struct Pair([CachePadded<AtomicU32>; 2]);

    impl Pair {
        fn meet(&self, own: usize) {
            let turn = self.0[own].load(Ordering::Relaxed) + 1;
            self.0[own].store(turn, Ordering::Release);
            while self.0[1 - own].load(Ordering::Acquire) < turn {
                thread::yield_now();
            }
        }
    }

    /// Both come to a gate at one time, again and again: with a light fence on either side they would miss each other.
    #[test]
    fn whoever_is_inside_is_seen_whichever_fence_was_made() {
        let light = fences::are_expedited().then_some(Fence::Light);
        for fence in [Fence::Full].into_iter().chain(light) {
            let gates: Vec<_> = (0..ROUNDS).map(|_| (AtomicU32::new(0), [Inside::default()])).collect();
            let gate = |round: u32| {
                let (closed, inside) = &gates[round as usize];
                Gate::new(closed, inside, fence)
            };
            let pair = Pair::default();
            let enter = |round| {
                pair.meet(0);
                let entered = gate(round).enter(0);
                pair.meet(0);
                entered.is_some()
            };
            let close = |round| {
                pair.meet(1);
                gate(round).close();
                let seen = gate(round).holds(0);
                pair.meet(1);
                seen
            };
            let (entered, seen): (Vec<_>, Vec<_>) = thread::scope(|scope| {
                let entered = scope.spawn(|| (0..ROUNDS).map(enter).collect());
                let seen = (0..ROUNDS).map(close).collect();
                (entered.join().unwrap(), seen)
            });
            let missed = entered.iter().zip(&seen).filter(|&(&entered, &seen)| entered && !seen).count();
            assert_eq!(missed, 0, "of {ROUNDS}, {fence:?}");
        }
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
                    if let Some(_entered) = Gate::new(&shared.closed, &shared.inside, Fence::Full).enter(1) {
                        shared.memory.with_mut(|_| ());
                    }
                }
            });
            let gate = Gate::new(&shared.closed, &shared.inside, Fence::Full);
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
