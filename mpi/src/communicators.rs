//! The program's communicators, and ours of the same ranks.
//!
//! A communicator is made at the first collective on it that may wait, by all its ranks, and kept as an attribute
//! of MPI's, so that it goes when the program frees its own, and a handle that is used again is another communicator.
//! The way from a handle to ours is one comparison where a thread stays with few communicators.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use circulant::boot::mpi::abi::Handle;
use circulant::comm::Communicator;
use circulant::error::{Error, Result, tell};
use circulant::rank::{Place, Rank};

use super::own;

/// A communicator of the program's that is served.
pub struct Served {
    pub comm: Communicator,
    pub handle: Handle,
    pub place: Place,
    id: usize,
    /// How many calls were made on it, by collective; they are the same on all its ranks.
    calls: [AtomicU32; 32],
    /// The program has freed its own.
    freed: AtomicBool,
}

impl Served {
    /// The number of this call of a collective, from 0.
    pub fn next_call(&self, collective: u8) -> u32 {
        self.calls[collective as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// The communicator whose error handler hears of a call in the background: after the program has freed its own, the world.
    pub fn whose_handler(&self) -> Handle {
        match self.freed.load(Ordering::Acquire) {
            true => own::abi().map_or(self.handle, |abi| abi.comm_world),
            false => self.handle,
        }
    }
}

/// A communicator while a call is made on it, which the program cannot free meanwhile.
pub struct Found(NonNull<Served>);

impl Deref for Found {
    type Target = Served;

    fn deref(&self) -> &Served {
        // SAFETY: - the registry keeps it until the program frees the communicator, which MPI forbids during a call
        unsafe { self.0.as_ref() }
    }
}

impl Found {
    /// To be kept for a call in the background, which may outlast the program's communicator.
    pub fn keep(&self) -> Option<Arc<Served>> {
        registry().get(&self.id).cloned()
    }
}

/// An attribute's value where a communicator is of one rank.
const ALONE: usize = 1;
/// Where it is not served for another reason.
const NOT_SERVED: usize = ALONE + 1;
/// Of MPI_COMM_WORLD, which is the first.
const WORLD: usize = NOT_SERVED + 1;

/// Why a communicator is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// It is of one rank.
    Alone,
    /// It is between two groups, has ranks of elsewhere, or none could be made; or it is not known yet, and may not be made now.
    Other,
}

impl Unserved {
    fn attribute(self) -> usize {
        match self {
            Unserved::Alone => ALONE,
            Unserved::Other => NOT_SERVED,
        }
    }
}

/// What is known of a communicator.
type Known = std::result::Result<NonNull<Served>, Unserved>;

static REGISTRY: Mutex<Option<HashMap<usize, Arc<Served>>>> = Mutex::new(None);
static NEXT: AtomicUsize = AtomicUsize::new(WORLD);
static KEYVAL: AtomicI32 = AtomicI32::new(0);
/// Raised whenever a communicator goes; what threads remember of before counts no more.
static GENERATION: AtomicU64 = AtomicU64::new(1);

struct Registry(MutexGuard<'static, Option<HashMap<usize, Arc<Served>>>>);

impl Deref for Registry {
    type Target = HashMap<usize, Arc<Served>>;

    fn deref(&self) -> &Self::Target {
        static NONE: std::sync::LazyLock<HashMap<usize, Arc<Served>>> =
            std::sync::LazyLock::new(HashMap::new);
        self.0.as_ref().unwrap_or(&NONE)
    }
}

fn registry() -> Registry {
    Registry(REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a thread remembers: generation, handle, and what is known of it.
type Memory = Cell<(u64, Handle, Known)>;

thread_local! {
    static LAST: [Memory; 4] = const { [const { Cell::new((0, 0, Err(Unserved::Other))) }; 4] };
}

/// The communicator that serves the program's; makes it, if that `may_wait` for the others.
pub fn find(handle: Handle, may_wait: bool) -> std::result::Result<Found, Unserved> {
    let generation = GENERATION.load(Ordering::Relaxed);
    LAST.with(|last| {
        let same = |(since, there, found)| (since == generation && there == handle).then_some(found);
        match last.iter().find_map(|memory| same(memory.get())) {
            Some(found) => found.map(Found),
            None => {
                let found = look_up(handle, may_wait).ok_or(Unserved::Other)?;
                last.windows(2).rev().for_each(|pair| pair[1].set(pair[0].get()));
                last[0].set((generation, handle, found));
                found.map(Found)
            }
        }
    })
}

/// `None` where it is not known yet; else by what it is served.
#[cold]
fn look_up(handle: Handle, may_wait: bool) -> Option<Known> {
    drop_those_over();
    if own::abi()?.comm_null == handle {
        return None;
    }
    let (mut id, mut flag) = (0usize, 0);
    // SAFETY: - the handle is the program's, who gave it for a communicator; the keyval is ours
    //         - `id` has room for an attribute's value
    let code = unsafe {
        own::get_attribute(handle, KEYVAL.load(Ordering::Relaxed), (&raw mut id).cast(), &mut flag)
    };
    match (code, flag) {
        (0, 0) if may_wait => Some(serve(handle)),
        (0, 0) => None,
        (0, _) if id == ALONE => Some(Err(Unserved::Alone)),
        (0, _) => Some(registry().get(&id).map(|served| NonNull::from(&**served)).ok_or(Unserved::Other)),
        _ => None,
    }
}

/// Makes ours for a communicator of the program's. All its ranks come here with the same call, where ranks that wait for this
/// one hear that it waits for them.
fn serve(handle: Handle) -> Known {
    let (members, place) = match ranks_in_world(handle) {
        Ok(found) => found,
        Err(why) => return put_down(handle, Err(why)),
    };
    let world = registry().get(&WORLD).cloned().ok_or(Unserved::Other)?;
    let make = || make(handle, &world, &members, place);
    let made = world.comm.status().elsewhere("the first collective", "on a communicator", make);
    put_down(handle, made.map(|comm| (comm, place)).ok_or(Unserved::Other))
}

/// A communicator of these ranks, if all make it.
fn make(handle: Handle, world: &Served, members: &[Rank], place: Place) -> Option<Communicator> {
    let mut together = Together { gather: |own: &[u8]| gather(handle, place, own), over: false };
    let made = world.comm.of_group(members, |own| together.exchange(own));
    if let (Err(trouble), false) = (&made, together.over) {
        tell(format!("a communicator of {} ranks is passed on: {trouble}", place.size));
    }
    let well = together.end(made.is_ok());
    made.ok().filter(|_| well)
}

/// What ranks make together in some exchanges, the same on all. Each begins with a word of every rank, so that one that
/// fails says so in the next one, whatever the others are about, and all hear it at the same place.
struct Together<G> {
    /// As many bytes of each rank.
    gather: G,
    /// A rank has given up, and all have heard it.
    over: bool,
}

impl<G: FnMut(&[u8]) -> Result<Vec<Vec<u8>>>> Together<G> {
    fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self.goes_on(true)? {
            true => (self.gather)(own),
            false => Err(Error::boot("another rank has given up", "its own words say why")),
        }
    }

    /// Whether it has worked on all ranks.
    fn end(mut self, well: bool) -> bool {
        !self.over && self.goes_on(well).unwrap_or(false)
    }

    fn goes_on(&mut self, well: bool) -> Result<bool> {
        let words = (self.gather)(&[u8::from(well)])?;
        self.over = !words.iter().all(|word| word == &[1]);
        Ok(!self.over)
    }
}

/// Remembers with the program's communicator whether it is served, and by what.
fn put_down(handle: Handle, made: std::result::Result<(Communicator, Place), Unserved>) -> Known {
    let id = match &made {
        Ok(_) => NEXT.fetch_add(1, Ordering::Relaxed),
        Err(why) => why.attribute(),
    };
    // SAFETY: - the communicator is the program's, the keyval ours
    unsafe { own::set_attribute(handle, KEYVAL.load(Ordering::Relaxed), id as *mut c_void) };
    let (comm, place) = made?;
    let served = Arc::new(Served {
        comm,
        handle,
        place,
        id,
        calls: Default::default(),
        freed: AtomicBool::new(false),
    });
    let found = NonNull::from(&*served);
    registry().0.get_or_insert_default().insert(id, served);
    Ok(found)
}

/// A communicator's ranks in MPI_COMM_WORLD, unless it is between two groups, alone, or has others. All its ranks find the same.
fn ranks_in_world(handle: Handle) -> std::result::Result<(Vec<Rank>, Place), Unserved> {
    let abi = own::abi().ok_or(Unserved::Other)?;
    let (mut inter, mut size, mut rank, mut group, mut all) = (0, 0, 0, 0, 0);
    // SAFETY: - the communicator is the program's
    //         - the numbers are ints, and the handles have room for any library's
    let codes = unsafe {
        [
            own::comm_test_inter(handle, &mut inter),
            own::comm_size(handle, &mut size),
            own::comm_rank(handle, &mut rank),
        ]
    };
    match (codes, inter, size) {
        ([0, 0, 0], 0, 2..) => {}
        ([0, 0, 0], 0, 1) => return Err(Unserved::Alone),
        _ => return Err(Unserved::Other),
    }
    let numbers: Vec<c_int> = (0..size).collect();
    let mut there = vec![-1; numbers.len()];
    // SAFETY: - as above; both arrays have as many numbers as the group has ranks
    //         - both groups are ours to free
    let codes = unsafe {
        [
            own::comm_group(handle, &mut group),
            own::comm_group(abi.comm_world, &mut all),
            own::translate(group, size, numbers.as_ptr(), all, there.as_mut_ptr()),
            own::group_free(&mut group),
            own::group_free(&mut all),
        ]
    };
    let members: Option<Vec<Rank>> = there.iter().map(|&rank| rank.try_into().ok()).collect();
    let place = Place { rank: rank as Rank, size: size as u32 };
    members.filter(|_| codes == [0; 5]).map(|members| (members, place)).ok_or(Unserved::Other)
}

/// As many bytes of each rank, by MPI.
fn gather(comm: Handle, place: Place, own: &[u8]) -> Result<Vec<Vec<u8>>> {
    let byte = own::abi().map_or(0, |abi| abi.byte);
    let mut all = vec![0; own.len() * place.size as usize];
    let (bytes, from, to) = (own.len() as c_int, own.as_ptr().cast(), all.as_mut_ptr().cast());
    // SAFETY: - the communicator is the program's, and all its ranks are in this call
    //         - `all` has room for as many bytes of each
    match unsafe { own::allgather(from, bytes, byte, to, bytes, byte, comm) } {
        0 => Ok(all.chunks(own.len()).map(<[u8]>::to_vec).collect()),
        code => {
            let what = format!("error {code}");
            Err(Error::argument("MPI_Allgather", what, "the MPI library's own words say why"))
        }
    }
}

/// From now on communicators are served, MPI_COMM_WORLD by this one.
pub fn begin(comm: Communicator) -> Result<()> {
    let mut keyval = 0;
    // SAFETY: - both functions are of the types that MPI calls
    let code = unsafe { own::create_keyval(copy, delete, &mut keyval, std::ptr::null_mut()) };
    if code != 0 {
        let what = format!("error {code}");
        return Err(Error::argument("MPI_Comm_create_keyval", what, "the MPI library's own words say why"));
    }
    KEYVAL.store(keyval, Ordering::Relaxed);
    let place = Place { rank: comm.rank(), size: comm.size() };
    // It is in the registry, where it is looked for.
    let _ = put_down(own::abi().map_or(0, |abi| abi.comm_world), Ok((comm, place)));
    Ok(())
}

/// Gives them all up, and leaves the world, once the others do.
pub fn end() -> Result<()> {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let mut all = registry().0.take().unwrap_or_default();
    let world = all.remove(&WORLD).and_then(Arc::into_inner);
    drop(all);
    drop_those_over();
    world.map_or(Ok(()), |world| world.comm.leave())
}

/// A duplicate is a communicator of its own.
unsafe extern "C" fn copy(
    _: Handle,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: - MPI gives an int to be written
    unsafe { *flag = 0 };
    0
}

/// The program has freed a communicator. As MPI may hold a lock of its own meanwhile, for which a thread may wait that
/// carries our calls on, ours is dropped later: at the next look, or at the end.
unsafe extern "C" fn delete(_: Handle, _: c_int, id: *mut c_void, _: *mut c_void) -> c_int {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let gone = registry().0.as_mut().and_then(|all| all.remove(&(id as usize)));
    gone.iter().for_each(|served| served.freed.store(true, Ordering::Release));
    OVER.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
    0
}

/// Those that the program has freed.
static OVER: Mutex<Vec<Arc<Served>>> = Mutex::new(Vec::new());

fn drop_those_over() {
    let over = std::mem::take(&mut *OVER.lock().unwrap_or_else(PoisonError::into_inner));
    drop(over);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    /// An allgather among threads, of which all must bring as many bytes.
    struct Table {
        all: Mutex<Vec<Vec<u8>>>,
        barrier: Barrier,
    }

    impl Table {
        fn gather(&self, rank: usize, own: &[u8]) -> Vec<Vec<u8>> {
            self.all.lock().unwrap()[rank] = own.to_vec();
            self.barrier.wait();
            let all = self.all.lock().unwrap().clone();
            self.barrier.wait();
            assert!(all.iter().all(|other| other.len() == own.len()), "{all:?}");
            all
        }
    }

    /// Three ranks make three exchanges; rank 1 fails before the one with this number. Whether it worked, on each.
    fn outcome(fails_before: usize) -> Vec<bool> {
        let table = &Table { all: Mutex::new(vec![Vec::new(); 3]), barrier: Barrier::new(3) };
        let run = |rank: usize| {
            let mut together = Together { gather: |own: &[u8]| Ok(table.gather(rank, own)), over: false };
            let fails = |number| rank == 1 && number == fails_before;
            let made =
                (0..3).all(|number| !fails(number) && together.exchange(&vec![7; 8 << number]).is_ok());
            together.end(made)
        };
        thread::scope(|scope| {
            let ranks: Vec<_> = (0..3).map(|rank| scope.spawn(move || run(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_ranks_hear_of_one_that_fails_wherever_it_is() {
        for fails_before in 0..3 {
            assert_eq!(outcome(fails_before), [false; 3]);
        }
        assert_eq!(outcome(3), [true; 3]);
    }
}
