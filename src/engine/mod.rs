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
pub mod crowd;
pub mod intake;
pub mod leg;
pub mod notice;
pub mod operation;
pub mod patience;
pub mod rest;
pub mod run;
pub mod slots;
pub mod staging;
pub mod tokens;
pub mod vigil;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fold::Fold;
use crate::plan::layout::Layout;
use crate::plan::{Plan, Side};
use crate::rank::{Place, Rank};
use crate::transport::memory::Memory;
use crate::transport::{Event, Limits, Region, Transport};
use call::{Call, Header, Kind, Signature};
use crowd::Crowd;
use leg::Rule;
use notice::Notice;
use operation::{Io, Kept, Operation, Pace, Parts, Path, Payload, Pumped, Unequal};
use patience::Patience;
use rest::{Ask, Rest};
use run::Unexpected;
use slots::{Card, Landed, Slots, There};
use staging::Pool;
use tokens::{Tokens, Use};
use vigil::{Vigil, Wait};

/// The longest sleep, in case that a transport misses to wake us.
const NAP: Duration = Duration::from_millis(100);
/// The sleep while a transport is busy: nothing wakes us when it no longer is.
const SHORT_NAP: Duration = Duration::from_micros(200);
/// How long a rank that leaves waits for its neighbours' goodbyes.
const LAST_CALL: Duration = Duration::from_secs(5);
/// Messages for calls to come that are copied out of each neighbour's slots; more stay where they are.
const KEPT: usize = 64;
/// Messages for calls to come that are left in each neighbour's slots.
const LEFT: usize = 2;
/// Operations that are remembered when they are over, to know what comes late from what is wrong.
const REMEMBERED: usize = 256;

/// What is to be done by all ranks of a communicator.
pub struct Task {
    /// Which communicator.
    pub communicator: u32,
    /// The rank in the world of each of its ranks; `None` where they are the same.
    pub group: Option<Arc<[Rank]>>,
    /// What all ranks must agree on.
    pub signature: Signature,
    /// This rank's part.
    pub plan: Box<dyn Plan>,
    /// Where blocks lie.
    pub layout: Box<dyn Layout>,
    /// How far it may go ahead.
    pub pace: Pace,
    /// Bytes of a staged piece: a whole number of elements, and 0 where nothing is folded or packed.
    pub piece: usize,
    /// The most bytes of a put into its place, if not what the transport takes; at least 1.
    pub longest: usize,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<Arc<dyn Fold>>,
    /// Whether all travels in slots: every leg has at most [`PAYLOAD`](slots::PAYLOAD) bytes, and every
    /// peer has a wide channel.
    pub small: bool,
    /// What is put.
    pub from: Source,
    /// Where it lands; `None`: in the same memory.
    pub to: Option<Source>,
}

/// What moves in a call that was made before: all else is as it was.
pub struct Again {
    /// What is put.
    pub from: Source,
    /// Where it lands; `None`: in the same memory.
    pub to: Option<Source>,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<Arc<dyn Fold>>,
}

/// Memory that a task moves.
#[derive(Clone)]
pub enum Source {
    /// Registered already.
    Registered(Region),
    /// To be registered for this call, unless it is small.
    Unregistered(Memory),
}

impl Source {
    /// The bytes.
    pub fn memory(&self) -> &Memory {
        match self {
            Source::Registered(region) => &region.memory,
            Source::Unregistered(memory) => memory,
        }
    }

    /// The bytes, without the registration.
    pub fn into_memory(self) -> Memory {
        match self {
            Source::Registered(region) => region.memory,
            Source::Unregistered(memory) => memory,
        }
    }
}

/// An operation's name, for the one who started it.
pub type Handle = usize;

/// How a wait in the engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is done.
    Done,
    /// Others want in, or what they wait for is done: to be let in, before one [waits on](Engine::wait_on).
    LetIn,
    /// Another thread carries the engine on already, and this one will be told.
    ForAnother,
}

/// Carries out the operations of one rank.
pub struct Engine {
    io: Io,
    operations: Vec<Option<Entry>>,
    rest: Rest,
    calls: BTreeMap<u32, Calls>,
    /// Communicators that were freed here: what still comes for them comes late.
    freed: HashSet<u32>,
    waiting: Vec<Waiting>,
    events: Vec<Event>,
    patience: Patience,
    vigil: Vigil,
    held_up: bool,
    /// What else is to be done while nothing happens, and whether it has slept since something did.
    meanwhile: Option<fn()>,
    napped: bool,
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
}

