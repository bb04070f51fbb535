//! What both directions of an operation work on: its call, its run, and where its blocks lie.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::io::Io;
use super::noted::{Known, Legs, Noted};
use super::payload::Shore;
use super::shown;
use crate::engine::call::{Call, Header, Kind};
use crate::engine::leg::{Leg, Pieces, Rule, Stretches, stretches, total};
use crate::engine::run::Run;
use crate::engine::task::Source;
use crate::error::{Error, Result};
use crate::fold::AnyFold;
use crate::plan::layout::Layout;
use crate::plan::{Landing, Needs, Plan, Side};
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Gait, Region};

/// How an operation's blocks travel.
pub enum Path {
    /// In slots.
    Slots {
        /// What is put.
        from: Source,
        /// Where it lands; `None`: in the same memory.
        to: Option<Memory>,
    },
    /// By direct puts; in a box, so that the path of what is small is quickly passed on.
    Direct(Box<Ends>),
}

/// Memory that direct puts move.
pub struct Ends {
    /// What is put.
    pub from: Region,
    /// Where it lands; `None`: in the same memory.
    pub to: Option<Region>,
}

impl Ends {
    /// Where it lands.
    pub fn to(&self) -> &Region {
        self.to.as_ref().unwrap_or(&self.from)
    }
}

/// How far a run may go ahead of what has landed.
///
/// A network's queues keep no order between peers: of puts that are handed over all at once the most
/// urgent may go last. So few are under way at a time, just enough to keep the link busy, and those of
/// the next rounds; the more, the longer a round trip is against a block's time on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Direct puts that have not landed yet.
    pub in_flight: u32,
    /// Rounds from the first unfinished one that are looked at for a put; at most
    /// [`LOOKAHEAD`](crate::engine::run::LOOKAHEAD).
    pub lookahead: u32,
    /// How many legs may be on their way to one target at a time, in the order of its rounds; `None`: any.
    /// Where legs differ in size, or wait for nothing, a source that is ahead would else take half of its
    /// target's link from the one whose turn it is.
    pub turns: Option<u32>,
    /// How many sources are told that this rank is ready before the rounds ahead of theirs have arrived; `None`: as many
    /// as keep the link busy. A source that puts once has its turn by that word, if there is one at a time.
    pub welcome: Option<u32>,
    /// Bytes of a leg that goes in a message to a target that is not ready; a longer one waits for it, but for what is shown.
    pub ahead: usize,
    /// All of it is on the link for no longer than a hop among the ranks of a core takes: it is done soon.
    pub soon: bool,
}

/// What an operation is made of.
pub struct Parts {
    /// What it is.
    pub call: Call,
    /// This rank's number of it, which peers name in their notices.
    pub number: u16,
    /// World rank of each rank of the plan; `None`: the same.
    pub group: Option<Arc<[Rank]>>,
    /// This rank's part.
    pub plan: Box<dyn Plan>,
    /// Where blocks lie.
    pub layout: Box<dyn Layout>,
    /// In which memory, and how they travel.
    pub path: Path,
    /// How far it may go ahead.
    pub pace: Pace,
    /// How legs are cut.
    pub rule: Rule,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<AnyFold>,
    /// How it copies.
    pub gait: Gait,
}

/// How many bytes two ranks mean, where they do not mean the same.
pub struct Unequal {
    /// Whether this rank puts them or awaits them.
    pub side: Side,
    /// What this rank means.
    pub mine: u64,
    /// What the other one means.
    pub theirs: u64,
}

impl Unequal {
    /// Compares the two.
    pub(super) fn check(side: Side, mine: u64, theirs: u64) -> std::result::Result<(), Unequal> {
        if mine == theirs { Ok(()) } else { Err(Unequal { side, mine, theirs }) }
    }
}

