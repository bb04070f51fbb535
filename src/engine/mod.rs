//! Carries out plans over a transport: the only loop there is.
//!
//! Every collective, in every tense, is an [`operation::Operation`] that is pumped here: events come
//! from the transport, go to the operation that they concern, and orders go back. The engine never
//! names a concrete transport, and never an algorithm but in the words of an error.
//!
//! | room | what |
//! |---|---|
//! | `task`, `calls` | what is to be done, and the numbers of the calls that do it |
//! | [`operation`], [`run`] | a plan being carried out, with and without its memory |
//! | `mail`, [`slots`], [`notice`], [`call`] | what comes, and how it finds its operation |
//! | [`rest`], `straight` | calls that are made again, and those of them that go along a line |
//! | `wait`, [`patience`], [`vigil`], [`crowd`] | waits: how, under whose eyes, and beside which threads |
//!
//! An error is for good: whoever finds one shuts its transport down and tells all other ranks, and
//! every later call gives that error again. So nobody waits for what will never come, and no peer
//! writes into memory that an erring call has given back.
#![forbid(unsafe_code)]

pub mod beginnings;
pub mod call;
mod calls;
pub mod crowd;
pub mod events;
pub mod intake;
pub mod leg;
mod mail;
pub mod notice;
pub mod operation;
pub mod patience;
pub mod rest;
pub mod run;
pub mod slots;
pub mod staging;
mod straight;
mod task;
pub mod tokens;
pub mod vigil;
mod wait;

pub use task::{Operands, OwnPart, Source, Task};
pub use wait::Waited;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use crate::abreast::suits;
use crate::error::{Error, Result};
use crate::fold::AnyFold;
use crate::forks;
use crate::lifeline::status::Status;
use crate::plan::Plan;
use crate::rank::{Place, Rank};
use crate::transport::memory::Memory;
use crate::transport::{Caches, Gait, Heats, Limits, Region, Transport};
use call::{Call, Signature};
use calls::{Ledger, Past};
use crowd::Crowd;
use events::Events;
use leg::Rule;
use mail::Waiting;
use operation::{Ends, Io, Operation, Parts, Path, Pumped, Trail};
use patience::Patience;
use rest::{Ask, Rest};
use slots::{Card, Slots, There};
use staging::Pool;
use tokens::Tokens;
use vigil::{Vigil, Wait};

/// Shares of a rank's part of the cache from which a call's copies go past it. Measured with two ranks in windows, L3 of 32
/// MiB: broadcast of 12 MiB 0.87 of the time, of 16 MiB 0.5, of 8 MiB 1.3; alltoall of 6 MiB 1.0 (manual, "Memory").
const MOVED: f64 = 0.7;
/// The same where what is copied has been folded: allreduce of 24 MiB 0.85, of 32 MiB 0.7, of 16 MiB 1.1, of 8 MiB 2.3.
const FOLDED: f64 = 1.2;

/// An operation's name, for the one who started it.
pub type Handle = usize;

/// Carries out the operations of one rank.
pub struct Engine {
    io: Io,
    max_put: usize,
    operations: Vec<Option<Entry>>,
    rest: Rest,
    calls: Ledger,
    waiting: Vec<Waiting>,
    /// A neighbour may have no slot left for what is waited for, as messages for calls to come are in all of them.
    jammed: bool,
    /// When they were copied out last.
    cleared: Option<Instant>,
    events: Events,
    patience: Patience,
    vigil: Vigil,
    held_up: bool,
    /// What else is to be done while nothing happens, and whether it has slept since something did.
    meanwhile: Option<fn()>,
    napped: bool,
    /// Of copies from the caller's memory to the caller's.
    own_copies: Heats,
    crowd: Arc<Crowd>,
    /// A thread carries it on, though it may have let others in for a moment.
    carried: bool,
    /// How many others wait for an operation.
    awaiting: u32,
    /// How many starts there have been: the next one's turn.
    turns: u64,
    /// The turn of the oldest operation at the last pump.
    eldest: Option<u64>,
    broken: Option<Error>,
    /// No call has returned that yet.
    is_untold: Cell<bool>,
    /// Operators that no operation needs any more. Where they go, their user's code runs.
    discarded: Vec<AnyFold>,
    /// The process that it is of.
    generation: u32,
}

