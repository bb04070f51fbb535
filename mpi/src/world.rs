//! The ranks of MPI_COMM_WORLD as a world of circulant's: joined in MPI_Init, left in MPI_Finalize.
//!
//! Both are calls that all ranks make. Either all ranks join, with the same settings, or none does and every call is
//! passed on; so whoever fails says so to the others in the same exchange that they wait in.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use circulant::boot::Exchange;
use circulant::boot::mpi::{Mpi, MpiExchange};
use circulant::collective::Collective;
use circulant::comm::Communicator;
use circulant::error::{Error, tell};
use circulant::lifeline::status::Status;

use super::background;
use super::communicators;
use super::own;
use super::report;
use super::requests;
use super::settings::{self, Settings};

/// What is the same for all calls, once the world is joined.
pub struct World {
    pub settings: Settings,
    /// Whether calls in the background are taken: where all waits for them come here, on all ranks.
    pub background: bool,
    /// Who this rank is in the communicator that the ranks met on, for [`progress`].
    rank: i32,
    meeting: usize,
    /// What the others are told of this rank.
    status: Arc<Status>,
}

impl World {
    /// Makes a call of the library's own, of which ranks that wait for this one are told.
    pub fn pass_on<T>(&self, collective: Collective, own: impl FnOnce() -> T) -> T {
        self.status.elsewhere("the MPI library's own", settings::name(collective), own)
    }
}

static WORLD: OnceLock<World> = OnceLock::new();
/// Whether calls are taken: from the joining on until the leaving.
static JOINED: AtomicBool = AtomicBool::new(false);

/// The world, while it is joined.
pub fn joined() -> Option<&'static World> {
    if JOINED.load(Relaxed) { WORLD.get() } else { None }
}

/// Whether this is rank 0.
pub fn is_first() -> bool {
    WORLD.get().is_some_and(|world| world.rank == 0)
}

/// This rank, and the communicator that the ranks met on, where nobody sends but to itself.
pub fn me() -> (i32, usize) {
    WORLD.get().map_or((0, 0), |world| (world.rank, world.meeting))
}

/// Joins, once MPI is initialised.
pub fn join() {
    let library = own::library();
    let Some(mpi) = &library.mpi else { return };
    if let Err(error) = try_join(mpi) {
        tell(format!("MPI calls are passed on: {error}"));
    }
}

fn try_join(mpi: &Mpi) -> circulant::error::Result<()> {
    let place = mpi.place(mpi.abi.comm_world)?;
    if place.size == 1 {
        return Ok(());
    }
    let mut exchange = MpiExchange::new(mpi)?;
    let settings = settings(&mut exchange);
    let background = settings.clone().and_then(|_| sees_all_waits(&mut exchange));
    let comm = background.clone().and(settings.clone()).and_then(|settings| match settings.on {
        true => enter(&exchange).map(Some).map_err(|error| error.to_string()),
        false => Ok(None),
    });
    let trouble = exchange.agree(comm.as_ref().err().map(String::as_str))?;
    match (trouble, settings.and_then(|settings| Ok((settings, background?))), comm) {
        (Some(trouble), ..) if place.rank == 0 => {
            tell(format!("MPI calls are passed on, on all ranks: {trouble}"));
        }
        (None, Ok((settings, background)), Ok(Some(comm))) => {
            let (rank, meeting, status) = (place.rank as i32, exchange.comm(), comm.status());
            let world = World { settings, background, rank, meeting, status };
            begin(WORLD.get_or_init(|| world), comm)?;
        }
        _ => {}
    }
    Ok(())
}

/// The settings, which all ranks have alike.
fn settings(exchange: &mut MpiExchange) -> Result<Settings, String> {
    if let Some(trouble) = &own::library().trouble {
        return Err(trouble.to_string());
    }
    let own = Settings::from(|name| std::env::var(name).ok())?;
    let words = format!("{own:?}");
    let all = exchange.allgather(words.as_bytes()).map_err(|error| error.to_string())?;
    match all.iter().position(|other| other != words.as_bytes()) {
        None => Ok(own),
        Some(rank) => Err(format!(
            "rank {} and rank {rank} have other values of CIRCULANT_MPI variables; set them alike on all ranks",
            exchange.place().rank
        )),
    }
}

