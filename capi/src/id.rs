//! A world by an id, that one process makes and the program carries to the others.

use std::ffi::{c_int, c_uchar};

use circulant::boot::{UniqueId, Variables};
use circulant::comm::Communicator;
use circulant::comm::settings::Settings;

use crate::communicator::CommunicatorHandle;
use crate::memory;
use crate::status::guard;
use crate::world::{init, place};

/// Bytes of a circulant_id.
pub const CIRCULANT_ID_BYTES: usize = 128;

/// What a process makes, and all others are given, so that they find each other.
#[repr(C)]
pub struct Id {
    /// Not for you to look into; may be copied and sent as it is.
    pub bytes: [c_uchar; CIRCULANT_ID_BYTES],
}

/// Makes an id by which processes find each other: one process makes it, the program carries it to the others as it
/// likes, and each gives it to circulant_init_id with a rank of its own. It is used once.
///
/// The process that made it listens until all ranks have joined, by a thread and some descriptors, so it is to live until
/// then; an id that is never used keeps these to the end of the process. It may be a rank of any number, or none.
///
/// Errors: CIRCULANT_ERR_BOOT where there is no port to listen at; CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_id_create(id: *mut Id) -> c_int {
    guard("circulant_id_create", || {
        memory::check(id, "id")?;
        let bytes = UniqueId::new()?.to_bytes();
        // SAFETY: the caller's `id` may be written; it is not null (checked above)
        unsafe { memory::give(id, "id", Id { bytes }) }
    })
}

/// What circulant_init_id calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_init_id_version(
    major: c_int,
    minor: c_int,
    rank: c_int,
    size: c_int,
    id: *const Id,
    world: *mut CommunicatorHandle,
) -> c_int {
    let join = || {
        memory::check(id.cast_mut(), "id")?;
        // SAFETY: the caller's `id` may be read; it is not null (checked above)
        let id = UniqueId::from_bytes(unsafe { &(*id).bytes })?;
        let exchange = id.join_within(place(rank, size)?, Variables::of_the_process().timeout()?)?;
        Ok(Communicator::world_by(exchange, &Settings::from_environment()?)?)
    };
    // SAFETY: the caller's `world` is null, or may be written
    unsafe { init("circulant_init_id", (major, minor), world, join) }
}
