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

/// An array of counts that fit, one for each rank that a rank speaks to: between two groups, of the other one.
pub fn array(array: *const i64, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: - the communicator is the program's
    //         - both are ints to be written
    let codes = unsafe {
        let code = own::comm_test_inter(comm, &mut inter);
        let ask = if inter != 0 { own::comm_remote_size } else { own::comm_size };
        [code, ask(comm, &mut size)]
    };
    (codes == [0; 2]).then(|| first(array, size, kept)).flatten()
}

/// The same, one for each rank of this one's own group.
pub fn shares(array: *const i64, comm: Handle, kept: &mut Kept) -> Option<*const c_int> {
    let mut size = 0;
    // SAFETY: - the communicator is the program's
    //         - `size` is an int to be written
    let code = unsafe { own::comm_size(comm, &mut size) };
    (code == 0).then(|| first(array, size, kept)).flatten()
}

/// The first `size` numbers; null stays null, as what has no meaning at a rank may be.
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
