//! Shared memory as a transport: ranks of one machine write straight into each other's memory.
//!
//! What a transport allocates is a shared segment, which a peer maps at its first put or view; from then on a put is
//! one plain copy, and then a word in the target's notice ring, and a view is what is mapped. A user's own slice is put into
//! through chunks of the target's, which it copies out when it polls; or, where it is long, by the kernel, with one copy: by
//! source and target at the same time (`process_vm_writev`, `process_vm_readv`), or by the source alone where the target
//! may be busy. Whether that is allowed is found out once, by a probe (see [`Shm::probe`]).
//!
//! It never waits inside a put, never names a file, and leaves nothing behind: segments and pipes have no
//! names, peers find them under the numbers of process and descriptor in /proc. A peer that is killed takes
//! nothing away either: what is mapped of it stays (see `segment`).
//!
//! | file | what |
//! |---|---|
//! | `ring`, `alarm`, `gate`, `share` | the protocols among ranks, checked by loom: notices, sleep, the end, work that two share |
//! | `board` | where these lie in shared memory |
//! | `home`, `card`, `peer` | how a peer's process is reached, what it tells, what of it is mapped |
//! | `remote` | copies by the kernel |
//! | `joint` | copies by the kernel, of both ends at the same time |
//! | `stream`, `distance`, `traffic`, `sights` | copies through chunks, how these are best filled, when windows do better with them, and when by being shown |
//! | `plain` | memory of two ranks without any of this: what all of it is measured by |

mod alarm;
mod board;
mod card;
mod distance;
mod gate;
mod home;
mod joint;
mod peer;
pub mod plain;
mod primitive;
mod remote;
mod ring;
mod share;
mod sights;
mod stream;
mod traffic;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use super::copy::{copy, copy_past_caches};
use super::memory::{LINE, Memory};
use super::segment::{Label, Segment, nonce};
use super::wait::{Bed, Sleeper};
use super::{
    Event, Limits, Message, Notice, Posted, Put, Region, RemoteKey, Segment as Run, Sight, Transport, wait,
};
use crate::error::{self, Error, Result};
use crate::rank::{Place, Rank};
use board::{Board, NOTICES};
use card::Card;
use distance::{Copy, Distance};
use home::{Home, LetWrite, MOMENT, Pipe, State, UNCLEAR};
use joint::{Begun, Joint};
use peer::{Handles, Peer, Reach, Windows};
use remote::SEGMENTS;
use ring::Reader;
use stream::{Inflow, Outflow};
use traffic::Manner;

/// How bytes get into a peer's private memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The kernel copies them, for both ends at the same time.
    Joint,
    /// The kernel copies them, for the source.
    Writev,
    /// They go through a ring, and the target copies them.
    Ring,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Joint, Way::Writev, Way::Ring];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Way::Joint => "joint",
            Way::Writev => "writev",
            Way::Ring => "ring",
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Joint => "by process_vm_writev and process_vm_readv",
            Way::Writev => "by process_vm_writev",
            Way::Ring => "through a ring",
        })
    }
}

/// What a rank found out about its peers, to be told to all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Why a peer cannot be reached, if so.
    pub unreachable: Option<String>,
    /// Why its private memory is not to be written by the kernel, if so.
    pub unwritable: Option<String>,
    /// Nor read.
    pub unreadable: Option<String>,
}

/// Where a rank's peers are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vicinity {
    /// More ranks than cores.
    pub crowded: bool,
    /// Of each rank of the group, whether its core is known to share a cache with this one's; none for nothing known.
    pub near: Box<[bool]>,
    /// How many ranks of the machine share that cache, those of other groups with them.
    pub sharing: usize,
    /// How many bytes this cache has, if that is known.
    pub cache: Option<u64>,
}

impl Vicinity {
    /// The [span](Transport::span) of one of so many ranks: twice what a core's own cache has, if the cache that they
    /// share has room for that of each.
    fn span(&self, ranks: u32) -> usize {
        let own = 2 * own_cache();
        let fits = self.share().is_some_and(|bytes| own as u64 <= bytes);
        if ranks > 1 && !self.crowded && fits { own } else { 0 }
    }

    /// Bytes of the chunks of one of so many ranks; 0 for the fewest. In a crowd who empties them may not run when they are
    /// full, and has to be waited for the less often the more there are; but what all have together must leave room in the cache.
    /// Over 3, 4 and 8 ranks on two cores with an L3 of 32 MiB, 1 and 4 MiB, collectives took with 64 chunks 0.53 to
    /// 1.06 of the time that they took with 16, over 16 ranks 0.89 to 1.34 (alltoall), and with 128 up to three times as long.
    fn chunks(&self, ranks: u32) -> usize {
        if !self.crowded {
            return self.span(ranks);
        }
        let part = self.share().unwrap_or(0) / CROWDED_SHARE;
        let bytes = usize::try_from(part).unwrap_or(MOST_CROWDED).min(MOST_CROWDED);
        bytes.checked_ilog2().map_or(0, |power| 1 << power)
    }

    /// One rank's share of the cache.
    fn share(&self) -> Option<u64> {
        self.cache.map(|bytes| bytes / self.sharing.max(1) as u64)
    }
}

