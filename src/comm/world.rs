//! What the communicators of a process share: the engine, and how the process leaves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::JOINING;
use super::attendant::{Attendant, Door};
use super::inside::{Inside, Room, after_a_panic};
use super::settings::Progress;
use crate::algorithm::groups::Groups;
use crate::boot::Exchange;
use crate::engine::crowd::Crowd;
use crate::engine::rest::Ask;
use crate::engine::{Engine, Handle, Operands, Source, Task, Waited};
use crate::error::{self, Result};
use crate::locality::layout::{Domains, Layout};
use crate::rank::Rank;
use crate::transport::Region;

/// The engine of this process, for one thread at a time.
pub struct World {
    engine: Arc<Room>,
    /// Who carries it on while no call does, where that is wanted.
    attendant: Option<Attendant>,
    /// Who wants it.
    crowd: Arc<Crowd>,
    /// Something is done, or nobody carries the engine on any more.
    changed: Condvar,
    /// How many numbers for new communicators this rank has reserved.
    next: AtomicU32,
    /// Windows that are known by the address of their first byte.
    raw_windows: Mutex<BTreeMap<usize, Region>>,
    /// Working memory that no call needs at the moment.
    spare: Mutex<Vec<Region>>,
    /// Which rank is on which node; none for ranks that are threads of one process.
    layout: Option<Layout>,
    hierarchy: Hierarchy,
    /// How to leave; none for ranks that are threads of one process.
    farewell: Option<Mutex<Farewell>>,
}

/// How calls go through nodes, as far as it is for the user to say; the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hierarchy {
    /// By domains, and by which; `None`: only where that is asked for by an algorithm's name.
    pub domains: Option<Domains>,
    /// So many leaders a node, at least 1.
    pub leaders: u32,
}

impl Default for Hierarchy {
    fn default() -> Self {
        Hierarchy { domains: None, leaders: 1 }
    }
}

/// What is to be done when the last communicator, window and request is dropped.
pub(super) struct Farewell {
    /// A last barrier, so that nobody leaves whom others still need.
    pub task: fn(&Engine) -> Result<Task>,
    /// The launcher, to be told.
    pub exchange: Box<dyn Exchange>,
}

impl World {
    /// With an attendant where `progress` is a thread's; fails where there is none to be had.
    pub(super) fn new(
        engine: Engine,
        layout: Option<Layout>,
        hierarchy: Hierarchy,
        progress: Progress,
        farewell: Option<Farewell>,
    ) -> Result<Arc<Self>> {
        let crowd = engine.crowd();
        let door = (progress == Progress::Thread).then(|| Arc::new(Door::new()));
        let engine = Arc::new(Room::new(engine, door.clone()));
        let attendant = door.map(|door| Attendant::begin(&engine, door)).transpose()?;
        Ok(Arc::new(World {
            crowd,
            engine,
            attendant,
            changed: Condvar::new(),
            next: AtomicU32::new(0),
            raw_windows: Mutex::default(),
            spare: Mutex::default(),
            layout,
            hierarchy,
            farewell: farewell.map(Mutex::new),
        }))
    }

    /// Whether calls that were started go on by themselves.
    pub(super) fn has_attendant(&self) -> bool {
        self.attendant.is_some()
    }

    /// Some ranks of the world by the nodes that they share, and their domains there.
    pub(super) fn groups(&self, ranks: &[Rank]) -> Groups {
        let Some(layout) = self.layout() else { return Groups::alone(ranks.len() as u32) };
        let domains = layout.domains(self.hierarchy.domains);
        let nodes = Groups::new(ranks.iter().map(|&rank| layout.node(rank)));
        let domain = |rank: Rank| domains[ranks[rank as usize] as usize];
        match self.hierarchy.domains {
            Some(Domains::Runs(_)) => nodes.with_sides(domain),
            _ => nodes.with_sides(|rank| layout.seat(ranks[rank as usize]).domain),
        }
        .with_domains(domain)
    }

    /// How calls go through nodes.
    pub(super) fn hierarchy(&self) -> Hierarchy {
        self.hierarchy
    }

    /// Which rank of the world is on which node, where they are processes.
    pub(super) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// A number for a new communicator that no other has, in case that this rank is its first; none where all are used up.
    /// Each rank has numbers of its own, so that communicators may be made by several threads, and by several groups, at
    /// the same time.
    pub(super) fn reserve_number(&self) -> Option<u32> {
        let place = self.engine().place();
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        let number = taken.checked_mul(place.size).and_then(|number| number.checked_add(place.rank + 1));
        let number = number.filter(|&number| number < JOINING);
        if number.is_none() {
            // It stays so.
            self.next.fetch_sub(1, Ordering::Relaxed);
        }
        number
    }

    /// As if so many numbers had been used.
    #[cfg(test)]
    pub(super) fn use_numbers(&self, taken: u32) {
        self.next.store(taken, Ordering::Relaxed);
    }

