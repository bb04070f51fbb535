//! Collectives that bring parts together: thin over [`Order`], each in three tenses.

use std::ffi::{c_int, c_void};

use circulant::collective::Collective;

use crate::communicator::CommunicatorHandle;
use crate::element::TypeNumber;
use crate::order::{Extent, InPlace, Order, places_of, words};
use crate::request::{RequestHandle, at_once, prepare, start};
use crate::status::Result;

/// # Safety
/// As `circulant_allgather`.
unsafe fn allgather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::Allgather, r#type, comm)?;
    let all = order.parts(count)?;
    // SAFETY: the caller's promise
    unsafe {
        let order = order.input(input, Extent::Elements(count), InPlace::Allowed)?;
        order.output(output, all, InPlace::Refused)
    }
}

/// Gathers every rank's `count` elements into everybody's `output`, in rank order: `count` times the number of ranks.
///
/// CIRCULANT_IN_PLACE as `input`: it is in its place in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_allgather", || unsafe { allgather(input, output, count, r#type, comm) })
}

/// Starts circulant_allgather in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgather_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_allgather_start", request, || allgather(input, output, count, r#type, comm)) }
}

/// Prepares circulant_allgather, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgather_prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_allgather_prepare", request, || allgather(input, output, count, r#type, comm))
    }
}

/// # Safety
/// As `circulant_allgatherv`.
unsafe fn allgatherv(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::Allgatherv, r#type, comm)?;
    // SAFETY: the caller's promise: a word for each rank, and memory as they say
    unsafe {
        let (counts, places) = (words(counts, order.size(), "counts")?, places_of(places, order.size())?);
        let own = Extent::Elements(counts[order.rank()]);
        let order = order.counts(counts)?.input(input, own, InPlace::Allowed)?;
        order.output(output, Extent::Parts(counts, places), InPlace::Refused)
    }
}

/// Gathers every rank's part into everybody's `output`: rank r's has `counts[r]` elements, and begins at element
/// `places[r]` of `output`; with `places` null they lie one after the other.
///
/// `counts` are the same on all ranks. CIRCULANT_IN_PLACE as `input`: it is in its place in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgatherv(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_allgatherv", || unsafe { allgatherv(input, output, counts, places, r#type, comm) })
}

/// Starts circulant_allgatherv in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgatherv_start(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_allgatherv_start", request, || {
            allgatherv(input, output, counts, places, r#type, comm)
        })
    }
}

/// Prepares circulant_allgatherv, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allgatherv_prepare(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_allgatherv_prepare", request, || {
            allgatherv(input, output, counts, places, r#type, comm)
        })
    }
}

/// # Safety
/// As `circulant_gather`.
unsafe fn gather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, is_root) = Order::new(Collective::Gather, r#type, comm)?.root(root)?;
    let all = order.parts(count)?;
    // SAFETY: the caller's promise; elsewhere than at the root the output is not looked at
    unsafe {
        let order = order.input(input, Extent::Elements(count), InPlace::at(is_root))?;
        if is_root { order.output(output, all, InPlace::Refused) } else { Ok(order) }
    }
}

/// Gathers every rank's `count` elements into the root's `output`, in rank order: `count` times the number of ranks.
///
/// `output` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `input`: it is in its place in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_gather", || unsafe { gather(input, output, count, r#type, root, comm) })
}

/// Starts circulant_gather in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gather_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_gather_start", request, || gather(input, output, count, r#type, root, comm)) }
}

/// Prepares circulant_gather, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gather_prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_gather_prepare", request, || gather(input, output, count, r#type, root, comm))
    }
}

/// # Safety
/// As `circulant_gatherv`.
unsafe fn gatherv(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, is_root) = Order::new(Collective::Gatherv, r#type, comm)?.root(root)?;
    // SAFETY: the caller's promise: a word for each rank, and memory as they say; elsewhere than at the root the
    // output and its places are not looked at
    unsafe {
        let counts = words(counts, order.size(), "counts")?;
        let own = Extent::Elements(counts[order.rank()]);
        let order = order.counts(counts)?.input(input, own, InPlace::at(is_root))?;
        if !is_root {
            return Ok(order);
        }
        let places = places_of(places, order.size())?;
        order.output(output, Extent::Parts(counts, places), InPlace::Refused)
    }
}

/// Gathers every rank's part into the root's `output`: rank r's has `counts[r]` elements, and begins at element
/// `places[r]` of `output`; with `places` null they lie one after the other.
///
/// `counts` are the same on all ranks, unlike MPI's; `output` and `places` are not looked at elsewhere than at the
/// root. CIRCULANT_IN_PLACE as the root's `input`: it is in its place in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gatherv(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_gatherv", || unsafe { gatherv(input, output, counts, places, r#type, root, comm) })
}

/// Starts circulant_gatherv in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gatherv_start(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_gatherv_start", request, || {
            gatherv(input, output, counts, places, r#type, root, comm)
        })
    }
}

/// Prepares circulant_gatherv, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_gatherv_prepare(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    places: *const usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_gatherv_prepare", request, || {
            gatherv(input, output, counts, places, r#type, root, comm)
        })
    }
}
