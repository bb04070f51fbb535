//! A plan is a pure function from a round's number to what one rank does in that round.
//!
//! Every collective algorithm is a plan, and everything else (the engine, the lockstep check, the
//! printed table, later the cost model and the simulator) reads plans. A plan names ranks, rounds and
//! blocks; it never names bytes, time or memory ([`partition::Partition`] alone turns a block into
//! bytes).
//!
//! Rounds are not barriers: a put waits for what it [`Needs`] and no more, so that a block that is
//! late holds up only the puts that forward it.
#![forbid(unsafe_code)]

pub mod compose;
pub mod lockstep;
pub mod partition;
pub mod table;

use crate::rank::{Place, Rank};

/// What one rank does, round by round.
pub trait Plan: Send {
    /// Which rank's plan this is, of how many.
    fn place(&self) -> Place;

    /// The number of rounds.
    fn rounds(&self) -> u32;

    /// The number of blocks that the data are cut into.
    fn blocks(&self) -> u32;

    /// What happens in round `i < rounds()`. A few nanoseconds, no allocation.
    fn round(&self, i: u32) -> Round;

    /// The distinct ranks that put to this rank, in the order in which they first do. O(log p) for the circulant plans.
    fn sources(&self) -> Vec<Rank> {
        distinct((0..self.rounds()).filter_map(|i| self.round(i).arrival))
    }

    /// The distinct ranks that this rank puts to, in the order in which it first does. O(log p) for the circulant plans.
    fn targets(&self) -> Vec<Rank> {
        distinct((0..self.rounds()).filter_map(|i| self.round(i).put))
    }
}

/// The peers of some legs, each once, in the order in which they first come.
pub(crate) fn distinct(legs: impl Iterator<Item = Leg>) -> Vec<Rank> {
    let mut peers = Vec::new();
    for leg in legs {
        if !peers.contains(&leg.peer) {
            peers.push(leg.peer);
        }
    }
    peers
}

/// One rank's part in one round: at most one put, and at most one put that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// What this rank puts, and to whom.
    pub put: Option<Leg>,
    /// What is put to this rank, and by whom.
    pub arrival: Option<Leg>,
    /// What the put waits for.
    pub needs: Needs,
    /// What becomes of the arrival.
    pub landing: Landing,
}

/// Blocks on their way to or from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// The other rank.
    pub peer: Rank,
    /// What travels.
    pub blocks: Blocks,
}

/// Which blocks travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// None: the put is a notice only.
    Nothing,
    /// One block.
    One(u32),
}

/// What a put waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: this rank has had the blocks from the start.
    Nothing,
    /// The arrival of this round.
    Arrival(u32),
    /// Every arrival of the rounds before this one.
    AllBefore(u32),
}

/// What becomes of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// It is stored at the block's place.
    Store,
    /// It is combined with what this rank has of the block.
    Fold,
}

impl<P: Plan + ?Sized> Plan for Box<P> {
    fn place(&self) -> Place {
        (**self).place()
    }
    fn rounds(&self) -> u32 {
        (**self).rounds()
    }
    fn blocks(&self) -> u32 {
        (**self).blocks()
    }
    fn round(&self, i: u32) -> Round {
        (**self).round(i)
    }
    fn sources(&self) -> Vec<Rank> {
        (**self).sources()
    }
    fn targets(&self) -> Vec<Rank> {
        (**self).targets()
    }
}
