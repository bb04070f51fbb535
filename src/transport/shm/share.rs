//! How far a put is that both ends carry: who takes which piece, and whether all are there.
//!
//! The source takes pieces from the front, the target from the back, until none is left: so both work for as long as
//! there is work, however fast each is, and one alone does all of it where the other is busy. As it takes time to begin,
//! an end takes many pieces at once (see [`Turn::some_of`]). All is one word, as a piece that both had taken, or neither,
//! would be the end. It lies in a chunk, and begins anew with each of the chunk's laps: who comes late finds that its lap
//! is over.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::primitive::{AtomicU64, Ordering};

/// The most pieces of a put.
pub const PIECES: u32 = (1 << BITS) - 1;

/// From the word's upper end: 28 bits of the lap, 12 of what was taken from the front, 12 from the back, 12 of what is
/// done.
const BITS: u32 = 12;
const FRONT: u64 = 1 << (2 * BITS);
const BACK: u64 = 1 << BITS;
const DONE: u64 = 1;
/// So few pieces are not divided any more, and so many are taken at once at most: who has taken some does nothing else.
const FEW: u64 = 4;
const AT_ONCE: u64 = 64;

/// The word of a put. Zeroed at first.
#[repr(transparent)]
#[derive(Default)]
pub struct Share(AtomicU64);

/// An end of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Source,
    Target,
}

/// A put's turn at a word: which lap it is, and how many pieces it has, at most [`PIECES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    lap: u64,
    pieces: u64,
}

impl Turn {
    /// In a lap, by its number.
    pub fn new(lap: u32, pieces: u32) -> Turn {
        debug_assert!(pieces <= PIECES);
        Turn { lap: u64::from(lap) << (3 * BITS), pieces: u64::from(pieces) }
    }

    /// How many pieces have been taken from the front, and from the back; all, where the lap is over.
    fn taken(self, word: u64) -> (u64, u64) {
        let of = |step| (word / step) & u64::from(PIECES);
        if self.is_over(word) { (self.pieces, 0) } else { (of(FRONT), of(BACK)) }
    }

    /// How many of the pieces that are left an end takes at once, which has taken some before, as the other may have:
    /// the first to come a half; all that is left, if the other has not come until now, as it must be busy; else so
    /// many that the last few go to whoever is through first.
    fn some_of(self, left: u64, own: u64, other: u64) -> u64 {
        let wanted = match (own, other) {
            (0, 0) => left.div_ceil(2),
            (_, 0) => left,
            _ if left <= FEW => left,
            _ => left - left / 4,
        };
        wanted.min(AT_ONCE)
    }

    fn is_over(self, word: u64) -> bool {
        (word ^ self.lap) >> (3 * BITS) != 0
    }
}

impl Share {
    /// A put begins, before anybody else knows of it.
    pub fn begin(&self, turn: Turn) {
        // Who sees by it that an earlier put is over sees its bytes.
        self.0.store(turn.lap, Ordering::Release);
    }

