//! Communicators: groups of ranks that make the same calls in the same order.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, PoisonError, RwLock};

use circulant::collective::Collective;
use circulant::comm::Communicator;
use circulant::comm::call::RawCall;
use circulant::rank::Rank;

use crate::handle::{self, Object, Table};
use crate::memory;
use crate::status::{CIRCULANT_ERR_ARGUMENT, CIRCULANT_ERR_NULL, Failure, Result, guard};
use crate::world::WorldNumber;

/// What a communicator's handle points to: nothing that anybody can see.
pub enum CommunicatorObject {}

/// A communicator.
pub type CommunicatorHandle = *mut CommunicatorObject;

/// The colour of a rank that gets no new communicator.
pub const CIRCULANT_NO_COLOUR: c_int = -1;

/// The collectives, for circulant_comm_set_algorithm.
pub const CIRCULANT_BROADCAST: c_int = 1;
pub const CIRCULANT_BARRIER: c_int = 2;
pub const CIRCULANT_REDUCE: c_int = 5;
pub const CIRCULANT_ALLREDUCE: c_int = 6;
pub const CIRCULANT_ALLGATHER: c_int = 7;
pub const CIRCULANT_ALLGATHERV: c_int = 8;
pub const CIRCULANT_REDUCE_SCATTER: c_int = 9;
pub const CIRCULANT_REDUCE_SCATTER_BLOCK: c_int = 10;
pub const CIRCULANT_SCATTER: c_int = 11;
pub const CIRCULANT_SCATTERV: c_int = 12;
pub const CIRCULANT_GATHER: c_int = 13;
pub const CIRCULANT_GATHERV: c_int = 14;
pub const CIRCULANT_ALLTOALL: c_int = 15;
pub const CIRCULANT_ALLTOALLV: c_int = 16;

/// The collectives by number.
const COLLECTIVES: [(c_int, Collective); 14] = [
    (CIRCULANT_BROADCAST, Collective::Broadcast),
    (CIRCULANT_BARRIER, Collective::Barrier),
    (CIRCULANT_REDUCE, Collective::Reduce),
    (CIRCULANT_ALLREDUCE, Collective::Allreduce),
    (CIRCULANT_ALLGATHER, Collective::Allgather),
    (CIRCULANT_ALLGATHERV, Collective::Allgatherv),
    (CIRCULANT_REDUCE_SCATTER, Collective::ReduceScatter),
    (CIRCULANT_REDUCE_SCATTER_BLOCK, Collective::ReduceScatterBlock),
    (CIRCULANT_SCATTER, Collective::Scatter),
    (CIRCULANT_SCATTERV, Collective::Scatterv),
    (CIRCULANT_GATHER, Collective::Gather),
    (CIRCULANT_GATHERV, Collective::Gatherv),
    (CIRCULANT_ALLTOALL, Collective::Alltoall),
    (CIRCULANT_ALLTOALLV, Collective::Alltoallv),
];

/// A communicator, and what its caller wishes of it.
pub struct Comm {
    pub communicator: Communicator,
    /// The world that it is of, or came from.
    pub world: WorldNumber,
    pub is_world: bool,
    wishes: RwLock<HashMap<Collective, Wish>>,
}

/// How a collective is to be done.
#[derive(Debug, Clone, Default)]
struct Wish {
    algorithm: Option<String>,
    blocks: Option<u32>,
}

static COMMUNICATORS: Table<Comm> = Table::new();

impl Object for Comm {
    type Opaque = CommunicatorObject;
    const KIND: usize = 1;

    fn table() -> &'static Table<Comm> {
        &COMMUNICATORS
    }
}

impl Comm {
    pub fn new(communicator: Communicator, world: WorldNumber, is_world: bool) -> Comm {
        Comm { communicator, world, is_world, wishes: RwLock::default() }
    }

