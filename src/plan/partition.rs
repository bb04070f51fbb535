//! How a vector is cut into blocks.
//!
//! All blocks have one size but the last, which takes what remains and may be shorter. That is worth
//! having: in a circulant broadcast the root puts the last block `q = ⌈log₂ p⌉` times and every other
//! one once, so a short last block saves the busiest link most of the `q - 1` extra blocks.

use std::ops::Range;

/// A vector cut into `blocks` blocks of one size, the last one taking the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    elements: u64,
    blocks: u32,
    size: u64,
    unit: u64,
}

impl Partition {
    /// Blocks as equal as whole elements allow: of `⌈elements / blocks⌉`, but for those at the end. Blocks
    /// beyond the last element are empty. No blocks are taken for one. An element is a byte, unless
    /// [told otherwise](Self::in_units_of).
    pub fn even(elements: u64, blocks: u32) -> Partition {
        let blocks = blocks.max(1);
        Partition { elements, blocks, size: elements.div_ceil(u64::from(blocks)), unit: 1 }
    }

    /// The last block shorter than the others: a share of `weight / 256` of theirs; with
    /// 256 all are even.
    pub fn short_last(elements: u64, blocks: u32, weight: u16) -> Partition {
        let even = Partition::even(elements, blocks);
        match u128::from(even.blocks - 1) * 256 {
            0 => even,
            others => {
                let size = (u128::from(elements) * 256).div_ceil(others + u128::from(weight));
                Partition { size: size as u64, ..even }
            }
        }
    }

    /// The same with elements of so many bytes.
    pub fn in_units_of(self, unit: u64) -> Partition {
        Partition { unit, ..self }
    }

    /// All the bytes.
    pub fn bytes(&self) -> u64 {
        self.elements * self.unit
    }

    /// The number of blocks, at least 1.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes of a block; empty beyond the end.
    pub fn range(&self, block: u32) -> Range<u64> {
        let start = u64::from(block).saturating_mul(self.size).min(self.elements);
        let end = if block + 1 >= self.blocks {
            self.elements
        } else {
            start.saturating_add(self.size).min(self.elements)
        };
        start * self.unit..end * self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_follow_one_another_and_cover_all(bytes in 0u64..1 << 40, blocks in 1u32..5000, weight in 0u16..257) {
            for partition in [Partition::even(bytes, blocks), Partition::short_last(bytes, blocks, weight)] {
                let mut end = 0;
                for block in 0..blocks {
                    let range = partition.range(block);
                    prop_assert_eq!(range.start, end);
                    prop_assert!(range.end >= range.start);
                    end = range.end;
                }
                prop_assert_eq!(end, bytes);
            }
        }

        #[test]
        fn no_block_is_larger_than_the_first(bytes in 0u64..1 << 40, blocks in 1u32..5000, weight in 0u16..257) {
            for partition in [Partition::even(bytes, blocks), Partition::short_last(bytes, blocks, weight)] {
                let first = partition.range(0);
                let last = partition.range(blocks - 1);
                prop_assert!(last.end - last.start <= first.end - first.start);
            }
        }
    }

    #[test]
    fn more_blocks_than_bytes_leave_some_empty() {
        let partition = Partition::even(3, 5);
        assert_eq!((0..5).map(|b| partition.range(b)).collect::<Vec<_>>(), [0..1, 1..2, 2..3, 3..3, 3..3]);
    }
}
