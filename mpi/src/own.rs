//! The library's own functions: what a call is passed on to, and what this one needs of MPI itself.
//!
//! A function is looked up when it is first called, and its address kept: from then on a call of it costs a load and a jump.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use circulant::boot::mpi::Mpi;
use circulant::boot::mpi::abi::{Abi, Handle};
use circulant::error::{Error, tell};

/// A function of the library, by its name.
pub struct Own {
    name: &'static str,
    address: AtomicUsize,
}

/// Not looked up yet.
const UNKNOWN: usize = 0;
/// The library has none of this name.
const ABSENT: usize = 1;

impl Own {
    pub const fn new(name: &'static str) -> Self {
        Own { name, address: AtomicUsize::new(UNKNOWN) }
    }

    /// The function.
    ///
    /// # Safety
    /// - `F` is the type of a pointer to that C function, with handles as [`Handle`]s.
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        let address = match self.address.load(Relaxed) {
            UNKNOWN => self.look_up(),
            address => address,
        };
        // SAFETY: - a pointer to a function of this type (the caller), in a file that stays
        //         - of the same size (the assertion)
        (address != ABSENT).then(|| unsafe { std::mem::transmute_copy(&address) })
    }

    #[cold]
    fn look_up(&self) -> usize {
        let address = library().mpi.as_ref().and_then(|mpi| mpi.address(self.name)).unwrap_or(ABSENT);
        self.address.store(address, Relaxed);
        address
    }
}

/// The library of this process.
pub struct Library {
    /// None where none is found, and where there is more than one the first.
    pub mpi: Option<Mpi>,
    /// Why nothing is taken over.
    pub trouble: Option<Error>,
}

/// Looked for at the first call of any function.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| match Mpi::all() {
        Ok(mut found) if found.len() == 1 => Library { mpi: found.pop(), trouble: None },
        Ok(found) if found.is_empty() => without(none()),
        Ok(found) => {
            let trouble = Mpi::several(&found);
            Library { mpi: found.into_iter().next(), trouble: Some(trouble) }
        }
        Err(error) => without(error),
    })
}

/// No library: every call fails, and somebody should say why.
fn without(trouble: Error) -> Library {
    tell(&trouble);
    Library { mpi: None, trouble: Some(trouble) }
}

fn none() -> Error {
    let what = "one of MPI's functions was called, and no MPI library is found in this process";
    Error::boot(what, "link the program with a shared MPI library, or do not preload this one")
}

/// The constants, once there is a library.
pub fn abi() -> Option<&'static Abi> {
    library().mpi.as_ref().map(|mpi| &mpi.abi)
}

/// What a function that the library lacks gives back: MPI_ERR_OTHER of some libraries, and an error in all.
pub const ABSENT_CODE: c_int = 16;

