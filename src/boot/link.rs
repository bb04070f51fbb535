//! A connection that sends and receives when the kernel is ready, and never waits by itself.
//!
//! Ranks send to one another in a circle: one that waited until its own bytes were gone would wait for a rank that does the same.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::fault::{ERROR_BYTES, told, words};
use super::frame::{Kind, find_frame, frame, take_frame};
use super::socket::{Deadline, Socket, wait};
use crate::error::Error;

/// How long a rank sees to it that its error reaches the others, before it returns it.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct Link {
    pub(super) socket: Socket,
    unsent: Vec<u8>,
    /// Why nothing more will come, though what came before may still be taken.
    end: Option<ErrorKind>,
}

impl Link {
    pub(super) fn new(socket: Socket) -> Self {
        Link { socket, unsent: Vec::new(), end: None }
    }

    /// Sends these bytes from now on.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.tend();
    }

    /// Sends what the kernel takes and takes in what it holds.
    pub(super) fn tend(&mut self) {
        if self.end.is_none() {
            let sent = self.socket.send_some(&self.unsent);
            self.unsent.drain(..*sent.as_ref().unwrap_or(&0));
            // A peer that takes nothing more may have said why: what it sent is read up to its end.
            let received = self.socket.receive();
            self.end = received.err().map(|end| sent.err().unwrap_or(end).kind());
        }
        if self.end.is_some() {
            self.unsent.clear();
        }
    }

    /// The next frame, once all of it has come. The error is a phrase.
    pub(super) fn take(&mut self, most: usize) -> Result<Option<(Kind, Vec<u8>)>, String> {
        take_frame(&mut self.socket, most.max(ERROR_BYTES))
    }

    /// The error that the peer tells, also if what it said before was not taken.
    pub(super) fn bad_news(&self) -> Option<Error> {
        find_frame(Kind::Error, self.socket.received()).map(told)
    }

    pub(super) fn has_sent_all(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Why nothing more will come.
    pub(super) fn end(&self) -> Option<io::Error> {
        self.end.map(io::Error::from)
    }

    /// What to wait for on it; nothing once it has ended.
    pub(super) fn poll(&self) -> Option<PollFd<'_>> {
        let out = if self.has_sent_all() { PollFlags::empty() } else { PollFlags::OUT };
        self.end.is_none().then(|| PollFd::new(&self.socket, PollFlags::IN | out))
    }
}

/// Waits until something can be done on one of `links`, then does it on all.
pub(super) fn pump(links: &mut [&mut Link], deadline: Deadline) -> io::Result<()> {
    wait(&mut links.iter().filter_map(|link| link.poll()).collect::<Vec<_>>(), deadline)?;
    links.iter_mut().for_each(|link| link.tend());
    Ok(())
}

/// Sends an error to everyone, as far as they can still be reached: it is about to be returned anyway.
pub(super) fn tell<'l>(links: impl IntoIterator<Item = &'l mut Link>, error: &Error) {
    let mut links: Vec<_> = links.into_iter().collect();
    let bytes = frame(Kind::Error, &words(error));
    links.iter_mut().for_each(|link| link.send(&bytes));
    let deadline = Deadline::after(FAREWELL);
    while links.iter().any(|link| !link.has_sent_all()) && pump(&mut links, deadline).is_ok() {}
    // Closed over unread bytes, a TCP connection is reset and loses what is under way: so all others close first. All at
    // once, because they wait for each other in the same way.
    links.iter().for_each(|link| link.socket.send_no_more());
    let deadline = Deadline::after(FAREWELL);
    while links.iter().any(|link| link.end.is_none()) && pump(&mut links, deadline).is_ok() {
        links.iter_mut().for_each(|link| link.socket.forget());
    }
}
