//! One block from a rank to another one and back, while all others rest: what a put costs on this network.
//!
//! Not a collective that users call: the number of blocks follows from what it measures.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};

/// The ping-pong, from one rank's side; of one rank alone it has no rounds.
pub struct PingPong {
    /// Whose side it is.
    pub place: Place,
    /// Who begins.
    pub one: Rank,
    /// The other rank.
    pub peer: Rank,
}

impl PingPong {
    fn leg(&self, from: Rank, to: Rank) -> (Option<Leg>, Option<Leg>) {
        let leg = |me, peer| (self.place.rank == me).then_some(Leg { peer, blocks: Blocks::One(0) });
        (leg(from, to), leg(to, from))
    }
}

impl Plan for PingPong {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        if self.place.size == 1 { 0 } else { 2 }
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn round(&self, i: u32) -> Round {
        let (put, arrival) =
            if i == 0 { self.leg(self.one, self.peer) } else { self.leg(self.peer, self.one) };
        let needs = if i == 0 { Needs::Nothing } else { Needs::AllBefore(i) };
        Round { put, arrival, needs, landing: Landing::Store }
    }
}
