//! Staging: registered memory where pieces land that are folded, or copied to where they belong.
//!
//! An operation that stages has [`STAGES`] slots for each of its sources, as large as a piece, whatever
//! the size of the message; a piece goes when its source knows that its slot has been emptied. The memory
//! is taken from a pool and given back, so that it is registered once for many calls. Those of calls that follow each
//! other begin one behind the other, where the transport [wants that](Transport::span).
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
    /// The memory that they are in.
    pub region: Region,
    /// Where they begin there.
    base: usize,
    stride: usize,
}

impl Staging {
    /// Where a slot begins, of the source (or target) of this number.
    pub fn offset(&self, number: usize, slot: usize) -> usize {
        self.base + (number * STAGES + slot) * self.stride
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

/// Memory that no operation needs at the moment.
#[derive(Default)]
pub struct Pool {
    free: Vec<Spare>,
}

struct Spare {
    region: Region,
    /// Behind what was used last.
    next: usize,
}

impl Pool {
    /// Slots for so many sources, which begin behind those that were used last, and go round in `span` bytes more: in
    /// the smallest memory that is large enough, or new one.
    pub fn take(
        &mut self,
        transport: &mut dyn Transport,
        sources: usize,
        piece: usize,
        span: usize,
    ) -> Result<Staging> {
        let (wanted, stride) = (bytes(sources, piece), stride(piece));
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].region.memory.len() >= wanted + span);
        let best = fitting.min_by_key(|&i| self.free[i].region.memory.len());
        let (region, base) = match best {
            Some(i) => {
                let Spare { region, next } = self.free.swap_remove(i);
                let fits = span > 0 && next + wanted <= region.memory.len();
                (region, if fits { next } else { 0 })
            }
            None => {
                let memory = transport.allocate(wanted + span)?;
                (transport.register(memory)?, 0)
            }
        };
        Ok(Staging { region, base, stride })
    }

    /// Slots that are needed no more, of which each source has used so many at most; of many memories the smallest ones
    /// go.
    pub fn give_back(&mut self, staging: Staging, used: usize) {
        let next = staging.offset(0, used.min(STAGES));
        self.free.push(Spare { region: staging.region, next });
        if self.free.len() > KEPT {
            self.free.sort_by_key(|spare| std::cmp::Reverse(spare.region.memory.len()));
            self.free.pop();
        }
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::loopback::Loopback;

    #[test]
    fn slots_begin_behind_those_that_were_used_last_and_stay_in_their_memory() {
        const PIECE: usize = 100;
        let mut transport = Loopback::world(1, 0).unwrap().remove(0);
        let mut pool = Pool::default();
        let span = 3 * STAGES * stride(PIECE);
        let mut bases = Vec::new();
        for used in [0, 1, 5, STAGES, 40, STAGES, STAGES - 5, 2] {
            let staging = pool.take(&mut transport, 2, PIECE, span).unwrap();
            let end = staging.offset(1, STAGES - 1) + stride(PIECE);
            assert!(end <= staging.region.memory.len());
            bases.push(staging.offset(0, 0) / stride(PIECE));
            pool.give_back(staging, used);
        }
        assert_eq!(bases, [0, 0, 1, 6, 22, 38, 0, 11]);
        assert_eq!(pool.free.len(), 1);
    }
}
