//! Staging: registered memory where pieces land that are folded, or copied to where they belong.
//!
//! An operation that stages has [`STAGES`] slots for each of its sources, as large as a piece, whatever
//! the size of the message; a piece goes when its source knows that its slot has been emptied. The memory
//! is taken from a pool and given back, so that it is registered once for many calls.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::transport::memory::LINE;
use crate::transport::{Region, Transport};

/// Staging slots for each source of an operation: many, as each word that some are empty again wakes the source. With 8,
/// and a word for every fourth, reductions took 1.02 (16 ranks on two cores, 256 KiB) to 1.09 times as long (36, 1 MiB).
pub const STAGES: usize = 16;
/// The most regions that a pool keeps.
const KEPT: usize = 16;

/// The staging slots of an operation, for its sources or for its targets.
pub struct Staging {
    /// All of them.
    pub region: Region,
    stride: usize,
}

impl Staging {
    /// Where a slot begins, of the source (or target) of this number.
    pub fn offset(&self, number: usize, slot: usize) -> usize {
        (number * STAGES + slot) * self.stride
    }
}

/// Where slot `slot` of a source begins, counted from its first one.
pub fn offset_there(piece: usize, slot: usize) -> u64 {
    (slot * stride(piece)) as u64
}

/// Bytes that the staging slots of so many sources take.
pub fn bytes(sources: usize, piece: usize) -> usize {
    sources * STAGES * stride(piece)
}

fn stride(piece: usize) -> usize {
    piece.next_multiple_of(LINE)
}

/// Regions that no operation needs at the moment.
#[derive(Default)]
pub struct Pool {
    free: Vec<Region>,
}

impl Pool {
    /// Slots for so many sources: the smallest region that is large enough, or a new one.
    pub fn take(&mut self, transport: &mut dyn Transport, sources: usize, piece: usize) -> Result<Staging> {
        let wanted = bytes(sources, piece);
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].memory.len() >= wanted);
        let best = fitting.min_by_key(|&i| self.free[i].memory.len());
        let region = match best {
            Some(i) => self.free.swap_remove(i),
            None => {
                let memory = transport.allocate(wanted)?;
                transport.register(memory)?
            }
        };
        Ok(Staging { region, stride: stride(piece) })
    }

    /// Slots that are needed no more; beyond a number the smallest ones go.
    pub fn give_back(&mut self, staging: Staging) {
        self.free.push(staging.region);
        if self.free.len() > KEPT {
            self.free.sort_by_key(|region| std::cmp::Reverse(region.memory.len()));
            self.free.pop();
        }
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.free.clear();
    }
}
