//! The functions of requests as a Fortran program calls them, where its library's would not call those of C.
//!
//! Where no call of ours is in the background they are the library's own. Else requests become handles of C for the
//! length of a call. A status is the same words in both.

use std::ffi::{c_int, c_void};

use circulant::boot::mpi::abi::{Handle, UNDEFINED};

use super::background;
use super::fortran::{self, Fortran};
use super::own;
use super::requests;

/// Requests of a Fortran program, as handles of C.
struct Requests {
    numbers: *mut c_int,
    n: usize,
    /// Room for the handles, which lie as close as C has them.
    handles: Vec<Handle>,
}

impl Requests {
    /// # Safety
    /// - There are `n` numbers of requests, to be written.
    unsafe fn new(n: c_int, numbers: *mut c_void) -> Self {
        let (numbers, n) = (numbers.cast::<c_int>(), n.max(0) as usize);
        let mut all = Requests { numbers, n, handles: vec![0; n] };
        for i in 0..n {
            // SAFETY: - there are so many numbers (the caller), and as many handles take no more than the room for them
            unsafe { requests::write(all.start(), i, fortran::request(*numbers.add(i))) };
        }
        all
    }

    fn start(&mut self) -> *mut c_void {
        self.handles.as_mut_ptr().cast()
    }
}

impl Drop for Requests {
    /// Those that are over are none in Fortran, too.
    fn drop(&mut self) {
        let Some(abi) = own::abi() else { return };
        for i in 0..self.n {
            // SAFETY: - there are a handle and a number of each (`new`)
            let (handle, number) = unsafe { (requests::read(self.start(), i), &mut *self.numbers.add(i)) };
            if abi.flavour.handle(fortran::request(*number)) != handle {
                *number = fortran::number(handle);
            }
        }
    }
}

/// An index as Fortran counts.
///
/// # Safety
/// - `index` is an int to be written.
unsafe fn from_one(index: *mut c_int) {
    // SAFETY: - an int to be written (the caller)
    unsafe {
        if *index != UNDEFINED {
            *index += 1;
        }
    }
}

/// In C, asks which of some requests are done: how many requests, these; the index and whether there is one, or how many
/// there are and their indices; and where statuses go.
type Ask = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, *mut c_int, *mut c_void) -> c_int;

/// # Safety
/// - The arguments are Fortran's for `ask`.
unsafe fn any_of(
    ask: Ask,
    n: c_int,
    all: *mut c_void,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: - in Fortran an argument is the address of what it is in C (the caller)
    unsafe {
        let code = ask(n, Requests::new(n, all).start(), index, flag, fortran::status(status));
        if *flag != 0 {
            from_one(index);
        }
        code
    }
}

/// # Safety
/// - The arguments are Fortran's for `ask`.
unsafe fn some_of(
    ask: Ask,
    n: c_int,
    all: *mut c_void,
    count: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: - in Fortran an argument is the address of what it is in C (the caller)
    //         - of the indices as many have been written as `count` says
    unsafe {
        let code = ask(n, Requests::new(n, all).start(), count, indices, fortran::status(statuses));
        (0..(*count).max(0) as usize).for_each(|i| from_one(indices.add(i)));
        code
    }
}

