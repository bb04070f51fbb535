//! All-to-all: thin over [`Order`], each in three tenses.

use std::ffi::{c_int, c_void};

use circulant::collective::Collective;

use crate::communicator::CommunicatorHandle;
use crate::element::TypeNumber;
use crate::order::{Extent, InPlace, Order, Parts, is_in_place, places_of, words};
use crate::request::{RequestHandle, at_once, prepare, start};
use crate::status::Result;

/// # Safety
/// As `circulant_alltoall`.
unsafe fn alltoall(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::Alltoall, r#type, comm)?;
    let all = order.parts(count)?;
    order.fits_twice("count", &all, &all)?;
    // SAFETY: the caller's promise
    unsafe { order.input(input, all, InPlace::Allowed)?.output(output, all, InPlace::Refused) }
}

/// From every rank `count` elements for every rank: part t of rank s's `input` becomes part s of rank t's `output`.
///
/// Both have `count` times the number of ranks. CIRCULANT_IN_PLACE as `input`, on all ranks: it is in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoall(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_alltoall", || unsafe { alltoall(input, output, count, r#type, comm) })
}

/// Starts circulant_alltoall in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoall_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_alltoall_start", request, || alltoall(input, output, count, r#type, comm)) }
}

/// Prepares circulant_alltoall, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoall_prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe { prepare("circulant_alltoall_prepare", request, || alltoall(input, output, count, r#type, comm)) }
}

/// # Safety
/// As `circulant_alltoallv`.
unsafe fn alltoallv(
    input: Parts<*const c_void>,
    output: Parts<*mut c_void>,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::Alltoallv, r#type, comm)?;
    let p = order.size();
    // SAFETY: the caller's promise: a word for each rank, and memory as they say
    unsafe {
        let (received, places) = (words(output.counts, p, "received")?, places_of(output.places, p)?);
        let (sent, sent_places) = match is_in_place(input.start) {
            true => (received, places),
            false => (words(input.counts, p, "sent")?, places_of(input.places, p)?),
        };
        let order = order.pairs(sent, received)?;
        let order = order.input(input.start, Extent::Parts(sent, sent_places), InPlace::Allowed)?;
        order.output(output.start, Extent::Parts(received, places), InPlace::Refused)
    }
}

/// From every rank a part for every rank: `sent[r]` elements, from element `sent_places[r]` of `input` on, go to rank
/// r, and `received[r]` come from it, to element `received_places[r]` of `output` on. Places that are null: parts lie
/// one after the other.
///
/// What rank s sends to rank t is as much as t receives from s; nobody need send anything to anybody. CIRCULANT_IN_PLACE
/// as `input`, on all ranks: it is in `output`, in its places; `sent` and `sent_places` are not looked at then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoallv(
    input: *const c_void,
    sent: *const usize,
    sent_places: *const usize,
    output: *mut c_void,
    received: *const usize,
    received_places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
) -> c_int {
    let from = Parts { start: input, counts: sent, places: sent_places };
    let to = Parts { start: output, counts: received, places: received_places };
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_alltoallv", || unsafe { alltoallv(from, to, r#type, comm) })
}

/// Starts circulant_alltoallv in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoallv_start(
    input: *const c_void,
    sent: *const usize,
    sent_places: *const usize,
    output: *mut c_void,
    received: *const usize,
    received_places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    let from = Parts { start: input, counts: sent, places: sent_places };
    let to = Parts { start: output, counts: received, places: received_places };
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_alltoallv_start", request, || alltoallv(from, to, r#type, comm)) }
}

/// Prepares circulant_alltoallv, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_alltoallv_prepare(
    input: *const c_void,
    sent: *const usize,
    sent_places: *const usize,
    output: *mut c_void,
    received: *const usize,
    received_places: *const usize,
    r#type: TypeNumber,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    let from = Parts { start: input, counts: sent, places: sent_places };
    let to = Parts { start: output, counts: received, places: received_places };
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe { prepare("circulant_alltoallv_prepare", request, || alltoallv(from, to, r#type, comm)) }
}
