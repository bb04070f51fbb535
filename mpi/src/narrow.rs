//! Large counts where a library knows only the usual ones: passed on as those, if they fit.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use circulant::boot::mpi::abi::Handle;

use super::own;
use super::sides::Numbers;

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

/// An array of counts that fit, one for each rank; null stays null, as what has no meaning at a rank may be.
pub fn array(array: *const i64, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    if array.is_null() {
        return Some(std::ptr::null());
    }
    let mut size = 0;
    // SAFETY: - the communicator is the program's
    //         - `size` is an int to be written
    if unsafe { own::comm_size(comm, &mut size) } != 0 {
        return None;
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

/// Makes a call with numbers that fit, or gives back MPI_ERR_COUNT. Arrays of a call with a `request` are kept.
pub fn call(request: Option<*mut c_void>, call: impl FnOnce(&mut Kept) -> Option<c_int>) -> c_int {
    let mut kept = Kept::new();
    let code = call(&mut kept).unwrap_or_else(|| own::abi().map_or(own::ABSENT_CODE, |abi| abi.err_count));
    if let (Some(request), false) = (request, kept.is_empty()) {
        // SAFETY: - the library has written a handle there, or the program has
        let handle = unsafe { super::requests::read(request, 0) };
        ARRAYS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(handle, kept);
    }
    code
}
