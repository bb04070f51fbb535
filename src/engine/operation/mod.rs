//! One collective operation of this rank: a run, the memory that it moves, and who is ready for it.
//!
//! Two paths, chosen by the caller as a function of the call's signature, so that all ranks choose
//! alike: legs travel in slots (small messages, no handshake, but for what is better shown), or they are put straight into their
//! place in the target's memory, once the target has said that it is ready and where; what a target can read where it
//! lies is shown to it, and may be before it has said so. What is folded, and
//! small blocks that travel together, go through staging slots ([`super::intake`] takes them out).
//!
//! What is put and what is put here are two rooms that know nothing of each other: they meet in the run.
#![forbid(unsafe_code)]

mod arrivals;
mod carried;
mod course;
mod index;
mod io;
mod line;
mod noted;
mod payload;
mod puts;
mod share;
pub mod shown;
mod turns;

pub use carried::Carried;
pub use course::{Ends, Pace, Parts, Path, Unequal};
pub use io::Io;
pub use line::{Act, Errand, Line, Passage, Step, Trail, Word};
pub use payload::{Payload, Shore};
pub use shown::Shown;

use super::call::{Call, Header, is_before};
use super::leg::total;
use super::rest::Ask;
use super::run::{Awaits, Unexpected};
use super::slots::Landed;
use super::staging::Pool;
use super::vigil::Waiting;
use crate::error::Result;
use crate::fold::AnyFold;
use crate::plan::{Leg, Side};
use crate::rank::Rank;
use arrivals::Arrivals;
use course::Course;
use puts::Puts;
use turns::Turns;

/// How far a pump got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// All that could be put has been.
    All,
    /// The transport, a slot or a token was lacking: pump again after the next events.
    HeldUp,
}

/// An operation under way, or prepared and at rest.
pub struct Operation {
    course: Course,
    puts: Puts,
    arrivals: Arrivals,
    turns: Turns,
    active: bool,
    /// Of this rank's starts, the number of the last one.
    turn: u64,
    /// By what it is kept when it is over, if it is.
    pub ask: Option<Ask<'static>>,
    /// Looked for when it is first made again; lent to who goes along it.
    line: Option<Option<Box<Line>>>,
}

impl Operation {
    /// An operation at rest. [`start`](Self::start) comes next.
    pub fn new(parts: Parts, io: &mut Io) -> Result<Self> {
        let course = Course::new(parts);
        let arrivals = Arrivals::new(&course, io)?;
        let puts = Puts::new(&course, io)?;
        Ok(Operation {
            course,
            puts,
            arrivals,
            turns: Turns::default(),
            active: false,
            turn: 0,
            ask: None,
            line: None,
        })
    }

    /// What it is.
    pub fn call(&self) -> Call {
        self.course.call
    }

    /// Whether all of it travels in slots.
    pub fn is_small(&self) -> bool {
        self.course.is_small()
    }

    /// Whether it takes no longer than a [hop](Pace::soon).
    pub fn is_done_soon(&self) -> bool {
        self.course.pace.soon
    }

    /// Makes it another call of the same signature, which travels as before; but for what is put directly, of which
    /// [`reach`](Self::reach) must be told.
    pub fn renew(&mut self, call: Call, number: u16, path: Path, fold: Option<AnyFold>) {
        self.course.renew(call, number, path, fold);
    }

    /// Forgets the places of the call before, and has memory for staging again. Fails where there is none.
    pub fn reach(&mut self, io: &mut Io) -> Result<()> {
        self.puts.renew(&self.course, io);
        self.arrivals.renew(&self.course, io)
    }

    /// Lends its steps, where it has so simple a plan that they are always the same.
    pub fn lend_line(&mut self, io: &Io) -> Option<Box<Line>> {
        self.line.get_or_insert_with(|| Line::new(&self.course, io).map(Box::new)).take()
    }

    /// It is about to be started: of a line that begins with a message, the slot for that is got ready.
    pub fn anticipate(&self, io: &mut Io) {
        let line = self.line.iter().flatten().find(|line| !line.is_long);
        if let Some(&Step { bytes, act: Act::Put { channel, .. }, .. }) =
            line.and_then(|line| line.steps.first())
        {
            io.anticipate(channel, bytes);
        }
    }

    /// Its caller is about to wait for it.
    pub fn attend(&mut self) {
        self.course.attended = true;
    }

    /// A start has gone along its steps to the end, and is over.
    pub fn pass(&mut self) {
        self.course.pass();
    }