struct Entry {
    operation: Box<Operation>,
    /// Nobody asks for it any more: it goes when it is done.
    forgotten: bool,
    /// Another thread than the one that carries the engine on waits for it.
    awaited: bool,
    /// Something has happened that may let it put.
    stirred: bool,
    /// How much has happened to it.
    stirs: u64,
    /// The wait for it that is going on.
    wait: Option<Wait>,
}

impl Entry {
    fn new(operation: Box<Operation>) -> Self {
        Entry { operation, forgotten: false, awaited: false, stirred: false, stirs: 0, wait: None }
    }
}

impl Engine {
    /// An engine over a transport whose peers are connected, with slots that are connected too.
    /// `ranks_per_core`: of this machine.
    pub fn new(
        transport: Box<dyn Transport>,
        slots: Slots,
        vigil: Vigil,
        ranks_per_core: f64,
    ) -> Result<Self> {
        let Limits { in_flight, max_put, .. } = transport.limits();
        let tokens = Tokens::new(in_flight);
        let patience = Patience::new(ranks_per_core, transport.polls_memory());
        Ok(Engine {
            io: Io { transport, slots, tokens, pool: Pool::default() },
            max_put,
            operations: Vec::new(),
            rest: Rest::default(),
            calls: Ledger::default(),
            waiting: Vec::new(),
            jammed: false,
            cleared: None,
            events: Events::default(),
            patience,
            vigil,
            held_up: false,
            meanwhile: None,
            napped: false,
            own_copies: Heats::default(),
            crowd: Arc::new(Crowd::new()?),
            carried: false,
            awaiting: 0,
            turns: 0,
            eldest: None,
            broken: None,
            is_untold: Cell::new(false),
            discarded: Vec::new(),
            generation: forks::here(),
        })
    }

    /// Who and how many we are.
    pub fn place(&self) -> Place {
        self.io.transport.place()
    }

    /// What others are told of this rank.
    pub fn status(&self) -> &Arc<Status> {
        self.vigil.status()
    }

    /// How many calls it has made.
    #[cfg(test)]
    pub fn calls_made(&self) -> u64 {
        self.vigil.calls_made()
    }

    /// As if there were a core for each rank.
    #[cfg(test)]
    pub fn give_a_core(&mut self) {
        self.patience = Patience::new(1.0, self.io.transport.polls_memory());
    }

    /// As if so many more calls had been made on each communicator, and what is prepared had been started so often.
    #[cfg(test)]
    pub fn grow_old(&mut self, by: u32) {
        self.calls.grow_old(by);
        self.operations.iter_mut().flatten().for_each(|entry| entry.operation.grow_old(by));
    }

    /// The transport's name.
    pub fn transport(&self) -> String {
        self.io.transport.name()
    }

    /// The most bytes of a direct put.
    pub fn max_put(&self) -> usize {
        self.max_put
    }

    /// Puts have so many bytes at most, as no rank can take more: both ends of a leg must cut it alike.
    pub fn limit_puts(&mut self, max_put: usize) {
        self.max_put = self.max_put.min(max_put);
    }

    /// How a call copies that touches so many bytes of each rank's memory, and `folds` some of them: past the caches where
    /// these do not hold a rank's share of it until it is looked for. (Of two ranks a core reads and writes about as much, of many
    /// nearly twice as much.)
    pub fn gait(&self, touched: u64, folds: bool) -> Gait {
        let share = if folds { FOLDED } else { MOVED };
        let Caches { own, share: cache, abreast } = self.io.transport.caches();
        match cache {
            Some(bytes) if touched as f64 > share * bytes as f64 => Gait::PastCaches,
            _ if abreast && own.is_some_and(|bytes| suits(touched, bytes)) => Gait::Abreast,
            _ => Gait::Straight,
        }
    }

    /// Zeroed memory of so many bytes, of the kind that puts reach best, registered for many calls.
    pub fn window(&mut self, bytes: usize) -> Result<Region> {
        self.check()?;
        let memory = self.io.transport.allocate(bytes)?;
        let window = self.io.transport.register(memory)?;
        self.io.transport.prepare_for_puts(&window);
        Ok(window)
    }

