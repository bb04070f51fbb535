//! Requests: calls in the background, started once, or prepared and started many times.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use circulant::comm::raw::RawRequest;

use crate::handle::{self, Object, Table};
use crate::memory;
use crate::order::Order;
use crate::status::{CIRCULANT_ERR_ARGUMENT, Failure, Result, guard};
use crate::window::Win;
use crate::world::WorldNumber;

/// What a request's handle points to: nothing that anybody can see.
pub enum RequestObject {}

/// A call in the background.
pub type RequestHandle = *mut RequestObject;

/// A call in the background. A thread that waits for it has its state until it is done.
pub struct Request {
    state: Mutex<State>,
    /// Whether who has the state waits for the call.
    is_awaited: AtomicBool,
    is_prepared: bool,
    pub world: WorldNumber,
}

struct State {
    raw: RawRequest,
    is_running: bool,
    /// How it ended, for all who waited.
    failure: Option<Failure>,
    /// Dropped after `raw`, which waits for what is under way in them.
    _windows: Vec<Arc<Win>>,
}

static REQUESTS: Table<Request> = Table::new();

impl Object for Request {
    type Opaque = RequestObject;
    const KIND: usize = 3;

    fn table() -> &'static Table<Request> {
        &REQUESTS
    }
}

impl Request {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while another thread has it.
    fn state_if_free(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// To start it. `None` where it runs already.
    fn state_at_rest(&self) -> Option<MutexGuard<'_, State>> {
        loop {
            match self.state_if_free() {
                Some(state) => return Some(state).filter(|state| !state.is_running),
                None if self.is_awaited.load(Ordering::Relaxed) => return None,
                // It is looked at, which nobody does for long.
                None => std::thread::yield_now(),
            }
        }
    }

    fn start(&self) -> Result<()> {
        if !self.is_prepared {
            return Err(Failure::new(
                CIRCULANT_ERR_ARGUMENT,
                "a request that was started already, by a call that ends in _start",
                "wait for it; circulant_start is for calls that end in _prepare",
            ));
        }
        let running =
            || Failure::new(CIRCULANT_ERR_ARGUMENT, "a request that is running", "wait for it first");
        let mut state = self.state_at_rest().ok_or_else(running)?;
        state.raw.start()?;
        (state.is_running, state.failure) = (true, None);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.state();
        if state.is_running {
            self.is_awaited.store(true, Ordering::Relaxed);
            let outcome = state.raw.wait();
            self.is_awaited.store(false, Ordering::Relaxed);
            state.end(outcome);
        }
        state.outcome()
    }

    /// Where another thread waits, that one makes progress, and it is not done.
    fn test(&self) -> Result<bool> {
        let Some(mut state) = self.state_if_free() else { return Ok(false) };
        if state.is_running {
            match state.raw.test() {
                Ok(false) => return Ok(false),
                outcome => state.end(outcome.map(drop)),
            }
        }
        state.outcome().map(|()| true)
    }

    /// Waits until nobody has the call's memory, whoever else waits. How it ended is for them, and for the next
    /// call, to tell.
    pub fn settle(&self) {
        self.wait().unwrap_or_default();
    }
}

impl State {
    /// Done, or failed: after an error nothing runs any more.
    fn end(&mut self, outcome: circulant::error::Result<()>) {
        self.is_running = false;
        self.failure = outcome.err().map(Failure::from);
    }

