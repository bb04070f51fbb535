//! The ranks of a job by node: what a hierarchy is built on.
//!
//! Nodes are numbered in the order of their first ranks, so that all ranks, which know the same names, have
//! the same numbers. A node's ranks need not be consecutive.

use std::collections::HashMap;

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
