//! What is put to this rank: its sources are told where and when, and what lands is taken in.
//!
//! What is folded, and small blocks that travel together, land in staging slots, from which [`Intake`] takes
//! them in the order of rounds; all else lands at its place.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::course::{Course, Path};
use super::index::Index;
use super::io::Io;
use crate::engine::call::Kind;
use crate::engine::intake::{Intake, Stock};
use crate::engine::leg::{Stretches, total};
use crate::engine::notice::{MAX_ROUNDS, MAX_SOURCES};
use crate::engine::run::Unexpected;
use crate::engine::staging::{STAGES, Staging};
use crate::error::{Error, Result};
use crate::plan::{Landing, Side};
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Region, RemoteKey};

/// Taken pieces of which a source is told at a time.
const GIVEN_BACK: u32 = STAGES as u32 / 2;

/// The data of a message.
pub enum Payload<'m> {
    /// In a slot: from where on, and how many bytes at most.
    InSlot(&'m Memory, usize, usize),
    /// Copied out of one.
    Copied(&'m [u8]),
}

impl Payload<'_> {
    /// The most bytes that there can be.
    fn room(&self) -> usize {
        match self {
            Payload::InSlot(_, _, room) => *room,
            Payload::Copied(copy) => copy.len(),
        }
    }

    fn copied(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match self {
            Payload::InSlot(memory, start, _) => memory.read(*start, &mut bytes),
            Payload::Copied(copy) => bytes.copy_from_slice(&copy[..len]),
        }
        bytes
    }

    /// Lets `act` change bytes of `to`, given as many of these.
    fn combine_with<R>(
        &self,
        from: usize,
        to: &Memory,
        at: usize,
        len: usize,
        act: impl FnOnce(&mut [u8], &[u8]) -> R,
    ) -> R {
        match self {
            Payload::InSlot(memory, start, _) => to.combine(at, memory, start + from, len, act),
            Payload::Copied(copy) => to.change(at, len, |mine| act(mine, &copy[from..from + len])),
        }
    }

    fn copy_to(&self, from: usize, to: &Memory, at: usize, len: usize) {
        match self {
            Payload::InSlot(memory, start, _) => to.copy(at, memory, start + from, len),
            Payload::Copied(copy) => to.write(at, &copy[from..from + len]),
        }
    }
}

/// A peer that puts to this rank.
struct Source {
    /// In the plan.
    rank: Rank,
    channel: usize,
    stock: Stock,
}

/// A round of which some direct puts have landed.
struct Partial {
    round: u32,
    /// How many are still to land.
    left: usize,
}

/// The sources, and what they have put.
pub struct Arrivals {
    sources: Vec<Source>,
    index: Index,
    /// How many sources have been told that this rank is ready.
    told: usize,
    staging: Option<Staging>,
    intake: Intake,
    partial: Vec<Partial>,
    /// Sources that are to be told that slots of theirs are empty again, each once.
    due: VecDeque<usize>,
}

impl Arrivals {
    pub fn new(course: &Course, io: &mut Io) -> Result<Self> {
        let ranks = if course.is_direct() { course.plan().sources() } else { Vec::new() };
        check_numbers(course, ranks.len())?;
        let index = Index::new(ranks.iter().copied());
        let source = |rank| Ok(Source { rank, channel: course.channel(rank, io)?, stock: Stock::default() });
        let sources = ranks.into_iter().map(source).collect::<Result<Vec<_>>>()?;
        let stages = course.rule.piece > 0 && !sources.is_empty();
        let staging = stages.then(|| io.stage(sources.len(), course.rule.piece)).transpose()?;
        Ok(Arrivals {
            sources,
            index,
            told: 0,
            staging,
            intake: Intake::default(),
            partial: Vec::new(),
            due: VecDeque::new(),
        })
    }

    /// Begins with a start.
    pub fn start(&mut self, course: &Course) {
        self.told = 0;
        self.sources.iter_mut().for_each(|source| source.stock = Stock::default());
        self.due.clear();
        self.partial.clear();
        self.intake = match course.takes_in() {
            true => Intake::new(course.plan(), |round| course.taken_in(round)),
            false => Intake::default(),
        };
    }

    /// What it took from the pool.
    pub fn into_staging(self) -> Option<Staging> {
        self.staging
    }

    /// The channel of a source.
    pub fn channel(&self, source: Rank) -> Option<usize> {
        self.index.find(source).map(|number| self.sources[number].channel)
    }

    /// Whether all sources have been told that this rank is ready.
    pub fn all_are_told(&self) -> bool {
        self.told == self.sources.len()
    }

