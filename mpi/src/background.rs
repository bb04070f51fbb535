//! Calls in the background, behind requests of MPI's own.
//!
//! What the program holds is a real request of its library, so that arrays of requests may be mixed: of a started
//! call a generalized request, of a prepared one a prepared receive of a word from this rank itself. Either is completed,
//! in MPI's eyes, by the thread that waits for it, once our call is done: the receive is started then, and the word sent.
//! (A receive from nobody would do by MPI's rules; but where Intel MPI has had one, a later prepared collective of its own
//! does nothing.)
//!
//! Calls of MPI's that wait do not drive ours, nor does a program that computes. So while calls are under way a thread
//! looks after them now and then, on all of which others may depend; it never calls MPI. Where the library has a thread for that
//! itself (`CIRCULANT_PROGRESS=thread`), it does not begin.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;

use circulant::boot::mpi::abi::Handle;
use circulant::comm::MAX_OPERATIONS;
use circulant::comm::raw::RawRequest;
use circulant::error::Result;
use circulant::threads;

use super::call::{Taken, Tense};
use super::communicators::Served;
use super::own;
use super::world;

/// A call in the background.
pub struct Background {
    // Dropped before the communicator that it is on.
    state: Mutex<State>,
    id: usize,
    /// Whether it may be started again.
    prepared: bool,
    served: Arc<Served>,
    /// The code of an error that the program is still to hear of, or 0.
    failed: AtomicI32,
}

struct State {
    // Dropped before the memory that it uses; as soon as it is done, unless it may be started again.
    request: Option<RawRequest>,
    taken: Taken,
    /// Until MPI knows that it is not.
    running: bool,
}

impl State {
    /// Whether our call is done; makes progress.
    fn test(&mut self, prepared: bool) -> Result<bool> {
        let done = self.request.as_mut().map_or(Ok(true), RawRequest::test)?;
        if done && !prepared {
            self.request = None;
        }
        Ok(done)
    }
}

// SAFETY: - the addresses of the program's memory are used by the threads that make the program's calls, and by the
//           request, which may be driven by any
//         - its communicator is kept beside (`Background::served`)
unsafe impl Send for State {}

/// How many tags there are at least, from 0, but for those that are not for words.
const TAGS: usize = world::COPIED as usize;

/// All of them, by the handles that the program has.
static ALL: Mutex<Option<HashMap<Handle, Arc<Background>>>> = Mutex::new(None);
/// How many there are: nobody asks for one where there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(1);

fn all() -> MutexGuard<'static, Option<HashMap<Handle, Arc<Background>>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call behind a request, if it is one of ours.
pub fn behind(request: Handle) -> Option<Arc<Background>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    all().as_ref()?.get(&request).cloned()
}

/// Prepared calls that are gone, as the world has been left: MPI still has something by their handles, which would never end.
static GONE: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

fn gone_for_good() -> MutexGuard<'static, Vec<Handle>> {
    GONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a request is of a prepared call that is gone.
pub fn is_gone(request: Handle) -> bool {
    world::joined().is_none() && gone_for_good().contains(&request)
}

/// The program frees a request: the handle may be another's from now on.
pub fn is_freed(request: Handle) {
    if world::joined().is_none() {
        gone_for_good().retain(|&gone| gone != request);
    }
}

