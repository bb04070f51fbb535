//! The ranks of a job by node: what a hierarchy is built on.
//!
//! Nodes are numbered in the order of their first ranks, so that all ranks, which know the same names, have
//! the same numbers. A node's ranks need not be consecutive.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::machine::Seat;
use crate::rank::Rank;

/// Which rank is on which node, and where in it. O(p) memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Of each rank.
    homes: Vec<Home>,
    /// The ranks of each node, rising.
    nodes: Vec<Vec<Rank>>,
}

/// What the ranks of a node are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Domains {
    /// NUMA domains.
    Numa,
    /// Last-level caches.
    Cache,
    /// So many pretended ones: contiguous runs of the node's ranks, of nearly equal length.
    Runs(u32),
}

impl Domains {
    /// `numa`, `cache`, or a number from 1 on.
    pub fn named(word: &str) -> Option<Domains> {
        match word {
            "numa" => Some(Domains::Numa),
            "cache" => Some(Domains::Cache),
            number => number.parse().ok().filter(|&count| count > 0).map(Domains::Runs),
        }
    }
}

impl fmt::Display for Domains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domains::Numa => f.write_str("numa"),
            Domains::Cache => f.write_str("cache"),
            Domains::Runs(count) => count.fmt(f),
        }
    }
}

/// One rank's node, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Home {
    node: u32,
    index: u32,
    seat: Seat,
}

impl Layout {
    /// From each rank's name of its node, and its seat there, in rank order. O(p).
    pub fn new<'a>(ranks: impl IntoIterator<Item = (&'a str, Seat)>) -> Layout {
        let mut numbers = HashMap::new();
        let mut layout = Layout { homes: Vec::new(), nodes: Vec::new() };
        for (rank, (name, seat)) in (0..).zip(ranks) {
            let node = *numbers.entry(name).or_insert(layout.nodes.len());
            if node == layout.nodes.len() {
                layout.nodes.push(Vec::new());
            }
            let index = layout.nodes[node].len() as u32;
            layout.nodes[node].push(rank);
            layout.homes.push(Home { node: node as u32, index, seat });
        }
        layout
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The node of a rank, from 0 on in the order of the nodes' first ranks. Panics beyond the last rank,
    /// as all below.
    pub fn node(&self, rank: Rank) -> u32 {
        self.homes[rank as usize].node
    }

    /// A rank's number within its node: 0 is the leader's.
    pub fn index(&self, rank: Rank) -> u32 {
        self.homes[rank as usize].index
    }

    /// The ranks of a node, rising; there is at least one. Panics beyond the last node.
    pub fn ranks_of(&self, node: u32) -> &[Rank] {
        &self.nodes[node as usize]
    }

    /// A node's first rank, which speaks for it to the other nodes.
    pub fn leader(&self, node: u32) -> Rank {
        self.ranks_of(node)[0]
    }

    /// Of each rank a number that those of its node share which are in its domain; none where it may run in several,
    /// or nothing is known. `None` stands for the NUMA domains of a node, or the last-level caches where a NUMA domain
    /// has several of them with ranks, and one of them several ranks. O(p).
    pub fn domains(&self, by: Option<Domains>) -> Vec<Option<u32>> {
        let own: Vec<Domains> =
            (0..self.nodes()).map(|node| by.unwrap_or_else(|| self.own_domains(node))).collect();
        let domain = |home: &Home| match own[home.node as usize] {
            Domains::Numa => home.seat.domain,
            Domains::Cache => home.seat.cache,
            Domains::Runs(count) => {
                let size = self.nodes[home.node as usize].len() as u64;
                Some((u64::from(home.index) * u64::from(count) / size) as u32)
            }
        };
        self.homes.iter().map(domain).collect()
    }

    fn own_domains(&self, node: u32) -> Domains {
        let seats = || self.ranks_of(node).iter().map(|&rank| self.seat(rank));
        let caches: HashSet<_> = seats().map(|seat| (seat.domain, seat.cache)).collect();
        let domains: HashSet<_> = seats().map(|seat| seat.domain).collect();
        let known = seats().all(|seat| seat.cache.is_some());
        let finer = (domains.len() + 1..self.ranks_of(node).len()).contains(&caches.len());
        if known && finer { Domains::Cache } else { Domains::Numa }
    }

    /// Where in its machine a rank may run.
    pub fn seat(&self, rank: Rank) -> &Seat {
        &self.homes[rank as usize].seat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(names: &[&str]) -> Layout {
        Layout::new(names.iter().map(|&name| (name, Seat::default())))
    }

    #[test]
    fn ranks_of_a_node_need_not_be_neighbours() {
        let layout = layout(&["b", "a", "b", "c", "a", "b"]);
        assert_eq!(layout.nodes(), 3);
        assert_eq!((0..6).map(|rank| layout.node(rank)).collect::<Vec<_>>(), [0, 1, 0, 2, 1, 0]);
        assert_eq!((0..6).map(|rank| layout.index(rank)).collect::<Vec<_>>(), [0, 0, 1, 0, 1, 2]);
        assert_eq!(layout.ranks_of(0), [0, 2, 5]);
        assert_eq!([0, 1, 2].map(|node| layout.leader(node)), [0, 1, 3]);
    }

    fn domains(seats: &[(u32, Option<u32>)], by: Option<Domains>) -> Vec<Option<u32>> {
        let seat = |&(domain, cache)| Seat { domain: Some(domain), cache, ..Seat::default() };
        Layout::new(seats.iter().map(|one| ("a", seat(one)))).domains(by)
    }

    #[test]
    fn caches_are_domains_where_a_numa_domain_has_several_that_are_shared() {
        let [numa, shared, alone] = [[0, 0, 0], [0, 0, 1], [0, 1, 2]];
        let natural = |caches: [u32; 3]| domains(&caches.map(|cache| (0, Some(cache))), None);
        assert_eq!(natural(numa), [Some(0); 3]);
        assert_eq!(natural(shared), shared.map(Some));
        assert_eq!(natural(alone), [Some(0); 3], "each has a cache of its own");
        let packages = [(0, Some(0)), (0, Some(0)), (1, Some(1)), (1, Some(1))];
        assert_eq!(domains(&packages, None), [0, 0, 1, 1].map(Some));
        let unknown = [(0, None), (0, Some(1)), (1, Some(2)), (1, Some(2))];
        assert_eq!(domains(&unknown, None), [0, 0, 1, 1].map(Some));
        assert_eq!(domains(&unknown, Some(Domains::Cache)), [None, Some(1), Some(2), Some(2)]);
        assert_eq!(domains(&unknown, Some(Domains::Runs(3))), [0, 0, 1, 2].map(Some));
    }

    #[test]
    fn domains_are_named_as_they_are_written() {
        for word in ["numa", "cache", "3"] {
            assert_eq!(Domains::named(word).unwrap().to_string(), word);
        }
        assert_eq!(["0", "-1", "node", ""].map(Domains::named), [None; 4]);
    }

    proptest! {
        #[test]
        fn node_and_index_lead_back_to_the_rank(names in proptest::collection::vec("[a-d]", 1..40)) {
            let layout = Layout::new(names.iter().map(|name| (name.as_str(), Seat::default())));
            for (rank, name) in (0..).zip(&names) {
                let node = layout.node(rank);
                prop_assert_eq!(layout.ranks_of(node)[layout.index(rank) as usize], rank);
                prop_assert_eq!(name, &names[layout.leader(node) as usize]);
            }
            let all: usize = (0..layout.nodes()).map(|node| layout.ranks_of(node).len()).sum();
            prop_assert_eq!(all, names.len());
        }
    }
}
