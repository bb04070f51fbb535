//! What this job's puts cost.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::SMALL;
use crate::engine::slots::PAYLOAD;

/// Microseconds that a put may cost, and nanoseconds that a byte may.
const PUT: RangeInclusive<f64> = 0.1..=1e6;
const BYTE: RangeInclusive<f64> = 1e-3..=1e6;

/// What a put costs from its start to its notice, in microseconds, and a byte, in nanoseconds; as measured, or as the user has
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PutCosts {
    put: f64,
    byte: f64,
}

impl PutCosts {
    /// From 0.1 µs to a second a put, and from a picosecond to a millisecond a byte; `None` beyond.
    pub fn new(put: f64, byte: f64) -> Option<PutCosts> {
        (PUT.contains(&put) && BYTE.contains(&byte)).then_some(PutCosts { put, byte })
    }

    /// The nearest that may be: a clock that stands still must not make a block free, nor a machine that was stopped a year
    /// dear.
    pub(crate) fn measured(put: f64, byte: f64) -> PutCosts {
        let within = |number: f64, range: RangeInclusive<f64>| number.clamp(*range.start(), *range.end());
        PutCosts { put: within(put, PUT), byte: within(byte, BYTE) }
    }

    /// Microseconds a put.
    pub fn put(self) -> f64 {
        self.put
    }

    /// Nanoseconds a byte.
    pub fn byte(self) -> f64 {
        self.byte
    }

    /// As the user writes it, `2.0,0.1`; `None` where these are not two numbers that [may be](Self::new).
    pub fn named(word: &str) -> Option<PutCosts> {
        let (put, byte) = word.split_once(',')?;
        PutCosts::new(put.trim().parse().ok()?, byte.trim().parse().ok()?)
    }
}

impl Default for PutCosts {
    /// A fast network's: 2 µs a put, 10 GB/s.
    fn default() -> Self {
        PutCosts { put: 2.0, byte: 0.1 }
    }
}

impl fmt::Display for PutCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.put, self.byte)
    }
}

/// What a put costs between two ranks of this job; the same numbers on every rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Seconds from a put's start to its notice, whatever it carries, handshake included.
    pub latency: f64,
    /// Seconds a byte.
    pub byte: f64,
    /// Seconds that a further block costs: less than a put's latency, as most of that passes while other
    /// blocks are on the link.
    pub block: f64,
    /// Ranks that share a core, at least 1: what a message costs the processor, each of them pays in turn.
    pub crowd: f64,
    /// Whether all ranks share memory.
    pub shared: bool,
}

impl Default for Costs {
    /// [A fast network's](PutCosts::default), of ranks that have a core each.
    fn default() -> Self {
        Costs::of(PutCosts::default())
    }
}

impl Costs {
    /// From what a put and a byte cost, of ranks that have a core each.
    pub fn of(PutCosts { put, byte }: PutCosts) -> Costs {
        let latency = put * 1e-6;
        Costs { latency, byte: byte * 1e-9, block: latency * BLOCK_SHARE, crowd: 1.0, shared: false }
    }

    /// Seconds of a hop from rank to rank where all ranks of a core have one to make.
    pub(super) fn hop(&self) -> f64 {
        self.latency * self.crowd
    }

    /// What a further block costs where ranks share cores, each of which has one; of others `None`. Fitted, over TCP on two cores, by
    /// the clock, to how many blocks a short vector had better be cut into.
    pub(super) fn block_in_crowd(&self) -> Option<f64> {
        // A root is exact to the last bit on every machine, as other powers are not: all ranks choose alike.
        (self.crowd > 1.0).then(|| BLOCK_IN_CROWD * self.latency * self.crowd * self.crowd.sqrt())
    }

    /// Whether ranks that share a core, of which each copies a byte in and out, take longer for it than a link: then no
    /// link waits for blocks, but all for processors.
    pub(super) fn copies_outlast_links(&self) -> bool {
        self.crowd > 1.0 && self.byte < 2.0 * COPY * self.crowd
    }

    /// Whether all ranks share memory, and some share a core: then processors are what they wait for.
    pub(super) fn shares_cores_and_memory(&self) -> bool {
        self.shared && self.crowd > 1.0
    }

    /// The most bytes of a leg that travels in a slot: all that one takes, where to copy these in and out costs less
    /// than the handshake that it saves. Measured on the emulated cluster: of 16 KiB a broadcast over 8 ranks
    /// takes 0.8 of the time, a reduce 0.75; an all-to-all of such blocks over 16 ranks 0.87. In shared memory, where
    /// slices would be copied in and out as well, always: two ranks, allgather of 32 KiB 1.37 in place of 2.25 µs, from
    /// window to window 1.34 in place of 1.40; alltoall 1.67 in place of 2.6, and 1.73 in place of 1.83.
    pub(super) fn in_slot(&self) -> u64 {
        let copies = 2.0 * PAYLOAD as f64 * COPY;
        if self.shared || copies < HANDSHAKE * self.latency { PAYLOAD as u64 } else { SMALL }
    }

    /// What a vector of several blocks in slots saves, as a share of a put's latency: a handshake, and of two ranks that
    /// share memory that slices go in chunks, besides. With 32 KiB in four blocks in slots these take for a broadcast 1.9
    /// in place of 2.4 µs, to reduce 2.05 in place of 3.3; from window to window 1.85 in place of 1.6, and 2.0 of 1.85.
    pub(super) fn saved_by_slots(&self, p: u32) -> f64 {
        if self.shared && p == 2 { 0.7 } else { HANDSHAKE }
    }
}

/// A further block's cost as a share of a put's latency: small, as most of the latency passes while
/// other blocks are on the link. Measured on the emulated cluster with 8, 16 and 36 ranks, where larger
/// blocks than this gives wait for each other (manual, "Number of blocks").
const BLOCK_SHARE: f64 = 0.2;

/// What a further block costs [in a crowd](Costs::block_in_crowd), in terms of a put's latency and the crowd to the power of 1.5.
const BLOCK_IN_CROWD: f64 = 0.32;

/// Ranks to a core beyond which processors, not links, are what a call waits for.
pub(super) const MANY: f64 = 4.0;
/// Seconds that a byte takes that is copied within a node, where a processor has it in a cache.
pub(super) const COPY: f64 = 1e-10;
/// A handshake's share of a put's latency.
pub(super) const HANDSHAKE: f64 = 0.5;

/// How many times as much a message costs where many ranks share a core.
pub(super) fn many(costs: &Costs) -> f64 {
    (costs.crowd / MANY).max(1.0)
}
