//! Ranks in groups: one of each group, its leader, speaks with the other groups' leaders, and hands each
//! block on within its group as it comes. What lies between groups is crossed once a group.
//!
//! A plan among the leaders and a circulant broadcast within each group are woven into one, round by round:
//! what the leader gets in round `t` is block `t` of the broadcast within. So both go on at once, block by
//! block, and read backwards a group's contributions to a block are combined before the leader puts it.
//! Kielmann et al., doi:10.1145/301104.301116, have leaders speak for clusters, phase after phase.
//!
//! The decision: the two take turns, even rounds among leaders, odd ones within. A round's number means the
//! same on all ranks, and neither plan need know of the other.

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
    /// Of parts: block `j n + b` stands for block `b` of the parts of all that number `j` among those ranks
    /// stands for.
    Parts {
        /// How many blocks a part has.
        n: u32,
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
        match self {
            Scope::Same => each(block),
            Scope::Parts { n, present } => stands_for(block / n)
                .iter()
                .filter(|rank| present.as_ref().is_none_or(|some| some.binary_search(rank).is_ok()))
                .for_each(|&rank| each(rank * n + block % n)),
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
    /// What comes to the leader in each of its rounds.
    came: Vec<Option<Blocks>>,
    /// The blocks of the plan among leaders that the leader has from the start and its group lacks.
    held: Range<u32>,
    /// This rank's: first what the leader holds, then what it gets, round by round.
    inner: Circulant,
    /// Rounds of either kind.
    turns: u32,
}

impl<P: Plan> Led<P> {
    /// The plan of `place.rank`, of `blocks` blocks in all. `outer` is its leader's plan among the groups, and
    /// `held` what that leader has from the start: nothing or, in the same number for all that have something,
    /// `most` blocks.
    pub fn new(
        place: Place,
        leaders: &Leaders,
        blocks: u32,
        scope: Scope,
        outer: P,
        (held, most): (Range<u32>, u32),
    ) -> Self {
        let groups = &leaders.groups;
        let group = groups.of(place.rank);
        // A root's group gets nothing, and the others have nothing: both within as many rounds.
        let handed_on = match leaders.root {
            Some(_) => outer.rounds().max(most),
            None => outer.rounds() + most,
        };
        let members = Arc::clone(groups.members(group));
        let leader = leaders.of(group);
        let index = members.partition_point(|&member| member < leader) as Rank;
        let came = (0..outer.rounds()).map(|turn| outer.round(turn).arrival.map(|leg| leg.blocks)).collect();
        let turns = match groups.rounds_within() {
            0 => outer.rounds(),
            _ if handed_on == 0 => 0,
            rounds => handed_on - 1 + rounds,
        };
        Led {
            inner: Circulant::new(groups.place_within(place.rank), index, handed_on),
            leads: leader == place.rank,
            leaders: leaders.clone(),
            place,
            members,
            blocks,
            scope,
            outer,
            came,
            held,
            turns,
        }
    }

    /// Where the leader has a block of the broadcast within from: none where there is no such block.
    fn origin(&self, block: u32) -> Option<Origin> {
        match block.checked_sub(self.held.len() as u32) {
            None => Some(Origin::Held(self.held.start + block)),
            Some(turn) => (*self.came.get(turn as usize)?).map(|blocks| Origin::Came(turn, blocks)),
        }
    }

    fn among_leaders(&self, turn: u32) -> Round {
        if turn >= self.outer.rounds() || !self.leads {
            return IDLE;
        }
        let round = self.outer.round(turn);
        let leg = |leg: Leg| Leg { peer: self.leaders.of(leg.peer), blocks: self.scope.widened(leg.blocks) };
        let needs = match round.needs {
            Needs::Nothing => Needs::Nothing,
            Needs::Arrival(turn) => Needs::Arrival(2 * turn),
            Needs::AllBefore(turn) => Needs::AllBefore(2 * turn),
        };
        Round { put: round.put.map(leg), arrival: round.arrival.map(leg), needs, landing: round.landing }
    }

    fn within(&self, turn: u32) -> Round {
        if turn >= self.inner.rounds() {
            return IDLE;
        }
        let round = self.inner.round(turn);
        let leg = |leg: Leg| {
            let blocks = match self.origin(only(leg.blocks)?)? {
                Origin::Held(block) => Blocks::One(block),
                Origin::Came(_, blocks) => blocks,
            };
            Some(Leg { peer: self.members[leg.peer as usize], blocks: self.scope.widened(blocks) })
        };
        let put = round.put.and_then(leg);
        let needs = match round.needs {
            Needs::Arrival(turn) => Needs::Arrival(2 * turn + 1),
            Needs::AllBefore(turn) => Needs::AllBefore(2 * turn),
            Needs::Nothing => match round.put.and_then(|leg| self.origin(only(leg.blocks)?)) {
                Some(Origin::Came(turn, _)) => Needs::Arrival(2 * turn),
                Some(Origin::Held(_)) | None => Needs::Nothing,
            },
        };
        Round { put, arrival: round.arrival.and_then(leg), needs, landing: round.landing }
    }
}

/// Where a leader has a block from that it hands on.
enum Origin {
    Held(u32),
    /// It came in this round among the leaders.
    Came(u32, Blocks),
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
        2 * self.turns
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn round(&self, i: u32) -> Round {
        if i.is_multiple_of(2) { self.among_leaders(i / 2) } else { self.within(i / 2) }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let groups = &self.leaders.groups;
        let mut widen = |block| self.scope.each(block, |group| groups.members(group), each);
        if i.is_multiple_of(2) {
            return each_block(&self.outer, i / 2, side, &mut widen);
        }
        let leg = self.inner.round(i / 2).leg(side);
        match leg.and_then(|leg| self.origin(only(leg.blocks)?)) {
            Some(Origin::Held(block)) => widen(block),
            Some(Origin::Came(turn, _)) => each_block(&self.outer, turn, Side::Arrival, &mut widen),
            None => {}
        }
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        let turn = i / 2;
        self.round(i).arrival?;
        if !i.is_multiple_of(2) {
            return self.inner.forwarded(turn).map(|later| 2 * later + 1);
        }
        // The root of a circulant broadcast puts block b in round b first.
        let handed_on = (self.members.len() > 1).then(|| 2 * (turn + self.held.len() as u32) + 1);
        let put_on = self.outer.forwarded(turn).map(|later| 2 * later);
        handed_on.into_iter().chain(put_on).min()
    }
}

/// A plan among some ranks only, such as one group's; the others have none, and wait as many rounds.
pub struct Among<P> {
    place: Place,
    ranks: Arc<[Rank]>,
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
        Among { place, ranks, plan: Some(plan), rounds, blocks, scope }
    }

    /// Among the leaders; `plan` of a group.
    pub fn leaders(place: Place, leaders: &Leaders, plan: impl FnOnce(Place) -> P) -> Self {
        let groups = &leaders.groups;
        let group = groups.of(place.rank);
        let plan = plan(leaders.place(group));
        let (rounds, blocks) = (plan.rounds(), plan.blocks());
        let ranks = (0..groups.count()).map(|group| leaders.of(group)).collect();
        let plan = (leaders.of(group) == place.rank).then_some(plan);
        Among { place, ranks, plan, rounds, blocks, scope: Scope::Same }
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
        let stands_for = |number: u32| &self.ranks[number as usize..][..1];
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
