//! How a process becomes a rank, and how it ends being one.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use circulant::boot::callback::Callback;
use circulant::comm::Communicator;
use circulant::comm::settings::Settings;
use circulant::error::{self, Error};
use circulant::rank::Place;

use crate::communicator::{Comm, CommunicatorHandle};
use crate::handle;
use crate::memory;
use crate::request::Request;
use crate::status::{CIRCULANT_ERR_ARGUMENT, CIRCULANT_ERR_VERSION, Failure, Result, guard};
use crate::window::Win;

/// The version that a program was compiled with, and that of the library: they must go together.
pub const CIRCULANT_VERSION_MAJOR: c_int = 0;
/// While the major number is 0, these must be the same; after, the library's must not be less.
pub const CIRCULANT_VERSION_MINOR: c_int = 1;

/// Which world of this process an object is of.
pub type WorldNumber = u64;

/// An allgather of the caller's: every rank's `bytes` bytes at `own` go to everybody's `all`, in rank order.
///
/// All ranks call it equally often with equal `bytes`, up to ten times, on the thread that is in
/// circulant_init_allgather. Returns 0, or another number for an error.
pub type AllgatherFunction = Option<
    unsafe extern "C" fn(own: *const c_void, all: *mut c_void, bytes: usize, context: *mut c_void) -> c_int,
>;

/// The library's version, such as "0.1.0"; never null, good for ever.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// What circulant_init calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_init_version(
    major: c_int,
    minor: c_int,
    world: *mut CommunicatorHandle,
) -> c_int {
    let join = || Ok(Communicator::world()?);
    // SAFETY: the caller's `world` is null, or may be written
    unsafe { init("circulant_init", (major, minor), world, join) }
}

/// What circulant_init_allgather calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_init_allgather_version(
    major: c_int,
    minor: c_int,
    rank: c_int,
    size: c_int,
    allgather: AllgatherFunction,
    context: *mut c_void,
    world: *mut CommunicatorHandle,
) -> c_int {
    let join = || {
        let function =
            allgather.ok_or_else(|| Failure::null("allgather", "give the function that gathers"))?;
        let caller = Caller { function, context };
        // SAFETY: - `own` and `all` are of the lengths that the function is told
        //         - what it does with them is its author's promise (AllgatherFunction)
        let gather = move |own: &[u8], all: &mut [u8]| unsafe { caller.gather(own, all) };
        let exchange = Callback::new(place(rank, size)?, gather)?;
        Ok(Communicator::world_by(Box::new(exchange), &Settings::from_environment()?)?)
    };
    // SAFETY: the caller's `world` is null, or may be written
    unsafe { init("circulant_init_allgather", (major, minor), world, join) }
}

/// Gives up a world of circulant_init and its kin, with all communicators, windows and requests that came of
/// it, and sets `*world` to null. Waits for the requests, and until all ranks have called it; a process that
/// ends without it is lost to the others.
///
/// Collective. Errors: CIRCULANT_ERR_ARGUMENT for a communicator that is no world; CIRCULANT_ERR_HANDLE,
/// CIRCULANT_ERR_NULL; and those of a collective, and CIRCULANT_ERR_BOOT where the launcher's own last word fails: the world is
/// given up all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_finalize(world: *mut CommunicatorHandle) -> c_int {
    let take = |handle| {
        if handle::get::<Comm>(handle)?.is_world {
            return handle::remove::<Comm>(handle);
        }
        let what = "a communicator that circulant_init did not give";
        Err(Failure::new(CIRCULANT_ERR_ARGUMENT, what, "give it to circulant_comm_free"))
    };
    // SAFETY: the caller's `world` may be read and written, where it is not null
    guard("circulant_finalize", || leave(unsafe { memory::take(world, "world", take) }?))
}