struct Entry {
    operation: Box<Operation>,
    /// By what it is kept when it is over, if it is.
    ask: Option<Ask>,
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
    fn new(operation: Box<Operation>, ask: Option<Ask>) -> Self {
        Entry { operation, ask, forgotten: false, awaited: false, stirred: false, stirs: 0, wait: None }
    }
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
    channel: usize,
    header: Header,
    kept: Kept,
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
        let tokens = Tokens::new(transport.limits().in_flight);
        let patience = Patience::new(ranks_per_core, transport.polls_memory());
        Ok(Engine {
            io: Io { transport, slots, tokens, pool: Pool::default() },
            operations: Vec::new(),
            rest: Rest::default(),
            calls: BTreeMap::new(),
            freed: HashSet::new(),
            waiting: Vec::new(),
            events: Vec::new(),
            patience,
            vigil,
            held_up: false,
            meanwhile: None,
            napped: false,
            crowd: Arc::new(Crowd::new()?),
            carried: false,
            awaiting: 0,
            turns: 0,
            eldest: None,
            broken: None,
        })
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

    /// Zeroed memory of so many bytes, of the kind that puts reach best, registered for many calls.
    pub fn window(&mut self, bytes: usize) -> Result<Region> {
        self.check()?;
        let memory = self.io.transport.allocate(bytes)?;
        self.io.transport.register(memory)
    }

