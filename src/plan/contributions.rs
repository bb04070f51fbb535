//! Sets of ranks: in the lockstep check they stand in a block for its data.

use std::sync::Arc;

use crate::rank::Rank;

/// The ranks whose contributions are in a block; at least one. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contributions(Arc<[u64]>);

impl Contributions {
    /// Of one rank.
    pub fn of(rank: Rank) -> Self {
        let word = |i: u32| if i == rank / 64 { 1 << (rank % 64) } else { 0 };
        Contributions((0..rank / 64 + 1).map(word).collect())
    }

    /// Of all of `p` ranks, at least one.
    pub fn all(p: u32) -> Self {
        let word = |i: u32| u64::MAX >> (64 - (p - 64 * i).min(64));
        Contributions((0..p.div_ceil(64)).map(word).collect())
    }

    /// Whether a rank is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&*other.0).any(|(a, b)| a & b != 0)
    }

    /// The ranks that are in either.
    pub fn union(&self, other: &Self) -> Self {
        let word = |words: &[u64], i: usize| words.get(i).copied().unwrap_or(0);
        let len = self.0.len().max(other.0.len());
        Contributions((0..len).map(|i| word(&self.0, i) | word(&other.0, i)).collect())
    }

    /// The first and the last rank, where all between them are in it as well.
    pub fn run(&self) -> Option<(Rank, Rank)> {
        let first = self.0.iter().position(|&word| word != 0)?;
        let first = 64 * first as u32 + self.0[first].trailing_zeros();
        let last = 64 * self.0.len() as u32 - 1 - self.0[self.0.len() - 1].leading_zeros();
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        (count == last - first + 1).then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(ranks: impl IntoIterator<Item = Rank>) -> Contributions {
        ranks.into_iter().map(Contributions::of).reduce(|all, one| all.union(&one)).unwrap()
    }

    #[test]
    fn all_are_each_of_them_together() {
        for p in [1, 2, 63, 64, 65, 128, 200] {
            assert_eq!(Contributions::all(p), these(0..p));
        }
    }

    #[test]
    fn a_run_has_no_rank_left_out() {
        assert_eq!(these(60..=130).run(), Some((60, 130)));
        assert_eq!(these([7]).run(), Some((7, 7)));
        assert_eq!(these([5, 7]).run(), None);
        assert_eq!(these([1, 100]).run(), None);
    }

    #[test]
    fn sets_overlap_where_they_share_a_rank() {
        assert!(these(0..100).overlaps(&these([99, 200])));
        assert!(!these(0..100).overlaps(&these(100..200)));
    }
}
