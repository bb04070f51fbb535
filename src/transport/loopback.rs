//! Ranks as threads of one process: puts through shared queues, in seeded random order.
//!
//! For tests, for examples, and for a job of one process. Like the networks, it lets nothing land
//! until the target polls, so every byte of a rank's memory is written by that rank's thread alone, but for what a
//! peer folds there while it is left alone; and read by others only where it is shown to them.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::memory::Memory;
use super::{Event, Limits, Posted, Put, Region, RemoteKey, Report, Sight, Transport, wait};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

const LIMITS: Limits = Limits { inject: 64, max_put: usize::MAX, segments: 8, in_flight: 256 };

/// A mailbox that holds this many parcels takes no more.
const MAILBOX: usize = 4096;

/// One rank's end.
pub struct Loopback {
    place: Place,
    hub: Arc<Hub>,
    order: fastrand::Rng,
    sent: Vec<Event>,
    open: bool,
}

struct Hub {
    mailboxes: Vec<Mailbox>,
}

struct Mailbox {
    parcels: Mutex<Vec<Parcel>>,
    regions: Arc<Mutex<Regions>>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Regions {
    last: u64,
    memory: HashMap<u64, Memory>,
    /// The rank has shut down.
    closed: bool,
}

struct Parcel {
    to: RemoteKey,
    offset: u64,
    bytes: Vec<u8>,
    notice: u32,
}

impl Loopback {
    /// `p` connected ranks, whose deliveries are reordered by `seed`.
    pub fn world(p: u32, seed: u64) -> Result<Vec<Loopback>> {
        let mailboxes = (0..p).map(|_| Mailbox::new()).collect::<Result<_>>()?;
        let hub = Arc::new(Hub { mailboxes });
        let end = |rank: Rank| Loopback {
            place: Place { rank, size: p },
            hub: Arc::clone(&hub),
            order: fastrand::Rng::with_seed(seed.wrapping_add(u64::from(rank) << 32)),
            sent: Vec::new(),
            open: true,
        };
        Ok((0..p).map(end).collect())
    }

    fn mailbox(&self) -> &Mailbox {
        &self.hub.mailboxes[self.place.rank as usize]
    }

    fn check_open(&self) -> Result<()> {
        let closed = || Error::transport("loopback", "it was shut down", "make a new communicator");
        self.open.then_some(()).ok_or_else(closed)
    }
}

impl Mailbox {
    fn new() -> Result<Mailbox> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| Error::transport("eventfd", e.to_string(), "raise `ulimit -n`"))?;
        Ok(Mailbox { parcels: Mutex::default(), regions: Arc::default(), bell })
    }

    /// A parcel's bytes are stored; false where its region is not (or no more) there.
    fn deliver(&self, parcel: &Parcel) -> bool {
        let Some(memory) = lock(&self.regions).memory.get(&parcel.to.key).cloned() else { return false };
        let start = parcel.to.base.wrapping_add(parcel.offset);
        let end = start.checked_add(parcel.bytes.len() as u64);
        let fits = end.is_some_and(|end| end <= memory.len() as u64);
        if fits {
            memory.write(start as usize, &parcel.bytes);
        }
        fits
    }
}

/// A peer's panic leaves these tables whole: every change to them is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a region out of its rank's table when its last clone is dropped.
struct Registration {
    regions: Arc<Mutex<Regions>>,
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.regions).memory.remove(&self.key);
    }
}

impl Transport for Loopback {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        "loopback".to_owned()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn register(&mut self, memory: Memory) -> Result<Region> {
        self.check_open()?;
        let regions = Arc::clone(&self.mailbox().regions);
        let mut table = lock(&regions);
        table.last += 1;
        let key = table.last;
        table.memory.insert(key, memory.clone());
        drop(table);
        let registration = Arc::new(Registration { regions, key });
        let remote = RemoteKey { base: 0, key }.into();
        Ok(Region { memory, remote, is_rewritten: false, descriptor: 0, registration })
    }

    /// Of every other region: so both ways are gone.
    fn shows(&self, region: &Region, _: Rank) -> bool {
        region.remote.near.key % 2 == 1
    }

    /// As it happens: so both ways are gone.
    fn rests(&mut self, _: Rank, _: Sight<'_>) -> bool {
        self.order.bool()
    }