/// In a key, where peers cannot map the memory: the rest is the region's number, and its base an address.
const PRIVATE: u64 = 1 << 63;
/// Puts of so many bytes are copied in a moment. All but what streams are [`Posted::Done`].
const INJECT: usize = 4096;
/// The most bytes of a message whose lines are all asked for before the first is written: their last reader has them, and to
/// get them one after the other takes longer. With 512 B it takes 0.83 of the time (broadcast and reduce, two ranks on
/// EPYC), with 1 KiB 0.95, with 2 KiB 1.1, as more are not under way at a time.
const CLAIMED: usize = 1152;
/// The most bytes of a put.
const MOST: usize = isize::MAX as usize;
/// Puts of at most so many bytes always stream through chunks: for the kernel it takes longer to begin.
const STREAMED: usize = 64 << 10;
/// And those at once to a rank that shares a cache: of more the bytes do not stay there.
const STREAMED_NEAR: usize = 4 << 20;
/// Bytes of a put into a window whose way is worth a thought.
const TRAFFIC: RangeInclusive<usize> = 32 << 10..=STREAMED_NEAR;
/// Puts into windows that went round, in all tests.
#[cfg(test)]
pub static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// Legs that were shown from afar, in all tests.
#[cfg(test)]
pub static SHOWN_AFAR: AtomicU64 = AtomicU64::new(0);
const IN_FLIGHT: usize = 256;
/// Where ranks are crowded each has chunks for the n-th part of its share of the cache that cores share, a power of two of
/// bytes, and at most so many.
const CROWDED_SHARE: u64 = 8;
const MOST_CROWDED: usize = 1 << 20;
/// The cache of a core whose size is not told, and the largest one that memory is used for.
const OWN_CACHE: usize = if cfg!(miri) { 0 } else { 1 << 20 };
const LARGEST_OWN_CACHE: usize = 4 << 20;
/// How long to leave a rank alone that has been in the gate for long.
const LONG_MOMENT: Duration = Duration::from_millis(5);
/// How long a rank without patience leaves a target alone whose chunks are full: some times what that takes to empty
/// them, and so long that a fabric that naps beside it stays awake.
const FULL: Duration = Duration::from_micros(250);
/// How long a put may take to the end of a rank before that is told: it is a copy, or a step of a fold, which
/// takes moments.
const INSIDE: Duration = Duration::from_secs(2);

/// One rank's end.
pub struct Shm {
    place: Place,
    /// What errors call each rank.
    names: Box<[Rank]>,
    /// How long puts go to private memory of who waits for them.
    way: Way,
    /// Whether the kernel may write there, for the source.
    may_write: bool,
    /// Of each rank, whether what goes to it streams, up to a length.
    near: Box<[bool]>,
    /// See [`Transport::span`].
    span: usize,
    /// Bytes of the chunks through which peers put to this rank.
    chunks: usize,
    /// See [`Transport::cache`].
    cache: Option<u64>,
    open: bool,
    board: Board,
    notices: Reader,
    /// Where this rank's chunks arrive, once it has private memory, or windows that are put round.
    inflow: Option<Inflow>,
    /// Puts that still go through those of others.
    outflow: Vec<Outflow>,
    /// Puts of which others still carry a part.
    joint: Vec<Joint>,
    bell: Bell,
    peers: Vec<Peer>,
    bells: Handles,
    lives: Handles,
    regions: Arc<Mutex<Regions>>,
    /// Peers write here to find out whether they may.
    doormat: Box<AtomicU64>,
    /// As long as that is of use to them.
    letting: Option<LetWrite>,
    /// Given back when nobody here uses the board any more.
    board_segment: Segment,
}

/// The pipe that a rank sleeps on.
struct Bell {
    reader: OwnedFd,
    /// Without a writer it would be readable for ever.
    _writer: OwnedFd,
}

/// Memory that peers may put into.
#[derive(Default)]
struct Regions {
    /// The number of the last private one.
    last: u64,
    /// By their keys, and how often each is registered.
    memory: HashMap<u64, (Memory, u32)>,
}

/// A region's place in the table, perhaps one of several.
struct Registration {
    regions: Arc<Mutex<Regions>>,
    key: u64,
}

impl Registration {
    fn new(regions: &Arc<Mutex<Regions>>, key: u64, memory: &Memory) -> Registration {
        lock(regions).memory.entry(key).or_insert_with(|| (memory.clone(), 0)).1 += 1;
        Registration { regions: Arc::clone(regions), key }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = lock(&self.regions).memory.entry(self.key) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }
}

#[cold]
fn closed(call: &str) -> Error {
    Error::transport(call, "the transport was shut down", "make no calls after the shutdown")
}

impl Regions {
    /// A number for one that has none.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The one with this key.
    fn of(&self, key: u64) -> Option<&Memory> {
        self.memory.get(&key).map(|(memory, _)| memory)
    }
}

