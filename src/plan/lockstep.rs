//! All ranks' plans carried out together, on paper: the proof that a plan does what its collective says.
//!
//! In place of data a block holds the set of ranks whose contribution is in it. Rounds are taken in
//! order, all ranks at once, which is one of the orders that the engine may take; that the others do
//! as well is what the check of `needs` adds: a put may only rely on arrivals that it waits for.
//!
//! The decision: a rank keeps only the blocks that it has, so that a proof takes memory for what the
//! ranks hold together and not for all blocks at all ranks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::contributions::Contributions;
use super::{Blocks, Landing, Leg, Needs, Plan, Round, Side, each_block};
use crate::rank::{Place, Rank};
use crate::schedule::Skips;

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

/// What is said of a plan beyond what its collective promises; the check holds it to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claims {
    /// What is folded are always two runs of ranks, one right after the other, in their order.
    pub ordered: bool,
    /// Puts go along edges of the circulant graph only.
    pub near: bool,
    /// Something may be folded into a block that the rank has put, or puts in the same round.
    pub exchanges: bool,
}

/// In place of a block's number: the word that a notice without blocks carries, all that its sender has
/// heard of.
pub const WORD: u32 = u32::MAX;

/// Carries out all ranks' plans, `plans[r]` being rank r's.
///
/// `start(rank)` are the blocks that a rank has before, with its own contribution in each; `end(rank)`
/// those that it must have after, and with whose contributions. Time: O(blocks that travel), and of each
/// a set of p bits where it is folded.
pub fn check<P: Plan>(
    plans: &[P],
    claims: Claims,
    start: impl Fn(Rank) -> Vec<u32>,
    end: impl Fn(Rank) -> Vec<(u32, Contributions)>,
) -> Result<(), Breach> {
    let Some(first) = plans.first() else { return Ok(()) };
    check_shapes(plans, first)?;
    let mut lockstep = Lockstep::new(plans, claims, start);
    (0..first.rounds()).try_for_each(|i| lockstep.step(i))?;
    (0..plans.len()).try_for_each(|rank| {
        lockstep.check_end(rank, &end(rank as Rank))?;
        lockstep.check_forwarded(rank)?;
        lockstep.check_neighbours(rank)
    })
}

/// All plans are of as many rounds and blocks, and of one rank each.
fn check_shapes<P: Plan>(plans: &[P], first: &P) -> Result<(), Breach> {
    for (rank, plan) in (0..).zip(plans) {
        let place = Place { rank, size: plans.len() as u32 };
        let same = (plan.rounds(), plan.blocks()) == (first.rounds(), first.blocks());
        if plan.place() != place || !same {
            let what = "is not the plan of this rank, or not of the same number of rounds and blocks";
            return Err(Breach { rank, round: 0, what: what.to_owned() });
        }
    }
    Ok(())
}

/// What a rank has of a block.
struct Held {
    content: Contributions,
    /// The round of the latest arrival.
    latest: Option<u32>,
    /// Whether that arrival alone brought what it has, beside what it began with.
    alone: bool,
    /// The latest round in which it was put, since something was stored here.
    put: Option<u32>,
    /// The rounds of the arrivals that have not been put on.
    kept: Vec<u32>,
}

impl Held {
    fn from_the_start(content: Contributions) -> Self {
        Held { content, latest: None, alone: true, put: None, kept: Vec::new() }
    }
}

/// Blocks by their number. Numbers are dense and nobody's choice, so that a multiplication spreads them
/// well enough, in a tenth of the time of the standard hasher.
type Blocked<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One rank.
struct Actor {
    held: Blocked<Held>,
    /// For each round the first later one that puts on what arrived.
    forwarded: Vec<Option<u32>>,
    sources: Peers,
    targets: Peers,
}

/// Ranks in the order of first use.
#[derive(Default)]
struct Peers {
    order: Vec<Rank>,
    seen: Vec<bool>,
}

impl Peers {
    fn note(&mut self, peer: Rank) {
        let at = peer as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.seen[at], true) {
            self.order.push(peer);
        }
    }
}

/// What one rank does in the round at hand.
struct Act {
    round: Round,
    puts: Vec<u32>,
    arrives: Vec<u32>,
}

impl Act {
    fn of(plan: &impl Plan, i: u32) -> Self {
        let round = plan.round(i);
        let named = |side| named(plan, i, round.leg(side), side);
        Act { round, puts: named(Side::Put), arrives: named(Side::Arrival) }
    }
}

