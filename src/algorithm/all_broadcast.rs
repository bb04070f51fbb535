//! All ranks' broadcasts at once, each of `n` blocks, in `n - 1 + ⌈log₂ p⌉` rounds: allgather of parts of
//! any size, and backwards reduce-scatter.
//!
//! For every root a rank follows the schedule of its distance from that root, and what goes to one
//! neighbour in one round travels together, except the root's own blocks where it is that neighbour.
//! Träff, doi:10.1145/3735139, Algorithm 7.
//!
//! The decision: roots without data are left out of every loop, and where one rank has everything the
//! plan is that rank's broadcast. What a round waits for is searched among all roots, but in a phase in
//! which every root has a block for every entry it is that of the phase before, and is kept.

use std::cell::OnceCell;
use std::sync::Arc;

use super::phases::Phases;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, Side, distinct};
use crate::rank::{Place, Rank};
use crate::schedule::{Graph, MAX_ROUNDS};

/// The circulant all-broadcast, from one rank's side: O(1) memory beside the graph's table. Block `b` of
/// root `j` is `j n + b`. A round costs O(1), but in the first two phases O(roots that have data).
pub struct AllBroadcast {
    place: Place,
    phases: Phases,
    graph: Arc<Graph>,
    present: Option<Arc<[Rank]>>,
    /// Of each round of a phase: when the latest arrival came that it puts on.
    came: Turns,
    /// Of each round of a phase: when its arrival is first put on.
    goes: Turns,
}

/// A round of a phase, and how many phases lie between, 0 or 1.
type Turn = Option<(u32, u32)>;

/// What is the same in all phases, once it is known.
type Turns = [OnceCell<Turn>; MAX_ROUNDS];

impl AllBroadcast {
    /// The plan of `place.rank` on the graph of `place.size` ranks, each with `blocks` blocks (none is
    /// taken for one); `present` are the ranks that have any data, in rank order, `None` all.
    pub fn new(place: Place, blocks: u32, graph: Arc<Graph>, present: Option<Arc<[Rank]>>) -> Self {
        let phases = Phases::new(graph.skips().rounds(), blocks);
        let unknown = || std::array::from_fn(|_| OnceCell::new());
        AllBroadcast { place, phases, graph, present, came: unknown(), goes: unknown() }
    }

    fn roots(&self) -> impl Iterator<Item = Rank> {
        let all = if self.present.is_none() { self.place.size } else { 0 };
        self.present.iter().flat_map(|some| some.iter().copied()).chain(0..all)
    }

    fn target(&self, k: u32) -> Rank {
        self.graph.skips().to(self.place.rank, k)
    }

    /// The entry of `root`'s schedule that brings its block to `rank` in round `k` of a phase.
    fn entry(&self, root: Rank, rank: Rank, k: u32) -> i32 {
        let distance = if rank >= root { rank - root } else { rank + (self.place.size - root) };
        self.graph.table().receive(distance, k)
    }

    /// The roots and entries of what comes to `rank` in a round.
    fn travelling(&self, rank: Rank, k: u32, phase: u32) -> impl Iterator<Item = (Rank, i32)> {
        self.roots()
            .filter(move |&root| root != rank)
            .map(move |root| (root, self.entry(root, rank, k)))
            .filter(move |&(_, entry)| self.phases.block(entry, phase).is_some())
    }

    fn leg(&self, peer: Rank, receiver: Rank, (k, phase): (u32, u32)) -> Option<Leg> {
        let any = self.travelling(receiver, k, phase).next().is_some();
        any.then_some(Leg { peer, blocks: Blocks::Many })
    }

    fn put(&self, i: u32) -> Option<Leg> {
        let (k, phase) = self.phases.of(i);
        let target = self.target(k);
        self.leg(target, target, (k, phase))
    }

    fn arrival(&self, i: u32) -> Option<Leg> {
        let (k, phase) = self.phases.of(i);
        self.leg(self.graph.skips().from(self.place.rank, k), self.place.rank, (k, phase))
    }

