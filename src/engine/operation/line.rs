//! A call's plan as one line of steps, for when the call is made again: a small call's, that of two ranks that exchange
//! what each can read where it lies, or that of two which [carry](Carried) one long leg.
//!
//! What a run decides anew at every event, it nearly always decides in the same way: here it is decided once. Every
//! put stands as early as lockstep allows, before the next arrival in the order of rounds. So ranks that go
//! along their lines never wait for each other in a circle: what is put in a round waits for earlier rounds only.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::carried::Carried;
use super::course::Course;
use super::io::{Io, Segments, segments};
use super::payload::Shore;
use super::share::is_shared;
use super::shown::SHOWN_FOR_SLOT;
use crate::engine::call::{Call, DataHead, Start, shown_bytes};
use crate::engine::leg::{Stretches, total};
use crate::engine::task::{Operands, OwnPart};
use crate::fold::Fold;
use crate::plan::{Landing, Needs, Plan, Round, Side};
use crate::transport::memory::Memory;
use crate::transport::{Gait, Region};

/// Rounds of the longest line: the plans of small calls have fewer, but for chains of many ranks.
const MOST_ROUNDS: u32 = 64;

/// Of so many calls one tries a line of what is long that was left.
const AGAIN: u32 = 16;

/// The steps of one rank.
pub struct Line {
    /// The heads of its messages.
    pub heads: DataHead,
    /// What is done, one after the other.
    pub steps: Box<[Step]>,
    /// The rounds that have an arrival, a bit each.
    pub arrivals: u64,
    /// What is awaited comes [soon](super::Pace::soon).
    pub soon: bool,
    /// What is done in the place of steps, where two ranks carry one leg.
    pub carried: Option<Carried>,
    /// Whether it is of what does not go in slots.
    pub is_long: bool,
    /// How that is copied.
    pub gait: Gait,
    /// How many calls there were that might have gone along it.
    calls: u32,
    /// One has left it on the way: the next ones are the run's.
    put_off: bool,
}

/// A message that is sent or taken in.
pub struct Step {
    /// Of which round.
    pub round: u32,
    /// How many bytes it has, or shows.
    pub bytes: u64,
    /// What is done with them.
    pub act: Act,
}

/// What a step does.
pub enum Act {
    /// Has them brought to the channel's peer.
    Put {
        /// Its number here.
        channel: usize,
        /// Where they are from.
        from: Segments,
        /// How they go.
        passage: Passage,
    },
    /// Takes them in, once they are there.
    TakeIn {
        /// Where they belong.
        into: Stretches,
        /// What becomes of them.
        landing: Landing,
        /// The channel by which they come.
        channel: usize,
    },
}

/// How a step's bytes go to their target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Into a slot of its channel.
    Slot,
    /// So, or they are shown where that is better.
    SlotOrShown,
    /// They are shown, or it is the run's to bring them there.
    Shown {
        /// Whether the target folds them, as this rank does with what it gets: it would else get them in pieces.
        folded: bool,
    },
}

/// What a call has done along its line, for the run that goes on from there.
#[derive(Default)]
pub struct Trail {
    /// How many steps.
    pub steps: usize,
    /// What was shown and has not been read.
    pub unread: Vec<Word>,
    /// What was read, of which its source has not been told.
    pub untold: Option<Word>,
}

/// By which channel something is shown, and of which round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The channel.
    pub channel: usize,
    /// The round.
    pub round: u32,
}

/// A call along its line: its memory and operator are its caller's still.
pub struct Errand<'e> {
    /// Which call.
    pub call: Call,
    /// Which start of it, from 0.
    pub iteration: u32,
    /// This rank's number of its operation.
    pub number: u16,
    /// What is put.
    pub from: &'e Memory,
    /// The same as registered memory, where it is that.
    pub region: Option<&'e Region>,
    /// Where it lands.
    pub to: &'e Memory,
    /// The same as registered memory, where it is that.
    pub to_region: Option<&'e Region>,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<&'e dyn Fold>,
    /// What is to be copied of this rank's own.
    pub own: Option<&'e OwnPart>,
    /// Whether that has been done.
    pub own_is_there: Cell<bool>,
}

