//! The naive algorithms: the root puts to everybody by itself, one rank a round; backwards it takes from
//! everybody.
//!
//! What every other algorithm is compared with. The decision: the order of the ranks is such that read
//! backwards the root takes from those after it, nearest first, and then from those before it, nearest
//! first: what it has combined is always a run of ranks.

use super::tree::Load;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};

/// Broadcast or scatter by the root alone, from one rank's side: O(1) memory and time.
pub struct Linear {
    /// Whose plan.
    pub place: Place,
    /// Who puts.
    pub root: Rank,
    /// What it puts.
    pub load: Load,
}

impl Linear {
    /// The rank that is put to: first those before the root, then those after it from the last on.
    fn target(&self, i: u32) -> Rank {
        if i < self.root { i } else { self.place.size - 1 - (i - self.root) }
    }

    fn blocks_for(&self, target: Rank) -> Blocks {
        match self.load {
            Load::All(1) => Blocks::One(0),
            Load::All(count) => Blocks::Run { first: 0, count },
            Load::Parts => Blocks::One(target),
        }
    }

    fn is_root(&self) -> bool {
        self.place.rank == self.root
    }
}

impl Plan for Linear {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.place.size - 1
    }

    fn blocks(&self) -> u32 {
        match self.load {
            Load::All(count) => count,
            Load::Parts => self.place.size,
        }
    }

    fn round(&self, i: u32) -> Round {
        let target = self.target(i);
        let leg = |peer| Leg { peer, blocks: self.blocks_for(target) };
        Round {
            put: self.is_root().then(|| leg(target)),
            arrival: (self.place.rank == target).then(|| leg(self.root)),
            needs: Needs::Nothing,
            landing: Landing::Store,
        }
    }

    fn forwarded(&self, _: u32) -> Option<u32> {
        None
    }

    fn sources(&self) -> Vec<Rank> {
        if self.is_root() { Vec::new() } else { vec![self.root] }
    }

    fn targets(&self) -> Vec<Rank> {
        let targets = if self.is_root() { self.rounds() } else { 0 };
        (0..targets).map(|i| self.target(i)).collect()
    }
}
