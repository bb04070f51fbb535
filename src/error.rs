//! What can go wrong, in sentences that name the call, the rank, the peer and the cure.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::rank::Rank;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, cheap to clone: a broken communicator gives the first one again at each later call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's arguments do not fit; nothing was sent.
    #[error("{call}: {what}; {cure}")]
    Argument {
        /// The call, as the user wrote it.
        call: String,
        /// What does not fit.
        what: String,
        /// What to do.
        cure: String,
    },
    /// Two ranks of one communicator make calls that do not go together.
    #[error(
        "ranks disagree about call #{number}: rank {rank} makes {mine}, rank {peer} makes {theirs}; every rank must make the same calls in the same order with the same arguments"
    )]
    Disagreement {
        /// The number of the call on this communicator, from 1; each segment of a long call that goes through a workspace
        /// has one.
        number: u64,
        /// The rank that found it out.
        rank: Rank,
        /// Its call.
        mine: String,
        /// The rank with the other call.
        peer: Rank,
        /// The other call.
        theirs: String,
    },
    /// An operator failed, or panicked: the data of the call are worth nothing.
    #[error("{call}: the operator failed: {why}; mend the operator")]
    Operator {
        /// In which call.
        call: String,
        /// The operator's own words.
        why: String,
    },
    /// A rank is gone.
    #[error("rank {rank} is lost: {how}")]
    Lost {
        /// Which.
        rank: Rank,
        /// How it was noticed, and in which call.
        how: String,
    },
    /// The deadline that the user set has passed.
    #[error("{0}")]
    Stalled(String),
    /// A rank found an error and told the others.
    #[error("rank {by} gave up: {why}")]
    Aborted {
        /// The rank that found the error.
        by: Rank,
        /// Its error.
        why: String,
    },
    /// Ranks could not find each other.
    #[error("boot: {what}; {cure}")]
    Boot {
        /// What failed.
        what: String,
        /// What to do.
        cure: String,
    },
    /// No transport can be had: one line for each that was considered.
    #[error("no transport: {0}")]
    NoTransport(String),
    /// The transport below failed.
    #[error("{call}: {what}; {cure}")]
    Transport {
        /// The function that failed.
        call: String,
        /// Its error, and on what.
        what: String,
        /// What to do.
        cure: String,
    },
}

impl Error {
    /// An [`Error::Argument`].
    pub fn argument(call: impl Into<String>, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Error::Argument { call: call.into(), what: what.into(), cure: cure.into() }
    }

    /// An [`Error::Boot`].
    pub fn boot(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Error::Boot { what: what.into(), cure: cure.into() }
    }

    /// An [`Error::Transport`].
    pub fn transport(call: impl Into<String>, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Error::Transport { call: call.into(), what: what.into(), cure: cure.into() }
    }
}

/// What a panic said. What it holds is dropped, which may panic again, and that is then forgotten.
pub(crate) fn words_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word");
    let words = text.to_owned();
    catch_unwind(AssertUnwindSafe(|| drop(panic))).unwrap_or_else(std::mem::forget);
    words
}

/// Says a sentence on the standard error, where there is no call that could return it. In one write, so
/// that ranks which share a terminal do not speak into one another.
pub fn tell(sentence: impl std::fmt::Display) {
    let line = format!("circulant: {sentence}\n");
    // Nobody listens: no reason to end.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
