//! Plans out of plans: one read backwards, one after another, several side by side, and one whose arrivals land otherwise.

use super::{Blocks, Landing, Leg, Needs, Plan, Round, Side, each_block};
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
/// blocks themselves wait for nothing, or some of them. In a round of which all legs have one size nobody waits for long.
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

/// Plans side by side: each has a run of blocks of its own, and their rounds take turns.
///
/// Runs, and not every so manieth block: so what travels together of one plan's lies together.
pub struct SideBySide<P> {
    place: Place,
    plans: Vec<P>,
    /// The first block of each.
    firsts: Vec<u32>,
    blocks: u32,
    /// Of the one that has most.
    rounds: u32,
}

impl<P: Plan> SideBySide<P> {
    /// All of one rank's; on all ranks as many.
    pub fn new(place: Place, plans: Vec<P>) -> Self {
        let mut blocks = 0;
        let after = |plan: &P| {
            let first = blocks;
            blocks += plan.blocks();
            first
        };
        let firsts = plans.iter().map(after).collect();
        let rounds = plans.iter().map(Plan::rounds).max().unwrap_or(0);
        SideBySide { place, plans, firsts, blocks, rounds }
    }

    /// Which plan's turn it is, and which of its rounds.
    fn turn(&self, i: u32) -> (u32, u32) {
        let count = self.plans.len() as u32;
        (i % count, i / count)
    }

    /// The round of a plan's `turn`.
    fn round_of(&self, which: u32, turn: u32) -> u32 {
        turn * self.plans.len() as u32 + which
    }

    fn among_all(&self, which: u32, blocks: Blocks) -> Blocks {
        let (plan, offset) = (&self.plans[which as usize], self.firsts[which as usize]);
        match blocks {
            Blocks::One(block) => Blocks::One(offset + block),
            Blocks::Run { first, count } if first + count <= plan.blocks() => {
                Blocks::Run { first: offset + first, count }
            }
            // It goes on with this plan's first block.
            Blocks::Run { .. } | Blocks::Many => Blocks::Many,
            Blocks::Nothing => Blocks::Nothing,
        }
    }
}

impl<P: Plan> Plan for SideBySide<P> {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.rounds * self.plans.len() as u32
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, i: u32) -> Round {
        let (which, turn) = self.turn(i);
        let plan = &self.plans[which as usize];
        if turn >= plan.rounds() {
            return Round::IDLE;
        }
        let round = plan.round(turn);
        let leg = |leg: Leg| Leg { blocks: self.among_all(which, leg.blocks), ..leg };
        let needs = match round.needs {
            Needs::Nothing | Needs::AllBefore(0) => Needs::Nothing,
            Needs::Arrival(turn) => Needs::Arrival(self.round_of(which, turn)),
            // What comes meanwhile in the others' turns is waited for, too.
            Needs::AllBefore(turn) => Needs::AllBefore(self.round_of(which, turn - 1) + 1),
        };
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), needs, landing: round.landing }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let (which, turn) = self.turn(i);
        let offset = self.firsts[which as usize];
        each_block(&self.plans[which as usize], turn, side, &mut |block| each(offset + block));
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        let (which, turn) = self.turn(i);
        let plan = &self.plans[which as usize];
        let later = if turn < plan.rounds() { plan.forwarded(turn) } else { None };
        later.map(|later| self.round_of(which, later))
    }
}

fn both(a: Vec<Rank>, b: Vec<Rank>) -> Vec<Rank> {
    super::distinct(a.into_iter().chain(b).map(|peer| Leg { peer, blocks: Blocks::Nothing }))
}
