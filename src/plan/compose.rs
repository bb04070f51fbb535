//! Plans out of plans: one read backwards, one after another, and one whose arrivals land otherwise.

use super::{Landing, Leg, Needs, Plan, Round, Side};
use crate::rank::{Place, Rank};

/// A plan read backwards: who put is now put to, and what was stored is now folded.
///
/// A broadcast read backwards is a reduction (Träff, Section 1: the blocks travel the same tree towards
/// the root). A rank puts a block after the last arrival that
/// is folded into it, and all before that one.
pub struct Reversed<P>(pub P);

impl<P: Plan> Reversed<P> {
    /// The peers on one side, in the order of first use: rounds are read until all that are known have come.
    fn in_order(&self, side: Side, known: Vec<Rank>) -> Vec<Rank> {
        let mut peers = Vec::with_capacity(known.len());
        for leg in (0..self.rounds()).filter_map(|i| self.round(i).leg(side)) {
            if !peers.contains(&leg.peer) {
                peers.push(leg.peer);
            }
            if peers.len() == known.len() {
                break;
            }
        }
        peers
    }
}

impl<P: Plan> Plan for Reversed<P> {
    fn place(&self) -> Place {
        self.0.place()
    }

    fn rounds(&self) -> u32 {
        self.0.rounds()
    }

    fn blocks(&self) -> u32 {
        self.0.blocks()
    }

    fn round(&self, i: u32) -> Round {
        let last = self.rounds() - 1;
        let forward = self.0.round(last - i);
        // What is put on first, forwards, comes last, backwards: that is what the put waits for.
        let needs = match self.0.forwarded(last - i) {
            Some(first) if first <= last => Needs::AllBefore(last - first + 1),
            _ => Needs::Nothing,
        };
        let landing = match forward.landing {
            Landing::Store => Landing::Fold,
            Landing::Fold | Landing::FoldBefore => Landing::Store,
        };
        Round { put: forward.arrival, arrival: forward.put, needs, landing }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let forward = match side {
            Side::Put => Side::Arrival,
            Side::Arrival => Side::Put,
        };
        self.0.many(self.rounds() - 1 - i, forward, each)
    }

    fn sources(&self) -> Vec<Rank> {
        self.in_order(Side::Arrival, self.0.targets())
    }

    fn targets(&self) -> Vec<Rank> {
        self.in_order(Side::Put, self.0.sources())
    }
}

/// A plan in which a rank puts nothing before all of the rounds before has arrived: so ranks keep in step where
/// the blocks themselves wait for nothing. In a round of which all legs have one size nobody waits for long.
pub struct InStep<P>(pub P);

impl<P: Plan> Plan for InStep<P> {
    fn place(&self) -> Place {
        self.0.place()
    }

    fn rounds(&self) -> u32 {
        self.0.rounds()
    }

    fn blocks(&self) -> u32 {
        self.0.blocks()
    }

    fn round(&self, i: u32) -> Round {
        let needs = if i == 0 { Needs::Nothing } else { Needs::AllBefore(i) };
        Round { needs, ..self.0.round(i) }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        self.0.many(i, side, each)
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.0.forwarded(i)
    }

    fn sources(&self) -> Vec<Rank> {
        self.0.sources()
    }

    fn targets(&self) -> Vec<Rank> {
        self.0.targets()
    }
}

/// A plan of which only what becomes of arrivals is another.
pub struct Landed<P> {
    plan: P,
    landing: fn(Place, Option<Rank>) -> Landing,
}

impl<P> Landed<P> {
    /// Everything is stored: a scatter that is read backwards gathers, and combines nothing.
    pub fn stored(plan: P) -> Self {
        Landed { plan, landing: |_, _| Landing::Store }
    }

    /// Everything is folded, in front of what a rank has where it comes from a rank before it.
    pub fn folded_in_rank_order(plan: P) -> Self {
        let landing = |me: Place, peer: Option<Rank>| match peer {
            Some(peer) if peer < me.rank => Landing::FoldBefore,
            _ => Landing::Fold,
        };
        Landed { plan, landing }
    }
}

impl<P: Plan> Plan for Landed<P> {
    fn place(&self) -> Place {
        self.plan.place()
    }

    fn rounds(&self) -> u32 {
        self.plan.rounds()
    }

    fn blocks(&self) -> u32 {
        self.plan.blocks()
    }

    fn round(&self, i: u32) -> Round {
        let round = self.plan.round(i);
        let landing = (self.landing)(self.place(), round.arrival.map(|leg| leg.peer));
        Round { landing, ..round }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        self.plan.many(i, side, each)
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.plan.forwarded(i)
    }

    fn sources(&self) -> Vec<Rank> {
        self.plan.sources()
    }

    fn targets(&self) -> Vec<Rank> {
        self.plan.targets()
    }
}

/// One plan, and then another on the same blocks.
pub struct Then<A, B> {
    first: A,
    second: B,
    /// Whether anything comes to this rank in the first plan.
    brings: bool,
}

impl<A: Plan, B: Plan> Then<A, B> {
    /// One after the other. O(rounds) where the first brings this rank nothing.
    pub fn new(first: A, second: B) -> Self {
        let brings = (0..first.rounds()).any(|i| first.round(i).arrival.is_some());
        Then { first, second, brings }
    }
}

impl<A: Plan, B: Plan> Plan for Then<A, B> {
    fn place(&self) -> Place {
        self.first.place()
    }

    fn rounds(&self) -> u32 {
        self.first.rounds() + self.second.rounds()
    }

    fn blocks(&self) -> u32 {
        self.first.blocks()
    }

    /// What the second plan has from the start it has from the whole of the first, if that brings anything.
    fn round(&self, i: u32) -> Round {
        let first = self.first.rounds();
        let Some(later) = i.checked_sub(first) else { return self.first.round(i) };
        let round = self.second.round(later);
        let needs = match round.needs {
            Needs::Nothing if self.brings => Needs::AllBefore(first),
            Needs::Nothing => Needs::Nothing,
            Needs::Arrival(j) => Needs::Arrival(first + j),
            Needs::AllBefore(j) => Needs::AllBefore(first + j),
        };
        Round { needs, ..round }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        match i.checked_sub(self.first.rounds()) {
            None => self.first.many(i, side, each),
            Some(later) => self.second.many(later, side, each),
        }
    }

    fn sources(&self) -> Vec<Rank> {
        both(self.first.sources(), self.second.sources())
    }

    fn targets(&self) -> Vec<Rank> {
        both(self.first.targets(), self.second.targets())
    }
}

fn both(a: Vec<Rank>, b: Vec<Rank>) -> Vec<Rank> {
    super::distinct(a.into_iter().chain(b).map(|peer| Leg { peer, blocks: super::Blocks::Nothing }))
}