/// An operation's parts, with the plan in a run.
pub struct Course {
    pub call: Call,
    pub number: u16,
    group: Option<Arc<[Rank]>>,
    pub run: Run<Box<dyn Plan>>,
    pub layout: Box<dyn Layout>,
    /// Whether all of it travels in slots.
    small: bool,
    /// Whether what is put and what lands have a memory each.
    apart: bool,
    /// Of what has few rounds.
    legs: Option<Legs>,
    pub path: Path,
    pub pace: Pace,
    pub rule: Rule,
    fold: Option<AnyFold>,
    pub gait: Gait,
    /// Which start this is, from 0; `None` before the first.
    started: Option<u32>,
    /// The run is not at its beginning any more.
    used: bool,
    /// Its caller waits for it, as the others' do.
    pub attended: bool,
}

/// Rounds times ranks up to which a plan and its legs are looked at once. What is noted of them is 0.1 MiB then at most.
const SHORT: u32 = 1024;

/// Whether a plan is worth being noted though it is no small call's.
fn is_short(plan: &dyn Plan) -> bool {
    plan.rounds().saturating_mul(plan.place().size) <= SHORT
}

impl Course {
    pub fn new(parts: Parts) -> Self {
        let Parts { call, number, group, plan, layout, path, pace, rule, fold, gait } = parts;
        let (small, apart) = match &path {
            Path::Slots { to, .. } => (true, to.is_some()),
            Path::Direct(ends) => (false, ends.to.is_some()),
        };
        let (plan, legs) = if small || is_short(&*plan) {
            let plan: Box<dyn Plan> = Box::new(Noted::new(plan));
            let legs = Legs::new(&*plan, &*layout);
            (plan, Some(legs))
        } else {
            (plan, None)
        };
        let run = Run::new(plan, pace.lookahead);
        let run = if rule.piece > 0 { run.in_order() } else { run };
        Course {
            call,
            number,
            group,
            run,
            layout,
            small,
            apart,
            legs,
            path,
            pace,
            rule,
            fold,
            gait,
            started: None,
            used: false,
            attended: false,
        }
    }

    /// Back to before the first start, as another call of the same signature on other memory.
    pub fn renew(&mut self, call: Call, number: u16, path: Path, fold: Option<AnyFold>) {
        (self.call, self.number, self.started) = (call, number, None);
        (self.path, self.fold) = (path, fold);
    }

    /// Whether all of it travels in slots, also while it is at rest.
    pub fn is_small(&self) -> bool {
        self.small
    }

    /// Lets go of what is the caller's, but for the operator.
    pub fn rest(&mut self) -> Option<AnyFold> {
        self.path = Path::Slots { from: Source::Unregistered(Memory::nothing()), to: None };
        self.fold.take()
    }

    /// On to the next start.
    pub fn start(&mut self) {
        if std::mem::replace(&mut self.used, true) {
            self.run.restart();
        }
        self.pass();
    }

    /// Counts a start; alone: of one that needs no run.
    pub fn pass(&mut self) {
        self.started = Some(self.starts());
    }

    /// How often it was started; counts begin anew when all numbers have been used.
    pub fn starts(&self) -> u32 {
        self.started.map_or(0, |iteration| iteration.wrapping_add(1))
    }

    /// As if it had been started so often.
    #[cfg(test)]
    pub fn grow_old(&mut self, by: u32) {
        self.started = self.started.map(|iteration| iteration.wrapping_add(by));
    }

    pub fn iteration(&self) -> u32 {
        self.started.unwrap_or(0)
    }

    /// The head of a message about it.
    pub fn header(&self, kind: Kind) -> Header {
        Header { kind, call: self.call, iteration: self.iteration() }
    }

    /// The rank in the world of one in the plan.
    pub fn world(&self, rank: Rank) -> Rank {
        self.group.as_ref().map_or(rank, |group| group[rank as usize])
    }

    /// The channel to a rank of the plan.
    pub fn channel(&self, rank: Rank, io: &Io) -> Result<usize> {
        let unreached = || self.refusal(format!("rank {} is not reached from here", self.world(rank)));
        io.slots.channel(self.world(rank)).ok_or_else(unreached)
    }

    pub fn is_direct(&self) -> bool {
        matches!(self.path, Path::Direct(_))
    }

