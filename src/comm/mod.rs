//! What users hold: communicators, windows, and the collectives in three tenses.
//!
//! | tense | call | memory |
//! |---|---|---|
//! | at once | [`Communicator::broadcast`] | any slice (registered for the call), or a window |
//! | started | [`Communicator::start_broadcast`] | a window, handed over until the request is done |
//! | prepared | [`Communicator::prepare_broadcast`] | a window, handed over; started many times |
//!
//! Background calls take windows by value and not slices, because a request may be forgotten while
//! peers still put into its memory.

pub mod channels;
pub mod join;
pub mod meeting;
pub mod request;
pub mod settings;
pub mod window;
mod world;

use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;

use crate::algorithm::barrier::Dissemination;
use crate::algorithm::broadcast::Circulant;
use crate::algorithm::probe::PingPong;
use crate::collective::Collective;
use crate::engine::call::Signature;
use crate::engine::notice::MAX_BLOCKS;
use crate::engine::operation::Pace;
use crate::engine::vigil::{Limits, Vigil};
use crate::engine::{Engine, Source, Task};
use crate::error::{Error, Result};
use crate::plan::partition::Partition;
use crate::rank::{Place, Rank};
use crate::select::{self, Costs};
use crate::transport::loopback::Loopback;
use crate::transport::memory::Memory;
use crate::transport::{Region, Transport};
use channels::Banks;
use join::About;
use request::{Held, Prepared, Request};
use settings::Settings;
use window::Window;
use world::World;

/// A group of ranks that make the same collective calls in the same order.
pub struct Communicator {
    world: Arc<World>,
    place: Place,
    number: u32,
    costs: Costs,
    /// The most bytes of a block.
    max_put: u64,
    about: About,
}

/// How a broadcast is to be done. A rank alone is enough: `comm.broadcast(&mut data, 0)`.
///
/// ```
/// # use circulant::comm::Broadcast;
/// let from_three = Broadcast::from(3);
/// let in_twelve_blocks = Broadcast::from(3).blocks(12);
/// # assert_ne!(from_three, in_twelve_blocks);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    root: Rank,
    blocks: Option<u32>,
    elements: Option<usize>,
}

impl From<Rank> for Broadcast {
    fn from(root: Rank) -> Self {
        Broadcast { root, blocks: None, elements: None }
    }
}

impl Broadcast {
    /// Sets the number of blocks by hand (all ranks the same); otherwise it follows from the size, the
    /// number of ranks and what a put was measured to cost.
    pub fn blocks(self, blocks: u32) -> Self {
        Broadcast { blocks: Some(blocks), ..self }
    }

    /// Moves only the first `elements` elements of the window or slice (all ranks the same).
    pub fn elements(self, elements: usize) -> Self {
        Broadcast { elements: Some(elements), ..self }
    }
}

impl Communicator {
    /// All ranks of the job that this process was started in, by whatever launcher; alone without one.
    ///
    /// Settings come from the environment (see [`Settings`]). All ranks must call it. When the last
    /// communicator, window and request is dropped, the process waits for all others to come as far.
    ///
    /// # Errors
    /// Ranks that do not find each other, or are of different versions; no transport, with a line for
    /// each provider that was considered; a rank that dies meanwhile.
    pub fn world() -> Result<Communicator> {
        join::world(&Settings::from_environment()?)
    }

    /// [`world`](Self::world) with settings from elsewhere than the environment.
    pub fn world_with(settings: &Settings) -> Result<Communicator> {
        join::world(settings)
    }

    /// `p` communicators of `p` ranks in this process, for tests and trials: give each to a thread of
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
    pub fn of_transports(mut transports: Vec<Box<dyn Transport>>) -> Result<Vec<Communicator>> {
        let p = transports.len() as u32;
        let of = |rank| Place { rank, size: p };
        let banks =
            (0..p).zip(&mut transports).map(|(rank, transport)| Banks::new(&mut **transport, of(rank)));
        let banks = banks.collect::<Result<Vec<_>>>()?;
        let inboxes: Vec<_> = banks.iter().map(Banks::inboxes).collect();
        let slots = (0..p).zip(banks).map(|(rank, banks)| banks.connect(of(rank), &inboxes));
        let slots = slots.collect::<Result<Vec<_>>>()?;
        let limits = Limits { tell: None, end: None };
        let vigil = || Vigil::new(None, Arc::default(), limits);
        let engine = |(transport, slots)| Engine::new(transport, slots, vigil(), 2.0);
        let engines = transports.into_iter().zip(slots).map(engine);
        let communicator =
            |(rank, engine)| Communicator::new(World::new(engine, None), Place { rank, size: p });
        Ok((0..p).zip(engines).map(communicator).collect())
    }