    /// Working memory of so many bytes for a call that the others make too: they hear where it cannot be had.
    pub fn workspace(&mut self, bytes: usize) -> Result<Region> {
        self.check()?;
        self.window(bytes).map_err(|error| self.fail(error))
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
        } = task;
        let path = self.path(small, from, to)?;
        let rule = Rule { piece: if small { 0 } else { piece }, max_put: self.limits().max_put.min(longest) };
        let call = self.calls.entry(communicator).or_default().next(communicator, signature);
        let parts = Parts { call, number: handle as u16, group, plan, layout, path, pace, rule, fold };
        // The others have begun the call, or will: they must hear that it comes to nothing.
        let operation = Operation::new(parts, &mut self.io).map_err(|error| self.fail(error))?;
        let operation = Box::new(operation);
        self.operations[handle] = Some(Entry::new(operation, None));
        Ok(handle)
    }

    fn path(&mut self, small: bool, from: Source, to: Option<Source>) -> Result<Path> {
        if small {
            return Ok(in_slots(from, to));
        }
        let from = self.registered(from)?;
        let to = to.map(|to| self.registered(to)).transpose()?;
        Ok(Path::Direct { to: to.unwrap_or_else(|| from.clone()), from })
    }

    fn registered(&mut self, source: Source) -> Result<Region> {
        match source {
            Source::Registered(region) => Ok(region),
            Source::Unregistered(memory) => {
                self.io.transport.register(memory).map_err(|error| self.fail(error))
            }
        }
    }

    /// The ranks among `peers` that it has no wide channel to.
    pub fn without_channel(&self, peers: &[Rank]) -> Vec<Rank> {
        peers.iter().copied().filter(|&rank| self.io.slots.wide(rank).is_none()).collect()
    }

    /// Adds wide channels to some ranks; what to tell them.
    pub fn add_channels(&mut self, peers: &[Rank]) -> Result<Card> {
        self.check()?;
        self.io.slots.add(&mut *self.io.transport, peers, slots::WIDE)
    }

    /// Connects channels that were added, given where the ranks that they go to have theirs.
    pub fn connect_channels(&mut self, own: &Card, there: impl Fn(Rank) -> Option<There>) -> Result<()> {
        self.io.slots.connect(&*self.io.transport, own, there)
    }

    /// A communicator is used no more.
    pub fn free(&mut self, communicator: u32) {
        self.calls.remove(&communicator);
        self.rest.forget(communicator);
        self.freed.insert(communicator);
    }

    /// What a communicator's calls were made from has changed: none is repeated as it was.
    pub fn outdate(&mut self, communicator: u32) {
        self.rest.forget(communicator);
    }

    /// Bytes of registered memory for messages, whatever is sent.
    pub fn slot_bytes(&self) -> usize {
        self.io.slots.bytes()
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
        self.check_at_rest(handle)?;
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
        let watched = progressed.and_then(|_| self.watch(handle));
        watched.map_err(|error| self.fail(error))?;
        Ok(self.is_done(handle))
    }

    /// Who wants in while a thread [waits](Self::wait) in here.
    pub fn crowd(&self) -> Arc<Crowd> {
        Arc::clone(&self.crowd)
    }

    /// Waits until an operation is done, or there is reason to leave for a moment.
    pub fn wait(&mut self, handle: Handle) -> Result<Waited> {
        self.check()?;
        if self.is_done(handle) {
            self.is_awaited(handle, false);
            return Ok(Waited::Done);
        }
        if self.carried {
            self.is_awaited(handle, true);
            return self.watch(handle).map(|()| Waited::ForAnother).map_err(|error| self.fail(error));
        }
        self.is_awaited(handle, false);
        self.carried = true;
        let waited = self.wait_or_err(handle);
        self.carried = matches!(waited, Ok(Waited::LetIn));
        waited.map_err(|error| self.fail(error))
    }

    /// Goes on as the one that waits, after having let others in.
    pub fn wait_on(&mut self, handle: Handle) -> Result<Waited> {
        self.carried = false;
        self.watch(handle).map_err(|error| self.fail(error))?;
        self.wait(handle)
    }

    /// Whether others than the one that carries it on wait for an operation: they must be told of changes.
    pub fn is_awaited_by_others(&self) -> bool {
        self.awaiting > 0
    }

    fn is_awaited(&mut self, handle: Handle, is: bool) {
        let Some(Some(entry)) = self.operations.get_mut(handle) else { return };
        match (std::mem::replace(&mut entry.awaited, is), is) {
            (false, true) => self.awaiting += 1,
            (true, false) => self.awaiting -= 1,
            _ => {}
        }
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

    /// Begins to carry out a task. A small one is kept, when it is over, by what was asked for, to be
    /// [begun again](Self::begin_again).
    pub fn begin(&mut self, task: Task, ask: Option<Ask>) -> Result<Handle> {
        let ask = ask.filter(|_| task.small);
        let handle = self.prepare(task)?;
        if let Some(Some(entry)) = self.operations.get_mut(handle) {
            entry.ask = ask;
        }
        self.start_or_forget(handle)
    }

    /// Takes up what was asked for lately.
    pub fn recall(&mut self, ask: &Ask) -> Option<Box<Operation>> {
        self.rest.take(ask)
    }

    /// Begins again what was [recalled](Self::recall), as the next call on its communicator.
    pub fn begin_again(&mut self, ask: Ask, mut operation: Box<Operation>, again: Again) -> Result<Handle> {
        self.check()?;
        let handle = self.vacancy()?;
        let Call { communicator, signature, .. } = operation.call();
        let call = self.calls.entry(communicator).or_default().next(communicator, signature);
        operation.renew(call, handle as u16, in_slots(again.from, again.to), again.fold);
        self.operations[handle] = Some(Entry::new(operation, Some(ask)));
        self.start_or_forget(handle)
    }

    fn start_or_forget(&mut self, handle: Handle) -> Result<Handle> {
        let started = self.start(handle);
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
        self.operations.clear();
        self.rest = Rest::default();
        self.io.pool.clear();
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
            && !self.vigil.all_left()
            && Instant::now() < until
        {
            self.events.clear();
            let polled = self.io.transport.poll(&mut self.events);
            if polled.and_then(|()| self.io.transport.sleep(&[], SHORT_NAP)).is_err() {
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

    fn wait_or_err(&mut self, handle: Handle) -> Result<Waited> {
        while !self.is_done(handle) {
            let happened = !self.is_quiet() && self.progress()?;
            if happened {
                self.patience.rewarded();
                self.napped = false;
            }
            if self.crowd.is_outside() || self.is_another_done() {
                return Ok(Waited::LetIn);
            }
            let may_sleep = !self.is_done(handle) && (!happened || self.patience.skips_a_poll());
            if may_sleep && self.patience.is_over() {
                self.sleep(handle)?;
            }
        }
        self.rest_from(handle);
        Ok(Waited::Done)
    }

    /// Whether progress would do nothing: most looks, while a rank waits, are no more than this.
    fn is_quiet(&self) -> bool {
        !self.held_up && self.io.transport.is_quiet()
    }

    /// Whether another thread's wait is over.
    fn is_another_done(&self) -> bool {
        self.awaiting > 0
            && self.operations.iter().flatten().any(|entry| entry.awaited && entry.operation.is_done())
    }

    /// Looks after the wait for an operation, if it is not done.
    fn watch(&mut self, handle: Handle) -> Result<()> {
        if self.is_done(handle) {
            self.rest_from(handle);
            return Ok(());
        }
        let Some(Some(entry)) = self.operations.get_mut(handle) else { return Ok(()) };
        let Entry { operation, stirs, wait, .. } = entry;
        self.vigil.watch(wait, *stirs, || operation.waiting())
    }

    fn rest_from(&mut self, handle: Handle) {
        if let Some(Some(entry)) = self.operations.get_mut(handle) {
            self.vigil.rest(&mut entry.wait);
        }
    }

    /// Has `meanwhile` called by who waits, again and again while nothing happens.
    pub fn while_waiting(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    fn sleep(&mut self, handle: Handle) -> Result<()> {
        self.watch(handle)?;
        if let (Some(meanwhile), true) = (self.meanwhile, std::mem::replace(&mut self.napped, true)) {
            meanwhile();
        }
        let nap = if self.held_up || self.meanwhile.is_some() { SHORT_NAP } else { NAP };
        let bell = self.crowd.wake();
        let slept = match self.vigil.wake() {
            Some(news) => self.io.transport.sleep(&[bell, news], nap),
            None => self.io.transport.sleep(&[bell], nap),
        };
        self.crowd.hush();
        slept
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
            if let Some(Entry { mut operation, ask, .. }) =
                place.take_if(|entry| entry.forgotten && entry.operation.is_done())
            {
                let past = Past { call: operation.call(), starts: operation.starts() };
                match ask {
                    Some(ask) => {
                        operation.rest();
                        self.rest.keep(ask, operation);
                    }
                    None => operation.into_pool(&mut self.io.pool),
                }
                if let Some(calls) = self.calls.get_mut(&past.call.communicator) {
                    calls.remember(past);
                }
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
                Notice::Slot { channel, slot } if self.io.slots.has(channel) => {
                    self.message(Landed { channel: channel as usize, slot: slot.into() })
                }
                Notice::Credit { channel, slots } if self.io.slots.has(channel) => {
                    self.io.slots.credit(channel, slots);
                    self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
                    Ok(())
                }
                Notice::Block { operation, round } => {
                    let landed = self.stir(operation.into(), |operation| operation.landed(round));
                    awaited(landed, || format!("a block of operation {operation}, round {round}"))
                }
                Notice::Staged { operation, source, slot } => {
                    let staged =
                        self.stir(operation.into(), |operation| operation.staged(source as usize, slot));
                    awaited(staged, || format!("a piece of operation {operation} from its source {source}"))
                }
                _ => Err(nonsense(format!("a notice {bits:#010x}"))),
            },
        }
    }

    fn stir<R>(&mut self, handle: Handle, act: impl FnOnce(&mut Operation) -> R) -> Option<R> {
        let entry = self.operations.get_mut(handle)?.as_mut()?;
        entry.stirred = true;
        entry.stirs += 1;
        Some(act(&mut entry.operation))
    }

    /// A message has landed in a slot: it is taken by its operation, or waits for it.
    fn message(&mut self, landed: Landed) -> Result<()> {
        let could = self.io.slots.may_send(landed.channel);
        let header = self.io.slots.header(landed)?;
        if !could {
            // Whatever waited for a slot of this channel.
            self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
        }
        let waiting = Waiting { channel: landed.channel, header, kept: Kept::InSlot(landed) };
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
            let last = self.calls.get(&call.communicator).map_or(0, |calls| calls.last);
            return if call.number > last && !self.freed.contains(&call.communicator) {
                Ok(Some(message))
            } else {
                self.late(message).map(|()| None)
            };
        };
        if entry.operation.call() != call {
            let mine = entry.operation.call().signature.to_string();
            return Err(self.disagreement(message.channel, call, mine));
        }
        let peer = self.io.slots.rank_of(message.channel);
        let agreed = match message.header.kind {
            Kind::Data { .. } | Kind::Turn { .. } if entry.operation.is_to_start(&message.header) => {
                return Ok(Some(message));
            }
            Kind::Data { round, bytes } => {
                let payload = match &message.kept {
                    Kept::InSlot(landed) => {
                        let (memory, start, room) = self.io.slots.payload(*landed);
                        Payload::InSlot(memory, start, room)
                    }
                    Kept::Copied(bytes) => Payload::Copied(bytes),
                };
                let agreed = entry.operation.is_as_long(round, bytes);
                if agreed.is_ok() {
                    let taken = match entry.operation.is_of_this_start(&message.header) {
                        true => entry.operation.message(round, &payload)?,
                        false => Err(Unexpected { round }),
                    };
                    awaited(Some(taken), || format!("data of {} for round {round}", call.signature))?;
                }
                agreed
            }
            Kind::Turn { round } => {
                entry.operation.admitted(peer, &message.header, round);
                Ok(())
            }
            Kind::Taken { pieces } => {
                entry.operation.taken(peer, &message.header, pieces);
                Ok(())
            }
            Kind::Ready { .. } | Kind::Again => entry.operation.ready(peer, &message.header),
        };
        entry.stirred = true;
        if let Err(unequal) = agreed {
            return Err(self.unequal(peer, call, unequal));
        }
        if let Kept::InSlot(landed) = message.kept {
            self.io.slots.release(landed);
        }
        Ok(None)
    }

    /// A message that waits is copied out of its slot, so that it does not hold up those behind it; but for
    /// the first few, which leave their sender enough. Beyond a bound they stay, and it runs out of slots.
    fn keep(&mut self, mut waiting: Waiting, landed: Landed) {
        let kept = self.waiting.iter().filter(|other| other.channel == waiting.channel).count();
        if (LEFT..KEPT).contains(&kept) {
            waiting.kept = Kept::Copied(self.io.slots.copied(landed, waiting.header.data()));
            self.io.slots.release(landed);
        } else {
            self.io.slots.hold(landed);
        }
        self.waiting.push(waiting);
    }

    fn deliver_waiting(&mut self, call: Call) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
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
        let harmless = !matches!(kind, Kind::Data { .. });
        let freed = self.freed.contains(&call.communicator);
        let mine = match past {
            // Of a communicator that was freed, or so long ago that it is not remembered.
            None if harmless => {
                self.drop_message(message);
                return Ok(());
            }
            Some(past) if past.call == call && harmless && iteration < past.starts => {
                self.drop_message(message);
                return Ok(());
            }
            None if freed => "a call on a communicator that was freed here".to_owned(),
            Some(past) if past.call == call => format!("{}, which is over here", call.signature),
            Some(past) => past.call.signature.to_string(),
            None => "a call long past".to_owned(),
        };
        Err(self.disagreement(message.channel, call, mine))
    }

    fn drop_message(&mut self, message: Waiting) {
        if let Kept::InSlot(landed) = message.kept {
            self.io.slots.release(landed);
        }
    }

    /// Two ranks that mean the same call, but not the same part between them.
    fn unequal(&self, peer: Rank, call: Call, Unequal { side, mine, theirs }: Unequal) -> Error {
        let (rank, signature) = (self.place().rank, call.signature);
        let sends = |bytes, to| format!("{signature} with {bytes} bytes for rank {to}");
        let awaits = |bytes, from| format!("{signature} with {bytes} bytes from rank {from}");
        let (mine, theirs) = match side {
            Side::Put => (sends(mine, peer), awaits(theirs, rank)),
            Side::Arrival => (awaits(mine, peer), sends(theirs, rank)),
        };
        Error::Disagreement { number: call.number.into(), rank, mine, peer, theirs }
    }

    fn disagreement(&self, channel: usize, theirs: Call, mine: String) -> Error {
        Error::Disagreement {
            number: theirs.number.into(),
            rank: self.place().rank,
            mine,
            peer: self.io.slots.rank_of(channel),
            theirs: theirs.signature.to_string(),
        }
    }
}

impl Calls {
    fn next(&mut self, communicator: u32, signature: Signature) -> Call {
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

fn in_slots(from: Source, to: Option<Source>) -> Path {
    let from = from.into_memory();
    Path::Slots { to: to.map_or_else(|| from.clone(), Source::into_memory), from }
}

fn awaited(landed: Option<std::result::Result<(), Unexpected>>, what: impl FnOnce() -> String) -> Result<()> {
    match landed {
        Some(Ok(())) => Ok(()),
        _ => Err(nonsense(format!("{}, which is not awaited", what()))),
    }
}

fn nonsense(what: String) -> Error {
    Error::transport("notice", format!("a peer sent {what}"), "are all ranks of one version and one job?")
}
