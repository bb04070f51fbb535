//! The skips: how far round `k` reaches around the circle (Algorithm 2), and a rank's digits in them.

use crate::rank::Rank;

/// The largest number of rounds in a phase, `⌈log₂ p⌉` for the largest `p`.
pub const MAX_ROUNDS: usize = 32;

/// The skips for one number of ranks: `skip[q] = p`, and each the half of the next, rounded up.
///
/// O(log p) to make, no heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skips {
    q: u32,
    skip: [u32; MAX_ROUNDS + 1],
}

impl Skips {
    /// The skips for `processes` ranks.
    ///
    /// # Panics
    /// If `processes` is 0.
    pub fn new(processes: u32) -> Self {
        assert!(processes > 0, "a communicator has at least one rank");
        let q = u32::BITS - (processes - 1).leading_zeros();
        let mut skip = [0; MAX_ROUNDS + 1];
        skip[q as usize] = processes;
        for k in (0..q as usize).rev() {
            skip[k] = skip[k + 1].div_ceil(2);
        }
        Skips { q, skip }
    }

    /// The number of ranks, `p`.
    #[inline]
    pub fn processes(&self) -> u32 {
        self.skip[self.q as usize]
    }

    /// The number of rounds in a phase, `q = ⌈log₂ p⌉`; 0 for one rank.
    #[inline]
    pub fn rounds(&self) -> u32 {
        self.q
    }

    /// How far round `k` reaches, for `k < q`; `skip(q)` is `p`.
    #[inline]
    pub fn skip(&self, k: u32) -> u32 {
        self.skip[k as usize]
    }

    /// The rank that `rank` puts to in round `k`.
    #[inline]
    pub fn to(&self, rank: Rank, k: u32) -> Rank {
        // One comparison where a general remainder would divide: this stands in the innermost loops.
        let room = self.processes() - self.skip(k);
        if rank < room { rank + self.skip(k) } else { rank - room }
    }

    /// The rank that puts to `rank` in round `k`.
    #[inline]
    pub fn from(&self, rank: Rank, k: u32) -> Rank {
        let skip = self.skip(k);
        if rank >= skip { rank - skip } else { rank + (self.processes() - skip) }
    }

    /// The block that `rank` receives first of all, which is the smallest of its digits; `q` for the root.
    ///
    /// `rank` is a sum of skips, from the largest down; the last one needed is its baseblock (Algorithm 3).
    /// O(log p), one step for each digit.
    #[inline]
    pub fn baseblock(&self, rank: Rank) -> u32 {
        let (mut rest, mut last) = (rank, self.q);
        while rest > 0 {
            last = self.largest_within(u64::from(rest));
            rest -= self.skip(last);
        }
        last
    }

    /// The largest `k <= q` with `skip[k] <= distance`, for `distance >= 1`.
    ///
    /// `2^(k-1) < skip[k] <= 2^k`, so the length of `distance` leaves two to choose from.
    #[inline]
    pub fn largest_within(&self, distance: u64) -> u32 {
        let k = distance.ilog2();
        if k >= self.q { self.q } else { k + u32::from(u64::from(self.skip(k + 1)) <= distance) }
    }

    /// The graph of the first `k` rounds alone, which is the one for `skip[k]` ranks.
    #[inline]
    pub(super) fn prefix(&self, k: u32) -> Skips {
        Skips { q: k, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(p: u32) -> Vec<u32> {
        let skips = Skips::new(p);
        (0..=skips.rounds()).map(|k| skips.skip(k)).collect()
    }

    #[test]
    fn the_skips_are_halves_rounded_up() {
        assert_eq!(all(1), [1]);
        assert_eq!(all(2), [1, 2]);
        assert_eq!(all(3), [1, 2, 3]);
        assert_eq!(all(17), [1, 2, 3, 5, 9, 17]);
        assert_eq!(all(64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(Skips::new(u32::MAX).rounds(), 32);
        assert_eq!(Skips::new(u32::MAX).skip(31), 1 << 31);
    }

    #[test]
    fn a_baseblock_is_what_algorithm_3_finds() {
        for p in (1..300).chain([1 << 20, (1 << 20) + 1, u32::MAX]) {
            let skips = Skips::new(p);
            for rank in (0..p.min(300)).chain(p.saturating_sub(300)..p) {
                let expected = crate::schedule::literal::baseblock(&skips, rank);
                assert_eq!(skips.baseblock(rank), expected, "p {p} rank {rank}");
            }
        }
    }

    #[test]
    fn to_and_from_undo_each_other() {
        for p in [1, 2, 3, 17, u32::MAX] {
            let skips = Skips::new(p);
            for rank in [0, p / 2, p - 1] {
                for k in 0..skips.rounds() {
                    assert_eq!(skips.from(skips.to(rank, k), k), rank);
                }
            }
        }
    }
}
