//! Carries out plans over a transport: the only loop there is.
//!
//! Every collective, in every tense, is an [`operation::Operation`] that is pumped here: events come
//! from the transport, go to the operation that they concern, and orders go back. The engine never
//! names a concrete transport, and never an algorithm.
//!
//! An error is for good: whoever finds one shuts its transport down and tells all other ranks, and
//! every later call gives that error again. So nobody waits for what will never come, and no peer
//! writes into memory that an erring call has given back.
#![forbid(unsafe_code)]

pub mod call;
pub mod notice;
pub mod operation;
pub mod patience;
pub mod run;
pub mod slots;
pub mod tokens;
pub mod vigil;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::plan::partition::Partition;
use crate::rank::Place;
use crate::transport::memory::Memory;
use crate::transport::{Event, Limits, Region, Transport};
use call::{Call, Header, Kind, Signature};
use notice::Notice;
use operation::{Io, Kept, Operation, Pace, Path, Pumped};
use patience::Patience;
use slots::{Landed, Slots};
use tokens::{Tokens, Use};
use vigil::Vigil;

/// The longest sleep, in case that a transport misses to wake us.
const NAP: Duration = Duration::from_millis(100);
/// The sleep while a transport is busy: nothing wakes us when it no longer is.
const SHORT_NAP: Duration = Duration::from_micros(200);
/// How long a rank that leaves waits for its neighbours' goodbyes.
const LAST_CALL: Duration = Duration::from_secs(5);
/// Messages for calls to come that are copied out of each neighbour's slots; more stay where they are.
const KEPT: usize = 64;
/// Operations that are remembered when they are over, to know what comes late from what is wrong.
const REMEMBERED: usize = 256;

/// What is to be done by all ranks of a communicator.
pub struct Task {
    /// Which communicator.
    pub communicator: u16,
    /// What all ranks must agree on.
    pub signature: Signature,
    /// This rank's part.
    pub plan: Box<dyn Plan>,
    /// Where blocks lie.
    pub partition: Partition,
    /// How far it may go ahead.
    pub pace: Pace,
    /// The memory, and whether its blocks travel in slots.
    pub source: Source,
}

/// The memory that a task moves.
pub enum Source {
    /// Small: copied through slots.
    Small(Memory),
    /// Large: registered already.
    Registered(Region),
    /// Large: to be registered for this call.
    Unregistered(Memory),
}

/// An operation's name, for the one who started it.
pub type Handle = usize;

/// Carries out the operations of one rank.
pub struct Engine {
    io: Io,
    operations: Vec<Option<Entry>>,
    calls: HashMap<u16, Calls>,
    waiting: Vec<Waiting>,
    events: Vec<Event>,
    patience: Patience,
    vigil: Vigil,
    held_up: bool,
    /// How many starts there have been: the next one's turn.
    turns: u64,
    /// The turn of the oldest operation at the last pump.
    eldest: Option<u64>,
    broken: Option<Error>,
}

struct Entry {
    operation: Operation,
    /// Nobody asks for it any more: it goes when it is done.
    forgotten: bool,
    /// Something has happened that may let it put.
    stirred: bool,
}

/// The calls made on a communicator.
#[derive(Default)]
struct Calls {
    last: u32,
    past: VecDeque<Past>,
}

/// An operation that is over.
struct Past {
    call: Call,
    /// How often it was started.
    starts: u32,
}

/// A message for a call that has not begun here.
struct Waiting {
    neighbour: usize,
    header: Header,
    round: u32,
    kept: Kept,
}

impl Engine {
    /// An engine over a transport whose peers are connected, with slots that are connected too.
    /// `ranks_per_core`: of this machine.
    pub fn new(transport: Box<dyn Transport>, slots: Slots, vigil: Vigil, ranks_per_core: f64) -> Self {
        let tokens = Tokens::new(transport.limits().in_flight);
        Engine {
            io: Io { transport, slots, tokens },
            operations: Vec::new(),
            calls: HashMap::new(),
            waiting: Vec::new(),
            events: Vec::new(),
            patience: Patience::new(ranks_per_core),
            vigil,
            held_up: false,
            turns: 0,
            eldest: None,
            broken: None,
        }
    }

    /// Who and how many we are.
    pub fn place(&self) -> Place {
        self.io.transport.place()
    }

    /// The transport's name.
    pub fn transport(&self) -> String {
        self.io.transport.name()
    }

    /// What the transport can take.
    pub fn limits(&self) -> Limits {
        self.io.transport.limits()
    }