fn named(plan: &impl Plan, i: u32, leg: Option<Leg>, side: Side) -> Vec<u32> {
    let mut blocks = Vec::new();
    match leg {
        None => {}
        Some(Leg { blocks: Blocks::Nothing, .. }) => blocks.push(WORD),
        Some(_) => each_block(plan, i, side, &mut |block| blocks.push(block)),
    }
    blocks
}

struct Lockstep<'p, P> {
    plans: &'p [P],
    claims: Claims,
    skips: Skips,
    actors: Vec<Actor>,
}

impl<'p, P: Plan> Lockstep<'p, P> {
    fn new(plans: &'p [P], claims: Claims, start: impl Fn(Rank) -> Vec<u32>) -> Self {
        let actor = |(rank, plan): (Rank, &P)| {
            let own = Contributions::of(rank);
            let held = |block| (block, Held::from_the_start(own.clone()));
            Actor {
                held: start(rank).into_iter().map(held).collect(),
                forwarded: vec![None; plan.rounds() as usize],
                sources: Peers::default(),
                targets: Peers::default(),
            }
        };
        let actors = (0..).zip(plans).map(actor).collect();
        Lockstep { plans, claims, skips: Skips::new(plans.len() as u32), actors }
    }

    /// One round of all ranks: what lands in it is there in the next.
    fn step(&mut self, i: u32) -> Result<(), Breach> {
        let acts: Vec<_> = self.plans.iter().map(|plan| Act::of(plan, i)).collect();
        let breach = |rank: usize| move |what| Breach { rank: rank as Rank, round: i, what };
        for rank in 0..acts.len() {
            self.put(i, rank, &acts).map_err(breach(rank))?;
        }
        let mut landed = Vec::new();
        for rank in 0..acts.len() {
            self.land(i, rank, &acts, &mut landed).map_err(breach(rank))?;
        }
        for (rank, block, held) in landed {
            self.actors[rank].held.insert(block, held);
        }
        Ok(())
    }

    fn put(&mut self, i: u32, rank: usize, acts: &[Act]) -> Result<(), String> {
        let act = &acts[rank];
        let Some(Leg { peer, .. }) = act.round.put else { return Ok(()) };
        self.check_legs_meet(rank as Rank, peer, acts)?;
        self.check_near(rank as Rank, peer)?;
        self.actors[rank].targets.note(peer);
        for &block in &act.puts {
            self.actors[rank].put(i, block, act.round.needs)?;
        }
        Ok(())
    }

    fn check_legs_meet(&self, rank: Rank, peer: Rank, acts: &[Act]) -> Result<(), String> {
        let puts = &acts[rank as usize].puts;
        let expects = acts.get(peer as usize).and_then(|theirs| Some((theirs.round.arrival?, theirs)));
        match expects {
            _ if puts.is_empty() => Err(format!("puts to rank {peer}, but no blocks")),
            Some((leg, theirs)) if leg.peer == rank && theirs.arrives == *puts => Ok(()),
            Some((leg, theirs)) => Err(format!(
                "puts blocks {puts:?} to rank {peer}, who expects blocks {:?} from rank {}",
                theirs.arrives, leg.peer
            )),
            None => Err(format!("puts blocks {puts:?} to rank {peer}, who expects nothing")),
        }
    }

    fn check_near(&self, rank: Rank, peer: Rank) -> Result<(), String> {
        let skips = &self.skips;
        let is_edge = |k| skips.to(rank, k) == peer || skips.from(rank, k) == peer;
        if !self.claims.near || (0..skips.rounds()).any(is_edge) {
            return Ok(());
        }
        Err(format!("puts to rank {peer}, who is no neighbour in the circulant graph"))
    }

    fn land(
        &mut self,
        i: u32,
        rank: usize,
        acts: &[Act],
        landed: &mut Vec<(usize, u32, Held)>,
    ) -> Result<(), String> {
        let act = &acts[rank];
        let Some(Leg { peer, .. }) = act.round.arrival else { return Ok(()) };
        let put = acts.get(peer as usize).and_then(|theirs| theirs.round.put);
        if put.is_none_or(|put| put.peer != rank as Rank) {
            return Err(format!("expects blocks {:?} from rank {peer}, who does not put to it", act.arrives));
        }
        self.actors[rank].sources.note(peer);
        for &block in &act.arrives {
            // That the peer has it is known from its put.
            let Some(theirs) = self.actors[peer as usize].held.get(&block) else { continue };
            let theirs = theirs.content.clone();
            let mine = self.actors[rank].held.get(&block);
            let now = self.landing(i, block, act.round.landing, mine, theirs)?;
            landed.push((rank, block, now));
        }
        Ok(())
    }

