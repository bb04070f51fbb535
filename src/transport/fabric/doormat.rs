//! A byte of each rank that puts of no bytes may be written to, where a provider sends nothing of nothing, and so no
//! notice: one of this rank's is put there instead, and nobody reads it.
#![forbid(unsafe_code)]

use super::endpoint::Written;
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::memory::{LINE, Memory};
use crate::transport::{Region, RemoteKey, Segment};

/// This rank's, and where those of its peers are.
pub(super) struct Doormat {
    pub(super) own: Region,
    peers: Vec<RemoteKey>,
}

/// What is put.
const STEP: [Segment; 1] = [Segment { offset: 0, len: 1 }];
/// Bytes of a key behind an address.
const KEY: usize = 16;

impl Doormat {
    /// What is to be registered for one.
    pub fn memory() -> Result<Memory> {
        Memory::zeroed(LINE)
    }

    /// Of this region; nobody else's is known.
    pub fn new(own: Region) -> Doormat {
        Doormat { own, peers: Vec::new() }
    }

    /// An address, and behind it where this rank's is.
    pub fn behind(&self, mut address: Vec<u8>) -> Vec<u8> {
        let RemoteKey { base, key } = self.own.remote.far;
        address.extend([base, key].iter().flat_map(|word| word.to_le_bytes()));
        address
    }

    /// Takes from all ranks' addresses where theirs are, and gives back what is left.
    pub fn learn<'a>(&mut self, addresses: &'a [Vec<u8>]) -> Result<Vec<&'a [u8]>> {
        let apart = (0..).zip(addresses).map(|(rank, address)| take_apart(rank, address));
        let (addresses, keys) = apart.collect::<Result<(Vec<_>, Vec<_>)>>()?;
        self.peers = keys;
        Ok(addresses)
    }

    /// What is put to a peer that is known.
    pub fn step(&self, peer: Rank) -> Written<'_> {
        let RemoteKey { base, key } = self.peers.get(peer as usize).copied().unwrap_or_default();
        let Region { memory, descriptor, .. } = &self.own;
        let (source, len) = (memory.address().as_ptr(), STEP[0].len);
        Written { source, segments: &STEP, len, descriptor: *descriptor, target: base, key }
    }
}

fn take_apart(rank: Rank, address: &[u8]) -> Result<(&[u8], RemoteKey)> {
    let cut = address.split_last_chunk::<KEY>().map(|(address, key)| (address, key.as_chunks::<8>().0));
    match cut {
        Some((address, &[base, key])) if !address.is_empty() => {
            Ok((address, RemoteKey { base: u64::from_le_bytes(base), key: u64::from_le_bytes(key) }))
        }
        _ => {
            let what = format!("the address of rank {rank} has {} bytes", address.len());
            Err(Error::transport("connect", what, "are all ranks of one version and one job?"))
        }
    }
}