    /// Working memory of so many bytes for a call that the others make too: they hear where it cannot be had.
    pub fn workspace(&mut self, bytes: usize) -> Result<Region> {
        self.check()?;
        let mut region = self.window(bytes).map_err(|error| self.fail(error))?;
        region.is_rewritten = true;
        Ok(region)
    }

    /// Makes a task ready to be [started](Self::start), many times. Nothing is sent yet.
    pub fn prepare(&mut self, task: Task) -> Result<Handle> {
        self.check()?;
        let handle = self.vacancy()?;
        let Task {
            communicator,
            group,
            signature,
            plan,
            layout,
            pace,
            piece,
            longest,
            fold,
            small,
            from,
            to,
            touched,
        } = task;
        check_rounds(&*plan, small, &signature)?;
        let gait = self.gait(touched, fold.is_some());
        let path = self.path(small, &from, to.as_ref())?;
        let rule = Rule {
            piece: if small { 0 } else { piece },
            unit: leg::whole_lines(fold.as_ref().map_or(1, |fold| fold.unit())),
            max_put: self.max_put.min(longest),
        };
        let call = self.calls.of(communicator).next(communicator, signature);
        let parts = Parts { call, number: handle as u16, group, plan, layout, path, pace, rule, fold, gait };
        // The others have begun the call, or will: they must hear that it comes to nothing.
        let operation = Operation::new(parts, &mut self.io).map_err(|error| self.fail(error))?;
        let operation = Box::new(operation);
        self.operations[handle] = Some(Entry::new(operation));
        Ok(handle)
    }

    /// From memory to memory, which is registered unless what travels is small.
    fn path(&mut self, small: bool, from: &Source, to: Option<&Source>) -> Result<Path> {
        if small {
            return Ok(Path::Slots { from: from.clone(), to: to.map(|to| to.memory().clone()) });
        }
        let (from, to) = match to {
            Some(to) => {
                let from = self.registered(from, |transport, memory| transport.register_source(memory))?;
                (from, Some(self.registered(to, |transport, memory| transport.register(memory))?))
            }
            None => (self.registered(from, |transport, memory| transport.register(memory))?, None),
        };
        Ok(Path::Direct(Box::new(Ends { from, to })))
    }

    fn registered(
        &mut self,
        source: &Source,
        register: fn(&mut dyn Transport, Memory) -> Result<Region>,
    ) -> Result<Region> {
        match source {
            Source::Registered(region) => Ok(region.clone()),
            Source::Unregistered(memory) => {
                register(&mut *self.io.transport, memory.clone()).map_err(|error| self.fail(error))
            }
        }
    }

    /// The ranks among `peers` that it has no wide channel to.
    pub fn without_channel(&self, peers: &[Rank]) -> Vec<Rank> {
        peers.iter().copied().filter(|&rank| self.io.slots.wide(rank).is_none()).collect()
    }

    /// Adds wide channels to some ranks; what to tell them. Who has no memory for it tells all, as they wait for that.
    pub fn add_channels(&mut self, peers: &[Rank]) -> Result<Card> {
        self.check()?;
        let added = self.io.slots.add(&mut *self.io.transport, peers, slots::WIDE, 0);
        added.map_err(|error| self.fail(error))
    }

    /// Connects channels that were added, given where the ranks that they go to have theirs.
    pub fn connect_channels(&mut self, own: &Card, there: impl Fn(Rank) -> Option<There>) -> Result<()> {
        if own.peers.is_empty() {
            return Ok(());
        }
        // What is kept goes by the channels that there were.
        self.rest = Rest::default();
        let connected = self.io.slots.connect(&*self.io.transport, own, there);
        connected.map_err(|error| self.fail(error))
    }

    /// A communicator is used no more. What waits for calls on it will never be taken, which is an error of all ranks: the next
    /// call here returns it.
    pub fn free(&mut self, communicator: u32) {
        self.calls.close(communicator);
        self.rest.forget(communicator);
        if let Err(error) = self.deliver_waiting(|call| call.communicator == communicator) {
            self.fail(error);
            self.leave_untold();
        }
    }

    /// Whether an error has broken it.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Whether no call has returned the error that broke it, as it came of something that returns nothing.
    pub fn is_untold(&self) -> bool {
        self.is_untold.get()
    }

    /// That is so.
    pub fn leave_untold(&self) {
        self.is_untold.set(true);
    }

