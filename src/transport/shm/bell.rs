//! How a rank that sleeps is woken.
#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};

use super::board::Board;
use super::card::Card;
use super::home::{Missing, Pipe};
use super::peer::Handles;
use crate::error::{Error, Result};
use crate::rank::Rank;

/// The pipe that a rank sleeps on.
pub(super) struct Bell {
    pub(super) reader: OwnedFd,
    /// Without a writer it would be readable for ever.
    _writer: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> Result<Bell> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| Error::transport("pipe", e.to_string(), "raise `ulimit -n`"))?;
        Ok(Bell { reader, _writer: writer })
    }

    pub(super) fn pipe(&self) -> Result<Pipe> {
        Pipe::of(&self.reader).map_err(|e| Error::transport("fstat", e.to_string(), "see the system's log"))
    }

    /// What has rung is seen by the next poll; an unread bell would end the next sleep at once.
    pub(super) fn silence(&self) {
        let _ = read(&self.reader, &mut [0_u8; 64]);
    }
}

/// Wakes a peer, if it sleeps.
pub(super) fn wake(board: &Board, name: Rank, card: &Card, bells: &mut Handles) -> Result<()> {
    if board.alarm().must_ring(board.fences()) { ring(name, card, bells) } else { Ok(()) }
}

#[cold]
fn ring(name: Rank, card: &Card, bells: &mut Handles) -> Result<()> {
    let bell = match bells.of(name, || card.home.pipe(card.bell)) {
        // Nobody sleeps there: who has left in good order may have left its alarm set.
        Err(Missing::Gone(_) | Missing::Another) => return Ok(()),
        found => found.map_err(|e| e.of(name, "bell"))?,
    };
    match write(bell, b"!") {
        // A full pipe rings already.
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(e) => Err(Error::transport("write", format!("{e}, to wake rank {name}"), "see the system's log")),
    }
}