    /// Registers memory for many calls.
    pub fn register(&mut self, memory: Memory) -> Result<Region> {
        self.check()?;
        self.io.transport.register(memory)
    }

    /// Makes a task ready to be [started](Self::start), many times. Nothing is sent yet.
    pub fn prepare(&mut self, task: Task) -> Result<Handle> {
        self.check()?;
        let handle = self.vacancy()?;
        let path = match task.source {
            Source::Small(memory) => Path::Slots(memory),
            Source::Registered(region) => Path::Direct(region),
            Source::Unregistered(memory) => {
                let registered = self.io.transport.register(memory);
                // The others have begun the call, or will: they must hear that it comes to nothing.
                Path::Direct(registered.map_err(|error| self.fail(error))?)
            }
        };
        let call = self.calls.entry(task.communicator).or_default().next(task.communicator, task.signature);
        let operation =
            Operation::new(call, handle as u16, task.plan, task.partition, path, task.pace, &self.io.slots);
        self.operations[handle] = Some(Entry { operation, forgotten: false, stirred: false });
        Ok(handle)
    }

    /// Starts an operation that is at rest; one that runs is an error.
    pub fn start(&mut self, handle: Handle) -> Result<()> {
        self.check()?;
        if !self.is_done(handle) {
            return Err(Error::argument("start", "it is still running", "wait for it first"));
        }
        let turn = self.turns;
        self.turns += 1;
        let Some(call) = self.stir(handle, |operation| {
            operation.start(turn);
            operation.call()
        }) else {
            return Ok(());
        };
        self.deliver_waiting(call).and_then(|()| self.pump()).map_err(|error| self.fail(error))
    }

    /// Makes progress, and says whether an operation is done.
    pub fn test(&mut self, handle: Handle) -> Result<bool> {
        self.check()?;
        let progressed = self.vigil.check().and_then(|()| self.progress());
        progressed.map_err(|error| self.fail(error))?;
        Ok(self.is_done(handle))
    }

    /// Waits until an operation is done.
    pub fn wait(&mut self, handle: Handle) -> Result<()> {
        self.check()?;
        let waited = self.wait_or_err(handle);
        waited.map_err(|error| self.fail(error))
    }

    /// Carries a task out, from beginning to end.
    pub fn run(&mut self, task: Task) -> Result<()> {
        let handle = self.prepare(task)?;
        let done = self.start(handle).and_then(|()| self.wait(handle));
        self.forget(handle);
        done
    }

    /// The operation is of no interest to its caller any more. Where it is under way it goes on, and
    /// keeps its memory until it is done.
    pub fn forget(&mut self, handle: Handle) {
        if let Some(Some(entry)) = self.operations.get_mut(handle) {
            entry.forgotten = true;
        }
        self.sweep();
    }

    /// Ends all traffic: no memory is read or written after this. Every later call gives `error`.
    pub fn shut_down(&mut self, error: Error) {
        self.io.transport.shut_down();
        self.operations.clear();
        self.waiting.clear();
        self.broken.get_or_insert(error);
    }

