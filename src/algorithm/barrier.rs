//! Barrier by dissemination: in round k a rank tells the rank `skip[k]` after it all that it has heard.
//!
//! After `q = ⌈log₂ p⌉` rounds it has heard of everybody, as every distance below p is a sum of
//! different skips. Hensgen, Finkel and Manber, doi:10.1007/BF01379320, on the circulant graph's
//! skips, so that a barrier needs no other neighbours than a broadcast.

use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round};
use crate::rank::Place;
use crate::schedule::Skips;

/// The barrier, from one rank's side.
pub struct Dissemination {
    place: Place,
    skips: Skips,
}

impl Dissemination {
    /// The plan of `place.rank`.
    pub fn new(place: Place) -> Self {
        Dissemination { place, skips: Skips::new(place.size) }
    }
}

impl Plan for Dissemination {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.skips.rounds()
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn round(&self, i: u32) -> Round {
        let leg = |peer| Some(Leg { peer, blocks: Blocks::Nothing });
        let skip = self.skips.skip(i);
        Round {
            put: leg(self.place.after(skip)),
            arrival: leg(self.place.before(skip)),
            needs: Needs::AllBefore(i),
            landing: Landing::Store,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_hears_of_every_rank() {
        for p in 1..=130u32 {
            let skips = Skips::new(p);
            let mut heard: Vec<Vec<bool>> = (0..p).map(|r| (0..p).map(|s| r == s).collect()).collect();
            for k in 0..skips.rounds() {
                let before = heard.clone();
                for rank in 0..p {
                    let from = Dissemination::new(Place { rank, size: p }).round(k).arrival.unwrap().peer;
                    for s in 0..p as usize {
                        heard[rank as usize][s] |= before[from as usize][s];
                    }
                }
            }
            assert!(heard.iter().flatten().all(|&h| h), "p = {p}");
        }
    }
}
