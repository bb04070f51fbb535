//! Two transports as one: shared memory to the ranks of the own node, libfabric to all others.
//!
//! Whoever is of this node is put to through [`Shm`], which numbers the node's ranks anew; everybody else through
//! [`Fabric`]. A region is registered with both, so each peer is told the key of the way between the two
//! ([`Transport::key`]). It never moves a byte itself, and promises no more than the two do: what comes by
//! one and what comes by the other comes in any order. A sleep is on both at once.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::fabric::Fabric;
use super::memory::Memory;
use super::shm::Shm;
use super::wait;
use super::{
    Caches, Event, Gait, Limits, Message, Notice, Posted, Put, Region, RemoteKey, RemoteKeys, Sight,
    Transport,
};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// One rank's end.
pub struct Mixed {
    /// Spans the ranks of this node.
    near: Shm,
    /// Spans all ranks.
    far: Fabric,
    /// Of each rank of this node, its number there.
    numbers: Box<[Option<Rank>]>,
    limits: Limits,
}

impl Mixed {
    /// Of shared memory among a node's ranks, whose names in the world are `node`, in their order there, and which
    /// have [agreed](Shm::agree) with all others; and of a fabric among all.
    /// Others cannot be reached before [`connect`](Mixed::connect).
    pub fn new(near: Shm, far: Fabric, node: &[Rank]) -> Mixed {
        let mut numbers = vec![None; far.place().size as usize];
        for (number, &rank) in (0..).zip(node) {
            numbers[rank as usize] = Some(number);
        }
        let limits = tighter(near.limits(), far.limits());
        Mixed { near, far, numbers: numbers.into(), limits }
    }

    /// What ranks of other nodes must be given to reach this one.
    pub fn address(&self) -> Result<Vec<u8>> {
        self.far.address()
    }

    /// Makes all ranks known by their addresses, in rank order. No more than `far` of them are on other nodes than a rank's own.
    pub fn connect(&mut self, addresses: &[Vec<u8>], far: u32) -> Result<()> {
        self.far.connect_to_some(addresses, far)
    }

    /// A rank's number in this node, if it is of it.
    fn number(&self, rank: Rank) -> Option<Rank> {
        self.numbers.get(rank as usize).copied().flatten()
    }

    /// What one of the two would take, and the other would not.
    fn check(&self, put: &Put<'_>) -> Result<()> {
        let Limits { segments, .. } = self.limits;
        if put.segments.len() <= segments {
            return Ok(());
        }
        let what = format!("{} segments to rank {}", put.segments.len(), put.peer);
        Err(Error::argument("put", what, format!("put at most {segments} at once")))
    }
}

/// Memory that is registered with both. Shared memory has no descriptor, and itself keeps what it has not put yet.
fn both(far: Region, near: Region) -> Region {
    let remote = RemoteKeys { far: far.remote.far, near: near.remote.near };
    Region { remote, registration: Arc::new((far.registration.clone(), near.registration)), ..far }
}

/// What both can take.
fn tighter(one: Limits, other: Limits) -> Limits {
    Limits {
        inject: one.inject.min(other.inject),
        max_put: one.max_put.min(other.max_put),
        segments: one.segments.min(other.segments),
        in_flight: one.in_flight.min(other.in_flight),
    }
}

impl Transport for Mixed {
    fn place(&self) -> Place {
        self.far.place()
    }

