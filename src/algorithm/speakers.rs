//! All-to-all of ranks in groups: what all ranks of one group have for all of another crosses in one leg.
//!
//! Every group has a speaker for each other group, its ranks in turn. First a rank hands each speaker of its group
//! what goes to the groups that this one speaks to; then the speakers put, a leg for each pair of groups; at last
//! whoever listened hands on within its group what came. Blocks within a group go straight, with the first.
//! Bienz, Gropp and Olson, arXiv 1612.08060, do so for sparse matrices.
//!
//! The decision: a group's ranks all speak, each to its share of the other groups, so that none has more to do than
//! its fellows and groups need not be of one size. Where a block lies on its way is
//! [`Stopovers`](super::stopovers::Stopovers)'.

use std::sync::Arc;

use super::groups::Groups;
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, Side};
use crate::rank::{Place, Rank};

/// Who speaks for a group to another, and who listens.
#[derive(Clone)]
pub struct Speakers(Arc<Groups>);

impl Speakers {
    /// Of these groups.
    pub fn new(groups: &Arc<Groups>) -> Self {
        Speakers(Arc::clone(groups))
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.0
    }

    /// The rank of `from` that puts what it has for `to`, another group.
    pub fn speaker(&self, from: u32, to: u32) -> Rank {
        self.of_turn(from, self.turn(from, to))
    }

    /// The rank of `to` that it is put to.
    pub fn listener(&self, from: u32, to: u32) -> Rank {
        self.of_turn(to, self.turn(from, to))
    }

    /// In which round among the groups one speaks to another: in turn `i` to the one `i + 1` after it.
    pub fn turn(&self, from: u32, to: u32) -> u32 {
        self.place(to).before(from) - 1
    }

    /// The rank of a group whose turn it is to speak and to listen.
    fn of_turn(&self, group: u32, turn: u32) -> Rank {
        let members = self.0.members(group);
        members[turn as usize % members.len()]
    }

    /// The turns of a rank.
    fn turns(&self, rank: Rank) -> impl Iterator<Item = u32> {
        let Place { rank: first, size } = self.0.place_within(rank);
        (first..self.0.count() - 1).step_by(size as usize)
    }

    fn group_of(&self, rank: Rank) -> Place {
        self.place(self.0.of(rank))
    }

    fn place(&self, group: u32) -> Place {
        Place { rank: group, size: self.0.count() }
    }
}

/// The plan, from one rank's side: O(1) memory, O(log k) for a round.
pub struct BySpeakers {
    place: Place,
    speakers: Speakers,
    /// Where this rank stands in its group.
    within: Place,
    /// Rounds within groups, before those among them and again after: of the largest.
    rounds_within: u32,
}

/// What kind of round it is, and which of its kind.
enum Stage {
    ToSpeakers(u32),
    AmongGroups(u32),
    FromListeners(u32),
}

impl BySpeakers {
    /// The plan of `place.rank`.
    pub fn new(place: Place, groups: &Arc<Groups>) -> Self {
        let (within, rounds_within) = (groups.place_within(place.rank), groups.largest() - 1);
        BySpeakers { place, speakers: Speakers::new(groups), within, rounds_within }
    }

    fn rounds_among(&self) -> u32 {
        self.speakers.groups().count() - 1
    }

    fn stage(&self, i: u32) -> Stage {
        let among = self.rounds_within + self.rounds_among();
        match (i.checked_sub(self.rounds_within), i.checked_sub(among)) {
            (None, _) => Stage::ToSpeakers(i),
            (Some(turn), None) => Stage::AmongGroups(turn),
            (_, Some(i)) => Stage::FromListeners(i),
        }
    }

    /// In a round within groups: to whom, and from whom.
    fn within(&self, i: u32) -> Option<(Rank, Rank)> {
        let members = self.speakers.groups().members(self.speakers.groups().of(self.place.rank));
        let member = |index: u32| members[index as usize];
        (i + 1 < self.within.size)
            .then(|| (member(self.within.after(i + 1)), member(self.within.before(i + 1))))
    }

    /// The groups that its group speaks to and listens to in a turn.
    fn among(&self, turn: u32) -> (u32, u32) {
        let group = self.speakers.group_of(self.place.rank);
        (group.after(turn + 1), group.before(turn + 1))
    }

    /// To whom, and from whom.
    fn peers(&self, i: u32) -> (Option<Rank>, Option<Rank>) {
        let (rank, speakers) = (self.place.rank, &self.speakers);
        match self.stage(i) {
            Stage::ToSpeakers(i) => self.within(i).unzip(),
            Stage::AmongGroups(turn) => {
                let (group, (to, from)) = (speakers.groups().of(rank), self.among(turn));
                let has_turn = speakers.of_turn(group, turn) == rank;
                let (to, from) = (speakers.listener(group, to), speakers.speaker(from, group));
                (has_turn.then_some(to), has_turn.then_some(from))
            }
            Stage::FromListeners(i) => {
                let listens = |rank: &Rank| speakers.turns(*rank).next().is_some();
                let (to, from) = self.within(i).unzip();
                (to.filter(|_| listens(&rank)), from.filter(listens))
            }
        }
    }