    /// What a rank has of a block after an arrival.
    fn landing(
        &self,
        i: u32,
        block: u32,
        landing: Landing,
        mine: Option<&Held>,
        theirs: Contributions,
    ) -> Result<Held, String> {
        let stored = |content| Held { content, latest: Some(i), alone: true, put: None, kept: vec![i] };
        match (landing, mine) {
            _ if block == WORD => Ok(stored(mine.map_or(theirs.clone(), |mine| mine.content.union(&theirs)))),
            (Landing::Store, Some(mine)) if mine.content == theirs => {
                Err(format!("is put block {block} that it has already"))
            }
            (Landing::Store, _) => Ok(stored(theirs)),
            (_, None) => Err(format!("folds into block {block}, which it does not have")),
            (fold, Some(mine)) => {
                self.check_fold(block, fold, mine, &theirs)?;
                let kept = mine.kept.iter().copied().chain([i]).collect();
                let content = mine.content.union(&theirs);
                Ok(Held { content, latest: Some(i), alone: mine.latest.is_none(), put: mine.put, kept })
            }
        }
    }

    fn check_fold(
        &self,
        block: u32,
        fold: Landing,
        mine: &Held,
        theirs: &Contributions,
    ) -> Result<(), String> {
        if mine.content.overlaps(theirs) {
            return Err(format!("folds a contribution to block {block} twice"));
        }
        // The engine may carry the put out later: it would then bring this arrival along.
        if let (false, Some(put)) = (self.claims.exchanges, mine.put) {
            return Err(format!("folds into block {block}, which it put in round {put}"));
        }
        let (before, after) = match fold {
            Landing::FoldBefore => (theirs, &mine.content),
            _ => (&mine.content, theirs),
        };
        let follow = |(_, last): (Rank, Rank), (first, _): (Rank, Rank)| last + 1 == first;
        let in_order = before.run().zip(after.run()).is_some_and(|(before, after)| follow(before, after));
        if self.claims.ordered && !in_order {
            return Err(format!("does not fold block {block} in the order of the ranks"));
        }
        Ok(())
    }

    fn check_end(&self, rank: usize, end: &[(u32, Contributions)]) -> Result<(), Breach> {
        let held = &self.actors[rank].held;
        let right =
            |block: u32, wanted: &Contributions| held.get(&block).is_some_and(|held| held.content == *wanted);
        match end.iter().find(|(block, wanted)| !right(*block, wanted)) {
            None => Ok(()),
            Some((WORD, _)) => self.at_the_end(rank, "ends without having heard of all".to_owned()),
            Some((block, _)) => self.at_the_end(rank, format!("ends without the right block {block}")),
        }
    }

    /// Read backwards, a plan waits from the round on that `forwarded` names: that must not be too late.
    fn check_forwarded(&self, rank: usize) -> Result<(), Breach> {
        let plan = &self.plans[rank];
        for (i, truth) in (0..).zip(&self.actors[rank].forwarded) {
            let said = plan.forwarded(i);
            let early =
                said.is_none_or(|said| said > i) && said.unwrap_or(u32::MAX) <= truth.unwrap_or(u32::MAX);
            if plan.round(i).arrival.is_some() && !early {
                let what = format!("says {said:?} of when its arrival is put on, which is {truth:?}");
                return Err(Breach { rank: rank as Rank, round: i, what });
            }
        }
        Ok(())
    }

    fn check_neighbours(&self, rank: usize) -> Result<(), Breach> {
        let (plan, actor) = (&self.plans[rank], &self.actors[rank]);
        for (said, are) in [(plan.sources(), &actor.sources), (plan.targets(), &actor.targets)] {
            if said != are.order {
                return self
                    .at_the_end(rank, format!("names the neighbours {said:?}, which are {:?}", are.order));
            }
        }
        Ok(())
    }

    fn at_the_end(&self, rank: usize, what: String) -> Result<(), Breach> {
        Err(Breach { rank: rank as Rank, round: self.plans[rank].rounds(), what })
    }
}

impl Actor {
    fn put(&mut self, i: u32, block: u32, needs: Needs) -> Result<(), String> {
        let Some(held) = self.held.get_mut(&block) else {
            return Err(format!("puts block {block} before it has it"));
        };
        if held.put == Some(i) {
            return Err(format!("puts block {block} twice in one round"));
        }
        check_needs(needs, i, held)?;
        held.put = Some(i);
        for arrival in held.kept.drain(..) {
            self.forwarded[arrival as usize].get_or_insert(i);
        }
        Ok(())
    }
}

