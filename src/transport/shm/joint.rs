//! Puts into private memory that both ends carry: the kernel writes what the source takes, and reads what the target
//! takes, each with one copy, at the same time.
//!
//! A put lies in one of the target's chunks, which stays at the front of their ring until all its pieces are there. A
//! target that does not look leaves all of them to the source, which then wakes it.

use std::ops::Range;

use rustix::io::Errno;

use super::Run;
use super::bell::wake;
use super::board::{Chunks, Destination, Origin};
use super::home::State;
use super::peer::{Peer, Reach, check_life};
use super::remote;
use super::ring::Place;
use super::share::{End, PIECES, Share, Turn};
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Put, Token};

/// Bytes of a piece, if that does not make too many.
const PIECE: usize = 32 << 10;
/// Where pieces are cut: so that no page is looked up for two of them.
const PAGE: usize = 4096;

/// How a put is cut: but for the first and the last piece at pages of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pieces {
    /// How far in its page it begins.
    skew: usize,
    len: usize,
    piece: usize,
}

impl Pieces {
    /// Of so many bytes, more than none, at an address of the target.
    fn of(address: u64, len: usize) -> Pieces {
        let skew = address as usize % PAGE;
        let least = len.div_ceil(PIECES as usize - 1).next_multiple_of(PAGE);
        Pieces { skew, len, piece: least.max(PIECE) }
    }

    fn count(&self) -> u32 {
        (self.skew + self.len).div_ceil(self.piece) as u32
    }

    /// The bytes of some.
    fn bytes(&self, pieces: &Range<u32>) -> Range<usize> {
        let [start, end] = [pieces.start, pieces.end].map(|number| number as usize * self.piece);
        start.saturating_sub(self.skew)..(end - self.skew).min(self.len)
    }
}

/// A put that both ends carry, as its source knows it.
pub struct Joint {
    /// To whom.
    pub peer: Rank,
    /// What is told of when it is done.
    pub token: Token,
    place: Place,
    turn: Turn,
    pieces: Pieces,
    /// Where it comes from: the target may read there, too.
    from: Memory,
    offset: usize,
    /// Where it goes.
    address: u64,
}

impl Joint {
    /// Tells the target of a put of one segment, if there is a chunk for it.
    pub fn offer(put: &Put<'_>, segment: Run, own: Rank, chunks: &Chunks) -> Option<Joint> {
        let place = chunks.ring().claim()?;
        let address = put.to.base.wrapping_add(put.to_offset);
        let pieces = Pieces::of(address, segment.len);
        let turn = Turn::new(chunks.ring().lap(place), pieces.count());
        let chunk = chunks.chunk(place).as_ptr();
        let to = Destination { key: put.to.key, address, len: segment.len as u64, behind: 0 };
        let from = put.from.memory.address().as_ptr().wrapping_add(segment.offset) as u64;
        // SAFETY: - the chunk is in its mapping, and this writer's alone until it is published
        unsafe {
            (&raw mut (*chunk).to).write(to);
            (&raw mut (*chunk).from).write(Origin { source: u64::from(own) + 1, address: from });
        }
        chunks.share(place).begin(turn);
        chunks.ring().publish(place, put.notice);
        let Put { peer, token, .. } = *put;
        let (from, offset) = (put.from.memory.clone(), segment.offset);
        Some(Joint { peer, token, place, turn, pieces, from, offset, address })
    }

    /// Whether all pieces are there.
    pub fn is_done(&self, peer: &Peer) -> bool {
        peer.chunks.made().is_none_or(|chunks| chunks.share(self.place).is_done(self.turn))
    }

    /// Carries pieces for as long as some are left. None where the peer has shut down: as everybody is about to hear.
    pub fn carry(&self, reach: &mut Reach<'_>) -> Result<()> {
        let Reach { own, peers, bells, lives, .. } = reach;
        let Peer { name, card, board, chunks, .. } = &mut peers[self.peer as usize];
        let (Some(board), Some(chunks)) = (board.made(), chunks.made()) else { return Ok(()) };
        let Some(entered) = board.gate().enter(*own as usize) else { return Ok(()) };
        check_life(*name, card, lives)?;
        let share = chunks.share(self.place);
        let from = self.from.address().as_ptr().wrapping_add(self.offset);
        let mut last = false;
        while let Some(pieces) = share.take(self.turn, End::Source) {
            let Range { start, end } = self.pieces.bytes(&pieces);
            let run = Run { offset: start, len: end - start };
            let address = self.address.wrapping_add(start as u64);
            // SAFETY: - the pieces lie in the segment, and that in its region (`Shm::check`), which is alive
            //         - nobody writes what is being put: the engine changes a block when it is sent
            unsafe { remote::write(card.home.pid, from, &[run], address) }
                .map_err(|error| remote::failed("process_vm_writev", error, run.len, *name))?;
            last = share.finish(self.turn, &pieces);
        }
        drop(entered);
        if last { wake(board, *name, card, bells) } else { Ok(()) }
    }
}

/// What has become of a put that both ends are to carry.
pub enum Begun {
    /// The target knows of it.
    Offered(Joint),
    /// The peer has shut down.
    ShutDown,
    /// There is no chunk for it.
    NoChunk,
}

