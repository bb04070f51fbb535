//! What the communicators of a process share: the engine, and how the process leaves.

use std::sync::{Mutex, MutexGuard};

use crate::engine::Engine;
use crate::error::Error;

/// The engine of this process, for one thread at a time.
pub struct World {
    engine: Mutex<Engine>,
}

impl World {
    pub(super) fn new(engine: Engine) -> Self {
        World { engine: Mutex::new(engine) }
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
