//! One rank's run of a plan, without I/O: it gives orders and takes events.
//!
//! The engine pumps runs over a transport, tests deliver events in seeded random order, a simulator
//! can deliver them in virtual time; the code is the same. A run holds O(1) state and what the
//! transport brought out of order, however many rounds the plan has.
//!
//! The one decision: a put waits for the arrivals that it needs, never for a round. Of the next
//! rounds, as many as the run looks ahead, whatever can be put is put, lowest round first.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use crate::plan::{Leg, Needs, Plan, Round};
use crate::rank::Rank;

/// The most rounds, from the first unfinished one, that are looked at for a put.
pub const LOOKAHEAD: u32 = 64;

/// A put that the run orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Its round, which is what the peer is told.
    pub round: u32,
    /// To whom, and which blocks.
    pub put: Leg,
    /// Whether it waited for nothing: what forwards an arrival is paced by the arrivals, this is not.
    pub unpaced: bool,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// An arrival.
    Arrival {
        /// In which round.
        round: u32,
        /// From whom, and which blocks.
        from: Leg,
    },
    /// That a peer is ready for a put, or that the transport takes it.
    Target {
        /// In which round.
        round: u32,
        /// To whom, and which blocks.
        to: Leg,
    },
    /// That the sources of puts may be reused.
    Sent {
        /// How many.
        puts: u32,
    },
}

/// An arrival that the plan does not have, or a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unexpected {
    /// The round that was named.
    pub round: u32,
}

/// A plan being carried out.
pub struct Run<P> {
    plan: P,
    rounds: u32,
    lookahead: u32,
    /// Whether puts to one peer keep the order of their rounds.
    in_order: bool,
    orders: Orders,
    arrivals: Arrivals,
    /// Puts that were ordered and whose source is still needed.
    in_flight: u32,
}

impl<P: Plan> Run<P> {
    /// A run at its beginning, that looks at so many rounds for a put (1 to [`LOOKAHEAD`]).
    pub fn new(plan: P, lookahead: u32) -> Self {
        let mut run = Run {
            rounds: plan.rounds(),
            lookahead: lookahead.clamp(1, LOOKAHEAD),
            in_order: false,
            orders: Orders::default(),
            arrivals: Arrivals::default(),
            in_flight: 0,
            plan,
        };
        run.restart();
        run
    }

    /// The same, with the puts to each peer in the order of their rounds.
    pub fn in_order(self) -> Self {
        Run { in_order: true, ..self }
    }

    /// Back to the beginning, once the run is done.
    pub fn restart(&mut self) {
        self.orders.restart();
        self.arrivals.restart();
        self.orders.fill(&self.plan, self.rounds);
        self.arrivals.settle(&self.plan, self.rounds);
    }

    /// The plan.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// The next put whose needs are met and whose peer `is_ready` for its round: the same one again until it is
    /// [ordered](Self::ordered).
    pub fn next_put(&self, is_ready: impl Fn(u32, Rank) -> bool) -> Option<Order> {
        let can = |round, needs, peer| self.arrivals.meet(needs) && is_ready(round, peer);
        let round = self.orders.find(self.lookahead, self.in_order, can)?;
        let Round { put, needs, .. } = self.plan.round(round);
        put.map(|put| Order { round, put, unpaced: needs == Needs::Nothing })
    }

    /// A put has been handed over; it is under way until it is [`sent`](Self::sent).
    pub fn ordered(&mut self, order: Order) {
        self.orders.mark(order.round);
        self.orders.fill(&self.plan, self.rounds);
        self.in_flight += 1;
    }

    /// A put has been made already, and its source is free again.
    pub fn put_before(&mut self, round: u32) {
        self.orders.mark(round);
        self.orders.fill(&self.plan, self.rounds);
    }

    /// The source of a put is free again.
    pub fn sent(&mut self) {
        self.in_flight -= 1;
    }

    /// A round's arrival has landed.
    pub fn arrived(&mut self, round: u32) -> Result<(), Unexpected> {
        let expected = round < self.rounds && self.plan.round(round).arrival.is_some();
        if !expected || !self.arrivals.insert(round) {
            return Err(Unexpected { round });
        }
        self.arrivals.settle(&self.plan, self.rounds);
        Ok(())
    }

    /// Puts that were ordered and whose source is still needed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The first round whose arrival is still to land.
    pub fn arrived_before(&self) -> u32 {
        self.arrivals.low
    }

    /// Whether the round's arrival, if it has one, has landed.
    pub fn has_arrived(&self, round: u32) -> bool {
        self.arrivals.has(round)
    }

    /// Whether the round's put, if it has one, has been ordered.
    pub fn has_ordered(&self, round: u32) -> bool {
        self.orders.has(round)
    }

    /// Whether all has been put and sent, and all has arrived.
    pub fn is_done(&self) -> bool {
        self.orders.low == self.rounds && self.arrivals.low == self.rounds && self.in_flight == 0
    }

