//! Where each of some ranks stands in a list: found in O(log n), as a root has as many peers as there are ranks.
#![forbid(unsafe_code)]

use crate::rank::Rank;

/// Places by rank.
pub struct Index(Vec<(Rank, usize)>);

impl Index {
    /// Of ranks in the order of the list, each once.
    pub fn new(ranks: impl Iterator<Item = Rank>) -> Self {
        let mut places: Vec<_> = ranks.zip(0..).collect();
        places.sort_unstable();
        Index(places)
    }

    /// The rank's place.
    pub fn find(&self, rank: Rank) -> Option<usize> {
        let found = self.0.binary_search_by_key(&rank, |&(other, _)| other).ok()?;
        Some(self.0[found].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_found_where_it_stands_and_no_other() {
        let ranks = [7, 0, 3, 12];
        let index = Index::new(ranks.into_iter());
        for rank in 0..20 {
            assert_eq!(index.find(rank), ranks.iter().position(|&other| other == rank));
        }
    }
}