    /// The number that was reserved is not needed, if nobody has reserved one since.
    pub(super) fn return_number(&self, number: u32) {
        let taken = (number - 1) / self.engine().place().size;
        // It is lost where somebody has: there are enough.
        let _ = self.next.compare_exchange(taken + 1, taken, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A window may be named by its address from now on.
    pub(super) fn add_raw_window(&self, region: &Region) {
        let start = region.memory.address().as_ptr() as usize;
        self.raw_windows().insert(start, region.clone());
    }

    /// The window that begins at this address and has so many bytes or more.
    pub(super) fn raw_window(&self, start: usize, bytes: usize) -> Option<Region> {
        self.raw_windows().get(&start).filter(|region| region.memory.len() >= bytes).cloned()
    }

    /// A window is no more. Its registration ends under the engine's lock: a transport serves one thread at a time.
    pub(super) fn drop_raw_window(&self, start: usize) {
        // In a forked child a thread that is not there may have had the list.
        if self.engine.is_own() {
            let engine = self.engine_at_the_end();
            self.raw_windows().remove(&start);
            drop(engine);
        }
    }

    fn raw_windows(&self) -> MutexGuard<'_, BTreeMap<usize, Region>> {
        self.raw_windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registered memory of at least so many bytes, for the length of a call.
    pub(super) fn workspace(self: &Arc<Self>, bytes: usize) -> Result<Workspace> {
        if let Some(region) = self.spare_region(bytes) {
            return Ok(Workspace::new(region, self));
        }
        // A registration ends under the engine's lock: a transport serves one thread at a time. The list is locked only within
        // that lock, as operators that go with it may give a workspace back.
        let mut engine = self.engine();
        drop(self.surplus());
        let region = engine.workspace(roomy(bytes));
        drop(engine);
        Ok(Workspace::new(region?, self))
    }

    /// The smallest that is kept and has so many bytes.
    fn spare_region(&self, bytes: usize) -> Option<Region> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = (0..spare.len()).filter(|&i| spare[i].memory.len() >= bytes);
        let found = fitting.min_by_key(|&i| spare[i].memory.len())?;
        Some(spare.swap_remove(found))
    }

    /// The smallest of those that are kept, beyond as many as [may be](KEPT).
    fn surplus(&self) -> Vec<Region> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.sort_by_key(|region| std::cmp::Reverse(region.memory.len()));
        let kept = spare.len().min(KEPT);
        spare.split_off(kept)
    }

    /// The engine, which whoever waits in it leaves for a moment.
    pub(super) fn engine(&self) -> Inside<'_> {
        self.engine.enter(|lock| self.crowd.come(lock))
    }

    /// The engine, for what ends; none where that may end without it.
    pub(super) fn engine_at_the_end(&self) -> Option<Inside<'_>> {
        if self.engine.is_not_needed() { None } else { Some(self.engine()) }
    }

    /// Starts an operation, once `before` is made, which may be what it puts.
    pub(super) fn start(&self, handle: Handle, before: impl FnOnce()) -> Result<()> {
        self.engine().check_at_rest(handle)?;
        before();
        let mut engine = self.engine();
        let started = engine.start(handle);
        self.tell_others(&engine);
        started
    }

    /// Starts a prepared operation, once `before` is made, which may be what it puts, and waits until it is done.
    pub(super) fn run_again(
        &self,
        handle: Handle,
        operands: Operands<'_>,
        before: impl FnOnce(),
    ) -> Result<()> {
        let mut engine = self.engine();
        engine.check_at_rest(handle)?;
        before();
        if engine.start_again(handle, operands)? {
            return Ok(());
        }
        self.wait_in(engine, handle).1
    }

    /// Makes progress, and says whether an operation is done.
    pub(super) fn test(&self, handle: Handle) -> Result<bool> {
        let mut engine = self.engine();
        let done = engine.test(handle);
        self.tell_others(&engine);
        done
    }

    /// What others wait for may be done.
    fn tell_others(&self, engine: &Engine) {
        if engine.is_awaited_by_others() {
            self.changed.notify_all();
        }
    }

    /// Waits until an operation is done. Others are let in meanwhile, and one of them waits for all.
    pub(super) fn wait(&self, handle: Handle) -> Result<()> {
        self.wait_in(self.engine(), handle).1
    }

    /// Carries a task out, from beginning to end. See [`Engine::begin`].
    pub(super) fn run(&self, task: Task, ask: Option<Ask<'_>>) -> Result<()> {
        let mut engine = self.engine();
        let handle = engine.begin(task, ask)?;
        self.carry_out(engine, handle)
    }

    /// Waits until an operation is done, and lets go of it.
    pub(super) fn carry_out(&self, engine: Inside<'_>, handle: Handle) -> Result<()> {
        let (mut engine, done) = self.wait_in(engine, handle);
        engine.forget(handle);
        done
    }

    fn wait_in<'w>(&'w self, mut engine: Inside<'w>, handle: Handle) -> (Inside<'w>, Result<()>) {
        let mut waited = engine.wait(handle);
        loop {
            self.tell_others(&engine);
            match waited {
                Ok(Waited::Done) => return (engine, Ok(())),
                Err(error) => return (engine, Err(error)),
                Ok(Waited::LetIn) => {
                    drop(engine);
                    self.crowd.let_in();
                    std::thread::yield_now();
                    engine = self.engine();
                    waited = engine.wait_on(handle);
                }
                Ok(Waited::ForAnother) => {
                    engine = self.hear(engine);
                    waited = engine.wait(handle);
                }
            }
        }
    }

    /// Sleeps until the one that waits for all has news. Not for ever, as it may panic.
    fn hear<'w>(&self, engine: Inside<'w>) -> Inside<'w> {
        engine.step_out(|engine| match self.changed.wait_timeout(engine, NAP) {
            Ok((engine, _)) => engine,
            Err(poisoned) => after_a_panic(PoisonError::new(poisoned.into_inner().0)),
        })
    }
}