fn leave(comm: Arc<Comm>) -> Result<()> {
    let number = comm.world;
    handle::remove_all::<Request>(|request| request.world == number)
        .iter()
        .for_each(|request| request.settle());
    let last = comm.communicator.barrier();
    drop(handle::remove_all::<Win>(|window| window.world == number));
    drop(handle::remove_all::<Comm>(|other| other.world == number));
    // Where another thread still has it, that one's drop waits for the others, and has nobody to tell an error to.
    let left = Arc::into_inner(comm).map_or(Ok(()), |comm| comm.communicator.leave());
    Ok(last.and(left)?)
}

/// Joins a world, and gives its communicator.
///
/// # Safety
/// `world` is null, or may be written.
pub unsafe fn init(
    name: &str,
    version: (c_int, c_int),
    world: *mut CommunicatorHandle,
    join: impl FnOnce() -> Result<Communicator>,
) -> c_int {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    guard(name, || {
        check_version(version)?;
        memory::check(world, "world")?;
        let comm = Comm::new(join()?, NEXT.fetch_add(1, Ordering::Relaxed), true);
        // SAFETY: it may be written (the caller's promise), as it is not null (checked above)
        unsafe { memory::give(world, "world", handle::insert(comm)) }
    })
}

fn check_version((major, minor): (c_int, c_int)) -> Result<()> {
    let fits = if CIRCULANT_VERSION_MAJOR == 0 {
        minor == CIRCULANT_VERSION_MINOR
    } else {
        minor <= CIRCULANT_VERSION_MINOR
    };
    if major == CIRCULANT_VERSION_MAJOR && fits {
        return Ok(());
    }
    let what = format!(
        "the program was compiled with circulant.h {major}.{minor}, and runs with libcirculant {}",
        env!("CARGO_PKG_VERSION")
    );
    Err(Failure::new(
        CIRCULANT_ERR_VERSION,
        what,
        "compile it again, or set LD_LIBRARY_PATH to the right library",
    ))
}

/// This process among others, as C says it.
pub fn place(rank: c_int, size: c_int) -> Result<Place> {
    let both = u32::try_from(rank).ok().zip(u32::try_from(size).ok()).filter(|(rank, size)| rank < size);
    both.map(|(rank, size)| Place { rank, size }).ok_or_else(|| {
        let what = format!("rank {rank} of {size} ranks");
        Failure::new(CIRCULANT_ERR_ARGUMENT, what, "take a size of 1 or more, and a rank from 0 to one less")
    })
}

/// A function of the caller's with its context.
struct Caller {
    function: unsafe extern "C" fn(*const c_void, *mut c_void, usize, *mut c_void) -> c_int,
    context: *mut c_void,
}

// SAFETY: - the context is handed to the caller's function and otherwise not touched
//         - the function is called on the thread that gave it (AllgatherFunction)
unsafe impl Send for Caller {}

impl Caller {
    /// # Safety
    /// `all` has a block as long as `own` for each rank, and the function does as AllgatherFunction says.
    unsafe fn gather(&self, own: &[u8], all: &mut [u8]) -> error::Result<()> {
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the caller's promise
        match unsafe { (self.function)(from, to, own.len(), self.context) } {
            0 => Ok(()),
            code => Err(Error::boot(
                format!("the caller's allgather returned {code}"),
                "mend it, or look for its message",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_of_the_package() {
        let version = format!("{CIRCULANT_VERSION_MAJOR}.{CIRCULANT_VERSION_MINOR}.");
        assert!(env!("CARGO_PKG_VERSION").starts_with(&version));
    }

    #[test]
    fn versions_that_do_not_go_together_are_both_named() {
        assert!(check_version((0, 1)).is_ok());
        for other in [(0, 0), (0, 2), (1, 1), (-1, 1)] {
            let failure = check_version(other).unwrap_err();
            assert_eq!(failure.code, CIRCULANT_ERR_VERSION);
            assert!(failure.sentence.contains(&format!("circulant.h {}.{}, and", other.0, other.1)));
        }
    }
}