/// Lets the target know of a put of one segment. [`Joint::carry`] comes next.
pub fn begin(put: &Put<'_>, segment: Run, reach: &mut Reach<'_>) -> Result<Begun> {
    let Reach { own, ranks, peers, bells, .. } = reach;
    let Peer { name, card, board, chunks, .. } = &mut peers[put.peer as usize];
    let board = board.of(card, *ranks).map_err(|e| e.of(*name, "board"))?;
    let Some(label) = board.chunks() else { return Ok(Begun::NoChunk) };
    let chunks = chunks.of(card, label).map_err(|e| e.of(*name, "ring"))?;
    let Some(_entered) = board.gate().enter(*own as usize) else { return Ok(Begun::ShutDown) };
    let Some(joint) = Joint::offer(put, segment, *own, chunks) else { return Ok(Begun::NoChunk) };
    wake(board, *name, card, bells)?;
    Ok(Begun::Offered(joint))
}

/// A put as its target finds it in a chunk.
pub struct Offer<'a> {
    share: &'a Share,
    turn: Turn,
    pieces: Pieces,
    source: Rank,
    from: u64,
}

/// How far a target has come with an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// All pieces are there.
    All,
    /// It has carried some.
    Some,
    /// There was nothing for it to do.
    Nothing,
    /// The source has ended, or has shut down, so that its user has the bytes again: they will never be here, of which
    /// others tell.
    Abandoned,
}

impl<'a> Offer<'a> {
    /// Of a chunk that was published, in its lap; `None` if its bytes are there.
    pub fn of(share: &'a Share, lap: u32, to: Destination, from: Origin) -> Option<Offer<'a>> {
        let source = from.source()?;
        let pieces = Pieces::of(to.address, to.len as usize);
        Some(Offer { share, turn: Turn::new(lap, pieces.count()), pieces, source, from: from.address })
    }

    /// Whether there is anything for the target to do, or to tell.
    pub fn is_due(&self) -> bool {
        self.share.has_some(self.turn) || self.is_done()
    }

    /// Whether all pieces are there.
    pub fn is_done(&self) -> bool {
        self.share.is_done(self.turn)
    }

    /// Takes pieces once, and carries them to where they belong, given where the first byte of all does.
    ///
    /// # Safety
    /// There must be room for all bytes, which nobody reads until all are there, and nobody else writes but the source.
    pub unsafe fn carry(&self, into: *mut u8, reach: &mut Reach<'_>) -> Result<Carried> {
        // SAFETY: as the caller promises
        let carried = if self.is_done() { Carried::All } else { unsafe { self.fetch(into, reach) }? };
        Ok(if self.is_done() { Carried::All } else { carried })
    }

    /// # Safety
    /// As [`carry`](Self::carry).
    unsafe fn fetch(&self, into: *mut u8, reach: &mut Reach<'_>) -> Result<Carried> {
        let Reach { own, ranks, peers, bells, lives } = reach;
        let Some(Peer { name, card, board, .. }) = peers.get_mut(self.source as usize) else {
            let what = format!("a put of rank {}, of {ranks} known", self.source);
            return Err(Error::transport("poll", what, "are all ranks of one version and one job?"));
        };
        let board = board.of(card, *ranks).map_err(|e| e.of(*name, "board"))?;
        let Some(entered) = board.gate().enter(*own as usize) else { return Ok(Carried::Abandoned) };
        if check_life(*name, card, lives).is_err() {
            return Ok(Carried::Abandoned);
        }
        let Some(pieces) = self.share.take(self.turn, End::Target) else { return Ok(Carried::Nothing) };
        let Range { start, end } = self.pieces.bytes(&pieces);
        let address = self.from.wrapping_add(start as u64);
        // SAFETY: - there is room for the pieces (the caller), which are this end's alone (`take`)
        let read = unsafe { remote::read(card.home.pid, address, into.add(start), end - start) };
        if let Err(error) = read {
            // To find out what has become of it may take long.
            drop(entered);
            let has_ended = error == Errno::SRCH || card.home.settled(card.board) == State::Ended;
            let failed = || remote::failed("process_vm_readv", error, end - start, *name);
            return if has_ended { Ok(Carried::Abandoned) } else { Err(failed()) };
        }
        let last = self.share.finish(self.turn, &pieces);
        drop(entered);
        if last {
            wake(board, *name, card, bells)?;
        }
        Ok(Carried::Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "many numbers, and no pointers")]
    fn pieces_lie_side_by_side_and_are_cut_at_pages_of_the_target() {
        for skew in [0, 1, PAGE - 1] {
            for len in
                [1, PIECE - 1, PIECE, PIECE + 1, 10 * PIECE + 7, 3 * PIECES as usize * PIECE + 1, 1 << 40]
            {
                let address = (7 * PAGE + skew) as u64;
                let pieces = Pieces::of(address, len);
                assert!((1..=PIECES).contains(&pieces.count()), "{pieces:?}");
                let mut end = 0;
                for range in (0..pieces.count()).map(|number| pieces.bytes(&(number..number + 1))) {
                    assert!(range.start == end && range.end > end, "{pieces:?}: {range:?}");
                    end = range.end;
                    assert!(
                        end == len || (address as usize + end).is_multiple_of(PAGE),
                        "{pieces:?}: {range:?}"
                    );
                }
                assert_eq!(end, len);
            }
        }
    }
}
