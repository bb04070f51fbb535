//! All-to-all, from every rank a block for every rank: direct, by the ring or in pairs, and by storing and
//! forwarding, along the bits of a distance or in two phases.
//!
//! The block from `s` for `t` is `s p + t`. A rank's block for itself does not travel.

use crate::plan::digits::Digits;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, Side};
use crate::rank::{Place, Rank, Ways};

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

/// Each block by the digits that its distance is the sum of, the highest first; blocks that take the same step go together.
///
/// With [binary digits](Digits::binary) `⌈log₂ p⌉` rounds, each with about half of a rank's blocks: for powers of two of
/// ranks the hypercube's algorithm (Johnsson and Ho, doi:10.1109/12.29465), in which partners exchange; else that of Bruck, Ho,
/// Kipnis, Upfal and Weathersby, doi:10.1109/71.642949, with the circulant graph's skips in place of its powers of two. With
/// [two digits](Digits::two) a message to each row, and then one to each rank of a row, about `2 √p` in all, each of about
/// `√p` blocks: Bruck et al.'s radix of `√p`, for any number of ranks what Kumar et al. do on a square mesh.
/// Where a block lies on its way is [`Relay`](crate::plan::layout::Relay)'s. O(rounds) memory; a round's blocks O(1) each.
pub struct StoreAndForward {
    place: Place,
    digits: Digits,
    steps: Vec<Step>,
}

/// What a rank sends, and gets, in one round.
#[derive(Clone, Copy)]
struct Step {
    level: u32,
    /// How far it reaches.
    reach: u32,
    /// The first round of its level: the others wait for no more than that.
    first: u32,
}

impl StoreAndForward {
    /// The plan of `place.rank`.
    pub fn new(place: Place, digits: Digits) -> Self {
        let mut steps = Vec::new();
        for level in (0..digits.levels()).rev() {
            let first = steps.len() as u32;
            let reach = |digit| digit * digits.weight(level);
            steps.extend((1..=digits.largest(level)).map(|digit| Step { level, reach: reach(digit), first }));
        }
        StoreAndForward { place, digits, steps }
    }

    fn step(&self, i: u32) -> Step {
        self.steps[i as usize]
    }

    /// Names the blocks that take a step from `rank`: those of which the distance has that digit on its level, and which have
    /// come here by the digits above it.
    fn each_from(&self, rank: Rank, step: Step, each: &mut dyn FnMut(u32)) {
        let (p, ways) = (self.place.size, self.digits.ways());
        let mut gone = 0;
        while gone < p {
            let end = gone + self.digits.distances_from(gone, step.level + 1);
            let start = ways.before(rank, gone);
            let first = gone + step.reach;
            for distance in first..end.min(first + self.digits.weight(step.level)) {
                each(start * p + ways.after(start, distance));
            }
            gone = end;
        }
    }
}

impl Plan for StoreAndForward {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.steps.len() as u32
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.place.size
    }

    fn round(&self, i: u32) -> Round {
        let (rank, Step { reach, first, .. }) = (self.place.rank, self.step(i));
        let leg = |peer| Some(Leg { peer, blocks: Blocks::Many });
        Round {
            put: leg(self.digits.ways().after(rank, reach)),
            arrival: leg(self.digits.ways().before(rank, reach)),
            needs: if first == 0 { Needs::Nothing } else { Needs::AllBefore(first) },
            landing: Landing::Store,
        }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let step = self.step(i);
        let from = match side {
            Side::Put => self.place.rank,
            Side::Arrival => self.digits.ways().before(self.place.rank, step.reach),
        };
        self.each_from(from, step, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::promise::Promise;
    use crate::collective::Collective;
    use crate::plan::compose::InStep;
    use crate::plan::each_block;
    use crate::plan::layout::{HandedOn, Layout, Relay};
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
    fn a_relay_has_a_block_where_the_plan_puts_it_from_and_where_it_ends_and_nothing_lands_on_anything() {
        for digits in (1..40).flat_map(|p| [(p, Digits::binary(p)), (p, Digits::two(p))]) {
            let (p, digits) = digits;
            let places = || (0..p).map(|rank| Place { rank, size: p });
            let plans: Vec<_> = places().map(|place| StoreAndForward::new(place, digits)).collect();
            let relays: Vec<_> = places().map(|place| Relay::new(place, digits, 1)).collect();
            let starts = |rank: u32| (0..p).map(move |to| (rank, to));
            let starts =
                (0..p).flat_map(starts).map(|(rank, to)| (rank, relays[rank as usize].start(to).start));
            let mut used: std::collections::HashSet<_> = starts.collect();
            assert_eq!(used.len(), (p * p) as usize);
            let mut at = std::collections::HashMap::new();
            for i in 0..plans[0].rounds() {
                for (rank, plan) in (0..p).zip(&plans) {
                    each_block(plan, i, Side::Put, &mut |block| {
                        let (from, to) = (block / p, block % p);
                        let was = at.remove(&block).unwrap_or((from, relays[from as usize].start(to)));
                        assert_eq!(was, (rank, relays[rank as usize].source(block)));
                        let peer = plan.round(i).put.unwrap().peer;
                        let lands = relays[peer as usize].target(block);
                        assert!(
                            lands.end <= relays[peer as usize].size() && used.insert((peer, lands.start))
                        );
                        at.insert(block, (peer, lands));
                    });
                }
            }
            for (block, end) in at {
                let (from, to) = (block / p, block % p);
                assert_eq!(end, (to, relays[to as usize].end(from)));
                assert!(digits.steps(digits.distance(from, to)) > 0);
            }
        }
    }

    #[test]
    fn in_two_phases_there_are_about_two_roots_of_all_ranks_messages() {
        for p in 1..400 {
            let plan = StoreAndForward::new(Place { rank: p / 2, size: p }, Digits::two(p));
            let messages = plan.rounds();
            assert!(p == 1 || f64::from(messages + 2) <= 2.31 * f64::from(p).sqrt(), "{p} ranks: {messages}");
        }
    }
}