/// Whether there are any.
pub fn is_empty() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// Starts or prepares a call; what MPI knows it by goes to `request`.
///
/// # Safety
/// - `request` has room for a handle.
/// - The memory of the call is as MPI asks for it in that tense.
pub unsafe fn begin(mut taken: Taken, tense: Tense, request: *mut c_void) -> Result<()> {
    // Where no thread looks after calls, nobody else does.
    drop_those_over();
    let prepared = tense == Tense::Prepared;
    taken.keep_types();
    // SAFETY: - as here (the caller)
    let begun = unsafe { begin_own(&mut taken, prepared) };
    let (raw, served) = begun.inspect_err(|_| taken.release_types())?;
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let state = Mutex::new(State { request: Some(raw), taken, running: !prepared });
    let background = Arc::new(Background { state, id, prepared, served, failed: AtomicI32::new(0) });
    // SAFETY: - `request` has room for a handle (the caller)
    let made = unsafe { background.make_request(request) };
    let handle = made.inspect_err(|_| background.state().taken.release_types())?;
    all().get_or_insert_default().insert(handle, Arc::clone(&background));
    COUNT.fetch_add(1, Ordering::Release);
    if !prepared {
        background.is_to_be_looked_after();
    }
    Ok(())
}

/// Our own request of a call, and the communicator that it is on.
///
/// # Safety
/// - The memory of the call is as MPI asks for it in that tense.
unsafe fn begin_own(taken: &mut Taken, prepared: bool) -> Result<(RawRequest, Arc<Served>)> {
    match prepared {
        true => taken.well()?,
        false => taken.pack()?,
    }
    let (input, output) = taken.spans();
    let served = taken.found.keep().ok_or_else(gone)?;
    if prepared {
        see_room()?;
    }
    wait_for_room(&served);
    // SAFETY: - the program leaves the buffers alone until the call is done (the caller), and bytes that are packed
    //           are kept beside the request
    let request = unsafe {
        match prepared {
            true => served.comm.prepare_raw(&taken.call, input, output)?,
            false => served.comm.start_raw(&taken.call, input, output)?,
        }
    };
    Ok((request, served))
}

/// So many calls at least may be made at once beside those in the background, by as many threads.
const ROOM: usize = 64;

/// So many calls may be prepared. They keep their places, running or not, until their requests are freed; beside them
/// is [`ROOM`] for calls that are started, and as much for those at once.
const MOST_PREPARED: usize = MAX_OPERATIONS - 2 * ROOM;

/// Fails where as many calls are prepared as may be.
fn see_room() -> Result<()> {
    match all().iter().flat_map(HashMap::values).filter(|call| call.prepared).count() {
        MOST_PREPARED.. => Err(circulant::error::Error::argument(
            "MPI",
            format!("{MOST_PREPARED} persistent requests of collectives are there already"),
            "free some by MPI_Request_free, or leave these collectives out of CIRCULANT_MPI_COLLECTIVES",
        )),
        _ => Ok(()),
    }
}

/// Where as many calls run as there may be, waits until one is done.
fn wait_for_room(served: &Served) {
    let is_full =
        || COUNT.load(Ordering::Acquire) + ROOM >= MAX_OPERATIONS && served.comm.vacancies() <= ROOM;
    while is_full() && look_after_all() > 0 {
        world::progress();
        thread::yield_now();
    }
}

fn gone() -> circulant::error::Error {
    circulant::error::Error::argument("MPI", "the communicator is gone", "free it after its last call")
}

/// Lets go of all, before the world is left. What runs is waited for, as it uses the program's memory, and MPI is told:
/// a program may wait for a request as late as in MPI_Finalize, where attributes of MPI_COMM_SELF are deleted. That is
/// too late for a call of ours, as others may have left by then; what is prepared [cannot be started](is_gone) any more.
pub fn end() {
    let gone = all().take().unwrap_or_default();
    let prepared = gone.iter().filter(|(_, background)| background.prepared);
    gone_for_good().extend(prepared.map(|(handle, _)| *handle));
    COUNT.store(0, Ordering::Release);
    for (handle, background) in &gone {
        background.finish(*handle);
        background.state().taken.release_types();
    }
    // After a round the thread holds none of them: who holds the last one leaves the world, which is this thread's to do.
    drop(round());
    drop(gone);
    drop_those_over();
}

