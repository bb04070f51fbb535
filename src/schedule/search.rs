//! The receive schedule by search (Algorithms 4 and 5), O(log p).
//!
//! The search walks the sums of skips downwards from the rank and takes, for each round, the first it meets in
//! that round's reach whose last skip is not yet taken. It finds every schedule; `receive` asks it for those
//! only which cannot be read off, and `conditions` holds the two against each other.
//!
//! The decision: the skips still free are the bits of a word, so the next candidate is found by a mask and one
//! count of zeros, where a list would be walked; the pending levels are a small array, not the call stack.

use super::observer::Observer;
use super::{MAX_ROUNDS, Skips};
use crate::rank::Rank;

/// A skip's index for each round: whose block it is. `q` stands for the rank's own baseblock.
pub(super) type Hops = [u8; MAX_ROUNDS];

/// Finds the hops of rounds `0..rounds` for `rank`, whose baseblock is given; later ones are left 0.
pub(super) fn search(
    skips: &Skips,
    rank: Rank,
    baseblock: u32,
    rounds: u32,
    observer: &mut impl Observer,
) -> Hops {
    let p = u64::from(skips.processes());
    let mut search = Search {
        skips,
        target: p + u64::from(rank),
        free: !(1 << baseblock),
        last: 2 * p,
        round: 0,
        hops: [0; MAX_ROUNDS],
    };
    search.run(rounds, observer);
    search.hops
}

/// A level of the search: the candidates are `sum + skip[e]` for the free `e` in `open`.
#[derive(Clone, Copy, Default)]
struct Level {
    sum: u64,
    open: u64,
}

struct Search<'s> {
    skips: &'s Skips,
    /// The rank, one turn around the circle on.
    target: u64,
    /// The skips not yet taken, a bit each.
    free: u64,
    /// The sum that was taken last; the next must be smaller.
    last: u64,
    round: u32,
    hops: Hops,
}

impl Search<'_> {
    fn run(&mut self, rounds: u32, observer: &mut impl Observer) {
        let mut above = [(Level::default(), 0); MAX_ROUNDS + 1];
        let mut depth = 0;
        let mut level = Level { sum: 0, open: (2 << self.skips.rounds()) - 1 };
        while self.round < rounds {
            let mut found = self.candidate(level);
            if let Some(e) = found {
                let sum = level.sum + self.skip(e);
                if sum <= self.reach(self.round + 1) {
                    observer.recursive_call();
                    above[depth] = (level, e);
                    depth += 1;
                    level = Level { sum, open: (2 << e) - 1 };
                    continue;
                }
            }
            // A level without a candidate in this round's reach is left, and the skip that led to it is next.
            while found.is_none() || level.sum > self.reach(self.round + 1) {
                let Some(up) = depth.checked_sub(1) else { return };
                depth = up;
                let (left, e) = above[up];
                (level, found) = (left, Some(e));
            }
            if let Some(e) = found {
                level.open = self.take(level.sum, e);
            }
        }
    }

    /// The largest skip that leads from `level` no further than this round reaches.
    #[inline]
    fn candidate(&self, level: Level) -> Option<u32> {
        let bound = self.reach(self.round).min(self.last - 1);
        let room = bound.checked_sub(level.sum).filter(|&room| room > 0)?;
        let within = (2 << self.skips.largest_within(room)) - 1;
        (self.free & level.open & within).checked_ilog2()
    }

    /// Gives this round the skip `e`; what is left open on its level.
    #[inline]
    fn take(&mut self, sum: u64, e: u32) -> u64 {
        self.last = sum + self.skip(e);
        self.hops[self.round as usize] = e as u8;
        self.free &= !(1 << e);
        self.round += 1;
        (1 << e) - 1
    }

    /// The largest sum that round `k` can bring.
    #[inline]
    fn reach(&self, k: u32) -> u64 {
        self.target - self.skip(k)
    }

    #[inline]
    fn skip(&self, k: u32) -> u64 {
        u64::from(self.skips.skip(k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::literal;
    use crate::schedule::observer::Counts;

    #[test]
    fn recursive_calls_are_those_of_the_source() {
        for p in 1..600 {
            let skips = Skips::new(p);
            for rank in 0..p {
                let (mut ours, mut source) = (Counts::default(), literal::Counts::default());
                search(&skips, rank, skips.baseblock(rank), skips.rounds(), &mut ours);
                literal::receive(&skips, rank, &mut source);
                assert_eq!(ours.recursive_calls, source.recursive_calls, "p {p}, rank {rank}");
            }
        }
    }
}
