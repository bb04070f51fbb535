//! What users hold: communicators, windows, and the collectives in three tenses.
//!
//! | tense | call | memory |
//! |---|---|---|
//! | at once | [`Communicator::run`], or by name as [`Communicator::allreduce`] | any slice (registered for the call), or a window |
//! | started | [`Communicator::start`] | a window, handed over until the request is done |
//! | prepared | [`Communicator::prepare`] | a window, handed over; started many times |
//!
//! What is to be done is said by a [`Call`], the same for all tenses. Background calls take windows by value
//! and not slices, because a request may be forgotten while peers still put into its memory.

mod attendant;
mod by_name;
pub mod call;
pub mod carrier;
pub mod channels;
mod execute;
mod group;
mod inside;
pub mod join;
mod lent;
pub mod meeting;
pub mod raw;
pub mod request;
pub mod settings;
pub mod sides;
pub mod wanted;
pub mod window;
mod work;
mod world;

use std::borrow::Cow;
use std::sync::Arc;

use crate::algorithm::barrier::Dissemination;
use crate::algorithm::groups::Groups;
use crate::algorithm::{self, Entry, Shape};
use crate::boot::Exchange;
use crate::collective::Collective;
use crate::engine::call::Signature;
pub use crate::engine::notice::MAX_OPERATIONS;
use crate::engine::operation::Pace;
use crate::engine::rest::Ask;
use crate::engine::vigil::Vigil;
use crate::engine::{Engine, Operands, Source, Task};
use crate::error::{Error, Result};
use crate::fold::element::Element;
use crate::lifeline::kin::Kin;
use crate::lifeline::status::Status;
use crate::locality::layout::Layout;
use crate::plan::partition::Partition;
use crate::rank::{Place, Rank};
use crate::schedule::Graph;
use crate::select::{self, Costs};
use crate::transport::Transport;
use crate::transport::loopback::Loopback;
use crate::transport::memory::Memory;
use call::RawCall;
pub use call::{AsCall, Call};
use channels::Banks;
use join::About;
use lent::Lent;
use meeting::Meeting;
use request::{Prepared, Request};
use settings::{Progress, Settings};
use window::Window;
use work::Ends;
use world::{Hierarchy, World};

/// A group of ranks that make the same collective calls in the same order.
pub struct Communicator {
    world: Arc<World>,
    place: Place,
    number: u32,
    /// The rank in the world of each rank; `None` where they are the same.
    group: Option<Arc<[Rank]>>,
    graph: Arc<Graph>,
    /// Which of its ranks share a node.
    groups: Arc<Groups>,
    hierarchy: Hierarchy,
    /// Whether all pairs of ranks of the world have wide channels.
    all_wide: bool,
    costs: Costs,
    /// The same of communicators whose ranks are on one node, where only these share memory.
    costs_within: Option<Costs>,
    /// The most bytes of a put.
    max_put: u64,
    about: About,
}

/// An algorithm that a call would take, for people to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Its name in the catalogue.
    pub algorithm: &'static str,
    /// Into how many blocks it cuts the vector, or each part.
    pub blocks: u32,
}

impl Communicator {
    /// All ranks of the job that this process was started in, by whatever launcher; alone without one.
    ///
    /// Settings come from the environment (see [`Settings`]). All ranks must call it. When the last
    /// communicator, window and request is dropped, the process waits for all others to come as far.
    /// By PMI-1 or PMIx a process joins once; take other worlds by [`world_by`](Self::world_by).
    ///
    /// # Errors
    /// A second world of one launcher; ranks that do not find each other, or are of different versions; no
    /// transport, with a line for each provider that was considered; a rank that dies meanwhile, or a wait
    /// beyond the settings' limit.
    pub fn world() -> Result<Communicator> {
        Self::world_with(&Settings::from_environment()?)
    }

    /// [`world`](Self::world) with settings from elsewhere than the environment.
    pub fn world_with(settings: &Settings) -> Result<Communicator> {
        join::world(Meeting::attend(settings)?, settings)
    }

