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
//!
//! A group's broadcast may itself go by leaders, of the group's domains; it then takes two rounds in its turn. And a
//! group may have several leaders, each in a plan of its own: a root's blocks come to one that is not the root by
//! the broadcast within, so in that group what goes on among leaders lags behind, and in the others what goes on
//! within.

use std::ops::Range;
use std::sync::Arc;

use super::broadcast::Circulant;
use super::groups::Groups;
use super::within::Within;
use crate::plan::{Blocks, Leg, Needs, Plan, Round, Side, each_block};
use crate::rank::{Place, Rank};

/// Groups, and who speaks for each: its first rank, but for a root, which speaks for its own; or of several that
/// do, one.
#[derive(Clone)]
pub struct Leaders {
    groups: Arc<Groups>,
    root: Option<Rank>,
    /// Of each group the rank, where that is another one than its first.
    others: Option<Arc<[Rank]>>,
}

/// Number 0 of one leader.
pub const ALONE: (u32, u32) = (0, 1);

impl Leaders {
    /// Of these groups; `root`: the rank that speaks for its own group, if there is one. Of so many
    /// leaders number `which` [in turn](Groups::in_turn) from that one on, or from the first. O(1) for number 0, else O(p log p).
    pub fn new(groups: &Arc<Groups>, root: Option<Rank>, (which, of): (u32, u32)) -> Self {
        let first = Leaders { groups: Arc::clone(groups), root, others: None };
        if which == 0 {
            return first;
        }
        let other = |group| {
            let place = groups.in_turn(group, groups.place_within(first.of(group)).rank, which, of);
            groups.members(group)[place as usize]
        };
        Leaders { others: Some((0..groups.count()).map(other).collect()), ..first }
    }

    /// The rank that speaks for a group.
    pub fn of(&self, group: u32) -> Rank {
        match &self.others {
            Some(others) => others[group as usize],
            None => self.root_of(group).unwrap_or_else(|| self.groups.members(group)[0]),
        }
    }

    /// The root, if it is in this group.
    fn root_of(&self, group: u32) -> Option<Rank> {
        self.root.filter(|&root| self.groups.of(root) == group)
    }

    /// Whom the others of a group get from what it has: the root, or the leader.
    fn source_of(&self, group: u32) -> Rank {
        self.root_of(group).unwrap_or_else(|| self.of(group))
    }

    /// How many turns after the root can first put a block its group's leader has it.
    fn lag(&self) -> u32 {
        let has_it = self.root.is_none_or(|root| self.of(self.groups.of(root)) == root);
        if has_it { 0 } else { Within::lag(&self.groups) }
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
    /// Parts of one block each, of all ranks.
    pub fn whole_parts() -> Self {
        Scope::Parts { n: 1, parcel: 1, present: None }
    }

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
    inner: Within,
    chunk: u32,
    /// How often `chunk` rounds among leaders and `width` within follow each other.
    turns: u32,
    width: u32,
    /// In how many of these turns nothing goes on among leaders at first.
    lag: u32,
    /// In how many nothing goes on within this rank's group.
    lag_within: u32,
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
        let index = groups.place_within(leaders.source_of(group)).rank;
        let (within, width) = (Within::rounds_of_all(groups, parcels), Within::width(groups));
        let lag = leaders.lag();
        Led {
            inner: Within::new(groups, place.rank, index, parcels),
            leads: leaders.of(group) == place.rank,
            leaders: leaders.clone(),
            held: held.blocks.len() as u32,
            items: held.blocks.map(|block| Some(Blocks::One(block))).chain(came).collect(),
            turns: lag + within.div_ceil(width).max(outer.rounds().div_ceil(chunk)),
            width,
            lag,
            lag_within: if leaders.root_of(group).is_some() { 0 } else { lag },
            place,
            members,
            blocks,
            scope,
            outer,
            chunk,
        }
    }

    /// The rounds of a turn.
    fn cycle(&self) -> u32 {
        self.chunk + self.width
    }

    /// `None` where it has not begun.
    fn turn(&self, i: u32) -> Option<Turn> {
        let (turn, step) = (i / self.cycle(), i % self.cycle());
        match step.checked_sub(self.chunk) {
            None => Some(Turn::AmongLeaders(turn.checked_sub(self.lag)? * self.chunk + step)),
            Some(step) => Some(Turn::Within(turn.checked_sub(self.lag_within)? * self.width + step)),
        }
    }

    fn round_among_leaders(&self, turn: u32) -> u32 {
        (turn / self.chunk + self.lag) * self.cycle() + turn % self.chunk
    }

    fn round_within(&self, turn: u32) -> u32 {
        (turn / self.width + self.lag_within) * self.cycle() + self.chunk + turn % self.width
    }

    /// Whether what a leader has from the start it has from its group's root.
    fn is_brought(&self) -> bool {
        self.lag > self.lag_within
    }