    /// The error that broke it, if any.
    pub fn check(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> Error {
        let error = self.vigil.explain(error);
        self.vigil.abort(&error);
        self.shut_down(error.clone());
        error
    }

    /// Leaves after a last barrier: after this no call is made.
    ///
    /// What this rank has put may still be queued in the transport, and goes only while it is polled; so
    /// it stays until its neighbours have said goodbye, and with it that they are through the barrier.
    pub fn leave(&mut self) {
        self.vigil.farewell();
        let until = Instant::now() + LAST_CALL;
        while self.check().and_then(|()| self.vigil.check()).is_ok()
            && !self.io.slots.ranks().all(|rank| self.vigil.has_left(rank))
            && Instant::now() < until
        {
            self.events.clear();
            let polled = self.io.transport.poll(&mut self.events);
            if polled.and_then(|()| self.io.transport.sleep(None, SHORT_NAP)).is_err() {
                break;
            }
        }
        self.vigil.leave();
        self.shut_down(Error::argument("communicator", "it was finalized", "make no calls after that"));
    }

    fn vacancy(&mut self) -> Result<Handle> {
        if let Some(free) = self.operations.iter().position(Option::is_none) {
            return Ok(free);
        }
        if self.operations.len() == notice::MAX_OPERATIONS {
            let what = format!("{} operations are under way or prepared", notice::MAX_OPERATIONS);
            return Err(Error::argument("start", what, "wait for some, or drop some that are prepared"));
        }
        self.operations.push(None);
        Ok(self.operations.len() - 1)
    }

    fn is_done(&self, handle: Handle) -> bool {
        !matches!(self.operations.get(handle), Some(Some(entry)) if !entry.operation.is_done())
    }

    fn wait_or_err(&mut self, handle: Handle) -> Result<()> {
        while !self.is_done(handle) {
            let happened = self.progress()?;
            if happened {
                self.patience.rewarded();
                self.vigil.rest();
            }
            let may_sleep = !self.is_done(handle) && (!happened || self.patience.skips_a_poll());
            if may_sleep && self.patience.is_over() {
                self.sleep(handle)?;
            }
        }
        self.vigil.rest();
        Ok(())
    }

    fn sleep(&mut self, handle: Handle) -> Result<()> {
        if let Some(Some(Entry { operation, .. })) = self.operations.get(handle) {
            self.vigil.watch(|| operation.waiting())?;
        }
        let nap = if self.held_up { SHORT_NAP } else { NAP };
        self.io.transport.sleep(self.vigil.wake(), nap)
    }

    /// Takes the transport's events and pumps what they stir; whether anything happened.
    fn progress(&mut self) -> Result<bool> {
        let mut events = std::mem::take(&mut self.events);
        self.io.transport.poll(&mut events)?;
        let happened = !events.is_empty();
        for event in events.drain(..) {
            self.handle(event)?;
        }
        self.events = events;
        if happened || self.held_up {
            self.pump()?;
        }
        Ok(happened)
    }

    /// Pumps what is stirred. The last slot at each neighbour is the oldest operation's, so that those which
    /// run ahead of it never hold it up; when it is done, the next one may go further.
    fn pump(&mut self) -> Result<()> {
        self.held_up = false;
        loop {
            let oldest = self.oldest();
            if std::mem::replace(&mut self.eldest, oldest) != oldest {
                self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
            }
            for entry in self.operations.iter_mut().flatten().filter(|entry| entry.stirred) {
                self.io.slots.spare(usize::from(entry.operation.turn() != oldest));
                entry.stirred = entry.operation.pump(&mut self.io)? == Pumped::HeldUp;
                self.held_up |= entry.stirred;
            }
            if self.oldest() == oldest {
                break;
            }
        }
        self.held_up |= !self.io.slots.pay(&mut *self.io.transport, &mut self.io.tokens)?;
        self.sweep();
        Ok(())
    }

    /// The turn of the operation under way that was started first.
    fn oldest(&self) -> Option<u64> {
        self.operations.iter().flatten().filter_map(|entry| entry.operation.turn()).min()
    }

    /// Lets go of what is done and forgotten.
    fn sweep(&mut self) {
        for place in &mut self.operations {
            if let Some(Entry { operation, .. }) =
                place.take_if(|entry| entry.forgotten && entry.operation.is_done())
            {
                let past = Past { call: operation.call(), starts: operation.starts() };
                self.calls.entry(past.call.communicator).or_default().remember(past);
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Sent(token) => match self.io.tokens.give_back(token) {
                Use::Slot => Ok(()),
                Use::Block(handle) => {
                    self.stir(handle, Operation::sent);
                    Ok(())
                }
            },
            Event::Notice(bits) => match Notice::decode(bits) {
                Some(Notice::Slot { neighbour, slot, round }) if self.io.slots.has(neighbour) => {
                    self.message(Landed { neighbour: neighbour.into(), slot: slot.into() }, round)
                }
                Some(Notice::Credit { neighbour, slots }) if self.io.slots.has(neighbour) => {
                    self.io.slots.credit(neighbour, slots);
                    self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
                    Ok(())
                }
                Some(Notice::Block { operation, round }) => self.block(operation.into(), round),
                _ => Err(nonsense(format!("a notice {bits:#010x}"))),
            },
        }
    }

    fn stir<R>(&mut self, handle: Handle, act: impl FnOnce(&mut Operation) -> R) -> Option<R> {
        let entry = self.operations.get_mut(handle)?.as_mut()?;
        entry.stirred = true;
        Some(act(&mut entry.operation))
    }

    fn block(&mut self, handle: Handle, round: u32) -> Result<()> {
        match self.stir(handle, |operation| operation.arrived(round)) {
            Some(Ok(())) => Ok(()),
            _ => Err(nonsense(format!("a block of operation {handle}, round {round}, which is not awaited"))),
        }
    }

    /// A message has landed in a slot: it is taken by its operation, or waits for it.
    fn message(&mut self, landed: Landed, round: u32) -> Result<()> {
        let header = self.io.slots.header(landed)?;
        let waiting = Waiting { neighbour: landed.neighbour, header, round, kept: Kept::InSlot(landed) };
        if let Some(waiting) = self.take(waiting)? {
            self.keep(waiting, landed);
        }
        Ok(())
    }

    /// Gives a message to its operation; gives it back where the operation is still to begin.
    fn take(&mut self, message: Waiting) -> Result<Option<Waiting>> {
        let call = message.header.call;
        let found = self.operations.iter_mut().flatten().find(|entry| {
            let own = entry.operation.call();
            (own.communicator, own.number) == (call.communicator, call.number)
        });
        let Some(entry) = found else {
            let calls = self.calls.entry(call.communicator).or_default();
            return if call.number > calls.last {
                Ok(Some(message))
            } else {
                self.late(message).map(|()| None)
            };
        };
        if entry.operation.call() != call {
            let mine = entry.operation.call().signature.to_string();
            return Err(self.disagreement(message.neighbour, call, mine));
        }
        if message.header.kind == Kind::Data {
            if !entry.operation.wants(&message.header) {
                return Ok(Some(message));
            }
            let Some((memory, range)) = entry.operation.place_of(message.round) else {
                return Err(nonsense(format!("data of {} for round {}", call.signature, message.round)));
            };
            match &message.kept {
                Kept::InSlot(landed) => self.io.slots.copy_payload(*landed, memory, range),
                Kept::Copied(bytes) => memory.write(range.start, &bytes[..range.len()]),
            }
            let unexpected = |_| nonsense(format!("round {} of {} twice", message.round, call.signature));
            entry.operation.arrived(message.round).map_err(unexpected)?;
        } else {
            entry.operation.ready(message.neighbour, &message.header);
        }
        entry.stirred = true;
        if let Kept::InSlot(landed) = message.kept {
            self.io.slots.release(landed);
        }
        Ok(None)
    }

    /// A message that waits is copied out of its slot, so that it does not hold up those behind it;
    /// beyond a bound it stays, and its sender runs out of slots.
    fn keep(&mut self, mut waiting: Waiting, landed: Landed) {
        let kept = self.waiting.iter().filter(|other| other.neighbour == waiting.neighbour).count();
        if kept < KEPT {
            waiting.kept = Kept::Copied(self.io.slots.payload(landed));
            self.io.slots.release(landed);
        } else {
            self.io.slots.hold(landed);
        }
        self.waiting.push(waiting);
    }

    fn deliver_waiting(&mut self, call: Call) -> Result<()> {
        for message in std::mem::take(&mut self.waiting) {
            let own = message.header.call;
            let same = (own.communicator, own.number) == (call.communicator, call.number);
            let left = if same { self.take(message)? } else { Some(message) };
            self.waiting.extend(left);
        }
        Ok(())
    }

    /// A message for a call that is over here. That a peer is ready may come late, where all that was
    /// to be put to it went ahead; anything else means another call of the same number.
    fn late(&mut self, message: Waiting) -> Result<()> {
        let Header { kind, call, iteration } = message.header;
        let calls = self.calls.get(&call.communicator);
        let past = calls.and_then(|calls| calls.past.iter().find(|past| past.call.number == call.number));
        let mine = match past {
            Some(past) if past.call == call && kind != Kind::Data && iteration < past.starts => {
                if let Kept::InSlot(landed) = message.kept {
                    self.io.slots.release(landed);
                }
                return Ok(());
            }
            Some(past) if past.call == call => format!("{}, which is over here", call.signature),
            Some(past) => past.call.signature.to_string(),
            None => "a call long past".to_owned(),
        };
        Err(self.disagreement(message.neighbour, call, mine))
    }

    fn disagreement(&self, neighbour: usize, theirs: Call, mine: String) -> Error {
        Error::Disagreement {
            number: theirs.number.into(),
            rank: self.place().rank,
            mine,
            peer: self.io.slots.rank_of(neighbour),
            theirs: theirs.signature.to_string(),
        }
    }
}

impl Calls {
    fn next(&mut self, communicator: u16, signature: Signature) -> Call {
        self.last += 1;
        Call { communicator, number: self.last, signature }
    }

    fn remember(&mut self, past: Past) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(past);
    }
}

fn nonsense(what: String) -> Error {
    Error::transport("notice", format!("a peer sent {what}"), "are all ranks of one version and one job?")
}
