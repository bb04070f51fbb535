//! Calls in the background: started once, or prepared and started many times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::window::Window;
use super::world::{Workspace, World};
use crate::engine::{Handle, Operands, Source, Task};
use crate::error::Result;
use crate::fold::AnyFold;
use crate::fold::element::Element;
use crate::transport::Gait;
use crate::transport::memory::Memory;

/// An operation of the engine that somebody holds; the engine may let go of it when nobody does.
pub(super) struct Held {
    handle: Handle,
    world: Arc<World>,
    /// Copied at every start.
    before: Vec<Move>,
    /// Copied when a start is done.
    after: Vec<Move>,
    /// Whether that is still to be.
    due: AtomicBool,
    /// What it works in, if not in its caller's memory: others get it when this is dropped.
    workspaces: Vec<Workspace>,
    /// What it works on, where it is prepared.
    operands: Option<Own>,
}

/// What a prepared call works on: engine's [`Operands`], held.
struct Own {
    from: Source,
    to: Option<Source>,
    fold: Option<AnyFold>,
}

/// Bytes to be copied.
pub(super) struct Move {
    pub source: Memory,
    pub from: usize,
    pub target: Memory,
    pub to: usize,
    pub len: usize,
    /// How they are copied.
    pub gait: Gait,
}

impl Move {
    /// `len` bytes.
    pub(super) fn part(target: &Source, to: usize, source: &Source, from: usize, len: usize) -> Self {
        let (source, target) = (source.memory().clone(), target.memory().clone());
        Move { source, from, target, to, len, gait: Gait::Straight }
    }

    /// Copies them.
    pub(super) fn make(&self) {
        self.target.copy_in(self.gait, self.to, &self.source, self.from, self.len);
    }
}

impl Held {
    pub(super) fn new(world: &Arc<World>, task: Task, own: Option<Move>) -> Result<Self> {
        let own_ones = || Own { from: task.from.clone(), to: task.to.clone(), fold: task.fold.clone() };
        let operands = task.signature.prepared.then(own_ones);
        let handle = world.engine().prepare(task)?;
        let before = own.into_iter().collect();
        let (world, due) = (Arc::clone(world), AtomicBool::new(false));
        Ok(Held { handle, world, before, after: Vec::new(), due, workspaces: Vec::new(), operands })
    }

    /// With copies before what it copies already, and after what it copies when it is done; and with what it works in,
    /// which is its own as long as it runs.
    pub(super) fn with(mut self, before: Vec<Move>, after: Vec<Move>, workspace: Option<Workspace>) -> Self {
        self.before.splice(..0, before);
        self.after.extend(after);
        self.workspaces.extend(workspace);
        self
    }

    /// What nobody has waited for lands first, if it is done; else it is still running, which is an error.
    pub(super) fn start(&self) -> Result<()> {
        if self.due.load(Ordering::Relaxed) {
            self.world.engine().check_at_rest(self.handle)?;
            self.land();
        }
        self.world.start(self.handle, || {
            self.before.iter().for_each(Move::make);
            self.due.store(true, Ordering::Relaxed);
        })
    }

    /// Starts it and waits until it is done.
    fn run(&self) -> Result<()> {
        let Some(Own { from, to, fold }) = &self.operands else {
            return self.start().and_then(|()| self.wait());
        };
        let operands = Operands { from, to: to.as_ref(), fold: fold.as_ref() };
        self.wait_if_due()?;
        self.world.run_again(self.handle, operands, || self.before.iter().for_each(Move::make))?;
        self.after.iter().for_each(Move::make);
        Ok(())
    }

    /// Waits for a start that nobody has waited for.
    fn wait_if_due(&self) -> Result<()> {
        if self.due.load(Ordering::Relaxed) { self.wait() } else { Ok(()) }
    }

    pub(super) fn wait(&self) -> Result<()> {
        self.world.wait(self.handle)?;
        self.land();
        Ok(())
    }

    pub(super) fn test(&self) -> Result<bool> {
        let done = self.world.test(self.handle)?;
        if done {
            self.land();
        }
        Ok(done)
    }