    /// What it waits for: the earliest arrival that is missing, else the earliest put that is held up.
    pub fn awaits(&self) -> Option<Awaits> {
        if self.arrivals.low < self.rounds {
            let round = self.arrivals.low;
            return self.plan.round(round).arrival.map(|from| Awaits::Arrival { round, from });
        }
        if self.orders.low < self.rounds {
            let round = self.orders.low;
            return self.plan.round(round).put.map(|to| Awaits::Target { round, to });
        }
        (self.in_flight > 0).then_some(Awaits::Sent { puts: self.in_flight })
    }
}

/// The rounds whose put is still to be ordered: a window of [`LOOKAHEAD`] rounds from the first of them.
#[derive(Default)]
struct Orders {
    /// Every round before this one has been ordered, or has no put.
    low: u32,
    /// The first round that has not been looked at.
    next: u32,
    /// Bit `r % LOOKAHEAD` for each round of the window that is still to be ordered.
    waiting: u64,
    /// What each of them needs, and its peer, at `r % LOOKAHEAD`.
    entries: Vec<(Needs, Rank)>,
}

impl Orders {
    /// Back to the beginning, in the same memory.
    fn restart(&mut self) {
        (self.low, self.next, self.waiting) = (0, 0, 0);
    }

    /// Looks at further rounds as far as the window reaches, and moves it past what is ordered.
    fn fill<P: Plan>(&mut self, plan: &P, rounds: u32) {
        loop {
            while self.next < rounds && self.next - self.low < LOOKAHEAD {
                let Round { put, needs, .. } = plan.round(self.next);
                if let Some(put) = put {
                    self.enter(self.next, needs, put.peer);
                }
                self.next += 1;
            }
            let before = self.low;
            while self.low < self.next && self.waiting & bit(self.low) == 0 {
                self.low += 1;
            }
            if self.low == before || self.next == rounds {
                return;
            }
        }
    }

    fn enter(&mut self, round: u32, needs: Needs, peer: Rank) {
        self.entries.resize(LOOKAHEAD as usize, (Needs::Nothing, 0));
        self.entries[(round % LOOKAHEAD) as usize] = (needs, peer);
        self.waiting |= bit(round);
    }

    fn has(&self, round: u32) -> bool {
        round < self.low || round < self.next && self.waiting & bit(round) == 0
    }

    /// The lowest waiting round of the next `lookahead` of which `can` holds; where order is kept, none
    /// to a peer that an earlier one waits for.
    fn find(&self, lookahead: u32, in_order: bool, can: impl Fn(u32, Needs, Rank) -> bool) -> Option<u32> {
        let window = u64::MAX >> (LOOKAHEAD - lookahead);
        let mut left = self.waiting.rotate_right(self.low % LOOKAHEAD) & window;
        while left != 0 {
            let round = self.low + left.trailing_zeros();
            let (needs, peer) = self.entries[(round % LOOKAHEAD) as usize];
            if can(round, needs, peer) && !(in_order && self.waits_for(peer, round)) {
                return Some(round);
            }
            left &= left - 1;
        }
        None
    }

    /// Whether a put to the peer waits, of a round before this one.
    fn waits_for(&self, peer: Rank, round: u32) -> bool {
        let waits = |i: u32| self.waiting & bit(i) != 0 && self.entries[(i % LOOKAHEAD) as usize].1 == peer;
        (self.low..round).any(waits)
    }

    fn mark(&mut self, round: u32) {
        self.waiting &= !bit(round);
    }
}

fn bit(round: u32) -> u64 {
    1 << (round % LOOKAHEAD)
}

/// The rounds whose arrival has landed.
#[derive(Default)]
struct Arrivals {
    /// Every round before this one has landed, or has no arrival.
    low: u32,
    /// Bits of later rounds, from the word that `low` is in; grows with disorder only.
    later: VecDeque<u64>,
}

impl Arrivals {
    /// Back to the beginning, in the same memory.
    fn restart(&mut self) {
        self.low = 0;
        self.later.clear();
    }

    fn has(&self, round: u32) -> bool {
        round < self.low || {
            let word = (round / 64 - self.low / 64) as usize;
            self.later.get(word).is_some_and(|bits| bits & (1 << (round % 64)) != 0)
        }
    }

