//! The engine while a thread has it: whom it is left to, and what is let go of on the way out.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::attendant::Door;
use crate::engine::Engine;
use crate::error::Error;
use crate::forks;

/// The engine of a process, for one thread at a time.
pub(super) struct Room {
    engine: ManuallyDrop<Mutex<Engine>>,
    /// The thread that has it, 0 for none.
    owner: AtomicUsize,
    /// The process whose it is.
    generation: u32,
    /// By which an attendant comes, if there is one.
    door: Option<Arc<Door>>,
}

/// It is the thread's that has this.
pub(super) struct Inside<'r> {
    room: &'r Room,
    /// Always there until it is given up.
    engine: Option<MutexGuard<'r, Engine>>,
    /// Opened on the way out, if something is left there that nobody carries on.
    door: Option<&'r Door>,
    /// The thread unwound already when it came: what it does here ends in good order.
    unwound: bool,
}

impl Room {
    pub(super) fn new(engine: Engine, door: Option<Arc<Door>>) -> Self {
        Room {
            engine: ManuallyDrop::new(Mutex::new(engine)),
            owner: AtomicUsize::new(0),
            generation: forks::here(),
            door,
        }
    }

    /// The engine; where another thread has it, `wait` is given what waits until it is free.
    ///
    /// Whoever has it already, which is an operator of the user's that makes a call, would wait for itself, and
    /// unwinds: whoever has called it tells that as its failure.
    pub(super) fn enter<'r>(
        &'r self,
        wait: impl FnOnce(&dyn Fn() -> MutexGuard<'r, Engine>) -> MutexGuard<'r, Engine>,
    ) -> Inside<'r> {
        let engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => after_a_panic(poisoned),
            Err(TryLockError::WouldBlock) if self.owner.load(Ordering::Relaxed) == this_thread() => {
                resume_unwind(Box::new("it makes a call, or lets go of what needs one, within a call"))
            }
            // Who has it may not be in this process.
            Err(TryLockError::WouldBlock) if !self.is_own() => {
                resume_unwind(Box::new("a call in a forked child of the process that joined"))
            }
            Err(TryLockError::WouldBlock) => wait(&|| self.engine.lock().unwrap_or_else(after_a_panic)),
        };
        self.occupied(engine, self.door.as_deref())
    }

    /// The engine, for the attendant; none where another thread has it, or is about to.
    pub(super) fn enter_if_free(&self) -> Option<Inside<'_>> {
        let engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => after_a_panic(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        // It leaves for others only, who open the door when they go.
        Some(self.occupied(engine, None))
    }

    /// Whether what ends may end without it: in a [child](Self::is_own), where nothing of it ends; and where this thread has
    /// it and unwinds, as an operator does that has failed, and has something of its own that goes with that.
    pub(super) fn is_not_needed(&self) -> bool {
        let is_here = || self.owner.load(Ordering::Relaxed) == this_thread();
        !self.is_own() || std::thread::panicking() && is_here()
    }

    /// Whether this is its process, and no child that was forked from it.
    pub(super) fn is_own(&self) -> bool {
        self.generation == forks::generation()
    }

    fn occupied<'r>(&'r self, engine: MutexGuard<'r, Engine>, door: Option<&'r Door>) -> Inside<'r> {
        self.owner.store(this_thread(), Ordering::Relaxed);
        Inside { room: self, engine: Some(engine), door, unwound: std::thread::panicking() }
    }
}

impl Drop for Room {
    /// In a forked child it is its parent's still, with all that it has of the system: nothing of it ends there.
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: it is dropped here only, and not used again
            unsafe { ManuallyDrop::drop(&mut self.engine) };
        }
    }
}

impl<'r> Inside<'r> {
    /// Leaves it to others until `wait` has it back.
    pub(super) fn step_out(
        mut self,
        wait: impl FnOnce(MutexGuard<'r, Engine>) -> MutexGuard<'r, Engine>,
    ) -> Self {
        let Some(engine) = self.engine.take() else { return self };
        self.room.owner.store(0, Ordering::Relaxed);
        self.room.occupied(wait(engine), self.door)
    }
}

impl Inside<'_> {
    /// Unless the panic came from elsewhere.
    #[cold]
    fn give_up(&self, engine: &mut Engine) {
        if !self.unwound && self.room.is_own() {
            // A second panic, while the first is on its way, would end the process: then whoever comes next gives it up.
            let given_up = catch_unwind(AssertUnwindSafe(|| engine.give_up(panicked())));
            given_up.unwrap_or_else(std::mem::forget);
        }
    }
}

impl Deref for Inside<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        match &self.engine {
            Some(engine) => engine,
            None => unreachable!("it is given up at the end only"),
        }
    }
}

impl DerefMut for Inside<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        match &mut self.engine {
            Some(engine) => engine,
            None => unreachable!("it is given up at the end only"),
        }
    }
}

impl Drop for Inside<'_> {
    /// An operator may own windows and communicators, whose end needs the engine: it goes when others may have that.
    ///
    /// After a panic inside it the others hear at once that it is broken, and who has lent memory may have that back.
    fn drop(&mut self) {
        let Some(mut engine) = self.engine.take() else { return };
        if std::thread::panicking() {
            self.give_up(&mut engine);
        }
        let operators = engine.has_discarded().then(|| engine.discarded());
        let door = self.door.filter(|_| self.room.is_own() && engine.is_left_alone());
        self.room.owner.store(0, Ordering::Relaxed);
        drop(engine);
        // Not before the engine is free: the attendant goes away again where it is not.
        door.iter().for_each(|door| door.open());
        drop(operators);
    }
}

/// After a panic inside it nothing can be said about the engine's state, so its traffic ends.
pub(super) fn after_a_panic<'r>(poisoned: PoisonError<MutexGuard<'r, Engine>>) -> MutexGuard<'r, Engine> {
    let mut engine = poisoned.into_inner();
    engine.give_up(panicked());
    engine
}

/// What is told of a panic, whose own message is said where it happens.
pub(super) fn panicked() -> Error {
    Error::transport("engine", "a thread panicked in a call", "see its message")
}

/// What no other thread is called that lives.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
