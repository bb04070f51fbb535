//! Ranks in groups: one of each group, its leader, speaks with the other groups' leaders, and hands each
//! block on within its group as it comes. What lies between groups is crossed once a group.
//!
//! A plan among the leaders and a circulant broadcast within each group are woven into one, round by round:
//! what the leader gets in a round is a block of the broadcast within. So both go on at once, block by
//! block, and read backwards a group's contributions to a block are combined before the leader puts it.
//! Kielmann et al., doi:10.1145/301104.301116, have leaders speak for clusters, phase after phase.
//!
//! The decision: the two take turns, a few rounds among leaders and one within. A round's number means the same
//! on all ranks, and neither plan need know of the other. How few is whoever's choice that knows what it costs
//! to wake a rank: what a leader gets in those rounds goes on together.

use std::ops::Range;
use std::sync::Arc;

use super::broadcast::Circulant;
use super::groups::Groups;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, Side, each_block};
use crate::rank::{Place, Rank};

/// A round in which a rank does nothing.
const IDLE: Round = Round { put: None, arrival: None, needs: Needs::Nothing, landing: Landing::Store };

/// Groups, and who speaks for each: its first rank, but for a root, which speaks for its own.
#[derive(Clone)]
pub struct Leaders {
    groups: Arc<Groups>,
    root: Option<Rank>,
}

impl Leaders {
    /// Of these groups; `root`: the rank that speaks for its own group, if there is one.
    pub fn new(groups: &Arc<Groups>, root: Option<Rank>) -> Self {
        Leaders { groups: Arc::clone(groups), root }
    }

    fn of(&self, group: u32) -> Rank {
        let root = self.root.filter(|&root| self.groups.of(root) == group);
        root.unwrap_or_else(|| self.groups.members(group)[0])
    }

    /// A group's place among the groups.
    fn place(&self, group: u32) -> Place {
        Place { rank: group, size: self.groups.count() }
    }
}

/// What a block of the plan among some ranks is among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The same.
    Same,
    /// Of parts: what number `j` among those ranks stands for are all blocks of the parts of some, in parcels of
    /// so many that go together; parcel `b` of number `j` is block `j c + b`, where a part has `c` parcels.
    Parts {
        /// How many blocks a part has.
        n: u32,
        /// How many of them go together.
        parcel: u32,
        /// The ranks whose parts are not empty; `None`: all.
        present: Option<Arc<[Rank]>>,
    },
}

impl Scope {
    /// The blocks of a leg, among all ranks.
    fn widened(&self, blocks: Blocks) -> Blocks {
        match (self, blocks) {
            (Scope::Same, blocks) | (Scope::Parts { .. }, blocks @ Blocks::Nothing) => blocks,
            (Scope::Parts { .. }, _) => Blocks::Many,
        }
    }

    /// Names the blocks among all ranks that a block among some stands for.
    fn each<'r>(&self, block: u32, stands_for: impl Fn(u32) -> &'r [Rank], each: &mut dyn FnMut(u32)) {
        let Scope::Parts { n, parcel, present } = self else { return each(block) };
        let parcels = n.div_ceil(*parcel);
        let first = block % parcels * parcel;
        let is_present = |rank: &&Rank| present.as_ref().is_none_or(|some| some.binary_search(rank).is_ok());
        for rank in stands_for(block / parcels).iter().filter(is_present) {
            (first..(first + parcel).min(*n)).for_each(|b| each(rank * n + b));
        }
    }
}

/// A plan among the leaders, and within each group a broadcast of what its leader has or gets. O(rounds among
/// leaders) memory; O(1) for a round.
pub struct Led<P> {
    place: Place,
    leaders: Leaders,
    leads: bool,
    members: Arc<[Rank]>,
    blocks: u32,
    scope: Scope,
    /// The leader's.
    outer: P,
    /// What the leader hands on, in the order in which it does: what it has from the start, and then what comes in
    /// each of its rounds, if anything.
    items: Vec<Option<Blocks>>,
    /// How many of them it has from the start.
    held: u32,
    /// This rank's; a block of it are `chunk` items.
    inner: Circulant,
    chunk: u32,
    /// How often `chunk` rounds among leaders and one within follow each other.
    turns: u32,
}

/// What a leader has from the start and its group lacks: so many blocks from one on. All leaders that have
/// anything have as many, `most`.
pub struct Held {
    /// The first block, of the plan among leaders, and how many.
    pub blocks: Range<u32>,
    /// How many those have that have any.
    pub most: u32,
}

/// What kind of round it is, and which of its kind.
enum Turn {
    AmongLeaders(u32),
    Within(u32),
}

