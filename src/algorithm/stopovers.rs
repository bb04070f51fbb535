//! Where the blocks of an all-to-all [by speakers](super::speakers) lie: at their first rank, at the speaker, at the
//! listener, at their last rank.
//!
//! What goes from group to group lies together at both ends of its leg, which so is one put; so does what a speaker is
//! handed for a group. Of what goes on from a listener all blocks lie apart, as somebody has to sort them.

use std::ops::Range;
use std::sync::Arc;

use super::groups::Groups;
use super::speakers::Speakers;
use crate::plan::layout::{HandedOn, Layout};
use crate::rank::{Place, Rank};

/// How many blocks each rank of `p` has room for, in so many groups of `largest` ranks at most: `p` that it sends, `p`
/// that it gets, and what it speaks of and hears, the shares of at most `g - 2 + k` groups for one rank each. About
/// `4 p` and `2 k²`, with groups of one size.
pub fn places(p: u32, groups: u32, largest: u32) -> u64 {
    2 * (u64::from(p) + spoken_of(groups, largest))
}

/// For `⌈(g - 1) / a⌉` groups, of a group of `a <= k` ranks, `a k` blocks each.
fn spoken_of(groups: u32, largest: u32) -> u64 {
    u64::from(largest) * (u64::from(groups) + u64::from(largest)).saturating_sub(2)
}

/// The layout of one rank, of blocks of one size.
pub struct Stopovers {
    place: Place,
    speakers: Speakers,
    bytes: u64,
    /// Where each group's ranks begin among all, group by group.
    firsts: Vec<u64>,
    /// Blocks that a rank speaks of, or hears, at most.
    room: u64,
}

impl Stopovers {
    /// Of `place.rank`; blocks of so many bytes.
    pub fn new(place: Place, groups: &Arc<Groups>, bytes: u64) -> Self {
        let room = spoken_of(groups.count(), groups.largest());
        let count = |group| groups.members(group).len() as u64;
        let after = |sum: &mut u64, group| Some(std::mem::replace(sum, *sum + count(group)));
        let firsts = (0..groups.count()).scan(0, after).collect();
        Stopovers { place, speakers: Speakers::new(groups), bytes, firsts, room }
    }

    /// Where a rank has what it sends to another, and does not speak of.
    fn sent(&self, to: Rank) -> Range<u64> {
        self.at(self.among_all(to))
    }

    /// Where a rank gets what comes from another, and has not heard.
    fn received(&self, from: Rank) -> Range<u64> {
        self.at(u64::from(self.place.size) + self.among_all(from))
    }

    /// Where a speaker has a block of which it speaks.
    fn spoken(&self, way: Way) -> Range<u64> {
        self.at(2 * u64::from(self.place.size) + self.among_those_between(way, way.group_from))
    }

    /// Where a listener has a block of which it has heard.
    fn heard(&self, way: Way) -> Range<u64> {
        self.at(2 * u64::from(self.place.size) + self.room + self.among_those_between(way, way.group_to))
    }

    /// A block's place in what a speaker, or listener, of `group` has of all pairs of groups that are its own.
    fn among_those_between(&self, way: Way, group: u32) -> u64 {
        let groups = self.speakers.groups();
        let ranks = |group| groups.members(group).len() as u64;
        let share = u64::from(self.speakers.turn(way.group_from, way.group_to)) / ranks(group);
        let (row, column) = (groups.place_within(way.from).rank, groups.place_within(way.to).rank);
        share * ranks(group) * u64::from(groups.largest())
            + u64::from(row) * ranks(way.group_to)
            + u64::from(column)
    }

    /// A rank's place among all, group by group.
    fn among_all(&self, rank: Rank) -> u64 {
        let groups = self.speakers.groups();
        self.firsts[groups.of(rank) as usize] + u64::from(groups.place_within(rank).rank)
    }

    fn at(&self, place: u64) -> Range<u64> {
        place * self.bytes..(place + 1) * self.bytes
    }

    fn way(&self, block: u32) -> Way {
        let (from, to) = (block / self.place.size, block % self.place.size);
        self.between(from, to)
    }

    fn between(&self, from: Rank, to: Rank) -> Way {
        let groups = self.speakers.groups();
        Way { from, to, group_from: groups.of(from), group_to: groups.of(to) }
    }

    fn speaks_of(&self, way: Way) -> bool {
        !way.is_within() && self.speakers.speaker(way.group_from, way.group_to) == self.place.rank
    }

    fn hears(&self, way: Way) -> bool {
        !way.is_within() && self.speakers.listener(way.group_from, way.group_to) == self.place.rank
    }
}

/// A block's way.
#[derive(Clone, Copy)]
struct Way {
    from: Rank,
    to: Rank,
    group_from: u32,
    group_to: u32,
}

impl Way {
    fn is_within(self) -> bool {
        self.group_from == self.group_to
    }
}

