//! One connection to a neighbour, after the hellos: frames in, frames out, never blocking.
//!
//! It knows no protocol. What goes out waits in a queue that is bounded: questions and replies are
//! dropped when it is long (an answer may fail to come, nobody depends on one), and of what may not be
//! dropped, fatal news and the goodbye, each link carries one at most.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;

use super::wire::{First, MAX_BODY, Message, first_frame};
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
        Ok(Link { rank, stream, incoming: Vec::new(), outgoing: Vec::new(), finishing: false })
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