    /// Has its steps back.
    pub fn return_line(&mut self, line: Box<Line>) {
        self.line = Some(Some(line));
    }

    /// As if it had been started so often.
    #[cfg(test)]
    pub fn grow_old(&mut self, by: u32) {
        self.course.grow_old(by);
    }

    /// Lets the run know, at its beginning, what has been done along the line.
    pub fn catch_up(&mut self, trail: &Trail) {
        let Some(Some(line)) = &self.line else { return };
        for word in &trail.unread {
            self.puts.shown_before(word.channel, word.round);
        }
        if let Some(word) = &trail.untold {
            self.arrivals.read_before(word.channel, word.round);
        }
        for step in line.steps.iter().take(trail.steps) {
            match step.act {
                Act::Put { .. } => self.course.run.put_before(step.round),
                Act::TakeIn { .. } => self.arrivals.taken_before(step.round, &mut self.course),
            }
        }
        let Some(leg) = &line.carried else { return };
        match leg.side {
            Side::Put => self.puts.carried_before(&leg.progress(), trail.steps > 0, &mut self.course),
            Side::Arrival => self.arrivals.carried_before(&leg.progress(), &mut self.course),
        }
    }

    /// Lets go of its caller's memory, once it is done, and gives the operator back, which may be the last one.
    pub fn rest(&mut self) -> Option<AnyFold> {
        self.course.rest()
    }

    /// What it waits for, in ranks of the world.
    pub fn waiting(&self) -> Waiting {
        let awaits = self.course.run.awaits().map(|awaits| match awaits {
            Awaits::Arrival { round, mut from } => {
                from.peer = self.course.world(from.peer);
                Awaits::Arrival { round, from }
            }
            Awaits::Target { round, mut to } => {
                to.peer = self.course.world(to.peer);
                Awaits::Target { round, to }
            }
            Awaits::Sent { puts } => Awaits::Sent { puts },
        });
        let flying = self.puts.flying();
        let sent = (flying > 0).then_some(Awaits::Sent { puts: flying });
        // What was begun and waits for its target is under way for the run.
        let awaits = match (self.puts.first_early(), awaits) {
            (Some(early), None | Some(Awaits::Sent { .. })) => {
                let to = Leg { peer: self.course.world(early.put.peer), ..early.put };
                Some(Awaits::Target { round: early.round, to })
            }
            _ => awaits,
        };
        let awaits = awaits.or_else(|| self.awaited_reader()).or(sent);
        Waiting { call: self.call(), rounds: self.course.plan().rounds(), awaits }
    }

    /// The first that is to read what this rank shows.
    fn awaited_reader(&self) -> Option<Awaits> {
        let (round, peer) = self.puts.first_shown()?;
        let put = self.course.plan().round(round).put;
        put.map(|to| Awaits::Target { round, to: Leg { peer, ..to } })
    }

    /// Starts it, for the first time or again; `turn` counts this rank's starts, whose order all ranks share.
    pub fn start(&mut self, turn: u64) {
        self.course.start();
        self.puts.start();
        self.arrivals.start(&self.course);
        self.turns = Turns::default();
        self.active = true;
        self.turn = turn;
    }

    /// The turn of the start that is under way.
    pub fn turn(&self) -> Option<u64> {
        self.active.then_some(self.turn)
    }

    /// How often it was started.
    pub fn starts(&self) -> u32 {
        self.course.starts()
    }

    /// Whether it is not under way.
    pub fn is_done(&self) -> bool {
        !self.active
    }

    /// Gives back what it took from the pool, when it is over.
    pub fn give_back(&mut self, pool: &mut Pool) {
        let staging = self.arrivals.take_staging().into_iter().chain(self.puts.take_staging());
        staging.for_each(|(staging, used)| pool.give_back(staging, used));
    }

    fn settle(&mut self) {
        let all_is_put = self.puts.flying() == 0 && self.puts.first_shown().is_none();
        if self.course.run.is_done() && self.arrivals.all_are_told() && all_is_put {
            self.active = false;
        }
    }

    /// A peer says that it is ready for puts.
    pub fn ready(&mut self, peer: Rank, header: &Header) -> std::result::Result<(), Unequal> {
        self.puts.ready(peer, header, &self.course)
    }

    /// A peer has emptied some of its staging slots.
    pub fn taken(&mut self, peer: Rank, header: &Header, pieces: u32) {
        if self.is_of_this_start(header) {
            self.puts.allow(peer, pieces);
        }
    }