    /// One that came from this one, with its wishes.
    fn child(&self, communicator: Communicator) -> Comm {
        let wishes = self.wishes.read().unwrap_or_else(PoisonError::into_inner).clone();
        Comm { communicator, world: self.world, is_world: false, wishes: RwLock::new(wishes) }
    }

    /// A rank of C's, as one of this communicator's.
    pub fn rank(&self, name: &str, rank: c_int) -> Result<Rank> {
        let size = self.communicator.size();
        Rank::try_from(rank).ok().filter(|&rank| rank < size).ok_or_else(|| {
            let what = format!("{name} {rank} of a communicator of {size} ranks");
            Failure::new(CIRCULANT_ERR_ARGUMENT, what, format!("take one from 0 to {}", size - 1))
        })
    }

    fn wish(&self, collective: Collective, wish: Wish) {
        self.wishes.write().unwrap_or_else(PoisonError::into_inner).insert(collective, wish);
    }

    /// A barrier moves nothing, and its algorithm is refused at once where it does not serve these ranks.
    fn check_barrier(&self, wish: &Wish) -> Result<()> {
        self.communicator.barrier_choice(wish.algorithm.as_deref())?;
        if wish.blocks.is_none_or(|blocks| blocks == 1) {
            return Ok(());
        }
        let what = "blocks of a barrier, which moves no data";
        Err(Failure::new(CIRCULANT_ERR_ARGUMENT, what, "take 0 blocks"))
    }

    /// The call as it is wished to be done.
    pub fn as_wished(&self, call: RawCall) -> RawCall {
        let wishes = self.wishes.read().unwrap_or_else(PoisonError::into_inner);
        let Some(wish) = wishes.get(&call.collective()) else { return call };
        let call = wish.algorithm.iter().fold(call, |call, name| call.algorithm(name.as_str()));
        wish.blocks.into_iter().fold(call, RawCall::blocks)
    }
}

/// This process's rank in a communicator, from 0 on.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_rank(comm: CommunicatorHandle, rank: *mut c_int) -> c_int {
    guard("circulant_comm_rank", || {
        let comm = handle::get::<Comm>(comm)?;
        // SAFETY: the caller's `rank` may be written, where it is not null
        unsafe { memory::give(rank, "rank", comm.communicator.rank() as c_int) }
    })
}

/// How many ranks a communicator has.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_size(comm: CommunicatorHandle, size: *mut c_int) -> c_int {
    guard("circulant_comm_size", || {
        let comm = handle::get::<Comm>(comm)?;
        // SAFETY: the caller's `size` may be written, where it is not null
        unsafe { memory::give(size, "size", comm.communicator.size() as c_int) }
    })
}

/// Divides a communicator: ranks of one colour (0 or more) make a new one, in the order of their keys, and of
/// their ranks where keys are equal. A rank with CIRCULANT_NO_COLOUR gets null.
///
/// Collective: all ranks of `comm` call it. An allgather of three words a rank; in worlds of more than 48
/// ranks two. What circulant_comm_set_algorithm said of `comm` holds for the new one too.
///
/// Errors: CIRCULANT_ERR_ARGUMENT for another negative colour; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL; and
/// those of a collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_split(
    comm: CommunicatorHandle,
    colour: c_int,
    key: c_int,
    new_comm: *mut CommunicatorHandle,
) -> c_int {
    guard("circulant_comm_split", || {
        memory::check(new_comm, "new_comm")?;
        let comm = handle::get::<Comm>(comm)?;
        let colour = colour_of(colour)?;
        let made = comm.communicator.split(colour, i64::from(key))?;
        let made = made.map_or(std::ptr::null_mut(), |made| handle::insert(comm.child(made)));
        // SAFETY: the caller's `new_comm` may be written; it is not null (checked above)
        unsafe { memory::give(new_comm, "new_comm", made) }
    })
}