impl<P: Plan> Led<P> {
    /// The plan of `place.rank`, of `blocks` blocks in all. `outer` is its leader's plan among the groups, and
    /// what comes in `chunk` of its rounds (none is taken for one) goes on within the group together.
    pub fn new(
        place: Place,
        leaders: &Leaders,
        (blocks, scope): (u32, Scope),
        outer: P,
        held: Held,
        chunk: u32,
    ) -> Self {
        let (groups, chunk) = (&leaders.groups, chunk.max(1));
        let group = groups.of(place.rank);
        let came = (0..outer.rounds()).map(|turn| outer.round(turn).arrival.map(|leg| leg.blocks));
        // A root's group gets nothing, and the others have nothing: both hand on in as many rounds.
        let handed_on = match leaders.root {
            Some(_) => outer.rounds().max(held.most),
            None => outer.rounds() + held.most,
        };
        let parcels = handed_on.div_ceil(chunk);
        let members = Arc::clone(groups.members(group));
        let leader = leaders.of(group);
        let index = members.partition_point(|&member| member < leader) as Rank;
        let within = match groups.rounds_within() {
            0 => 0,
            _ if parcels == 0 => 0,
            rounds => parcels - 1 + rounds,
        };
        Led {
            inner: Circulant::new(groups.place_within(place.rank), index, parcels),
            leads: leader == place.rank,
            leaders: leaders.clone(),
            held: held.blocks.len() as u32,
            items: held.blocks.map(|block| Some(Blocks::One(block))).chain(came).collect(),
            turns: within.max(outer.rounds().div_ceil(chunk)),
            place,
            members,
            blocks,
            scope,
            outer,
            chunk,
        }
    }

    fn turn(&self, i: u32) -> Turn {
        let (cycle, step) = (i / (self.chunk + 1), i % (self.chunk + 1));
        if step < self.chunk { Turn::AmongLeaders(cycle * self.chunk + step) } else { Turn::Within(cycle) }
    }

    fn round_among_leaders(&self, turn: u32) -> u32 {
        turn / self.chunk * (self.chunk + 1) + turn % self.chunk
    }

    fn round_within(&self, turn: u32) -> u32 {
        turn * (self.chunk + 1) + self.chunk
    }

    fn among_leaders(&self, turn: u32) -> Round {
        if turn >= self.outer.rounds() || !self.leads {
            return IDLE;
        }
        let round = self.outer.round(turn);
        let leg = |leg: Leg| Leg { peer: self.leaders.of(leg.peer), blocks: self.scope.widened(leg.blocks) };
        let needs = match round.needs {
            Needs::Nothing => Needs::Nothing,
            Needs::Arrival(turn) => Needs::Arrival(self.round_among_leaders(turn)),
            Needs::AllBefore(turn) => Needs::AllBefore(self.round_among_leaders(turn)),
        };
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), needs, landing: round.landing }
    }

    fn within(&self, turn: u32) -> Round {
        if turn >= self.inner.rounds() {
            return IDLE;
        }
        let round = self.inner.round(turn);
        let leg = |leg: Leg| {
            let blocks = self.parcel(only(leg.blocks)?)?;
            Some(Leg { peer: self.members[leg.peer as usize], blocks: self.scope.widened(blocks) })
        };
        let put = round.put.and_then(leg);
        let needs = match round.needs {
            Needs::Arrival(turn) => Needs::Arrival(self.round_within(turn)),
            Needs::AllBefore(turn) => Needs::AllBefore(self.round_within(turn)),
            Needs::Nothing => self.needs_of(round.put.and_then(|leg| only(leg.blocks))),
        };
        Round { put, arrival: round.arrival.and_then(leg), needs, landing: round.landing }
    }

    /// What a leader waits for before it hands on a parcel, which is a block of the broadcast within.
    fn needs_of(&self, parcel: Option<u32>) -> Needs {
        let items = parcel.map_or(0..0, |parcel| self.range(parcel));
        let came = |item: &usize| *item >= self.held as usize && self.items[*item].is_some();
        let Some(last) = items.rev().find(came) else { return Needs::Nothing };
        let round = self.round_among_leaders(last as u32 - self.held);
        if self.chunk == 1 { Needs::Arrival(round) } else { Needs::AllBefore(round + 1) }
    }

    /// The items of a parcel.
    fn range(&self, parcel: u32) -> Range<usize> {
        let end = |parcel: u32| (parcel as usize * self.chunk as usize).min(self.items.len());
        end(parcel)..end(parcel + 1)
    }

    /// What is in a parcel; `None` where nothing is.
    fn parcel(&self, parcel: u32) -> Option<Blocks> {
        let mut items = self.items[self.range(parcel)].iter().flatten();
        match (items.next(), items.next()) {
            (None, _) => None,
            (Some(&only), None) => Some(only),
            (Some(_), Some(_)) => Some(Blocks::Many),
        }
    }

    /// Names the blocks of a parcel, among the leaders.
    fn each_of_parcel(&self, parcel: u32, each: &mut dyn FnMut(u32)) {
        for item in self.range(parcel) {
            match (self.items[item], (item as u32).checked_sub(self.held)) {
                (Some(_), Some(turn)) => each_block(&self.outer, turn, Side::Arrival, each),
                (Some(blocks), None) => only(blocks).into_iter().for_each(&mut *each),
                (None, _) => {}
            }
        }
    }
}

