//! What the communicators of a process share: the engine, and how the process leaves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::boot::Exchange;
use crate::engine::{Engine, Task};
use crate::error::{self, Error, Result};

/// The engine of this process, for one thread at a time.
pub struct World {
    engine: Mutex<Engine>,
    /// How to leave; none for ranks that are threads of one process.
    farewell: Option<Mutex<Farewell>>,
}

/// What is to be done when the last communicator, window and request is dropped.
pub(super) struct Farewell {
    /// A last barrier, so that nobody leaves whom others still need.
    pub task: fn(&Engine) -> Result<Task>,
    /// The launcher, to be told.
    pub exchange: Box<dyn Exchange>,
}

impl World {
    pub(super) fn new(engine: Engine, farewell: Option<Farewell>) -> Arc<Self> {
        Arc::new(World { engine: Mutex::new(engine), farewell: farewell.map(Mutex::new) })
    }

    /// The engine. After a panic inside it nothing can be said about its state, so its traffic ends.
    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(|poisoned| {
            let mut engine = poisoned.into_inner();
            engine.shut_down(Error::transport("engine", "a thread panicked in a call", "see its message"));
            engine
        })
    }
}

impl Drop for World {
    /// Leaves in good order, unless a panic is on its way: then the others hear that this rank is lost.
    fn drop(&mut self) {
        let Some(farewell) = self.farewell.take() else { return };
        if std::thread::panicking() {
            return;
        }
        let Farewell { task, mut exchange } = farewell.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut engine = self.engine();
        // What broke the engine before, a call has returned; it is not told twice.
        let last =
            if engine.check().is_ok() { task(&engine).and_then(|task| engine.run(task)) } else { Ok(()) };
        engine.leave();
        // A drop returns nothing; what goes wrong last is told where a user looks.
        if let Err(error) = last.and_then(|()| exchange.finish()) {
            error::tell(format!("finalize: {error}"));
        }
    }
}
