//! A lifeline before it stands: bind, exchange cards, connect.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Lifeline;
use super::dial::Dialer;
use super::gate::Gate;
use super::hub::FAREWELL;
use super::news::News;
use super::status::Status;
use crate::addresses::{Listener, Scope};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// How long all connections of a rank may take. Ranks come here from the same allgather, so only a
/// badly overloaded machine needs more than a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket that neighbours can connect to.
pub struct Listening(Listener);

impl Listening {
    /// Listens at a port that the system chooses. Fails where no interface is up.
    pub fn bind(scope: Scope) -> Result<Listening> {
        Listener::bind(scope).map(Listening)
    }

    /// What every other rank must get, in at most 512 bytes.
    pub fn card(&self) -> Vec<u8> {
        self.0.card()
    }

    /// Connects to `neighbours` and lets their mirror images on the circle connect to this rank.
    ///
    /// `neighbours` are the distinct ranks `(rank + skip) mod p`, none of them this rank; all ranks use
    /// the same skips. `cards` are those of all ranks, in rank order; `job` is a number that all ranks
    /// know and strangers do not. Fails with [`Error::Lost`] naming a rank that died before it connected;
    /// a rank that is no neighbour of the dead may return well and hear the news then. Gives up after a minute.
    pub fn connect(
        self,
        place: Place,
        neighbours: &[Rank],
        cards: &[Vec<u8>],
        job: u64,
        status: Arc<Status>,
    ) -> Result<Lifeline> {
        let Listener { socket, addresses, .. } = self.0;
        let expected = neighbours.iter().map(|to| mirror(place, *to)).collect();
        let gate = Gate::new(socket, place.rank, job, expected);
        let lifeline = Lifeline::start(place, status, gate)?;
        let deadline = Instant::now() + PATIENCE;
        let dialer = Dialer { me: place.rank, job, ours: &addresses, board: &lifeline.board, deadline };
        dial_all(&lifeline, &dialer, neighbours, cards);
        await_guests(&lifeline, deadline).map_err(|news| give_up(&lifeline, news))?;
        Ok(lifeline)
    }
}

/// The rank that stands as far before this one as `to` stands after it.
fn mirror(place: Place, to: Rank) -> Rank {
    let distance = Place { rank: to, ..place }.before(place.rank);
    place.before(distance)
}

/// Calls every neighbour, also after a failure: those that follow must hear of it.
fn dial_all(lifeline: &Lifeline, dialer: &Dialer, neighbours: &[Rank], cards: &[Vec<u8>]) {
    for &peer in neighbours {
        let card = cards.get(peer as usize).map_or(&[][..], Vec::as_slice);
        match dialer.dial(peer, card) {
            Ok(stream) => lifeline.shared.act(|hub| hub.join(peer, stream)),
            Err(news) => lifeline.shared.act(|hub| hub.settle(news, false)),
        }
    }
}

fn await_guests(lifeline: &Lifeline, deadline: Instant) -> std::result::Result<(), News> {
    let board = &lifeline.board;
    lifeline.shared.wait_until(deadline, |hub| board.fatal().is_some() || hub.missing().next().is_none());
    if let Some(news) = board.fatal() {
        return Err(news);
    }
    match lifeline.shared.lock().missing().next() {
        None => Ok(()),
        Some(rank) => {
            let how = format!("it did not connect to rank {} within {} s", lifeline.me, PATIENCE.as_secs());
            Err(News::Lost { rank, how })
        }
    }
}

/// Tells all who can be told, also those who are still on their way here: they would otherwise take
/// this rank for the lost one.
fn give_up(lifeline: &Lifeline, news: News) -> Error {
    lifeline.shared.act(|hub| hub.settle(news.clone(), false));
    let first = lifeline.board.news().unwrap_or(news);
    let lost = match &first {
        News::Lost { rank, .. } => Some(*rank),
        News::Aborted { .. } => None,
    };
    lifeline.shared.wait_until(Instant::now() + FAREWELL, |hub| hub.missing().all(|rank| Some(rank) == lost));
    first.into()
}
