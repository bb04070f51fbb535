//! Allgather of whole parts in `⌈log₂ p⌉` rounds with the least volume, for any number of ranks; backwards
//! reduce-scatter, and the two together allreduce.
//!
//! With one block a root, what round `k` of the all-broadcast brings to a rank are the parts of the roots
//! at distances `skip[k]` to `skip[k + 1] - 1` before it: a cyclic run, for which no table is needed.
//! Träff, arXiv 2410.14234.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};
use crate::schedule::Skips;

/// The allgather of one block a rank, from one rank's side: O(log p) memory, O(1) for a round.
pub struct OneBlock {
    place: Place,
    skips: Skips,
}

impl OneBlock {
    /// The plan of `place.rank`.
    pub fn new(place: Place) -> Self {
        OneBlock { place, skips: Skips::new(place.size) }
    }

    /// How many parts travel in round `k`.
    fn count(&self, k: u32) -> u32 {
        self.skips.skip(k + 1) - self.skips.skip(k)
    }

    /// The parts that end with that of `last`.
    fn run(&self, k: u32, last: Rank) -> Blocks {
        let count = self.count(k);
        Blocks::Run { first: Place { rank: last, ..self.place }.before(count - 1), count }
    }
}

impl Plan for OneBlock {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.skips.rounds()
    }

    fn blocks(&self) -> u32 {
        self.place.size
    }

    fn round(&self, k: u32) -> Round {
        let (rank, source) = (self.place.rank, self.skips.from(self.place.rank, k));
        let needs = match self.count(k) - 1 {
            0 => Needs::Nothing,
            farthest => Needs::AllBefore(self.skips.largest_within(farthest.into()) + 1),
        };
        Round {
            put: Some(Leg { peer: self.skips.to(rank, k), blocks: self.run(k, rank) }),
            arrival: Some(Leg { peer: source, blocks: self.run(k, source) }),
            needs,
            landing: Landing::Store,
        }
    }

    fn forwarded(&self, k: u32) -> Option<u32> {
        (k + 1..self.rounds()).find(|&later| self.count(later) > self.skips.skip(k))
    }
}