impl<'e> Errand<'e> {
    /// A start of a call, as this operation.
    pub fn new(
        (call, iteration): (Call, u32),
        number: u16,
        operands: Operands<'e>,
        own: Option<&'e OwnPart>,
    ) -> Self {
        let Operands { from: source, to, fold } = operands;
        let target = to.unwrap_or(source);
        let (from, to) = (source.memory(), target.memory());
        let (region, to_region) = (source.region(), target.region());
        let (fold, own_is_there) = (fold.map(|fold| &**fold), Cell::new(false));
        Errand { call, iteration, number, from, region, to, to_region, fold, own, own_is_there }
    }

    /// Which start of which call.
    pub fn start(&self) -> Start {
        Start { number: self.call.number, iteration: self.iteration }
    }

    /// Where what arrives lands, copied in this gait.
    pub fn shore(&self, gait: Gait) -> Shore<'_> {
        Shore { memory: self.to, fold: self.fold, signature: &self.call.signature, gait }
    }
}

impl Line {
    /// Of an operation whose messages travel in slots, or in which two ranks exchange what is long, or carry it; `None`
    /// where its plan has no such line.
    pub fn new(course: &Course, io: &Io) -> Option<Line> {
        let carried = Carried::of(course, io);
        if !(course.is_small() || is_exchange(course) || carried.is_some()) {
            return None;
        }
        let order = order(course.plan())?;
        let arrivals = order.iter().filter(|(_, side)| *side == Side::Arrival);
        let arrivals = arrivals.fold(0, |rounds, (round, _)| rounds | 1 << round);
        let steps = (0..order.len()).map(|at| step(course, io, &order[at..]));
        let steps = if carried.is_some() { Box::default() } else { steps.collect::<Option<_>>()? };
        let (heads, soon, gait) = (DataHead::new(course.call), course.pace.soon, course.gait);
        let is_long = !course.is_small();
        Some(Line { heads, steps, arrivals, soon, carried, is_long, gait, calls: 0, put_off: false })
    }

    /// Whether the next call goes along it. After one that has left it those are the run's up to a call that both ranks count
    /// alike: if each tried again so many calls later than it had left, they might try at different ones for ever.
    pub fn is_tried(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.put_off &= !self.calls.is_multiple_of(AGAIN);
        !self.put_off
    }

    /// A call has left it on the way. Where one rank shows what is long and the other does not, that one has both copies to make,
    /// of which each makes one in a run; and what both carry is begun in vain where the source does not show it.
    pub fn was_left(&mut self) {
        self.put_off = self.is_long;
    }

    /// How many bytes a message has in which so many are sent or shown, mostly.
    pub fn expected(&self, bytes: u64) -> u64 {
        if self.is_long { shown_bytes(1) as u64 } else { bytes }
    }
}

/// Whether two ranks do nothing but exchange what goes directly, and neither has more to do than the other: then each had better read
/// what the other shows than tell it first where to put that.
fn is_exchange(course: &Course) -> bool {
    let plan = course.plan();
    if plan.rounds() != 1 || course.gait == Gait::PastCaches {
        return false;
    }
    let Round { put: Some(put), arrival: Some(arrival), .. } = plan.round(0) else { return false };
    let [put_bytes, arriving] = [Side::Put, Side::Arrival].map(|side| total(&course.stretches(0, side)));
    let are_long = put_bytes.min(arriving) >= SHOWN_FOR_SLOT;
    put.peer == arrival.peer && are_long && !is_shared(put_bytes, arriving) && !is_shared(arriving, put_bytes)
}

/// The legs of a plan's rounds in the order of their steps; `None` where rounds are many, or an arrival must wait
/// for its round's put.
fn order(plan: &dyn Plan) -> Option<Vec<(u32, Side)>> {
    if plan.rounds() > MOST_ROUNDS {
        return None;
    }
    let rounds: Vec<_> = (0..plan.rounds()).map(|i| plan.round(i)).collect();
    let (mut order, mut is_put) = (Vec::new(), [false; MOST_ROUNDS as usize]);
    for arrived in 0..=plan.rounds() {
        for (i, (round, is_put)) in (0..).zip(rounds.iter().zip(&mut is_put)) {
            if !*is_put && is_due(round, arrived) {
                *is_put = true;
                order.extend(round.put.map(|_| (i, Side::Put)));
            }
        }
        if let Some(round) = rounds.get(arrived as usize) {
            // What arrives may take the place of what is still to be put.
            if !is_put[arrived as usize] {
                return None;
            }
            order.extend(round.arrival.map(|_| (arrived, Side::Arrival)));
        }
    }
    Some(order)
}

