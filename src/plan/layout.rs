//! Where blocks lie in memory: in one vector, in a part for each rank, in parts for pairs of ranks.
//!
//! Plans number blocks (see [`Numbering`](crate::collective::Numbering)); a layout turns a number into
//! bytes, on the side that puts and on the side where it lands. It knows no addresses.

use std::ops::Range;
use std::sync::Arc;

use super::Side;
use super::digits::Digits;
use super::partition::Partition;
use crate::rank::{Place, Rank};

/// Where this rank has each block.
pub trait Layout: Send {
    /// The bytes to put it from.
    fn source(&self, block: u32) -> Range<u64>;

    /// The bytes where it lands; the same, unless what goes out and what comes in are different memories.
    fn target(&self, block: u32) -> Range<u64> {
        self.source(block)
    }

    /// Where it lands at the rank that it is put to, counted from what that rank has [told](Self::told).
    fn remote(&self, block: u32) -> u64 {
        self.source(block).start
    }

    /// From where on in its memory this rank lets a source count.
    fn told(&self, source: Rank) -> u64 {
        let _ = source;
        0
    }

    /// The bytes of the part that is put to a peer, or comes from it, where only the two know how many there
    /// are; 0 where all ranks know.
    fn between(&self, peer: Rank, side: Side) -> u64 {
        let _ = (peer, side);
        0
    }
}

impl Layout for Partition {
    fn source(&self, block: u32) -> Range<u64> {
        self.range(block)
    }
}

/// A rank's part of a vector, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub count: u64,
}

/// Parts of these lengths, one after another.
pub fn adjacent(counts: impl IntoIterator<Item = u64>) -> Vec<Part> {
    let mut offset = 0;
    let part = |count| {
        let part = Part { offset, count };
        offset += count;
        part
    };
    counts.into_iter().map(part).collect()
}

/// A part for each rank, each in `blocks` blocks: block `b` of part `j` is `j · blocks + b`.
pub struct Parts {
    /// In rank order.
    pub parts: Arc<[Part]>,
    /// How many blocks a part has, at least 1.
    pub blocks: u32,
    /// Bytes of an element: no block ends within one.
    pub unit: u64,
    /// The last block's size in 256ths of the others' (see [`Partition::short_last`]).
    pub last: u16,
}

impl Layout for Parts {
    fn source(&self, block: u32) -> Range<u64> {
        let part = self.parts[(block / self.blocks) as usize];
        let blocks = Partition::short_last(part.count, self.blocks, self.last).in_units_of(self.unit);
        let (start, range) = (part.offset * self.unit, blocks.range(block % self.blocks));
        start + range.start..start + range.end
    }
}

/// A part for each pair of ranks: this rank's go out of one memory, and the others' come into another.
pub struct Pairs {
    /// Whose layout it is.
    pub place: Place,
    /// What goes to each rank, in the memory that is put from.
    pub sent: Vec<Part>,
    /// What comes from each rank, in the memory that is put into.
    pub received: Vec<Part>,
    /// Bytes of an element.
    pub unit: u64,
}

impl Pairs {
    fn bytes(&self, part: Part) -> Range<u64> {
        part.offset * self.unit..(part.offset + part.count) * self.unit
    }
}

impl Layout for Pairs {
    fn source(&self, block: u32) -> Range<u64> {
        self.bytes(self.sent[(block % self.place.size) as usize])
    }

    fn target(&self, block: u32) -> Range<u64> {
        self.bytes(self.received[(block / self.place.size) as usize])
    }

    /// Only the target knows where it has this rank's part, and tells it.
    fn remote(&self, _: u32) -> u64 {
        0
    }

    fn told(&self, source: Rank) -> u64 {
        self.bytes(self.received[source as usize]).start
    }

    fn between(&self, peer: Rank, side: Side) -> u64 {
        let parts = match side {
            Side::Put => &self.sent,
            Side::Arrival => &self.received,
        };
        parts[peer as usize].count * self.unit
    }
}

/// Where parts for pairs of ranks lie that others hand on, in a workspace; a rank's part for itself lies still.
pub trait HandedOn: Layout {
    /// The bytes that it takes.
    fn size(&self) -> u64;

    /// Where the block for `to` lies at the beginning.
    fn start(&self, to: Rank) -> Range<u64>;

    /// Where the block of `from` lies at the end.
    fn end(&self, from: Rank) -> Range<u64>;
}

/// Parts for pairs of ranks that are handed on from rank to rank, one digit of their distance after another: a place of
/// its own for each distance that a block has to go and each number of steps that it has gone, so that nothing lands on
/// what is still to be put. With `d` digits `p (d + 1)` places of `bytes` bytes.
pub struct Relay {
    place: Place,
    digits: Digits,
    bytes: u64,
}

impl Relay {
    /// Of `place.rank`; all blocks have the same size.
    pub fn new(place: Place, digits: Digits, bytes: u64) -> Self {
        Relay { place, digits, bytes }
    }

    /// How far a block goes from its first rank to its last, and in how many steps it has come here.
    fn way(&self, block: u32) -> (u32, u32) {
        let (from, to) = (block / self.place.size, block % self.place.size);
        let come = self.digits.steps(self.digits.distance(from, self.place.rank));
        (self.digits.distance(from, to), come)
    }

    /// What goes on to neighbouring distances after as many steps lies together.
    fn at(&self, distance: u32, steps: u32) -> Range<u64> {
        let place = u64::from(steps) * u64::from(self.place.size) + u64::from(distance);
        place * self.bytes..(place + 1) * self.bytes
    }
}

/// How many blocks a rank of `p` has room for: each may lie here after any number of steps.
pub fn places_for_relay(p: u32, digits: &Digits) -> u64 {
    u64::from(p) * u64::from(digits.levels() + 1)
}

impl Layout for Relay {
    fn source(&self, block: u32) -> Range<u64> {
        let (distance, steps) = self.way(block);
        self.at(distance, steps)
    }

    fn remote(&self, block: u32) -> u64 {
        let (distance, steps) = self.way(block);
        self.at(distance, steps + 1).start
    }
}

impl HandedOn for Relay {
    fn size(&self) -> u64 {
        places_for_relay(self.place.size, &self.digits) * self.bytes
    }

    fn start(&self, to: Rank) -> Range<u64> {
        self.at(self.digits.distance(self.place.rank, to), 0)
    }

    fn end(&self, from: Rank) -> Range<u64> {
        let distance = self.digits.distance(from, self.place.rank);
        self.at(distance, self.digits.steps(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_each_by_itself_and_never_within_an_element() {
        let parts = adjacent([5, 0, 7]);
        assert_eq!(parts[2], Part { offset: 5, count: 7 });
        let layout = Parts { parts: parts.into(), blocks: 3, unit: 12, last: 255 };
        let mut covered = 0;
        for block in 0..9 {
            let range = layout.source(block);
            assert_eq!((range.start % 12, range.end % 12), (0, 0));
            covered += range.end - range.start;
        }
        assert_eq!(covered, 12 * 12);
    }
}
