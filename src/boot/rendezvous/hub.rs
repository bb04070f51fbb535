//! The place where all meet: lets in each rank once, and tells each the doors of those that it is to call.
//!
//! A thread of its own in the process of whoever opened it, and of no rank: all ranks come to it alike. It never waits
//! for one connection alone, so that a silent stranger holds up nobody; and it ends when the ranks know each other,
//! or when it has told those who came why they will not.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use crate::boot::fault::{gone, nonsense, other_version, ranks};
use crate::boot::frame::{Kind, frame, join, number};
use crate::boot::graph::{self, Guest, Guests, MAGIC, NO_RANK, VERSION, Words};
use crate::boot::link::{Link, pump, tell};
use crate::boot::pmi1::line::quoted;
use crate::boot::socket::{Deadline, raise_files, wait};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::threads;

/// The most bytes of what a rank says of itself.
const CARD_BYTES: usize = 1024;
/// More ranks than that have no numbers for their channels.
const MOST: u32 = 1 << 22;
/// How many may have said nothing yet, beside the ranks. The oldest makes room.
const SILENT: usize = 128;
/// How many may wait to be accepted: all ranks come at once.
const BACKLOG: i32 = 4096;

/// Where ranks meet, before the first has come.
pub(super) struct Hub {
    words: Words,
    at: String,
    unknown: Guests,
    /// What the first rank has said that all must agree on, and how long they wait.
    terms: Option<Terms>,
    known: BTreeMap<Rank, Visitor>,
}

#[derive(Clone, Copy)]
struct Terms {
    by: Rank,
    size: u32,
    limit: Duration,
    deadline: Deadline,
}

/// A rank that has been let in.
struct Visitor {
    link: Link,
    card: Vec<u8>,
}

/// What a guest is, as far as it has spoken.
enum Verdict {
    Undecided,
    Stranger,
    Enters(Rank, Introduction),
}

/// What a rank says of itself, once it is let in.
pub(super) struct Introduction {
    pub(super) size: u32,
    pub(super) limit: Duration,
    pub(super) card: Vec<u8>,
}

impl Introduction {
    pub(super) fn frame(&self) -> Vec<u8> {
        let limit = u32::try_from(self.limit.as_millis()).unwrap_or(u32::MAX);
        frame(Kind::Cards, &[&self.size.to_le_bytes(), &limit.to_le_bytes(), &self.card[..]].concat())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, card) = bytes.split_at_checked(8)?;
        let limit = Duration::from_millis(number(&head[4..]).into());
        Some(Introduction { size: number(head), limit, card: card.to_vec() })
    }
}

impl Hub {
    /// Serves one meeting from now on. `at` is where, for errors.
    ///
    /// At a door with secret words only those who know them count; at one without, whoever says something else ends
    /// the meeting, because two jobs that share a port by mistake must not mix.
    pub(super) fn open(listener: TcpListener, words: Words, at: String) -> std::io::Result<()> {
        // A connection that poll has announced may be gone when it is accepted.
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let hub = Hub { words, at, unknown: Guests::at(listener), terms: None, known: BTreeMap::new() };
        threads::start("rendezvous".to_owned(), || hub.serve()).map(drop)
    }

    fn serve(mut self) {
        if let Err(error) = self.admit_all().and_then(|()| self.introduce()) {
            self.turn_away(&error);
        }
    }

    fn admit_all(&mut self) -> Result<()> {
        while self.terms.as_ref().is_none_or(|terms| self.known.len() < terms.size as usize) {
            let ready = self.wait().map_err(|error| self.nobody(&error))?;
            self.accept()?;
            self.notice_leavers(&ready)?;
            self.greet()?;
        }
        Ok(())
    }

    /// Tells each rank the doors of those that it is to call.
    fn introduce(&mut self) -> Result<()> {
        let size = self.known.len() as u32;
        let cards: Vec<_> = self.known.values().map(|visitor| visitor.card.clone()).collect();
        for (&rank, visitor) in &mut self.known {
            let callees = graph::callees(Place { rank, size }).into_iter();
            let doors: Vec<_> = callees.map(|to| &cards[to as usize]).collect();
            visitor.link.send(&frame(Kind::Cards, &join(&doors)));
        }
        let (call, deadline) = (self.call(), self.deadline());
        let mut links: Vec<_> = self.known.values_mut().map(|visitor| &mut visitor.link).collect();
        while let Some(rank) = links.iter().position(|link| !link.has_sent_all()) {
            pump(&mut links, deadline).map_err(|error| gone(rank as Rank, &error, &call))?;
        }
        Ok(())
    }