fn only(blocks: Blocks) -> Option<u32> {
    match blocks {
        Blocks::One(block) => Some(block),
        Blocks::Nothing | Blocks::Run { .. } | Blocks::Many => None,
    }
}

impl<P: Plan> Plan for Led<P> {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.turns * (self.chunk + 1)
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, i: u32) -> Round {
        match self.turn(i) {
            Turn::AmongLeaders(turn) => self.among_leaders(turn),
            Turn::Within(turn) => self.within(turn),
        }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let groups = &self.leaders.groups;
        let mut widen = |block| self.scope.each(block, |group| groups.members(group), each);
        match self.turn(i) {
            Turn::AmongLeaders(turn) => each_block(&self.outer, turn, side, &mut widen),
            Turn::Within(turn) => {
                let leg = self.inner.round(turn).leg(side);
                if let Some(parcel) = leg.and_then(|leg| only(leg.blocks)) {
                    self.each_of_parcel(parcel, &mut widen);
                }
            }
        }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.round(i).arrival?;
        let turn = match self.turn(i) {
            Turn::AmongLeaders(turn) => turn,
            Turn::Within(turn) => return self.inner.forwarded(turn).map(|later| self.round_within(later)),
        };
        // The root of a circulant broadcast puts block b in round b first.
        let parcel = (turn + self.held) / self.chunk;
        let handed_on = (self.members.len() > 1).then(|| self.round_within(parcel));
        let put_on = self.outer.forwarded(turn).map(|later| self.round_among_leaders(later));
        handed_on.into_iter().chain(put_on).min()
    }
}

/// A plan among some ranks only, such as one group's; the others have none, and wait as many rounds.
pub struct Among<P> {
    place: Place,
    ranks: Arc<[Rank]>,
    /// Whose parts each of them stands for; `None`: its own.
    stands_for: Option<Arc<Groups>>,
    plan: Option<P>,
    rounds: u32,
    blocks: u32,
    scope: Scope,
}

impl<P: Plan> Among<P> {
    /// Within each group, `plan` of a place in it, in so many rounds for the largest; number `j` is the `j`th rank.
    pub fn members(place: Place, groups: &Groups, scope: Scope, rounds: u32, plan: P) -> Self {
        let blocks = match scope {
            Scope::Same => plan.blocks(),
            Scope::Parts { n, .. } => place.size * n,
        };
        let ranks = Arc::clone(groups.members(groups.of(place.rank)));
        Among { place, ranks, stands_for: None, plan: Some(plan), rounds, blocks, scope }
    }

    /// The same where each stands for the parts of all in its lane.
    pub fn standing_for(self, lanes: &Arc<Groups>) -> Self {
        Among { stands_for: Some(Arc::clone(lanes)), ..self }
    }

    /// Among the leaders; `plan` of a group.
    pub fn leaders(place: Place, leaders: &Leaders, plan: impl FnOnce(Place) -> P) -> Self {
        let groups = &leaders.groups;
        let group = groups.of(place.rank);
        let plan = plan(leaders.place(group));
        let (rounds, blocks) = (plan.rounds(), plan.blocks());
        let ranks = (0..groups.count()).map(|group| leaders.of(group)).collect();
        let plan = (leaders.of(group) == place.rank).then_some(plan);
        Among { place, ranks, stands_for: None, plan, rounds, blocks, scope: Scope::Same }
    }

    fn here(&self, i: u32) -> Option<&P> {
        self.plan.as_ref().filter(|plan| i < plan.rounds())
    }
}

impl<P: Plan> Plan for Among<P> {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, i: u32) -> Round {
        let Some(plan) = self.here(i) else { return IDLE };
        let leg =
            |leg: Leg| Leg { peer: self.ranks[leg.peer as usize], blocks: self.scope.widened(leg.blocks) };
        let round = plan.round(i);
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), ..round }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let Some(plan) = self.here(i) else { return };
        let stands_for = |number: u32| match &self.stands_for {
            None => &self.ranks[number as usize..][..1],
            Some(lanes) => lanes.members(lanes.of(self.ranks[number as usize])),
        };
        each_block(plan, i, side, &mut |block| self.scope.each(block, stands_for, each));
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.here(i)?.forwarded(i)
    }
}

/// A plan of which only the notices travel.
pub struct Signals<P>(pub P);

impl<P: Plan> Plan for Signals<P> {
    fn place(&self) -> Place {
        self.0.place()
    }

    fn rounds(&self) -> u32 {
        self.0.rounds()
    }

    fn blocks(&self) -> u32 {
        0
    }

    fn round(&self, i: u32) -> Round {
        let leg = |leg: Leg| Leg { blocks: Blocks::Nothing, ..leg };
        let round = self.0.round(i);
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), ..round }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.0.forwarded(i)
    }
}