macro_rules! in_fortran {
    ($($module:ident [$lower:literal, $upper:literal] ($($arg:ident),*) => $made:expr;)*) => {$(
        mod $module {
            use super::*;

            in_fortran!(@spelled usual, ["mpi_", $lower, "_"], $lower, ($($arg),*), $made);
            in_fortran!(@spelled bare, ["mpi_", $lower], $lower, ($($arg),*), $made);
            in_fortran!(@spelled twice, ["mpi_", $lower, "__"], $lower, ($($arg),*), $made);
            in_fortran!(@spelled upper, ["MPI_", $upper], $lower, ($($arg),*), $made);
            in_fortran!(@spelled typed, ["mpi_", $lower, "_f08_"], concat!($lower, "_f08"), ($($arg),*), $made);
        }
    )*};
    (@spelled $fn:ident, [$($spelling:literal),*], $lower:expr, ($($arg:ident),*), $made:expr) => {
        #[unsafe(export_name = concat!($($spelling),*))]
        unsafe extern "C" fn $fn($($arg: *mut c_void,)* error: *mut c_int) {
            static OWN: Fortran = Fortran::new(concat!("mpi_", $lower, "_\0"));
            if background::is_empty() || OWN.calls_c() {
                // SAFETY: - in Fortran all arguments are addresses
                let own = unsafe { OWN.own::<unsafe extern "C" fn($(in_fortran!(@address $arg),)* *mut c_int)>() };
                match own {
                    // SAFETY: - the program's own call, as it made it
                    Some(own) => unsafe { own($($arg,)* error) },
                    // SAFETY: - the last argument is where the code goes
                    None => unsafe { fortran::give(error, own::absent(concat!("mpi_", $lower))) },
                }
            } else {
                // SAFETY: - in Fortran an argument is the address of what it is in C, and an array of requests one of
                //           as many as the call says
                let code = unsafe { $made };
                // SAFETY: - the last argument is where the code goes, or null where Fortran 2008 leaves it out
                unsafe { fortran::give(error, code) }
            }
        }
    };
    (@address $arg:ident) => { *mut c_void };
}

in_fortran! {
    wait ["wait", "WAIT"] (request, status) => {
        requests::wait(Requests::new(1, request).start(), fortran::status(status))
    };
    test ["test", "TEST"] (request, flag, status) => {
        requests::test(Requests::new(1, request).start(), flag.cast(), fortran::status(status))
    };
    wait_all ["waitall", "WAITALL"] (n, all, statuses) => {
        let n = *n.cast();
        requests::wait_all(n, Requests::new(n, all).start(), fortran::status(statuses))
    };
    test_all ["testall", "TESTALL"] (n, all, flag, statuses) => {
        let n = *n.cast();
        requests::test_all(n, Requests::new(n, all).start(), flag.cast(), fortran::status(statuses))
    };
    wait_any ["waitany", "WAITANY"] (n, all, index, status) => {
        let n = *n.cast();
        let code = requests::wait_any(n, Requests::new(n, all).start(), index.cast(), fortran::status(status));
        from_one(index.cast());
        code
    };
    test_any ["testany", "TESTANY"] (n, all, index, flag, status) => {
        any_of(requests::test_any, *n.cast(), all, index.cast(), flag.cast(), status)
    };
    wait_some ["waitsome", "WAITSOME"] (n, all, count, indices, statuses) => {
        some_of(requests::wait_some, *n.cast(), all, count.cast(), indices.cast(), statuses)
    };
    test_some ["testsome", "TESTSOME"] (n, all, count, indices, statuses) => {
        some_of(requests::test_some, *n.cast(), all, count.cast(), indices.cast(), statuses)
    };
    status_of ["request_get_status", "REQUEST_GET_STATUS"] (request, flag, status) => {
        requests::status_of(fortran::request(*request.cast()), flag.cast(), fortran::status(status))
    };
    status_of_all ["request_get_status_all", "REQUEST_GET_STATUS_ALL"] (n, all, flag, statuses) => {
        let n = *n.cast();
        requests::status_of_all(n, Requests::new(n, all).start(), flag.cast(), fortran::status(statuses))
    };
    status_of_any ["request_get_status_any", "REQUEST_GET_STATUS_ANY"] (n, all, index, flag, status) => {
        any_of(requests::status_of_any, *n.cast(), all, index.cast(), flag.cast(), status)
    };
    status_of_some ["request_get_status_some", "REQUEST_GET_STATUS_SOME"] (n, all, count, indices, statuses) => {
        some_of(requests::status_of_some, *n.cast(), all, count.cast(), indices.cast(), statuses)
    };
    free ["request_free", "REQUEST_FREE"] (request) => {
        requests::free(Requests::new(1, request).start())
    };
    start ["start", "START"] (request) => {
        requests::start(Requests::new(1, request).start())
    };
    start_all ["startall", "STARTALL"] (n, all) => {
        let n = *n.cast();
        requests::start_all(n, Requests::new(n, all).start())
    };
}