    fn new(world: Arc<World>, place: Place) -> Self {
        let max_put = world.engine().limits().max_put as u64;
        Communicator {
            world,
            place,
            number: WORLD,
            costs: Costs::default(),
            max_put,
            about: About::default(),
        }
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

    /// What a put was measured to cost, which is what the number of blocks follows from.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// How a broadcast of `bytes` bytes is cut where the number of blocks is not set by hand.
    pub fn partition(&self, bytes: u64) -> Partition {
        select::broadcast(bytes, self.size(), &self.costs, self.max_put, None)
    }

    /// A window of `len` zeroed elements. Local: no other rank need do the same.
    pub fn window<T: Pod>(&self, len: usize) -> Result<Window<T>> {
        Window::new(Arc::clone(&self.world), len)
    }

    /// Waits until all ranks have called it. `⌈log₂ p⌉` rounds.
    pub fn barrier(&self) -> Result<()> {
        self.world.engine().run(barrier_task(self.place, Collective::Barrier)?)
    }

    /// Sends the root's elements to all ranks, and returns when this rank's part is done.
    ///
    /// `data` has the same length on all ranks. `n - 1 + ⌈log₂ p⌉` rounds for n blocks; beside the
    /// buffer it takes O(log p) time and memory to set up. Small messages (see [`select::SMALL`]) go through slots; for
    /// larger ones the slice is registered for the call, which a [`Window`] saves.
    ///
    /// # Errors
    /// A root that is not a rank (nothing is sent then); ranks that do not agree on root, length or
    /// call; a rank that is lost. After any but the first the communicator is of no more use.
    pub fn broadcast<T: Pod>(&self, data: &mut [T], how: impl Into<Broadcast>) -> Result<()> {
        let how = how.into();
        let bytes = self.bytes_of(&how, data)?;
        let start = NonNull::from(&mut *data).cast::<u8>();
        // SAFETY: - the bytes are `data`'s, which is borrowed mutably until this function returns
        //         - when it returns, however that happens, `lent` sees to it that nobody else has them
        let lent = Lent { memory: unsafe { Memory::lend(start, bytes) }, world: &self.world };
        let held = self.broadcast_of(&how, bytes, lent.memory.clone(), None, false)?;
        held.start()?;
        held.wait()
    }

    /// [`broadcast`](Self::broadcast) of a window's elements: nothing is registered for the call.
    pub fn broadcast_window<T: Pod>(&self, window: &mut Window<T>, how: impl Into<Broadcast>) -> Result<()> {
        let held = self.broadcast_in(window, how.into(), false)?;
        held.start()?;
        held.wait()
    }

    /// Starts a [`broadcast`](Self::broadcast) that goes on in this process's calls; the request gives
    /// the window back. Requests may be waited for in any order.
    pub fn start_broadcast<T: Pod>(
        &self,
        window: Window<T>,
        how: impl Into<Broadcast>,
    ) -> Result<Request<T>> {
        let held = self.broadcast_in(&window, how.into(), false)?;
        held.start()?;
        Ok(Request::new(window, held))
    }

    /// Prepares a [`broadcast`](Self::broadcast) that is then started many times, without a word about
    /// memory at any start but the first.
    pub fn prepare_broadcast<T: Pod>(
        &self,
        window: Window<T>,
        how: impl Into<Broadcast>,
    ) -> Result<Prepared<T>> {
        let held = self.broadcast_in(&window, how.into(), true)?;
        Ok(Prepared::new(window, held))
    }

    fn broadcast_in<T: Pod>(&self, window: &Window<T>, how: Broadcast, prepared: bool) -> Result<Held> {
        if !window.is_of(&self.world) {
            let what = "a window of another communicator's ranks".to_owned();
            return Err(Error::argument("broadcast", what, "take one from this communicator's `window`"));
        }
        let bytes = self.bytes_of(&how, window)?;
        self.broadcast_of(&how, bytes, window.memory(), window.region(), prepared)
    }

    /// The bytes to move, where the arguments fit.
    fn bytes_of<T: Pod>(&self, how: &Broadcast, data: &[T]) -> Result<usize> {
        let bad = |what: String, cure: String| Err(Error::argument("broadcast", what, cure));
        let size = self.size();
        if how.root >= size {
            return bad(
                format!("root {} of a communicator of {size} ranks", how.root),
                format!("take a root from 0 to {}", size - 1),
            );
        }
        if how.blocks.is_some_and(|blocks| blocks == 0 || blocks > MAX_BLOCKS) {
            return bad(format!("{} blocks", how.blocks.unwrap_or(0)), format!("take 1 to {}", MAX_BLOCKS));
        }
        match how.elements {
            Some(wanted) if wanted > data.len() => bad(
                format!("{wanted} elements of a window of {}", data.len()),
                format!("make the window larger, or move {} elements at most", data.len()),
            ),
            wanted => Ok(wanted.unwrap_or(data.len()) * size_of::<T>()),
        }
    }

    fn broadcast_of(
        &self,
        how: &Broadcast,
        bytes: usize,
        memory: Memory,
        region: Option<Region>,
        prepared: bool,
    ) -> Result<Held> {
        let partition = select::broadcast(bytes as u64, self.size(), &self.costs, self.max_put, how.blocks);
        if partition.range(0).end > self.max_put {
            let what =
                format!("blocks of {} bytes, where a put takes {}", partition.range(0).end, self.max_put);
            return Err(Error::argument("broadcast", what, "take more blocks"));
        }
        let source = match region {
            Some(region) => Source::Registered(region),
            None => Source::Unregistered(memory),
        };
        let blocks = partition.blocks();
        let signature = Signature {
            root: how.root,
            bytes: bytes as u64,
            blocks,
            prepared,
            ..Signature::bare(Collective::Broadcast)
        };
        let plan = Box::new(Circulant::new(self.place, how.root, blocks));
        let pace = select::pace(&partition, &self.costs);
        self.prepare(Task {
            communicator: self.number,
            group: None,
            signature,
            plan,
            layout: Box::new(partition),
            pace,
            piece: 0,
            fold: None,
            small: select::is_small(&partition),
            from: source,
            to: None,
        })
    }

    /// A ping-pong of `bytes` bytes between ranks 0 and 1.
    fn probe(&self, window: &Window<u8>, bytes: usize) -> Result<()> {
        let Some(region) = window.region() else { return Ok(()) };
        let signature = Signature { bytes: bytes as u64, blocks: 1, ..Signature::bare(Collective::Probe) };
        self.world.engine().run(Task {
            communicator: self.number,
            signature,
            group: None,
            plan: Box::new(PingPong(self.place)),
            layout: Box::new(Partition::even(bytes as u64, 1)),
            pace: Pace { in_flight: 1, lookahead: 1 },
            piece: 0,
            fold: None,
            small: false,
            from: Source::Registered(region),
            to: None,
        })
    }

    fn prepare(&self, task: Task) -> Result<Held> {
        let handle = self.world.engine().prepare(task)?;
        Ok(Held::new(&self.world, handle))
    }
}

/// The number of the communicator of all ranks.
const WORLD: u32 = 0;

/// A barrier, or the last one of all.
fn barrier_task(place: Place, collective: Collective) -> Result<Task> {
    Ok(Task {
        communicator: WORLD,
        group: None,
        signature: Signature::bare(collective),
        plan: Box::new(Dissemination::new(place)),
        layout: Box::new(Partition::even(0, 1)),
        pace: Pace { in_flight: 1, lookahead: 1 },
        piece: 0,
        fold: None,
        small: true,
        from: Source::Unregistered(Memory::zeroed(0)?),
        to: None,
    })
}

/// A caller's slice while a call has it. However the call ends, nobody else has it afterwards.
struct Lent<'w> {
    memory: Memory,
    world: &'w World,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.memory.holders() > 1 {
            let error = Error::transport("broadcast", "a call was cut off by a panic", "see its message");
            self.world.engine().shut_down(error);
        }
    }
}

#[cfg(test)]
mod tests;