    /// The error that no call has returned, if there is one.
    pub fn untold(&self) -> Result<()> {
        if self.is_untold() { self.check() } else { Ok(()) }
    }

    /// From now on calls are the user's: those by which ranks have joined, on this communicator, are not counted with them,
    /// and kept for nothing but what comes late for them.
    pub fn has_joined(&mut self, joining: u32) {
        self.rest.forget(joining);
        self.vigil.begin();
    }

    /// Fails where an operation is still running.
    pub fn check_at_rest(&self, handle: Handle) -> Result<()> {
        self.check()?;
        match self.is_done(handle) {
            true => Ok(()),
            false => Err(Error::argument("start", "it is still running", "wait for it first")),
        }
    }

    /// Starts an operation that is at rest; one that runs is an error.
    pub fn start(&mut self, handle: Handle) -> Result<()> {
        self.start_after(handle, None)
    }

    /// Starts an operation of which something may have been done along its line.
    fn start_after(&mut self, handle: Handle, trail: Option<&Trail>) -> Result<()> {
        self.check_at_rest(handle)?;
        self.vigil.makes_one();
        let turn = self.turns;
        self.turns += 1;
        let Some(call) = self.stir(handle, |operation| {
            operation.start(turn);
            trail.into_iter().for_each(|trail| operation.catch_up(trail));
            operation.call()
        }) else {
            return Ok(());
        };
        let told = if self.waiting.is_empty() { Ok(()) } else { self.tell_sources(handle) };
        let begun = told
            .and_then(|()| self.deliver_waiting(|other| other.name() == call.name()))
            .and_then(|()| self.pump());
        begun.map_err(|error| self.fail(error))
    }

    /// Tells an operation's sources that it is ready before it takes in what waits for it: they have their half to do.
    fn tell_sources(&mut self, handle: Handle) -> Result<()> {
        let oldest = self.oldest();
        let Some(Some(entry)) = self.operations.get_mut(handle) else { return Ok(()) };
        self.io.slots.spare(usize::from(entry.operation.turn() != oldest));
        entry.operation.tell(&mut self.io)
    }

    /// Carries a task out, from beginning to end, where nobody else has the engine. See [`begin`](Self::begin).
    pub fn run(&mut self, task: Task) -> Result<()> {
        let handle = self.begin(task, None)?;
        let done = loop {
            match self.wait_on(handle) {
                Ok(Waited::Done) => break Ok(()),
                Ok(Waited::LetIn | Waited::ForAnother) => {}
                Err(error) => break Err(error),
            }
        };
        self.forget(handle);
        done
    }

    /// Begins to carry out a task. It is kept, when it is over, by what was asked for, to be
    /// [begun again](Self::begin_again).
    pub fn begin(&mut self, task: Task, ask: Option<Ask<'_>>) -> Result<Handle> {
        let handle = self.prepare(task)?;
        if let Some(Some(entry)) = self.operations.get_mut(handle) {
            entry.operation.ask = ask.map(Ask::into_owned);
            entry.operation.attend();
        }
        self.start_or_forget(handle, None)
    }

    fn start_or_forget(&mut self, handle: Handle, trail: Option<&Trail>) -> Result<Handle> {
        let started = self.start_after(handle, trail);
        if started.is_err() {
            self.forget(handle);
        }
        started.map(|()| handle)
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
        self.vigil.rest_all();
        let operations = self.operations.drain(..).flatten();
        self.discarded.extend(operations.filter_map(|mut entry| entry.operation.rest()));
        self.rest = Rest::default();
        self.io.pool.clear();
        self.waiting.clear();
        self.broken.get_or_insert(error);
    }

    /// Whether there are operators that are to go when the engine is not this thread's any more.
    pub fn has_discarded(&self) -> bool {
        !self.discarded.is_empty()
    }

    /// These operators.
    pub fn discarded(&mut self) -> Vec<AnyFold> {
        std::mem::take(&mut self.discarded)
    }

    /// The error that broke it, if any.
    pub fn check(&self) -> Result<()> {
        match &self.broken {
            Some(error) => {
                self.is_untold.set(false);
                Err(error.clone())
            }
            None if self.generation != forks::generation() => Err(Error::argument(
                "call",
                "the process is a forked child of the one that joined",
                "leave calls to the parent, or let the child start a program of its own (exec)",
            )),
            None => Ok(()),
        }
    }