    fn view(&mut self, peer: Rank, key: RemoteKey) -> Result<Memory> {
        self.check_open()?;
        let regions = self.hub.mailboxes.get(peer as usize).map(|mailbox| lock(&mailbox.regions));
        let memory = regions.and_then(|regions| regions.memory.get(&key.key).cloned());
        let gone =
            || Error::transport("view", format!("memory of rank {peer} that is not there"), "report this");
        memory.ok_or_else(gone)
    }

    /// Under the lock that the peer takes to shut down.
    fn while_shown(&mut self, peer: Rank, act: &mut dyn FnMut()) -> Result<bool> {
        self.check_open()?;
        let regions = self.hub.mailboxes.get(peer as usize).map(|mailbox| lock(&mailbox.regions));
        let shown = regions.as_ref().is_some_and(|regions| !regions.closed);
        if shown {
            act();
        }
        Ok(shown)
    }

    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        self.check_open()?;
        let Some(target) = self.hub.mailboxes.get(put.peer as usize) else {
            let what = format!("rank {} of {}", put.peer, self.place.size);
            return Err(Error::argument("put", what, "name a rank that there is"));
        };
        if put.segments.len() > LIMITS.segments {
            let what = format!("{} segments", put.segments.len());
            return Err(Error::argument("put", what, format!("put at most {} at once", LIMITS.segments)));
        }
        let mut parcels = lock(&target.parcels);
        if parcels.len() >= MAILBOX {
            return Ok(Posted::Busy);
        }
        let bytes = gathered(put);
        let len = bytes.len();
        parcels.push(Parcel { to: put.to, offset: put.to_offset, bytes, notice: put.notice });
        drop(parcels);
        ring(target.bell.as_fd());
        if len <= LIMITS.inject || put.report == Report::Never {
            return Ok(Posted::Done);
        }
        self.sent.push(Event::Sent(put.token));
        Ok(Posted::Pending)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.check_open()?;
        self.order.shuffle(&mut self.sent);
        let keep = self.order.usize(0..=self.sent.len() / 2);
        events.extend(self.sent.drain(keep..));

        let mut parcels = std::mem::take(&mut *lock(&self.mailbox().parcels));
        self.order.shuffle(&mut parcels);
        let late = parcels.split_off(parcels.len() - self.order.usize(0..=parcels.len() / 2));
        for parcel in &parcels {
            if self.mailbox().deliver(parcel) {
                events.push(Event::Notice(parcel.notice));
            }
        }
        lock(&self.mailbox().parcels).extend(late);
        Ok(())
    }

    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()> {
        self.check_open()?;
        if !self.sent.is_empty() || !lock(&self.mailbox().parcels).is_empty() {
            return Ok(());
        }
        let descriptors = std::iter::once(self.mailbox().bell.as_fd()).chain(wakes.iter().copied());
        wait::doze(&mut descriptors.map(wait::readable).collect::<Vec<_>>(), timeout)?;
        // Whatever rang is seen by the next poll; an unread bell would end the next sleep at once.
        let _ = rustix::io::read(&self.mailbox().bell, &mut [0u8; 8]);
        Ok(())
    }

    fn shut_down(&mut self) {
        self.open = false;
        let mut regions = lock(&self.mailbox().regions);
        regions.closed = true;
        regions.memory.clear();
    }
}

fn gathered(put: &Put<'_>) -> Vec<u8> {
    let mut bytes = vec![0; put.len()];
    let mut rest = bytes.as_mut_slice();
    for segment in put.segments {
        let (part, behind) = rest.split_at_mut(segment.len);
        put.from.memory.read(segment.offset, part);
        rest = behind;
    }
    bytes
}

fn ring(bell: BorrowedFd<'_>) {
    // Fails only where the counter is full, and then the bell rings already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::conformance;

    #[test]
    fn nothing_is_read_of_what_a_rank_has_shown_that_has_shut_down() {
        let mut ends = Loopback::world(2, 1).unwrap();
        let mut read = 0;
        assert!(ends[1].while_shown(0, &mut || read += 1).unwrap());
        ends[0].shut_down();
        assert!(!ends[1].while_shown(0, &mut || read += 1).unwrap());
        assert_eq!(read, 1);
    }

    #[test]
    fn the_contract_is_kept_in_any_order_of_arrival() {
        for (size, seed) in [(1, 1), (2, 2), (3, 3), (8, 4)] {
            let ends = Mutex::new(Loopback::world(size, seed).unwrap());
            conformance::on_threads(size, |place, _| {
                let mut ends = lock(&ends);
                let index = ends.iter().position(|end| end.place == place).unwrap();
                Ok(ends.swap_remove(index))
            });
        }
    }
}
