//! Allgather on the ring (bucket): in each of `p - 1` rounds a rank hands its neighbour the part that it
//! got last; backwards reduce-scatter, and the two together allreduce.
//!
//! The least volume and next neighbours only, but as many rounds as ranks. Chan, Heimlich, Purkayastha
//! and van de Geijn, doi:10.1002/cpe.1206.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};

/// One step around a ring of places that each begin with an item of their own.
pub(super) struct Step {
    /// The place that is put to, and the item.
    pub put: (u32, u32),
    /// The place that puts, and the item.
    pub arrival: (u32, u32),
}

/// Step `s` of a place on a ring: it hands on the item that came from `s` places before.
pub(super) fn step(at: Place, s: u32) -> Step {
    Step { put: (at.after(1), at.before(s)), arrival: (at.before(1), at.before(s + 1)) }
}

/// The allgather, from one rank's side: O(1) memory and time.
pub struct Ring(pub Place);

impl Plan for Ring {
    fn place(&self) -> Place {
        self.0
    }

    fn rounds(&self) -> u32 {
        self.0.size - 1
    }

    fn blocks(&self) -> u32 {
        self.0.size
    }

    fn round(&self, i: u32) -> Round {
        let Step { put, arrival } = step(self.0, i);
        let leg = |(peer, part)| Some(Leg { peer, blocks: Blocks::One(part) });
        let needs = i.checked_sub(1).map_or(Needs::Nothing, Needs::Arrival);
        Round { put: leg(put), arrival: leg(arrival), needs, landing: Landing::Store }
    }

    fn sources(&self) -> Vec<Rank> {
        if self.rounds() == 0 { Vec::new() } else { vec![self.0.before(1)] }
    }

    fn targets(&self) -> Vec<Rank> {
        if self.rounds() == 0 { Vec::new() } else { vec![self.0.after(1)] }
    }
}
