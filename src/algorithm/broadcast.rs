//! Broadcast of `n` blocks in `n - 1 + ⌈log₂ p⌉` rounds, the least possible.
//!
//! Every rank but the root receives each block exactly once, and no word about blocks travels: both
//! ends of a put know from the round which block it is. Träff, doi:10.1145/3735139, Algorithm 1.

use super::phases::Phases;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, distinct};
use crate::rank::{Place, Rank};
use crate::schedule::{Schedule, Skips};

/// The circulant broadcast, from one rank's side: O(log p) memory, O(1) for a round.
pub struct Circulant {
    place: Place,
    root: Rank,
    phases: Phases,
    skips: Skips,
    schedule: Schedule,
    /// For each residue modulo q the round `k < q` of a phase in which such blocks arrive.
    arrives_in: [u8; 32],
    /// The round in which the last block arrives.
    last_arrives: u32,
}

impl Circulant {
    /// The plan of `place.rank`; `root < place.size`, and no blocks are taken for one.
    pub fn new(place: Place, root: Rank, blocks: u32) -> Self {
        let skips = Skips::new(place.size);
        let q = skips.rounds();
        let mut plan = Circulant {
            place,
            root,
            phases: Phases::new(q, blocks),
            schedule: Schedule::new(&skips, place.seen_from(root).rank),
            skips,
            arrives_in: [0; 32],
            last_arrives: 0,
        };
        for k in 0..q {
            let residue = plan.schedule.receive(k).rem_euclid(q as i32);
            plan.arrives_in[residue as usize] = k as u8;
        }
        let last = plan.blocks() - 1;
        plan.last_arrives = plan.phases.last().find(|&i| plan.received(i) == Some(last)).unwrap_or(0);
        plan
    }

    fn received(&self, i: u32) -> Option<u32> {
        let (k, phase) = self.phases.of(i);
        if self.place.rank == self.root { None } else { self.phases.block(self.schedule.receive(k), phase) }
    }

    fn sent(&self, i: u32) -> Option<Leg> {
        let (k, phase) = self.phases.of(i);
        let block = self.phases.block(self.schedule.send(k), phase)?;
        let peer = self.place.after(self.skips.skip(k));
        (peer != self.root).then_some(Leg { peer, blocks: Blocks::One(block) })
    }

    /// The round in which this rank, not the root, receives a block.
    pub(super) fn arrival_of(&self, block: u32) -> u32 {
        if block == self.blocks() - 1 {
            return self.last_arrives;
        }
        let q = self.skips.rounds();
        let shifted = self.phases.shifted(block);
        let k = u32::from(self.arrives_in[(shifted % q) as usize]);
        let phase = (i64::from(shifted) - i64::from(self.schedule.receive(k))) as u32 / q;
        phase * q + k - self.phases.shifted(0)
    }

    /// The first round of a phase, from its round `k` on, that puts the block of an entry.
    fn puts(&self, entry: i32, k: u32, phase: u32) -> Option<u32> {
        let sends =
            |&k: &u32| self.schedule.send(k) == entry && self.place.after(self.skips.skip(k)) != self.root;
        (k..self.skips.rounds()).find(sends).and_then(|k| self.phases.round(k, phase))
    }
}

impl Plan for Circulant {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.phases.rounds()
    }

    fn blocks(&self) -> u32 {
        self.phases.blocks()
    }

    fn round(&self, i: u32) -> Round {
        let put = self.sent(i);
        let arrival = self.received(i).map(|block| {
            let peer = self.place.before(self.skips.skip(self.phases.of(i).0));
            Leg { peer, blocks: Blocks::One(block) }
        });
        let needs = match put {
            Some(Leg { blocks: Blocks::One(block), .. }) if self.place.rank != self.root => {
                Needs::Arrival(self.arrival_of(block))
            }
            _ => Needs::Nothing,
        };
        Round { put, arrival, needs, landing: Landing::Store }
    }

    /// A block goes on in the phase in which it arrives, as the same entry, or in the next one, q lower.
    fn forwarded(&self, i: u32) -> Option<u32> {
        self.received(i)?;
        let ((k, phase), q) = (self.phases.of(i), self.skips.rounds());
        let entry = self.schedule.receive(k);
        self.puts(entry, k + 1, phase).or_else(|| self.puts(entry - q as i32, 0, phase + 1))
    }

    fn sources(&self) -> Vec<Rank> {
        distinct(self.phases.first().filter_map(|i| self.round(i).arrival))
    }

    fn targets(&self) -> Vec<Rank> {
        distinct(self.phases.first().filter_map(|i| self.round(i).put))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(p: u32, rank: Rank, root: Rank, n: u32) -> Circulant {
        Circulant::new(Place { rank, size: p }, root, n)
    }

    #[test]
    fn alone_there_is_nothing_to_do() {
        assert_eq!(plan(1, 0, 0, 9).rounds(), 0);
        assert!(plan(1, 0, 0, 9).sources().is_empty());
    }

    #[test]
    fn the_root_puts_in_every_round_and_receives_nothing() {
        let root = plan(17, 5, 5, 6);
        assert_eq!(root.rounds(), 10);
        for i in 0..root.rounds() {
            assert!(root.round(i).put.is_some() && root.round(i).arrival.is_none());
        }
    }

    proptest! {
        #[test]
        fn neighbours_are_those_of_all_rounds(p in 1u32..3000, rank: u32, root: u32, n in 1u32..200) {
            let plan = plan(p, rank % p, root % p, n);
            prop_assert_eq!(plan.sources(), distinct((0..plan.rounds()).filter_map(|i| plan.round(i).arrival)));
            prop_assert_eq!(plan.targets(), distinct((0..plan.rounds()).filter_map(|i| plan.round(i).put)));
        }

        #[test]
        fn each_block_arrives_once_and_in_the_round_that_is_named(p in 2u32..3000, rank: u32, root: u32, n in 1u32..200) {
            let plan = plan(p, rank % p, root % p, n);
            prop_assume!(rank % p != root % p);
            let mut seen = vec![None; n as usize];
            for i in 0..plan.rounds() {
                if let Some(block) = plan.received(i) {
                    prop_assert_eq!(seen[block as usize].replace(i), None);
                    prop_assert_eq!(plan.arrival_of(block), i);
                }
            }
            prop_assert!(seen.iter().all(Option::is_some));
        }
    }
}
