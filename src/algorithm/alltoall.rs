//! All-to-all, from every rank a block for every rank: direct, by the ring or in pairs, and by storing and
//! forwarding.
//!
//! The block from `s` for `t` is `s p + t`. A rank's block for itself does not travel.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, Side};
use crate::rank::{Place, Rank, Ways};
use crate::schedule::Skips;

/// The most ranks of which the pairs can be numbered.
pub const MOST: u32 = u16::MAX as u32;

/// Every block straight to its rank, a rank a round: the least volume, and `p - 1` rounds. O(1) memory and
/// time.
pub struct Direct {
    /// Whose plan.
    pub place: Place,
    /// To whom in round `i`: who is `i + 1` away, around a ring of any number of ranks, or by bits of a power of two of
    /// them (pairwise exchange: Johnsson and Ho, doi:10.1109/12.29465).
    pub ways: Ways,
}

impl Direct {
    fn target(&self, i: u32) -> Rank {
        self.ways.after(self.place.rank, i + 1)
    }

    fn source(&self, i: u32) -> Rank {
        self.ways.before(self.place.rank, i + 1)
    }
}

fn pair(from: Rank, to: Rank, p: u32) -> Blocks {
    Blocks::One(from * p + to)
}

impl Plan for Direct {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.place.size - 1
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.place.size
    }

    fn round(&self, i: u32) -> Round {
        let Place { rank, size } = self.place;
        let (to, from) = (self.target(i), self.source(i));
        Round {
            put: Some(Leg { peer: to, blocks: pair(rank, to, size) }),
            arrival: Some(Leg { peer: from, blocks: pair(from, rank, size) }),
            needs: Needs::Nothing,
            landing: Landing::Store,
        }
    }

    fn forwarded(&self, _: u32) -> Option<u32> {
        None
    }

    fn sources(&self) -> Vec<Rank> {
        (0..self.rounds()).map(|i| self.source(i)).collect()
    }

    fn targets(&self) -> Vec<Rank> {
        (0..self.rounds()).map(|i| self.target(i)).collect()
    }
}

/// Each block by the skips that its distance is the sum of, the largest first: `⌈log₂ p⌉` rounds, each with
/// about half of a rank's blocks.
///
/// For powers of two of ranks the hypercube's algorithm (Johnsson and Ho, doi:10.1109/12.29465), in which partners exchange;
/// else that of Bruck, Ho, Kipnis, Upfal and Weathersby, doi:10.1109/71.642949, with the circulant graph's skips in place of its
/// powers of two.
/// Where a block lies on its way is [`Relay`](crate::plan::layout::Relay)'s. O(log p) memory, O(1) for a round.
pub struct StoreAndForward {
    place: Place,
    ways: Ways,
    skips: Skips,
}

impl StoreAndForward {
    /// The plan of `place.rank`.
    pub fn new(place: Place) -> Self {
        StoreAndForward { place, ways: Ways::among(place.size), skips: Skips::new(place.size) }
    }

    /// The skip of a round, by its number.
    fn level(&self, i: u32) -> u32 {
        self.rounds() - 1 - i
    }

    /// Names the blocks that go from `rank` over skip `k`: those of which the distance has that skip in it,
    /// and which have come here over the larger ones.
    fn each_from(&self, rank: Rank, k: u32, each: &mut dyn FnMut(u32)) {
        let p = self.place.size;
        let mut gone = 0;
        while gone < p {
            let len = self.distances_from(gone, k + 1);
            let start = self.ways.before(rank, gone);
            for distance in gone + self.skips.skip(k)..gone + len {
                each(start * p + self.ways.after(start, distance));
            }
            gone += len;
        }
    }

    /// How many distances have `gone` as the sum of their skips from `level` on: those from there.
    fn distances_from(&self, gone: u32, level: u32) -> u32 {
        let (mut rest, mut len) = (gone, self.place.size);
        for k in (level..self.rounds()).rev() {
            let skip = self.skips.skip(k);
            if rest >= skip {
                (rest, len) = (rest - skip, len - skip);
            } else {
                len = len.min(skip);
            }
        }
        len
    }
}

impl Plan for StoreAndForward {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.skips.rounds()
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.place.size
    }

    fn round(&self, i: u32) -> Round {
        let (rank, k) = (self.place.rank, self.level(i));
        let leg = |peer| Some(Leg { peer, blocks: Blocks::Many });
        Round {
            put: leg(self.ways.after(rank, self.skips.skip(k))),
            arrival: leg(self.ways.before(rank, self.skips.skip(k))),
            needs: if i == 0 { Needs::Nothing } else { Needs::AllBefore(i) },
            landing: Landing::Store,
        }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let k = self.level(i);
        let from = match side {
            Side::Put => self.place.rank,
            Side::Arrival => self.ways.before(self.place.rank, self.skips.skip(k)),
        };
        self.each_from(from, k, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::promise::Promise;
    use crate::collective::Collective;
    use crate::plan::compose::InStep;
    use crate::plan::each_block;
    use crate::plan::layout::{HandedOn, Layout, Relay, hops};
    use crate::plan::lockstep::{self, Claims};

    #[test]
    fn ranks_that_keep_in_step_wait_for_nothing_that_does_not_come() {
        for p in (1u32..40).chain([64, 65]) {
            for ways in [Ways::Ring(p), Ways::among(p)] {
                let plan = |rank| InStep(Direct { place: Place { rank, size: p }, ways });
                let plans: Vec<_> = (0..p).map(plan).collect();
                let promise =
                    Promise { collective: Collective::Alltoall, p, root: 0, blocks: p * p, present: None };
                let claims = Claims { ordered: true, near: false, exchanges: false };
                let (start, end) = (|rank| promise.start(rank), |rank| promise.end(rank));
                lockstep::check(&plans, claims, start, end).unwrap();
            }
        }
    }

    #[test]
    fn a_relay_has_a_block_where_the_plan_puts_it_from_and_where_it_ends() {
        for p in 1..40 {
            let plans: Vec<_> = (0..p).map(|rank| StoreAndForward::new(Place { rank, size: p })).collect();
            let relays: Vec<_> = (0..p).map(|rank| Relay::new(Place { rank, size: p }, 1)).collect();
            let skips = Skips::new(p);
            let mut at = std::collections::HashMap::new();
            for i in 0..plans[0].rounds() {
                for (rank, plan) in (0..p).zip(&plans) {
                    each_block(plan, i, Side::Put, &mut |block| {
                        let (from, to) = (block / p, block % p);
                        let was = at.remove(&block).unwrap_or((from, relays[from as usize].start(to)));
                        assert_eq!(was, (rank, relays[rank as usize].source(block)));
                        let peer = plan.round(i).put.unwrap().peer;
                        at.insert(block, (peer, relays[peer as usize].target(block)));
                    });
                }
            }
            for (block, end) in at {
                let (from, to) = (block / p, block % p);
                assert_eq!(end, (to, relays[to as usize].end(from)));
                assert!(hops(&skips, Ways::among(p).distance(from, to)) > 0);
            }
        }
    }
}
