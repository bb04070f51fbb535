//! Connecting to one rank: its addresses one after the other, until one answers as that rank.
//!
//! An address that is slow is not given up when the next is tried: the rank may be there and busy. Which of several hosts
//! with the same address has answered, its words tell.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::greeting::Words;
use crate::boot::frame::{Kind, frame};
use crate::boot::link::Link;
use crate::boot::socket::Socket;
use crate::error::Error;
use crate::rank::Rank;

/// How long an address has before the next is tried beside it.
const HEAD_START: Duration = Duration::from_millis(300);

pub(in crate::boot) struct Call {
    pub(super) to: Rank,
    words: Words,
    greeting: Vec<u8>,
    untried: VecDeque<SocketAddr>,
    attempts: Vec<(SocketAddr, Link)>,
    next: Instant,
    failures: Vec<String>,
    /// The connection that stands.
    pub(in crate::boot) made: Option<Link>,
}

/// Why a call leads nowhere.
pub(in crate::boot) enum Failure {
    /// The peer has said so.
    Told(Error),
    /// No address leads there; a phrase on each.
    Unreachable(String),
}

impl Call {
    /// From rank `from` to rank `to`, which listens at these addresses and knows these words.
    pub(in crate::boot) fn new(from: Rank, to: Rank, words: Words, addresses: Vec<SocketAddr>) -> Self {
        Call {
            to,
            words,
            greeting: words.greeting(from, to),
            untried: addresses.into(),
            attempts: Vec::new(),
            next: Instant::now(),
            failures: Vec::new(),
            made: None,
        }
    }

    /// Goes as far as can be gone without waiting.
    pub(in crate::boot) fn tend(&mut self) -> Result<(), Failure> {
        if let Some(made) = &mut self.made {
            made.tend();
            return Ok(());
        }
        self.hear().map_err(Failure::Told)?;
        while self.made.is_none() && (self.attempts.is_empty() || self.next <= Instant::now()) {
            let Some(address) = self.untried.pop_front() else { break };
            self.attempt(address);
            self.hear().map_err(Failure::Told)?;
        }
        match self.made.is_none() && self.attempts.is_empty() {
            true => Err(Failure::Unreachable(self.failures.join("; "))),
            false => Ok(()),
        }
    }

    /// How long until another address is to be tried, if there is one.
    pub(in crate::boot) fn pause(&self) -> Option<Duration> {
        let more = self.made.is_none() && !self.untried.is_empty();
        more.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// The connections on which something may come.
    pub(in crate::boot) fn links(&self) -> impl Iterator<Item = &Link> {
        self.attempts.iter().map(|(_, link)| link).chain(&self.made)
    }

    /// The connections that stand, answered or not.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        let attempts = self.attempts.iter_mut().map(|(_, link)| link);
        attempts.filter(|link| link.has_sent_all()).chain(&mut self.made)
    }

    fn attempt(&mut self, address: SocketAddr) {
        self.next = Instant::now() + HEAD_START;
        match Socket::begin(address) {
            Ok(socket) => {
                let mut link = Link::new(socket);
                link.send(&self.greeting);
                self.attempts.push((address, link));
            }
            Err(error) => self.failures.push(format!("{address}: {error}")),
        }
    }

    /// Takes the first attempt that is answered in the right words, and drops those that fail.
    fn hear(&mut self) -> Result<(), Error> {
        self.attempts.iter_mut().for_each(|(_, link)| link.tend());
        if let Some(error) = self.attempts.iter().find_map(|(_, link)| link.bad_news()) {
            return Err(error);
        }
        for (address, mut link) in std::mem::take(&mut self.attempts) {
            match (link.take(Words::BYTES), link.end()) {
                (Ok(Some((Kind::Welcome, word))), _) if word == self.words.answer => {
                    // Of two attempts that got through, the rank learns which one counts.
                    link.send(&frame(Kind::Welcome, &[]));
                    self.made = Some(link);
                    self.attempts.clear();
                    return Ok(());
                }
                (Ok(None), None) => self.attempts.push((address, link)),
                (Ok(None), Some(error)) => self.failures.push(format!("{address}: {error}")),
                _ => self.failures.push(format!("{address}: it is somebody else")),
            }
        }
        Ok(())
    }
}
