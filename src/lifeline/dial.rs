//! Connecting to one neighbour: its addresses in turn, until one says that it is that neighbour.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::gate::other_version;
use super::news::{Board, News};
use super::watch::timespec;
use super::wire::{Hello, Message, VERSION};
use crate::addresses::{self, Address};
use crate::rank::Rank;

/// How long one address may take to accept, and its hello to come whole.
const ONE_ADDRESS: Duration = Duration::from_secs(5);

/// The same where the job is broken and the peer is called only to be told.
const LAST_CALL: Duration = Duration::from_millis(200);

/// How long a rank that cannot be reached is given for an older loss to explain it: it may have ended
/// on hearing of that, and the news be on their way.
const ECHO: Duration = Duration::from_millis(200);

/// What all calls of one rank have in common.
pub struct Dialer<'a> {
    pub me: Rank,
    pub job: u64,
    pub ours: &'a [Address],
    pub board: &'a Board,
    /// When a peer that accepts but does not say hello is given up.
    pub deadline: Instant,
}

/// Why a call failed.
enum Failure {
    /// Another address may do.
    Here(String),
    /// The job is broken.
    Fatal(News),
}

impl Dialer<'_> {
    /// A connection to `peer`, which answered as such. When the job is broken, now or meanwhile, the
    /// peer is told as soon as it accepts: to break off without a word would look like a death.
    pub fn dial(&self, peer: Rank, card: &[u8]) -> Result<Arc<TcpStream>, News> {
        let mut theirs = addresses::decode(card).ok_or_else(|| self.malformed(peer))?;
        addresses::sort(&mut theirs, self.ours);
        let mut reasons = Vec::new();
        for address in theirs {
            match self.call(peer, address) {
                Ok(stream) => return Ok(Arc::new(stream)),
                Err(Failure::Here(why)) => reasons.push(format!("{address}: {why}")),
                Err(Failure::Fatal(news)) => return Err(news),
            }
        }
        Err(self.unreachable(peer, &reasons))
    }

    fn call(&self, peer: Rank, address: SocketAddr) -> Result<TcpStream, Failure> {
        let hello = Hello { version: VERSION, job: self.job, from: self.me, to: peer };
        let mut stream = TcpStream::connect_timeout(&address, self.patience()).map_err(here)?;
        stream.write_all(&hello.encode()).map_err(here)?;
        self.wait_for_hello(&mut stream)?;
        let mut said = [0; Hello::LEN];
        stream.set_read_timeout(Some(ONE_ADDRESS)).map_err(here)?;
        stream.read_exact(&mut said).map_err(here)?;
        judge(&hello, &said)?;
        Ok(stream)
    }

    /// How long an address may take to accept.
    fn patience(&self) -> Duration {
        match self.board.fatal() {
            Some(_) => LAST_CALL,
            None => self.deadline.saturating_duration_since(Instant::now()).clamp(LAST_CALL, ONE_ADDRESS),
        }
    }

    /// Waits for the peer's word, which comes when it has come as far as this rank; or for bad news.
    fn wait_for_hello(&self, stream: &mut TcpStream) -> Result<(), Failure> {
        loop {
            if let Some(news) = self.board.fatal() {
                stream.write_all(&Message::Fatal(news.clone()).encode()).map_err(here)?;
                return Err(Failure::Fatal(news));
            }
            let patience = self.deadline.saturating_duration_since(Instant::now());
            if self.wait(patience, stream).map_err(here)? {
                return Ok(());
            }
            if patience.is_zero() {
                return Err(Failure::Here("it accepts, but says no hello".into()));
            }
        }
    }

    /// Waits for the stream or for news; true if the stream is readable.
    fn wait(&self, patience: Duration, stream: &TcpStream) -> rustix::io::Result<bool> {
        let mut fds =
            [stream.as_fd(), self.board.wake()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, Some(&timespec(patience))) {
            Err(Errno::INTR) => Ok(false),
            polled => polled.map(|_| !fds[0].revents().is_empty()),
        }
    }

    /// The loss of a rank that no address led to, or the older news that explain it.
    fn unreachable(&self, peer: Rank, reasons: &[String]) -> News {
        if self.board.fatal().is_none() {
            let mut fds = [PollFd::from_borrowed_fd(self.board.wake(), PollFlags::IN)];
            // Interrupted, it may miss the older news: the error names a victim of the first loss then.
            let _ = poll(&mut fds, Some(&timespec(ECHO)));
        }
        let how = format!("rank {} cannot connect to it ({})", self.me, reasons.join("; "));
        self.board.fatal().unwrap_or(News::Lost { rank: peer, how })
    }

    fn malformed(&self, peer: Rank) -> News {
        News::Aborted {
            by: self.me,
            why: format!("rank {peer}'s lifeline card is malformed; start all ranks from the same build"),
        }
    }
}

fn here(error: impl ToString) -> Failure {
    Failure::Here(error.to_string())
}

fn judge(hello: &Hello, said: &[u8]) -> Result<(), Failure> {
    match Hello::decode(said) {
        Some(reply) if reply == hello.reply() => Ok(()),
        Some(reply) if reply == (Hello { version: reply.version, ..hello.reply() }) => {
            Err(Failure::Fatal(News::Aborted { by: hello.from, why: other_version(reply) }))
        }
        _ => Err(Failure::Here("it is somebody else".into())),
    }
}