/// Declares what is needed of the library; each gives back its error code, or by its name what it is `else`.
macro_rules! own {
    (else $absent:expr; $($(#[$doc:meta])* $fn:ident = $name:literal ($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - As MPI has it.
        #[allow(clippy::too_many_arguments, reason = "as many as MPI has")]
        pub unsafe fn $fn($($arg: $type),*) -> c_int {
            static OWN: Own = Own::new($name);
            // SAFETY: - this is its type in MPI, with handles as words
            let function = unsafe { OWN.get::<unsafe extern "C" fn($($type),*) -> c_int>() };
            match function {
                // SAFETY: - as MPI has it (the caller)
                Some(function) => unsafe { function($($arg),*) },
                None => $absent($name),
            }
        }
    )*};
}

type CopyAttribute =
    unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type DeleteAttribute = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;
type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

own! {
    else |_| ABSENT_CODE;
    init = "PMPI_Init" (argc: *mut c_int, argv: *mut c_void);
    init_thread = "PMPI_Init_thread" (argc: *mut c_int, argv: *mut c_void, required: c_int, provided: *mut c_int);
    finalize = "PMPI_Finalize" ();
    comm_size = "PMPI_Comm_size" (comm: Handle, size: *mut c_int);
    comm_remote_size = "PMPI_Comm_remote_size" (comm: Handle, size: *mut c_int);
    comm_rank = "PMPI_Comm_rank" (comm: Handle, rank: *mut c_int);
    comm_test_inter = "PMPI_Comm_test_inter" (comm: Handle, flag: *mut c_int);
    comm_group = "PMPI_Comm_group" (comm: Handle, group: *mut Handle);
    group_free = "PMPI_Group_free" (group: *mut Handle);
    translate = "PMPI_Group_translate_ranks"
        (from: Handle, n: c_int, ranks: *const c_int, to: Handle, translated: *mut c_int);
    create_keyval = "PMPI_Comm_create_keyval"
        (copy: CopyAttribute, delete: DeleteAttribute, keyval: *mut c_int, extra: *mut c_void);
    set_attribute = "PMPI_Comm_set_attr" (comm: Handle, keyval: c_int, value: *mut c_void);
    get_attribute = "PMPI_Comm_get_attr" (comm: Handle, keyval: c_int, value: *mut c_void, flag: *mut c_int);
    call_error_handler = "PMPI_Comm_call_errhandler" (comm: Handle, code: c_int);
    allgather = "PMPI_Allgather" (from: *const c_void, n: c_int, of: Handle, to: *mut c_void, m: c_int, ty: Handle, comm: Handle);
    probe = "PMPI_Iprobe" (source: c_int, tag: c_int, comm: Handle, flag: *mut c_int, status: *mut c_void);
    type_size = "PMPI_Type_size" (ty: Handle, size: *mut c_int);
    type_size_wide = "PMPI_Type_size_x" (ty: Handle, size: *mut i64);
    type_extent = "PMPI_Type_get_extent" (ty: Handle, least: *mut isize, extent: *mut isize);
    type_envelope = "PMPI_Type_get_envelope"
        (ty: Handle, integers: *mut c_int, addresses: *mut c_int, types: *mut c_int, combiner: *mut c_int);
    type_set_name = "PMPI_Type_set_name" (ty: Handle, name: *const c_char);
    type_name = "PMPI_Type_get_name" (ty: Handle, name: *mut c_char, length: *mut c_int);
    type_dup = "PMPI_Type_dup" (ty: Handle, new: *mut Handle);
    type_free = "PMPI_Type_free" (ty: *mut Handle);
    type_commit = "PMPI_Type_commit" (ty: *mut Handle);
    type_runs = "PMPI_Type_create_hindexed"
        (n: c_int, lengths: *const c_int, places: *const isize, of: Handle, new: *mut Handle);
    pack = "PMPI_Pack"
        (from: *const c_void, n: c_int, ty: Handle, to: *mut c_void, room: c_int, at: *mut c_int, comm: Handle);
    unpack = "PMPI_Unpack"
        (from: *const c_void, room: c_int, at: *mut c_int, to: *mut c_void, n: c_int, ty: Handle, comm: Handle);
    request_start = "PMPI_Grequest_start"
        (query: Query, free: Free, cancel: Cancel, extra: *mut c_void, request: *mut Handle);
    request_complete = "PMPI_Grequest_complete" (request: Handle);
    set_elements = "PMPI_Status_set_elements" (status: *mut c_void, ty: Handle, n: c_int);
    set_cancelled = "PMPI_Status_set_cancelled" (status: *mut c_void, flag: c_int);
    start = "PMPI_Start" (request: *mut c_void);
    start_all = "PMPI_Startall" (n: c_int, requests: *mut c_void);
    request_free = "PMPI_Request_free" (request: *mut c_void);
    status_of = "PMPI_Request_get_status" (request: Handle, flag: *mut c_int, status: *mut c_void);
    wait = "PMPI_Wait" (request: *mut c_void, status: *mut c_void);
    test = "PMPI_Test" (request: *mut c_void, flag: *mut c_int, status: *mut c_void);
    wait_all = "PMPI_Waitall" (n: c_int, requests: *mut c_void, statuses: *mut c_void);
    test_all = "PMPI_Testall" (n: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void);
    wait_any = "PMPI_Waitany" (n: c_int, requests: *mut c_void, index: *mut c_int, status: *mut c_void);
    test_any = "PMPI_Testany"
        (n: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int, status: *mut c_void);
    wait_some = "PMPI_Waitsome"
        (n: c_int, requests: *mut c_void, count: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
    test_some = "PMPI_Testsome"
        (n: c_int, requests: *mut c_void, count: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
    send = "PMPI_Send" (from: *const c_void, n: c_int, ty: Handle, to: c_int, tag: c_int, comm: Handle);
    send_receive = "PMPI_Sendrecv" (
        from: *const c_void, n: c_int, ty: Handle, target: c_int, tag: c_int,
        to: *mut c_void, m: c_int, of: Handle, source: c_int, with: c_int, comm: Handle, status: *mut c_void
    );
    receive_init = "PMPI_Recv_init"
        (to: *mut c_void, n: c_int, ty: Handle, source: c_int, tag: c_int, comm: Handle, request: *mut Handle);
}

// Functions of MPI 4.1 that the program calls through ours, also where the library is older.
own! {
    else absent;
    status_of_all = "PMPI_Request_get_status_all"
        (n: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void);
    status_of_any = "PMPI_Request_get_status_any"
        (n: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int, status: *mut c_void);
    status_of_some = "PMPI_Request_get_status_some"
        (n: c_int, requests: *mut c_void, count: *mut c_int, indices: *mut c_int, statuses: *mut c_void);
}

/// A function that the library lacks, and that has no communicator: its error goes to the handler of MPI_COMM_WORLD.
pub fn absent(function: &str) -> c_int {
    let comm = abi().map_or(0, |abi| abi.comm_world);
    super::world::absent(comm, function.strip_prefix('P').unwrap_or(function))
}
