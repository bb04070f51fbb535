//! What a rank is about to do, as it tells its neighbours: two ranks that do not mean the same find out.
#![forbid(unsafe_code)]

use std::fmt;

use crate::rank::Rank;
use crate::transport::RemoteKey;

/// A collective, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Collective {
    /// One rank's data to all.
    Broadcast = 1,
    /// All wait for all.
    Barrier = 2,
    /// All wait for all, and then leave.
    Finalize = 3,
    /// Two ranks measure, the others rest.
    Probe = 4,
}

impl Collective {
    /// Its name, as the program and the catalogue say it.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Broadcast => "broadcast",
            Collective::Barrier => "barrier",
            Collective::Finalize => "finalize",
            Collective::Probe => "probe",
        }
    }

    fn from_wire(number: u8) -> Option<Self> {
        [Collective::Broadcast, Collective::Barrier, Collective::Finalize, Collective::Probe]
            .into_iter()
            .find(|c| *c as u8 == number)
    }
}

/// What must be the same on all ranks of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// What is done.
    pub collective: Collective,
    /// From or to which rank; 0 where there is none.
    pub root: Rank,
    /// How many bytes.
    pub bytes: u64,
    /// In how many blocks.
    pub blocks: u32,
    /// Whether it is prepared, to be started many times.
    pub prepared: bool,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = if self.prepared { "prepared " } else { "" };
        write!(f, "{prepared}{}", self.collective.name())?;
        if matches!(self.collective, Collective::Barrier | Collective::Finalize) {
            return Ok(());
        }
        let blocks = if self.blocks == 1 { "block" } else { "blocks" };
        write!(f, "(root {}, {} bytes in {} {blocks})", self.root, self.bytes, self.blocks)
    }
}

/// A call: the n-th on its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which communicator; all ranks know it by the same number.
    pub communicator: u16,
    /// From 1, in the order in which calls are made on the communicator.
    pub number: u32,
    /// What is done.
    pub signature: Signature,
}

/// What a message in a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "Put into this memory, and name this operation": the sender is ready.
    Ready {
        /// The memory.
        target: RemoteKey,
        /// The sender's number of the operation.
        operation: u16,
    },
    /// The same memory and operation again, for the next start of a prepared call.
    Again,
    /// A block follows.
    Data,
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

/// Bytes of an encoded [`Header`]: small enough for every provider's injected puts.
pub const HEADER: usize = 48;

impl Header {
    /// As it lies in a slot: little-endian, fixed places.
    pub fn encode(&self) -> [u8; HEADER] {
        let (kind, target, operation) = match self.kind {
            Kind::Ready { target, operation } => (1, target, operation),
            Kind::Again => (2, RemoteKey::default(), 0),
            Kind::Data => (3, RemoteKey::default(), 0),
        };
        let signature = self.call.signature;
        let mut bytes = [0; HEADER];
        bytes[0] = kind;
        bytes[1] = signature.collective as u8;
        bytes[2..4].copy_from_slice(&self.call.communicator.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.call.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.iteration.to_le_bytes());
        bytes[12..16].copy_from_slice(&signature.root.to_le_bytes());
        bytes[16..24].copy_from_slice(&signature.bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&signature.blocks.to_le_bytes());
        bytes[28..30].copy_from_slice(&operation.to_le_bytes());
        bytes[30] = signature.prepared.into();
        bytes[32..40].copy_from_slice(&target.base.to_le_bytes());
        bytes[40..48].copy_from_slice(&target.key.to_le_bytes());
        bytes
    }

    /// From a slot; `None` for what no rank of this version writes.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let kind = match bytes[0] {
            1 => Kind::Ready { target: RemoteKey { base: long(32), key: long(40) }, operation: half(28) },
            2 => Kind::Again,
            3 => Kind::Data,
            _ => return None,
        };
        let signature = Signature {
            collective: Collective::from_wire(bytes[1])?,
            root: word(12),
            bytes: long(16),
            blocks: word(24),
            prepared: bytes[30] != 0,
        };
        let call = Call { communicator: half(2), number: word(4), signature };
        Some(Header { kind, call, iteration: word(8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(base: u64, key: u64, operation: u16, root: u32, bytes: u64, blocks: u32, number: u32, iteration: u32, communicator: u16, prepared: bool) {
            let signature = Signature { collective: Collective::Broadcast, root, bytes, blocks, prepared };
            let call = Call { communicator, number, signature };
            for kind in [Kind::Ready { target: RemoteKey { base, key }, operation }, Kind::Again, Kind::Data] {
                let header = Header { kind, call, iteration };
                prop_assert_eq!(Header::decode(&header.encode()), Some(header));
            }
        }

        #[test]
        fn garbage_does_no_harm(bytes: [u8; 32], more: [u8; 16]) {
            let mut all = [0; HEADER];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&more);
            let _ = Header::decode(&all);
        }
    }
}
