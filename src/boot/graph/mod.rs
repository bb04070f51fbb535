//! An allgather among neighbours on the circle, for jobs in which not everybody should ask for everybody.
//!
//! Rank r calls the ranks r + 2^k, whose doors the board has told it, and is called by r - 2^k: O(log p) connections a
//! rank. In round k it gives the cards of r, r + 1, ... that it has, 2^k at most, to rank r - 2^k, and gets as many
//! from r + 2^k: ⌈log₂ p⌉ rounds, and each rank takes in each card once (Bruck et al., doi:10.1109/71.642949).
//!
//! An error that one rank finds, it tells its neighbours, and they theirs, so that all name the one that is at
//! fault. Who does not know the words of a door is not let in. It never asks the board for anything itself.
#![forbid(unsafe_code)]

mod call;
mod gate;
mod greeting;
mod guests;

#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::time::Duration;

use super::CARD_BYTES;
use super::fault::{SEE_OTHERS, gone, nonsense, ranks};
use super::frame::{Kind, frame, join, split};
use super::link::{Link, pump, tell};
use super::socket::{Deadline, wait};
use crate::addresses::{self, Address, Listener, Scope};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
pub(super) use call::{Call, Failure};
use gate::Gate;
pub(super) use greeting::{MAGIC, NO_RANK, VERSION, Words, door_card, read_door_card};
pub(super) use guests::{Guest, Guests};

/// How much longer a rank waits in each later round. Who waits in the earliest waits for a rank that is itself at
/// fault, and so must be the first to say so.
const STEP: Duration = Duration::from_millis(250);

/// How long a rank that cannot reach another waits to be told why that one has left.
const RUMOUR: Duration = Duration::from_secs(1);

/// The ranks that a rank calls, in the order of the rounds. Their doors it must know.
pub(super) fn callees(place: Place) -> Vec<Rank> {
    distances(place.size).map(|distance| place.after(distance)).collect()
}

fn distances(size: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|k| 1 << k).take_while(move |&distance| distance < size)
}

/// A rank's door before anybody has come.
pub(super) struct Door {
    listener: Listener,
    words: Words,
}

impl Door {
    /// For ranks that are anywhere, or on this machine only.
    pub(super) fn open(scope: Scope) -> Result<Door> {
        let listener = match scope {
            Scope::Loopback => Listener::bind(scope)?,
            Scope::Network => Listener::anywhere()?,
        };
        Ok(Door { listener, words: Words::secret()? })
    }

    /// What its callers must know.
    pub(super) fn card(&self) -> Vec<u8> {
        door_card(self.words, &self.listener.card())
    }
}

/// A rank that is connected with its neighbours.
pub(super) struct Graph {
    place: Place,
    /// How the ranks found each other, for errors.
    at: String,
    limit: Duration,
    gathers: u32,
    /// To the ranks that it called, from which it gets: of round k at k.
    sources: Vec<Link>,
    /// To the ranks that called it, to which it gives: of round k at k.
    targets: Vec<Link>,
}

impl Graph {
    /// Connects with the [callees], whose doors' cards these are, and with the callers. All ranks call it.
    pub(super) fn connect(
        door: Door,
        place: Place,
        doors: &[Vec<u8>],
        at: String,
        limit: Duration,
    ) -> Result<Self> {
        let Door { listener: Listener { socket, addresses, .. }, words } = door;
        let callers = distances(place.size).map(|distance| place.before(distance));
        let gate = Gate::new(socket, words, place.rank, callers);
        let calls = calls(place, doors, &addresses, &at)?;
        let mut meeting = Meeting { place, at, gate, calls };
        if let Err(error) = meeting.all(limit) {
            tell(meeting.links(), &error);
            return Err(error);
        }
        Ok(meeting.into_graph(limit))
    }

    /// Every rank's card, in rank order.
    pub(super) fn gather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.gathers += 1;
        let gathered = self.rounds(card).inspect_err(|error| tell(self.links(), error));
        let mut cards = gathered?;
        cards.rotate_right(self.place.rank as usize);
        Ok(cards)
    }

    /// Every rank's card, from this rank's on around the circle.
    fn rounds(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut cards = vec![card.to_vec()];
        let mut limit = self.limit;
        for (k, distance) in distances(self.place.size).enumerate() {
            let count = distance.min(self.place.size - distance) as usize;
            self.targets[k].send(&frame(Kind::Cards, &join(&cards[..count])));
            cards.extend(self.receive(k, count, Deadline::after(limit))?);
            limit = limit.saturating_add(STEP);
        }
        self.send_all(Deadline::after(limit))?;
        Ok(cards)
    }

    /// The cards that come in round `k`.
    fn receive(&mut self, k: usize, count: usize, deadline: Deadline) -> Result<Vec<Vec<u8>>> {
        let source = callees(self.place)[k];
        loop {
            self.hear()?;
            match self.sources[k].take(count * (CARD_BYTES + 4)) {
                Ok(Some((Kind::Cards, payload))) => {
                    let cards = split(&payload).filter(|cards| cards.len() == count);
                    return cards.ok_or_else(|| nonsense(source, "another number of cards", &self.call()));
                }
                Ok(None) => {}
                Ok(Some((kind, _))) => return Err(nonsense(source, &format!("{kind:?}"), &self.call())),
                Err(what) => return Err(nonsense(source, &what, &self.call())),
            }
            if let Some(error) = self.sources[k].end() {
                return Err(gone(source, &error, &self.call()));
            }
            self.pump(deadline).map_err(|error| gone(source, &error, &self.call()))?;
        }
    }

    /// Errors that others tell.
    fn hear(&mut self) -> Result<()> {
        self.links().find_map(|link| link.bad_news()).map_or(Ok(()), Err)
    }

    fn send_all(&mut self, deadline: Deadline) -> Result<()> {
        while let Some(k) = self.targets.iter().position(|target| !target.has_sent_all()) {
            let target = self.place.before(1 << k);
            self.pump(deadline).map_err(|error| gone(target, &error, &self.call()))?;
        }
        Ok(())
    }

    fn pump(&mut self, deadline: Deadline) -> std::io::Result<()> {
        pump(&mut self.links().collect::<Vec<_>>(), deadline)
    }

    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.sources.iter_mut().chain(&mut self.targets)
    }

    /// The call in which something happens, for errors.
    fn call(&self) -> String {
        format!("in allgather #{} over {}", self.gathers, self.at)
    }
}