/// A put must wait for all arrivals of what it puts, and for none to come.
fn check_needs(needs: Needs, i: u32, held: &Held) -> Result<(), String> {
    match (needs, held.latest) {
        (Needs::Nothing, None) => Ok(()),
        (Needs::Arrival(j), None) if j < i => Ok(()),
        (Needs::Arrival(j), Some(latest)) if j == latest && held.alone => Ok(()),
        (Needs::AllBefore(j), latest) if j <= i && latest.is_none_or(|latest| latest < j) => Ok(()),
        (_, latest) => Err(format!("waits for {needs:?}, and what it puts came in round {latest:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::distinct;

    /// Rounds as they are written down, and one block.
    #[derive(Clone)]
    struct Script {
        place: Place,
        rounds: Vec<Round>,
        /// What `many` names.
        many: Vec<u32>,
        forwarded: Option<u32>,
        sources: Option<Vec<Rank>>,
    }

    impl Plan for Script {
        fn place(&self) -> Place {
            self.place
        }
        fn rounds(&self) -> u32 {
            self.rounds.len() as u32
        }
        fn blocks(&self) -> u32 {
            1
        }
        fn round(&self, i: u32) -> Round {
            self.rounds[i as usize]
        }
        fn many(&self, _: u32, _: Side, each: &mut dyn FnMut(u32)) {
            self.many.iter().copied().for_each(each)
        }
        fn forwarded(&self, _: u32) -> Option<u32> {
            self.forwarded
        }
        fn sources(&self) -> Vec<Rank> {
            let rounds = || self.rounds.iter().filter_map(|round| round.arrival);
            self.sources.clone().unwrap_or_else(|| distinct(rounds()))
        }
    }

    /// One put of block 0 a round: from whom, to whom, and what becomes of it.
    fn script(p: u32, puts: &[(Rank, Rank, Landing)]) -> Vec<Script> {
        let leg = |is: bool, peer| is.then_some(Leg { peer, blocks: Blocks::One(0) });
        let round = |rank, i, &(from, to, landing): &(Rank, Rank, Landing)| Round {
            put: leg(rank == from, to),
            arrival: leg(rank == to, from),
            needs: Needs::AllBefore(i),
            landing,
        };
        let plan = |rank| Script {
            place: Place { rank, size: p },
            rounds: (0..).zip(puts).map(|(i, put)| round(rank, i, put)).collect(),
            many: Vec::new(),
            forwarded: Some(1),
            sources: None,
        };
        (0..p).map(plan).collect()
    }

    /// An allreduce of two ranks.
    fn right() -> Vec<Script> {
        let mut plans = script(2, &[(1, 0, Landing::Fold), (0, 1, Landing::Store)]);
        plans[1].forwarded = None;
        plans
    }

    const CLAIMS: Claims = Claims { ordered: true, near: true, exchanges: false };
    const UNORDERED: Claims = Claims { ordered: false, ..CLAIMS };

    fn run(plans: &[Script], claims: Claims) -> Result<(), Breach> {
        check(plans, claims, |_| vec![0], |_| vec![(0, Contributions::all(plans.len() as u32))])
    }

    fn said(plans: &[Script], claims: Claims) -> String {
        run(plans, claims).unwrap_err().what
    }

    fn faulty(fault: impl Fn(&mut [Script])) -> String {
        let mut plans = right();
        fault(&mut plans);
        said(&plans, CLAIMS)
    }

    #[test]
    fn a_right_plan_passes() {
        assert_eq!(run(&right(), CLAIMS), Ok(()));
    }

    #[test]
    fn a_put_that_nobody_expects_is_a_breach() {
        assert!(faulty(|plans| plans[0].rounds[0].arrival = None).contains("who expects nothing"));
    }

    #[test]
    fn an_arrival_that_nobody_puts_is_a_breach() {
        assert!(faulty(|plans| plans[1].rounds[0].put = None).contains("who does not put"));
    }

    #[test]
    fn two_ends_that_name_other_blocks_are_a_breach() {
        let many = Some(Leg { peer: 0, blocks: Blocks::Many });
        let fault = |plans: &mut [Script]| {
            plans[1].rounds[0].put = many;
            plans[1].many = vec![7];
        };
        assert!(faulty(fault).contains("puts blocks [7] to rank 0, who expects blocks [0]"));
    }

    #[test]
    fn a_leg_without_blocks_is_a_breach() {
        let many = Some(Leg { peer: 0, blocks: Blocks::Many });
        assert!(faulty(|plans| plans[1].rounds[0].put = many).contains("no blocks"));
    }

    #[test]
    fn a_block_twice_in_a_put_is_a_breach() {
        let fault = |plans: &mut [Script]| {
            plans[1].rounds[0].put = Some(Leg { peer: 0, blocks: Blocks::Many });
            plans[0].rounds[0].arrival = Some(Leg { peer: 1, blocks: Blocks::Many });
            plans.iter_mut().for_each(|plan| plan.many = vec![0, 0]);
        };
        assert!(faulty(fault).contains("twice in one round"));
    }

    #[test]
    fn not_waiting_for_what_is_put_on_is_a_breach() {
        for needs in [Needs::Nothing, Needs::AllBefore(0), Needs::AllBefore(2), Needs::Arrival(1)] {
            assert!(faulty(|plans| plans[0].rounds[1].needs = needs).contains("waits for"), "{needs:?}");
        }
        let mut plans = right();
        plans[0].rounds[1].needs = Needs::Arrival(0);
        assert_eq!(run(&plans, CLAIMS), Ok(()));
    }

    #[test]
    fn one_arrival_does_not_stand_for_two_that_were_folded() {
        let mut plans = script(3, &[(1, 0, Landing::Fold), (2, 0, Landing::Fold), (0, 1, Landing::Store)]);
        plans[0].rounds[2].needs = Needs::Arrival(1);
        assert!(said(&plans, CLAIMS).contains("waits for Arrival(1)"));
    }

    #[test]
    fn a_fold_out_of_order_is_a_breach_where_order_is_claimed() {
        let landing = Landing::FoldBefore;
        assert!(faulty(|plans| plans[0].rounds[0].landing = landing).contains("order of the ranks"));
        let across = script(3, &[(2, 0, Landing::Fold), (1, 0, Landing::Fold)]);
        assert!(said(&across, CLAIMS).contains("order of the ranks"));
        assert!(!said(&across, UNORDERED).contains("order of the ranks"));
    }

    #[test]
    fn a_contribution_folded_twice_is_a_breach() {
        let landing = Landing::Fold;
        assert!(faulty(|plans| plans[1].rounds[1].landing = landing).contains("folds a contribution"));
    }

    #[test]
    fn a_fold_into_what_was_put_is_a_breach_but_in_an_exchange() {
        let plans = script(3, &[(0, 1, Landing::FoldBefore), (2, 0, Landing::Fold)]);
        assert!(said(&plans, UNORDERED).contains("which it put in round 0"));
        assert!(!said(&plans, Claims { exchanges: true, ..UNORDERED }).contains("which it put"));
    }

    #[test]
    fn what_is_put_to_a_rank_that_has_it_is_a_breach() {
        let plans = script(3, &[(1, 0, Landing::Store), (1, 0, Landing::Store)]);
        assert!(said(&plans, CLAIMS).contains("has already"));
    }

    #[test]
    fn a_block_that_is_not_there_can_neither_be_put_nor_folded_into() {
        let start = |owner| move |rank| if rank == owner { vec![0] } else { vec![] };
        let breach = |owner| check(&right(), CLAIMS, start(owner), |_| vec![]).unwrap_err().what;
        assert!(breach(0).contains("before it has it"));
        assert!(breach(1).contains("does not have"));
    }

    #[test]
    fn an_end_that_is_not_the_promised_one_is_a_breach() {
        let one_way = script(2, &[(1, 0, Landing::Fold)]);
        assert_eq!(run(&one_way, CLAIMS).unwrap_err().rank, 1);
        assert!(said(&one_way, CLAIMS).contains("without the right block"));
    }

    #[test]
    fn a_word_that_comes_too_late_is_a_breach() {
        assert!(faulty(|plans| plans[0].forwarded = Some(2)).contains("when its arrival is put on"));
        assert!(faulty(|plans| plans[0].forwarded = None).contains("when its arrival is put on"));
    }

    #[test]
    fn neighbours_that_are_not_those_of_the_rounds_are_a_breach() {
        assert!(faulty(|plans| plans[0].sources = Some(vec![])).contains("names the neighbours"));
    }

    #[test]
    fn a_put_beyond_the_graph_is_a_breach_where_it_is_claimed_near() {
        // Of twelve ranks the skips are 1, 2, 3 and 6: neither 4 nor 8 is one.
        let far = script(12, &[(4, 0, Landing::Fold)]);
        assert!(said(&far, UNORDERED).contains("no neighbour"));
        assert!(!said(&far, Claims { near: false, ..UNORDERED }).contains("no neighbour"));
    }

    #[test]
    fn a_plan_of_another_rank_is_a_breach() {
        assert!(faulty(|plans| plans[1].place.rank = 0).contains("not the plan of this rank"));
    }
}
