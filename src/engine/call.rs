//! What a rank is about to do, as it tells the ranks that it has to do with: two that do not mean the
//! same find out.
#![forbid(unsafe_code)]

use std::fmt;

use crate::collective::Collective;
use crate::fold;
use crate::rank::Rank;
use crate::transport::RemoteKey;

/// What must be the same on all ranks of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// What is done.
    pub collective: Collective,
    /// By which plan: its number in the catalogue.
    pub algorithm: u8,
    /// The numbers of operator and element type, where it combines data.
    pub fold: Option<(u8, u8)>,
    /// From or to which rank; 0 where there is none.
    pub root: Rank,
    /// How many bytes there are in all.
    pub bytes: u64,
    /// In how many blocks.
    pub blocks: u32,
    /// What stands for the ranks' counts where they may differ; 0 elsewhere.
    pub counts: u32,
    /// Whether it is prepared, to be started many times.
    pub prepared: bool,
}

impl Signature {
    /// Of a call that moves nothing.
    pub fn bare(collective: Collective) -> Self {
        Signature {
            collective,
            algorithm: 0,
            fold: None,
            root: 0,
            bytes: 0,
            blocks: 0,
            counts: 0,
            prepared: false,
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = if self.prepared { "prepared " } else { "" };
        write!(f, "{prepared}{}", self.collective.name())?;
        if matches!(self.collective, Collective::Barrier | Collective::Finalize) {
            return Ok(());
        }
        write!(f, "(")?;
        if self.collective.has_root() {
            write!(f, "root {}, ", self.root)?;
        }
        if let Some(numbers) = self.fold {
            write!(f, "{}, ", fold::words(numbers))?;
        }
        let blocks = if self.blocks == 1 { "block" } else { "blocks" };
        write!(f, "{} bytes in {} {blocks}", self.bytes, self.blocks)?;
        if self.counts != 0 {
            write!(f, ", counts {:08x}", self.counts)?;
        }
        match self.algorithm {
            0 => write!(f, ")"),
            plan => write!(f, ", by plan {plan})"),
        }
    }
}

/// A call: the n-th on its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which communicator; all its ranks know it by the same number.
    pub communicator: u32,
    /// From 1, in the order in which calls are made on the communicator.
    pub number: u32,
    /// What is done.
    pub signature: Signature,
}

impl Call {
    /// One number for it among the calls of all communicators, as the lifeline takes it.
    pub fn name(&self) -> u64 {
        u64::from(self.communicator) << 32 | u64::from(self.number)
    }
}

/// What a message in a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "Put into this memory, and name this operation": the sender is ready.
    Ready {
        /// The memory.
        target: RemoteKey,
        /// The receiver's staging slots in the sender's memory, where the call stages.
        staging: RemoteKey,
        /// The sender's number of the operation.
        operation: u16,
        /// The receiver's number among the sender's sources.
        source: u32,
        /// Bytes of the part between the two, where nobody else knows (see
        /// [`Layout::between`](crate::plan::layout::Layout::between)).
        bytes: u64,
    },
    /// The same memory and operation again, for the next start of a prepared call.
    Again,
    /// The blocks of a round follow.
    Data {
        /// Of which round.
        round: u32,
        /// How many bytes they are.
        bytes: u64,
    },
    /// So many of the receiver's staged pieces have been taken: as many more may come.
    Taken {
        /// How many.
        pieces: u32,
    },
    /// It is the turn of the receiver's put of a round.
    Turn {
        /// Of which.
        round: u32,
    },
}

/// The head of every message in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// The sender's call.
    pub call: Call,
    /// Which start of a prepared call, from 0.
    pub iteration: u32,
}

/// Bytes of the longest [`Header`], that of a word that a rank is ready.
pub const HEADER: usize = HEAD + 32;
/// Bytes of all other headers: data begin behind them, so that a few share their cache line.
pub const HEAD: usize = 56;

/// In a header without operator: numbers of operators begin with 1.
const NO_FOLD: (u8, u8) = (0, 0);

impl Header {
    /// How many bytes of it travel.
    pub fn size(&self) -> usize {
        if matches!(self.kind, Kind::Ready { .. }) { HEADER } else { HEAD }
    }

    /// How many bytes of data follow.
    pub fn data(&self) -> u64 {
        if let Kind::Data { bytes, .. } = self.kind { bytes } else { 0 }
    }