fn calls(place: Place, doors: &[Vec<u8>], ours: &[Address], at: &str) -> Result<Vec<Call>> {
    let call = |(to, door): (Rank, &Vec<u8>)| {
        let door = read_door_card(door);
        let (words, mut theirs) =
            door.ok_or_else(|| nonsense(to, "a card that is none", &format!("over {at}")))?;
        addresses::sort(&mut theirs, ours);
        Ok(Call::new(place.rank, to, words, theirs))
    };
    callees(place).into_iter().zip(doors).map(call).collect()
}

/// A rank while it is being connected with its neighbours.
struct Meeting {
    place: Place,
    at: String,
    gate: Gate,
    calls: Vec<Call>,
}

impl Meeting {
    fn all(&mut self, limit: Duration) -> Result<()> {
        let mut deadline = Deadline::after(limit);
        let mut unreached = None;
        loop {
            if let (None, Some(error)) = (&unreached, self.tend()?) {
                unreached = Some(error);
                deadline = deadline.or_after(RUMOUR);
            }
            if self.missing().is_empty() {
                return Ok(());
            }
            if let Err(error) = self.wait(deadline) {
                return Err(unreached.unwrap_or_else(|| self.unmet(&error, limit)));
            }
        }
    }

    /// Goes as far as can be gone without waiting. That a rank cannot be reached is told apart from what is known to
    /// be wrong: mostly it has left because of another.
    fn tend(&mut self) -> Result<Option<Error>> {
        let unreached = self.tend_calls()?;
        self.gate.tend()?;
        self.check_connected()?;
        Ok(unreached)
    }

    fn tend_calls(&mut self) -> Result<Option<Error>> {
        let mut unreached = None;
        for call in &mut self.calls {
            match call.tend() {
                Ok(()) => {}
                Err(Failure::Told(error)) => return Err(error),
                Err(Failure::Unreachable(why)) => {
                    let what = format!("rank {} cannot be reached over {} ({why})", call.to, self.at);
                    unreached = Some(Error::boot(what, SEE_OTHERS));
                }
            }
        }
        Ok(unreached)
    }

    fn check_connected(&mut self) -> Result<()> {
        let at = format!("over {}", self.at);
        for (rank, link) in self.connected() {
            link.tend();
            if let Some(error) = link.bad_news() {
                return Err(error);
            }
            if let Some(error) = link.end() {
                let said = link.take(usize::MAX);
                return Err(said.map_or_else(|what| nonsense(rank, &what, &at), |_| gone(rank, &error, &at)));
            }
        }
        Ok(())
    }

    /// Waits until something can be done, if only that the next address of a rank is to be tried.
    fn wait(&self, deadline: Deadline) -> std::io::Result<()> {
        let calls = self.calls.iter().flat_map(Call::links).filter_map(Link::poll);
        let mut polls: Vec<_> = self.gate.polls().chain(calls).collect();
        let pause = self.calls.iter().filter_map(Call::pause).min();
        match wait(&mut polls, pause.map_or(deadline, |pause| deadline.or_after(pause))) {
            Err(error) if error.kind() == ErrorKind::TimedOut && deadline.remaining().is_some() => Ok(()),
            waited => waited,
        }
    }

    fn missing(&self) -> Vec<Rank> {
        let uncalled = self.calls.iter().filter(|call| call.made.is_none()).map(|call| call.to);
        let mut missing: Vec<_> = self.gate.missing().chain(uncalled).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn unmet(&self, error: &std::io::Error, limit: Duration) -> Error {
        let what = match error.kind() {
            ErrorKind::TimedOut => {
                let missing = ranks(self.missing().into_iter());
                let (rank, seconds) = (self.place.rank, limit.as_secs());
                format!("{missing} did not connect with rank {rank} within {seconds} s over {}", self.at)
            }
            _ => format!("{error} over {}", self.at),
        };
        Error::boot(what, SEE_OTHERS)
    }

    fn connected(&mut self) -> impl Iterator<Item = (Rank, &mut Link)> {
        let inside = self.gate.inside.iter_mut().filter_map(|(&rank, link)| Some((rank, link.as_mut()?)));
        inside.chain(self.calls.iter_mut().filter_map(|call| Some((call.to, call.made.as_mut()?))))
    }

    /// To all who have come, also to those who still stand before the gate, and to all who were called, also to those
    /// who have not answered.
    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        let Meeting { gate, calls, .. } = self;
        gate.links().chain(calls.iter_mut().flat_map(Call::links_mut))
    }

    fn into_graph(self, limit: Duration) -> Graph {
        let Meeting { place, at, mut gate, calls } = self;
        let targets =
            distances(place.size).filter_map(|distance| gate.inside.remove(&place.before(distance))?);
        let targets = targets.collect();
        let sources = calls.into_iter().filter_map(|call| call.made).collect();
        Graph { place, at, limit, gathers: 0, sources, targets }
    }
}
