//! Bytes that have come, wherever they lie until they are taken in.
#![forbid(unsafe_code)]

use crate::engine::call::Signature;
use crate::engine::leg::Stretch;
use crate::error::{Error, Result};
use crate::fold::Fold;
use crate::plan::Landing;
use crate::transport::Gait;
use crate::transport::memory::Memory;

/// Changes bytes, given as many others.
pub type Act<'a> = dyn FnMut(&mut [u8], &[u8]) -> Result<()> + 'a;

/// A string of bytes that is stored, or combined with what this rank has. Some of it may lie elsewhere than the rest.
pub trait Bytes {
    /// Copies `len` of them, from `from` on, to `at` of a memory; in this gait, where they are many.
    fn store(&self, from: usize, to: &Memory, at: usize, len: usize, gait: Gait);

    /// Lets `act` change `len` bytes at `at` of a memory, given as many of these from `from` on: at once, or part by
    /// part.
    fn combine(&self, from: usize, to: &Memory, at: usize, len: usize, act: &mut Act<'_>) -> Result<()>;
}

/// The data of a message.
pub enum Payload<'m> {
    /// In a slot: from where on, and how many bytes at most.
    InSlot(&'m Memory, usize, usize),
    /// Copied out of one.
    Copied(&'m [u8]),
}

impl Payload<'_> {
    /// The most bytes that there can be.
    pub fn room(&self) -> usize {
        match self {
            Payload::InSlot(_, _, room) => *room,
            Payload::Copied(copy) => copy.len(),
        }
    }

    /// The first of them.
    pub fn copied(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.copy_to(&mut bytes);
        bytes
    }

    /// As many of the first of them.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        match self {
            Payload::InSlot(memory, start, _) => memory.read(*start, bytes),
            Payload::Copied(copy) => bytes.copy_from_slice(&copy[..bytes.len()]),
        }
    }
}

impl Bytes for Payload<'_> {
    fn store(&self, from: usize, to: &Memory, at: usize, len: usize, _: Gait) {
        match self {
            Payload::InSlot(memory, start, _) => to.copy(at, memory, start + from, len),
            Payload::Copied(copy) => to.write(at, &copy[from..from + len]),
        }
    }

    fn combine(&self, from: usize, to: &Memory, at: usize, len: usize, act: &mut Act<'_>) -> Result<()> {
        match self {
            Payload::InSlot(memory, start, _) => to.combine(at, memory, start + from, len, act),
            Payload::Copied(copy) => to.change(at, len, |mine| act(mine, &copy[from..from + len])),
        }
    }
}

/// Where what arrives lands, and how it is combined with what this rank has there.
#[derive(Clone, Copy)]
pub struct Shore<'t> {
    /// The caller's memory.
    pub memory: &'t Memory,
    /// The caller's operator, where the plan folds.
    pub fold: Option<&'t dyn Fold>,
    /// Of which call, for errors.
    pub signature: &'t Signature,
    /// How what is stored is copied.
    pub gait: Gait,
}

impl Shore<'_> {
    /// Stores bytes where they belong, or combines them with what this rank has.
    pub fn land(&self, from: &impl Bytes, into: &[Stretch], landing: Landing) -> Result<()> {
        let mut at = 0;
        for stretch in into {
            match landing {
                Landing::Store => from.store(at, self.memory, stretch.at, stretch.len, self.gait),
                _ => from.combine(at, self.memory, stretch.at, stretch.len, &mut |mine, theirs| {
                    self.fold(mine, theirs, landing)
                })?,
            }
            at += stretch.len;
        }
        Ok(())
    }

    /// Combines an arrival with what this rank has.
    pub fn fold(&self, mine: &mut [u8], theirs: &[u8], landing: Landing) -> Result<()> {
        let failed = |why| Error::Operator { call: self.signature.to_string(), why };
        let fold = self.fold.ok_or_else(|| failed("the call has none".to_owned()))?;
        fold.fold(mine, theirs, landing == Landing::FoldBefore).map_err(failed)
    }
}
