//! One connection to a neighbour, after the hellos: frames in, frames out, never blocking.
//!
//! It knows no protocol. What goes out waits in a queue that is bounded: questions and replies are
//! dropped when it is long (an answer may fail to come, nobody depends on one), and of what may not be
//! dropped, fatal news and the goodbye, each link carries one at most.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;

use super::wire::{First, MAX_BODY, Message, first_frame};
use crate::forks::Parents;
use crate::rank::Rank;

/// A longer queue takes no more questions and replies, in bytes.
const QUEUE: usize = 16 << 10;

/// How long a silent host is believed to be alive: a probe after 4 s of silence, then each 2 s; lost
/// when 3 probes, or data for as long, are not acknowledged.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// A connection to rank `rank`.
pub struct Link {
    pub rank: Rank,
    /// Else a child would keep up the connection of a parent that has died. It goes before the stream.
    _alone: Parents,
    stream: Arc<TcpStream>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    finishing: bool,
}

/// What a look at a link gave.
pub struct Received {
    pub messages: Vec<Message>,
    /// How the connection ended, if it did: `closed`, `timed out`, ...
    pub end: Option<String>,
}

impl Link {
    pub fn new(rank: Rank, stream: Arc<TcpStream>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        sockopt::set_tcp_nodelay(&stream, true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED.as_millis() as u32)?;
        let alone = Parents::alone(stream.as_fd());
        Ok(Link { rank, _alone: alone, stream, incoming: Vec::new(), outgoing: Vec::new(), finishing: false })
    }

    /// The socket, for poll.
    pub fn stream(&self) -> Arc<TcpStream> {
        Arc::clone(&self.stream)
    }

    /// Whether something waits to go out.
    pub fn is_full(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends a frame, as far as the socket takes it; the rest when it is ready again.
    pub fn post(&mut self, frame: &[u8]) {
        self.outgoing.extend(frame);
        self.flush();
    }

    /// Sends a frame that may be lost, if the queue is short.
    pub fn offer(&mut self, frame: &[u8]) {
        if self.outgoing.len() <= QUEUE {
            self.post(frame);
        }
    }

    /// Closes this side after what is queued.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.flush();
    }

    /// Writes as much as the socket takes. A broken connection shows itself when it is read.
    pub fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            match (&*self.stream).write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.outgoing.clear(),
            }
        }
        if self.finishing {
            // It fails only where the connection is gone already.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Reads once; poll says when there is more.
    pub fn receive(&mut self, size: u32) -> Received {
        let end = self.read_once();
        match self.take_messages(size) {
            Ok(messages) => Received { messages, end },
            Err(messages) => {
                Received { messages, end: Some("carried what is no frame of the lifeline".into()) }
            }
        }
    }

    fn read_once(&mut self) -> Option<String> {
        let mut bytes = [0; 4 * MAX_BODY];
        match (&*self.stream).read(&mut bytes) {
            Ok(0) => Some("closed".into()),
            Ok(read) => {
                self.incoming.extend(&bytes[..read]);
                None
            }
            Err(e) => ending(&e),
        }
    }

    /// All whole frames; `Err` with those before the first bad one.
    fn take_messages(&mut self, size: u32) -> Result<Vec<Message>, Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let len = match first_frame(&self.incoming) {
                First::Body { len } => len,
                First::Half => return Ok(messages),
                First::TooLong => return Err(messages),
            };
            match Message::decode(&self.incoming[2..2 + len], size) {
                Some(message) => messages.push(message),
                None => return Err(messages),
            }
            self.incoming.drain(..2 + len);
        }
    }
}

fn ending(error: &io::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => None,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Some("was reset".into()),
        ErrorKind::TimedOut => Some("timed out".into()),
        _ => Some(format!("failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn link() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Link::new(1, Arc::new(listener.accept().unwrap().0)).unwrap(), theirs)
    }

    /// Reads until a message or the end comes.
    fn next(link: &mut Link) -> Received {
        loop {
            let received = link.receive(2);
            if !received.messages.is_empty() || received.end.is_some() {
                return received;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_message_that_comes_in_pieces_is_heard_whole() {
        let (mut link, mut theirs) = link();
        theirs.set_nodelay(true).unwrap();
        let question = Message::Question { from: 0, to: 1, id: 7, communicator: 0 };
        for byte in question.encode() {
            assert!(link.receive(2).messages.is_empty());
            theirs.write_all(&[byte]).unwrap();
        }
        assert_eq!(next(&mut link).messages, [question]);
        drop(theirs);
        assert_eq!(next(&mut link).end.as_deref(), Some("closed"));
    }

    #[test]
    fn a_peer_that_does_not_read_costs_bounded_memory_and_still_gets_the_news() {
        let (mut link, mut theirs) = link();
        let question =
            [Message::Question { from: 0, to: 1, id: 7, communicator: 0 }.encode(), vec![0; 999]].concat();
        while link.outgoing.len() <= QUEUE {
            link.offer(&question);
        }
        let full = link.outgoing.len();
        link.offer(&question);
        assert_eq!(link.outgoing.len(), full);
        link.post(&Message::Goodbye.encode());
        link.finish();

        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).map(|_| read)
        });
        while link.is_full() {
            link.flush();
            std::thread::yield_now();
        }
        assert!(reader.join().unwrap().unwrap().ends_with(&Message::Goodbye.encode()));
    }
}