    /// Tells the error to all who have come, also to those who still stand before the door. Rank 0 last: its process,
    /// which may be this one, ends when it hears it.
    fn turn_away(mut self, error: &Error) {
        // Whoever does not get in now hears only that the door is shut.
        let _ = self.accept();
        let known = self.known.values_mut().rev().map(|visitor| &mut visitor.link);
        tell(self.unknown.links().chain(known), error);
    }

    fn deadline(&self) -> Deadline {
        // Until somebody comes there is no reason to give up.
        self.terms.as_ref().map_or(Deadline::after(Duration::MAX), |terms| terms.deadline)
    }

    /// Waits until something comes, and tells from which of the known.
    fn wait(&self) -> std::io::Result<Vec<Rank>> {
        let known = self.known.iter().filter_map(|(&rank, visitor)| Some((rank, visitor.link.poll()?)));
        let (ranks, mut polls): (Vec<Rank>, Vec<_>) = known.unzip();
        polls.extend(self.unknown.polls());
        wait(&mut polls, self.deadline())?;
        Ok(ranks
            .into_iter()
            .zip(&polls)
            .filter(|(_, poll)| !poll.revents().is_empty())
            .map(|(rank, _)| rank)
            .collect())
    }

    fn accept(&mut self) -> Result<()> {
        self.unknown.accept(SILENT + self.known.len()).map_err(|error| self.nobody(&error))
    }

    /// A rank that was here already and is gone is known by name; there is no need to wait for the others.
    fn notice_leavers(&mut self, ready: &[Rank]) -> Result<()> {
        for &rank in ready {
            let Some(visitor) = self.known.get_mut(&rank) else { continue };
            visitor.link.tend();
            if let Some(error) = visitor.link.end() {
                return Err(gone(rank, &error, &self.call()));
            }
            if visitor.link.socket.received().len() > CARD_BYTES {
                return Err(nonsense(rank, "more than it was asked for", &self.call()));
            }
        }
        Ok(())
    }

    /// Lets in those who have said who they are. All others stay, to hear of an error.
    fn greet(&mut self) -> Result<()> {
        let mut greeted = Ok(());
        for guest in self.unknown.take() {
            match greeted {
                Ok(()) => greeted = self.admit(guest),
                Err(_) => self.unknown.keep(guest),
            }
        }
        greeted
    }

    fn admit(&mut self, mut guest: Guest) -> Result<()> {
        match self.judge(&mut guest) {
            Ok(Verdict::Enters(rank, introduction)) => self.enter(rank, introduction, guest),
            Ok(Verdict::Stranger) => Ok(()),
            Ok(Verdict::Undecided) if guest.link.end().is_some() => self.check_leaver(&guest),
            judged => {
                self.unknown.keep(guest);
                judged.map(drop)
            }
        }
    }

    fn judge(&self, guest: &mut Guest) -> Result<Verdict> {
        if guest.known.is_none() && !self.hear_greeting(guest)? {
            return Ok(Verdict::Stranger);
        }
        let Some(rank) = guest.known else { return Ok(Verdict::Undecided) };
        let mut said = guest.link.take(CARD_BYTES);
        while matches!(said, Ok(Some((Kind::Welcome, _)))) {
            // It stays: more is to come.
            said = guest.link.take(CARD_BYTES);
        }
        match said {
            Ok(None | Some((Kind::Welcome, _))) => Ok(Verdict::Undecided),
            Ok(Some((Kind::Cards, payload))) => match Introduction::read(&payload) {
                Some(introduction) => Ok(Verdict::Enters(rank, introduction)),
                None => Err(nonsense(rank, "half an introduction", &self.call())),
            },
            // It has given up, and says so to its own user.
            Ok(Some((Kind::Error, _))) => Ok(Verdict::Stranger),
            Err(what) => Err(nonsense(rank, &what, &self.call())),
        }
    }