    /// [`world`](Self::world) by an exchange of the caller's: an allgather that it has
    /// ([`Callback`](crate::boot::callback::Callback)), an id that
    /// it has passed on ([`UniqueId`](crate::boot::UniqueId)).
    /// No variable of a launcher is read.
    ///
    /// # Errors
    /// As [`world`](Self::world), and those of the exchange.
    pub fn world_by(exchange: Box<dyn Exchange>, settings: &Settings) -> Result<Communicator> {
        join::world(Meeting::by(exchange, settings)?, settings)
    }

    /// `p` communicators of `p` ranks in this process, for tests and trials, where an error of one is heard by all, and the
    /// end of one that just goes by nobody: give each to a thread of
    /// its own. `seed` sets the order in which what they put arrives.
    ///
    /// ```
    /// # use circulant::comm::Communicator;
    /// # fn main() -> circulant::error::Result<()> {
    /// std::thread::scope(|threads| {
    ///     for comm in Communicator::loopback(5, 42)? {
    ///         threads.spawn(move || {
    ///             let mut data = if comm.rank() == 2 { [7; 1000] } else { [0; 1000] };
    ///             comm.broadcast(&mut data, 2).unwrap();
    ///             assert_eq!(data, [7; 1000]);
    ///         });
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn loopback(p: u32, seed: u64) -> Result<Vec<Communicator>> {
        let ends = Loopback::world(p, seed)?;
        Self::of_transports(ends.into_iter().map(|end| Box::new(end) as Box<dyn Transport>).collect())
    }

    /// The same over any transports that are connected with one another, in rank order.
    pub fn of_transports(transports: Vec<Box<dyn Transport>>) -> Result<Vec<Communicator>> {
        Self::among(transports, Progress::Calls)
    }

    fn among(mut transports: Vec<Box<dyn Transport>>, progress: Progress) -> Result<Vec<Communicator>> {
        let p = transports.len() as u32;
        let banks = transports.iter_mut().map(|transport| Banks::new(&mut **transport));
        let banks = banks.collect::<Result<Vec<_>>>()?;
        let inboxes: Vec<_> = banks.iter().map(Banks::inboxes).collect();
        let slots =
            transports.iter().zip(banks).map(|(transport, banks)| banks.connect(&**transport, &inboxes));
        let slots = slots.collect::<Result<Vec<_>>>()?;
        let engine = |((transport, slots), kin)| Engine::new(transport, slots, Vigil::among(kin), 2.0);
        let max_put =
            transports.iter().map(|transport| transport.limits().max_put).min().unwrap_or(usize::MAX);
        let mut engines =
            transports.into_iter().zip(slots).zip(Kin::world(p)?).map(engine).collect::<Result<Vec<_>>>()?;
        engines.iter_mut().for_each(|engine| engine.limit_puts(max_put));
        let communicator = |(rank, engine)| {
            let world = World::new(engine, None, Hierarchy::default(), progress, None)?;
            Ok(Communicator::new(world, Place { rank, size: p }))
        };
        (0..p).zip(engines).map(communicator).collect()
    }

    fn new(world: Arc<World>, place: Place) -> Self {
        let max_put = world.engine().max_put() as u64;
        let ranks: Vec<_> = (0..place.size).collect();
        let (groups, hierarchy) = (Arc::new(world.groups(&ranks)), world.hierarchy());
        Communicator {
            world,
            place,
            number: WORLD,
            group: None,
            graph: Arc::new(Graph::new(place.size)),
            groups,
            hierarchy,
            all_wide: channels::all_wide(place.size),
            costs: Costs::default(),
            costs_within: None,
            max_put,
            about: About::default(),
        }
    }

    /// Has `meanwhile` called by the threads of this process that wait in calls, again and again while nothing happens:
    /// for a library beside this one that others may wait for, and that has no thread of its own. Where each rank has a
    /// core to itself that is at every few looks after some microseconds, and it does not sleep; else some thousand times
    /// a second. It must not make calls here; a panic of it is an error of the call that waits.
    pub fn while_waiting(&self, meanwhile: fn()) {
        self.world.engine().while_waiting(meanwhile);
    }

