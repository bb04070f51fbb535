//! The functions that wait for requests, ask after them, and start them, as the program calls them in C.
//!
//! Where no call of ours is in the background they are the library's own. Else those of ours that are done are told to
//! MPI first, and then MPI's own function says what there is to say, statuses and all. A prepared call of ours that
//! runs is not known to MPI as active; so MPI's word that nothing is active does not count while one of ours is.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use circulant::boot::mpi::abi::{Handle, UNDEFINED};
use circulant::error::Error;
use libloading::os::unix::Library;

use super::background::{self, Background};
use super::own;
use super::world;

/// The functions below, which tell MPI what is done.
const FUNCTIONS: [&str; 12] = [
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Request_get_status",
    "MPI_Request_free",
    "MPI_Start",
    "MPI_Startall",
];

/// The first of them that the program finds elsewhere, as it does in a tool that is loaded before this library. A wait
/// there would be the library's own, to which nobody ever tells that a call of ours is done.
pub fn found_elsewhere() -> Option<&'static str> {
    let program = Library::this();
    let here = file_of(found_elsewhere as *const c_void);
    let is_elsewhere = |name: &&&str| {
        // SAFETY: - any symbol's address may be looked at; it is not followed
        let symbol = unsafe { program.get::<*const c_void>(name.as_bytes()) };
        symbol.is_ok_and(|symbol| file_of(symbol.as_raw_ptr()) != here)
    };
    FUNCTIONS.iter().find(is_elsewhere).copied()
}

/// Where the file begins that an address is in.
fn file_of(address: *const c_void) -> *const c_void {
    // SAFETY: - a struct of addresses, which may be null
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: - any address may be asked for
    //         - `info` is one to be written
    unsafe { libc::dladdr(address, &mut info) };
    info.dli_fbase
}

/// A request of ours: its place among the program's, and its handle.
struct Ours {
    index: usize,
    handle: Handle,
    background: Arc<Background>,
}

/// The handle at a place of an array.
///
/// # Safety
/// - The array has that many handles.
pub unsafe fn read(requests: *const c_void, index: usize) -> Handle {
    let Some(abi) = own::abi() else { return 0 };
    let bytes = abi.flavour.handle_bytes();
    let mut handle: Handle = 0;
    // SAFETY: - the array has the handle (the caller), of so many bytes, which are the low ones of a word
    unsafe {
        let from = requests.cast::<u8>().add(index * bytes);
        std::ptr::copy_nonoverlapping(from, (&raw mut handle).cast(), bytes);
    }
    handle
}

/// Writes the handle at a place of an array.
///
/// # Safety
/// - The array has room for that many handles.
pub unsafe fn write(requests: *mut c_void, index: usize, handle: Handle) {
    let bytes = own::abi().map_or(0, |abi| abi.flavour.handle_bytes());
    // SAFETY: - the array has room for the handle (the caller), of so many bytes, which are the low ones of a word
    unsafe {
        let to = requests.cast::<u8>().add(index * bytes);
        std::ptr::copy_nonoverlapping((&raw const handle).cast(), to, bytes);
    }
}

/// Those of some requests that are ours.
///
/// # Safety
/// - The array has `n` handles.
unsafe fn ours(n: c_int, requests: *const c_void) -> Vec<Ours> {
    if background::is_empty() {
        return Vec::new();
    }
    // SAFETY: - the array has so many (the caller)
    let handles = (0..n.max(0) as usize).map(|index| (index, unsafe { read(requests, index) }));
    let ours = |(index, handle)| Some(Ours { index, handle, background: background::behind(handle)? });
    handles.filter_map(ours).collect()
}

/// Whether any of them is under way; tells MPI of all others.
fn any_runs(ours: &[Ours]) -> bool {
    ours.iter().filter(|one| one.background.is_running(one.handle)).count() > 0
}

/// Waits for all of them; the first error's code, or 0.
fn finish(ours: &[Ours]) -> c_int {
    ours.iter().map(|one| one.background.finish(one.handle)).fold(0, first_error)
}

/// Of those of ours that MPI has just said to be done, which `are_told` are, the first error's code, or 0: its own functions
/// know nothing of that. Where the program has only asked they stay as they are, and so does it.
fn failed(ours: &[Ours], only_asked: bool, are_told: impl Fn(usize) -> bool) -> c_int {
    let told = ours.iter().filter(|one| are_told(one.index));
    told.map(|one| one.background.code_of_error(only_asked)).fold(0, first_error)
}

fn first_error(ours: c_int, own: c_int) -> c_int {
    if ours == 0 { own } else { ours }
}

/// Lets MPI, and whoever shares the core, go on before one asks again.
fn again() {
    world::progress();
    std::thread::yield_now();
}

