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
//! | `fences` | who fences, of one who acts often and one who acts seldom |
//! | `board` | where these lie in shared memory |
//! | `puts` | the ways of a put, and which it goes |
//! | `regions` | what peers may put into, and the keys to it |
//! | `way`, `vicinity` | what is found out at the start: what the kernel may copy, and who shares a cache |
//! | `bell` | how a rank that sleeps is woken |
//! | `home`, `card`, `peer` | how a peer's process is reached, what it tells, what of it is mapped |
//! | `remote` | copies by the kernel |
//! | `joint` | copies by the kernel, of both ends at the same time |
//! | `stream`, `distance`, `traffic`, `sights` | copies through chunks, how these are best filled, when windows do better with them, and when by being shown |
//! | `plain` | memory of two ranks without any of this: what all of it is measured by |

mod alarm;
mod bell;
mod board;
mod card;
mod distance;
mod fences;
mod gate;
mod home;
mod joint;
mod peer;
pub mod plain;
mod primitive;
mod puts;
mod regions;
mod remote;
mod ring;
mod share;
mod sights;
mod stream;
mod traffic;
mod vicinity;
mod way;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::getpid;

use super::memory::Memory;
use super::segment::{Segment, nonce};
use super::wait::{Bed, Sleeper, Woken};
use super::{
    Caches, Event, Gait, Limits, Message, Notice, Posted, Put, Region, RemoteKey, Segment as Run, Sight,
    Transport, wait,
};
use crate::error::{self, Error, Result};
use crate::rank::{Place, Rank};
use bell::Bell;
use board::{Board, NOTICES};
use card::Card;
use fences::Fences;
use home::{Home, LetWrite, MOMENT, State, UNCLEAR};
use joint::Joint;
use peer::{Handles, Peer, Reach};
use primitive::STORED;
use puts::{INJECT, MOST, TRAFFIC};
use regions::{PRIVATE, Regions, Registration, Target, lock};
use remote::SEGMENTS;
use ring::Reader;
use stream::{Inflow, Outflow};
pub use vicinity::Vicinity;
pub use way::{Findings, Way};
use way::{first, reach_into};

/// Puts into windows that went round, in all tests.
#[cfg(test)]
pub static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// Puts that were to go two pages abreast, in all tests.
#[cfg(test)]
pub static ABREAST: AtomicU64 = AtomicU64::new(0);
/// Legs that were shown from afar, in all tests.
#[cfg(test)]
pub static SHOWN_AFAR: AtomicU64 = AtomicU64::new(0);
const IN_FLIGHT: usize = 256;
/// How long to leave a rank alone that has been in the gate for long.
const LONG_MOMENT: Duration = Duration::from_millis(5);
/// How long a rank without patience leaves a target alone whose chunks are full: some times what that takes to empty
/// them, and so long that a fabric that naps beside it stays awake.
const FULL: Duration = Duration::from_micros(250);
/// How long a put may take to the end of a rank before that is told: it is a copy, or a step of a fold, which
/// takes moments.
const INSIDE: Duration = Duration::from_secs(2);

/// From how many bytes on a leg that rests is shown also where slots [go round](Vicinity::rounds) and lines are near. Two ranks on EPYC
/// (more were not measured), each with a leg for the other, in µs, in slots and shown: 8 KiB 1.24 and 1.10 to 1.3, 10 KiB 1.45 and
/// 1.17, 12 KiB 1.75 and 1.24, 16 KiB 2.15 and 1.40. Longer ones, which fit no slot, took 4.4 and 4.0 with 128 KiB, 14.9 and 14.3
/// with 512 KiB.
const SHOWN_NEAR: usize = 10 << 10;

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
    /// See [`Transport::caches`].
    caches: Caches,
    /// See [`Vicinity::rounds`].
    rounds: bool,
    /// How often it was looked whether a put rests.
    looks: u64,
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
    /// Since when its alarm has been set, if it is.
    lain: Instant,
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

#[cold]
fn closed(call: &str) -> Error {
    Error::transport(call, "the transport was shut down", "make no calls after the shutdown")
}

impl Shm {
    /// One among all ranks (see [`among`](Shm::among)).
    pub fn open(place: Place) -> Result<Shm> {
        Shm::among(place.rank, (0..place.size).collect(), true)
    }