/// The longest time in which nobody looks whether the one that waits for all is still there.
const NAP: Duration = Duration::from_millis(100);

/// Bytes of a workspace, at least.
const LEAST: usize = 16 << 10;
/// From where on memory counts for more than that it is made seldom.
const LONG: usize = 64 << 20;
/// Workspaces that are kept for later calls.
const KEPT: usize = 2;

/// Registered memory for the length of a call.
pub(super) struct Workspace {
    pub region: Region,
    world: Arc<World>,
    abandoned: bool,
}

impl Workspace {
    fn new(region: Region, world: &Arc<World>) -> Self {
        Workspace { region, world: Arc::clone(world), abandoned: false }
    }

    /// The memory of a call.
    pub(super) fn source(&self) -> Source {
        Source::Registered(self.region.clone())
    }

    /// Leaves it to a call that still runs there, to be given back to the system when that is done. Under the
    /// engine's lock only.
    pub(super) fn abandon(mut self) {
        self.abandoned = true;
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // In a forked child a thread that is not there may have had the list.
        if self.abandoned || !self.world.engine.is_own() {
            return;
        }
        let mut spare = self.world.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(self.region.clone());
    }
}

impl World {
    /// Leaves in good order, as the last one that holds it, and tells what goes wrong then.
    pub(super) fn leave(mut self) -> Result<()> {
        self.bid_farewell()
    }

    /// Nobody but who calls this carries the engine on any more.
    fn dismiss_attendant(&mut self) {
        let Some(attendant) = self.attendant.take() else { return };
        match self.engine.is_own() {
            true => attendant.dismiss(|| drop(self.engine_at_the_end())),
            // A forked child has no such thread.
            false => std::mem::forget(attendant),
        }
    }

    fn bid_farewell(&mut self) -> Result<()> {
        self.dismiss_attendant();
        if !self.engine.is_own() {
            return Ok(());
        }
        let untold = self.engine().untold();
        let Some(farewell) = self.farewell.take() else { return untold };
        self.spare.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        let Farewell { task, mut exchange } = farewell.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut engine = self.engine();
        // What broke the engine before, a call has returned; it is not told twice.
        let last = if engine.is_broken() { Ok(()) } else { task(&engine).and_then(|task| engine.run(task)) };
        engine.leave();
        last.and_then(|()| exchange.finish()).and(untold)
    }
}

impl Drop for World {
    /// Leaves in good order, unless a panic is on its way: then the others hear that this rank is lost.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dismiss_attendant();
            return;
        }
        // A drop returns nothing; what goes wrong last is told where a user looks.
        if let Err(error) = self.bid_farewell() {
            error::tell(format!("finalize: {error}"));
        }
    }
}

/// So many bytes, and some more, so that a workspace serves longer calls, too: up to twice as many, or an eighth more of
/// what is long.
fn roomy(bytes: usize) -> usize {
    let most = bytes.checked_next_power_of_two().unwrap_or(bytes);
    if most <= LONG {
        return most.max(LEAST);
    }
    bytes.checked_next_multiple_of(most / 16).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_hardly_larger_than_what_it_is_for() {
        for bytes in [LONG + 1, (5 << 30) + 1, (1 << 40) + (1 << 30), isize::MAX as usize] {
            let room = roomy(bytes);
            assert!(room >= bytes && room <= bytes + bytes / 8, "{bytes}: {room}");
        }
        assert_eq!([0, LEAST + 1, LONG].map(roomy), [LEAST, 2 * LEAST, LONG]);
        assert_eq!(roomy((5 << 30) + 1), roomy((5 << 30) + 99));
    }
}
