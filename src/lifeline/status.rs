//! What this rank is doing, for others to ask: written by the engine, read by the lifeline's thread.
//!
//! It says what a rank does now, and of the past only how many calls it has made. A call whose waits are shorter than a
//! millisecond takes no lock; others take one that is uncontended (tens of nanoseconds) when such a wait is told of,
//! and when it is over.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::rank::Rank;

/// What a rank waits for, and from whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// Who must act.
    pub peer: Rank,
    /// What it must do.
    pub what: Awaiting,
    /// The round that this belongs to, from 0.
    pub round: u32,
    /// How many rounds the call has.
    pub rounds: u32,
}

/// What a peer must do before this rank can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaiting {
    /// Put this block.
    Block(u32),
    /// Offer its memory for this call, or give a credit.
    Readiness,
}

/// What this rank is doing now; shared by the engine and the lifeline.
#[derive(Debug, Default)]
pub struct Status {
    call: Mutex<Option<Call>>,
    made: AtomicU64,
}

#[derive(Debug, Clone)]
struct Call {
    name: String,
    number: u64,
    awaited: Option<Awaited>,
}

impl Status {
    /// One more call is made, by the engine: only one of its threads does so at a time.
    #[inline]
    pub fn makes_one(&self) {
        self.made.store(self.calls_made() + 1, Ordering::Relaxed);
    }

    /// How many have been made.
    pub fn calls_made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// It is in a call, for a while: what it is (all ranks say the same of the same call), and its number: on its
    /// communicator, from 1, in the lower half, and the communicator's in the upper one.
    pub fn enter(&self, name: impl Into<String>, number: u64) {
        let call = Call { name: name.into(), number, awaited: None };
        self.call(|now| *now = Some(call));
    }

    /// The call has ended.
    pub fn leave(&self) {
        self.call(|now| *now = None);
    }

    /// What the call waits for, if anything. Outside a call it is ignored.
    pub fn awaits(&self, awaited: Option<Awaited>) {
        self.call(|now| {
            if let Some(call) = now {
                call.awaited = awaited;
            }
        });
    }

    pub(crate) fn report(&self) -> Report {
        match self.call(|now| now.clone()) {
            None => Report::Idle { made: self.calls_made() },
            Some(Call { name, number, awaited }) => Report::Busy { name, number, awaited },
        }
    }

    fn call<T>(&self, use_it: impl FnOnce(&mut Option<Call>) -> T) -> T {
        use_it(&mut self.call.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What can be said of a rank that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// In no call, after so many.
    Idle { made: u64 },
    /// In a call.
    Busy { name: String, number: u64, awaited: Option<Awaited> },
    /// It has said goodbye; its neighbour says so.
    Left,
    /// The ranks on the way to it are gone; the last one on the way says so.
    Unreachable,
}

impl Report {
    /// Whom the rank waits for.
    pub fn awaits(&self) -> Option<Rank> {
        match self {
            Report::Busy { awaited: Some(awaited), .. } => Some(awaited.peer),
            _ => None,
        }
    }

    /// The call that the rank is in: its number and what it is.
    pub fn call(&self) -> Option<(u64, String)> {
        match self {
            Report::Busy { name, number, .. } => Some((*number, name.clone())),
            _ => None,
        }
    }

    /// The report on `rank`, without a full stop.
    pub fn sentence(&self, rank: Rank) -> String {
        match self {
            Report::Idle { made } => format!("rank {rank} is alive, in no call ({made} made)"),
            Report::Busy { name, number, awaited } => {
                let waits = awaited.as_ref().map_or("waits for nobody".to_owned(), waits_for);
                let number = *number as u32;
                format!("rank {rank} is alive, in {name} #{number}, {waits}")
            }
            Report::Left => format!("rank {rank} has left in good order"),
            Report::Unreachable => {
                format!("rank {rank} cannot be asked, as the ranks on the way to it are gone")
            }
        }
    }
}

fn waits_for(awaited: &Awaited) -> String {
    let Awaited { peer, what, round, rounds } = awaited;
    let what = match what {
        Awaiting::Block(block) => format!("block {block} from rank {peer}"),
        Awaiting::Readiness => format!("rank {peer} to be ready"),
    };
    format!("waits for {what} (round {round} of {rounds})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_as_a_sentence() {
        let status = Status::default();
        assert_eq!(status.report().sentence(4), "rank 4 is alive, in no call (0 made)");
        status.enter("broadcast", 1);
        assert_eq!(status.report().sentence(4), "rank 4 is alive, in broadcast #1, waits for nobody");
        status.awaits(Some(Awaited { peer: 0, what: Awaiting::Block(3), round: 4, rounds: 9 }));
        assert_eq!(
            status.report().sentence(4),
            "rank 4 is alive, in broadcast #1, waits for block 3 from rank 0 (round 4 of 9)"
        );
        status.awaits(Some(Awaited { peer: 2, what: Awaiting::Readiness, round: 0, rounds: 9 }));
        assert_eq!(
            status.report().sentence(4),
            "rank 4 is alive, in broadcast #1, waits for rank 2 to be ready (round 0 of 9)"
        );
        status.leave();
        status.makes_one();
        assert_eq!(status.report().sentence(4), "rank 4 is alive, in no call (1 made)");
    }

    #[test]
    fn a_wait_ends_with_its_call() {
        let status = Status::default();
        status.enter("broadcast", 1);
        status.awaits(Some(Awaited { peer: 0, what: Awaiting::Readiness, round: 0, rounds: 1 }));
        status.leave();
        status.enter("broadcast", 2);
        assert_eq!(status.report().awaits(), None);
    }
}