    /// Tells the sources that this rank is ready; false where one could not be told.
    pub fn tell(&mut self, course: &Course, io: &mut Io) -> Result<bool> {
        while let Some(source) = self.sources.get(self.told) {
            let readiness = self.readiness(self.told, course, io);
            if !io.send(source.channel, &course.header(readiness), None)? {
                return Ok(false);
            }
            self.told += 1;
        }
        Ok(true)
    }

    fn readiness(&self, number: usize, course: &Course, io: &Io) -> Kind {
        let Path::Direct { to, .. } = &course.path else { return Kind::Again };
        if course.iteration() > 0 {
            return Kind::Again;
        }
        let source = self.sources[number].rank;
        let ahead = |region: &Region, bytes: u64| {
            let key = io.transport.key(region.remote, course.world(source));
            RemoteKey { base: key.base.wrapping_add(bytes), ..key }
        };
        let slots = |staging: &Staging| ahead(&staging.region, staging.offset(number, 0) as u64);
        Kind::Ready {
            target: ahead(to, course.layout.told(source)),
            staging: self.staging.as_ref().map(slots).unwrap_or_default(),
            operation: course.number,
            source: number as u32,
            bytes: course.layout.between(source, Side::Arrival),
        }
    }

    /// The blocks of a round have come in a message: they are taken in, or kept until it is their turn.
    pub fn message(
        &mut self,
        round: u32,
        from: &Payload<'_>,
        course: &mut Course,
    ) -> Result<std::result::Result<(), Unexpected>> {
        if round >= course.plan().rounds() || course.run.has_arrived(round) {
            return Ok(Err(Unexpected { round }));
        }
        let bytes = total(&course.stretches(round, Side::Arrival));
        if bytes > from.room() {
            return Ok(Err(Unexpected { round }));
        }
        if self.intake.now().is_some_and(|current| current.round == round) && may_take(round, course) {
            return self.take_message(round, from, course).map(Ok);
        }
        if course.taken_in(round).left() == 0 {
            store(round, from, course);
            return Ok(course.run.arrived(round));
        }
        let fresh = self.intake.keep(round, from.copied(bytes));
        Ok(if fresh { Ok(()) } else { Err(Unexpected { round }) })
    }

    /// Bytes have landed at their place.
    pub fn landed(&mut self, round: u32, course: &mut Course) -> std::result::Result<(), Unexpected> {
        if round >= course.plan().rounds() || course.run.has_arrived(round) {
            return Err(Unexpected { round });
        }
        self.part_of(round, course)
    }

    /// A part of a round's arrival is there; with the last one the round has arrived.
    fn part_of(&mut self, round: u32, course: &mut Course) -> std::result::Result<(), Unexpected> {
        let left = match self.partial.iter().position(|partial| partial.round == round) {
            Some(known) => self.partial.swap_remove(known).left,
            None => {
                let leg = course.leg(round, Side::Arrival);
                leg.direct.len() + usize::from(leg.staged.left() > 0)
            }
        };
        if left > 1 {
            self.partial.push(Partial { round, left: left - 1 });
            return Ok(());
        }
        course.run.arrived(round)
    }

    /// A piece has landed in a staging slot.
    pub fn staged(&mut self, source: usize, slot: u8) -> std::result::Result<(), Unexpected> {
        let stages = self.staging.is_some();
        let landed = self.sources.get_mut(source).is_some_and(|source| stages && source.stock.land(slot));
        if landed { Ok(()) } else { Err(Unexpected { round: 0 }) }
    }

    /// Whether no more than the last put of a round is still to land.
    pub fn has_nearly(&self, round: u32, course: &Course) -> bool {
        let (piece, low) = (course.rule.piece, course.run.arrived_before());
        let current = self.intake.now().filter(|current| current.round == round);
        let staged = current.map(|current| current.pieces.left() <= piece);
        let partial = self.partial.iter().find(|partial| partial.round == round);
        let direct = partial.map(|partial| partial.left <= 1);
        let nearly = staged != Some(false) && direct != Some(false) && staged.or(direct).is_some();
        low > round || low == round && nearly
    }

