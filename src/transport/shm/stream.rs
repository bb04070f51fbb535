//! Puts into private memory that the kernel does not write, and into windows whose lines go to and fro: their bytes stream
//! through chunks in shared memory, which the source fills while the target empties those before.
//!
//! Chunks are filled in turn, and there are so many, where there is room in a cache that cores share, that their own
//! caches have let go of one when it is filled again (see [`Transport::span`](crate::transport::Transport::span)), and in a
//! crowd more than the fewest, so that who empties them need not be waited for so often.
//! Where all are full a put goes on at the next polls, and is told of when its last chunk is filled.

use smallvec::SmallVec;

use super::Run;
use super::bell::wake;
use super::board::{CHUNK, CHUNKS, Chunk, Chunks, Destination, Origin};
use super::distance::Distance;
use super::joint::{Carried, Offer};
use super::peer::{Handles, Peer, Reach};
use super::puts::gather;
use super::regions::{PRIVATE, Regions};
use super::ring::{Place, Reader};
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::copy::{CopyFn, copy};
use crate::transport::memory::Memory;
use crate::transport::segment::{Label, Segment};
use crate::transport::{Event, Notice, Put, Token};

/// Chunks that arrive.
pub struct Inflow {
    chunks: Chunks,
    reader: Reader,
    /// A put that will never be there, if that is at the front.
    abandoned: Option<Place>,
    segment: Segment,
}

impl Inflow {
    /// As many as take up so many bytes, within [limits](CHUNKS). Fails where there is no memory for them.
    pub fn new(bytes: usize) -> Result<Inflow> {
        let count = bytes.div_ceil(CHUNK).next_power_of_two().clamp(CHUNKS.0, CHUNKS.1);
        let segment = Segment::create(Chunks::bytes(count))?;
        let chunks = Chunks::over(segment.map()?).ok_or_else(|| {
            Error::transport("mmap", "there is less room for chunks than was made", "report this")
        })?;
        let lot = chunks.count() as u64 / 4;
        Ok(Inflow { chunks, reader: Reader::new(lot), abandoned: None, segment })
    }

    /// What others find them by.
    pub fn label(&self) -> Label {
        self.segment.label()
    }

    /// Whether there is anything to take.
    pub fn has_some(&self) -> bool {
        let Some((place, _)) = self.reader.peek(self.chunks.ring()) else { return false };
        match self.look(place).1 {
            Some(offer) if self.abandoned == Some(place) => offer.is_done(),
            Some(offer) => offer.is_due(),
            None => true,
        }
    }

    /// Where a chunk's bytes go, and, if they are elsewhere, the offer of them.
    fn look(&self, place: Place) -> (Destination, Option<Offer<'_>>) {
        let chunk = self.chunks.chunk(place).as_ptr();
        // SAFETY: - the chunk is in the mapping, and published: nobody writes these fields until the reader moves on
        let (to, from) = unsafe { ((*chunk).to, (*chunk).from) };
        (to, Offer::of(self.chunks.share(place), self.chunks.ring().lap(place), to, from))
    }

    /// Chunks that have arrived go to where they belong; whether some were of a put that is still on its way.
    pub fn take(
        &mut self,
        regions: &Regions,
        reach: &mut Reach<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool> {
        // Not without end, where peers are faster.
        let mut moved = false;
        for _ in 0..CHUNKS.0 {
            let Some((cell, notice)) = self.reader.peek(self.chunks.ring()) else { break };
            let (to, offer) = self.look(cell);
            if let Some(offer) = offer {
                let carried = carry(regions, to, &offer, reach)?;
                moved |= carried == Carried::Some;
                self.abandoned = Some(cell).filter(|_| carried == Carried::Abandoned);
                // Once at a time, so that notices are heard between.
                if carried != Carried::All {
                    break;
                }
            } else {
                let chunk = self.chunks.chunk(cell).as_ptr();
                // SAFETY: - the chunk is in the mapping, and published: nobody writes it until the reader moves on
                deliver(regions, to, unsafe { &(*chunk).bytes.0 })?;
            }
            self.reader.advance(self.chunks.ring());
            match to.behind {
                0 => events.push(Event::Notice(notice)),
                _ => moved = true,
            }
        }
        Ok(moved)
    }
}

/// A put on its way through chunks.
pub struct Outflow {
    /// To whom.
    pub peer: Rank,
    /// What is told of when it is done.
    pub token: Token,
    notice: Notice,
    from: Memory,
    /// What is still to be put.
    rest: SmallVec<[Run; 2]>,
    /// Where that belongs.
    to: Destination,
}

impl Outflow {
    /// Of a put of so many bytes, which lies in its region.
    pub fn new(put: &Put<'_>, len: usize) -> Outflow {
        let address = put.to.base.wrapping_add(put.to_offset);
        let to = Destination { key: put.to.key, address, len: 0, behind: len as u64 };
        // The next one is the last, so that it can be taken away.
        let rest = put.segments.iter().rev().copied().collect();
        let Put { peer, token, notice, .. } = *put;
        Outflow { peer, token, notice, from: put.from.memory.clone(), rest, to }
    }

