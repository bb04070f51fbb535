//! Names that the program gives to types that come with MPI.
//!
//! Such a type is known by the name that it came with, which all ranks see alike. A rank may give it another of its
//! own, so each is looked at before that, and known from then on.

use std::ffi::{c_char, c_int, c_void};

use circulant::boot::mpi::abi::Handle;

use super::fortran::{self, Fortran};
use super::own;
use super::types::Datatype;
use super::world;

/// Gets to know a type, if it comes with MPI and calls may be taken.
fn get_to_know(datatype: impl FnOnce() -> Handle) {
    if let (Some(_), Some(abi)) = (world::joined(), own::abi()) {
        Datatype::of(abi.flavour.handle(datatype()));
    }
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Type_set_name")]
pub unsafe extern "C" fn set_name(datatype: Handle, name: *const c_char) -> c_int {
    get_to_know(|| datatype);
    // SAFETY: - the program's own call, as it made it
    unsafe { own::type_set_name(datatype, name) }
}

/// The function in Fortran in one spelling. The length of a name comes last, and is no address.
macro_rules! spelled {
    ($fn:ident, $spelling:literal, $lower:literal) => {
        #[unsafe(export_name = $spelling)]
        unsafe extern "C" fn $fn(datatype: *mut c_int, name: *mut c_void, error: *mut c_int, length: usize) {
            static OWN: Fortran = Fortran::new(concat!($lower, "_\0"));
            // SAFETY: - in Fortran an argument is the address of what it is in C
            get_to_know(|| fortran::datatype(unsafe { *datatype }));
            // SAFETY: - this is its type in Fortran
            match unsafe { OWN.own::<unsafe extern "C" fn(*mut c_int, *mut c_void, *mut c_int, usize)>() } {
                // SAFETY: - the program's own call, as it made it
                Some(own) => unsafe { own(datatype, name, error, length) },
                // SAFETY: - the last argument but the length is where the code goes, or null
                None => unsafe { fortran::give(error, own::absent($lower)) },
            }
        }
    };
}

spelled!(usual, "mpi_type_set_name_", "mpi_type_set_name");
spelled!(bare, "mpi_type_set_name", "mpi_type_set_name");
spelled!(twice, "mpi_type_set_name__", "mpi_type_set_name");
spelled!(upper, "MPI_TYPE_SET_NAME", "mpi_type_set_name");
spelled!(typed, "mpi_type_set_name_f08_", "mpi_type_set_name_f08");