/// A panic leaves the table whole: every change to it is one call.
fn lock(regions: &Mutex<Regions>) -> MutexGuard<'_, Regions> {
    regions.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shm {
    /// One among all ranks (see [`among`](Shm::among)).
    pub fn open(place: Place) -> Result<Shm> {
        Shm::among(place.rank, (0..place.size).collect())
    }

    /// Makes the board of one of a group of ranks, who number themselves anew, by their places in the group; errors
    /// name them as the group does. Others cannot be reached before [`connect`](Shm::connect), and nothing can be put
    /// before [`agree`](Shm::agree).
    pub fn among(rank: Rank, group: Box<[Rank]>) -> Result<Shm> {
        let letting = LetWrite::begin();
        let ranks = group.len();
        let board_segment = Segment::create(Board::bytes(ranks))?;
        let board = Board::over(board_segment.map()?, ranks)
            .ok_or_else(|| Error::transport("mmap", "a board is smaller than it was made", "report this"))?;
        Ok(Shm {
            place: Place { rank, size: ranks as u32 },
            names: group,
            way: Way::Ring,
            may_write: false,
            near: Box::default(),
            span: 0,
            chunks: 0,
            cache: None,
            open: true,
            board,
            notices: Reader::new(NOTICES as u64 / 8),
            inflow: None,
            outflow: Vec::new(),
            joint: Vec::new(),
            bell: Bell::new()?,
            peers: Vec::new(),
            bells: Handles::default(),
            lives: Handles::default(),
            regions: Arc::default(),
            doormat: Box::default(),
            letting: Some(letting),
            board_segment,
        })
    }

    /// What the others must be given to reach this rank; some 50 bytes.
    pub fn card(&self) -> Result<Vec<u8>> {
        let home = Home { pid: getpid(), nonce: nonce() };
        let doormat = self.doormat.as_ptr() as u64;
        Ok(Card { home, board: self.board_segment.label(), bell: self.bell.pipe()?, doormat }.encode())
    }

    /// Makes all ranks known by their cards, in rank order. They are reached at the first put to each.
    pub fn connect(&mut self, cards: &[Vec<u8>]) -> Result<()> {
        if cards.len() != self.place.size as usize {
            let what = format!("{} cards for {} ranks", cards.len(), self.place.size);
            return Err(Error::argument("connect", what, "give the card of every rank, in rank order"));
        }
        let peer = |(&name, card): (&Rank, &Vec<u8>)| Ok(Peer::new(name, Card::decode(name, card)?));
        self.peers = self.names.iter().zip(cards).map(peer).collect::<Result<_>>()?;
        Ok(())
    }

    /// Finds out whether the next rank can be reached, and its private memory be written and read by the kernel, as
    /// is not to be if `wanted` is another way. All ranks connect first, and tell each other what they found.
    pub fn probe(&mut self, wanted: Option<Way>) -> Findings {
        let ranks = self.place.size as usize;
        let next = self.place.after(1);
        let Some(peer) = self.peers.get_mut(next as usize) else {
            return Findings { unreachable: Some("it is not connected".to_owned()), ..Findings::default() };
        };
        let name = peer.name;
        let missing = peer.board.of(&peer.card, ranks).err();
        let unreachable = missing.map(|missing| format!("rank {name}: {missing}"));
        let [unwritable, unreadable] = match wanted {
            Some(Way::Ring) => [(); 2].map(|()| Some("CIRCULANT_SHM_COPY=ring".to_owned())),
            _ => reach_into(&peer.card).map(|why| why.map(|why| format!("rank {name}: {why}"))),
        };
        Findings { unreachable, unwritable, unreadable }
    }

    /// Takes a way that all can go, given what every rank has found, in the order of their names: also those of
    /// other groups. Fails where one cannot reach its peer, or where the way that is wanted is not open. Where all are, and
    /// none is wanted, both ends copy, through chunks where they share a cache, else by the kernel at one time; unless the
    /// target does not wait for a put, or ranks are crowded and share none: then it has no core of its own to copy with.
    pub fn agree(&mut self, findings: &[Findings], wanted: Option<Way>, vicinity: Vicinity) -> Result<()> {
        if let Some((rank, why)) = first(findings, |found| found.unreachable.as_ref()) {
            return Err(Error::NoTransport(format!("shm (rank {rank} does not reach {why})")));
        }
        let unwritable = first(findings, |found| found.unwritable.as_ref());
        self.may_write = unwritable.is_none();
        let unreadable = first(findings, |found| found.unreadable.as_ref());
        match (unwritable.or(unreadable.filter(|_| wanted == Some(Way::Joint))), wanted) {
            (None, Some(way)) => self.way = way,
            (None, None) if vicinity.crowded => self.way = Way::Writev,
            (None, None) => self.way = if unreadable.is_none() { Way::Joint } else { Way::Ring },
            (Some((rank, why)), Some(Way::Joint | Way::Writev)) => {
                let what = format!("rank {rank} may not reach the memory of {why}");
                let cure = "unset CIRCULANT_SHM_COPY, or allow it (seccomp, kernel.yama.ptrace_scope)";
                return Err(Error::transport("process_vm_writev", what, cure));
            }
            (Some(_), _) => {
                self.way = Way::Ring;
                self.letting = None;
            }
        }
        self.span = vicinity.span(self.place.size);
        self.chunks = vicinity.chunks(self.place.size);
        self.cache = vicinity.share();
        // Who names a way gets it for all that it is a way for.
        self.near = if wanted.is_none() { vicinity.near } else { Box::default() };
        Ok(())
    }

    /// Where puts into its private memory arrive that the kernel does not make, and into windows those that go round.
    fn show_chunks(&mut self) -> Result<()> {
        if self.inflow.is_none() {
            let inflow = Inflow::new(self.chunks)?;
            self.board.show_chunks(inflow.label());
            self.inflow = Some(inflow);
        }
        Ok(())
    }

    /// How bytes get into private memory.
    pub fn way(&self) -> Way {
        self.way
    }

    fn check_open(&self, call: &str) -> Result<()> {
        if self.open { Ok(()) } else { Err(closed(call)) }
    }

    /// The bytes of a put that keeps to the contract.
    fn check(&self, put: &Put<'_>) -> Result<usize> {
        let (len, furthest) = extent(put.segments);
        let fits = furthest <= put.from.memory.len() && len <= MOST;
        let known = (put.peer as usize) < self.peers.len() && put.segments.len() <= SEGMENTS;
        if fits && known {
            return Ok(len);
        }
        Err(self.refusal(put.peer, put.segments.len(), put.from.memory.len(), furthest, len, MOST))
    }

    /// That a put to this rank itself lies in a region of its: the kernel would write anywhere. Others check what streams
    /// to them; what the kernel writes there is their processes' concern.
    fn check_own(&self, put: &Put<'_>, len: usize) -> Result<()> {
        if put.peer != self.place.rank {
            return Ok(());
        }
        let (name, start) = (self.names[put.peer as usize], put.to.base.wrapping_add(put.to_offset));
        let regions = lock(&self.regions);
        let Some(memory) = regions.of(put.to.key) else { return Err(beyond(len, start, 0, name)) };
        let at = start.wrapping_sub(memory.address().as_ptr() as u64);
        let fits = at.checked_add(len as u64).is_some_and(|end| end <= memory.len() as u64);
        if fits { Ok(()) } else { Err(beyond(len, at, memory.len(), name)) }
    }

    /// Why a put of so many bytes, up to this one of its region, is not made.
    #[cold]
    fn refusal(
        &self,
        peer: Rank,
        segments: usize,
        room: usize,
        furthest: usize,
        len: usize,
        most: usize,
    ) -> Error {
        let known = self.peers.len();
        let what = format!(
            "{len} bytes in {segments} segments, up to byte {furthest} of a region of {room}, to rank {peer} of {known} known"
        );
        let cure = format!("stay in the region, put at most {most} bytes in {SEGMENTS} segments");
        Error::argument("put", what, cure)
    }

    /// Copies the bytes to where they belong, then tells the peer.
    ///
    /// A place for the notice is claimed before what is short is copied, so that the lines of both are on their
    /// way at the same time; and after what is long, which would hold up the notices of others.
    fn put_directly(&mut self, put: &Put<'_>, len: usize, manner: Manner) -> Result<Posted> {
        let place =
            |name: Rank, card: &Card, windows: &mut Windows, lives: &mut Handles| match Target::of(put.to) {
                _ if len == 0 => Ok(None),
                Target::Shared(label) => {
                    let start = put.to.base.wrapping_add(put.to_offset);
                    within(windows, card, name, label, start, len).map(Some)
                }
                Target::Private => write_private(put, name, card, lives).map(|()| None),
            };
        let write = |copy: Copy, into: *mut u8| {
            // SAFETY: - there is room for the put in the mapping (`within`), which lives as long as its peer is known
            //         - nobody else writes there: the target has offered it for this put (the engine's readiness)
            //         - the segments lie in their region (`check`)
            unsafe { gather(copy, &put.from.memory, put.segments, into) }
        };
        self.hand_over(put.peer, len, (None, put.notice), place, |into, distance| match put.past_caches {
            true => write(copy_past_caches, into),
            // Many short runs take their time wherever they go.
            false if put.segments.len() > 1 => write(copy, into),
            false if manner == Manner::Timed => distance.copy_timed(len, |copy| write(copy, into)),
            false => distance.copy(len, |copy| write(copy, into)),
        })
    }

    /// Lets `len` bytes be copied to their `place` at a peer, if they have one here, and tells it: by a seal, which is the
    /// first of them, and by a notice.
    fn hand_over(
        &mut self,
        peer: Rank,
        len: usize,
        (seal, notice): (Option<u8>, Notice),
        place: impl FnOnce(Rank, &Card, &mut Windows, &mut Handles) -> Result<Option<*mut u8>>,
        copy: impl FnOnce(*mut u8, &mut Distance),
    ) -> Result<Posted> {
        let Shm { place: own, peers, lives, bells, .. } = self;
        let Peer { name, card, board, windows, distance, .. } = &mut peers[peer as usize];
        let board = board.of(card, own.size as usize).map_err(|e| e.of(*name, "board"))?;
        // Looked at before all is copied in vain.
        if !board.notices().has_room() {
            return Ok(Posted::Busy);
        }
        let Some(entered) = board.gate().enter(own.rank as usize) else { return Ok(Posted::Busy) };
        let into = place(*name, card, windows, lives)?;
        let early = if len <= INJECT { board.notices().claim() } else { None };
        if let Some(into) = into {
            copy(into, distance);
        }
        let Some(cell) = early.or_else(|| board.notices().claim()) else { return Ok(Posted::Busy) };
        if let (Some(into), Some(seal)) = (into, seal) {
            // SAFETY: - there is room for it (`copy`'s promise), and everybody else only reads it, in this way
            unsafe { AtomicU8::from_ptr(into) }.store(seal, Ordering::Release);
        }
        board.notices().publish(cell, notice);
        drop(entered);
        wake(board, *name, card, bells)?;
        Ok(Posted::Done)
    }

    /// Puts into private memory: through chunks, or by the kernel, at both ends or at this one. To a rank that shares a
    /// cache through chunks, also where ranks outnumber cores: over 3 to 16 ranks on two cores collectives of 1 and 4 MiB take
    /// 0.37 to 1.06 of the time that they take by the kernel.
    fn put_privately(&mut self, put: &Put<'_>, len: usize) -> Result<Posted> {
        match (self.way, put.segments) {
            _ if len <= STREAMED || !self.may_write => self.stream(put, len),
            (Way::Ring, _) if put.attended => self.stream(put, len),
            _ if put.attended && self.is_near(put.peer) && len <= STREAMED_NEAR => self.stream(put, len),
            (Way::Joint, &[segment]) if put.attended => self.put_jointly(put, segment),
            _ => self.put_directly(put, len, Manner::Straight),
        }
    }

    /// Whether a peer's core shares a cache with this one's, so that what is copied twice is copied fast.
    fn is_near(&self, peer: Rank) -> bool {
        self.near.get(peer as usize).is_some_and(|&near| near)
    }

    /// As where lines go to and fro between it and all others.
    #[cfg(test)]
    pub fn be_busy(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.distance = Distance::busy());
        self.near = vec![true; self.peers.len()].into();
        self.span = self.span.max(board::CHUNK);
        self.chunks = self.span;
    }

    /// As where they are far from all others.
    #[cfg(test)]
    pub fn be_far(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.distance = Distance::far());
    }

    /// Whether puts into windows of a peer's go round where the [traffic] is heavy.
    fn has_rounds(&self, peer: Rank) -> bool {
        self.span > 0 && self.is_near(peer)
    }

    /// Puts into a window: straight, or through the peer's chunks, if it has some.
    fn put_into_window(&mut self, put: &Put<'_>, len: usize) -> Result<Posted> {
        let may = put.attended && put.for_user && !put.past_caches && TRAFFIC.contains(&len);
        let may = may && self.has_rounds(put.peer);
        let Peer { card, board, distance, .. } = &mut self.peers[put.peer as usize];
        let board = if may { board.of(card, self.place.size as usize).ok() } else { None };
        if board.is_none_or(|board| board.chunks().is_none()) {
            return self.put_directly(put, len, Manner::Straight);
        }
        let posted = match distance.choose((put.to.key, put.to.base.wrapping_add(put.to_offset), len)) {
            Manner::Round => {
                #[cfg(test)]
                ROUNDS.fetch_add(1, Ordering::Relaxed);
                self.stream(put, len)
            }
            manner => self.put_directly(put, len, manner),
        }?;
        if posted == Posted::Busy {
            self.peers[put.peer as usize].distance.put_off();
        }
        Ok(posted)
    }

    /// Carries a put together with its target; alone, where there is no chunk to tell it by.
    fn put_jointly(&mut self, put: &Put<'_>, segment: Run) -> Result<Posted> {
        let Shm { place: Place { rank: own, size }, peers, bells, lives, .. } = self;
        let mut reach = Reach { own: *own, ranks: *size as usize, peers, bells, lives };
        let offered = match joint::begin(put, segment, &mut reach)? {
            Begun::Offered(offered) => offered,
            Begun::ShutDown => return Ok(Posted::Busy),
            Begun::NoChunk => return self.put_directly(put, segment.len, Manner::Straight),
        };
        // Also if this fails, the target may read what is put.
        let carried = offered.carry(&mut reach);
        self.joint.push(offered);
        carried?;
        let is_done = self.joint.pop_if(|one| one.is_done(&self.peers[one.peer as usize])).is_some();
        Ok(if is_done { Posted::Done } else { Posted::Pending })
    }

    /// Whether all of a put of which others carry a part has come to be there, which is told.
    fn conclude(&mut self, events: &mut Vec<Event>) {
        let Shm { joint, peers, .. } = self;
        joint.retain(|one| {
            let done = one.is_done(&peers[one.peer as usize]);
            if done {
                events.push(Event::Sent(one.token));
            }
            !done
        });
    }

    /// Lets a put stream through chunks. One that finds them full waits for its turn, without holding up what is put to
    /// others; but for one that is so short that it is taken over at once, or not.
    fn stream(&mut self, put: &Put<'_>, len: usize) -> Result<Posted> {
        let mut outflow = Outflow::new(put, len);
        let (peer, Place { rank: own, size }) = (&mut self.peers[put.peer as usize], self.place);
        let Peer { name, card, board, .. } = &mut *peer;
        let board = board.of(card, size as usize).map_err(|e| e.of(*name, "board"))?;
        // It has shut down, as everybody is about to hear.
        if board.gate().enter(own as usize).is_none() {
            return Ok(Posted::Busy);
        }
        let poured = outflow.pour(peer, &mut self.bells, size as usize)?;
        if outflow.is_done() {
            return Ok(Posted::Done);
        }
        if !poured && len <= INJECT {
            return Ok(Posted::Busy);
        }
        self.outflow.push(outflow);
        Ok(Posted::Pending)
    }

    /// Puts that are on their way go on; whether any has.
    fn pour_on(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        let Shm { outflow, peers, bells, place, .. } = self;
        let mut poured = false;
        for one in &mut *outflow {
            poured |= one.pour(&mut peers[one.peer as usize], bells, place.size as usize)?;
        }
        outflow.retain(|one| {
            if one.is_done() {
                events.push(Event::Sent(one.token));
            }
            !one.is_done()
        });
        Ok(poured)
    }

    /// Whether a poll would give something.
    fn has_arrivals(&self) -> bool {
        self.notices.peek(self.board.notices()).is_some()
            || self.inflow.as_ref().is_some_and(Inflow::has_some)
            || self.joint.iter().any(|one| one.is_done(&self.peers[one.peer as usize]))
    }

    /// Lets no put in any more, and waits for those that are in already. Who was killed inside is not waited
    /// for; who was stopped there is, as it would go on into memory that is somebody else's by then, and `tell`
    /// hears of it once, after `patience`.
    fn close_gate(&self, patience: Duration, mut tell: impl FnMut(&Peer)) {
        let gate = self.board.gate();
        gate.close();
        for (rank, peer) in self.peers.iter().enumerate() {
            let start = Instant::now();
            let (mut seen, mut told) = (start, false);
            while gate.holds(rank) {
                match peer.card.home.state(peer.card.board) {
                    State::Lives => seen = Instant::now(),
                    State::Unclear if seen.elapsed() < UNCLEAR => {}
                    State::Unclear | State::Ended => break,
                }
                if !told && start.elapsed() >= patience {
                    tell(peer);
                    told = true;
                }
                std::thread::sleep(if told { LONG_MOMENT } else { MOMENT });
            }
        }
    }
}

