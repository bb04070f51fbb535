//! What this rank is doing, for others to ask: written by the engine, read by the lifeline's thread.
//!
//! It says what a rank does now, and of the past only how many calls it has made. A call whose waits are shorter than a
//! millisecond takes no lock, unless it is another library's; others take one that is uncontended (tens of nanoseconds)
//! when such a wait is told of, whenever it is looked after, and when it is over.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Who has not looked after a call for so long does not wait for it.
const UNATTENDED: Duration = Duration::from_secs(2);

/// What this rank is doing now; shared by the engine and the lifeline.
#[derive(Debug, Default)]
pub struct Status {
    /// Calls whose waits have lasted for a while, the one told of last behind the others.
    calls: Mutex<Vec<Call>>,
    made: AtomicU64,
    /// The calls of another library that it is in, whose and which, the one that began last behind the others.
    elsewhere: Mutex<Vec<Elsewhere>>,
}

type Elsewhere = (&'static str, &'static str);

#[derive(Debug, Clone)]
struct Call {
    name: String,
    number: u64,
    awaited: Option<Awaited>,
    /// When somebody looked after it last.
    seen: Instant,
}

impl Status {
    /// One more call is made, by the engine: only one of its threads does so at a time.
    #[inline]
    pub(crate) fn makes_one(&self) {
        self.made.store(self.calls_made() + 1, Ordering::Relaxed);
    }

    /// None has been made yet.
    pub(crate) fn begin(&self) {
        self.made.store(0, Ordering::Relaxed);
    }

    /// How many have been made.
    pub fn calls_made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Makes a `call` of another library, whose is said by `whose`; who asks meanwhile is told of the one that began last.
    pub fn elsewhere<T>(&self, whose: &'static str, call: &'static str, make: impl FnOnce() -> T) -> T {
        self.calls_elsewhere(|calls| calls.push((whose, call)));
        let made = make();
        self.calls_elsewhere(|calls| {
            // Of equal ones each is as good as another.
            let over = calls.iter().rposition(|&other| other == (whose, call));
            over.map(|over| calls.remove(over));
        });
        made
    }

    /// It is in a call, for a while: what it is (all ranks say the same of the same call), and its number: on its
    /// communicator, from 1, in the lower half, and the communicator's in the upper one; and what that waits for, if anything.
    pub(crate) fn waits(&self, number: u64, name: impl FnOnce() -> String, awaited: Option<Awaited>) {
        let seen = Instant::now();
        self.calls(|calls| {
            let known = calls.iter().position(|call| call.number == number).map(|at| calls.remove(at));
            let name = known.map_or_else(name, |call| call.name);
            calls.push(Call { name, number, awaited, seen });
        });
    }

    /// Somebody looks after a call, if it has been told of; once it waits for nothing any more, that is told of.
    pub(crate) fn sees(&self, number: u64, still_waits: bool) {
        let seen = Instant::now();
        self.calls(|calls| {
            if let Some(call) = calls.iter_mut().find(|call| call.number == number) {
                call.seen = seen;
                call.awaited = call.awaited.filter(|_| still_waits);
            }
        });
    }

    /// A call has ended.
    pub(crate) fn leave(&self, number: u64) {
        self.calls(|calls| calls.retain(|call| call.number != number));
    }

    /// All have.
    pub(crate) fn leave_all(&self) {
        self.calls(Vec::clear);
    }

    /// What is to be said to somebody who waits in a call of a communicator: of the call on that, or one of another library, or
    /// the one told of last.
    pub(crate) fn report(&self, communicator: u32) -> Report {
        let elsewhere = self.calls_elsewhere(|calls| calls.last().copied());
        let told = self.calls(|calls| {
            let same = calls.iter().rfind(|call| communicator_of(call.number) == communicator);
            same.or(calls.last().filter(|_| elsewhere.is_none())).cloned()
        });
        let Some(Call { name, number, awaited, seen }) = told else {
            let elsewhere = elsewhere.map(|(whose, call)| format!("{whose} {call}"));
            return Report::Idle { made: self.calls_made(), elsewhere };
        };
        let unseen = seen.elapsed();
        match unseen < UNATTENDED {
            true => Report::Busy { name, number, awaited },
            false => Report::Away { name, number, seconds: unseen.as_secs() as u32 },
        }
    }

    /// As if nobody had looked after anything for so long.
    #[cfg(test)]
    pub(crate) fn grow_old(&self, by: Duration) {
        self.calls(|calls| calls.iter_mut().for_each(|call| call.seen -= by));
    }