    fn outcome(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// Makes a call from beginning to end.
pub fn at_once(name: &str, order: impl FnOnce() -> Result<Order>) -> c_int {
    guard(name, || order()?.run())
}

/// Starts a call, and gives its request.
///
/// # Safety
/// `request` is null, or may be written.
pub unsafe fn start(name: &str, request: *mut RequestHandle, order: impl FnOnce() -> Result<Order>) -> c_int {
    // SAFETY: the caller's promise
    unsafe { in_background(name, request, order, Order::start, false) }
}

/// Prepares a call, and gives its request.
///
/// # Safety
/// As [`start`].
pub unsafe fn prepare(
    name: &str,
    request: *mut RequestHandle,
    order: impl FnOnce() -> Result<Order>,
) -> c_int {
    // SAFETY: the caller's promise
    unsafe { in_background(name, request, order, Order::prepare, true) }
}

/// # Safety
/// As [`start`].
unsafe fn in_background(
    name: &str,
    request: *mut RequestHandle,
    order: impl FnOnce() -> Result<Order>,
    begin: impl FnOnce(Order) -> Result<RawRequest>,
    is_prepared: bool,
) -> c_int {
    guard(name, || {
        memory::check(request, "request")?;
        let order = order()?;
        let (world, windows) = (order.comm.world, order.windows());
        let state = State { raw: begin(order)?, is_running: !is_prepared, failure: None, _windows: windows };
        let made = handle::insert(Request {
            state: Mutex::new(state),
            is_awaited: AtomicBool::new(false),
            is_prepared,
            world,
        });
        // SAFETY: it may be written (the caller's promise), as it is not null (checked above)
        unsafe { memory::give(request, "request", made) }
    })
}

/// Starts a prepared call (again). Every rank of its communicator starts it, equally often and in the same
/// order as its other calls.
///
/// Errors: CIRCULANT_ERR_ARGUMENT for one that runs, or that was not prepared; CIRCULANT_ERR_HANDLE,
/// CIRCULANT_ERR_NULL; and those of the call.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_start(request: RequestHandle) -> c_int {
    guard("circulant_start", || handle::get::<Request>(request)?.start())
}

/// Makes progress, and says whether a call is done: 1 or 0 in `*done`. Never waits; 0 while another thread waits.
///
/// A started call that is done is given up, and `*request` set to null; a prepared one is kept.
///
/// Errors: those of the call; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_test(request: *mut RequestHandle, done: *mut c_int) -> c_int {
    guard("circulant_test", || {
        memory::check(done, "done")?;
        // SAFETY: the caller's `request` may be read and written, where it is not null
        let is_done = unsafe { finish(request, Request::test) }?;
        // SAFETY: the caller's `done` may be written; it is not null (checked above)
        unsafe { memory::give(done, "done", c_int::from(is_done)) }
    })
}

/// Waits until a call is done. A started call is then given up, and `*request` set to null; a prepared one is
/// kept, and one that does not run is done.
///
/// Errors: those of the call; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_wait(request: *mut RequestHandle) -> c_int {
    guard("circulant_wait", || {
        // SAFETY: the caller's `request` may be read and written, where it is not null
        unsafe { finish(request, |request| request.wait().map(|()| true)) }.map(drop)
    })
}

/// Waits until all of `count` calls are done, as circulant_wait does; entries that are null are passed over.
///
/// Errors: that of the first call that has one, after all have been waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_wait_all(count: usize, requests: *mut RequestHandle) -> c_int {
    guard("circulant_wait_all", || {
        if count == 0 {
            return Ok(());
        }
        memory::check(requests, "requests")?;
        let mut first = Ok(());
        for index in 0..count {
            // SAFETY: the caller's `requests` has `count` handles that may be read and written
            let outcome = unsafe {
                let request = requests.add(index);
                if request.read().is_null() {
                    Ok(true)
                } else {
                    finish(request, |one| one.wait().map(|()| true))
                }
            };
            first = first.and(outcome.map(drop));
        }
        first
    })
}

/// Does something that may end a call, and gives up what was started once it is done, or failed.
///
/// # Safety
/// `request` is null, or may be read and written.
unsafe fn finish(request: *mut RequestHandle, act: impl FnOnce(&Request) -> Result<bool>) -> Result<bool> {
    memory::check(request, "request")?;
    // SAFETY: it is not null, so it may be read (the caller's promise)
    let handle = unsafe { request.read() };
    let found = handle::get::<Request>(handle)?;
    let outcome = act(&found);
    if !found.is_prepared && !matches!(outcome, Ok(false)) {
        // Another thread that waited may have been first, which is no failure of this wait.
        drop(handle::remove::<Request>(handle));
        // SAFETY: as above, written
        unsafe { request.write(ptr::null_mut()) };
    }
    outcome
}

/// Gives a request up, and sets `*request` to null. Waits for a call that runs, as its memory is the caller's,
/// also where another thread waits for it: that one gets the call's outcome.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_request_free(request: *mut RequestHandle) -> c_int {
    guard("circulant_request_free", || {
        // SAFETY: the caller's `request` may be read and written, where it is not null
        unsafe { memory::take(request, "request", handle::remove::<Request>) }?.settle();
        Ok(())
    })
}