    fn meet(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Arrival(round) => self.has(round),
            Needs::AllBefore(round) => self.low >= round,
        }
    }

    /// False where it was there already.
    fn insert(&mut self, round: u32) -> bool {
        if self.has(round) {
            return false;
        }
        let word = (round / 64 - self.low / 64) as usize;
        if self.later.len() <= word {
            self.later.resize(word + 1, 0);
        }
        self.later[word] |= 1 << (round % 64);
        true
    }

    /// Moves `low` past all that has landed and all that never will.
    fn settle<P: Plan>(&mut self, plan: &P, rounds: u32) {
        while self.low < rounds && (self.has(self.low) || plan.round(self.low).arrival.is_none()) {
            self.low += 1;
            if self.low.is_multiple_of(64) {
                self.later.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::groups::Groups;
    use crate::algorithm::{self, Shape, without_twins};
    use crate::collective::Collective::Broadcast;
    use crate::plan::Blocks;
    use crate::rank::Place;
    use proptest::prelude::*;

    /// A plan's rounds, made once: a run asks for each many times, in a test that is not optimised.
    struct Table {
        place: Place,
        blocks: u32,
        rounds: Vec<Round>,
    }

    impl Table {
        fn of(plan: Box<dyn Plan>) -> Table {
            let rounds = (0..plan.rounds()).map(|i| plan.round(i)).collect();
            Table { place: plan.place(), blocks: plan.blocks(), rounds }
        }
    }

    impl Plan for Table {
        fn place(&self) -> Place {
            self.place
        }
        fn rounds(&self) -> u32 {
            self.rounds.len() as u32
        }
        fn blocks(&self) -> u32 {
            self.blocks
        }
        fn round(&self, i: u32) -> Round {
            self.rounds[i as usize]
        }
    }

    type Runs = Vec<Run<Table>>;

    fn runs(entry: &algorithm::Entry, p: u32, root: Rank, n: u32) -> Runs {
        let run = |plan| Run::new(Table::of(plan), 1 + (p + n) % LOOKAHEAD);
        entry
            .plans(&Shape { root, blocks: n, ..entry.shapes(p).swap_remove(0) })
            .into_iter()
            .map(run)
            .collect()
    }

    /// A rank's plan of the broadcast of 8 ranks and 12 blocks.
    fn broadcast(rank: usize) -> Box<dyn Plan> {
        let entry = algorithm::named(Broadcast, "circulant").unwrap();
        entry.plans(&Shape::new(Groups::alone(8), 0, 12, None)).swap_remove(rank)
    }

    /// Delivers puts in random order, refuses some, and gives the order of events that came out.
    fn drive(runs: &mut Runs, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut on_the_way = Vec::new();
        loop {
            let rank = random.usize(0..runs.len());
            if random.u8(0..4) < 2 {
                if let Some(order) = runs[rank].next_put(|_, _| true)
                    && random.u8(0..4) != 0
                {
                    runs[rank].ordered(order);
                    on_the_way.push((rank, order));
                }
            } else if !on_the_way.is_empty() {
                let (from, order) = on_the_way.swap_remove(random.usize(0..on_the_way.len()));
                runs[from].sent();
                runs[order.put.peer as usize].arrived(order.round).unwrap();
            }
            if on_the_way.is_empty() && runs.iter().all(Run::is_done) {
                return;
            }
        }
    }

    proptest! {
        #[test]
        fn every_plan_ends_in_any_order_of_delivery(p in 1u32..40, root: u32, n in 1u32..90, seed: u64) {
            for entry in without_twins().filter(|entry| entry.fits(p)) {
                let mut runs = runs(entry, p, root % p, n);
                for round in 0..2 {
                    drive(&mut runs, seed ^ round);
                    prop_assert!(runs.iter().all(|run| run.awaits().is_none()));
                    runs.iter_mut().for_each(Run::restart);
                }
            }
        }
    }

    #[test]
    fn a_put_waits_for_the_arrival_that_it_forwards_and_for_no_other() {
        let plan = || broadcast(3);
        let mut run = Run::new(plan(), LOOKAHEAD);
        assert_eq!(run.next_put(|_, _| true), None);
        let (round, arrival) = (0..plan().rounds())
            .rev()
            .find_map(|i| {
                plan().round(i).arrival.filter(|leg| forwards(&plan(), i, leg.blocks)).map(|leg| (i, leg))
            })
            .unwrap();
        run.arrived(round).unwrap();
        assert_eq!(run.next_put(|_, _| true).unwrap().put.blocks, arrival.blocks);
    }

    fn forwards(plan: &dyn Plan, arrival: u32, blocks: Blocks) -> bool {
        (0..plan.rounds()).any(|i| {
            plan.round(i).needs == Needs::Arrival(arrival)
                && plan.round(i).put.is_some_and(|put| put.blocks == blocks)
        })
    }

    #[test]
    fn a_peer_that_is_not_ready_holds_up_only_its_own_puts() {
        let mut root = Run::new(broadcast(0), LOOKAHEAD);
        let mut peers = Vec::new();
        while let Some(order) = root.next_put(|_, peer| peer != 1) {
            root.ordered(order);
            peers.push(order.put.peer);
        }
        assert!(peers.len() > 6 && !peers.contains(&1));
        assert!(matches!(root.awaits(), Some(Awaits::Target { to: Leg { peer: 1, .. }, .. })));
    }

    #[test]
    fn an_arrival_that_nobody_expects_is_told() {
        let plan = algorithm::named(Broadcast, "circulant")
            .unwrap()
            .plans(&Shape::new(Groups::alone(2), 0, 3, None))
            .swap_remove(1);
        let mut run = Run::new(plan, LOOKAHEAD);
        assert_eq!(run.arrived(3), Err(Unexpected { round: 3 }));
        assert_eq!(run.arrived(0), Ok(()));
        assert_eq!(run.arrived(0), Err(Unexpected { round: 0 }));
    }
}