    /// Makes the board of one of a group of ranks, who number themselves anew, by their places in the group; errors
    /// name them as the group does. Others cannot be reached before [`connect`](Shm::connect), and nothing can be put
    /// before [`agree`](Shm::agree). Where each has a core to itself, and seldom sleeps, it `promises` what spares others their fences (see `fences`).
    pub fn among(rank: Rank, group: Box<[Rank]>, promises: bool) -> Result<Shm> {
        let letting = LetWrite::begin();
        let ranks = group.len();
        let board_segment = Segment::create(Board::bytes(ranks))?;
        let board = Board::over(board_segment.map()?, ranks)
            .ok_or_else(|| Error::transport("mmap", "a board is smaller than it was made", "report this"))?;
        let board = if promises { board.promise() } else { board };
        Ok(Shm {
            place: Place { rank, size: ranks as u32 },
            names: group,
            way: Way::Ring,
            may_write: false,
            near: Box::default(),
            span: 0,
            chunks: 0,
            caches: Caches::default(),
            rounds: false,
            looks: 0,
            open: true,
            board,
            notices: Reader::new(NOTICES as u64 / 8),
            inflow: None,
            outflow: Vec::new(),
            joint: Vec::new(),
            bell: Bell::new()?,
            lain: Instant::now(),
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
    /// none is wanted, both ends copy, mostly through chunks where they share a cache, else by the kernel at one time; unless the
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
        self.caches = vicinity.caches();
        self.rounds = vicinity.rounds;
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

    /// Whether a peer's core shares a cache with this one's, so that what is copied twice is copied fast.
    fn is_near(&self, peer: Rank) -> bool {
        self.near.get(peer as usize).is_some_and(|&near| near)
    }

    /// As where lines go to and fro between it and all others.
    #[cfg(test)]
    pub fn be_busy(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.distance = distance::Distance::busy());
        self.near = vec![true; self.peers.len()].into();
        self.span = self.span.max(board::CHUNK);
        self.chunks = self.span;
    }

    /// As where they are far from all others.
    #[cfg(test)]
    pub fn be_far(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.distance = distance::Distance::far());
    }

    /// Whether puts into windows of a peer's go round where the [traffic] is heavy.
    fn has_rounds(&self, peer: Rank) -> bool {
        self.span > 0 && self.is_near(peer)
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
        Ok(Region { memory, remote: key.into(), is_rewritten: false, descriptor: 0, registration })
    }

    fn shows(&self, region: &Region, _: Rank) -> bool {
        Target::of(region.remote.near) != Target::Private
    }

    fn is_worth_showing(&mut self, peer: Rank, put: usize, sight: Option<Sight<'_>>) -> bool {
        let may_go_round = TRAFFIC.contains(&put) && self.has_rounds(peer);
        let Some(Peer { distance, .. }) = self.peers.get_mut(peer as usize) else { return true };
        if may_go_round && distance.goes_round() {
            return false;
        }
        if distance.may_show() {
            return true;
        }
        let from_afar = sight.is_some_and(|sight| distance.may_show_afar(sight));
        #[cfg(test)]
        SHOWN_AFAR.fetch_add(u64::from(from_afar), std::sync::atomic::Ordering::Relaxed);
        from_afar
    }

    fn rests(&mut self, peer: Rank, sight: Sight<'_>) -> bool {
        let Some(Peer { distance, .. }) = self.peers.get_mut(peer as usize) else { return false };
        let is_worth_a_look = distance.is_far() || !self.rounds || sight.bytes() >= SHOWN_NEAR;
        // A source without a core of its own would have to be woken once more.
        self.caches.own.is_some() && is_worth_a_look && distance.rests(sight)
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

    fn while_shown_to_copy(&mut self, peer: Rank, bytes: usize, act: &mut dyn FnMut(Gait)) -> Result<bool> {
        self.check_open("view")?;
        let Some(Peer { reads, .. }) = self.peers.get_mut(peer as usize) else { return Ok(false) };
        let copying = reads.begin(bytes);
        let shown = self.while_shown(peer, &mut || act(copying.gait))?;
        if shown {
            self.peers[peer as usize].reads.over(copying);
        }
        Ok(shown)
    }

    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        self.check_open("put")?;
        self.put_by_its_way(put)
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
        self.post_into_slot(message)
    }

    fn anticipate(&mut self, peer: Rank, to: &Memory, to_offset: usize, len: usize) {
        self.anticipate_message(peer, to, to_offset, len);
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

    fn caches(&self) -> Caches {
        self.caches
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
        let begins = !self.board.alarm().set();
        if begins {
            self.lain = Instant::now();
        }
        // What came before the alarm was set has rung for nobody.
        if self.has_arrivals() {
            self.board.alarm().clear();
            return Ok(Bed::Nowhere);
        }
        let bell = self.bell.reader.as_fd();
        Ok(match self.board.fences() {
            // Nobody tells that a chunk is free again.
            _ if !self.outflow.is_empty() => Bed::Nap(FULL),
            // What was on its way then is here before long.
            Fences::Seldom if begins || self.lain.elapsed() < STORED => Bed::Soon(bell, STORED),
            _ => Bed::Until(bell),
        })
    }

    fn rise(&mut self, woken: Woken) {
        // Whoever looks again has its alarm set all the while.
        if woken != Woken::InTime || self.board.fences() == Fences::Both {
            self.board.alarm().clear();
        }
        if woken == Woken::Rung {
            self.bell.silence();
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.shut_down();
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

#[cfg(all(test, not(loom)))]
mod tests;