    /// What this rank puts in a round and has not had from the start.
    fn put_on(&self, k: u32, phase: u32) -> impl Iterator<Item = (Rank, i32)> {
        self.travelling(self.target(k), k, phase).filter(|&(root, _)| root != self.place.rank)
    }

    /// The round of the latest arrival among what a round puts.
    fn latest(&self, k: u32, phase: u32) -> Option<u32> {
        let turn = self.turn(&self.came, k, phase, || self.find_latest(k, phase));
        turn.and_then(|(j, back)| self.phases.round(j, phase - back))
    }

    fn turn(&self, known: &Turns, k: u32, phase: u32, find: impl Fn() -> Turn) -> Turn {
        if self.phases.is_full(phase) { *known[k as usize].get_or_init(find) } else { find() }
    }

    /// An entry that is put came earlier in the phase, as the same entry, or in the phase before, q higher
    /// (the source's condition 4). The search goes back from the latest round that it can be.
    fn find_latest(&self, k: u32, phase: u32) -> Turn {
        let (rank, q) = (self.place.rank, self.graph.skips().rounds());
        let came_in = |j: u32, back: u32| {
            let higher = (back * q) as i32;
            self.put_on(k, phase).any(|(root, entry)| self.entry(root, rank, j) == entry + higher)
        };
        let mut turns = (0..k).rev().map(|j| (j, 0)).chain((0..q).rev().map(|j| (j, 1)));
        let is_round = |j, back| back <= phase && self.phases.round(j, phase - back).is_some();
        turns.find(|&(j, back)| is_round(j, back) && came_in(j, back))
    }

    /// The other way round: when a block of what a round brings is first put on.
    fn find_next(&self, k: u32, phase: u32) -> Turn {
        let (rank, q) = (self.place.rank, self.graph.skips().rounds());
        let goes_in = |later: u32, ahead: u32| {
            let (target, lower) = (self.target(later), (ahead * q) as i32);
            let goes = |(root, entry)| root != target && self.entry(root, target, later) == entry - lower;
            self.travelling(rank, k, phase).any(goes)
        };
        let mut turns = (k + 1..q).map(|later| (later, 0)).chain((0..q).map(|later| (later, 1)));
        turns.find(|&(later, ahead)| goes_in(later, ahead))
    }
}