impl Background {
    /// # Safety
    /// - `request` has room for a handle.
    unsafe fn make_request(&self, request: *mut c_void) -> Result<Handle> {
        let Some(abi) = own::abi() else { return Err(gone()) };
        let ((rank, comm), mut handle) = (world::me(), 0);
        // SAFETY: - the functions are of the types that MPI calls, and take an id, which is no address
        //         - `handle` has room for any library's
        let code = unsafe {
            match self.prepared {
                true => {
                    own::receive_init(std::ptr::null_mut(), 0, abi.byte, rank, self.tag(), comm, &mut handle)
                }
                false => own::request_start(query, free, cancel, self.id as *mut c_void, &mut handle),
            }
        };
        if code != 0 {
            let what = format!("error {code}");
            return Err(circulant::error::Error::argument(
                "MPI request",
                what,
                "the library's own words say why",
            ));
        }
        let bytes = abi.flavour.handle_bytes();
        // SAFETY: - `request` has room for a handle (the caller), which is so many bytes, the low ones of ours
        unsafe { std::ptr::copy_nonoverlapping((&raw const handle).cast::<u8>(), request.cast(), bytes) };
        Ok(handle)
    }

    /// Of the word that it is sent when it is done. Where many share one, a word is as good as another.
    fn tag(&self) -> c_int {
        (self.id % TAGS) as c_int
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a prepared call.
    pub fn start(&self) -> c_int {
        let mut state = self.state();
        let State { request, taken, running } = &mut *state;
        let again = |request: &mut RawRequest| request.start();
        let started = taken.pack().and_then(|()| request.as_mut().map_or(Ok(()), again));
        *running = started.is_ok();
        self.failed.store(0, Ordering::Release);
        drop(state);
        self.is_to_be_looked_after();
        self.code(started)
    }

    /// Whether our call is under way; makes progress. Once it is done MPI is told, and knows its request complete; but not
    /// of an error, which is [kept](Self::code_of_error).
    pub fn is_running(&self, handle: Handle) -> bool {
        let mut state = self.state();
        if !state.running {
            return false;
        }
        let done = match state.test(self.prepared) {
            Ok(false) => return true,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        let done = self.complete(&mut state, handle, done);
        drop(state);
        self.keep(done);
        false
    }

    /// The code of the error that it ended with, or 0; to be heard of once, unless it is only asked for.
    pub fn code_of_error(&self, only_asked: bool) -> c_int {
        if only_asked { self.failed.load(Ordering::Acquire) } else { self.failed.swap(0, Ordering::AcqRel) }
    }

    /// Waits until our call is done, and tells MPI. The code is an error's, or 0.
    pub fn finish(&self, handle: Handle) -> c_int {
        let mut state = self.state();
        let done = state.running.then(|| {
            let done = state.request.as_mut().map_or(Ok(()), RawRequest::wait);
            self.complete(&mut state, handle, done)
        });
        drop(state);
        done.into_iter().for_each(|done| self.keep(done));
        self.code_of_error(false)
    }

    /// Tells MPI that it is done; how.
    fn complete(&self, state: &mut State, handle: Handle, done: Result<()>) -> Result<()> {
        state.running = false;
        let done = done.and_then(|()| state.taken.unpack());
        if !self.prepared {
            state.request = None;
            state.taken.release_types();
        }
        let mut handle = handle;
        let byte = own::abi().map_or(0, |abi| abi.byte);
        // SAFETY: - the request is ours, and MPI does not know it complete yet
        unsafe {
            match self.prepared {
                true => {
                    let (rank, comm) = world::me();
                    own::start((&raw mut handle).cast());
                    own::send(std::ptr::null(), 0, byte, rank, self.tag(), comm)
                }
                false => own::request_complete(handle),
            }
        };
        done
    }

    /// Keeps the code of an error. Nothing is locked: the program's handler may ask for this very request.
    fn keep(&self, done: Result<()>) {
        self.failed.store(self.code(done), Ordering::Release);
    }

    fn code(&self, done: Result<()>) -> c_int {
        done.map_or_else(|error| world::fail(self.served.whose_handler(), &error), |()| 0)
    }
}

/// The program frees a request: the call is done with. Before MPI knows of it, as the handle may be another's at once.
pub fn forget(request: Handle) {
    let gone = all().as_mut().and_then(|all| all.remove(&request));
    if let Some(gone) = gone {
        COUNT.fetch_sub(1, Ordering::Release);
        let mut state = gone.state();
        // Now, and not when the thread lets go of it that looks after all: others may be prepared in its place.
        state.request = None;
        state.taken.release_types();
    }
}

/// MPI asks for a status: there is nothing to be said but that it is well.
unsafe extern "C" fn query(_: *mut c_void, status: *mut c_void) -> c_int {
    let byte = own::abi().map_or(0, |abi| abi.byte);
    // SAFETY: - MPI gives a status to be written
    unsafe {
        own::set_elements(status, byte, 0);
        own::set_cancelled(status, 0);
    }
    0
}

/// MPI frees a request, after the program has waited for it. It may hold a lock of its own meanwhile, for which a thread
/// may wait that carries our calls on; so nothing is done here that could wait for that one.
unsafe extern "C" fn free(id: *mut c_void) -> c_int {
    let mut all = all();
    let request = all.iter().flatten().find(|(_, background)| background.id == id as usize);
    let request = request.map(|(request, _)| *request);
    if let Some(gone) = request.and_then(|request| all.as_mut()?.remove(&request)) {
        COUNT.fetch_sub(1, Ordering::Release);
        over().push(gone);
    }
    0
}

/// Those that are over, to be dropped where nobody holds a lock of MPI's.
static OVER: Mutex<Vec<Arc<Background>>> = Mutex::new(Vec::new());

fn over() -> MutexGuard<'static, Vec<Arc<Background>>> {
    OVER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn drop_those_over() {
    let over = std::mem::take(&mut *over());
    drop(over);
}

/// Calls of a collective are not cancelled, as MPI has it.
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    0
}

/// How often calls are looked after: now and then only, as the program's own calls drive them best.
const ROUND: Duration = Duration::from_millis(1);
/// After so many rounds without any the thread rests.
const IDLE: u32 = 100;

static RESTS: AtomicBool = AtomicBool::new(false);

/// Held while the thread looks after calls, which it then holds.
fn round() -> MutexGuard<'static, ()> {
    static UNDER_WAY: Mutex<()> = Mutex::new(());
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that calls that run are looked after.
fn look_after() {
    static THREAD: OnceLock<Option<Thread>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let thread = threads::start("circulant-mpi".to_owned(), go_round).ok()?;
        Some(thread.thread().clone())
    });
    if RESTS.swap(false, Ordering::AcqRel) {
        thread.iter().for_each(Thread::unpark);
    }
}

/// How many calls run; makes progress on each.
fn look_after_all() -> usize {
    let _round = round();
    drop_those_over();
    let calls: Vec<_> = all().iter().flat_map(HashMap::values).cloned().collect();
    calls.iter().filter(|call| call.is_looked_after()).count()
}

fn go_round() {
    let mut idle = 0;
    loop {
        thread::sleep(ROUND);
        let running = look_after_all();
        idle = if running > 0 { 0 } else { idle + 1 };
        if idle >= IDLE {
            RESTS.store(true, Ordering::Release);
            while RESTS.load(Ordering::Acquire) {
                thread::park();
            }
            idle = 0;
        }
    }
}

impl Background {
    /// It is, unless the library has a thread that does.
    fn is_to_be_looked_after(&self) {
        if !self.served.comm.has_progress_thread() {
            look_after();
        }
    }

    /// Whether it runs; makes progress, unless somebody does.
    fn is_looked_after(&self) -> bool {
        match self.state.try_lock() {
            // What goes wrong is told to who waits for it.
            Ok(mut state) => state.running && state.test(self.prepared).is_ok_and(|done| !done),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }
}
