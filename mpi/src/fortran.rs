//! What callers from Fortran have otherwise: numbers for handles, and addresses for constants.
//!
//! The Fortran functions of MPICH and Intel MPI call those of C by the names that are taken over; they are left to do so.
//! Open MPI's call past them, so there a call is taken where the program makes it; and so do the functions of MPICH's
//! module mpi_f08 that have no buffer.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use circulant::boot::mpi::abi::{Flavour, Handle};
use circulant::boot::mpi::found_beside;
use libloading::os::unix::Library;

use super::own::{self, Own};

/// The library's own function of a name, behind ours.
pub struct Fortran {
    /// With a zero at its end.
    name: &'static str,
    address: AtomicUsize,
}

const UNKNOWN: usize = 0;

impl Fortran {
    pub const fn new(name: &'static str) -> Self {
        Fortran { name, address: AtomicUsize::new(UNKNOWN) }
    }

    /// Whether the library's own function calls those of C that are taken over.
    pub fn calls_c(&self) -> bool {
        let typed = self.name.ends_with("_f08_\0");
        !typed && own::abi().is_some_and(|abi| abi.flavour != Flavour::OpenMpi)
    }

    /// The library's own, where the call is its to make.
    ///
    /// # Safety
    /// - `F` is the type of a pointer to that function.
    pub unsafe fn next<F: Copy>(&self) -> Option<F> {
        // SAFETY: - as the caller says
        if self.calls_c() { unsafe { self.own() } } else { None }
    }

    /// The library's own.
    ///
    /// # Safety
    /// - `F` is the type of a pointer to that function.
    pub unsafe fn own<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        if self.address.load(Relaxed) == UNKNOWN {
            self.address.store(self.find()?, Relaxed);
        }
        let address = self.address.load(Relaxed);
        // SAFETY: - a pointer to a function of this type (the caller), of the same size (the assertion)
        Some(unsafe { std::mem::transmute_copy(&address) })
    }

    /// Behind ours, or where only those see it who have it loaded, as with a Python module's libraries.
    fn find(&self) -> Option<usize> {
        // SAFETY: - the name ends with a zero
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) };
        if !next.is_null() {
            return Some(next as usize);
        }
        beside(&[self.name.trim_end_matches('\0')]).first().copied()
    }
}

/// What other files have by one of these names, also out of the program's sight.
fn beside(names: &[&str]) -> Vec<usize> {
    found_beside(beside as fn(&[&str]) -> Vec<usize> as usize, names)
}

/// Gives the code back where Fortran wants it.
///
/// # Safety
/// - `error` is null, or an integer to be written.
pub unsafe fn give(error: *mut c_int, code: c_int) {
    if !error.is_null() {
        // SAFETY: - an integer to be written (the caller)
        unsafe { *error = code };
    }
}

/// The constants that Fortran knows by their addresses, in all spellings.
struct Places {
    in_place: Vec<usize>,
    bottom: Vec<usize>,
    no_status: Vec<usize>,
}

fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    PLACES.get_or_init(|| Places {
        in_place: spelled("in_place"),
        bottom: spelled("bottom"),
        no_status: [spelled("status_ignore"), spelled("statuses_ignore"), addresses(&IGNORED)].concat(),
    })
}

/// The same in the module mpi_f08 of MPICH.
const IGNORED: [&str; 2] = ["MPIR_F08_MPI_STATUS_IGNORE_OBJ", "MPIR_F08_MPI_STATUSES_IGNORE_OBJ"];

fn spelled(name: &str) -> Vec<usize> {
    let lower = format!("mpi_fortran_{name}");
    addresses(&[&format!("{lower}_"), &lower, &format!("{lower}__"), &lower.to_uppercase()])
}

/// Those that the program sees, and those out of its sight: each library that uses one may have its own.
fn addresses(names: &[&str]) -> Vec<usize> {
    let program = Library::this();
    let address = |name: &&str| {
        // SAFETY: - any symbol's address may be looked at; it is not followed
        let symbol = unsafe { program.get::<*const u8>(name.as_bytes()) }.ok()?;
        Some(symbol.as_raw_ptr() as usize)
    };
    names.iter().filter_map(address).chain(beside(names)).collect()
}

/// A buffer, which may be one of the constants.
pub fn buffer(buffer: *mut c_void) -> *mut c_void {
    let (address, places) = (buffer as usize, places());
    if places.in_place.contains(&address) {
        own::abi().map_or(0, |abi| abi.in_place) as *mut c_void
    } else if places.bottom.contains(&address) {
        std::ptr::null_mut()
    } else {
        buffer
    }
}

/// Where statuses go, which may be nowhere.
pub fn status(status: *mut c_void) -> *mut c_void {
    match places().no_status.contains(&(status as usize)) {
        true => own::abi().map_or(0, |abi| abi.status_ignore) as *mut c_void,
        false => status,
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $fn:ident = $name:literal;)*) => {$(
        $(#[$doc])*
        pub fn $fn(number: c_int) -> Handle {
            static OWN: Own = Own::new($name);
            // SAFETY: - this is its type in MPI
            let convert = unsafe { OWN.get::<unsafe extern "C" fn(c_int) -> Handle>() };
            // SAFETY: - any number may be asked for
            convert.map_or(number as Handle, |convert| unsafe { convert(number) })
        }
    )*};
}

handles! {
    /// A communicator's handle in C.
    comm = "PMPI_Comm_f2c";
    /// A type's.
    datatype = "PMPI_Type_f2c";
    /// An operator's.
    operator = "PMPI_Op_f2c";
    /// An info's.
    info = "PMPI_Info_f2c";
    /// A request's.
    request = "PMPI_Request_f2c";
}

/// A request's number in Fortran.
pub fn number(request: Handle) -> c_int {
    static OWN: Own = Own::new("PMPI_Request_c2f");
    // SAFETY: - this is its type in MPI
    let convert = unsafe { OWN.get::<unsafe extern "C" fn(Handle) -> c_int>() };
    // SAFETY: - the handle is a request's
    convert.map_or(request as c_int, |convert| unsafe { convert(request) })
}

/// Makes a call that gives a request, and gives Fortran its number.
///
/// # Safety
/// - `request` is an integer to be written.
pub unsafe fn with_request(request: *mut c_void, call: impl FnOnce(*mut c_void) -> c_int) -> c_int {
    let mut handle: Handle = 0;
    let code = call((&raw mut handle).cast());
    if code == 0 {
        // SAFETY: - `request` is an integer to be written (the caller)
        unsafe { *request.cast::<c_int>() = number(handle) };
    }
    code
}