impl Plan for AllBroadcast {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.phases.rounds()
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.phases.blocks()
    }

    fn round(&self, i: u32) -> Round {
        let (k, phase) = self.phases.of(i);
        let needs = self.latest(k, phase).map_or(Needs::Nothing, |latest| Needs::AllBefore(latest + 1));
        Round { put: self.put(i), arrival: self.arrival(i), needs, landing: Landing::Store }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let (k, phase) = self.phases.of(i);
        let receiver = match side {
            Side::Put => self.target(k),
            Side::Arrival => self.place.rank,
        };
        for (root, entry) in self.travelling(receiver, k, phase) {
            if let Some(block) = self.phases.block(entry, phase) {
                each(root * self.phases.blocks() + block);
            }
        }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        let (k, phase) = self.phases.of(i);
        let turn = self.turn(&self.goes, k, phase, || self.find_next(k, phase));
        turn.and_then(|(later, ahead)| self.phases.round(later, phase + ahead))
    }

    fn sources(&self) -> Vec<Rank> {
        distinct(self.phases.first().filter_map(|i| self.arrival(i)))
    }

    fn targets(&self) -> Vec<Rank> {
        distinct(self.phases.first().filter_map(|i| self.put(i)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::broadcast::Circulant;
    use crate::plan::compose::Reversed;
    use crate::plan::each_block;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn blocks(plan: &impl Plan, i: u32, side: Side) -> Vec<u32> {
        let mut blocks = Vec::new();
        each_block(plan, i, side, &mut |block| blocks.push(block));
        blocks
    }

    /// What each put needs and when each arrival goes on, by going through all rounds.
    fn waits_are_exact(plan: &impl Plan) -> Result<(), TestCaseError> {
        let mut arrived = HashMap::new();
        let mut forwarded = vec![None; plan.rounds() as usize];
        for i in 0..plan.rounds() {
            let latest =
                blocks(plan, i, Side::Put).iter().filter_map(|block| arrived.get(block)).max().copied();
            let round = plan.round(i);
            match (round.needs, latest) {
                (Needs::Nothing, None) => {}
                (Needs::Arrival(j), Some(latest)) => prop_assert_eq!(j, latest),
                (Needs::AllBefore(j), Some(latest)) => prop_assert_eq!(j, latest + 1),
                (_, _) => prop_assert!(round.put.is_none(), "round {}: {:?}, {:?}", i, round, latest),
            }
            for block in blocks(plan, i, Side::Put) {
                if let Some(&arrival) = arrived.get(&block) {
                    forwarded[arrival as usize].get_or_insert(i);
                }
            }
            arrived.extend(blocks(plan, i, Side::Arrival).into_iter().map(|block| (block, i)));
        }
        for i in (0..plan.rounds()).filter(|&i| plan.round(i).arrival.is_some()) {
            prop_assert_eq!(plan.forwarded(i), forwarded[i as usize], "round {}", i);
        }
        Ok(())
    }

    fn plan(rank: Rank, n: u32, present: &[bool]) -> AllBroadcast {
        let p = present.len() as u32;
        let present = (0..).zip(present).filter_map(|(root, &is)| is.then_some(root)).collect();
        AllBroadcast::new(Place { rank, size: p }, n, Arc::new(Graph::new(p)), Some(present))
    }

    proptest! {
        #[test]
        fn a_put_waits_for_no_round_too_many_forwards_and_backwards(
            present in proptest::collection::vec(proptest::bool::weighted(0.2), 1..70), rank: u32, n in 1u32..40,
        ) {
            waits_are_exact(&plan(rank % present.len() as u32, n, &present))?;
            let place = Place { rank: rank % present.len() as u32, size: present.len() as u32 };
            waits_are_exact(&Circulant::new(place, n % place.size, n))?;
        }

        #[test]
        fn where_one_rank_has_everything_it_is_that_rank_s_broadcast(p in 1u32..200, rank: u32, root: u32, n in 1u32..40) {
            let (rank, root) = (rank % p, root % p);
            let present: Vec<_> = (0..p).map(|one| one == root).collect();
            let all = plan(rank, n, &present);
            let broadcast = Circulant::new(all.place(), root, n);
            for i in 0..broadcast.rounds() {
                for side in [Side::Put, Side::Arrival] {
                    let peer = |round: Round| round.leg(side).map(|leg| leg.peer);
                    prop_assert_eq!(peer(all.round(i)), peer(broadcast.round(i)));
                    let own: Vec<_> = blocks(&broadcast, i, side).iter().map(|block| root * n + block).collect();
                    prop_assert_eq!(blocks(&all, i, side), own);
                }
            }
        }
    }

    #[test]
    fn backwards_a_put_waits_for_the_last_fold_into_what_it_puts_and_no_later_one() {
        for p in [2, 9, 17, 36] {
            let present: Vec<_> = (0..p).map(|rank| rank % 3 != 0).collect();
            let plan = Reversed(plan(p / 2, 7, &present));
            let mut folded = HashMap::new();
            for i in 0..plan.rounds() {
                let latest =
                    blocks(&plan, i, Side::Put).iter().filter_map(|block| folded.get(block)).max().copied();
                let exact = latest.map_or(Needs::Nothing, |latest: u32| Needs::AllBefore(latest + 1));
                assert!(plan.round(i).put.is_none() || plan.round(i).needs == exact, "p = {p}, round {i}");
                folded.extend(blocks(&plan, i, Side::Arrival).into_iter().map(|block| (block, i)));
            }
        }
    }
}