    fn among_leaders(&self, turn: u32) -> Round {
        if turn >= self.outer.rounds() || !self.leads {
            return Round::IDLE;
        }
        let round = self.outer.round(turn);
        let leg = |leg: Leg| Leg { peer: self.leaders.of(leg.peer), blocks: self.scope.widened(leg.blocks) };
        let needs = match round.needs {
            Needs::Nothing => self.needs_of_held(round.put.and_then(|leg| only(leg.blocks))),
            Needs::Arrival(turn) => Needs::Arrival(self.round_among_leaders(turn)),
            Needs::AllBefore(turn) => Needs::AllBefore(self.round_among_leaders(turn)),
        };
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), needs, landing: round.landing }
    }

    fn within(&self, turn: u32) -> Round {
        if turn >= self.inner.rounds() {
            return Round::IDLE;
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

    /// What a leader waits for before it puts a block that its group has from the start.
    fn needs_of_held(&self, block: Option<u32>) -> Needs {
        match block {
            Some(block) if self.is_brought() => {
                Needs::Arrival(self.round_within(self.inner.arrival_of(block / self.chunk)))
            }
            _ => Needs::Nothing,
        }
    }

    /// What a leader waits for before it hands on a parcel, which is a block of the broadcast within.
    fn needs_of(&self, parcel: Option<u32>) -> Needs {
        let items = parcel.map_or(0..0, |parcel| self.range(parcel));
        let came = |item: &usize| *item >= self.held as usize && self.items[*item].is_some();
        let Some(last) = items.rev().find(came) else { return Needs::Nothing };
        let round = self.round_among_leaders(last as u32 - self.held);
        if self.chunk == 1 { Needs::Arrival(round) } else { Needs::AllBefore(round + 1) }
    }

    /// The first turn in which a leader puts what comes to it within its group, if it does.
    fn put_on(&self, turn: u32) -> Option<u32> {
        let parcel = only(self.inner.round(turn).arrival?.blocks)?;
        (self.leads && self.is_brought() && self.outer.rounds() > 0).then_some(parcel * self.chunk)
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

impl Led<Circulant> {
    /// The plan of `place.rank`, where a root has so many blocks (none is taken for one), of which its leader's
    /// group has all.
    pub fn broadcast(place: Place, leaders: &Leaders, root: Rank, blocks: u32, chunk: u32) -> Self {
        let (groups, blocks) = (&leaders.groups, blocks.max(1));
        let (group, roots) = (groups.of(place.rank), groups.of(root));
        let held = Held { blocks: if group == roots { 0..blocks } else { 0..0 }, most: blocks };
        let outer = Circulant::new(leaders.place(group), roots, blocks);
        Led::new(place, leaders, (blocks, Scope::Same), outer, held, chunk)
    }

    /// The round in which this rank, not the root, gets a block, where each is handed on by itself.
    pub fn arrival_of(&self, block: u32) -> u32 {
        let item = if self.held > 0 { block } else { self.outer.arrival_of(block) };
        match self.leads && self.held == 0 {
            true => self.round_among_leaders(item),
            false => self.round_within(self.inner.arrival_of(item)),
        }
    }
}

impl<P: Plan> Plan for Led<P> {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.turns * self.cycle()
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, i: u32) -> Round {
        match self.turn(i) {
            None => Round::IDLE,
            Some(Turn::AmongLeaders(turn)) => self.among_leaders(turn),
            Some(Turn::Within(turn)) => self.within(turn),
        }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let groups = &self.leaders.groups;
        let mut widen = |block| self.scope.each(block, |group| groups.members(group), each);
        match self.turn(i) {
            None => {}
            Some(Turn::AmongLeaders(turn)) => each_block(&self.outer, turn, side, &mut widen),
            Some(Turn::Within(turn)) => {
                let leg = self.inner.round(turn).leg(side);
                if let Some(parcel) = leg.and_then(|leg| only(leg.blocks)) {
                    self.each_of_parcel(parcel, &mut widen);
                }
            }
        }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.round(i).arrival?;
        // The root of a circulant broadcast puts block b in round b first.
        let (handed_on, put_on) = match self.turn(i)? {
            Turn::AmongLeaders(turn) => {
                let parcel = (turn + self.held) / self.chunk;
                ((self.members.len() > 1).then_some(parcel * self.width), self.outer.forwarded(turn))
            }
            Turn::Within(turn) => (self.inner.forwarded(turn), self.put_on(turn)),
        };
        let handed_on = handed_on.map(|later| self.round_within(later));
        handed_on.into_iter().chain(put_on.map(|later| self.round_among_leaders(later))).min()
    }
}

/// A plan among some ranks only, such as one group's; the others have none, and wait as many rounds.
pub struct Among<P> {
    place: Place,
    ranks: Arc<[Rank]>,
    /// Groups of which one's parts are what each of its ranks stands for; `None`: its own.
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

    /// The same where each stands for the parts of all in its group, of these: such as its lane.
    pub fn standing_for(self, groups: &Arc<Groups>) -> Self {
        Among { stands_for: Some(Arc::clone(groups)), ..self }
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

    /// Among the leaders, of a part for each rank: each stands for those of its group.
    pub fn leaders_of_parts(place: Place, leaders: &Leaders, plan: impl FnOnce(Place) -> P) -> Self {
        let among = Among::leaders(place, leaders, plan).standing_for(&leaders.groups);
        Among { blocks: place.size, scope: Scope::whole_parts(), ..among }
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
        let Some(plan) = self.here(i) else { return Round::IDLE };
        let leg =
            |leg: Leg| Leg { peer: self.ranks[leg.peer as usize], blocks: self.scope.widened(leg.blocks) };
        let round = plan.round(i);
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), ..round }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let Some(plan) = self.here(i) else { return };
        let stands_for = |number: u32| match &self.stands_for {
            None => &self.ranks[number as usize..][..1],
            Some(groups) => groups.members(groups.of(self.ranks[number as usize])),
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
