//! Another transport, made worse: it refuses, delays, reorders and loses, all by a seed.
//!
//! What it may do is what the contract allows (and, for `lose`, what broken hardware does), so the
//! layers above are tested against the worst network that they claim to work on.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::memory::Memory;
use super::{
    Caches, Event, Gait, Limits, Message, Posted, Put, Region, RemoteKey, RemoteKeys, Sight, Transport,
};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// How bad it is; each a chance in 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// A put is refused ([`Posted::Busy`]).
    pub refuse: u8,
    /// An event is held back at a poll, which also lets later ones pass it.
    pub delay: u8,
    /// A notice never comes.
    pub lose: u8,
}

/// A transport with faults.
pub struct Faulty<T> {
    inner: T,
    faults: Faults,
    chance: fastrand::Rng,
    held: Vec<Event>,
    open: bool,
    caches: Caches,
    max_put: usize,
    cut_off: Option<Rank>,
}

impl<T: Transport> Faulty<T> {
    /// Makes `inner` worse.
    pub fn new(inner: T, faults: Faults, seed: u64) -> Self {
        let (chance, caches, max_put) =
            (fastrand::Rng::with_seed(seed), inner.caches(), inner.limits().max_put);
        Faulty { inner, faults, chance, held: Vec::new(), open: true, caches, max_put, cut_off: None }
    }

    /// The same that has such caches.
    pub fn with_caches(self, caches: Caches) -> Self {
        Faulty { caches, ..self }
    }

    /// The same that takes puts of so many bytes at most.
    pub fn with_max_put(self, bytes: usize) -> Self {
        Faulty { max_put: bytes, ..self }
    }

    /// The same from which nothing reaches this peer.
    pub fn cut_off_from(self, peer: Rank) -> Self {
        Faulty { cut_off: Some(peer), ..self }
    }

    fn reaches(&self, peer: Rank) -> Result<()> {
        match self.cut_off {
            Some(rank) if rank == peer => Err(Error::Lost { rank, how: "no way leads there".to_owned() }),
            _ => Ok(()),
        }
    }

    /// After the shutdown nothing does: the errors of then are the contract's.
    fn happens(&mut self, chance: u8) -> bool {
        self.open && self.chance.u8(..) < chance
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn place(&self) -> Place {
        self.inner.place()
    }

    fn name(&self) -> String {
        format!("faulty {}", self.inner.name())
    }

    fn limits(&self) -> Limits {
        Limits { max_put: self.max_put, ..self.inner.limits() }
    }

    fn allocate(&mut self, len: usize) -> Result<Memory> {
        self.inner.allocate(len)
    }

    fn register(&mut self, memory: Memory) -> Result<Region> {
        self.inner.register(memory)
    }

    fn register_source(&mut self, memory: Memory) -> Result<Region> {
        self.inner.register_source(memory)
    }

    fn span(&self) -> usize {
        self.inner.span()
    }

    fn caches(&self) -> Caches {
        self.caches
    }

    fn key(&self, keys: RemoteKeys, peer: Rank) -> RemoteKey {
        self.inner.key(keys, peer)
    }

    fn shows(&self, region: &Region, peer: Rank) -> bool {
        self.inner.shows(region, peer)
    }

    fn is_worth_showing(&mut self, peer: Rank, put: usize, sight: Option<Sight<'_>>) -> bool {
        self.inner.is_worth_showing(peer, put, sight)
    }

    fn rests(&mut self, peer: Rank, sight: Sight<'_>) -> bool {
        self.inner.rests(peer, sight)
    }

    fn prepare_for_puts(&mut self, region: &Region) {
        self.inner.prepare_for_puts(region);
    }

    fn view(&mut self, peer: Rank, key: RemoteKey) -> Result<Memory> {
        self.inner.view(peer, key)
    }

    fn while_shown(&mut self, peer: Rank, act: &mut dyn FnMut()) -> Result<bool> {
        self.inner.while_shown(peer, act)
    }

    fn while_shown_to_copy(&mut self, peer: Rank, bytes: usize, act: &mut dyn FnMut(Gait)) -> Result<bool> {
        self.inner.while_shown_to_copy(peer, bytes, act)
    }

    fn inbox(&mut self, peer: Rank, key: RemoteKey) -> Result<Option<Memory>> {
        self.inner.inbox(peer, key)
    }

    fn anticipate(&mut self, peer: Rank, to: &Memory, to_offset: usize, len: usize) {
        self.inner.anticipate(peer, to, to_offset, len);
    }

    fn post(&mut self, message: &Message<'_>) -> Result<Posted> {
        self.reaches(message.peer)?;
        if self.happens(self.faults.refuse) { Ok(Posted::Busy) } else { self.inner.post(message) }
    }

    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        self.reaches(put.peer)?;
        let bytes: usize = put.segments.iter().map(|segment| segment.len).sum();
        if bytes > self.max_put {
            let what = format!("{bytes} bytes where {} is the most", self.max_put);
            return Err(Error::transport("put", what, "cut it"));
        }
        if self.happens(self.faults.refuse) { Ok(Posted::Busy) } else { self.inner.put(put) }
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.inner.poll(&mut self.held)?;
        for event in std::mem::take(&mut self.held) {
            if self.happens(self.faults.delay) {
                self.held.push(event);
            } else if !(matches!(event, Event::Notice(_)) && self.happens(self.faults.lose)) {
                events.push(event);
            }
        }
        self.chance.shuffle(events);
        Ok(())
    }

    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()> {
        if self.held.is_empty() { self.inner.sleep(wakes, timeout) } else { Ok(()) }
    }

    fn shut_down(&mut self) {
        self.open = false;
        self.inner.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::transport::conformance;
    use crate::transport::loopback::Loopback;

    #[test]
    fn the_contract_is_kept_where_puts_are_refused_and_events_come_late() {
        for (size, seed) in [(2, 1), (5, 2)] {
            let faults = Faults { refuse: 60, delay: 100, lose: 0 };
            let ends = Mutex::new(Loopback::world(size, seed).unwrap());
            conformance::on_threads(size, |place, _| {
                let mut ends = ends.lock().unwrap();
                let index = ends.iter().position(|end| end.place() == place).unwrap();
                Ok(Faulty::new(ends.swap_remove(index), faults, seed ^ u64::from(place.rank)))
            });
        }
    }
}