    /// The numbers of pieces that are this end's from now on, if any is left.
    pub fn take(&self, turn: Turn, end: End) -> Option<Range<u32>> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (front, back) = turn.taken(word);
            let left = turn.pieces.saturating_sub(front + back);
            if left == 0 {
                return None;
            }
            let (some, step, start) = match end {
                End::Source => {
                    let some = turn.some_of(left, front, back);
                    (some, FRONT, front)
                }
                End::Target => {
                    let some = turn.some_of(left, back, front);
                    (some, BACK, turn.pieces - back - some)
                }
            };
            match self.0.compare_exchange_weak(word, word + some * step, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(start as u32..(start + some) as u32),
                Err(now) => word = now,
            }
        }
    }

    /// Pieces that were taken are there; whether they were the last of all.
    pub fn finish(&self, turn: Turn, pieces: &Range<u32>) -> bool {
        let some = pieces.len() as u64;
        let before = self.0.fetch_add(some * DONE, Ordering::AcqRel);
        (before & u64::from(PIECES)) + some == turn.pieces
    }

    /// Whether all pieces are there; what was copied into them is seen then.
    pub fn is_done(&self, turn: Turn) -> bool {
        let word = self.0.load(Ordering::Acquire);
        turn.is_over(word) || word & u64::from(PIECES) == turn.pieces
    }

    /// Whether a piece is left that nobody has taken.
    pub fn has_some(&self, turn: Turn) -> bool {
        let (front, back) = turn.taken(self.0.load(Ordering::Relaxed));
        front + back < turn.pieces
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "many numbers, and no pointers")]
    fn pieces_are_taken_from_both_ends_and_each_once() {
        for pieces in [1, 2, 7, 32, PIECES] {
            for first in [End::Source, End::Target] {
                let (share, turn) = (Share::default(), Turn::new(u32::MAX, pieces));
                share.begin(turn);
                let mut taken = Vec::new();
                let mut end = first;
                while let Some(some) = share.take(turn, end) {
                    assert!(!share.is_done(turn));
                    taken.extend(some.clone());
                    assert_eq!(share.finish(turn, &some), taken.len() == pieces as usize);
                    end = if end == End::Source { End::Target } else { End::Source };
                }
                assert!(share.is_done(turn) && !share.has_some(turn));
                taken.sort_unstable();
                assert!(taken.into_iter().eq(0..pieces));
            }
        }
    }

    #[test]
    fn who_is_alone_takes_a_half_and_then_the_rest_and_who_is_not_leaves_some_for_the_other() {
        let share = Share::default();
        let long = Turn::new(3, PIECES);
        share.begin(long);
        assert_eq!(share.take(long, End::Target), Some(PIECES - AT_ONCE as u32..PIECES));
        let alone = Turn::new(1, 32);
        share.begin(alone);
        let take = |turn, end| share.take(turn, end);
        assert_eq!([take(alone, End::Source), take(alone, End::Source)], [Some(0..16), Some(16..32)]);
        let both = Turn::new(2, 32);
        share.begin(both);
        assert_eq!([take(both, End::Source), take(both, End::Target)], [Some(0..16), Some(20..32)]);
        assert_eq!([take(both, End::Source), take(both, End::Target)], [Some(16..20), None]);
    }

    #[test]
    fn who_comes_late_takes_nothing_of_the_next_put() {
        let (share, early, late) = (Share::default(), Turn::new(1, 1), Turn::new(2, 3));
        share.begin(early);
        assert_eq!(share.take(early, End::Target), Some(0..1));
        assert!(share.finish(early, &(0..1)));
        share.begin(late);
        assert_eq!(share.take(early, End::Source), None);
        assert!(share.is_done(early) && !share.has_some(early) && !share.is_done(late));
        assert_eq!(share.take(late, End::Source), Some(0..2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Shared {
        share: Share,
        /// What the pieces are of.
        bytes: Vec<UnsafeCell<()>>,
    }

    impl Shared {
        /// What this end has carried, and whether the last of all was among it.
        fn carry(&self, turn: Turn, end: End) -> (Vec<u32>, bool) {
            let (mut carried, mut last) = (Vec::new(), false);
            while let Some(pieces) = self.share.take(turn, end) {
                // Loom itself checks that nobody else has them.
                pieces.clone().for_each(|piece| self.bytes[piece as usize].with_mut(|_| ()));
                last = self.share.finish(turn, &pieces);
                carried.extend(pieces);
            }
            (carried, last)
        }
    }

    /// The target has carried all, and the chunk has another put, when the source comes back.
    #[test]
    fn loom_who_learns_late_that_a_put_is_over_takes_nothing_and_sees_its_bytes() {
        loom::model(|| {
            let bytes = vec![UnsafeCell::new(()), UnsafeCell::new(())];
            let shared = Arc::new(Shared { share: Share::default(), bytes });
            let (early, late) = (Turn::new(1, 1), Turn::new(2, 2));
            shared.share.begin(early);
            let target = thread::spawn({
                let shared = shared.clone();
                move || {
                    if shared.carry(early, End::Target).1 {
                        shared.share.begin(late);
                    }
                }
            });
            shared.carry(early, End::Source);
            while !shared.share.is_done(early) {
                thread::yield_now();
            }
            shared.bytes[0].with(|_| ());
            target.join().unwrap();
        });
    }

    #[test]
    fn loom_each_piece_is_carried_once_and_seen_when_all_are_done() {
        const PIECES: u32 = 7;
        loom::model(|| {
            let bytes = (0..PIECES).map(|_| UnsafeCell::new(())).collect();
            let shared = Arc::new(Shared { share: Share::default(), bytes });
            let turn = Turn::new(1, PIECES);
            shared.share.begin(turn);
            let source = thread::spawn({
                let shared = shared.clone();
                move || shared.carry(turn, End::Source)
            });
            let (mut carried, last) = shared.carry(turn, End::Target);
            while !shared.share.is_done(turn) {
                thread::yield_now();
            }
            shared.bytes.iter().for_each(|byte| byte.with(|_| ()));
            let (others, other_was_last) = source.join().unwrap();
            assert_ne!(last, other_was_last);
            carried.extend(others);
            carried.sort_unstable();
            assert!(carried.into_iter().eq(0..PIECES));
        });
    }
}