    /// Whether there are arrivals that do not land where they belong.
    pub fn takes_in(&self) -> bool {
        self.rule.piece > 0 || self.fold.is_some()
    }

    pub fn plan(&self) -> &dyn Plan {
        &**self.run.plan()
    }

    pub fn leg(&self, round: u32, side: Side) -> Leg {
        let all = match self.stretches(round, side) {
            Known::Noted(noted) => Stretches::from_slice(noted),
            Known::Made(made) => made,
        };
        Leg::new(all, self.plan().round(round).landing, self.rule)
    }

    /// The bytes of a leg, in the order in which they travel.
    pub fn stretches(&self, round: u32, side: Side) -> Known<'_> {
        match &self.legs {
            Some(legs) => Known::Noted(legs.of(round, side)),
            None => Known::Made(stretches(self.plan(), &*self.layout, round, side)),
        }
    }

    /// Whether a leg may be shown though a slot has room for it, while these rounds are still to arrive: where its caller waits,
    /// and nothing of it is written meanwhile. What this rank has from others, or has folded, it writes in each call: that
    /// does not rest from call to call.
    pub fn may_show(&self, round: u32, mut to_come: impl Iterator<Item = u32>) -> bool {
        let all = self.stretches(round, Side::Put);
        self.attended
            && matches!(self.plan().round(round).needs, Needs::Nothing | Needs::AllBefore(0))
            && total(&all) >= shown::SHOWN_FOR_SLOT
            && shown::fits(&all)
            && !to_come.any(|arriving| self.displaces(arriving, round))
    }

    /// Whether what arrives in one round takes the place of what is put in another.
    fn displaces(&self, arriving: u32, put: u32) -> bool {
        if self.apart || self.plan().round(arriving).arrival.is_none() {
            return false;
        }
        let put = self.stretches(put, Side::Put);
        self.stretches(arriving, Side::Arrival).iter().any(|one| put.iter().any(|other| one.overlaps(other)))
    }

    /// What of a round's arrival is not stored where it lands, but taken in.
    pub fn taken_in(&self, round: u32) -> Pieces {
        match &self.legs {
            _ if !self.takes_in() => Pieces::default(),
            Some(_) if self.small && self.plan().round(round).landing == Landing::Store => Pieces::default(),
            Some(legs) if self.small => {
                Pieces::new(Stretches::from_slice(legs.of(round, Side::Arrival)), self.rule.unit)
            }
            _ => self.leg(round, Side::Arrival).staged,
        }
    }

    /// What is put.
    pub fn from(&self) -> &Memory {
        match &self.path {
            Path::Slots { from, .. } => from.memory(),
            Path::Direct(ends) => &ends.from.memory,
        }
    }

    /// The same as registered memory, where it is that.
    pub fn source_region(&self) -> Option<&Region> {
        match &self.path {
            Path::Slots { from, .. } => from.region(),
            Path::Direct(ends) => Some(&ends.from),
        }
    }

    /// Where it lands.
    pub fn to(&self) -> &Memory {
        match &self.path {
            Path::Slots { from, to } => to.as_ref().unwrap_or(from.memory()),
            Path::Direct(ends) => &ends.to().memory,
        }
    }

    /// Where it lands, and how it is combined with what is there.
    pub fn shore(&self) -> Shore<'_> {
        Shore {
            memory: self.to(),
            fold: self.fold.as_deref(),
            signature: &self.call.signature,
            gait: self.gait,
        }
    }

    /// Bytes of the elements that it folds, if it does.
    pub fn unit(&self) -> Option<usize> {
        self.fold.as_ref().map(|fold| fold.unit().max(1))
    }

    /// Why the algorithm cannot be carried out here.
    pub fn refusal(&self, what: String) -> Error {
        Error::argument(self.call.signature.collective.name(), what, "take another algorithm")
    }

    pub fn twice(&self, round: u32) -> Error {
        let what = format!("round {round} of {} arrived twice", self.call.signature);
        Error::transport("notice", what, "are all ranks of one version and one job?")
    }
}
