//! A rank's listening socket until all expected callers have come in.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::TcpListener;

use rustix::event::PollFd;

use super::greeting::{VERSION, Words};
use super::guests::{Guest, Guests};
use crate::boot::fault::other_version;
use crate::boot::frame::Kind;
use crate::boot::link::Link;
use crate::error::{Error, Result};
use crate::rank::Rank;

/// How many may stand at the gate without having been let in.
const MOST: usize = 128;

pub(super) struct Gate {
    me: Rank,
    words: Words,
    guests: Guests,
    /// Those who are expected, with their connections once they are in.
    pub(super) inside: BTreeMap<Rank, Option<Link>>,
}

/// What a guest is, as far as it has spoken.
enum Verdict {
    Undecided,
    Stranger,
    Enters(Rank),
}

impl Gate {
    pub(super) fn new(
        listener: TcpListener,
        words: Words,
        me: Rank,
        expected: impl Iterator<Item = Rank>,
    ) -> Self {
        let inside = expected.map(|rank| (rank, None)).collect();
        Gate { me, words, guests: Guests::at(listener), inside }
    }

    /// Who has not come yet.
    pub(super) fn missing(&self) -> impl Iterator<Item = Rank> {
        self.inside.iter().filter(|(_, link)| link.is_none()).map(|(&rank, _)| rank)
    }

    /// Lets in whoever has come and said the right words.
    pub(super) fn tend(&mut self) -> Result<()> {
        self.inside.values_mut().flatten().for_each(Link::tend);
        self.guests.accept(MOST).map_err(|error| {
            Error::boot(format!("rank {}: accept: {error}", self.me), "raise `ulimit -n`")
        })?;
        let mut judged = Ok(());
        for mut guest in self.guests.take() {
            match self.judge(&mut guest) {
                Ok(Verdict::Stranger) => {}
                Ok(Verdict::Enters(rank)) => drop(self.inside.insert(rank, Some(guest.link))),
                Ok(Verdict::Undecided) if guest.link.end().is_some() => {}
                Ok(Verdict::Undecided) => self.guests.keep(guest),
                Err(error) => {
                    // To be told as all others are.
                    self.guests.keep(guest);
                    judged = judged.and(Err(error));
                }
            }
        }
        judged
    }

    /// What to wait for.
    pub(super) fn polls(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.inside.values().flatten().filter_map(Link::poll).chain(self.guests.polls())
    }

    /// To all who have come, let in or not.
    pub(super) fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        // Whoever does not get in now finds the gate gone.
        let _ = self.guests.accept(MOST);
        self.inside.values_mut().flatten().chain(self.guests.links())
    }

    fn judge(&self, guest: &mut Guest) -> Result<Verdict> {
        if guest.known.is_none() && !self.hear_greeting(guest)? {
            return Ok(Verdict::Stranger);
        }
        let Some(rank) = guest.known else { return Ok(Verdict::Undecided) };
        if let Some(error) = guest.link.bad_news() {
            return Err(error);
        }
        // Of two connections of a rank it confirms the one that counts.
        Ok(match guest.link.take(0) {
            Ok(Some((Kind::Welcome, _))) if self.awaits(rank) => Verdict::Enters(rank),
            Ok(None) => Verdict::Undecided,
            _ => Verdict::Stranger,
        })
    }

    /// Answers a greeting that is whole and right; false for a stranger's.
    fn hear_greeting(&self, guest: &mut Guest) -> Result<bool> {
        let Some(greeting) = guest.greeting() else { return Ok(true) };
        let Some(greeting) = greeting.filter(|greeting| greeting.knows(self.words)) else { return Ok(false) };
        if greeting.version != VERSION {
            return Err(other_version(greeting.version));
        }
        let expected = greeting.to == self.me && self.awaits(greeting.from);
        if expected {
            guest.welcome(greeting.from, self.words);
        }
        Ok(expected)
    }

    fn awaits(&self, rank: Rank) -> bool {
        self.inside.get(&rank).is_some_and(Option::is_none)
    }
}
