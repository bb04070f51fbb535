//! The 32 bits that a put carries: what has landed, and nothing that the receiver knows anyway.
//!
//! | bits 31-30 | 29.. |
//! |---|---|
//! | 0 slot | channel (22), slot (3): a message in a slot of the receiver's inbox |
//! | 1 block | operation (10), shared (1), round (19): bytes at their place in the receiver's memory, all that come in the round or those beside what is shown, put or folded |
//! | 2 credit | channel (22), slots (8): these slots of the receiver's outbox are free again |
//! | 3 staged | operation (10), source (16), slot (4): a piece in a staging slot of the operation |
//!
//! Channel, operation and source are the *receiver's* numbers, so that it looks them up without a search.
#![forbid(unsafe_code)]

use super::slots::SLOTS;
use super::staging::STAGES;

/// The most rounds of a plan whose blocks travel by direct puts.
pub const MAX_ROUNDS: u32 = 1 << 19;
/// The most channels of a rank.
pub const MAX_CHANNELS: usize = 1 << 22;
/// The most sources of an operation that stages.
pub const MAX_SOURCES: usize = 1 << 16;
/// The most blocks of a message: the rounds of every plan fit.
pub const MAX_BLOCKS: u32 = 1 << 16;
/// The most operations under way or prepared at one time.
pub const MAX_OPERATIONS: usize = 1 << 10;

// As many bits as the table has for them.
const _: () = assert!(SLOTS == 1 << 3 && STAGES == 1 << 4);

/// What has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A message in a slot.
    Slot {
        /// Who sent it.
        channel: u32,
        /// In which slot.
        slot: u8,
    },
    /// Bytes at their place.
    Block {
        /// For which operation.
        operation: u16,
        /// In which round of its plan.
        round: u32,
        /// Whether the receiver takes in the rest from where it is [shown](super::call::Kind::Shown).
        shared: bool,
    },
    /// Slots that are free again.
    Credit {
        /// At whom.
        channel: u32,
        /// Which, a bit each.
        slots: u8,
    },
    /// A piece in a staging slot.
    Staged {
        /// For which operation.
        operation: u16,
        /// From which of its sources.
        source: u32,
        /// In which of that source's slots.
        slot: u8,
    },
}

impl Notice {
    /// As the 32 bits.
    pub fn encode(self) -> u32 {
        match self {
            Notice::Slot { channel, slot } => channel << 3 | u32::from(slot),
            Notice::Block { operation, round, shared } => {
                let shared = if shared { MAX_ROUNDS } else { 0 };
                1 << 30 | u32::from(operation) << 20 | shared | round & (MAX_ROUNDS - 1)
            }
            Notice::Credit { channel, slots } => 2 << 30 | channel << 8 | u32::from(slots),
            Notice::Staged { operation, source, slot } => {
                3 << 30 | u32::from(operation) << 20 | source << 4 | u32::from(slot)
            }
        }
    }

    /// From the 32 bits.
    pub fn decode(bits: u32) -> Notice {
        let operation = (bits >> 20) as u16 & 0x3ff;
        match bits >> 30 {
            0 => Notice::Slot {
                channel: bits >> 3 & (MAX_CHANNELS as u32 - 1),
                slot: bits as u8 & (SLOTS - 1) as u8,
            },
            1 => Notice::Block { operation, round: bits & (MAX_ROUNDS - 1), shared: bits & MAX_ROUNDS != 0 },
            2 => Notice::Credit { channel: bits >> 8 & (MAX_CHANNELS as u32 - 1), slots: bits as u8 },
            _ => Notice::Staged {
                operation,
                source: bits >> 4 & (MAX_SOURCES as u32 - 1),
                slot: bits as u8 & (STAGES - 1) as u8,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(channel: u32, slot in 0..SLOTS as u8, stage in 0..STAGES as u8, operation in 0u16..1024, slots: u8, round: u32, shared: bool) {
            let channel = channel % MAX_CHANNELS as u32;
            for notice in [
                Notice::Slot { channel, slot },
                Notice::Block { operation, round: round % MAX_ROUNDS, shared },
                Notice::Credit { channel, slots },
                Notice::Staged { operation, source: round % MAX_SOURCES as u32, slot: stage },
            ] {
                prop_assert_eq!(Notice::decode(notice.encode()), notice);
            }
        }
    }
}