    fn name(&self) -> String {
        format!("{} + {}", self.near.name(), self.far.name())
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    /// Of the kind that ranks of this node map; the fabric takes any.
    fn allocate(&mut self, len: usize) -> Result<Memory> {
        self.near.allocate(len)
    }

    fn register(&mut self, memory: Memory) -> Result<Region> {
        let far = self.far.register(memory.clone())?;
        Ok(both(far, self.near.register(memory)?))
    }

    fn register_source(&mut self, memory: Memory) -> Result<Region> {
        let far = self.far.register_source(memory.clone())?;
        Ok(both(far, self.near.register_source(memory)?))
    }

    fn span(&self) -> usize {
        self.near.span()
    }

    fn caches(&self) -> Caches {
        self.near.caches()
    }

    fn key(&self, keys: RemoteKeys, peer: Rank) -> RemoteKey {
        if self.number(peer).is_some() { keys.near } else { keys.far }
    }

    fn shows(&self, region: &Region, peer: Rank) -> bool {
        self.number(peer).is_some_and(|peer| self.near.shows(region, peer))
    }

    fn is_worth_showing(&mut self, peer: Rank, put: usize, sight: Option<Sight<'_>>) -> bool {
        self.number(peer).is_none_or(|peer| self.near.is_worth_showing(peer, put, sight))
    }

    fn rests(&mut self, peer: Rank, sight: Sight<'_>) -> bool {
        self.number(peer).is_some_and(|peer| self.near.rests(peer, sight))
    }

    fn prepare_for_puts(&mut self, region: &Region) {
        self.near.prepare_for_puts(region);
    }

    fn view(&mut self, peer: Rank, key: RemoteKey) -> Result<Memory> {
        match self.number(peer) {
            Some(number) => self.near.view(number, key),
            None => self.far.view(peer, key),
        }
    }

    fn inbox(&mut self, peer: Rank, key: RemoteKey) -> Result<Option<Memory>> {
        match self.number(peer) {
            Some(number) => self.near.inbox(number, key),
            None => self.far.inbox(peer, key),
        }
    }

    fn while_shown(&mut self, peer: Rank, act: &mut dyn FnMut()) -> Result<bool> {
        match self.number(peer) {
            Some(number) => self.near.while_shown(number, act),
            None => self.far.while_shown(peer, act),
        }
    }

    fn while_shown_to_copy(&mut self, peer: Rank, bytes: usize, act: &mut dyn FnMut(Gait)) -> Result<bool> {
        match self.number(peer) {
            Some(number) => self.near.while_shown_to_copy(number, bytes, act),
            None => self.far.while_shown_to_copy(peer, bytes, act),
        }
    }

    #[inline]
    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        self.check(put)?;
        match self.number(put.peer) {
            Some(peer) => self.near.put(&Put { peer, ..*put }),
            None => self.far.put(put),
        }
    }

    #[inline]
    fn post(&mut self, message: &Message<'_>) -> Result<Posted> {
        match self.number(message.peer) {
            Some(peer) => self.near.post(&Message { peer, ..*message }),
            None => self.far.post(message),
        }
    }

    #[inline]
    fn anticipate(&mut self, peer: Rank, to: &Memory, to_offset: usize, len: usize) {
        match self.number(peer) {
            Some(number) => self.near.anticipate(number, to, to_offset, len),
            None => self.far.anticipate(peer, to, to_offset, len),
        }
    }

    #[inline]
    fn next_notice(&mut self) -> Option<Notice> {
        self.near.next_notice()
    }

    #[inline]
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.near.poll(events)?;
        self.far.poll(events)
    }

    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()> {
        wait::sleep([&mut self.far, &mut self.near], wakes, timeout)
    }

    fn shut_down(&mut self) {
        self.far.shut_down();
        self.near.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Exchange;
    use crate::transport::conformance;
    use crate::transport::fabric::{Request, choose};
    use crate::transport::shm::{Vicinity, Way};

    /// A rank's end, in a world of which each rank's node is told.
    fn open(nodes: &[u32], way: Way, place: Place, exchange: &mut dyn Exchange) -> Result<Mixed> {
        let of_mine = |&rank: &Rank| nodes[rank as usize] == nodes[place.rank as usize];
        let node: Box<[Rank]> = (0..place.size).filter(of_mine).collect();
        let number = node.iter().position(|&rank| rank == place.rank).unwrap();
        let mut near = Shm::among(number as Rank, node.clone(), true)?;
        let cards = exchange.allgather(&near.card()?)?;
        let cards: Vec<_> = node.iter().map(|&rank| cards[rank as usize].clone()).collect();
        near.connect(&cards)?;
        let found = exchange.allgather(&serde_json::to_vec(&near.probe(Some(way))).unwrap())?;
        let found: Vec<_> = found.iter().map(|found| serde_json::from_slice(found).unwrap()).collect();
        near.agree(&found, Some(way), Vicinity::default())?;
        let tcp = Some("tcp".to_owned());
        let choice = choose(&Request { provider: tcp, one_machine: true, ..Request::default() })?;
        let mut mixed = Mixed::new(near, Fabric::open(&choice, place)?, &node);
        mixed.connect(&exchange.allgather(&mixed.address()?)?, place.size - 1)?;
        Ok(mixed)
    }

    fn keeps(nodes: &[u32], way: Way) {
        conformance::on_threads(nodes.len() as u32, |place, exchange| open(nodes, way, place, exchange));
    }

    #[test]
    fn the_contract_is_kept_where_some_neighbours_are_near_and_some_far() {
        keeps(&[0, 0, 1], Way::Writev);
        keeps(&[0, 0, 1, 1, 1], Way::Ring);
    }

    #[test]
    fn the_contract_is_kept_where_all_neighbours_are_far_and_others_near() {
        keeps(&[0, 1, 0, 1], Way::Writev);
    }

    #[test]
    fn the_contract_is_kept_where_all_are_near_and_where_all_are_far() {
        keeps(&[0, 0, 0], Way::Ring);
        keeps(&[0, 1], Way::Writev);
    }
}