fn colour_of(colour: c_int) -> Result<Option<u32>> {
    match u32::try_from(colour) {
        Ok(colour) => Ok(Some(colour)),
        Err(_) if colour == CIRCULANT_NO_COLOUR => Ok(None),
        Err(_) => Err(Failure::new(
            CIRCULANT_ERR_ARGUMENT,
            format!("colour {colour}"),
            "take 0 or more, or CIRCULANT_NO_COLOUR for no new communicator",
        )),
    }
}

/// The same ranks once more: calls on one do not mix with calls on the other.
///
/// Collective. Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL; and those of a collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_duplicate(
    comm: CommunicatorHandle,
    new_comm: *mut CommunicatorHandle,
) -> c_int {
    guard("circulant_comm_duplicate", || {
        memory::check(new_comm, "new_comm")?;
        let comm = handle::get::<Comm>(comm)?;
        let made = handle::insert(comm.child(comm.communicator.duplicate()?));
        // SAFETY: the caller's `new_comm` may be written; it is not null (checked above)
        unsafe { memory::give(new_comm, "new_comm", made) }
    })
}

/// Gives a communicator up, once all its ranks do, and sets `*comm` to null. Requests that were started on it
/// go on.
///
/// Collective: a barrier. Where that fails the communicator is given up all the same.
///
/// Errors: CIRCULANT_ERR_ARGUMENT for a world, which circulant_finalize takes; CIRCULANT_ERR_HANDLE,
/// CIRCULANT_ERR_NULL; and those of a collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_free(comm: *mut CommunicatorHandle) -> c_int {
    let free = |handle| {
        if handle::get::<Comm>(handle)?.is_world {
            let what = "a communicator that circulant_init gave";
            return Err(Failure::new(CIRCULANT_ERR_ARGUMENT, what, "give it to circulant_finalize"));
        }
        handle::remove::<Comm>(handle)
    };
    guard("circulant_comm_free", || {
        // SAFETY: the caller's `comm` may be read and written, where it is not null
        let freed = unsafe { memory::take(comm, "comm", free) }?;
        Ok(freed.communicator.barrier()?)
    })
}

/// Names the algorithm of a collective's calls on a communicator, and the number of blocks: for those who know
/// better than the library, which chooses by sizes and what a put costs.
///
/// `collective` is CIRCULANT_ALLREDUCE or its like; `algorithm` one of `circulant plan --list`, or null for the
/// library's choice; `blocks` 0 for the library's choice. Holds for later calls on this communicator and those
/// that are split off. Local, but all ranks must say the same. Whether the two fit a call, that call tells.
///
/// Errors: CIRCULANT_ERR_ARGUMENT for no collective, no algorithm of it, negative blocks, or CIRCULANT_BARRIER in
/// several blocks or by an algorithm that does not serve these ranks; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_set_algorithm(
    comm: CommunicatorHandle,
    collective: c_int,
    algorithm: *const c_char,
    blocks: c_int,
) -> c_int {
    guard("circulant_comm_set_algorithm", || {
        let comm = handle::get::<Comm>(comm)?;
        let collective = collective_of(collective)?;
        // SAFETY: the caller's `algorithm` is null or a string
        let algorithm = unsafe { name_of(collective, algorithm)? };
        let blocks = u32::try_from(blocks).map_err(|_| {
            Failure::new(
                CIRCULANT_ERR_ARGUMENT,
                format!("{blocks} blocks"),
                "take 1 or more, or 0 for the library's choice",
            )
        })?;
        let wish = Wish { algorithm, blocks: Some(blocks).filter(|&blocks| blocks > 0) };
        if collective == Collective::Barrier {
            comm.check_barrier(&wish)?;
        }
        comm.wish(collective, wish);
        Ok(())
    })
}

fn collective_of(number: c_int) -> Result<Collective> {
    let found = COLLECTIVES.into_iter().find(|(one, _)| *one == number).map(|(_, collective)| collective);
    found.ok_or_else(|| {
        let what = format!("{number} is no collective");
        Failure::new(CIRCULANT_ERR_ARGUMENT, what, "take CIRCULANT_BROADCAST or its like")
    })
}

