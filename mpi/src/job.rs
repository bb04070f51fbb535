//! The beginning and the end of a job, where the world is joined and left, as the program calls them in C and Fortran.

use std::ffi::{c_int, c_void};

use super::fortran::{self, Fortran};
use super::own;
use super::world;

/// # Safety
/// - As MPI has it, here and below.
#[unsafe(export_name = "MPI_Init")]
pub unsafe extern "C" fn init(argc: *mut c_int, argv: *mut c_void) -> c_int {
    // SAFETY: - the program's own call, as it made it
    joined(unsafe { own::init(argc, argv) })
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Init_thread")]
pub unsafe extern "C" fn init_thread(
    argc: *mut c_int,
    argv: *mut c_void,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: - the program's own call, as it made it
    joined(unsafe { own::init_thread(argc, argv, required, provided) })
}

fn joined(code: c_int) -> c_int {
    if code == 0 {
        world::join();
    }
    code
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Finalize")]
pub unsafe extern "C" fn finalize() -> c_int {
    match world::leave() {
        // SAFETY: - the program's own call, as it made it
        Ok(()) => unsafe { own::finalize() },
        Err(code) => code,
    }
}

/// The Fortran functions: in Open MPI they do not come by those of C, and elsewhere they do.
macro_rules! in_fortran {
    ($module:ident, $lower:literal, $upper:literal, ($($arg:ident),*), $made:expr) => {
        mod $module {
            use super::*;

            in_fortran!(@spelled usual, ["mpi_", $lower, "_"], $lower, ($($arg),*), $made);
            in_fortran!(@spelled bare, ["mpi_", $lower], $lower, ($($arg),*), $made);
            in_fortran!(@spelled twice, ["mpi_", $lower, "__"], $lower, ($($arg),*), $made);
            in_fortran!(@spelled upper, ["MPI_", $upper], $lower, ($($arg),*), $made);
            in_fortran!(@spelled typed, ["mpi_", $lower, "_f08_"], concat!($lower, "_f08"), ($($arg),*), $made);
        }
    };
    (@spelled $fn:ident, [$($spelling:literal),*], $lower:expr, ($($arg:ident),*), $made:expr) => {
        #[unsafe(export_name = concat!($($spelling),*))]
        unsafe extern "C" fn $fn($($arg: *mut c_int,)* error: *mut c_int) {
            static NEXT: Fortran = Fortran::new(concat!("mpi_", $lower, "_\0"));
            // SAFETY: - in Fortran all arguments are addresses
            match unsafe { NEXT.next::<unsafe extern "C" fn($(in_fortran!(@address $arg),)* *mut c_int)>() } {
                // SAFETY: - the program's own call, as it made it
                Some(next) => unsafe { next($($arg,)* error) },
                None => {
                    let code = $made;
                    // SAFETY: - the last argument is where the code goes, or null where Fortran 2008 leaves it out
                    unsafe { fortran::give(error, code) }
                }
            }
        }
    };
    (@address $arg:ident) => { *mut c_int };
}

in_fortran!(fortran_init, "init", "INIT", (), {
    // SAFETY: - MPI takes null for arguments that there are none of
    unsafe { init(std::ptr::null_mut(), std::ptr::null_mut()) }
});
in_fortran!(fortran_init_thread, "init_thread", "INIT_THREAD", (required, provided), {
    // SAFETY: - as above, and both are addresses of integers
    unsafe { init_thread(std::ptr::null_mut(), std::ptr::null_mut(), *required, provided) }
});
in_fortran!(fortran_finalize, "finalize", "FINALIZE", (), {
    // SAFETY: - the program's own call
    unsafe { finalize() }
});
