//! What the engine is told to do.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::call::Signature;
use super::operation::Pace;
use crate::fold::AnyFold;
use crate::plan::Plan;
use crate::plan::layout::Layout;
use crate::rank::Rank;
use crate::transport::Region;
use crate::transport::memory::Memory;

/// What is to be done by all ranks of a communicator.
pub struct Task {
    /// Which communicator.
    pub communicator: u32,
    /// The rank in the world of each of its ranks; `None` where they are the same.
    pub group: Option<Arc<[Rank]>>,
    /// What all ranks must agree on.
    pub signature: Signature,
    /// This rank's part.
    pub plan: Box<dyn Plan>,
    /// Where blocks lie.
    pub layout: Box<dyn Layout>,
    /// How far it may go ahead.
    pub pace: Pace,
    /// Bytes of a staged piece: a whole number of elements, and 0 where nothing is folded or packed.
    pub piece: usize,
    /// The most bytes of a put into its place, if not what the transport takes; at least 1.
    pub longest: usize,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<AnyFold>,
    /// Whether all travels in slots: every leg has at most [`PAYLOAD`](super::slots::PAYLOAD) bytes, and every
    /// peer has a wide channel.
    pub small: bool,
    /// What is put.
    pub from: Source,
    /// Where it lands; `None`: in the same memory.
    pub to: Option<Source>,
    /// Bytes of all elements that the call is about: as many of a rank's memory are moved at most.
    pub touched: u64,
}

/// What a call that is made again works on, which is its caller's.
#[derive(Clone, Copy)]
pub struct Operands<'o> {
    /// What is put.
    pub from: &'o Source,
    /// Where it lands; `None`: in the same memory.
    pub to: Option<&'o Source>,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<&'o AnyFold>,
}

/// Bytes of what is put that nobody gets but the rank itself, among what lands.
#[derive(Clone, Copy)]
pub struct OwnPart {
    /// Where they are.
    pub from: usize,
    /// Where they belong.
    pub to: usize,
    /// How many.
    pub bytes: usize,
    /// How many the call touches.
    pub touched: u64,
}

/// Memory that a task moves.
#[derive(Clone)]
pub enum Source {
    /// Registered already.
    Registered(Region),
    /// To be registered for this call, unless it is small.
    Unregistered(Memory),
}

impl Source {
    /// The bytes.
    pub fn memory(&self) -> &Memory {
        match self {
            Source::Registered(region) => &region.memory,
            Source::Unregistered(memory) => memory,
        }
    }

    /// The region, where it is registered.
    pub fn region(&self) -> Option<&Region> {
        match self {
            Source::Registered(region) => Some(region),
            Source::Unregistered(_) => None,
        }
    }
}
