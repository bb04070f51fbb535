//! One rank's send schedule (Algorithm 6), O(log p).
//!
//! Round by round, from the last, the rank's part of the ranks is halved, and what it sends is the block of the
//! part's beginning. Near the middle of a part of odd size that may be wrong (a violation, at most four for any
//! rank): there the block is looked up in the receiver's schedule.
//!
//! The decision: whether the rank is near the middle is one test for both halves, rarely true in the large
//! parts, so that the halving itself needs no jump.

use super::observer::Observer;
use super::receive::receive;
use super::{MAX_ROUNDS, Skips};
use crate::rank::Rank;

/// The send schedule of `rank`, whose baseblock is `baseblock`.
#[inline]
pub(super) fn send(
    skips: &Skips,
    rank: Rank,
    baseblock: u32,
    observer: &mut impl Observer,
) -> [i8; MAX_ROUNDS] {
    let q = skips.rounds();
    if rank == 0 {
        return std::array::from_fn(|k| k as i8);
    }
    let mut blocks = [0; MAX_ROUNDS];
    let mut part = Part { place: i64::from(rank), end: i64::from(skips.processes()), block: baseblock as i8 };
    for k in (1..q).rev() {
        let skip = i64::from(skips.skip(k));
        let near_middle = part.place <= skip && part.place + skip >= part.end;
        if near_middle && part.violates(skips, k, baseblock) {
            observer.violation();
        }
        let unsure = near_middle && part.is_unsure(skips, k);
        part = part.half(skip, k as i8 - q as i8);
        blocks[k as usize] =
            if unsure { receive(skips, skips.to(rank, k)).blocks[k as usize] } else { part.block };
    }
    blocks[0] = baseblock as i8 - q as i8;
    blocks
}

/// A part of the ranks: where in it the rank stands, how many it has, and the block its beginning has.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) place: i64,
    pub(super) end: i64,
    pub(super) block: i8,
}

impl Part {
    /// The half with the rank in it; the upper one begins at `skip` and has `upper_block`.
    #[inline]
    pub(super) fn half(self, skip: i64, upper_block: i8) -> Part {
        let upper = self.place >= skip;
        Part {
            place: if upper { self.place - skip } else { self.place },
            end: if upper { self.end - skip } else { self.end.min(skip) },
            block: if upper { upper_block } else { self.block },
        }
    }

    /// Whether the source looks up what a rank near the middle sends (a violation).
    fn violates(self, skips: &Skips, k: u32, baseblock: u32) -> bool {
        let (skip, below) = (i64::from(skips.skip(k)), i64::from(skips.skip(k - 1)));
        if self.place < skip {
            self.end >= below && !(k == 1 && baseblock > 0)
        } else {
            k != 1 && self.end - skip >= below && self.place + skip > self.end
        }
    }

    /// Whether a rank near the middle may have to send another block than its half's: fewer than violate.
    ///
    /// In the lower half the receiver's search comes to the part's beginning, and takes it, unless it was taken
    /// the round before, which the first rank's receiver may have done, or is out of this round's reach, as it
    /// is for the last rank where the skips are uneven.
    #[inline]
    pub(super) fn is_unsure(self, skips: &Skips, k: u32) -> bool {
        let (skip, below) = (i64::from(skips.skip(k)), i64::from(skips.skip(k - 1)));
        if self.place < skip {
            let uneven = skips.skip(k + 1) & 1 == 1;
            self.end >= below && ((self.place == 0 && k != 1) || (self.place + 1 == skip && uneven))
        } else {
            k != 1 && self.end - skip >= below && self.place + skip > self.end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::literal;
    use crate::schedule::observer::Counts;

    #[test]
    fn violations_are_those_of_the_source() {
        for p in (2..400).chain([2049]) {
            let skips = Skips::new(p);
            for rank in 0..p {
                let (mut ours, mut source) = (Counts::default(), literal::Counts::default());
                send(&skips, rank, skips.baseblock(rank), &mut ours);
                literal::send(&skips, rank, &mut source);
                assert_eq!(ours.violations, source.violations, "p {p}, rank {rank}");
            }
        }
    }
}