    /// Nothing can be said about its state any more: all ranks are told, at once, unless there was an error before.
    pub fn give_up(&mut self, error: Error) {
        if self.broken.is_none() {
            self.vigil.abort(&error);
            self.shut_down(error);
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        let error = self.vigil.explain(error);
        self.vigil.abort(&error);
        self.shut_down(error.clone());
        error
    }

    /// How many operations there may be beside those that are under way or prepared.
    pub fn vacancies(&self) -> usize {
        notice::MAX_OPERATIONS - self.operations.iter().flatten().count()
    }

    /// A place for one more operation: mostly none is under way.
    #[inline]
    fn vacancy(&mut self) -> Result<Handle> {
        if matches!(self.operations.first(), Some(None)) { Ok(0) } else { self.any_vacancy() }
    }

    fn any_vacancy(&mut self) -> Result<Handle> {
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

    /// Asks for events, if there are none; where some have come, a wait has been worth it.
    fn refill(&mut self) -> Result<()> {
        if self.events.is_empty() && self.events.refill(&mut *self.io.transport)? {
            self.waited_well();
        }
        Ok(())
    }

    fn waited_well(&mut self) {
        self.patience.rewarded();
        self.napped = false;
    }

    /// Takes the transport's events and pumps what they stir; whether anything happened.
    fn progress(&mut self) -> Result<bool> {
        self.refill()?;
        let happened = !self.events.is_empty();
        while let Some(event) = self.events.take() {
            self.handle(event)?;
        }
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
        self.pay()?;
        self.sweep();
        Ok(())
    }

    /// Gives slots back, now or with what is next.
    fn pay(&mut self) -> Result<()> {
        if !self.io.slots.owes() {
            return Ok(());
        }
        self.held_up |= !self.io.slots.pay(&mut *self.io.transport, &mut self.io.tokens)?;
        Ok(())
    }

    /// The turn of the operation under way that was started first.
    fn oldest(&self) -> Option<u64> {
        self.operations.iter().flatten().filter_map(|entry| entry.operation.turn()).min()
    }

    /// Lets go of what is done and forgotten, and of waits that nobody has any more.
    fn sweep(&mut self) {
        for place in 0..self.operations.len() {
            let Some(entry) = &mut self.operations[place] else { continue };
            if entry.forgotten || entry.operation.is_done() {
                self.vigil.rest(&mut entry.wait);
            }
            let over = self.operations[place].take_if(|entry| entry.forgotten && entry.operation.is_done());
            if let Some(Entry { operation, awaited, .. }) = over {
                self.awaiting -= u32::from(awaited);
                let starts = operation.starts();
                self.put_away(operation, starts);
            }
        }
    }

    /// Remembers what was done, in so many starts.
    fn remember(&mut self, call: Call, starts: u32) {
        if let Some(calls) = self.calls.find(call.communicator) {
            calls.remember(Past { call, starts });
        }
    }

    /// Remembers what was done by an operation that is over after so many starts, and keeps it if it is to be kept.
    fn put_away(&mut self, mut operation: Box<Operation>, starts: u32) {
        self.remember(operation.call(), starts);
        if !operation.is_small() {
            operation.give_back(&mut self.io.pool);
        }
        self.discarded.extend(operation.rest());
        if operation.ask.is_some() {
            self.rest.keep(operation);
        }
    }

    fn stir<R>(&mut self, handle: Handle, act: impl FnOnce(&mut Operation) -> R) -> Option<R> {
        let entry = self.operations.get_mut(handle)?.as_mut()?;
        entry.stirred = true;
        entry.stirs += 1;
        Some(act(&mut entry.operation))
    }
}

/// A direct put's notice names its round. All ranks find the same, before anything is sent.
fn check_rounds(plan: &dyn Plan, small: bool, signature: &Signature) -> Result<()> {
    let rounds = plan.rounds();
    if small || rounds <= notice::MAX_ROUNDS {
        return Ok(());
    }
    let cure = format!("take fewer blocks, or an algorithm of at most {} rounds", notice::MAX_ROUNDS);
    Err(Error::argument(signature.collective.name(), format!("{rounds} rounds"), cure))
}
