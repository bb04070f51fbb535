//! A plan is a pure function from a round's number to what one rank does in that round.
//!
//! Every collective algorithm is a plan, and everything else (the engine, the lockstep check, the
//! printed table, later the cost model and the simulator) reads plans. A plan names ranks, rounds and
//! blocks; it never names bytes, time or memory ([`layout`] and [`partition`] alone turn a block into
//! bytes).
//!
//! Rounds are not barriers: a put waits for what it [`Needs`] and no more, so that a block that is
//! late holds up only the puts that forward it.
#![forbid(unsafe_code)]

pub mod compose;
pub mod contributions;
pub mod digits;
pub mod layout;
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

    /// The number of blocks that there are among all ranks: they are numbered `0..blocks()` (how, see
    /// [`Numbering`](crate::collective::Numbering)).
    fn blocks(&self) -> u32;

    /// What happens in round `i < rounds()`. A few nanoseconds, no allocation.
    fn round(&self, i: u32) -> Round;

    /// The blocks of a leg of round `i` that says [`Blocks::Many`], in an order that is the same at both
    /// its ends. Not called for other legs.
    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        let _ = (i, side, each);
    }

    /// The first round after `i` whose put carries a block of round `i`'s arrival; `None` where there is
    /// none. A round too early is no error, but makes the plan wait longer when it is read backwards.
    fn forwarded(&self, i: u32) -> Option<u32> {
        (i + 1 < self.rounds()).then_some(i + 1)
    }

    /// The distinct ranks that put to this rank, in the order in which they first do. O(log p) for the circulant plans.
    fn sources(&self) -> Vec<Rank> {
        distinct((0..self.rounds()).filter_map(|i| self.round(i).arrival))
    }

    /// The distinct ranks that this rank puts to, in the order in which it first does. O(log p) for the circulant plans.
    fn targets(&self) -> Vec<Rank> {
        distinct((0..self.rounds()).filter_map(|i| self.round(i).put))
    }
}

/// One of the two legs of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What this rank puts.
    Put,
    /// What is put to it.
    Arrival,
}

impl Round {
    /// A round in which a rank does nothing.
    pub const IDLE: Round =
        Round { put: None, arrival: None, needs: Needs::Nothing, landing: Landing::Store };

    /// The leg on one side.
    pub fn leg(&self, side: Side) -> Option<Leg> {
        match side {
            Side::Put => self.put,
            Side::Arrival => self.arrival,
        }
    }
}

/// Names the blocks of one leg of a round, in the order in which they travel.
pub fn each_block(plan: &(impl Plan + ?Sized), i: u32, side: Side, each: &mut dyn FnMut(u32)) {
    match plan.round(i).leg(side).map(|leg| leg.blocks) {
        None | Some(Blocks::Nothing) => {}
        Some(Blocks::One(block)) => each(block),
        Some(Blocks::Run { first, count }) => {
            let until_the_end = count.min(plan.blocks() - first);
            (first..first + until_the_end).chain(0..count - until_the_end).for_each(each);
        }
        Some(Blocks::Many) => plan.many(i, side, each),
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
    /// What becomes of the arrival. Whether a round stores or folds is the same on all ranks, also on those
    /// without an arrival: who puts knows from its own round whether what it puts is folded.
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
    /// So many blocks from the first on, which after the last one go on with block 0.
    Run {
        /// The first.
        first: u32,
        /// How many; at most all that there are.
        count: u32,
    },
    /// Those that [`Plan::many`] names.
    Many,
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
    /// It is combined with what this rank has of the block: `mine = mine ∘ theirs`.
    Fold,
    /// The same with a rank before this one: `mine = theirs ∘ mine`. Differs where the order counts.
    FoldBefore,
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
    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        (**self).many(i, side, each)
    }
    fn forwarded(&self, i: u32) -> Option<u32> {
        (**self).forwarded(i)
    }
    fn sources(&self) -> Vec<Rank> {
        (**self).sources()
    }
    fn targets(&self) -> Vec<Rank> {
        (**self).targets()
    }
}
