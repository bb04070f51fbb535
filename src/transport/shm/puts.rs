//! The ways of a put: straight, through chunks, by the kernel.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, Ordering};

use super::bell::wake;
use super::card::Card;
use super::distance::Distance;
use super::home::Missing;
use super::joint::{self, Begun};
use super::peer::{self, Handles, Peer, Reach, Windows};
use super::regions::{Target, lock};
use super::remote::{self, SEGMENTS};
use super::stream::Outflow;
use super::traffic::Manner;
use super::way::Way;
use super::{Run, Shm};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::transport::copy::{CopyFn, copy};
use crate::transport::memory::{LINE, Memory};
use crate::transport::segment::Label;
use crate::transport::{Gait, Message, Notice, Posted, Put, Sight};

/// Puts of so many bytes are copied in a moment. All but what streams are [`Posted::Done`].
pub(super) const INJECT: usize = 4096;
/// The most bytes of a put.
pub(super) const MOST: usize = isize::MAX as usize;
/// Bytes of a put into a window whose way is worth a thought.
pub(super) const TRAFFIC: RangeInclusive<usize> = 32 << 10..=STREAMED_NEAR;
/// The most bytes of a message whose lines are all asked for before the first is written: their last reader has them, and to
/// get them one after the other takes longer. With 512 B it takes 0.83 of the time (broadcast and reduce, two ranks on
/// EPYC), with 1 KiB 0.95, with 2 KiB 1.1, as more are not under way at a time.
const CLAIMED: usize = 1152;
/// Puts of at most so many bytes always stream through chunks: for the kernel it takes longer to begin.
const STREAMED: usize = 64 << 10;
/// And those at once to a rank that shares a cache, if they do not go [beside the chunks](Shm::goes_beside_chunks): of more the
/// bytes do not stay there.
const STREAMED_NEAR: usize = 4 << 20;

