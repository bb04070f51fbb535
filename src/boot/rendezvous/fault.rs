//! What goes wrong at a rendezvous, in words, and how everyone hears of it.
//!
//! It never decides that something is wrong, and telling never fails: the error is on its way already.
#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::time::Duration;

use super::frame::{Kind, frame, join, split};
use crate::boot::socket::{Deadline, Socket};
use crate::error::Error;
use crate::rank::Rank;

/// The longest error that is sent to the others.
pub(super) const ERROR_BYTES: usize = 4096;

/// How long rank 0 sees to it that its error reaches the others, before it returns it.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

pub(super) const SEE_OTHERS: &str =
    "see what that rank says; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds";

/// Sends an error to everyone, as far as they can still be reached: it is about to be returned anyway.
pub(super) fn tell<'s>(sockets: impl IntoIterator<Item = &'s mut Socket>, error: &Error) {
    let parts = match error {
        Error::Boot { what, cure } => [what.clone(), cure.clone()],
        other => [other.to_string(), SEE_OTHERS.into()],
    };
    let bytes = frame(Kind::Error, &join(&parts));
    let deadline = Deadline::after(FAREWELL);
    let told: Vec<_> = sockets.into_iter().filter(|socket| socket.send(&bytes, deadline).is_ok()).collect();
    for socket in told {
        socket.close_gently(deadline);
    }
}

/// The error that rank 0 found.
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