/// Whether each rank's waits come here; rank 0 says where they go instead.
fn sees_all_waits(exchange: &mut MpiExchange) -> Result<bool, String> {
    let elsewhere = requests::found_elsewhere();
    if let (Some(function), 0) = (elsewhere, exchange.place().rank) {
        tell(format!(
            "non-blocking and persistent MPI calls are passed on: {function} is taken over by another library"
        ));
    }
    let all = exchange.allgather(&[u8::from(elsewhere.is_none())]).map_err(|error| error.to_string())?;
    Ok(all.iter().all(|sees| sees == &[1]))
}

fn enter(exchange: &MpiExchange) -> circulant::error::Result<Communicator> {
    let settings = circulant::comm::settings::Settings::from_environment()?;
    Communicator::world_by(Box::new(exchange.clone()), &settings)
}

fn begin(world: &'static World, comm: Communicator) -> circulant::error::Result<()> {
    comm.while_waiting(progress);
    communicators::begin(comm)?;
    if world.settings.report {
        report::begin();
    }
    JOINED.store(true, Relaxed);
    Ok(())
}

/// Leaves, before MPI is finalized. Where another rank is lost before it has come as far, the error goes to the handler of
/// MPI_COMM_WORLD, and its code is given: MPI's own end could wait for that rank for ever.
pub fn leave() -> Result<(), i32> {
    if !JOINED.swap(false, Relaxed) {
        return Ok(());
    }
    background::end();
    report::print();
    let Err(error) = communicators::end() else { return Ok(()) };
    tell(format!("finalize: {error}"));
    match (&error, own::abi()) {
        (Error::Lost { .. }, Some(abi)) => Err(hand_to_handler(abi.comm_world, abi.err_other)),
        _ => Ok(()),
    }
}

/// Lets MPI make progress while a call of ours waits: others may wait for a message that MPI has still to send from
/// here. What is looked for is never there: a rank sends itself words of other tags.
pub fn progress() {
    let Some(world) = WORLD.get() else { return };
    let (mut flag, mut status) = (0, [0u64; 16]);
    // SAFETY: - MPI runs while the world is joined, and the calls that wait are made by threads that may call it
    //         - the communicator is ours, and `status` larger than any library's
    unsafe { own::probe(world.rank, PROBED, world.meeting, &mut flag, status.as_mut_ptr().cast()) };
}

/// A tag that nobody sends: the last one that every library has.
const PROBED: i32 = (1 << 15) - 1;
/// The tag of values that a rank sends itself to have them copied.
pub const COPIED: i32 = PROBED - 1;

/// An error's code for the program, after its communicator's error handler has had it.
pub fn fail(comm: usize, error: &Error) -> i32 {
    fail_as(comm, own::abi().map_or(own::ABSENT_CODE, |abi| abi.err_other), error)
}

/// The same of an error that has a code of its own.
pub fn fail_as(comm: usize, code: i32, error: &Error) -> i32 {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    if is_new(&mut TOLD.lock().unwrap_or_else(PoisonError::into_inner), error.to_string()) {
        tell(error);
    }
    hand_to_handler(comm, code)
}

/// A call of a function that the library lacks, and that is not taken. Where there is no library that has been told.
pub fn absent(comm: usize, function: &str) -> i32 {
    if own::abi().is_none() {
        return own::ABSENT_CODE;
    }
    let what = "the MPI library has no such function, and the call is one that is passed on";
    fail(comm, &Error::argument(function, what, "use a function that the library has"))
}

/// So many kinds of errors are told of at most.
const MOST_TOLD: usize = 32;

/// Whether a sentence is one to be told: not one that differs from an earlier one in numbers only, as where a program
/// goes on after errors each call may give one.
fn is_new(told: &mut Vec<String>, mut sentence: String) -> bool {
    sentence.retain(|letter| !letter.is_ascii_digit());
    let is_new = told.len() < MOST_TOLD && !told.contains(&sentence);
    if is_new {
        told.push(sentence);
    }
    is_new
}

fn hand_to_handler(comm: usize, code: i32) -> i32 {
    // SAFETY: - the communicator is the program's, of the call that has failed, or MPI_COMM_WORLD
    unsafe { own::call_error_handler(comm, code) };
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_is_told_once_and_of_many_kinds_the_first() {
        let mut told = Vec::new();
        let mut is_new = |sentence: &str| is_new(&mut told, sentence.to_string());
        assert!(is_new("allreduce: no memory for 64 bytes"));
        assert!(!is_new("allreduce: no memory for 128 bytes"));
        assert!(is_new("rank 2 is lost"));
        let kinds = (0..2 * MOST_TOLD).filter(|&kind| is_new(&"x".repeat(kind + 1))).count();
        assert_eq!(kinds, MOST_TOLD - 2);
    }
}
