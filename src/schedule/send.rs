//! One rank's send schedule (Algorithm 6), O(log p).
//!
//! Round by round, from the last, the rank's part of the ranks is halved, and what it sends is the block of the
//! part's beginning. Near the middle of a part of odd size that may be wrong (a violation, at most four for any
//! rank): there the block is looked up in the receiver's schedule.
//!
//! The decision: whether the rank is near the middle is one test for both halves, rarely true in the large
//! parts, so that the halving itself needs no jump.

use super::observer::Observer;
use super::part::Part;
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