/// # Safety
/// - As MPI has it, here and below.
#[unsafe(export_name = "MPI_Wait")]
pub unsafe extern "C" fn wait(request: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: - the program gives one request
    let code = finish(&unsafe { ours(1, request) });
    // SAFETY: - the program's own call, as it made it
    first_error(code, unsafe { own::wait(request, status) })
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Waitall")]
pub unsafe extern "C" fn wait_all(n: c_int, requests: *mut c_void, statuses: *mut c_void) -> c_int {
    // SAFETY: - the program gives `n` requests
    let code = finish(&unsafe { ours(n, requests) });
    // SAFETY: - the program's own call, as it made it
    first_error(code, unsafe { own::wait_all(n, requests, statuses) })
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Waitany")]
pub unsafe extern "C" fn wait_any(
    n: c_int,
    requests: *mut c_void,
    index: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: - the program gives `n` requests
    let ours = unsafe { ours(n, requests) };
    if ours.is_empty() {
        // SAFETY: - the program's own call, as it made it
        return unsafe { own::wait_any(n, requests, index, status) };
    }
    loop {
        let (runs, mut flag) = (any_runs(&ours), 0);
        // SAFETY: - as the program's own call, which waits for this to be true
        let code = unsafe { own::test_any(n, requests, index, &mut flag, status) };
        // SAFETY: - the program gives an int to be written, as MPI has done if `flag` says so
        let told = if flag == 0 { UNDEFINED } else { unsafe { *index } };
        if code != 0 || (flag != 0 && !(runs && told == UNDEFINED)) {
            return first_error(failed(&ours, false, |place| place as c_int == told), code);
        }
        again();
    }
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Waitsome")]
pub unsafe extern "C" fn wait_some(
    n: c_int,
    requests: *mut c_void,
    count: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: - the program gives `n` requests
    let ours = unsafe { ours(n, requests) };
    if ours.is_empty() {
        // SAFETY: - the program's own call, as it made it
        return unsafe { own::wait_some(n, requests, count, indices, statuses) };
    }
    loop {
        let runs = any_runs(&ours);
        // SAFETY: - as the program's own call, which waits for this to find some
        let code = unsafe { own::test_some(n, requests, count, indices, statuses) };
        // SAFETY: - the program gives an int to be written, as MPI has done
        match unsafe { *count } {
            0 if code == 0 => {}
            UNDEFINED if runs && code == 0 => {}
            // SAFETY: - the program gives as many indices to be written, as MPI has done of those that it counts
            count => return first_error(failed(&ours, false, unsafe { among(indices, count) }), code),
        }
        again();
    }
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Test")]
pub unsafe extern "C" fn test(request: *mut c_void, flag: *mut c_int, status: *mut c_void) -> c_int {
    // SAFETY: - the program gives one request
    let ours = unsafe { ours(1, request) };
    if any_runs(&ours) {
        // SAFETY: - the program gives an int to be written
        return unsafe { not_yet(flag) };
    }
    // SAFETY: - the program's own call, as it made it, which has written the int
    let (code, done) = unsafe { (own::test(request, flag, status), *flag != 0) };
    first_error(failed(&ours, false, |_| done), code)
}

/// Whether a place is among the first indices.
///
/// # Safety
/// - There are so many.
unsafe fn among(indices: *const c_int, count: c_int) -> impl Fn(usize) -> bool {
    // SAFETY: - there are so many (the caller)
    let indices = (0..count.max(0) as usize).map(|i| unsafe { *indices.add(i) }).collect::<Vec<_>>();
    move |place| indices.contains(&(place as c_int))
}

/// # Safety
/// - `flag` is an int to be written.
unsafe fn not_yet(flag: *mut c_int) -> c_int {
    // SAFETY: - an int to be written (the caller)
    unsafe { *flag = 0 };
    world::progress();
    0
}

/// The functions that ask whether all of some requests are done, any, or which: to ask alone leaves them as they are.
macro_rules! asked {
    ($all:literal, $all_fn:ident, $any:literal, $any_fn:ident, $some:literal, $some_fn:ident, $only_asked:literal) => {
        /// # Safety
        /// - As MPI has it.
        #[unsafe(export_name = $all)]
        pub unsafe extern "C" fn $all_fn(
            n: c_int,
            requests: *mut c_void,
            flag: *mut c_int,
            statuses: *mut c_void,
        ) -> c_int {
            // SAFETY: - the program gives `n` requests
            let ours = unsafe { ours(n, requests) };
            if any_runs(&ours) {
                // SAFETY: - the program gives an int to be written
                return unsafe { not_yet(flag) };
            }
            // SAFETY: - the program's own call, as it made it, which has written the int
            let (code, done) = unsafe { (own::$all_fn(n, requests, flag, statuses), *flag != 0) };
            first_error(failed(&ours, $only_asked, |_| done), code)
        }

        /// # Safety
        /// - As MPI has it.
        #[unsafe(export_name = $any)]
        pub unsafe extern "C" fn $any_fn(
            n: c_int,
            requests: *mut c_void,
            index: *mut c_int,
            flag: *mut c_int,
            status: *mut c_void,
        ) -> c_int {
            // SAFETY: - the program gives `n` requests
            let ours = unsafe { ours(n, requests) };
            let runs = any_runs(&ours);
            // SAFETY: - the program's own call, as it made it
            let code = unsafe { own::$any_fn(n, requests, index, flag, status) };
            // SAFETY: - the program gives two ints to be written, as MPI has done
            let told = unsafe {
                if runs && *flag != 0 && *index == UNDEFINED {
                    *flag = 0;
                }
                if *flag == 0 { UNDEFINED } else { *index }
            };
            first_error(failed(&ours, $only_asked, |place| place as c_int == told), code)
        }

        /// # Safety
        /// - As MPI has it.
        #[unsafe(export_name = $some)]
        pub unsafe extern "C" fn $some_fn(
            n: c_int,
            requests: *mut c_void,
            count: *mut c_int,
            indices: *mut c_int,
            statuses: *mut c_void,
        ) -> c_int {
            // SAFETY: - the program gives `n` requests
            let ours = unsafe { ours(n, requests) };
            let runs = any_runs(&ours);
            // SAFETY: - the program's own call, as it made it
            let code = unsafe { own::$some_fn(n, requests, count, indices, statuses) };
            // SAFETY: - the program gives an int to be written, and as many indices, as MPI has done
            let told = unsafe {
                if runs && *count == UNDEFINED {
                    *count = 0;
                }
                among(indices, *count)
            };
            first_error(failed(&ours, $only_asked, told), code)
        }
    };
}

asked!("MPI_Testall", test_all, "MPI_Testany", test_any, "MPI_Testsome", test_some, false);
asked!(
    "MPI_Request_get_status_all",
    status_of_all,
    "MPI_Request_get_status_any",
    status_of_any,
    "MPI_Request_get_status_some",
    status_of_some,
    true
);

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Request_get_status")]
pub unsafe extern "C" fn status_of(request: Handle, flag: *mut c_int, status: *mut c_void) -> c_int {
    let Some(abi) = own::abi() else { return own::ABSENT_CODE };
    let handle = abi.flavour.handle(request);
    let behind = background::behind(handle);
    let ours: Vec<_> = behind.into_iter().map(|background| Ours { index: 0, handle, background }).collect();
    if any_runs(&ours) {
        // SAFETY: - the program gives an int to be written
        return unsafe { not_yet(flag) };
    }
    // SAFETY: - the program's own call, as it made it, which has written the int
    let (code, done) = unsafe { (own::status_of(request, flag, status), *flag != 0) };
    first_error(failed(&ours, true, |_| done), code)
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Request_free")]
pub unsafe extern "C" fn free(request: *mut c_void) -> c_int {
    // SAFETY: - the program gives one request
    let ours = unsafe { ours(1, request) };
    let code = finish(&ours);
    ours.iter().for_each(|one| background::forget(one.handle));
    // SAFETY: - the program gives one request
    background::is_freed(unsafe { read(request, 0) });
    // SAFETY: - the program's own call, as it made it
    first_error(code, unsafe { own::request_free(request) })
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Start")]
pub unsafe extern "C" fn start(request: *mut c_void) -> c_int {
    // SAFETY: - the program gives one request
    let (ours, handle) = unsafe { (ours(1, request), read(request, 0)) };
    match ours.first() {
        Some(one) => one.background.start(),
        None if background::is_gone(handle) => too_late(),
        // SAFETY: - the program's own call, as it made it
        None => unsafe { own::start(request) },
    }
}

/// A prepared call of ours is started in MPI_Finalize, when the ranks have left each other.
fn too_late() -> c_int {
    let what = "a persistent collective is started after MPI_Finalize has begun";
    let error = Error::argument("MPI_Start", what, "start it before");
    world::fail(own::abi().map_or(0, |abi| abi.comm_world), &error)
}

/// # Safety
/// - As MPI has it.
#[unsafe(export_name = "MPI_Startall")]
pub unsafe extern "C" fn start_all(n: c_int, requests: *mut c_void) -> c_int {
    // SAFETY: - the program gives `n` requests
    let (ours, mut handles) =
        unsafe { (ours(n, requests), (0..n.max(0) as usize).map(|index| read(requests, index))) };
    if ours.is_empty() && !handles.any(background::is_gone) {
        // SAFETY: - the program's own call, as it made it
        return unsafe { own::start_all(n, requests) };
    }
    let bytes = own::abi().map_or(0, |abi| abi.flavour.handle_bytes());
    let each = (0..n.max(0) as usize).map(|index| requests.cast::<u8>().wrapping_add(index * bytes).cast());
    // SAFETY: - each is a request of the program's
    each.map(|request| unsafe { start(request) }).fold(0, first_error)
}
