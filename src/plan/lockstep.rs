//! All ranks' plans carried out together, on paper: the proof that a plan does what its collective says.
//!
//! In place of data a block holds the set of ranks whose contribution is in it. Rounds are taken in
//! order, all ranks at once, which is one of the orders that the engine may take; that the others do
//! as well is what the check of `needs` adds: a put may only rely on an arrival that it waits for.

use super::{Blocks, Landing, Leg, Needs, Plan};
use crate::rank::Rank;

/// The ranks whose contributions are in a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contributions(Vec<u64>);

impl Contributions {
    /// Of nobody: a block that a rank does not have.
    pub fn none() -> Self {
        Contributions(Vec::new())
    }

    /// Of one rank.
    pub fn of(rank: Rank) -> Self {
        let mut words = vec![0; rank as usize / 64 + 1];
        words[rank as usize / 64] = 1 << (rank % 64);
        Contributions(words)
    }

    /// Of all of `p` ranks.
    pub fn all(p: u32) -> Self {
        let word = |i: u32| u64::MAX >> (64 - (p - 64 * i).min(64));
        Contributions((0..p.div_ceil(64)).map(word).collect())
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    fn union(&self, other: &Self) -> Self {
        let word = |words: &[u64], i: usize| words.get(i).copied().unwrap_or(0);
        let len = self.0.len().max(other.0.len());
        Contributions((0..len).map(|i| word(&self.0, i) | word(&other.0, i)).collect())
    }
}

/// What is wrong with a plan, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}, round {round}: {what}")]
pub struct Breach {
    /// Whose plan.
    pub rank: Rank,
    /// In which round; the number of rounds for what is missing at the end.
    pub round: u32,
    /// What is wrong.
    pub what: String,
}

/// Carries out all ranks' plans, `plans[r]` being rank r's.
///
/// `start(rank, block)` is what a rank has before, `end(rank, block)` what it must have after (`None`:
/// whatever). Time and memory: O(p · rounds) steps, O(p · blocks) sets.
pub fn check<P: Plan>(
    plans: &[P],
    start: impl Fn(Rank, u32) -> Contributions,
    end: impl Fn(Rank, u32) -> Option<Contributions>,
) -> Result<(), Breach> {
    let Some(first) = plans.first() else { return Ok(()) };
    let (rounds, blocks, p) = (first.rounds(), first.blocks(), plans.len() as u32);
    let mut held: Vec<Vec<Contributions>> =
        (0..p).map(|rank| (0..blocks).map(|block| start(rank, block)).collect()).collect();
    // The round of the latest arrival of each rank's block.
    let mut latest: Vec<Vec<Option<u32>>> = vec![vec![None; blocks as usize]; p as usize];

    for i in 0..rounds {
        // What lands in a round is there in the next: all ranks act on what they have before.
        let mut landed = Vec::new();
        for (rank, plan) in (0..p).zip(plans) {
            let breach = |what: String| Breach { rank, round: i, what };
            let round = plan.round(i);
            if let Some(put) = round.put {
                check_legs_meet(plans, rank, i, put).map_err(breach)?;
                if let Blocks::One(block) = put.blocks {
                    check_needs(round.needs, i, latest[rank as usize][block as usize]).map_err(breach)?;
                    if held[rank as usize][block as usize].is_none() {
                        return Err(breach(format!("puts block {block} before it has it")));
                    }
                }
            }
            let Some(Leg { peer, blocks: Blocks::One(block) }) = round.arrival else { continue };
            if plans[peer as usize].round(i).put != Some(Leg { peer: rank, blocks: Blocks::One(block) }) {
                return Err(breach(format!("expects block {block} from rank {peer}, who does not put it")));
            }
            let mine = &held[rank as usize][block as usize];
            let theirs = &held[peer as usize][block as usize];
            let now = match round.landing {
                Landing::Fold | Landing::FoldBefore if mine.overlaps(theirs) => {
                    return Err(breach(format!("folds a contribution to block {block} twice")));
                }
                Landing::Fold | Landing::FoldBefore => mine.union(theirs),
                Landing::Store if mine == theirs => {
                    return Err(breach(format!("is put block {block} that it has already")));
                }
                Landing::Store => theirs.clone(),
            };
            landed.push((rank as usize, block as usize, now));
        }
        for (rank, block, now) in landed {
            held[rank][block] = now;
            latest[rank][block] = Some(i);
        }
    }
    check_end(&held, rounds, end)
}

fn check_legs_meet<P: Plan>(plans: &[P], rank: Rank, i: u32, put: Leg) -> Result<(), String> {
    let meant = Leg { peer: rank, blocks: put.blocks };
    match plans.get(put.peer as usize).map(|plan| plan.round(i).arrival) {
        Some(Some(leg)) if leg == meant => Ok(()),
        other => Err(format!("puts {:?} to rank {}, who expects {other:?}", put.blocks, put.peer)),
    }
}

/// A put must wait for the latest arrival of what it puts.
fn check_needs(needs: Needs, i: u32, latest: Option<u32>) -> Result<(), String> {
    match (needs, latest) {
        (Needs::Arrival(j), Some(latest)) if j == latest => Ok(()),
        (Needs::AllBefore(j), latest) if j <= i && latest.is_none_or(|latest| latest < j) => Ok(()),
        (Needs::Nothing, None) => Ok(()),
        _ => Err(format!("waits for {needs:?}, and what it puts came in round {latest:?}")),
    }
}

fn check_end(
    held: &[Vec<Contributions>],
    rounds: u32,
    end: impl Fn(Rank, u32) -> Option<Contributions>,
) -> Result<(), Breach> {
    for (rank, blocks) in (0..).zip(held) {
        for (block, has) in (0..).zip(blocks) {
            if end(rank, block).is_some_and(|wanted| wanted != *has) {
                return Err(Breach {
                    rank,
                    round: rounds,
                    what: format!("ends without the right block {block}"),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Round;
    use crate::rank::Place;

    /// A chain of two ranks and one block, with a fault of choice.
    struct Chain {
        place: Place,
        needs: Needs,
        expects: u32,
    }

    impl Plan for Chain {
        fn place(&self) -> Place {
            self.place
        }
        fn rounds(&self) -> u32 {
            1
        }
        fn blocks(&self) -> u32 {
            1
        }
        fn round(&self, _: u32) -> Round {
            let leg = |peer, block| Some(Leg { peer, blocks: Blocks::One(block) });
            let (put, arrival) =
                if self.place.rank == 0 { (leg(1, 0), None) } else { (None, leg(0, self.expects)) };
            Round { put, arrival, needs: self.needs, landing: Landing::Store }
        }
    }

    fn chain(needs: Needs, expects: u32, owner: Rank) -> Result<(), Breach> {
        let plans = [0, 1].map(|rank| Chain { place: Place { rank, size: 2 }, needs, expects });
        let start = |rank, _| if rank == owner { Contributions::of(owner) } else { Contributions::none() };
        check(&plans, start, |_, _| Some(Contributions::of(owner)))
    }

    #[test]
    fn all_are_each_of_them_together() {
        for p in [1, 2, 63, 64, 65, 128, 200] {
            let one_by_one =
                (0..p).map(Contributions::of).fold(Contributions::none(), |all, one| all.union(&one));
            assert_eq!(Contributions::all(p), one_by_one);
        }
    }

    #[test]
    fn a_right_plan_passes() {
        assert_eq!(chain(Needs::Nothing, 0, 0), Ok(()));
    }

    #[test]
    fn a_put_that_nobody_expects_is_a_breach() {
        assert!(chain(Needs::Nothing, 1, 0).unwrap_err().what.contains("who expects"));
    }

    #[test]
    fn a_block_put_before_it_is_there_is_a_breach() {
        assert!(chain(Needs::Nothing, 0, 1).unwrap_err().what.contains("before it has it"));
    }

    #[test]
    fn waiting_for_an_arrival_that_is_not_the_blocks_own_is_a_breach() {
        assert!(chain(Needs::Arrival(0), 0, 0).unwrap_err().what.contains("waits for"));
    }
}