    /// Waits, as its memory is somebody else's; not where that is [not needed](World::engine_at_the_end). An error has ended all
    /// traffic, so that nobody has the memory; it is told by the next call, or who leaves.
    pub(super) fn wait_at_the_end(&self) {
        if let Some(engine) = self.world.engine_at_the_end() {
            let is_untold = !engine.is_broken() || engine.is_untold();
            drop(engine);
            if self.wait().is_err() && is_untold {
                self.world.engine().leave_untold();
            }
        }
    }

    fn land(&self) {
        if self.due.swap(false, Ordering::Relaxed) {
            self.after.iter().for_each(Move::make);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Held { world, handle, due, workspaces, operands, .. } = self;
        // It goes after the lock, as what the user has put into it may need that.
        let _operator = operands.as_mut().and_then(|operands| operands.fold.take());
        let Some(mut engine) = world.engine_at_the_end() else { return };
        engine.forget(*handle);
        // Perhaps the last that has a registration, which ends under the engine's lock.
        *operands = None;
        if due.load(Ordering::Relaxed) {
            // It may run on: nobody else is to work there, and registrations end under the engine's lock.
            workspaces.drain(..).for_each(Workspace::abandon);
        }
    }
}

/// A call that has been started. It makes progress in this process's calls, and by itself
/// with [`Progress::Thread`](super::settings::Progress::Thread).
///
/// To drop it does no harm: the call goes on, and its window is given back to the system when it is
/// done.
#[must_use = "a request gives its window back when it is waited for"]
pub struct Request<T: Element> {
    window: Window<T>,
    held: Held,
}

impl<T: Element> Request<T> {
    pub(super) fn new(window: Window<T>, held: Held) -> Self {
        Request { window, held }
    }

    /// Makes progress, and says whether the call is done. Never waits.
    pub fn test(&mut self) -> Result<bool> {
        self.held.test()
    }

    /// Waits until the call is done, and gives the window back.
    ///
    /// # Errors
    /// As [`Communicator::run`](super::Communicator::run); then the window is given up.
    pub fn wait(self) -> Result<Window<T>> {
        self.held.wait()?;
        self.window.check()?;
        Ok(self.window)
    }
}

/// A call that is prepared: its memory is registered, and at the first start its neighbours learn where
/// it is. Later starts tell them that it is ready, and no more.
///
/// All ranks of the communicator prepare it, and start it equally often. Dropped while it runs, it
/// runs to its end, like a [`Request`].
pub struct Prepared<T: Element> {
    window: Window<T>,
    held: Held,
}

impl<T: Element> Prepared<T> {
    pub(super) fn new(window: Window<T>, held: Held) -> Self {
        Prepared { window, held }
    }

    /// Starts the call, once an earlier start that was dropped is done; it ends when the [`Running`] is
    /// waited for.
    pub fn start(&mut self) -> Result<Running<'_, T>> {
        self.held.wait()?;
        self.held.start()?;
        Ok(Running { prepared: self })
    }

    /// Starts the call and waits until it is done.
    pub fn run(&mut self) -> Result<()> {
        self.held.run()
    }

    /// The window's elements; waits first where a start is still running. Not the window, in whose place another could be
    /// put: it belongs to the call.
    pub fn window(&mut self) -> Result<&mut [T]> {
        self.held.wait()?;
        self.window.check()?;
        Ok(&mut self.window)
    }

    /// The window, for other uses; waits first where a start is still running.
    ///
    /// # Errors
    /// As [`Communicator::run`](super::Communicator::run); then the window is given up.
    pub fn into_window(self) -> Result<Window<T>> {
        self.held.wait()?;
        self.window.check()?;
        Ok(self.window)
    }
}

/// A prepared call that runs. To drop it does no harm: the next use of the [`Prepared`] waits for it.
#[must_use = "the window is not filled before `wait`"]
pub struct Running<'p, T: Element> {
    prepared: &'p mut Prepared<T>,
}

impl<T: Element> Running<'_, T> {
    /// Makes progress, and says whether the call is done. Never waits.
    pub fn test(&mut self) -> Result<bool> {
        self.prepared.held.test()
    }

    /// Waits until the call is done.
    pub fn wait(self) -> Result<()> {
        self.prepared.held.wait()
    }
}
