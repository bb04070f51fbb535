//! What goes wrong between ranks that meet, in words, and how everyone hears of it.
//!
//! It never decides that something is wrong.
#![forbid(unsafe_code)]

use std::io::ErrorKind;

use super::frame::{join, split};
use super::graph::VERSION;
use crate::error::Error;
use crate::rank::Rank;

/// The longest error that is sent to the others.
pub(super) const ERROR_BYTES: usize = 4096;

pub(super) const SEE_OTHERS: &str =
    "see what that rank says; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds";

/// An error as it travels.
pub(super) fn words(error: &Error) -> Vec<u8> {
    match error {
        Error::Boot { what, cure } => join(&[cut(what), cut(cure)]),
        other => join(&[cut(&other.to_string()), SEE_OTHERS.as_bytes()]),
    }
}

/// As much of a text as leaves room for another.
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(ERROR_BYTES / 2 - 4)]
}

/// The error that has travelled.
pub(super) fn told(payload: &[u8]) -> Error {
    let parts = split(payload).unwrap_or_default();
    let text = |index: usize| {
        parts.get(index).map(|part| String::from_utf8_lossy(part).into_owned()).unwrap_or_default()
    };
    Error::boot(text(0), text(1))
}

pub(super) fn gone(rank: Rank, error: &std::io::Error, call: &str) -> Error {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "has disconnected".into()
        }
        ErrorKind::TimedOut => "did not answer in time".into(),
        _ => format!("cannot be reached ({error})"),
    };
    Error::boot(format!("rank {rank} {what} {call}"), SEE_OTHERS)
}

pub(super) fn other_version(theirs: u16) -> Error {
    let what = format!("a rank speaks version {theirs} of the rendezvous, this one speaks version {VERSION}");
    Error::boot(what, "start all ranks from the same build")
}

pub(super) fn nonsense(rank: Rank, what: &str, call: &str) -> Error {
    Error::boot(format!("rank {rank} sent {what} {call}"), "start all ranks from the same build")
}

/// A list of ranks in words.
pub(super) fn ranks(list: impl Iterator<Item = Rank>) -> String {
    const MOST: usize = 10;
    let all: Vec<String> = list.map(|rank| rank.to_string()).collect();
    let more = if all.len() > MOST { format!(" and {} more", all.len() - MOST) } else { String::new() };
    let noun = if all.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}{more}", all[..all.len().min(MOST)].join(", "))
}
