//! On the hypercube: allgather by recursive doubling, backwards reduce-scatter by recursive halving, the
//! two together allreduce; and allreduce of whole vectors by recursive doubling.
//!
//! In round `k` ranks that differ in bit `k` alone exchange all that they have. Thakur, Rabenseifner and
//! Gropp, doi:10.1177/1094342005051521. The first needs a power of two of ranks; the
//! last takes any number.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::{Place, Rank};

/// Allgather by recursive doubling, from one rank's side; of a power of two of ranks. O(1) memory and time.
pub struct Hypercube(pub Place);

impl Plan for Hypercube {
    fn place(&self) -> Place {
        self.0
    }

    fn rounds(&self) -> u32 {
        self.0.size.ilog2()
    }

    fn blocks(&self) -> u32 {
        self.0.size
    }

    fn round(&self, k: u32) -> Round {
        let peer = self.0.rank ^ (1 << k);
        // What a rank has before round k are the parts of those that differ from it in lower bits only.
        let parts_of = |rank: Rank| match k {
            0 => Blocks::One(rank),
            _ => Blocks::Run { first: rank >> k << k, count: 1 << k },
        };
        Round {
            put: Some(Leg { peer, blocks: parts_of(self.0.rank) }),
            arrival: Some(Leg { peer, blocks: parts_of(peer) }),
            needs: if k == 0 { Needs::Nothing } else { Needs::AllBefore(k) },
            landing: Landing::Store,
        }
    }
}

/// Allreduce of a whole vector by recursive doubling, from one rank's side; of any number of ranks, and in
/// their order. O(1) memory and time.
///
/// Of `p` ranks `2^d` take part, the largest such number. The others are the odd ones among the first
/// `2 (p - 2^d)`: they give what they have to the rank before them and get the result from it, so that
/// what is combined is always that of a run of ranks.
pub struct RecursiveDoubling {
    place: Place,
    /// How many ranks do not take part.
    extra: u32,
}

impl RecursiveDoubling {
    /// The plan of `place.rank`.
    pub fn new(place: Place) -> Self {
        RecursiveDoubling { place, extra: place.size - (1 << place.size.ilog2()) }
    }

    /// The rounds before the first exchange, and after the last.
    fn aside(&self) -> u32 {
        u32::from(self.extra > 0)
    }

    /// The number of a rank among those that take part; none for the others.
    fn corner(&self) -> Option<u32> {
        let rank = self.place.rank;
        match rank.checked_sub(2 * self.extra) {
            Some(beyond) => Some(self.extra + beyond),
            None if rank.is_multiple_of(2) => Some(rank / 2),
            None => None,
        }
    }

    fn rank_of(&self, corner: u32) -> Rank {
        if corner < self.extra { 2 * corner } else { corner + self.extra }
    }

    fn exchange(&self, k: u32) -> (Option<Rank>, Landing) {
        let peer = self.corner().map(|corner| self.rank_of(corner ^ (1 << k)));
        let theirs_come_first = peer.is_some_and(|peer| peer < self.place.rank);
        (peer, if theirs_come_first { Landing::FoldBefore } else { Landing::Fold })
    }

    /// The rank before or after this one that does not take part, or that takes part in its place.
    fn neighbour(&self, odd: bool) -> Option<Rank> {
        let is_mine = self.place.rank < 2 * self.extra && self.place.rank.is_multiple_of(2) != odd;
        is_mine.then_some(self.place.rank ^ 1)
    }
}

impl Plan for RecursiveDoubling {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.place.size.ilog2() + 2 * self.aside()
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn round(&self, i: u32) -> Round {
        let (odd, even) = (self.neighbour(true), self.neighbour(false));
        let (to, from, landing) = match i.checked_sub(self.aside()) {
            None => (odd, even, Landing::Fold),
            Some(k) if k < self.place.size.ilog2() => {
                let (peer, landing) = self.exchange(k);
                (peer, peer, landing)
            }
            Some(_) => (even, odd, Landing::Store),
        };
        let leg = |peer| Leg { peer, blocks: Blocks::One(0) };
        let needs = if i == 0 { Needs::Nothing } else { Needs::AllBefore(i) };
        Round { put: to.map(leg), arrival: from.map(leg), needs, landing }
    }
}
