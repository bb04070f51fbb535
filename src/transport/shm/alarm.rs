//! Who sleeps, says so first; who puts, looks then. No wake-up is lost, and a rank that is awake costs none.
//!
//! Each side writes its own word, then reads the other's, with a fence between: of the two at least one sees
//! the other (Dekker). A sleeper that sees a notice does not sleep; a putter that sees a sleeper wakes it. (A putter may leave its
//! fence out where the sleeper looks again: see `fences`.)
#![forbid(unsafe_code)]

use super::fences::Fences;
use super::primitive::{AtomicU32, Ordering, fence};

/// Whether a rank sleeps, or is about to. Zeroed at first: it does not.
#[repr(transparent)]
#[derive(Default)]
pub struct Alarm(AtomicU32);

impl Alarm {
    /// The rank is about to sleep: it must look for notices once more after this. Whether this was so already.
    pub fn set(&self) -> bool {
        let was_set = self.0.swap(1, Ordering::Relaxed) == 1;
        fence();
        was_set
    }

    /// The rank is awake.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// After a notice: whether this putter is the one to wake the rank.
    pub fn must_ring(&self, fences: Fences) -> bool {
        fences.often();
        self.0.load(Ordering::Relaxed) == 1 && self.0.swap(0, Ordering::Relaxed) == 1
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[derive(Default)]
    struct Shared {
        alarm: Alarm,
        notices: AtomicU32,
        rings: AtomicU32,
    }

    #[test]
    fn loom_whoever_sleeps_on_a_notice_is_woken() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let putters: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.notices.fetch_add(1, Ordering::Release);
                        if shared.alarm.must_ring(Fences::Both) {
                            shared.rings.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            assert!(!shared.alarm.set());
            let seen = shared.notices.load(Ordering::Acquire);
            putters.into_iter().for_each(|putter| putter.join().unwrap());
            let rings = shared.rings.load(Ordering::Relaxed);
            assert!(rings <= 1, "one of several wakes it");
            assert!(seen == 2 || rings == 1, "it saw {seen} of 2 notices, sleeps, and nobody wakes it");
        });
    }
}
