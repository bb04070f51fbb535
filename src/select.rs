//! Which path and how many blocks: from the call's signature and from what was measured, so that all
//! ranks choose alike.
#![forbid(unsafe_code)]

use crate::engine::notice::MAX_BLOCKS;
use crate::engine::operation::Pace;
use crate::engine::run::LOOKAHEAD;
use crate::engine::slots::PAYLOAD;
use crate::plan::partition::Partition;

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
}

impl Default for Costs {
    /// A fast network's: 2 µs a put, 10 GB/s.
    fn default() -> Self {
        Costs { latency: 2e-6, byte: 1e-10, block: 3e-7 }
    }
}

/// The most bytes of a message that travels in slots.
pub const SMALL: u64 = PAYLOAD as u64;

/// The last block's size, in 256ths of the others' (see [`Partition::short_last`]): next to nothing, as
/// the rounds beyond the n-th carry no other block from the root.
const LAST: u8 = 8;

/// A further block's cost as a share of a put's latency: small, as most of the latency passes while
/// other blocks are on the link. Measured on the emulated cluster with 8, 16 and 36 ranks, where larger
/// blocks than this gives wait for each other (manual, "Number of blocks").
pub const BLOCK_SHARE: f64 = 0.2;

/// As long as a further block costs less than this share of its time on the link, blocks are made smaller
/// than the model asks for: it knows nothing of blocks that meet at a receiver and wait for each other.
const CHEAP: f64 = 0.01;

/// Bytes that a block does not fall below unless it is told to: a packet, and a system call, are worth
/// about as much.
const SMALLEST: u64 = 7168;

/// How a broadcast is cut.
///
/// `m` bytes in `n` blocks take `(n - 1 + q) (c + b m / n)`, which is least for
/// `n = √((q - 1) m b / c)` (Träff, Section 4 finds the same form by experiment).
pub fn broadcast(bytes: u64, p: u32, costs: &Costs, max_put: u64, by_hand: Option<u32>) -> Partition {
    let blocks = by_hand.unwrap_or_else(|| broadcast_blocks(bytes, p, costs, max_put));
    if blocks == 1 { Partition::even(bytes, 1) } else { Partition::short_last(bytes, blocks, LAST) }
}

fn broadcast_blocks(bytes: u64, p: u32, costs: &Costs, max_put: u64) -> u32 {
    let q = p.max(1).next_power_of_two().trailing_zeros();
    let fewest = if bytes <= max_put { 1 } else { bytes / max_put + 2 };
    let best = match q {
        _ if bytes <= SMALL => 1.0,
        0 | 1 => 1.0,
        _ => {
            let on_the_link = bytes as f64 * costs.byte;
            let by_the_model = (f64::from(q - 1) * on_the_link / costs.block).sqrt();
            by_the_model.max(on_the_link * CHEAP / costs.block).min((bytes / SMALLEST) as f64)
        }
    };
    let blocks = (best.round() as u64).max(fewest).min(MAX_BLOCKS.into()) as u32;
    whole_phases(blocks, q)
}

/// How far a run goes ahead: one put on the link and one behind it, and as many more as fit into the
/// time of a put's latency.
///
/// Measured on the emulated cluster (manual, "Number of blocks"): where a block takes the link longer than
/// a round trip, every put beyond the second and every round beyond the next only disturbs the order of the others'.
pub fn pace(partition: &Partition, costs: &Costs) -> Pace {
    let block = partition.range(0).end as f64 * costs.byte;
    let more = (costs.latency / block.max(1e-12)).min(f64::from(LOOKAHEAD - 1)) as u32;
    Pace { in_flight: 2 + more, lookahead: 1 + more }
}

/// The next number of blocks of which the rounds are whole phases of q: `n - 1` is a multiple of q, and
/// no round is skipped before the first (Träff's x is 0).
fn whole_phases(blocks: u32, q: u32) -> u32 {
    1 + (blocks.max(1) - 1).next_multiple_of(q.max(1)).min(MAX_BLOCKS - 1)
}

/// Whether a message travels in slots: where the whole of it would fit one, however many blocks it has.
pub fn is_small(partition: &Partition) -> bool {
    partition.bytes() <= SMALL
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u64 = u64::MAX;

    #[test]
    fn no_block_is_larger_than_a_put_may_be() {
        for p in [2, 3, 16, 1000] {
            let partition = broadcast(10 << 30, p, &Costs::default(), 1 << 20, None);
            assert!(partition.range(0).end <= 1 << 20, "{p}: {partition:?}");
        }
    }

    #[test]
    fn blocks_grow_with_the_root_of_the_size() {
        let costs = Costs { latency: 1e-5, byte: 1e-9, block: 1e-5 };
        assert_eq!(broadcast_blocks(4096, 16, &costs, FREE), 1);
        let (one, four) =
            (broadcast_blocks(1 << 24, 16, &costs, FREE), broadcast_blocks(1 << 26, 16, &costs, FREE));
        assert!(one > 10 && four > 2 * one - 4, "{one} {four}");
    }

    #[test]
    fn two_ranks_need_one_block() {
        assert_eq!(broadcast_blocks(1 << 30, 2, &Costs::default(), FREE), 1);
        assert_eq!(broadcast_blocks(1 << 30, 1, &Costs::default(), FREE), 1);
    }

    #[test]
    fn a_number_by_hand_is_taken_even_beyond_the_bytes() {
        assert_eq!(broadcast(3, 5, &Costs::default(), FREE, Some(700)).blocks(), 700);
    }
}
