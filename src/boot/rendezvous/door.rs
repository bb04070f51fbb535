//! Rank 0 while the others come: lets in each rank once, and nobody else.
//!
//! It never waits for one connection alone, so that a silent stranger holds up nobody.
#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::address::prepare;
use super::fault::{gone, ranks, tell};
use super::frame::{GREETING_BYTES, MAGIC, VERSION, number};
use crate::boot::pmi1::line::quoted;
use crate::boot::socket::{Deadline, Socket, wait};
use crate::error::{Error, Result};
use crate::rank::Rank;

/// Rank 0 while the others come.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) at: String,
    pub(super) size: u32,
    pub(super) limit: Duration,
    /// Connected, and their greeting not complete.
    pub(super) unknown: Vec<Socket>,
    /// Rank r at r - 1.
    pub(super) known: Vec<Option<Socket>>,
}

impl Door {
    pub(super) fn admit_all(&mut self) -> Result<()> {
        let deadline = Deadline::after(self.limit);
        while self.known.iter().any(Option::is_none) {
            self.wait(deadline).map_err(|error| self.nobody(&error))?;
            while self.accept()? {}
            self.notice_leavers()?;
            self.greet()?;
        }
        Ok(())
    }

    fn wait(&self, deadline: Deadline) -> std::io::Result<()> {
        let sockets = self.unknown.iter().chain(self.known.iter().flatten());
        let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        wait(&mut fds, deadline)
    }

    /// Takes in one that has connected, if there is one.
    fn accept(&mut self) -> Result<bool> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                prepare(&stream);
                self.unknown.push(Socket::new(stream));
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(true),
            Err(error) => Err(self.nobody(&error)),
        }
    }

    /// Tells the error to all who have come, also to those who still stand before the door.
    pub(super) fn turn_away(mut self, error: &Error) {
        while let Ok(true) = self.accept() {}
        tell(self.known.iter_mut().flatten().chain(&mut self.unknown), error);
    }

    /// A rank that was here already and is gone is known by name; there is no need to wait for the others.
    fn notice_leavers(&mut self) -> Result<()> {
        for (rank, socket) in (1..).zip(&mut self.known) {
            let Some(socket) = socket else { continue };
            socket
                .receive()
                .map_err(|error| gone(rank, &error, &format!("at the rendezvous {}", self.at)))?;
        }
        Ok(())
    }

    /// Lets in those whose greeting is complete. A connection that closes without a word was only a probe.
    fn greet(&mut self) -> Result<()> {
        let mut index = 0;
        while let Some(socket) = self.unknown.get_mut(index) {
            let open = socket.receive().is_ok();
            if !open && socket.received().is_empty() {
                self.unknown.swap_remove(index);
                continue;
            }
            match self.read_greeting(&self.unknown[index], open)? {
                None => index += 1,
                Some(rank) => {
                    let mut socket = self.unknown.swap_remove(index);
                    socket.take(GREETING_BYTES);
                    self.known[rank as usize - 1] = Some(socket);
                }
            }
        }
        Ok(())
    }

    /// The rank that greets, or nothing while its greeting is not complete.
    fn read_greeting(&self, socket: &Socket, open: bool) -> Result<Option<Rank>> {
        let bytes = socket.received();
        let ours = bytes.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours);
        if !ours || (!open && bytes.len() < GREETING_BYTES) {
            let what = format!("a stranger came to the rendezvous {} and said {}", self.at, quoted(bytes));
            return Err(Error::boot(what, "choose a port that nothing else uses"));
        }
        // The version is looked at first, as another version's greeting may be shorter.
        let Some(version) = bytes.get(8..10) else { return Ok(None) };
        let version = u16::from_le_bytes([version[0], version[1]]);
        if version != VERSION {
            let what =
                format!("a rank speaks version {version} of the rendezvous, rank 0 speaks version {VERSION}");
            return Err(Error::boot(what, "start all ranks from the same build"));
        }
        if bytes.len() < GREETING_BYTES {
            return Ok(None);
        }
        self.check_place(number(&bytes[10..]), number(&bytes[14..])).map(Some)
    }

    fn check_place(&self, rank: Rank, size: u32) -> Result<Rank> {
        let cure = "give each process its own rank below the one size that all have";
        if size != self.size {
            let what = format!("rank {rank} believes in {size} ranks, rank 0 in {}", self.size);
            return Err(Error::boot(what, cure));
        }
        if rank >= size {
            return Err(Error::boot(format!("a process calls itself rank {rank} of {size}"), cure));
        }
        if rank == 0 || self.known[rank as usize - 1].is_some() {
            return Err(Error::boot(format!("two processes call themselves rank {rank}"), cure));
        }
        Ok(rank)
    }

    fn nobody(&self, error: &std::io::Error) -> Error {
        let missing =
            ranks((1..).zip(&self.known).filter(|(_, socket)| socket.is_none()).map(|(rank, _)| rank));
        let silent = match self.unknown.len() {
            0 => String::new(),
            count => format!(" ({count} connected and said nothing)"),
        };
        let what = match error.kind() {
            ErrorKind::TimedOut => {
                format!(
                    "{missing} did not come to the rendezvous {} within {} s{silent}",
                    self.at,
                    self.limit.as_secs()
                )
            }
            _ => format!("{error} at the rendezvous {}", self.at),
        };
        Error::boot(what, "start all ranks; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds")
    }
}