impl Transport for Shm {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        format!("shm ({})", self.way.word())
    }

    fn limits(&self) -> Limits {
        Limits { inject: INJECT, max_put: MOST, segments: SEGMENTS, in_flight: IN_FLIGHT }
    }

    fn allocate(&mut self, len: usize) -> Result<Memory> {
        Memory::shared(len)
    }

    fn register(&mut self, memory: Memory) -> Result<Region> {
        self.check_open("register")?;
        let key = match memory.label() {
            Some(label) => RemoteKey { base: 0, key: label.number() },
            None => {
                self.show_chunks()?;
                let number = lock(&self.regions).next();
                RemoteKey { base: memory.address().as_ptr() as u64, key: PRIVATE | number }
            }
        };
        let registration = Registration::new(&self.regions, key.key, &memory);
        let registration = Arc::new(registration);
        Ok(Region { memory, remote: key.into(), is_workspace: false, descriptor: 0, registration })
    }

    fn shows(&self, region: &Region, _: Rank) -> bool {
        Target::of(region.remote.near) != Target::Private
    }

    fn is_worth_showing(&mut self, peer: Rank, put: usize, look: Option<&dyn Fn() -> Sight>) -> bool {
        let may_go_round = TRAFFIC.contains(&put) && self.has_rounds(peer);
        let Some(Peer { distance, .. }) = self.peers.get_mut(peer as usize) else { return true };
        if may_go_round && distance.goes_round() {
            return false;
        }
        if distance.may_show() {
            return true;
        }
        let from_afar = look.is_some_and(|look| distance.may_show_afar(look));
        #[cfg(test)]
        SHOWN_AFAR.fetch_add(u64::from(from_afar), Ordering::Relaxed);
        from_afar
    }

    fn prepare_for_puts(&mut self, region: &Region) {
        // Where chunks do not stay in a cache that cores share, or there is no memory for them, all goes straight.
        if self.span > 0 && region.memory.len() >= *TRAFFIC.start() {
            let _ = self.show_chunks();
        }
    }

    fn view(&mut self, peer: Rank, key: RemoteKey) -> Result<Memory> {
        self.check_open("view")?;
        match (Target::of(key), self.peers.get_mut(peer as usize)) {
            (Target::Shared(label), Some(Peer { name, card, windows, .. })) => {
                windows.of(card, label).cloned().map_err(|e| e.of(*name, "window"))
            }
            _ => {
                let what = format!("what rank {peer} shows is no window of a rank that is known");
                Err(Error::transport("view", what, "are all ranks of one version and one job?"))
            }
        }
    }

    /// Inside the peer's gate, as what is written there.
    fn while_shown(&mut self, peer: Rank, act: &mut dyn FnMut()) -> Result<bool> {
        self.check_open("view")?;
        let place = self.place;
        let Some(Peer { name, card, board, .. }) = self.peers.get_mut(peer as usize) else {
            return Ok(false);
        };
        let board = board.of(card, place.size as usize).map_err(|e| e.of(*name, "board"))?;
        let Some(entered) = board.gate().enter(place.rank as usize) else { return Ok(false) };
        act();
        drop(entered);
        Ok(true)
    }

    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        self.check_open("put")?;
        let len = self.check(put)?;
        match Target::of(put.to) {
            Target::Private if len > 0 => {
                self.check_own(put, len)?;
                self.put_privately(put, len)
            }
            Target::Shared(_) if len > 0 => self.put_into_window(put, len),
            _ => self.put_directly(put, len, Manner::Straight),
        }
    }

    /// Mapped inside the peer's gate, as long as it is there.
    fn inbox(&mut self, peer: Rank, key: RemoteKey) -> Result<Option<Memory>> {
        self.check_open("view")?;
        let place = self.place;
        let (Target::Shared(label), Some(peer)) = (Target::of(key), self.peers.get_mut(peer as usize)) else {
            return Ok(None);
        };
        let Peer { name, card, board, windows, .. } = peer;
        let board = board.of(card, place.size as usize).map_err(|e| e.of(*name, "board"))?;
        let Some(_entered) = board.gate().enter(place.rank as usize) else { return Ok(None) };
        windows.of(card, label).cloned().map(Some).map_err(|e| e.of(*name, "window"))
    }

    fn post(&mut self, message: &Message<'_>) -> Result<Posted> {
        self.check_open("put")?;
        let Message { peer, seal, head, data, to, to_offset, notice } = *message;
        let (bytes, furthest) = data.map_or((0, 0), |(_, segments)| extent(segments));
        let (len, room) = (bytes.saturating_add(1 + head.len()), data.map_or(0, |(memory, _)| memory.len()));
        let most = to.len().saturating_sub(to_offset);
        if furthest > room || len > most || peer as usize >= self.peers.len() {
            let segments = data.map_or(0, |(_, segments)| segments.len());
            return Err(self.refusal(peer, segments, room, furthest, len, most));
        }
        let into = to.address().as_ptr().wrapping_add(to_offset);
        let place = |_: Rank, _: &Card, _: &mut Windows, _: &mut Handles| Ok(Some(into));
        let write = |copy: Copy, into: *mut u8| {
            // SAFETY: - there is room for head and data in the memory (checked), which is alive (the message borrows it)
            //         - the slot is this writer's until it is told of (the engine's credits), but for its first byte, which
            //           its owner may read all the while, and which is left alone here
            //         - the segments lie in their memory (checked)
            unsafe { write_behind_seal(copy, head, data, into) }
        };
        self.hand_over(peer, len, (Some(seal), notice), place, |into, distance| match len <= CLAIMED {
            true => {
                to.claim(to_offset, len);
                write(copy, into);
            }
            false => distance.copy(len, |copy| write(copy, into)),
        })
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.check_open("poll")?;
        // Not without end, where peers are faster.
        events.extend(std::iter::from_fn(|| self.next_notice()).take(NOTICES).map(Event::Notice));
        let Shm { place: Place { rank: own, size }, inflow, regions, peers, bells, lives, .. } = self;
        let mut reach = Reach { own: *own, ranks: *size as usize, peers, bells, lives };
        let mut moved = match inflow {
            Some(inflow) => inflow.take(&lock(regions), &mut reach, events)?,
            None => false,
        };
        moved |= !self.outflow.is_empty() && self.pour_on(events)?;
        self.conclude(events);
        if moved {
            events.push(Event::Moved);
        }
        Ok(())
    }

    fn next_notice(&mut self) -> Option<Notice> {
        if !self.open {
            return None;
        }
        let ring = self.board.notices();
        let (_, notice) = self.notices.peek(ring)?;
        self.notices.advance(ring);
        Some(notice)
    }

    fn polls_memory(&self) -> bool {
        true
    }

    fn span(&self) -> usize {
        self.span
    }

    fn cache(&self) -> Option<u64> {
        self.cache
    }

    fn is_quiet(&self) -> bool {
        self.open && self.outflow.is_empty() && self.joint.is_empty() && !self.has_arrivals()
    }

    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()> {
        wait::sleep([self], wakes, timeout)
    }

    fn shut_down(&mut self) {
        // A child that this process has forked must not shut out the others.
        if !std::mem::replace(&mut self.open, false) || !self.board_segment.is_own() {
            return;
        }
        self.close_gate(INSIDE, |peer| error::tell(stays_inside(peer)));
        // Nobody need write into this process any more, or read there.
        self.letting = None;
        self.peers.clear();
        self.bells.clear();
        self.lives.clear();
        self.inflow = None;
        self.outflow.clear();
        self.joint.clear();
        lock(&self.regions).memory.clear();
    }
}

