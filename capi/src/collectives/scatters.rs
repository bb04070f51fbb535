//! Collectives that hand parts out: thin over [`Order`], each in three tenses.

use std::ffi::{c_int, c_void};

use circulant::collective::Collective;

use crate::communicator::CommunicatorHandle;
use crate::element::TypeNumber;
use crate::operator::OperatorHandle;
use crate::order::{Extent, InPlace, Order, places_of, words};
use crate::request::{RequestHandle, at_once, prepare, start};
use crate::status::Result;

/// # Safety
/// As `circulant_reduce_scatter`.
unsafe fn reduce_scatter(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::ReduceScatter, r#type, comm)?.fold(op)?;
    // SAFETY: the caller's promise: a word for each rank, and memory as they say
    unsafe {
        let counts = words(counts, order.size(), "counts")?;
        let own = Extent::Elements(counts[order.rank()]);
        order.counts(counts)?.reduced(input, output, Extent::Parts(counts, None), own)
    }
}

/// Combines all ranks' `input`, element by element; rank r gets the `counts[r]` elements that are its part in
/// `output`.
///
/// Parts lie one after the other; `counts` are the same on all ranks. CIRCULANT_IN_PLACE as `input`, on all ranks: it is
/// in `output`, which is as long then; the part comes to its front, and the rest is used up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_reduce_scatter", || unsafe { reduce_scatter(input, output, counts, r#type, op, comm) })
}

/// Starts circulant_reduce_scatter in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter_start(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_reduce_scatter_start", request, || {
            reduce_scatter(input, output, counts, r#type, op, comm)
        })
    }
}

/// Prepares circulant_reduce_scatter, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter_prepare(
    input: *const c_void,
    output: *mut c_void,
    counts: *const usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_reduce_scatter_prepare", request, || {
            reduce_scatter(input, output, counts, r#type, op, comm)
        })
    }
}

/// # Safety
/// As `circulant_reduce_scatter_block`.
unsafe fn reduce_scatter_block(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::ReduceScatterBlock, r#type, comm)?.fold(op)?;
    let all = order.parts(count)?;
    // SAFETY: the caller's promise
    unsafe { order.reduced(input, output, all, Extent::Elements(count)) }
}

/// Combines all ranks' `input`, of `count` elements for each rank; rank r gets the r-th of these parts in `output`.
///
/// CIRCULANT_IN_PLACE as `input`, on all ranks: it is in `output`, which is as long then; the part comes to its
/// front, and the rest is used up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter_block(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_reduce_scatter_block", || unsafe {
        reduce_scatter_block(input, output, count, r#type, op, comm)
    })
}

/// Starts circulant_reduce_scatter_block in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter_block_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_reduce_scatter_block_start", request, || {
            reduce_scatter_block(input, output, count, r#type, op, comm)
        })
    }
}

/// Prepares circulant_reduce_scatter_block, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_scatter_block_prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_reduce_scatter_block_prepare", request, || {
            reduce_scatter_block(input, output, count, r#type, op, comm)
        })
    }
}

/// # Safety
/// As `circulant_scatter`.
unsafe fn scatter(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, is_root) = Order::new(Collective::Scatter, r#type, comm)?.root(root)?;
    let all = order.parts(count)?;
    // SAFETY: the caller's promise; elsewhere than at the root the input is not looked at
    unsafe {
        let order = order.output(output, Extent::Elements(count), InPlace::at(is_root))?;
        if is_root { order.input(input, all, InPlace::Refused) } else { Ok(order) }
    }
}

/// Sends each rank its `count` elements of the root's `input`, which has `count` times the number of ranks.
///
/// `input` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `output`: its part stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatter(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_scatter", || unsafe { scatter(input, output, count, r#type, root, comm) })
}

/// Starts circulant_scatter in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatter_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_scatter_start", request, || scatter(input, output, count, r#type, root, comm)) }
}

/// Prepares circulant_scatter, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatter_prepare(
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
        prepare("circulant_scatter_prepare", request, || scatter(input, output, count, r#type, root, comm))
    }
}

/// # Safety
/// As `circulant_scatterv`.
unsafe fn scatterv(
    input: *const c_void,
    counts: *const usize,
    places: *const usize,
    output: *mut c_void,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, is_root) = Order::new(Collective::Scatterv, r#type, comm)?.root(root)?;
    // SAFETY: the caller's promise: a word for each rank, and memory as they say; elsewhere than at the root the
    // input and its places are not looked at
    unsafe {
        let counts = words(counts, order.size(), "counts")?;
        let own = Extent::Elements(counts[order.rank()]);
        let order = order.counts(counts)?.output(output, own, InPlace::at(is_root))?;
        if !is_root {
            return Ok(order);
        }
        let places = places_of(places, order.size())?;
        order.input(input, Extent::Parts(counts, places), InPlace::Refused)
    }
}

/// Sends each rank its part of the root's `input`: rank r's has `counts[r]` elements, and begins at element
/// `places[r]` of `input`; with `places` null they lie one after the other.
///
/// `counts` are the same on all ranks, unlike MPI's; `input` and `places` are not looked at elsewhere than at the
/// root. CIRCULANT_IN_PLACE as the root's `output`: its part stays where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatterv(
    input: *const c_void,
    counts: *const usize,
    places: *const usize,
    output: *mut c_void,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_scatterv", || unsafe { scatterv(input, counts, places, output, r#type, root, comm) })
}

/// Starts circulant_scatterv in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatterv_start(
    input: *const c_void,
    counts: *const usize,
    places: *const usize,
    output: *mut c_void,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_scatterv_start", request, || {
            scatterv(input, counts, places, output, r#type, root, comm)
        })
    }
}

/// Prepares circulant_scatterv, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_scatterv_prepare(
    input: *const c_void,
    counts: *const usize,
    places: *const usize,
    output: *mut c_void,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_scatterv_prepare", request, || {
            scatterv(input, counts, places, output, r#type, root, comm)
        })
    }
}