    /// Whether all has been poured.
    pub fn is_done(&self) -> bool {
        self.to.behind == 0
    }

    /// Fills as many of the peer's chunks as are free, each of which it is told; whether any was.
    pub fn pour(&mut self, peer: &mut Peer, bells: &mut Handles, ranks: usize) -> Result<bool> {
        let Peer { name, card, board, chunks, distance, .. } = peer;
        let board = board.of(card, ranks).map_err(|e| e.of(*name, "board"))?;
        // Whoever has told a private region's key has shown them before; for a window they are looked for before.
        let Some(label) = board.chunks() else { return Ok(false) };
        let chunks = chunks.of(card, label).map_err(|e| e.of(*name, "ring"))?;
        let before = self.to.behind;
        while !self.is_done()
            && let Some(place) = chunks.ring().claim()
        {
            // In its first lap a chunk has not been read, and may not even be mapped.
            let distance = (chunks.ring().lap(place) > 1).then_some(&mut *distance);
            self.fill(chunks.chunk(place).as_ptr(), distance);
            chunks.ring().publish(place, self.notice);
            wake(board, *name, card, bells)?;
        }
        Ok(self.to.behind < before)
    }

    /// Copies what is next into a chunk, which is in its mapping and this writer's alone until it is published.
    fn fill(&mut self, chunk: *mut Chunk, distance: Option<&mut Distance>) {
        let room = (self.to.behind as usize).min(CHUNK);
        self.to.len = room as u64;
        self.to.behind -= room as u64;
        // SAFETY: - the chunk is this writer's (the caller), who knows the address of the field by it
        unsafe {
            (&raw mut (*chunk).to).write(self.to);
            (&raw mut (*chunk).from).write(Origin::CHUNK);
        }
        // SAFETY: as above
        let bytes = unsafe { &raw mut (*chunk).bytes }.cast::<u8>();
        match distance {
            Some(distance) => distance.copy(room, |copy| self.copy(copy, bytes, room)),
            None => self.copy(copy, bytes, room),
        }
        self.to.address = self.to.address.wrapping_add(room as u64);
    }

    /// The same, to where a chunk's bytes begin, of which it takes so many.
    fn copy(&mut self, copy: CopyFn, bytes: *mut u8, room: usize) {
        let mut filled = 0;
        while filled < room
            && let Some(next) = self.rest.last_mut()
        {
            let some = Run { len: next.len.min(room - filled), ..*next };
            // SAFETY: - a chunk has room for it (`room`)
            //         - the segments lie in their memory (`Shm::check`), which is alive
            unsafe { gather(copy, &self.from, &[some], bytes.add(filled)) };
            filled += some.len;
            *next = Run { offset: next.offset + some.len, len: next.len - some.len };
            if next.len == 0 {
                self.rest.pop();
            }
        }
    }
}

/// Writes a chunk's bytes into the region that they are for.
fn deliver(regions: &Regions, to: Destination, bytes: &[u8; CHUNK]) -> Result<()> {
    let bytes = bytes.get(..to.len as usize);
    let delivered =
        landing(regions, to).zip(bytes).map(|((memory, offset), bytes)| memory.write(offset, bytes));
    delivered.ok_or_else(|| astray(to))
}

/// Carries what is left of a put into the region that it is for.
fn carry(regions: &Regions, to: Destination, offer: &Offer<'_>, reach: &mut Reach<'_>) -> Result<Carried> {
    let (memory, offset) = landing(regions, to).ok_or_else(|| astray(to))?;
    // SAFETY: - there is room for it (`landing`) in memory that is alive: the table has it
    //         - nobody else uses it: the target has offered it for this put (the engine's readiness)
    unsafe { offer.carry(memory.address().as_ptr().add(offset), reach) }
}

/// The memory that all of a put's bytes go to, and where in it, if there is room.
fn landing(regions: &Regions, to: Destination) -> Option<(&Memory, usize)> {
    let memory = regions.of(to.key)?;
    let base = if to.key & PRIVATE == 0 { 0 } else { memory.address().as_ptr() as u64 };
    let offset = usize::try_from(to.address.checked_sub(base)?).ok()?;
    let end = offset.checked_add(usize::try_from(to.len).ok()?)?;
    (end <= memory.len()).then_some((memory, offset))
}

#[cold]
fn astray(to: Destination) -> Error {
    let what = format!("a peer put {} bytes into a region that is gone, or beyond its end", to.len);
    Error::transport("poll", what, "are all ranks of one version and one job?")
}