/// Whether a round's put, if any, needs no more than the arrivals of the rounds before `arrived`.
fn is_due(round: &Round, arrived: u32) -> bool {
    match round.needs {
        Needs::Nothing => true,
        Needs::Arrival(needed) => needed < arrived,
        Needs::AllBefore(needed) => needed <= arrived,
    }
}

/// The first of these.
fn step(course: &Course, io: &Io, order: &[(u32, Side)]) -> Option<Step> {
    let (&(round, side), later) = order.split_first()?;
    let stretches: Stretches = course.stretches(round, side).iter().copied().collect();
    let bytes = total(&stretches) as u64;
    let act = match side {
        Side::Put => {
            let peer = course.plan().round(round).put?.peer;
            // A narrow one has no room to show several runs.
            let channel = match course.is_small() {
                true => course.channel(peer, io).ok()?,
                false => io.slots.wide(course.world(peer))?,
            };
            let arrivals = later.iter().filter(|(_, side)| *side == Side::Arrival);
            let may_show = course.may_show(round, arrivals.map(|&(round, _)| round));
            Act::Put { channel, from: segments(&stretches), passage: passage(course, round, may_show)? }
        }
        Side::Arrival => {
            let Round { arrival, landing, .. } = course.plan().round(round);
            let channel = course.channel(arrival?.peer, io).ok()?;
            Act::TakeIn { into: stretches, landing, channel }
        }
    };
    Some(Step { round, bytes, act })
}

/// How a round's put goes, which the target may read where it lies or not; `None` where that is not for a line.
fn passage(course: &Course, round: u32, may_show: bool) -> Option<Passage> {
    match (course.is_small(), may_show) {
        (true, true) => Some(Passage::SlotOrShown),
        (true, false) => Some(Passage::Slot),
        (false, true) => {
            Some(Passage::Shown { folded: course.plan().round(round).landing != Landing::Store })
        }
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::groups::Groups;
    use crate::algorithm::{Shape, named, without_twins};
    use crate::collective::Collective;
    use crate::rank::Rank;

    /// Ranks that go along their lines, each as far as it can at its turn, until nobody gets any further.
    fn all_arrive(plans: &[Box<dyn Plan>]) -> bool {
        let mut lines: Vec<_> =
            plans.iter().map(|plan| order(&**plan).unwrap().into_iter().peekable()).collect();
        let (mut landed, mut moved): (HashSet<(Rank, u32)>, _) = (HashSet::new(), true);
        while std::mem::replace(&mut moved, false) {
            for ((line, plan), rank) in lines.iter_mut().zip(plans).zip(0..) {
                while let Some((round, side)) =
                    line.next_if(|&(round, side)| side == Side::Put || landed.contains(&(rank, round)))
                {
                    moved = true;
                    if let (Side::Put, Some(put)) = (side, plan.round(round).put) {
                        landed.insert((put.peer, round));
                    }
                }
            }
        }
        lines.iter_mut().all(|line| line.peek().is_none())
    }

    #[test]
    fn every_plan_of_few_rounds_has_a_line_on_which_nobody_waits_in_a_circle() {
        let mut lines = 0;
        for p in (1..=34).chain([64, 65]) {
            for entry in without_twins().filter(|entry| entry.fits(p)) {
                for shape in entry.shapes(p) {
                    let plans = entry.plans(&shape);
                    if plans.iter().all(|plan| plan.rounds() <= MOST_ROUNDS) {
                        lines += 1;
                        assert!(all_arrive(&plans), "{} of {p} ranks", entry.name);
                    }
                }
            }
        }
        assert!(lines > 1000);
    }

    #[test]
    fn a_plan_of_many_rounds_has_none() {
        let ring =
            |p| named(Collective::Alltoall, "ring").unwrap().plans(&Shape::new(Groups::alone(p), 0, 1, None));
        assert!(ring(65).iter().all(|plan| order(&**plan).is_some()));
        assert!(ring(66).iter().all(|plan| order(&**plan).is_none()));
    }
}
