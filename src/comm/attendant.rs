//! A thread that carries calls on while the program computes.
//!
//! It waits at a door, which every other thread opens that leaves the engine with something under way. It has the engine
//! only while nobody else wants it, so a call that is waited for, or tested, is the program's own thread's.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::inside::{Room, panicked};
use crate::error::{Error, Result};
use crate::threads;

/// The thread, and its door.
pub(super) struct Attendant {
    thread: JoinHandle<()>,
    door: Arc<Door>,
}

/// Where it waits until it is wanted.
pub(super) struct Door {
    knocked: Mutex<Knock>,
    changed: Condvar,
}

/// Whether it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knock {
    None,
    Wanted,
    /// Never again.
    Dismissed,
}

impl Door {
    /// One that nobody has opened.
    pub(super) fn new() -> Self {
        Door { knocked: Mutex::new(Knock::None), changed: Condvar::new() }
    }

    /// Something is under way, and nobody carries it on.
    pub(super) fn open(&self) {
        self.say(Knock::Wanted);
    }

    fn say(&self, knock: Knock) {
        let mut knocked = self.knocked();
        if *knocked != Knock::Dismissed {
            *knocked = knock;
            self.changed.notify_one();
        }
    }

    /// Waits until it is open, and closes it; whether it may be opened again.
    fn pass(&self) -> bool {
        let is_closed = |knocked: &mut Knock| *knocked == Knock::None;
        let waited = self.changed.wait_while(self.knocked(), is_closed);
        let mut knocked = waited.unwrap_or_else(PoisonError::into_inner);
        let wanted = *knocked == Knock::Wanted;
        if wanted {
            *knocked = Knock::None;
        }
        wanted
    }

    /// Whether it is never opened again.
    fn is_shut(&self) -> bool {
        *self.knocked() == Knock::Dismissed
    }

    fn knocked(&self) -> MutexGuard<'_, Knock> {
        self.knocked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attendant {
    /// One that goes into a room by its door.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn begin(room: &Arc<Room>, door: Arc<Door>) -> Result<Attendant> {
        let (room, its_door) = (Arc::clone(room), Arc::clone(&door));
        let attend = move || {
            while its_door.pass() {
                // Whoever is in there opens the door again, if need be.
                let Some(mut engine) = room.enter_if_free() else { continue };
                // Whoever dismisses it comes in after that, and so either calls it out, or was there before.
                if its_door.is_shut() {
                    return;
                }
                // What goes wrong, the next call tells, or who leaves; all other ranks hear of it at once.
                if catch_unwind(AssertUnwindSafe(|| engine.attend())).is_err() && !engine.is_broken() {
                    engine.give_up(panicked());
                    engine.leave_untold();
                }
            }
        };
        let refused = |error: std::io::Error| {
            let what = format!("CIRCULANT_PROGRESS=thread: no thread to be had ({error})");
            Error::boot(what, "raise `ulimit -u`, or unset it")
        };
        let thread = threads::start("progress".to_owned(), attend).map_err(refused)?;
        Ok(Attendant { thread, door })
    }

    /// Sends it away, and waits until it is gone; `call_out` makes it leave the engine.
    pub(super) fn dismiss(self, call_out: impl FnOnce()) {
        self.door.say(Knock::Dismissed);
        call_out();
        // It may be the last to let go of an operator that owned all this.
        if self.thread.thread().id() != thread::current().id() {
            let _ = self.thread.join();
        }
    }
}
