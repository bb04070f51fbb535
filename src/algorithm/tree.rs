//! Minimum spanning tree on the circulant graph: broadcast and scatter in `⌈log₂ p⌉` rounds, without
//! recursion; backwards reduce and gather.
//!
//! The ranks, counted from the root, are a range that is split at the largest skip, then both halves at
//! the next one, down to single ranks; the head of a range that is longer than the skip puts to the head
//! of its upper half. Chan, Heimlich, Purkayastha and van de Geijn, doi:10.1002/cpe.1206.
//!
//! The decision: ranges are split at the skips instead of in the middle, so that every edge is one of
//! the circulant graph, and a rank's heads are its digits: its round follows from its baseblock.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};
use crate::schedule::Skips;

/// What goes down the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// So many blocks, all of them to everybody.
    All(u32),
    /// A part for each rank, and to each subtree the parts of its ranks.
    Parts,
}

/// The tree, from one rank's side: O(log p) memory, O(1) for a round.
pub struct Tree {
    place: Place,
    load: Load,
    /// Whether each subtree gets the parts of all ranks but its own.
    of_others: bool,
    skips: Skips,
    /// The level at which this rank becomes a head, its smallest digit; `q` for the root.
    level: u32,
    /// The ranks from this one on that it is the head of when it becomes one.
    len: u32,
}

impl Tree {
    /// The plan of `place.rank`; `root < place.size`.
    pub fn new(place: Place, root: Rank, load: Load) -> Self {
        let skips = Skips::new(place.size);
        let rank = place.seen_from(root).rank;
        let (mut head, mut len) = (0, place.size);
        for k in (0..skips.rounds()).rev() {
            if rank - head < skips.skip(k) {
                len = len.min(skips.skip(k));
            } else {
                (head, len) = (head + skips.skip(k), len - skips.skip(k));
            }
            if head == rank {
                break;
            }
        }
        let level = skips.baseblock(rank);
        Tree { place, load, of_others: false, skips, level, len: if rank == 0 { place.size } else { len } }
    }

    /// From rank 0 to each subtree the parts of all other ranks, after its own have come up.
    pub fn of_others(place: Place) -> Self {
        Tree { of_others: true, ..Tree::new(place, 0, Load::Parts) }
    }

    /// What goes to the head of `len` ranks.
    fn blocks_for(&self, head: Rank, len: u32) -> Blocks {
        let p = self.place.size;
        let (first, count) = match self.load {
            Load::All(count) => (0, count),
            Load::Parts if self.of_others => ((head + len) % p, p - len),
            Load::Parts => (head, len),
        };
        if count == 1 { Blocks::One(first) } else { Blocks::Run { first, count } }
    }

    /// How many ranks this one gives away at a level: those from the skip on.
    fn upper_half(&self, k: u32) -> u32 {
        if k >= self.level {
            return 0;
        }
        self.len.min(self.skips.skip(k + 1)).saturating_sub(self.skips.skip(k))
    }
}

impl Plan for Tree {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.skips.rounds()
    }

    fn blocks(&self) -> u32 {
        match self.load {
            Load::All(count) => count,
            Load::Parts => self.place.size,
        }
    }

    fn round(&self, i: u32) -> Round {
        let k = self.rounds() - 1 - i;
        let put = Some(self.upper_half(k)).filter(|&len| len > 0).map(|len| {
            let peer = self.skips.to(self.place.rank, k);
            Leg { peer, blocks: self.blocks_for(peer, len) }
        });
        let arrival = (k == self.level).then(|| {
            let peer = self.skips.from(self.place.rank, k);
            Leg { peer, blocks: self.blocks_for(self.place.rank, self.len) }
        });
        let needs = match self.rounds().checked_sub(self.level + 1) {
            // With what has come up.
            Some(_) if put.is_some() && self.of_others => Needs::AllBefore(i),
            Some(arrived) if put.is_some() => Needs::Arrival(arrived),
            _ => Needs::Nothing,
        };
        Round { put, arrival, needs, landing: Landing::Store }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        (i + 1..self.rounds()).find(|later| self.upper_half(self.rounds() - 1 - later) > 0)
    }
}

/// All blocks from rank 0 to another rank, in one round; of none where that is rank 0 itself.
pub struct HandOver {
    /// Whose plan.
    pub place: Place,
    /// To whom.
    pub to: Rank,
    /// How many blocks there are, at least 1.
    pub blocks: u32,
}

impl Plan for HandOver {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        u32::from(self.to != 0)
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, _: u32) -> Round {
        let leg = |me, peer| {
            let blocks = Blocks::Run { first: 0, count: self.blocks };
            (self.place.rank == me).then_some(Leg { peer, blocks })
        };
        Round {
            put: leg(0, self.to),
            arrival: leg(self.to, 0),
            needs: Needs::Nothing,
            landing: Landing::Store,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_has_one_parent_and_subtrees_are_runs() {
        for p in 1..=130 {
            let mut heads = vec![0; p as usize];
            for rank in 0..p {
                let tree = Tree::new(Place { rank, size: p }, 0, Load::Parts);
                for i in 0..tree.rounds() {
                    if let Some(Leg { peer, blocks }) = tree.round(i).put {
                        heads[peer as usize] += 1;
                        let (first, count) = match blocks {
                            Blocks::Run { first, count } => (first, count),
                            Blocks::One(first) => (first, 1),
                            other => panic!("{other:?}"),
                        };
                        assert!(first == peer && first + count <= p, "p = {p}, rank {rank}");
                    }
                }
            }
            assert!(heads[0] == 0 && heads[1..].iter().all(|&heads| heads == 1), "p = {p}");
        }
    }
}
