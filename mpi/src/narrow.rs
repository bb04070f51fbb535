//! Large counts where a library knows only the usual ones: passed on as those, if they fit.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use circulant::boot::mpi::abi::{Flavour, Handle};
use circulant::error::Error;

use super::own;
use super::sides::Numbers;
use super::world;

/// A count of either width.
pub trait Narrow: Copy {
    /// An array of them.
    fn numbers(array: *const Self) -> Numbers;
}

impl Narrow for c_int {
    fn numbers(array: *const Self) -> Numbers {
        Numbers::Int(array)
    }
}

impl Narrow for i64 {
    fn numbers(array: *const Self) -> Numbers {
        Numbers::Long(array)
    }
}

/// Arrays that a call reads.
pub type Kept = Vec<Box<[c_int]>>;

/// A count that fits.
pub fn count(count: i64) -> Option<c_int> {
    count.try_into().ok()
}

/// An array of counts that fit, one for each rank that a rank speaks to: between two groups, of the other one.
pub fn array(array: *const i64, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    let ask = if is_between(comm)? { own::comm_remote_size } else { own::comm_size };
    first(array, number(comm, ask)?, kept)
}

/// The same, one for each rank of this one's own group.
pub fn shares(array: *const i64, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    first(array, number(comm, own::comm_size)?, kept)
}

/// The same of an array that has a meaning at the root only.
pub fn of_root(array: *const i64, root: c_int, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    let here = match is_between(comm)? {
        true => root_between(own::abi()?.flavour),
        false => number(comm, own::comm_rank)?,
    };
    if root == here { self::array(array, comm, kept) } else { Some(unread(array)) }
}

/// The same of an array of what is sent, which has no meaning in place.
pub fn sent(array: *const i64, from: *const c_void, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    let in_place = from as usize == own::abi()?.in_place;
    if in_place { Some(unread(array)) } else { self::array(array, comm, kept) }
}

/// An array that nobody reads may be anything, and is passed on as it is: some libraries look whether it is null.
fn unread(array: *const i64) -> *const c_int {
    array.cast()
}

/// `MPI_ROOT`, by which the root of a call between two groups says that it is.
fn root_between(flavour: Flavour) -> c_int {
    match flavour {
        Flavour::Mpich => -3,
        Flavour::Standard | Flavour::OpenMpi => -4,
    }
}

fn is_between(comm: Handle) -> Option<bool> {
    Some(number(comm, own::comm_test_inter)? != 0)
}

/// A number that a communicator has.
fn number(comm: Handle, ask: unsafe fn(Handle, *mut c_int) -> c_int) -> Option<c_int> {
    let mut number = 0;
    // SAFETY: - the communicator is the program's
    //         - `number` is an int to be written
    (unsafe { ask(comm, &mut number) } == 0).then_some(number)
}

/// The first `size` numbers; null stays null, of which the library shall complain.
fn first(array: *const i64, size: c_int, kept: &mut Kept) -> Option<*const c_int> {
    if array.is_null() {
        return Some(std::ptr::null());
    }
    // SAFETY: - MPI has the program give a number for each rank
    let numbers = unsafe { Numbers::Long(array).first(size as usize) };
    let narrow: Box<[c_int]> = numbers.into_iter().map(count).collect::<Option<_>>()?;
    let start = narrow.as_ptr();
    kept.push(narrow);
    Some(start)
}

/// The arrays of requests. A handle is used again only when its request is over, and then the arrays make room.
static ARRAYS: Mutex<Option<HashMap<Handle, Kept>>> = Mutex::new(None);

/// Makes a call with numbers that fit, or fails with MPI_ERR_COUNT. Arrays of a call with a `request` are kept.
pub fn call(
    function: &str,
    comm: Handle,
    request: Option<*mut c_void>,
    call: impl FnOnce(&mut Kept) -> Option<c_int>,
) -> c_int {
    let mut kept = Kept::new();
    let Some(code) = call(&mut kept) else { return too_large(function, comm) };
    if let (Some(request), 0, false) = (request, code, kept.is_empty()) {
        // SAFETY: - the library has written a handle there, or the program has
        let handle = unsafe { super::requests::read(request, 0) };
        ARRAYS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(handle, kept);
    }
    code
}

fn too_large(function: &str, comm: Handle) -> c_int {
    // Of a communicator that is none the library has complained.
    if is_between(comm).is_none() {
        return own::ABSENT_CODE;
    }
    let what = "the MPI library has no such function, and the call, which is passed on, has a number that no int holds";
    let error = Error::argument(function, what, "use smaller numbers, or a library that has it");
    world::fail_as(comm, own::abi().map_or(own::ABSENT_CODE, |abi| abi.err_count), &error)
}
