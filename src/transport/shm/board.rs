//! What a rank shows its peers: a segment with its notice ring, its alarm and its gate; and, once it has
//! memory to be put into by them, one with chunks on their way there.
//!
//! The only place where shared bytes become atomics.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::alarm::Alarm;
use super::fences::{Fences, Promise};
use super::gate::{Gate, Inside};
use super::primitive::{AtomicU32, AtomicU64, Ordering};
use super::ring::{Ends, Place, Ring};
use super::share::Share;
use crate::rank::Rank;
use crate::transport::segment::{Label, Mapping};

/// Notices that a rank has room for.
pub const NOTICES: usize = 4096;
/// The fewest and the most chunks on their way, and the most bytes of one.
pub const CHUNKS: (usize, usize) = if cfg!(miri) { (4, 8) } else { (16, 512) };
pub const CHUNK: usize = if cfg!(miri) { 64 } else { 16 << 10 };

/// A rank's board, one's own or a peer's. Zeroed at first.
pub struct Board {
    mapping: Mapping,
    ranks: usize,
    fences: Fences,
}

/// What does not depend on the number of ranks.
#[repr(C)]
struct Head {
    notices: Ends,
    alarm: CachePadded<Alarm>,
    closed: CachePadded<AtomicU32>,
    promise: CachePadded<Promise>,
    /// The number of the chunks' segment and 1, once there is one.
    chunks: CachePadded<AtomicU64>,
    cells: [AtomicU64; NOTICES],
}

impl Board {
    /// Bytes of the board of one among so many ranks.
    pub fn bytes(ranks: usize) -> usize {
        size_of::<Head>() + ranks * size_of::<Inside>()
    }

    /// The board in a segment; `None` where that is too small for one.
    pub fn over(mapping: Mapping, ranks: usize) -> Option<Board> {
        let has_room = mapping.len() >= Board::bytes(ranks);
        has_room.then(|| Board { mapping, ranks, fences: Fences::Both }.with_promise())
    }

    /// Promises all, before anybody knows of it, to spare them their [fences](super::fences).
    pub fn promise(self) -> Board {
        self.head().promise.make();
        self.with_promise()
    }

    /// What its owner promises is for good: it is looked at once.
    fn with_promise(self) -> Board {
        Board { fences: self.head().promise.fences(), ..self }
    }

    /// Who fences where its owner lies down, or closes its gate.
    pub fn fences(&self) -> Fences {
        self.fences
    }

    fn head(&self) -> &Head {
        // SAFETY: - the mapping has room for it (checked in `over`), and begins at a page's start
        //         - it is atomics only, of which every pattern of bits is one, and nobody writes it otherwise
        unsafe { self.mapping.start().cast::<Head>().as_ref() }
    }

    /// The ring of notices.
    pub fn notices(&self) -> Ring<'_> {
        let head = self.head();
        Ring::new(&head.notices, &head.cells)
    }

    /// Whether the rank sleeps.
    pub fn alarm(&self) -> &Alarm {
        &self.head().alarm
    }

    /// The way into the rank's memory.
    pub fn gate(&self) -> Gate<'_> {
        // SAFETY: - the words lie behind the head, aligned as it is, and the mapping has room (checked in `over`)
        //         - the pointer is the mapping's, as one made from a reference to the head ends where the head does
        //         - they are atomics only, as above
        let inside = unsafe {
            let first = self.mapping.start().add(size_of::<Head>()).cast::<Inside>();
            std::slice::from_raw_parts(first.as_ptr(), self.ranks)
        };
        Gate::new(&self.head().closed, inside, self.fences)
    }

    /// Shows where chunks may be put.
    pub fn show_chunks(&self, label: Label) {
        self.head().chunks.store(label.number() + 1, Ordering::Release);
    }

    /// Where chunks may be put, once the rank shows it.
    pub fn chunks(&self) -> Option<Label> {
        let shown = self.head().chunks.load(Ordering::Acquire);
        shown.checked_sub(1).map(Label::from_number)
    }
}

/// Chunks that are on their way into a rank's memory. Zeroed at first.
pub struct Chunks {
    mapping: Mapping,
    count: usize,
}

#[repr(C)]
struct ChunksHead {
    ends: Ends,
    cells: [AtomicU64; CHUNKS.1],
}

/// A chunk's place in the segment. Its bytes begin with a cache line, and share none.
#[repr(C, align(64))]
pub struct Chunk {
    /// What it is about.
    pub to: Destination,
    /// Where its bytes are, if not here.
    pub from: Origin,
    /// Then, how far they are carried.
    share: Line<Share>,
    /// Its bytes.
    pub bytes: Line<[u8; CHUNK]>,
}

/// On cache lines of its own.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

// They are told to be free four times a round.
const _: () = assert!(CHUNKS.0.is_power_of_two() && CHUNKS.0 >= 4 && CHUNKS.1.is_power_of_two());

/// Where a chunk's bytes go.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The region's key.
    pub key: u64,
    /// Where in memory.
    pub address: u64,
    /// How many bytes.
    pub len: u64,
    /// How many of the put's bytes come behind them.
    pub behind: u64,
}

/// Where the bytes of a put come from that both ends carry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The source's number and 1; or 0, if the bytes are in the chunk.
    pub source: u64,
    /// Where in the source's memory.
    pub address: u64,
}

impl Origin {
    /// The bytes are in the chunk.
    pub const CHUNK: Origin = Origin { source: 0, address: 0 };

    /// Whose memory it is, if not the chunk.
    pub fn source(&self) -> Option<Rank> {
        self.source.checked_sub(1).and_then(|source| Rank::try_from(source).ok())
    }
}

impl Chunks {
    /// Bytes of a segment with so many, a power of two.
    pub fn bytes(count: usize) -> usize {
        size_of::<ChunksHead>() + count * size_of::<Chunk>()
    }

    /// The chunks in a segment, as many as there is room for; `None` where that is too small.
    pub fn over(mapping: Mapping) -> Option<Chunks> {
        let room = mapping.len().checked_sub(size_of::<ChunksHead>())? / size_of::<Chunk>();
        let count = 1 << room.checked_ilog2()?;
        (count >= CHUNKS.0).then(|| Chunks { mapping, count: count.min(CHUNKS.1) })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The ring of chunks.
    pub fn ring(&self) -> Ring<'_> {
        // SAFETY: - the mapping has room for it (checked in `over`), and begins at a page's start
        //         - it is atomics only, of which every pattern of bits is one, and nobody writes it otherwise
        let head = unsafe { self.mapping.start().cast::<ChunksHead>().as_ref() };
        Ring::new(&head.ends, &head.cells[..self.count])
    }

    /// The chunk of a place, which belongs to its writer until it is published, then to the reader.
    pub fn chunk(&self, place: Place) -> NonNull<Chunk> {
        let index = self.ring().index(place);
        // SAFETY: - the ring has `count` cells, so the chunk lies in the mapping (checked in `over`)
        unsafe { self.mapping.start().add(size_of::<ChunksHead>()).cast::<Chunk>().add(index) }
    }

    /// How far a put is that both ends carry, in a chunk of its place.
    pub fn share(&self, place: Place) -> &Share {
        let chunk = self.chunk(place).as_ptr();
        // SAFETY: - the chunk lies in the mapping
        //         - the field is an atomic only, of which every pattern of bits is one, and nobody writes it otherwise
        unsafe { &(*chunk).share.0 }
    }
}