    /// Names what goes from a rank to a speaker of its group: what is its own, and what it speaks of.
    fn each_for_speaker(&self, from: Rank, speaker: Rank, each: &mut dyn FnMut(u32)) {
        self.pair(from, speaker, each);
        let group = self.speakers.group_of(from);
        for turn in self.speakers.turns(speaker) {
            let others = self.speakers.groups().members(group.after(turn + 1));
            others.iter().for_each(|&to| self.pair(from, to, each));
        }
    }

    /// Names what all of one group have for all of another.
    fn each_between(&self, from: u32, to: u32, each: &mut dyn FnMut(u32)) {
        let groups = self.speakers.groups();
        for &from in groups.members(from).iter() {
            groups.members(to).iter().for_each(|&to| self.pair(from, to, each));
        }
    }

    /// Names what a listener has heard for a rank of its group; of each group the last first, so that none follows
    /// another in the memory of either end, where both have to find the same blocks together.
    fn each_heard(&self, listener: Rank, to: Rank, each: &mut dyn FnMut(u32)) {
        let group = self.speakers.group_of(listener);
        for turn in self.speakers.turns(listener) {
            let others = self.speakers.groups().members(group.before(turn + 1));
            others.iter().rev().for_each(|&from| self.pair(from, to, each));
        }
    }

    fn pair(&self, from: Rank, to: Rank, each: &mut dyn FnMut(u32)) {
        each(from * self.place.size + to);
    }
}

impl Plan for BySpeakers {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        2 * self.rounds_within + self.rounds_among()
    }

    fn blocks(&self) -> u32 {
        self.place.size * self.place.size
    }

    fn round(&self, i: u32) -> Round {
        let leg = |peer| Leg { peer, blocks: Blocks::Many };
        let (to, from) = self.peers(i);
        let needs = match self.stage(i) {
            Stage::ToSpeakers(_) => Needs::Nothing,
            Stage::AmongGroups(_) if self.within.size == 1 => Needs::Nothing,
            Stage::AmongGroups(_) => Needs::AllBefore(self.rounds_within),
            Stage::FromListeners(_) => Needs::AllBefore(self.rounds_within + self.rounds_among()),
        };
        Round { put: to.map(leg), arrival: from.map(leg), needs, landing: Landing::Store }
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let rank = self.place.rank;
        let ends = |(to, from): (Rank, Rank)| match side {
            Side::Put => (rank, to),
            Side::Arrival => (from, rank),
        };
        match self.stage(i) {
            Stage::ToSpeakers(i) => {
                let Some((from, to)) = self.within(i).map(ends) else { return };
                self.each_for_speaker(from, to, each);
            }
            Stage::AmongGroups(turn) => {
                let (group, (to, from)) = (self.speakers.groups().of(rank), self.among(turn));
                match side {
                    Side::Put => self.each_between(group, to, each),
                    Side::Arrival => self.each_between(from, group, each),
                }
            }
            Stage::FromListeners(i) => {
                let Some((from, to)) = self.within(i).map(ends) else { return };
                self.each_heard(from, to, each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(groups: &Arc<Groups>) -> Vec<BySpeakers> {
        let size = groups.ranks();
        (0..size).map(|rank| BySpeakers::new(Place { rank, size }, groups)).collect()
    }

    #[test]
    fn a_rank_puts_no_more_than_the_catalogue_says() {
        for (g, k) in [(2, 1), (2, 8), (3, 4), (4, 3), (5, 4), (6, 2), (9, 3)] {
            let (p, groups) = (g * k, Arc::new(Groups::runs(g * k, g)));
            let spoken_of = (g - 1).div_ceil(k) * k * k;
            for plan in plans(&groups) {
                let group = groups.of(plan.place.rank);
                let (mut within, mut among) = (0, 0);
                for i in 0..plan.rounds() {
                    let Some(put) = plan.round(i).put else { continue };
                    let blocks = if groups.of(put.peer) == group { &mut within } else { &mut among };
                    plan.many(i, Side::Put, &mut |_| *blocks += 1);
                }
                assert!(among <= spoken_of && within <= p + spoken_of, "p = {p}, {groups}");
            }
        }
    }

    #[test]
    fn one_leg_goes_from_each_group_to_each_other_and_a_groups_ranks_share_them() {
        for p in 1..40 {
            for groups in [Groups::scattered(p), Groups::runs(p, p.div_ceil(4)), Groups::runs(p, 2)] {
                let groups = Arc::new(groups);
                let g = groups.count() as usize;
                let mut crossings = vec![0; g * g];
                for plan in plans(&groups) {
                    let group = groups.of(plan.place.rank);
                    let to = |i| plan.round(i).put.map(|put| groups.of(put.peer)).filter(|&to| to != group);
                    let crossed: Vec<_> = (0..plan.rounds()).filter_map(to).collect();
                    crossed.iter().for_each(|&to| crossings[group as usize * g + to as usize] += 1);
                    assert!(
                        crossed.len() <= (g - 1).div_ceil(groups.members(group).len()),
                        "p = {p}, {groups}"
                    );
                }
                let once = |(at, &legs): (usize, &u32)| legs == u32::from(at / g != at % g);
                assert!(crossings.iter().enumerate().all(once), "p = {p}, {groups}");
            }
        }
    }
}
