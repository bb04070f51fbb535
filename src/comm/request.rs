//! Calls in the background: started once, or prepared and started many times.

use std::sync::Arc;

use super::window::Window;
use super::world::World;
use crate::engine::{Handle, Task};
use crate::error::Result;
use crate::fold::element::Element;
use crate::transport::memory::Memory;

/// An operation of the engine that somebody holds; the engine may let go of it when nobody does.
pub(super) struct Held {
    handle: Handle,
    world: Arc<World>,
    own: Option<OwnPart>,
}

/// What a rank sends to itself: copied at every start.
pub(super) struct OwnPart {
    pub source: Memory,
    pub from: usize,
    pub target: Memory,
    pub to: usize,
    pub len: usize,
}

impl OwnPart {
    /// Does so.
    pub(super) fn copy(&self) {
        self.target.copy(self.to, &self.source, self.from, self.len);
    }
}

impl Held {
    pub(super) fn new(world: &Arc<World>, task: Task, own: Option<OwnPart>) -> Result<Self> {
        let handle = world.engine().prepare(task)?;
        Ok(Held { handle, world: Arc::clone(world), own })
    }

    pub(super) fn start(&self) -> Result<()> {
        if let Some(own) = &self.own {
            own.copy();
        }
        self.world.engine().start(self.handle)
    }

    pub(super) fn wait(&self) -> Result<()> {
        self.world.engine().wait(self.handle)
    }

    fn test(&self) -> Result<bool> {
        self.world.engine().test(self.handle)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.world.engine().forget(self.handle);
    }
}

/// A call that has been started. It makes progress in this process's calls, not by itself.
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
        self.start()?.wait()
    }

    /// The window's elements; waits first where a start is still running.
    pub fn window(&mut self) -> Result<&mut Window<T>> {
        self.held.wait()?;
        self.window.check()?;
        Ok(&mut self.window)
    }

    /// The window, for other uses; waits first where a start is still running.
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
