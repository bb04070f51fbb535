//! Fences between one who acts often and one who acts seldom.
//!
//! Each writes its own word, then reads the other's, and at least one must see the other (Dekker): who enters a gate, and who
//! closes it; who puts, and who is about to sleep. Mostly both have a fence between, and who puts waits for its stores twice
//! at every message. A rank can also promise to see to it alone, and who puts to it keeps only the compiler from changing the order.
//! Two ranks on a Xeon guest, 8 bytes: a barrier takes 0.95 of the time, other calls 0.98 to 1.0.
//!
//! Whoever closes a gate then has the system fence for all (`membarrier`, which interrupts every processor that runs one of the
//! ranks): once in a rank's life. That would be too dear where many ranks of a node sleep while one is late, which would have to
//! serve them all. There nothing is lost but time if a notice is missed, and it is only while a store is on its way: so whoever lies
//! down looks once more, soon, before it sleeps for long ([`Bed::Soon`](crate::transport::wait::Bed)).
//!
//! What a rank promises it promises to all, before anybody reaches it, and for good.
#![forbid(unsafe_code)]

use super::primitive::{self, AtomicU32, Ordering};

/// Who fences between two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fences {
    /// Both sides, for themselves.
    Both,
    /// Who acts seldom, as it has promised.
    Seldom,
}

/// Whether a rank fences for all when it closes its gate, and looks again when it has lain down. Zeroed at first: it does not.
#[repr(transparent)]
pub struct Promise(AtomicU32);

impl Promise {
    /// Promises it, where this process can.
    pub fn make(&self) {
        self.0.store(primitive::may_be_fenced().into(), Ordering::Relaxed);
    }

    /// What follows for this process, which must be one that others can fence for.
    pub fn fences(&self) -> Fences {
        let promised = self.0.load(Ordering::Relaxed) != 0;
        if promised && primitive::may_be_fenced() { Fences::Seldom } else { Fences::Both }
    }
}

impl Fences {
    /// Between write and read of who acts often.
    #[inline(always)]
    pub fn often(self) {
        match self {
            Fences::Both => primitive::fence(),
            Fences::Seldom => primitive::keep_order(),
        }
    }

    /// Between write and read of who acts seldom.
    pub fn seldom(self) {
        primitive::fence();
        if self == Fences::Seldom {
            primitive::fence_for_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crossbeam_utils::CachePadded;

    use super::*;

    type Word = CachePadded<AtomicU32>;

    /// Two who act in turns of the same numbers: each writes its word, and reads the other's.
    #[derive(Default)]
    struct Two {
        words: [Word; 2],
        seen: [Word; 2],
        turns: [Word; 2],
    }

    impl Two {
        /// Waits until the other is in this turn, too.
        fn meet(&self, own: usize, turn: u32) {
            self.turns[own].store(turn, Ordering::Release);
            let mut looks = 0_u32;
            while self.turns[1 - own].load(Ordering::Acquire) < turn {
                looks += 1;
                // The other may have no core.
                if looks.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }

        /// How often of so many times neither saw the other.
        fn act(&self, own: usize, times: u32, between: impl Fn()) -> usize {
            let neither = |time: &u32| {
                self.words[own].store(0, Ordering::Relaxed);
                self.meet(own, 3 * time + 1);
                self.words[own].store(1, Ordering::Relaxed);
                between();
                self.seen[own].store(self.words[1 - own].load(Ordering::Relaxed), Ordering::Relaxed);
                self.meet(own, 3 * time + 2);
                let neither = self.seen.iter().all(|seen| seen.load(Ordering::Relaxed) == 0);
                self.meet(own, 3 * time + 3);
                neither
            };
            (0..times).filter(neither).count()
        }
    }

    fn misses(fences: Fences, times: u32) -> usize {
        let two = Two::default();
        std::thread::scope(|scope| {
            let often = scope.spawn(|| two.act(0, times, || fences.often()));
            two.act(1, times, || fences.seldom());
            often.join().unwrap()
        })
    }

    #[test]
    fn one_of_the_two_sees_the_other() {
        let times = if cfg!(miri) { 20 } else { 30_000 };
        assert_eq!(misses(Fences::Both, times), 0);
        let promise = Promise(AtomicU32::new(0));
        assert_eq!(promise.fences(), Fences::Both, "nothing is promised");
        promise.make();
        assert_eq!(misses(promise.fences(), times), 0, "{:?}", promise.fences());
    }
}