impl Sleeper for Shm {
    fn lie_down(&mut self) -> Result<Bed<'_>> {
        self.check_open("sleep")?;
        if self.has_arrivals() {
            return Ok(Bed::Nowhere);
        }
        self.board.alarm().set();
        // What came before the alarm was set has rung for nobody.
        if self.has_arrivals() {
            return Ok(Bed::Nowhere);
        }
        // Nobody tells that a chunk is free again.
        let waits_for_room = !self.outflow.is_empty();
        Ok(if waits_for_room { Bed::Nap(FULL) } else { Bed::Until(self.bell.reader.as_fd()) })
    }

    fn rise(&mut self, rung: bool) {
        self.board.alarm().clear();
        if rung {
            self.bell.silence();
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// What a key is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Private,
    Shared(Label),
}

impl Target {
    fn of(to: RemoteKey) -> Target {
        if to.key & PRIVATE != 0 { Target::Private } else { Target::Shared(Label::from_number(to.key)) }
    }
}

/// How many bytes some segments have together, and where the last of them ends; each at most [`usize::MAX`].
fn extent(segments: &[Run]) -> (usize, usize) {
    segments.iter().fold((0_usize, 0), |(len, furthest), segment| {
        (len.saturating_add(segment.len), furthest.max(segment.offset.saturating_add(segment.len)))
    })
}

/// Where a put of so many bytes begins in a peer's window. The place is the target's word, so one that is bad is no
/// fault of the caller.
fn within(
    windows: &mut Windows,
    card: &Card,
    name: Rank,
    label: Label,
    start: u64,
    len: usize,
) -> Result<*mut u8> {
    let window = windows.of(card, label).map_err(|e| e.of(name, "window"))?;
    let fits = |&start: &usize| start.checked_add(len).is_some_and(|end| end <= window.len());
    let start =
        usize::try_from(start).ok().filter(fits).ok_or_else(|| beyond(len, start, window.len(), name))?;
    Ok(window.address().as_ptr().wrapping_add(start))
}

#[cold]
fn beyond(len: usize, start: u64, room: usize, name: Rank) -> Error {
    let what = format!("{len} bytes at {start} of a window of {room} at rank {name}");
    Error::transport("put", what, "are all ranks of one version and one job?")
}

/// Writes a message's head and data into a slot, behind the byte of its seal: of one run of data that is longer than the
/// seal's line, that line last. Its owner looks at it all the while, and takes it away from a writer who begins with it
/// and then waits for other lines: of two ranks, each with a core, a broadcast of 512 B takes 0.85 to 0.92 of the time
/// that it took so, and one of 4 KiB 0.85 to 0.94.
///
/// # Safety
/// There must be room for the seal and all of it at `into`, whose first byte alone others read meanwhile; the segments
/// must lie in the memory.
#[inline]
unsafe fn write_behind_seal(copy: Copy, head: &[u8], data: Option<(&Memory, &[Run])>, into: *mut u8) {
    let room = LINE.saturating_sub(1 + head.len());
    // SAFETY: - there is room for seal, head and data, one behind the other (the caller's promise)
    //         - the segments lie in their memory (the caller's promise)
    //         - a head is of this process alone: it does not overlap a slot
    unsafe {
        let place = into.add(1 + head.len());
        match data {
            Some((memory, &[Run { offset, len }])) if len > room => {
                let rest = Run { offset: offset + room, len: len - room };
                gather(copy, memory, &[rest], place.add(room));
                gather(copy, memory, &[Run { offset, len: room }], place);
            }
            Some((memory, segments)) => gather(copy, memory, segments, place),
            None => {}
        }
        std::ptr::copy_nonoverlapping(head.as_ptr(), into.add(1), head.len());
    }
}

/// Copies segments of a memory into one run, by a `copy` that allows runs to overlap.
///
/// # Safety
/// There must be as many bytes at `to`, which nobody else reads or writes meanwhile; the segments must
/// lie in the memory.
#[inline]
unsafe fn gather(copy: Copy, from: &Memory, segments: &[Run], mut to: *mut u8) {
    let from = from.address().as_ptr();
    for segment in segments {
        // SAFETY: - the segments lie in their memory, which is alive, and there is room (the caller's promise)
        //         - `copy` allows that they overlap, as a rank's puts to itself may
        unsafe {
            copy(from.add(segment.offset), to, segment.len);
            to = to.add(segment.len);
        }
    }
}

/// Lets the kernel write a put's bytes into the peer's private memory: where the key says, as the kernel knows
/// the peer's pages, and not its regions. What streams through chunks is checked by the peer.
fn write_private(put: &Put<'_>, name: Rank, card: &Card, lives: &mut Handles) -> Result<()> {
    peer::check_life(name, card, lives)?;
    let address = put.to.base.wrapping_add(put.to_offset);
    let from = put.from.memory.address().as_ptr();
    // SAFETY: - the segments lie in their region (`check`), which is alive
    //         - nobody writes what is being put: the engine changes a block when it is sent
    unsafe { remote::write(card.home.pid, from, put.segments, address) }
        .map_err(|error| remote::failed("process_vm_writev", error, put.len(), name))
}

/// Wakes a peer, if it sleeps.
fn wake(board: &Board, name: Rank, card: &Card, bells: &mut Handles) -> Result<()> {
    if board.alarm().must_ring() { ring(name, card, bells) } else { Ok(()) }
}

#[cold]
fn ring(name: Rank, card: &Card, bells: &mut Handles) -> Result<()> {
    let bell = bells.of(name, || card.home.pipe(card.bell).map_err(|e| e.of(name, "bell")))?;
    match write(bell, b"!") {
        // A full pipe rings already.
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(e) => Err(Error::transport("write", format!("{e}, to wake rank {name}"), "see the system's log")),
    }
}

/// Why this process may not write the private memory of another one, and why it may not read it, if so: neither where it
/// cannot tell whether it is still that one.
fn reach_into(card: &Card) -> [Option<String>; 2] {
    match card.home.life(card.board) {
        Ok(_) => tread_on_doormat(card),
        Err(missing) => [(); 2].map(|()| Some(missing.to_string())),
    }
}

/// The same of one that it is.
fn tread_on_doormat(card: &Card) -> [Option<String>; 2] {
    let Card { home: Home { pid, .. }, doormat, .. } = *card;
    let mut word = [0_u8; 8];
    let all = [Run { offset: 0, len: word.len() }];
    // SAFETY: - the segment is the array
    let written = unsafe { remote::write(pid, word.as_ptr(), &all, doormat) };
    // SAFETY: - the array has room for it
    let read = unsafe { remote::read(pid, doormat, word.as_mut_ptr(), word.len()) };
    let why = |call| move |error: Errno| format!("{call}: {error}");
    [written.err().map(why("process_vm_writev")), read.err().map(why("process_vm_readv"))]
}

impl Bell {
    fn new() -> Result<Bell> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| Error::transport("pipe", e.to_string(), "raise `ulimit -n`"))?;
        Ok(Bell { reader, _writer: writer })
    }

    fn pipe(&self) -> Result<Pipe> {
        Pipe::of(&self.reader).map_err(|e| Error::transport("fstat", e.to_string(), "see the system's log"))
    }

    /// What has rung is seen by the next poll; an unread bell would end the next sleep at once.
    fn silence(&self) {
        let _ = read(&self.reader, &mut [0_u8; 64]);
    }
}

/// Why a rank cannot end yet.
fn stays_inside(Peer { name: rank, card, .. }: &Peer) -> String {
    let pid = card.home.pid.as_raw_pid();
    format!(
        "shm: rank {rank} (pid {pid}) stands still amid a copy into or out of this rank, which cannot end \
         before it goes on, or ends; `kill -CONT {pid}`, if it was stopped"
    )
}

/// Bytes of the largest cache that a core has for itself, as far as is known.
fn own_cache() -> usize {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        // SAFETY: - it only tells a number
        let told = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        usize::try_from(told).ok().filter(|&bytes| bytes > 0).unwrap_or(OWN_CACHE).min(LARGEST_OWN_CACHE)
    }
    #[cfg(not(all(target_env = "gnu", not(miri))))]
    OWN_CACHE
}

/// The first rank that has found something.
fn first(findings: &[Findings], of: impl Fn(&Findings) -> Option<&String>) -> Option<(usize, &String)> {
    findings.iter().enumerate().find_map(|(rank, found)| Some((rank, of(found)?)))
}

#[cfg(all(test, not(loom)))]
mod tests;