    /// A peer says that it is the turn of the leg of this round.
    pub fn admitted(&mut self, peer: Rank, header: &Header, round: u32) {
        if self.is_of_this_start(header) {
            self.puts.admit(peer, round);
        }
    }

    /// Whether a message is for the start that is under way.
    pub fn is_of_this_start(&self, header: &Header) -> bool {
        self.active && header.iteration == self.course.iteration()
    }

    /// Whether a message is for a start that is still to come.
    pub fn is_to_start(&self, header: &Header) -> bool {
        !is_before(header.iteration, self.starts())
    }

    /// Whether so many bytes are what this rank awaits in a round.
    pub fn is_as_long(&self, round: u32, bytes: u64) -> std::result::Result<(), Unequal> {
        let known = round < self.course.plan().rounds();
        let all = known.then(|| self.course.stretches(round, Side::Arrival));
        Unequal::check(Side::Arrival, all.map_or(0, |all| total(&all) as u64), bytes)
    }

    /// The blocks of a round have come in a message: they are taken in, or kept until it is their turn.
    /// Fails where the operator does.
    pub fn message(&mut self, round: u32, from: &Payload<'_>) -> Result<std::result::Result<(), Unexpected>> {
        let taken = self.arrivals.message(round, from, &mut self.course)?;
        self.settle();
        Ok(taken)
    }

    /// A source shows the blocks of a round: they are taken in, or left there until it is their turn; but for the first
    /// run where the source `offers` to fold it, and may. Fails where the operator does.
    pub fn shown(
        &mut self,
        round: u32,
        from: Shown,
        offers: bool,
        io: &mut Io,
    ) -> Result<std::result::Result<(), Unexpected>> {
        let taken = self.arrivals.shown(round, from, offers, &mut self.course, io)?;
        self.settle();
        Ok(taken)
    }

    /// A peer has read what was shown to it for a round.
    pub fn loaded(&mut self, peer: Rank, header: &Header, round: u32) {
        if self.is_of_this_start(header) {
            self.puts.loaded(peer, round);
            self.settle();
        }
    }

    /// Bytes have landed at their place: all of a round's, or those beside what its source shows (`shared`).
    pub fn landed(&mut self, round: u32, shared: bool) -> std::result::Result<(), Unexpected> {
        if !self.active {
            return Err(Unexpected { round });
        }
        self.arrivals.landed(round, shared, &mut self.course)?;
        self.settle();
        Ok(())
    }

    /// A piece has landed in a staging slot.
    pub fn staged(&mut self, source: usize, slot: u8) -> std::result::Result<(), Unexpected> {
        if self.active { self.arrivals.staged(source, slot) } else { Err(Unexpected { round: 0 }) }
    }

    /// The source of one of its puts may be reused.
    pub fn sent(&mut self) {
        self.puts.sent();
        self.settle();
    }

    /// Tells the sources that it is ready, as far as the transport takes it.
    pub fn tell(&mut self, io: &mut Io) -> Result<()> {
        self.arrivals.tell(&self.course, io).map(|_| ())
    }

    /// Tells the sources, takes in what has landed, and puts all that can be put.
    pub fn pump(&mut self, io: &mut Io) -> Result<Pumped> {
        if !self.active {
            return Ok(Pumped::All);
        }
        // First of all, so that no source waits for a word that is behind this rank's own blocks.
        if !self.arrivals.tell(&self.course, io)? {
            return Ok(Pumped::HeldUp);
        }
        let done = self.put_all(io)?
            & self.arrivals.tell_loaded(&self.course, io)?
            & self.arrivals.give_back_stages(&self.course, io)?
            & self.turns.give(&self.course, &self.arrivals, io)?
            // What has been taken in may let further sources be told.
            & self.arrivals.tell(&self.course, io)?;
        self.settle();
        Ok(if done { Pumped::All } else { Pumped::HeldUp })
    }

    /// False where the transport did not take something.
    fn put_all(&mut self, io: &mut Io) -> Result<bool> {
        loop {
            self.arrivals.take_in(&mut self.course, io)?;
            if !self.puts.go_on(&mut self.course, io)? {
                return Ok(false);
            }
            let Some(order) = self.puts.next(&self.course, &io.slots) else { return Ok(true) };
            if !self.puts.begin(order, &mut self.course, io)? {
                return Ok(false);
            }
        }
    }
}

/// A message whose call has not begun here: it stays in its slot, or is copied out of it.
pub enum Kept {
    /// In its slot.
    InSlot(Landed),
    /// Its data, copied.
    Copied(Vec<u8>),
}
