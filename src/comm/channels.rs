//! Which ranks of the world have channels to one another, and how these are connected.
#![forbid(unsafe_code)]

use crate::engine::slots::{Card, NARROW, SLOTS, Slots, There, WIDE};
use crate::error::Result;
use crate::rank::{Place, Rank};
use crate::schedule::Skips;
use crate::transport::{RemoteKeys, Transport};

/// Up to so many ranks all have wide channels to all: small messages then need no handshake in any
/// algorithm, at 260 KiB for each other rank.
const FULL: u32 = 48;

/// Whether all pairs of so many ranks have wide channels.
pub fn all_wide(p: u32) -> bool {
    p <= FULL
}

/// The ranks that a rank has wide channels to, sorted: all others where there are few, else its at most
/// 2 ⌈log₂ p⌉ neighbours on the circulant graph.
pub fn wide(place: Place) -> Vec<Rank> {
    if all_wide(place.size) {
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

/// Which of a peer's narrow channels is the one to `me`: as many come before as there are lower ranks, but for
/// the peer itself and those that it has wide ones to.
fn place_among_narrow(me: Rank, peer: Rank, wide_of_peer: &[Rank]) -> usize {
    me as usize - wide_of_peer.partition_point(|&other| other < me) - usize::from(peer < me)
}

/// Bytes of registered memory that rank 0 of `p` holds at most for messages, whatever is sent; the others hold
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
    /// Registers the slots of the transport's rank.
    pub fn new(transport: &mut dyn Transport) -> Result<Banks> {
        let place = transport.place();
        let mut slots = Slots::default();
        let span = transport.span();
        let wide = slots.add(transport, &wide(place), WIDE, span)?;
        let narrow = slots.add(transport, &narrow(place), NARROW, 0)?;
        Ok(Banks { slots, wide, narrow })
    }

    /// What the others must know: where its inboxes are, and the area of a slot in each.
    pub fn inboxes(&self) -> [(RemoteKeys, u32); 2] {
        [&self.wide, &self.narrow].map(|card| (card.inbox, card.area))
    }

    /// Connects them, given all ranks' inboxes.
    pub fn connect(mut self, transport: &dyn Transport, inboxes: &[[(RemoteKeys, u32); 2]]) -> Result<Slots> {
        let place = transport.place();
        let me = place.rank;
        let inbox = |rank: Rank, bank: usize| inboxes[rank as usize][bank];
        let peers = |rank| wide(Place { rank, ..place });
        self.slots.connect(transport, &self.wide, |rank| {
            let place = peers(rank).binary_search(&me).ok()?;
            let (inbox, area) = inbox(rank, 0);
            Some(There { inbox, area, first: 0, place })
        })?;
        self.slots.connect(transport, &self.narrow, |rank| {
            let wide = peers(rank);
            let (inbox, area) = inbox(rank, 1);
            Some(There { inbox, area, first: wide.len() as u32, place: place_among_narrow(me, rank, &wide) })
        })?;
        Ok(self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_channel_is_found_by_arithmetic_where_its_peer_has_it() {
        for p in [49, 64, 100] {
            for (me, peer) in (0..p).flat_map(|me| (0..p).map(move |peer| (me, peer))) {
                let of = |rank| Place { rank, size: p };
                if let Ok(place) = narrow(of(peer)).binary_search(&me) {
                    let found = place_among_narrow(me, peer, &wide(of(peer)));
                    assert_eq!(found, place, "p = {p}, {me} at {peer}");
                }
            }
        }
    }
}