impl Layout for Stopovers {
    fn source(&self, block: u32) -> Range<u64> {
        match self.way(block) {
            way if self.speaks_of(way) => self.spoken(way),
            way if self.hears(way) => self.heard(way),
            way => self.sent(way.to),
        }
    }

    fn target(&self, block: u32) -> Range<u64> {
        match self.way(block) {
            way if self.speaks_of(way) => self.spoken(way),
            way if self.hears(way) => self.heard(way),
            way => self.received(way.from),
        }
    }

    fn remote(&self, block: u32) -> u64 {
        let way = self.way(block);
        let there = match way {
            way if self.speaks_of(way) => self.heard(way),
            way if way.is_within() || self.hears(way) => self.received(way.from),
            way => self.spoken(way),
        };
        there.start
    }
}

impl HandedOn for Stopovers {
    fn size(&self) -> u64 {
        2 * (u64::from(self.place.size) + self.room) * self.bytes
    }

    fn start(&self, to: Rank) -> Range<u64> {
        self.source(self.place.rank * self.place.size + to)
    }

    fn end(&self, from: Rank) -> Range<u64> {
        if from == self.place.rank {
            return self.start(from);
        }
        self.target(from * self.place.size + self.place.rank)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::algorithm::speakers::BySpeakers;
    use crate::engine::leg::{Stretches, stretches};
    use crate::plan::{Plan, Side, each_block};

    fn all_groups(p: u32) -> Vec<Arc<Groups>> {
        let uneven = Groups::new((0..p).map(|rank| rank.isqrt()));
        let groups = [Groups::scattered(p), Groups::runs(p, p.div_ceil(4)), Groups::runs(p, 2), uneven];
        groups.into_iter().map(Arc::new).collect()
    }

    /// The plans of all ranks, and where each has its blocks.
    fn ranks(groups: &Arc<Groups>) -> Vec<(BySpeakers, Stopovers)> {
        let place = |rank| Place { rank, size: groups.ranks() };
        let of = |place| (BySpeakers::new(place, groups), Stopovers::new(place, groups, 1));
        (0..groups.ranks()).map(place).map(of).collect()
    }

    #[test]
    fn a_block_is_put_from_where_it_landed_and_nothing_else_lies_there() {
        for groups in (1..30).flat_map(all_groups) {
            let (p, ranks) = (groups.ranks(), ranks(&groups));
            let mut at = HashMap::new();
            let mut taken: HashSet<(Rank, u64)> = HashSet::new();
            for (rank, (_, layout)) in (0..p).zip(&ranks) {
                assert_eq!(layout.size(), places(p, groups.count(), groups.largest()));
                for to in 0..p {
                    at.insert(rank * p + to, (rank, layout.start(to)));
                    assert!(taken.insert((rank, layout.start(to).start)), "{groups}");
                }
            }
            for i in 0..ranks[0].0.rounds() {
                for (rank, (plan, layout)) in (0..p).zip(&ranks) {
                    let Some(put) = plan.round(i).put else { continue };
                    each_block(plan, i, Side::Put, &mut |block| {
                        let there = ranks[put.peer as usize].1.target(block);
                        assert_eq!(at[&block], (rank, layout.source(block)), "{groups}");
                        assert_eq!(layout.remote(block), there.start, "{groups}");
                        assert!(there.end <= layout.size(), "{groups}");
                        assert!(taken.insert((put.peer, there.start)), "{groups}");
                        at.insert(block, (put.peer, there));
                    });
                }
            }
            for (block, end) in at {
                let (from, to) = (block / p, block % p);
                assert_eq!(end, (to, ranks[to as usize].1.end(from)), "{groups}");
            }
        }
    }

    #[test]
    fn both_ends_of_a_leg_find_the_same_blocks_together() {
        for groups in (2..40).flat_map(all_groups) {
            let ranks = ranks(&groups);
            for (plan, layout) in &ranks {
                for i in 0..plan.rounds() {
                    let Some(put) = plan.round(i).put else { continue };
                    let (peer, there) = &ranks[put.peer as usize];
                    let lengths = |all: Stretches| all.iter().map(|one| one.len).collect::<Vec<_>>();
                    let (put, arrival) =
                        (stretches(plan, layout, i, Side::Put), stretches(peer, there, i, Side::Arrival));
                    assert_eq!(lengths(put), lengths(arrival), "{groups}, round {i}");
                }
            }
        }
    }

    #[test]
    fn what_crosses_lies_together_at_both_ends() {
        for groups in (2..30).flat_map(all_groups) {
            for (rank, (plan, layout)) in (0..).zip(&ranks(&groups)) {
                let crosses =
                    |i: &u32| plan.round(*i).put.is_some_and(|put| groups.of(put.peer) != groups.of(rank));
                for i in (0..plan.rounds()).filter(crosses) {
                    assert_eq!(stretches(plan, layout, i, Side::Put).len(), 1, "{groups}");
                }
            }
        }
    }
}
