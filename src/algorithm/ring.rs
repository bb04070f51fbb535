//! Allgather on the ring (bucket): in each of `p - 1` rounds a rank hands its neighbour the part that it
//! got last; backwards reduce-scatter, and the two together allreduce.
//!
//! The least volume and next neighbours only, but as many rounds as ranks. Chan, Heimlich, Purkayastha
//! and van de Geijn, doi:10.1002/cpe.1206. In whole parts every round takes as long as the largest part;
//! where parts differ, blocks no longer than a mean part let the largest ones follow each other.

use std::sync::Arc;

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

/// The allgather, from one rank's side: O(1) memory and time. Block `b` of part `j` is `j n + b`.
///
/// The decision: parts without data are left out, but their rounds stay, so that every rank has the same.
pub struct Ring {
    place: Place,
    blocks: u32,
    present: Option<Arc<[Rank]>>,
}

impl Ring {
    /// The plan of `place.rank` for whole parts.
    pub fn whole(place: Place) -> Self {
        Ring { place, blocks: 1, present: None }
    }

    /// The same for parts of `blocks` blocks each (none is taken for one); `present` are the ranks that have
    /// any data, in rank order, `None` all.
    pub fn in_blocks(place: Place, blocks: u32, present: Option<Arc<[Rank]>>) -> Self {
        Ring { place, blocks: blocks.max(1), present }
    }

    /// Whether there is data in any part but this one: on the ring a rank is put all parts but its own.
    fn others_than(&self, own: Rank) -> bool {
        let mut with_data = (0..self.place.size).filter(|&part| self.has_data(part)).take(2);
        with_data.any(|part| part != own)
    }

    fn has_data(&self, part: Rank) -> bool {
        self.present.as_ref().is_none_or(|some| some.binary_search(&part).is_ok())
    }
}

impl Plan for Ring {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        (self.place.size - 1) * self.blocks
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.blocks
    }

    fn round(&self, i: u32) -> Round {
        let Step { put, arrival } = step(self.place, i / self.blocks);
        let block = |part| Blocks::One(part * self.blocks + i % self.blocks);
        let leg = |(peer, part)| self.has_data(part).then(|| Leg { peer, blocks: block(part) });
        let put = leg(put);
        // What came in the same round of the step before; of a part that is not there nothing came.
        let came = i.checked_sub(self.blocks).filter(|_| put.is_some());
        let needs = came.map_or(Needs::Nothing, Needs::Arrival);
        Round { put, arrival: leg(arrival), needs, landing: Landing::Store }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        i.checked_add(self.blocks).filter(|&next| next < self.rounds())
    }

    fn sources(&self) -> Vec<Rank> {
        self.others_than(self.place.rank).then(|| self.place.before(1)).into_iter().collect()
    }

    fn targets(&self) -> Vec<Rank> {
        self.others_than(self.place.after(1)).then(|| self.place.after(1)).into_iter().collect()
    }
}