    /// Folds, or copies to its place, whatever it is the turn of.
    pub fn take_in(&mut self, course: &mut Course) -> Result<()> {
        while let Some(current) = self.intake.now() {
            let round = current.round;
            let early = self.intake.has_early();
            let taken = if early { self.take_early(round, course)? } else { self.take_piece(course)? };
            if !taken {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes in the current round, which came in a message, once that may be.
    fn take_early(&mut self, round: u32, course: &mut Course) -> Result<bool> {
        if !may_take(round, course) {
            return Ok(false);
        }
        let Some(bytes) = self.intake.early() else { return Ok(false) };
        self.take_message(round, &Payload::Copied(&bytes), course)?;
        Ok(true)
    }

    /// Takes in the current round, whose blocks have come in a message.
    fn take_message(&mut self, round: u32, from: &Payload<'_>, course: &mut Course) -> Result<()> {
        let Some(current) = self.intake.current() else { return Ok(()) };
        let (source, landing) = (current.source, current.landing);
        let pieces = current.pieces.count(course.rule.piece);
        match landing {
            Landing::Store => store(round, from, course),
            _ => fold(round, from, course, landing)?,
        }
        if let Some(number) = self.index.find(source) {
            self.taken(number, |stock| stock.skip(pieces));
        }
        // The whole of the leg has come, whatever of it would have been put directly.
        course.run.arrived(round).map_err(|_| course.twice(round))?;
        self.intake.advance(course.plan(), |round| course.taken_in(round));
        Ok(())
    }

    /// Takes in the next piece of the current round, if it has landed.
    fn take_piece(&mut self, course: &mut Course) -> Result<bool> {
        let (Some(current), Some(staging)) = (self.intake.current(), &self.staging) else { return Ok(false) };
        let Some(number) = self.index.find(current.source) else { return Ok(false) };
        let Some(slot) = self.sources[number].stock.next() else { return Ok(false) };
        let (round, landing) = (current.round, current.landing);
        let mut piece = Stretches::new();
        current.pieces.peek(course.rule.piece, &mut piece);
        current.pieces.take(course.rule.piece);
        let last = current.pieces.left() == 0;
        let mut at = staging.offset(number, slot);
        for stretch in piece {
            let (to, from) = (course.to(), &staging.region.memory);
            match landing {
                Landing::Store => to.copy(stretch.at, from, at, stretch.len),
                _ => to.combine(stretch.at, from, at, stretch.len, |mine, theirs| {
                    course.fold(mine, theirs, landing)
                })?,
            }
            at += stretch.len;
        }
        self.taken(number, Stock::take);
        if last {
            self.part_of(round, course).map_err(|_| course.twice(round))?;
            self.intake.advance(course.plan(), |round| course.taken_in(round));
        }
        Ok(true)
    }

    /// Counts what was taken from a source, which is told when it is enough.
    fn taken(&mut self, number: usize, count: impl FnOnce(&mut Stock)) {
        let stock = &mut self.sources[number].stock;
        let was_due = stock.owed >= GIVEN_BACK;
        count(stock);
        if !was_due && stock.owed >= GIVEN_BACK {
            self.due.push_back(number);
        }
    }

    /// Tells sources that their slots are empty again, several at a time; false where one could not be told.
    pub fn give_back_stages(&mut self, course: &Course, io: &mut Io) -> Result<bool> {
        while let Some(&number) = self.due.front() {
            let Source { channel, stock, .. } = &mut self.sources[number];
            if !io.send(*channel, &course.header(Kind::Taken { pieces: stock.owed }), None)? {
                return Ok(false);
            }
            stock.owed = 0;
            self.due.pop_front();
        }
        Ok(true)
    }
}

/// Whether a round that came in a message may be taken in: not while its blocks are still to be put from here.
fn may_take(round: u32, course: &Course) -> bool {
    course.is_direct() || course.run.has_ordered(round)
}

/// Stores the bytes of a round's message where they belong.
fn store(round: u32, from: &Payload<'_>, course: &Course) {
    let mut at = 0;
    for stretch in course.stretches(round, Side::Arrival).iter() {
        from.copy_to(at, course.to(), stretch.at, stretch.len);
        at += stretch.len;
    }
}

/// Combines the bytes of a round's message with what this rank has.
fn fold(round: u32, from: &Payload<'_>, course: &Course, landing: Landing) -> Result<()> {
    let mut at = 0;
    for stretch in course.stretches(round, Side::Arrival).iter() {
        from.combine_with(at, course.to(), stretch.at, stretch.len, |mine, theirs| {
            course.fold(mine, theirs, landing)
        })?;
        at += stretch.len;
    }
    Ok(())
}

/// Rounds and sources must fit into a notice.
fn check_numbers(course: &Course, sources: usize) -> Result<()> {
    let rounds = course.plan().rounds();
    let fit = rounds <= MAX_ROUNDS && (course.rule.piece == 0 || sources <= MAX_SOURCES);
    if fit || !course.is_direct() {
        return Ok(());
    }
    let what = format!("{rounds} rounds with {sources} sources");
    let cure = format!("take an algorithm of at most {MAX_ROUNDS} rounds and {MAX_SOURCES} sources");
    Err(Error::argument(course.call.signature.collective.name(), what, cure))
}
