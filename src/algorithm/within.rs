//! A broadcast within a group: on the circulant graph of its ranks, or, where it is divided into domains, to the
//! domains' leaders and on within each, block by block.
//!
//! The decision: rounds of a group without domains beside divided ones, or with few, are those of the largest, so
//! that a round's number means the same everywhere.

use super::broadcast::Circulant;
use super::groups::Groups;
use super::led::{ALONE, Leaders, Led};
use crate::plan::{Plan, Round, Side};
use crate::rank::{Place, Rank};

/// One rank's part in it; ranks are places in the group, and each leg carries one block.
#[expect(clippy::large_enum_variant, reason = "a rank has few, and the larger one is the usual one")]
pub enum Within {
    /// Among all.
    Flat(Circulant),
    /// Domain by domain.
    ByDomains(Box<Led<Circulant>>),
}

impl Within {
    /// The plan of a rank, where the `root`th of its group has so many blocks (none is taken for one).
    pub fn new(groups: &Groups, rank: Rank, root: Rank, blocks: u32) -> Self {
        let place = groups.place_within(rank);
        match groups.divided(groups.of(rank)) {
            None => Within::Flat(Circulant::new(place, root, blocks)),
            Some(domains) => {
                let leaders = Leaders::new(domains, Some(root), ALONE);
                Within::ByDomains(Box::new(Led::broadcast(place, &leaders, root, blocks, 1)))
            }
        }
    }

    /// How many rounds the group needs that needs most.
    pub fn rounds_of_all(groups: &Groups, blocks: u32) -> u32 {
        let Some((among, within)) = groups.rounds_of_domains() else {
            return rounds(blocks, groups.rounds_within());
        };
        let among = rounds(blocks, among);
        let handed_on = among.max(blocks);
        2 * among.max(rounds(handed_on, within))
    }

    /// In how many rounds each block goes on by one.
    pub fn width(groups: &Groups) -> u32 {
        if groups.rounds_of_domains().is_some() { 2 } else { 1 }
    }

    /// So many times [`width`](Self::width) rounds after those in which the root first puts a block all have it.
    pub fn lag(groups: &Groups) -> u32 {
        let (among, within) = groups.rounds_of_domains().unwrap_or((0, groups.rounds_within()));
        // Of a phase of q rounds: a block comes in the one in which the root puts it, or in the next.
        let latest = |q: u32| 2 * q.saturating_sub(1);
        latest(among) + latest(within) + 1
    }

    fn plan(&self) -> &dyn Plan {
        match self {
            Within::Flat(plan) => plan,
            Within::ByDomains(plan) => &**plan,
        }
    }

    /// The round in which this rank, not the root, gets a block.
    pub fn arrival_of(&self, block: u32) -> u32 {
        match self {
            Within::Flat(plan) => plan.arrival_of(block),
            Within::ByDomains(plan) => plan.arrival_of(block),
        }
    }
}

impl Plan for Within {
    fn place(&self) -> Place {
        self.plan().place()
    }

    fn rounds(&self) -> u32 {
        self.plan().rounds()
    }

    fn blocks(&self) -> u32 {
        self.plan().blocks()
    }

    fn round(&self, i: u32) -> Round {
        self.plan().round(i)
    }

    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        self.plan().many(i, side, each)
    }

    fn forwarded(&self, i: u32) -> Option<u32> {
        self.plan().forwarded(i)
    }

    fn sources(&self) -> Vec<Rank> {
        self.plan().sources()
    }

    fn targets(&self) -> Vec<Rank> {
        self.plan().targets()
    }
}

/// Rounds of a broadcast on a graph of so many rounds a phase.
fn rounds(blocks: u32, phase: u32) -> u32 {
    if phase == 0 || blocks == 0 { 0 } else { blocks - 1 + phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_come_to_all_before_the_lag_is_over() {
        let latest = |groups: &Groups, root| {
            let others = (0..groups.ranks()).filter(|&rank| rank != root);
            let plans = others.map(|rank| Within::new(groups, rank, root, 20));
            let turns = plans.flat_map(|plan| (0..20).map(move |block| (block, plan.arrival_of(block))));
            turns.map(|(block, turn)| turn - block).max().unwrap_or(0)
        };
        for p in 2..=100 {
            let flat = Groups::runs(p, 1);
            assert!(latest(&flat, p / 3) < Within::lag(&flat), "p = {p}");
        }
        let exact = Groups::runs(17, 1);
        assert_eq!(latest(&exact, 5) + 1, Within::lag(&exact));
    }
}