    /// What others are told of this rank when they wait for it, for a library beside this one to add to.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(self.world.engine().status())
    }

    /// Whether calls that were started go on while the program computes, by a thread of their own
    /// ([`Progress::Thread`]).
    pub fn has_progress_thread(&self) -> bool {
        self.world.has_attendant()
    }

    /// How many calls may be started or prepared beside those that are, of [`MAX_OPERATIONS`] in this world.
    pub fn vacancies(&self) -> usize {
        self.world.engine().vacancies()
    }

    /// This process's rank, `0 <= rank < size`.
    pub fn rank(&self) -> Rank {
        self.place.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.place.size
    }

    /// The transport's name and version.
    pub fn transport(&self) -> String {
        self.world.engine().transport()
    }

    /// What boot found out.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Which rank *of the world* is on which node; `None` for ranks that are threads of one process, each of
    /// which is to be taken for a node of its own.
    pub fn layout(&self) -> Option<&Layout> {
        self.world.layout()
    }

    /// Which of its ranks share a node; ranks that are threads of one process are each on their own.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// How many leaders the largest node has, where an algorithm lets it have several.
    pub fn leaders(&self) -> u32 {
        self.hierarchy.leaders.min(self.groups.largest())
    }

    /// What a put was measured to cost, or is said to ([`Settings::costs`](settings::Settings::costs)): algorithms and numbers of
    /// blocks follow from it.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// The algorithm and the number of blocks that a call on a buffer of `len` elements takes; fails where
    /// the call would.
    pub fn choice<T: Element>(&self, call: &Call<T>, len: usize) -> Result<Choice> {
        let decision = self.decide(&call.raw, call.raw.elements_of(len, self.place)?)?;
        Ok(Choice { algorithm: decision.entry.name, blocks: decision.blocks })
    }

    /// The [choice](Self::choice) of a call that is started or prepared.
    pub fn choice_in_background<T: Element>(&self, call: &Call<T>, len: usize) -> Result<Choice> {
        let elements = call.raw.elements_of(len, self.place)?;
        let decision = self.decide_in_background(&call.raw, elements)?;
        Ok(Choice { algorithm: decision.entry.name, blocks: decision.blocks })
    }

    /// The [choice](Self::choice) of a call by name that keeps its input: of its first segment, where it is longer than the
    /// [workspace](sides::WORKSPACE).
    pub fn choice_by_name<T: Element>(&self, call: &Call<T>, len: usize) -> Result<Choice> {
        use Collective::{Gather, Gatherv, Reduce, ReduceScatter, ReduceScatterBlock, Scatter, Scatterv};
        let collective = call.raw.collective;
        // Each part is cut by itself.
        let parts = match collective {
            Reduce => 1,
            ReduceScatter | ReduceScatterBlock | Scatter | Scatterv | Gather | Gatherv => {
                self.size() as usize
            }
            _ => return self.choice(call, len),
        };
        let segments = sides::segments(collective, len.saturating_mul(size_of::<T>()));
        match len % parts {
            0 => self.choice(call, (len / parts).div_ceil(segments) * parts),
            _ => self.choice(call, len),
        }
    }

    /// A window of `len` zeroed elements. Local: no other rank need do the same.
    ///
    /// # Errors
    /// Elements that exceed all memory, or want more alignment than a page has; memory that cannot be had or registered.
    pub fn window<T: Element>(&self, len: usize) -> Result<Window<T>> {
        Window::new(Arc::clone(&self.world), len)
    }

    /// Waits until all ranks have called it. `⌈log₂ p⌉` rounds; twice as many, with fewer messages in all, where many ranks
    /// share cores; where they share nodes, `⌈log₂ g⌉` among the g nodes, and twice as many as the largest one needs
    /// within it.
    pub fn barrier(&self) -> Result<()> {
        self.barrier_as(None)
    }

    /// A [`barrier`](Self::barrier) by the algorithm of that name, which all ranks must give.
    ///
    /// # Errors
    /// The catalogue has no such barrier, or it does not serve these ranks; or they name different ones.
    pub fn barrier_by(&self, algorithm: &str) -> Result<()> {
        self.barrier_as(Some(algorithm))
    }

    fn barrier_as(&self, algorithm: Option<&str>) -> Result<()> {
        let ask = Ask {
            communicator: self.number,
            collective: Collective::Barrier,
            root: 0,
            elements: 0,
            counts: None,
            unit: 0,
            fold: None,
            commutes: true,
            apart: false,
            algorithm: algorithm.map(Cow::Borrowed),
            blocks: None,
        };
        let mut engine = self.world.engine();
        if let Some(made) = engine.recall(&ask) {
            let nothing = Source::Unregistered(Memory::nothing());
            let operands = Operands { from: &nothing, to: None, fold: None };
            return match engine.begin_again(made, operands, None)? {
                Some(handle) => self.world.carry_out(engine, handle),
                None => Ok(()),
            };
        }
        let handle = engine.begin(self.barrier_task(algorithm)?, Some(ask))?;
        self.world.carry_out(engine, handle)
    }

    fn barrier_task(&self, algorithm: Option<&str>) -> Result<Task> {
        let entry = self.barrier_entry(algorithm)?;
        let plan = entry.plan(&self.shape(0, 1, None));
        let task = barrier_task(self.place, self.number, self.group.clone(), Collective::Barrier);
        // As `select` has it of calls that move something.
        let pace = Pace { soon: !self.groups.is_nested(), ..task.pace };
        let signature = Signature { algorithm: entry.number(), ..task.signature };
        Ok(Task { plan, pace, signature, ..task })
    }

    /// By leaders short messages must reach every rank.
    fn barrier_entry(&self, algorithm: Option<&str>) -> Result<&'static Entry> {
        let nested = self.all_wide && self.groups.is_nested();
        let name = algorithm.unwrap_or_else(|| select::barrier(nested, self.are_apart(), &self.costs));
        let entries = || self.algorithms(Collective::Barrier).filter(|e| self.all_wide || !e.is_nested());
        entries().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<_> = entries().map(|entry| entry.name).collect();
            let what = format!("no algorithm `{name}` for these ranks");
            Error::argument("barrier", what, format!("take one of: {}", names.join(", ")))
        })
    }

    /// Whether no two ranks share a node.
    pub(super) fn are_apart(&self) -> bool {
        self.groups.count() == self.size()
    }

    /// The algorithm that a barrier takes: the one that is asked for, or else the library's choice.
    pub fn barrier_choice(&self, algorithm: Option<&str>) -> Result<Choice> {
        Ok(Choice { algorithm: self.barrier_entry(algorithm)?.name, blocks: 1 })
    }

    /// The algorithms of a collective that there are for so many ranks, on the nodes that they are on.
    pub fn algorithms(&self, collective: Collective) -> impl Iterator<Item = &'static Entry> {
        let p = self.size();
        algorithm::of(collective).filter(move |entry| entry.fits(p) && entry.suits(&self.groups))
    }

    fn shape(&self, root: Rank, blocks: u32, present: Option<Arc<[Rank]>>) -> Shape {
        let (graph, groups) = (Arc::clone(&self.graph), Arc::clone(&self.groups));
        Shape { place: self.place, root, blocks, graph, present, groups, chunk: 1, leaders: 1 }
    }

    /// Makes a call at once, in place: returns when this rank's part is done.
    ///
    /// Time and rounds are those of the algorithm (`circulant plan --list`). Short messages (of
    /// [`select::SMALL`] bytes; on slow networks, and where all ranks share memory, twice as many)
    /// go through slots; for longer ones the slice is registered for the call, which a
    /// [`Window`] saves. Beside the buffer it takes at most
    /// [`select::STAGING`] bytes, and in shared memory some MiB more, for what is folded or packed (and as much again where
    /// packs are sent), whatever the size.
    ///
    /// Sums are the same bit for bit in every run with the same ranks, counts, algorithm and blocks, and an
    /// allreduce's are the same on all ranks: what arrives is folded in the order of the plan's rounds. Only
    /// the sign and payload of a sum or product that is a NaN are the processor's choice.
    ///
    /// # Errors
    /// Arguments that do not fit this rank's buffer or communicator (nothing is sent then); ranks that do not
    /// agree on the call; an operator that fails or panics on any rank (all ranks hear of it); a rank that is
    /// lost; a wait beyond [`Settings`]' limit. After any but the first the world is of no more use, with all its communicators. Also
    /// bytes that have come and are no value of the type, which are zeroed, and break nothing else.
    pub fn run<T: Element>(&self, data: &mut [T], call: impl AsCall<T>) -> Result<()> {
        let call = &call.as_call().raw;
        let elements = call.elements_of(data.len(), self.place)?;
        let lent = Lent::new(&mut data[..elements], &self.world);
        let done = self.at_once(call, elements, lent.source());
        let checked = lent.check::<T>();
        done?;
        checked
    }

    /// [`run`](Self::run) on a window's elements: nothing is registered for the call.
    ///
    /// Peers on this node may read them where they lie; then this rank waits until they have. Vectors of up to 4 KiB, and longer
    /// ones that were written anew, mostly travel in slots, and it need not.
    pub fn run_window<T: Element>(&self, window: &mut Window<T>, call: impl AsCall<T>) -> Result<()> {
        let call = &call.as_call().raw;
        let elements = self.check_window(call, window)?;
        let done = self.at_once(call, elements, window.source());
        done.and(window.check())
    }

    /// Starts a call that goes on in this process's calls; the request gives the window back. Requests may
    /// be waited for in any order. See [`run`](Self::run); with any error the window is given up.
    pub fn start<T: Element>(&self, window: Window<T>, call: impl AsCall<T>) -> Result<Request<T>> {
        let call = &call.as_call().raw;
        let elements = self.check_window(call, &window)?;
        let ends = Ends::one(Cow::Borrowed(window.source()));
        let held = self.in_background(call, elements, ends, false)?;
        held.start()?;
        Ok(Request::new(window, held))
    }

    /// Prepares a call that is then started many times, without a word about memory at any start but the
    /// first. See [`run`](Self::run); with any error the window is given up.
    pub fn prepare<T: Element>(&self, window: Window<T>, call: impl AsCall<T>) -> Result<Prepared<T>> {
        let call = &call.as_call().raw;
        let elements = self.check_window(call, &window)?;
        let ends = Ends::one(Cow::Borrowed(window.source()));
        let held = self.in_background(call, elements, ends, true)?;
        Ok(Prepared::new(window, held))
    }

    fn check_window<T: Element>(&self, call: &RawCall, window: &Window<T>) -> Result<usize> {
        if !window.is_of(&self.world) {
            let what = "a window of another communicator's ranks";
            return Err(call.bad(what, "take one from this communicator's `window`"));
        }
        call.elements_of(window.len(), self.place)
    }
}

/// The number of the communicator of all ranks.
const WORLD: u32 = 0;
/// What it is called while ranks join, so that the calls of that are not counted among the user's.
const JOINING: u32 = u32::MAX;

/// A barrier, or the last one of all.
fn barrier_task(place: Place, communicator: u32, group: Option<Arc<[Rank]>>, collective: Collective) -> Task {
    Task {
        communicator,
        group,
        signature: Signature::bare(collective),
        plan: Box::new(Dissemination::new(place)),
        layout: Box::new(Partition::even(0, 1)),
        pace: Pace { in_flight: 1, lookahead: 1, turns: None, welcome: None, ahead: 0, soon: true },
        piece: 0,
        longest: usize::MAX,
        fold: None,
        small: true,
        from: Source::Unregistered(Memory::nothing()),
        to: None,
        touched: 0,
    }
}

#[cfg(test)]
mod again_tests;
#[cfg(test)]
mod attendant_tests;
#[cfg(test)]
mod collective_tests;
#[cfg(test)]
mod raw_tests;
#[cfg(test)]
mod tests;