    fn calls_elsewhere<T>(&self, use_them: impl FnOnce(&mut Vec<Elsewhere>) -> T) -> T {
        use_them(&mut self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn calls<T>(&self, use_them: impl FnOnce(&mut Vec<Call>) -> T) -> T {
        use_them(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The communicator of a call's number.
pub(crate) fn communicator_of(number: u64) -> u32 {
    (number >> 32) as u32
}

/// What can be said of a rank that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// In no call, after so many; perhaps in one of another library.
    Idle { made: u64, elsewhere: Option<String> },
    /// In a call.
    Busy { name: String, number: u64, awaited: Option<Awaited> },
    /// A call is under way, and it has done something else for so many seconds.
    Away { name: String, number: u64, seconds: u32 },
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
            Report::Busy { name, number, .. } | Report::Away { name, number, .. } => {
                Some((*number, name.clone()))
            }
            _ => None,
        }
    }

    /// The report on `rank`, without a full stop.
    pub fn sentence(&self, rank: Rank) -> String {
        match self {
            Report::Idle { made, elsewhere: None } => {
                format!("rank {rank} is alive, in no call ({made} made)")
            }
            Report::Idle { made, elsewhere: Some(call) } => {
                format!("rank {rank} is alive, in {call} ({made} of circulant's made)")
            }
            Report::Busy { name, number, awaited } => {
                let waits = awaited.as_ref().map_or("waits for nobody".to_owned(), waits_for);
                let number = *number as u32;
                format!("rank {rank} is alive, in {name} #{number}, {waits}")
            }
            Report::Away { name, number, seconds } => {
                let number = *number as u32;
                format!(
                    "rank {rank} is alive, has {name} #{number} under way, and has not looked after it for {seconds} s"
                )
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

    /// The number of a call on a communicator.
    fn call(communicator: u64, number: u64) -> u64 {
        communicator << 32 | number
    }

    fn broadcast() -> String {
        "broadcast".to_owned()
    }

    #[test]
    fn a_status_reads_as_a_sentence() {
        let status = Status::default();
        let said = || status.report(0).sentence(4);
        assert_eq!(said(), "rank 4 is alive, in no call (0 made)");
        status.waits(1, broadcast, Some(Awaited { peer: 0, what: Awaiting::Block(3), round: 4, rounds: 9 }));
        assert_eq!(said(), "rank 4 is alive, in broadcast #1, waits for block 3 from rank 0 (round 4 of 9)");
        status.sees(1, false);
        assert_eq!(said(), "rank 4 is alive, in broadcast #1, waits for nobody");
        status.waits(
            1,
            || unreachable!(),
            Some(Awaited { peer: 2, what: Awaiting::Readiness, round: 0, rounds: 9 }),
        );
        status.sees(1, true);
        assert_eq!(said(), "rank 4 is alive, in broadcast #1, waits for rank 2 to be ready (round 0 of 9)");
        status.grow_old(Duration::from_secs(7));
        assert_eq!(
            said(),
            "rank 4 is alive, has broadcast #1 under way, and has not looked after it for 7 s"
        );
        assert_eq!(status.report(0).awaits(), None, "it is the one who must act");
        status.sees(1, true);
        assert_eq!(status.report(0).awaits(), Some(2));
        status.leave(1);
        status.makes_one();
        assert_eq!(said(), "rank 4 is alive, in no call (1 made)");
        let there = status.elsewhere("the MPI library's own", "reduce", said);
        assert_eq!(there, "rank 4 is alive, in the MPI library's own reduce (1 of circulant's made)");
        assert_eq!(said(), "rank 4 is alive, in no call (1 made)");
    }

    #[test]
    fn of_several_calls_the_one_on_the_askers_communicator_is_told_of_or_the_last_one() {
        let status = Status::default();
        let said = |communicator| status.report(communicator).call().map(|(number, _)| number);
        status.waits(call(1, 5), broadcast, None);
        status.waits(call(2, 6), broadcast, None);
        assert_eq!([0, 1, 2].map(said), [Some(call(2, 6)), Some(call(1, 5)), Some(call(2, 6))]);
        status.waits(call(1, 5), broadcast, None);
        assert_eq!(said(0), Some(call(1, 5)));
        status.leave(call(1, 5));
        assert_eq!(said(1), Some(call(2, 6)));
        let there = status.elsewhere("another", "call", || {
            // One that began later and is over, as another thread's may be.
            status.elsewhere("another", "call of another kind", || ());
            [said(0), said(2)]
        });
        assert_eq!(there, [None, Some(call(2, 6))], "where it is, unless it is in the one that is asked for");
        status.leave_all();
        assert_eq!(said(2), None);
    }
}
