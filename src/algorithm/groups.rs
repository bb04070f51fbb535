//! Ranks in groups, as a machine has them on nodes: what an algorithm that goes group by group must know.
//!
//! It knows no machine: whoever makes it says which ranks belong together.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::rank::{Place, Rank};
use crate::schedule::{Graph, Skips};

/// A partition of ranks into groups, none of them empty. O(p) memory; all plans of a communicator share one.
#[derive(Debug)]
pub struct Groups {
    group_of: Vec<u32>,
    /// The ranks of each group, rising.
    members: Vec<Arc<[Rank]>>,
    /// The rounds of the circulant graph of the largest group.
    rounds_within: u32,
    among: Arc<Graph>,
    within: Vec<OnceLock<Arc<Graph>>>,
}

impl Groups {
    /// From any number for each rank, in rank order: the same for those that belong together. Groups are
    /// numbered by their first ranks. O(p log p).
    pub fn new<N: Ord>(numbers: impl IntoIterator<Item = N>) -> Groups {
        let mut found = std::collections::BTreeMap::new();
        let mut members: Vec<Vec<Rank>> = Vec::new();
        let mut group_of = Vec::new();
        for (rank, number) in (0..).zip(numbers) {
            let group = *found.entry(number).or_insert(members.len());
            if group == members.len() {
                members.push(Vec::new());
            }
            members[group].push(rank);
            group_of.push(group as u32);
        }
        let largest = members.iter().map(Vec::len).max().unwrap_or(1) as u32;
        Groups {
            group_of,
            rounds_within: Skips::new(largest).rounds(),
            among: Arc::new(Graph::new(members.len().max(1) as u32)),
            within: members.iter().map(|_| OnceLock::new()).collect(),
            members: members.into_iter().map(Arc::from).collect(),
        }
    }

    /// Every rank by itself.
    pub fn alone(p: u32) -> Groups {
        Groups::new(0..p)
    }

    /// At most so many groups, runs of nearly equal length.
    pub fn runs(p: u32, count: u32) -> Groups {
        Groups::new((0..p).map(|rank| u64::from(rank) * u64::from(count.max(1)) / u64::from(p)))
    }

    /// As unlike runs as groups can be: of unequal sizes, their ranks scattered.
    pub fn scattered(p: u32) -> Groups {
        let count = p.isqrt().max(1);
        Groups::new((0..p).map(|rank| if rank < count { rank } else { (rank * rank / 3) % count }))
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.group_of.len() as u32
    }

    /// How many groups there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Whether there are several groups, and one of several ranks.
    pub fn is_nested(&self) -> bool {
        self.count() > 1 && self.count() < self.ranks()
    }

    /// The group of a rank. Panics beyond the last rank.
    pub fn of(&self, rank: Rank) -> u32 {
        self.group_of[rank as usize]
    }

    /// The ranks of a group, rising.
    pub fn members(&self, group: u32) -> &Arc<[Rank]> {
        &self.members[group as usize]
    }

    /// A rank's place in its group.
    pub fn place_within(&self, rank: Rank) -> Place {
        let members = self.members(self.of(rank));
        let index = members.partition_point(|&member| member < rank);
        Place { rank: index as Rank, size: members.len() as u32 }
    }

    /// What each group's ranks have together.
    pub fn sums(&self, of: impl Fn(Rank) -> usize) -> Vec<usize> {
        self.members.iter().map(|members| members.iter().map(|&rank| of(rank)).sum()).collect()
    }

    /// `⌈log₂ k⌉` of the largest group's k ranks.
    pub fn rounds_within(&self) -> u32 {
        self.rounds_within
    }

    /// The circulant graph whose ranks are the groups.
    pub fn graph_among(&self) -> &Arc<Graph> {
        &self.among
    }

    /// The circulant graph of one group's ranks.
    pub fn graph_within(&self, group: u32) -> &Arc<Graph> {
        let size = self.members(group).len() as u32;
        self.within[group as usize].get_or_init(|| Arc::new(Graph::new(size)))
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.members.iter().map(|members| members.len().to_string()).collect();
        write!(f, "groups of {}", sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_found_where_it_belongs() {
        let groups = Groups::new(["b", "a", "b", "c", "a", "b"]);
        assert_eq!((groups.count(), groups.rounds_within()), (3, 2));
        assert_eq!((0..6).map(|rank| groups.of(rank)).collect::<Vec<_>>(), [0, 1, 0, 2, 1, 0]);
        assert_eq!(groups.place_within(5), Place { rank: 2, size: 3 });
        assert_eq!(**groups.members(1), [1, 4]);
    }

    #[test]
    fn groups_are_nested_where_some_ranks_share_one_and_others_do_not() {
        let nested = |groups: Groups| groups.is_nested();
        assert!(!nested(Groups::alone(5)) && !nested(Groups::runs(5, 1)) && !nested(Groups::alone(1)));
        assert!(nested(Groups::runs(5, 2)) && nested(Groups::scattered(5)));
    }
}