    /// Answers a greeting that is whole and right; false for a stranger, where strangers do not matter.
    fn hear_greeting(&self, guest: &mut Guest) -> Result<bool> {
        if self.is_public() {
            self.check_start(guest.link.socket.received())?;
        }
        let Some(greeting) = guest.greeting() else { return Ok(true) };
        let Some(greeting) = greeting.filter(|greeting| greeting.knows(self.words) && greeting.to == NO_RANK)
        else {
            return Ok(false);
        };
        if greeting.version != VERSION {
            return Err(other_version(greeting.version));
        }
        guest.welcome(greeting.from, self.words);
        Ok(true)
    }

    /// Whether its words are known to everybody.
    fn is_public(&self) -> bool {
        self.words == Words::default()
    }

    /// Whether these are the first bytes of a greeting. The version is looked at before the rest, as another
    /// version's greeting may be shorter.
    fn check_start(&self, bytes: &[u8]) -> Result<()> {
        if bytes.iter().zip(MAGIC).any(|(theirs, ours)| theirs != ours) {
            return Err(self.stranger(bytes));
        }
        let version = bytes.get(8..).and_then(|rest| rest.first_chunk()).map(|&two| u16::from_le_bytes(two));
        version.filter(|&version| version != VERSION).map_or(Ok(()), |version| Err(other_version(version)))
    }

    /// A connection that closes without a word was only a probe.
    fn check_leaver(&self, guest: &Guest) -> Result<()> {
        let bytes = guest.link.socket.received();
        match self.is_public() && guest.known.is_none() && !bytes.is_empty() {
            true => Err(self.stranger(bytes)),
            false => Ok(()),
        }
    }

    fn stranger(&self, bytes: &[u8]) -> Error {
        let what = format!("a stranger came to {} and said {}", self.at, quoted(bytes));
        Error::boot(what, "choose a port that nothing else uses")
    }

    fn enter(&mut self, rank: Rank, introduction: Introduction, guest: Guest) -> Result<()> {
        let Introduction { size, limit, card } = introduction;
        if let Err(error) = self.check_place(rank, size) {
            self.unknown.keep(guest);
            return Err(error);
        }
        if self.terms.is_none() {
            raise_files(OTHERS + SILENT as u64 + u64::from(size));
        }
        let own = Terms { by: rank, size, limit, deadline: Deadline::after(limit) };
        let terms = self.terms.get_or_insert(own);
        // The first whose patience ends speaks for all.
        if own.deadline.remaining() < terms.deadline.remaining() {
            *terms = Terms { by: terms.by, ..own };
        }
        self.known.insert(rank, Visitor { link: guest.link, card });
        Ok(())
    }

    fn check_place(&self, rank: Rank, size: u32) -> Result<()> {
        let cure = "give each process its own rank below the one size that all have";
        let what = match &self.terms {
            Some(terms) if terms.size != size => {
                format!("rank {rank} believes in {size} ranks, rank {} in {}", terms.by, terms.size)
            }
            _ if rank >= size => format!("a process calls itself rank {rank} of {size}"),
            _ if self.known.contains_key(&rank) => format!("two processes call themselves rank {rank}"),
            _ if size > MOST => format!("{size} ranks are more than the {MOST} that there can be"),
            _ => return Ok(()),
        };
        Err(Error::boot(what, cure))
    }

    fn nobody(&self, error: &std::io::Error) -> Error {
        match (&self.terms, error.kind()) {
            (Some(terms), ErrorKind::TimedOut) => {
                let missing = ranks((0..terms.size).filter(|rank| !self.known.contains_key(rank)));
                let silent = match self.unknown.count() {
                    0 => String::new(),
                    count => format!(" ({count} connected and said nothing)"),
                };
                let what = format!(
                    "{missing} did not come to {} within {} s{silent}",
                    self.at,
                    terms.limit.as_secs()
                );
                Error::boot(what, "start all ranks; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds")
            }
            _ => Error::boot(
                format!("{error} {}", self.call()),
                "raise `ulimit -n` where too many files are open",
            ),
        }
    }

    fn call(&self) -> String {
        format!("at {}", self.at)
    }
}

/// Files that the process has beside these, as far as anybody knows.
const OTHERS: u64 = 512;