impl Shm {
    /// Puts into private memory or a window, as the key says.
    pub(super) fn put_by_its_way(&mut self, put: &Put<'_>) -> Result<Posted> {
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

    /// Writes a message into a slot of a peer's, which is mapped here.
    pub(super) fn post_into_slot(&mut self, message: &Message<'_>) -> Result<Posted> {
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
        let write = |copy: CopyFn, into: *mut u8| {
            // SAFETY: - there is room for head and data in the memory (checked), which is alive (the message borrows it)
            //         - the slot is this writer's until it is told of (the engine's credits), but for its first byte, which
            //           its owner may read all the while, and which is left alone here
            //         - the segments lie in their memory (checked)
            unsafe { write_behind_seal(copy, head, data, into) }
        };
        self.hand_over(peer, len, (Some(seal), notice), place, |into, distance| match len <= CLAIMED {
            true => {
                // Of one line, as a wide slot's, nothing is gained before it is written.
                if len > LINE {
                    to.claim(to_offset, len);
                }
                write(copy, into);
            }
            false => distance.copy(len, |copy| write(copy, into)),
        })
    }

    /// Has the processor get the lines of a short message's slot, and the one of its notice, while the message is made.
    pub(super) fn anticipate_message(&self, peer: Rank, to: &Memory, to_offset: usize, len: usize) {
        let board = self.peers.get(peer as usize).and_then(|peer| peer.board.made());
        if let Some(board) = board.filter(|_| len <= CLAIMED) {
            to.claim(to_offset, len);
            board.notices().anticipate();
        }
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
        let write = |copy: CopyFn, into: *mut u8| {
            // SAFETY: - there is room for the put in the mapping (`within`), which lives as long as its peer is known
            //         - nobody else writes there: the target has offered it for this put (the engine's readiness)
            //         - the segments lie in their region (`check`)
            unsafe { gather(copy, &put.from.memory, put.segments, into) }
        };
        self.hand_over(put.peer, len, (None, put.notice), place, |into, distance| {
            #[cfg(test)]
            super::ABREAST.fetch_add(u64::from(put.gait == Gait::Abreast), Ordering::Relaxed);
            // Many short runs take their time wherever they go.
            if put.gait == Gait::PastCaches || put.segments.len() > 1 {
                write(put.gait.copy(), into);
            } else if manner == Manner::Timed {
                distance.copy_timed(len, put.gait, |copy| write(copy, into));
            } else {
                distance.copy_into_window(len, put.gait, |copy| write(copy, into));
            }
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
        let board = match board.of(card, own.size as usize) {
            // As behind a gate that is closed: whether it has left in good order the lifeline knows.
            Err(Missing::Gone(_) | Missing::Another) => return Ok(Posted::Busy),
            found => found.map_err(|e| e.of(*name, "board"))?,
        };
        let notices = board.notices();
        let is_short = len <= INJECT;
        // Looked at before all is copied in vain. (What is short and private streams.)
        if !is_short && !notices.has_room() {
            return Ok(Posted::Busy);
        }
        let Some(entered) = board.gate().enter(own.rank as usize) else { return Ok(Posted::Busy) };
        let into = place(*name, card, windows, lives)?;
        let early = if is_short { notices.claim() } else { None };
        if is_short && early.is_none() {
            return Ok(Posted::Busy);
        }
        if let Some(into) = into {
            copy(into, distance);
        }
        let Some(cell) = early.or_else(|| notices.claim()) else { return Ok(Posted::Busy) };
        if let (Some(into), Some(seal)) = (into, seal) {
            // SAFETY: - there is room for it (`copy`'s promise), and everybody else only reads it, in this way
            unsafe { AtomicU8::from_ptr(into) }.store(seal, Ordering::Release);
        }
        notices.publish(cell, notice);
        drop(entered);
        wake(board, *name, card, bells)?;
        Ok(Posted::Done)
    }

    /// Puts into private memory: through chunks, or by the kernel, at both ends or at this one. To a rank that shares a
    /// cache through chunks, [mostly](Self::goes_beside_chunks), also where ranks outnumber cores: over 3 to 16 ranks on two cores collectives of 1 and 4 MiB take
    /// 0.37 to 1.06 of the time that they take by the kernel.
    fn put_privately(&mut self, put: &Put<'_>, len: usize) -> Result<Posted> {
        let may_stream = put.attended && self.is_near(put.peer) && len <= STREAMED_NEAR;
        match (self.way, put.segments) {
            _ if len <= STREAMED || !self.may_write => self.stream(put, len),
            (Way::Ring, _) if put.attended => self.stream(put, len),
            (Way::Joint, &[segment]) if put.attended && (!may_stream || self.goes_beside_chunks(put)) => {
                self.put_jointly(put, segment)
            }
            _ if may_stream => self.stream(put, len),
            _ => self.put_directly(put, len, Manner::Straight),
        }
    }

    /// Whether the kernel had better copy what might stream: what is as it was when it was put last, on processors where chunks do not
    /// go round. It finds most of it in the cache of whoever read it last, while lines of chunks go to and fro. Two ranks on a Xeon guest, slices:
    /// broadcast of 256 KiB takes 0.6 of the time, of 1 MiB 0.37; what is new in each call would take 1.1 to 1.2 of it.
    fn goes_beside_chunks(&mut self, put: &Put<'_>) -> bool {
        if self.rounds || put.from.is_rewritten {
            return false;
        }
        self.looks += 1;
        let sight = Sight { call: (self.looks, 0), memory: &put.from.memory, segments: put.segments };
        self.peers[put.peer as usize].distance.rests(sight)
    }

    /// Puts into a window: straight, or through the peer's chunks, if it has some.
    fn put_into_window(&mut self, put: &Put<'_>, len: usize) -> Result<Posted> {
        let may = put.attended && put.for_user && put.gait != Gait::PastCaches && TRAFFIC.contains(&len);
        let may = may && self.has_rounds(put.peer);
        let Peer { card, board, distance, .. } = &mut self.peers[put.peer as usize];
        let board = if may { board.of(card, self.place.size as usize).ok() } else { None };
        if board.is_none_or(|board| board.chunks().is_none()) {
            return self.put_directly(put, len, Manner::Straight);
        }
        let posted = match distance.choose((put.to.key, put.to.base.wrapping_add(put.to_offset), len)) {
            Manner::Round => {
                #[cfg(test)]
                super::ROUNDS.fetch_add(1, Ordering::Relaxed);
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
unsafe fn write_behind_seal(copy: CopyFn, head: &[u8], data: Option<(&Memory, &[Run])>, into: *mut u8) {
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
pub(super) unsafe fn gather(copy: CopyFn, from: &Memory, segments: &[Run], mut to: *mut u8) {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::transport::copy::copy_afar;

    #[test]
    fn a_message_lies_whole_behind_its_seal() {
        let numbers: Vec<u8> = (0..200).map(|i| i as u8).collect();
        let memory = Memory::zeroed(numbers.len()).unwrap();
        memory.write(0, &numbers);
        let run = |offset, len| Run { offset, len };
        for head in [0, 1, 55, 62, 63, 64, 150] {
            let head = &numbers[..head];
            for segments in [
                &[][..],
                &[run(3, 0)],
                &[run(3, 7)],
                &[run(100, 8), run(10, 1), run(20, 90)],
                &[run(0, 64), run(190, 10)],
            ] {
                let data = segments.iter().flat_map(|run| &numbers[run.offset..run.offset + run.len]);
                let expected: Vec<u8> = [77].iter().chain(head).chain(data).copied().collect();
                let mut slot = [77; 300];
                // SAFETY: - there is room for 1 + 150 + 99 bytes, and the segments lie in the 200 of the memory
                unsafe { write_behind_seal(copy, head, Some((&memory, segments)), slot.as_mut_ptr()) };
                assert_eq!(slot[..expected.len()], expected, "{} and {segments:?}", head.len());
                assert!(slot[expected.len()..].iter().all(|&byte| byte == 77));
            }
        }
    }

    #[test]
    fn a_message_to_a_far_peer_lies_whole_behind_its_seal() {
        let numbers: Vec<u8> = (0..5000).map(|i| (i / 7) as u8).collect();
        let memory = Memory::zeroed(numbers.len()).unwrap();
        memory.write(0, &numbers);
        let (head, run) = (&numbers[4900..4930], Run { offset: 3, len: 4000 });
        let expected: Vec<u8> = [&[77], head, &numbers[3..4003]].concat();
        let mut slot = [77; 4100];
        // SAFETY: - there is room for 1 + 30 + 4000 bytes, and the run lies in the 5000 of the memory
        unsafe { write_behind_seal(copy_afar, head, Some((&memory, &[run])), slot.as_mut_ptr()) };
        assert!(slot[..expected.len()] == expected);
        assert!(slot[expected.len()..].iter().all(|&byte| byte == 77));
    }
}
