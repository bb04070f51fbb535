//! The listening socket until all expected ranks have come in: who says the right hello may stay.
//!
//! A guest that is silent, slow or a stranger costs a socket and no waiting; the oldest makes room.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::wire::{Hello, VERSION};
use crate::rank::Rank;

/// How many may stand at the gate without having said hello.
const GUESTS: usize = 128;

pub struct Gate {
    listener: Arc<TcpListener>,
    me: Rank,
    job: u64,
    expected: BTreeSet<Rank>,
    guests: VecDeque<Guest>,
}

struct Guest {
    stream: Arc<TcpStream>,
    said: Vec<u8>,
}

/// What came of a look at the gate.
#[derive(Default)]
pub struct Entered {
    /// Ranks that came in.
    pub ranks: Vec<(Rank, Arc<TcpStream>)>,
    /// Why this job cannot come together.
    pub fatal: Option<String>,
}

/// What a guest is, as far as it has spoken.
enum Verdict {
    Undecided,
    Stranger,
    Expected(Rank),
    OtherVersion(Hello),
}

impl Gate {
    pub fn new(listener: TcpListener, me: Rank, job: u64, expected: BTreeSet<Rank>) -> Self {
        Gate { listener: Arc::new(listener), me, job, expected, guests: VecDeque::new() }
    }

    /// Who has not come yet.
    pub fn missing(&self) -> &BTreeSet<Rank> {
        &self.expected
    }

    /// The sockets to poll for reading.
    pub fn sockets(&self) -> Vec<Arc<dyn AsFd + Send + Sync>> {
        let guests = self.guests.iter().map(|guest| guest.stream.clone() as Arc<dyn AsFd + Send + Sync>);
        guests.chain([self.listener.clone() as _]).collect()
    }

    /// Lets in who has come and said hello.
    pub fn tend(&mut self) -> Entered {
        let mut entered = Entered { fatal: self.accept(), ..Entered::default() };
        for mut guest in std::mem::take(&mut self.guests) {
            match guest.listen(self) {
                Verdict::Undecided => self.guests.push_back(guest),
                Verdict::Stranger => {}
                Verdict::Expected(rank) => entered.ranks.extend(self.welcome(rank, guest)),
                Verdict::OtherVersion(hello) => entered.fatal = Some(self.differ(hello, guest)),
            }
        }
        entered
    }

    /// Takes all new connections; a lack of descriptors is fatal, as they would knock for ever.
    fn accept(&mut self) -> Option<String> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock => return None,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => return Some(format!("accept: {e}; raise `ulimit -n`")),
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).is_ok() {
            self.guests.push_back(Guest { stream: Arc::new(stream), said: Vec::new() });
        }
        if self.guests.len() > GUESTS {
            self.guests.pop_front();
        }
    }

    fn judge(&self, said: &[u8]) -> Verdict {
        match Hello::decode(said) {
            Some(hello) if hello.job != self.job || hello.to != self.me => Verdict::Stranger,
            Some(hello) if hello.version != VERSION => Verdict::OtherVersion(hello),
            Some(hello) if self.expected.contains(&hello.from) => Verdict::Expected(hello.from),
            _ => Verdict::Stranger,
        }
    }

    fn welcome(&mut self, rank: Rank, guest: Guest) -> Option<(Rank, Arc<TcpStream>)> {
        let reply = Hello { version: VERSION, job: self.job, from: self.me, to: rank };
        // A fresh socket has room for a hello; one that fails has lost its peer, which dials again or dies.
        (&*guest.stream).write_all(&reply.encode()).ok()?;
        self.expected.remove(&rank);
        Some((rank, guest.stream))
    }

    /// Tells the guest our version, so that it can name both too.
    fn differ(&self, hello: Hello, guest: Guest) -> String {
        let _ = (&*guest.stream).write_all(&hello.reply().encode());
        other_version(hello)
    }
}

impl Guest {
    fn listen(&mut self, gate: &Gate) -> Verdict {
        let mut bytes = [0; Hello::LEN];
        let wanted = Hello::LEN - self.said.len();
        match (&*self.stream).read(&mut bytes[..wanted]) {
            Ok(0) => Verdict::Stranger,
            Ok(read) => {
                self.said.extend(&bytes[..read]);
                if self.said.len() == Hello::LEN { gate.judge(&self.said) } else { Verdict::Undecided }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Verdict::Undecided
            }
            Err(_) => Verdict::Stranger,
        }
    }
}

/// The sentence on a peer with another wire format.
pub fn other_version(hello: Hello) -> String {
    let Hello { version, from, to, .. } = hello;
    format!(
        "rank {from} speaks version {version} of the lifeline, rank {to} version {VERSION}; \
         start all ranks from the same build"
    )
}