    /// As it lies in a slot, with slots that are given back on the way: little-endian, fixed places.
    pub fn encode(&self, credits: u8) -> [u8; HEADER] {
        let none = RemoteKey::default();
        let (kind, target, staging, operation, word, long) = match self.kind {
            Kind::Ready { target, staging, operation, source, bytes } => {
                (1, target, staging, operation, source, bytes)
            }
            Kind::Again => (2, none, none, 0, 0, 0),
            Kind::Data { round, bytes } => (3, none, none, 0, round, bytes),
            Kind::Taken { pieces } => (4, none, none, 0, pieces, 0),
            Kind::Turn { round } => (5, none, none, 0, round, 0),
        };
        let signature = self.call.signature;
        let fold = signature.fold.unwrap_or(NO_FOLD);
        let mut bytes = [0; HEADER];
        bytes[0] = kind;
        bytes[1] = signature.collective as u8;
        bytes[2] = signature.algorithm;
        bytes[3] = signature.prepared.into();
        bytes[4..8].copy_from_slice(&self.call.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.iteration.to_le_bytes());
        bytes[12..16].copy_from_slice(&signature.root.to_le_bytes());
        bytes[16..24].copy_from_slice(&signature.bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&signature.blocks.to_le_bytes());
        bytes[28..30].copy_from_slice(&operation.to_le_bytes());
        bytes[30..32].copy_from_slice(&[fold.0, fold.1]);
        bytes[32..36].copy_from_slice(&self.call.communicator.to_le_bytes());
        bytes[36..40].copy_from_slice(&signature.counts.to_le_bytes());
        bytes[56..64].copy_from_slice(&target.base.to_le_bytes());
        bytes[64..72].copy_from_slice(&target.key.to_le_bytes());
        bytes[72..80].copy_from_slice(&staging.base.to_le_bytes());
        bytes[80..88].copy_from_slice(&staging.key.to_le_bytes());
        bytes[40..44].copy_from_slice(&word.to_le_bytes());
        bytes[44] = credits;
        bytes[48..56].copy_from_slice(&long.to_le_bytes());
        bytes
    }

    /// From a slot, with the slots that are given back; `None` for what no rank of this version writes.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<(Header, u8)> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let key = |at: usize| RemoteKey { base: long(at), key: long(at + 8) };
        let operation = u16::from_le_bytes([bytes[28], bytes[29]]);
        let kind = match bytes[0] {
            1 => {
                let (target, staging) = (key(56), key(72));
                Kind::Ready { target, staging, operation, source: word(40), bytes: long(48) }
            }
            2 => Kind::Again,
            3 => Kind::Data { round: word(40), bytes: long(48) },
            4 => Kind::Taken { pieces: word(40) },
            5 => Kind::Turn { round: word(40) },
            _ => return None,
        };
        let fold = (bytes[30], bytes[31]);
        let signature = Signature {
            collective: Collective::numbered(bytes[1])?,
            algorithm: bytes[2],
            fold: (fold != NO_FOLD).then_some(fold),
            root: word(12),
            bytes: long(16),
            blocks: word(24),
            counts: word(36),
            prepared: bytes[3] != 0,
        };
        let call = Call { communicator: word(32), number: word(4), signature };
        Some((Header { kind, call, iteration: word(8) }, bytes[44]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(base: u64, key: u64, operation: u16, root: u32, bytes: u64, blocks: u32, number: u32, iteration: u32, communicator: u32, prepared: bool, counts: u32) {
            for fold in [None, Some((3, 200))] {
                let signature = Signature { collective: Collective::Reduce, algorithm: 200, fold, root, bytes, blocks, counts, prepared };
                let call = Call { communicator, number, signature };
                let (target, staging) = (RemoteKey { base, key }, RemoteKey { base: key, key: base });
                for kind in [
                    Kind::Ready { target, staging, operation, source: root, bytes },
                    Kind::Again,
                    Kind::Data { round: blocks, bytes },
                    Kind::Taken { pieces: root },
                    Kind::Turn { round: root },
                ] {
                    let header = Header { kind, call, iteration };
                    prop_assert_eq!(Header::decode(&header.encode(operation as u8)), Some((header, operation as u8)));
                }
            }
        }

        #[test]
        fn garbage_does_no_harm(bytes: [u8; 32], more: [u8; 32], rest: [u8; 24]) {
            let all: Vec<u8> = [&bytes[..], &more, &rest].concat();
            let _ = Header::decode(&all.try_into().unwrap());
        }
    }
}
