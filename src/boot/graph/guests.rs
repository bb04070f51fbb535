//! Those who have connected and are not let in yet.
//!
//! One that is silent, slow or a stranger costs a socket and no waiting; the oldest makes room.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{ErrorKind, Result};
use std::net::TcpListener;

use rustix::event::{PollFd, PollFlags};

use super::greeting::{GREETING_BYTES, Greeting, Words};
use crate::boot::frame::{Kind, frame};
use crate::boot::link::Link;
use crate::boot::socket::Socket;
use crate::rank::Rank;

/// How many are accepted before those are heard who came first.
const AT_ONCE: usize = 128;

pub(in crate::boot) struct Guests {
    /// It does not block.
    listener: TcpListener,
    waiting: VecDeque<Guest>,
}

/// One who has connected.
pub(in crate::boot) struct Guest {
    pub(in crate::boot) link: Link,
    /// Who it is, once it has greeted in the right words.
    pub(in crate::boot) known: Option<Rank>,
}

impl Guests {
    pub(in crate::boot) fn at(listener: TcpListener) -> Self {
        Guests { listener, waiting: VecDeque::new() }
    }

    /// Takes in some of those who have connected, and keeps `most` of those who wait without having said who they are.
    pub(in crate::boot) fn accept(&mut self, most: usize) -> Result<()> {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // Frames are small and awaited. If the option cannot be set they are only later.
                    let _ = stream.set_nodelay(true);
                    self.waiting.push_back(Guest { link: Link::new(Socket::new(stream)), known: None });
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // It would come again at once, for ever.
                    _ => return Err(error),
                },
            }
        }
        let unknown = |guest: &&Guest| guest.known.is_none();
        let mut gone = self.waiting.iter().filter(unknown).count().saturating_sub(most);
        self.waiting.retain(|guest| {
            let goes = gone > 0 && guest.known.is_none();
            gone -= usize::from(goes);
            !goes
        });
        Ok(())
    }

    /// Everybody, with what has come from each.
    pub(in crate::boot) fn take(&mut self) -> VecDeque<Guest> {
        let mut guests = std::mem::take(&mut self.waiting);
        guests.iter_mut().for_each(|guest| guest.link.tend());
        guests
    }

    /// This one waits on.
    pub(in crate::boot) fn keep(&mut self, guest: Guest) {
        self.waiting.push_back(guest);
    }

    pub(in crate::boot) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(in crate::boot) fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.waiting.iter_mut().map(|guest| &mut guest.link)
    }

    /// What to wait for.
    pub(in crate::boot) fn polls(&self) -> impl Iterator<Item = PollFd<'_>> {
        let links = self.waiting.iter().filter_map(|guest| guest.link.poll());
        links.chain([PollFd::new(&self.listener, PollFlags::IN)])
    }
}

impl Guest {
    /// What it says first, once that is whole; if it is no greeting, its bytes.
    pub(in crate::boot) fn greeting(&self) -> Option<Option<Greeting>> {
        self.link.socket.received().first_chunk().map(Greeting::read)
    }

    /// Answers its greeting.
    pub(in crate::boot) fn welcome(&mut self, rank: Rank, words: Words) {
        self.known = Some(rank);
        self.link.socket.take(GREETING_BYTES);
        self.link.send(&frame(Kind::Welcome, &words.answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn who_has_said_who_it_is_does_not_make_room_for_who_has_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut guests = Guests::at(listener);
        let mut came = Vec::new();
        let mut come = |number| came.extend((0..number).map(|_| TcpStream::connect(address).unwrap()));
        come(5);
        guests.accept(5).unwrap();
        for mut guest in guests.take() {
            guest.known = Some(guests.count() as Rank);
            guests.keep(guest);
        }
        come(4);
        guests.accept(3).unwrap();
        let known: Vec<_> = guests.waiting.iter().map(|guest| guest.known).collect();
        assert_eq!(known, [Some(0), Some(1), Some(2), Some(3), Some(4), None, None, None]);
    }
}