/// # Safety
/// `algorithm` is null, or a string.
unsafe fn name_of(collective: Collective, algorithm: *const c_char) -> Result<Option<String>> {
    if algorithm.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, so it is a string (the caller's promise)
    let name = unsafe { CStr::from_ptr(algorithm) }.to_string_lossy().into_owned();
    if circulant::algorithm::named(collective, &name).is_some() {
        return Ok(Some(name));
    }
    let names: Vec<_> = circulant::algorithm::of(collective).map(|entry| entry.name).collect();
    let what = format!("{} has no algorithm `{name}`", collective.name());
    Err(Failure::new(CIRCULANT_ERR_ARGUMENT, what, format!("take one of: {}", names.join(", "))))
}

/// What carries puts, such as "shm (writev) + net (libfabric 1.17)": a string of at most `bytes` bytes with its
/// zero, cut where it is longer.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_transport(
    comm: CommunicatorHandle,
    text: *mut c_char,
    bytes: usize,
) -> c_int {
    guard("circulant_comm_transport", || {
        let comm = handle::get::<Comm>(comm)?;
        // SAFETY: the caller's `text` has `bytes` bytes that may be written, where it is not null
        unsafe { tell(text, bytes, &comm.communicator.transport()) }
    })
}

/// How the ranks found each other, such as "PMI-1 (PMI_FD=7)"; `text` and `bytes` as for
/// circulant_comm_transport.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_boot(
    comm: CommunicatorHandle,
    text: *mut c_char,
    bytes: usize,
) -> c_int {
    guard("circulant_comm_boot", || {
        let comm = handle::get::<Comm>(comm)?;
        // SAFETY: as for circulant_comm_transport
        unsafe { tell(text, bytes, &comm.communicator.about().boot) }
    })
}

/// # Safety
/// `text` is null, or has `bytes` bytes that may be written.
unsafe fn tell(text: *mut c_char, bytes: usize, words: &str) -> Result<()> {
    if text.is_null() || bytes == 0 {
        return Err(Failure::new(CIRCULANT_ERR_NULL, "no room for a string", "give an array of characters"));
    }
    let most = words.len().min(bytes - 1);
    // SAFETY: - `most` and the zero behind fit in the caller's bytes
    //         - they are apart from ours, which is borrowed from a string of the library's own
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr().cast(), text, most);
        text.add(most).write(0);
    }
    Ok(())
}

/// How many nodes a communicator's ranks are on.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_nodes(comm: CommunicatorHandle, nodes: *mut c_int) -> c_int {
    guard("circulant_comm_nodes", || {
        let comm = handle::get::<Comm>(comm)?;
        // SAFETY: the caller's `nodes` may be written, where it is not null
        unsafe { memory::give(nodes, "nodes", comm.communicator.groups().count() as c_int) }
    })
}

/// Which node one of a communicator's ranks is on: a number from 0 on, in the order of the nodes' first ranks.
/// With it as a colour, circulant_comm_split gives each node a communicator of its own.
///
/// Errors: CIRCULANT_ERR_ARGUMENT for a rank that there is not; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_comm_node(
    comm: CommunicatorHandle,
    rank: c_int,
    node: *mut c_int,
) -> c_int {
    guard("circulant_comm_node", || {
        let comm = handle::get::<Comm>(comm)?;
        let rank = comm.rank("rank", rank)?;
        // SAFETY: the caller's `node` may be written, where it is not null
        unsafe { memory::give(node, "node", comm.communicator.groups().of(rank) as c_int) }
    })
}

/// A communicator for a call, alive as long as the call.
pub fn get(comm: CommunicatorHandle) -> Result<Arc<Comm>> {
    handle::get::<Comm>(comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_has_a_number() {
        let all = |one| COLLECTIVES.iter().filter(|(_, other)| *other == one).count();
        assert!(Collective::ALL.into_iter().all(|one| all(one) == 1));
        assert!(collective_of(3).is_err() && collective_of(-1).is_err());
    }
}
