//! Collectives on one vector, and the barrier: thin over [`Order`], each in three tenses.

use std::ffi::{c_int, c_void};

use circulant::collective::Collective;

use crate::communicator::CommunicatorHandle;
use crate::element::{CIRCULANT_UINT8, TypeNumber};
use crate::operator::OperatorHandle;
use crate::order::{Extent, InPlace, Order};
use crate::request::{RequestHandle, at_once, prepare, start};
use crate::status::Result;

/// # Safety
/// As `circulant_broadcast`.
unsafe fn broadcast(
    buffer: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, _) = Order::new(Collective::Broadcast, r#type, comm)?.root(root)?;
    // SAFETY: the caller's promise
    unsafe { order.buffer(buffer, Extent::Elements(count)) }
}

/// Sends the root's `count` elements to all ranks.
///
/// n - 1 + ceil(log2 p) rounds for n blocks, which is the least possible. `count`, `type` and `root` are the same on
/// all ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_broadcast(
    buffer: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_broadcast", || unsafe { broadcast(buffer, count, r#type, root, comm) })
}

/// Starts circulant_broadcast in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_broadcast_start(
    buffer: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe { start("circulant_broadcast_start", request, || broadcast(buffer, count, r#type, root, comm)) }
}

/// Prepares circulant_broadcast, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_broadcast_prepare(
    buffer: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_broadcast_prepare", request, || broadcast(buffer, count, r#type, root, comm))
    }
}

/// # Safety
/// As `circulant_reduce`.
unsafe fn reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    root: c_int,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let (order, is_root) = Order::new(Collective::Reduce, r#type, comm)?.fold(op)?.root(root)?;
    // SAFETY: the caller's promise; elsewhere than at the root the output is not looked at
    unsafe {
        let order = order.input(input, Extent::Elements(count), InPlace::at(is_root))?;
        if is_root { order.output(output, Extent::Elements(count), InPlace::Refused) } else { Ok(order) }
    }
}

/// Combines all ranks' `input`, element by element, into the root's `output`.
///
/// `output` is not looked at elsewhere. CIRCULANT_IN_PLACE as the root's `input`: it is in `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    root: c_int,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_reduce", || unsafe { reduce(input, output, count, r#type, op, root, comm) })
}

/// Starts circulant_reduce in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_start(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is done; `request` is null, or may be written
    unsafe {
        start("circulant_reduce_start", request, || reduce(input, output, count, r#type, op, root, comm))
    }
}

/// Prepares circulant_reduce, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_reduce_prepare(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    root: c_int,
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise, until the request is freed; `request` is null, or may be written
    unsafe {
        prepare("circulant_reduce_prepare", request, || reduce(input, output, count, r#type, op, root, comm))
    }
}

/// # Safety
/// As `circulant_allreduce`.
unsafe fn allreduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> Result<Order> {
    let order = Order::new(Collective::Allreduce, r#type, comm)?.fold(op)?;
    // SAFETY: the caller's promise
    unsafe {
        let order = order.input(input, Extent::Elements(count), InPlace::Allowed)?;
        order.output(output, Extent::Elements(count), InPlace::Refused)
    }
}

/// Combines all ranks' `input`, element by element, into everybody's `output`: bit for bit the same on all.
///
/// CIRCULANT_IN_PLACE as `input`: it is in `output`, and each rank may choose that for itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allreduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    r#type: TypeNumber,
    op: OperatorHandle,
    comm: CommunicatorHandle,
) -> c_int {
    // SAFETY: the caller's promise, until this returns
    at_once("circulant_allreduce", || unsafe { allreduce(input, output, count, r#type, op, comm) })
}

/// Starts circulant_allreduce in the background: as that, but the memory is in use until `*request` has been
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allreduce_start(
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
        start("circulant_allreduce_start", request, || allreduce(input, output, count, r#type, op, comm))
    }
}

/// Prepares circulant_allreduce, for circulant_start any number of times: as that, but the memory must last
/// until `*request` is freed, and is in use from each start until its wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_allreduce_prepare(
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
        prepare("circulant_allreduce_prepare", request, || allreduce(input, output, count, r#type, op, comm))
    }
}

fn barrier(comm: CommunicatorHandle) -> Result<Order> {
    Order::new(Collective::Barrier, CIRCULANT_UINT8, comm)
}

/// Waits until all ranks have called it. ceil(log2 p) rounds; twice as many, and fewer messages, where ranks share cores.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_barrier(comm: CommunicatorHandle) -> c_int {
    at_once("circulant_barrier", || barrier(comm))
}

/// Starts circulant_barrier in the background: `*request` is done when all ranks have started it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_barrier_start(
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's `request` is null, or may be written
    unsafe { start("circulant_barrier_start", request, || barrier(comm)) }
}

/// Prepares circulant_barrier, for circulant_start any number of times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_barrier_prepare(
    comm: CommunicatorHandle,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's `request` is null, or may be written
    unsafe { prepare("circulant_barrier_prepare", request, || barrier(comm)) }
}
