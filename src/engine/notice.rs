//! The 32 bits that a put carries: what has landed, and nothing that the receiver knows anyway.
//!
//! | bits 31-30 | 29.. |
//! |---|---|
//! | 0 slot | neighbour (8), slot (3), round (19): a message in a slot of the receiver's inbox |
//! | 1 block | operation (10), round (20): a block at its place in the receiver's memory |
//! | 2 credit | neighbour (8), slots (8): these slots of the receiver's outbox are free again |
//!
//! Neighbour and operation are the *receiver's* numbers, so that it looks them up without a search.
#![forbid(unsafe_code)]

/// The most rounds of a plan whose blocks travel by direct puts.
const MAX_ROUNDS: u32 = 1 << 20;
/// The most rounds of a plan whose blocks travel in slots.
const MAX_SLOT_ROUNDS: u32 = 1 << 19;
/// The most blocks of a message: the rounds of every plan fit either way.
pub const MAX_BLOCKS: u32 = 1 << 18;
/// The most operations under way or prepared at one time.
pub const MAX_OPERATIONS: usize = 1 << 10;

/// What has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A message in a slot.
    Slot {
        /// Who sent it.
        neighbour: u8,
        /// In which slot.
        slot: u8,
        /// In which round of its plan; 0 for what belongs to no round.
        round: u32,
    },
    /// A block at its place.
    Block {
        /// For which operation.
        operation: u16,
        /// In which round of its plan.
        round: u32,
    },
    /// Slots that are free again.
    Credit {
        /// At whom.
        neighbour: u8,
        /// Which, a bit each.
        slots: u8,
    },
}

impl Notice {
    /// As the 32 bits.
    pub fn encode(self) -> u32 {
        match self {
            Notice::Slot { neighbour, slot, round } => {
                u32::from(neighbour) << 22 | u32::from(slot) << 19 | round & (MAX_SLOT_ROUNDS - 1)
            }
            Notice::Block { operation, round } => {
                1 << 30 | u32::from(operation) << 20 | round & (MAX_ROUNDS - 1)
            }
            Notice::Credit { neighbour, slots } => 2 << 30 | u32::from(neighbour) << 22 | u32::from(slots),
        }
    }

    /// From the 32 bits; `None` for what nobody sends.
    pub fn decode(bits: u32) -> Option<Notice> {
        let neighbour = (bits >> 22) as u8;
        match bits >> 30 {
            0 => Some(Notice::Slot {
                neighbour,
                slot: (bits >> 19) as u8 & 7,
                round: bits & (MAX_SLOT_ROUNDS - 1),
            }),
            1 => {
                Some(Notice::Block { operation: (bits >> 20) as u16 & 0x3ff, round: bits & (MAX_ROUNDS - 1) })
            }
            2 => Some(Notice::Credit { neighbour, slots: bits as u8 }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(neighbour: u8, slot in 0u8..8, operation in 0u16..1024, slots: u8, round: u32) {
            for notice in [
                Notice::Slot { neighbour, slot, round: round % MAX_SLOT_ROUNDS },
                Notice::Block { operation, round: round % MAX_ROUNDS },
                Notice::Credit { neighbour, slots },
            ] {
                prop_assert_eq!(Notice::decode(notice.encode()), Some(notice));
            }
        }
    }
}
