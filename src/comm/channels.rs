//! Which ranks of the world have channels to one another, and how these are connected.
#![forbid(unsafe_code)]

use crate::engine::slots::{Card, NARROW, SLOTS, Slots, WIDE};
use crate::error::Result;
use crate::rank::{Place, Rank};
use crate::schedule::Skips;
use crate::transport::{RemoteKey, Transport};

/// Up to so many ranks all have wide channels to all: small messages then need no handshake in any
/// algorithm, at 132 KiB for each other rank.
const FULL: u32 = 48;

/// The ranks that a rank has wide channels to, sorted: all others where there are few, else its at most
/// 2 ⌈log₂ p⌉ neighbours on the circulant graph.
pub fn wide(place: Place) -> Vec<Rank> {
    if place.size <= FULL {
        (0..place.size).filter(|&rank| rank != place.rank).collect()
    } else {
        neighbours(place)
    }
}

/// The ranks that a rank has to do with on the circulant graph, sorted.
pub fn neighbours(place: Place) -> Vec<Rank> {
    let skips = Skips::new(place.size);
    let both = |k| [place.after(skips.skip(k)), place.before(skips.skip(k))];
    let mut ranks: Vec<Rank> = (0..skips.rounds()).flat_map(both).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The ranks that are reached by words about memory only: all that have no wide channel.
fn narrow(place: Place) -> Vec<Rank> {
    let wide = wide(place);
    let others = (0..place.size).filter(|&rank| rank != place.rank);
    others.filter(|rank| wide.binary_search(rank).is_err()).collect()
}

/// Bytes of registered memory that rank 0 of `p` holds for messages, whatever is sent; the others hold
/// about as much.
pub fn slot_bytes(p: u32) -> usize {
    let place = Place { rank: 0, size: p };
    2 * SLOTS * (wide(place).len() * WIDE + narrow(place).len() * NARROW)
}

/// A rank's slots, not yet connected.
pub struct Banks {
    slots: Slots,
    wide: Card,
    narrow: Card,
}

impl Banks {
    /// Registers the slots of `place.rank`.
    pub fn new(transport: &mut dyn Transport, place: Place) -> Result<Banks> {
        let mut slots = Slots::default();
        let wide = slots.add(transport, &wide(place), WIDE)?;
        let narrow = slots.add(transport, &narrow(place), NARROW)?;
        Ok(Banks { slots, wide, narrow })
    }

    /// What the others must know: where its inboxes are.
    pub fn inboxes(&self) -> [RemoteKey; 2] {
        [self.wide.inbox, self.narrow.inbox]
    }

    /// Connects them, given all ranks' inboxes.
    pub fn connect(mut self, place: Place, inboxes: &[[RemoteKey; 2]]) -> Result<Slots> {
        let of = |rank| Place { rank, ..place };
        let theirs = |rank: Rank| inboxes[rank as usize];
        self.slots.connect(place.rank, &self.wide, |rank| {
            Some(Card { inbox: theirs(rank)[0], first: 0, peers: wide(of(rank)) })
        })?;
        self.slots.connect(place.rank, &self.narrow, |rank| {
            Some(Card { inbox: theirs(rank)[1], first: wide(of(rank)).len() as u32, peers: narrow(of(rank)) })
        })?;
        Ok(self.slots)
    }
}
