//! libfabric as a transport: one domain, one endpoint, one completion queue for it, one thread at a time.
//!
//! It relies on nothing that any provider is known to lack: no order between puts, no progress by itself,
//! no completion at the target, 32 bits of notice. It never retries and never judges whether a peer is
//! alive. Lean by design: a put or a poll allocates nothing and makes one call into libfabric.

mod domain;
mod doormat;
mod endpoint;
mod flight;
mod info;
mod names;
mod provider;
mod quirks;
mod wait;

pub use provider::{Choice, Considered, Request, choose, considered, lacking, version};
pub use quirks::{ROOM, room_for};

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use circulant_libfabric_sys as sys;

use crate::error::{Error, Result, tell};
use crate::rank::{Place, Rank};
use crate::threads;
use crate::transport::memory::Memory;
use crate::transport::wait::{Bed, Sleeper, sleep};
use crate::transport::{Event, Limits, Posted, Put, Region, Report, Segment, Transport};
use domain::{Access, Domain, LOG};
use doormat::Doormat;
use endpoint::{BATCH, Batch, Endpoint, QUEUE, SEGMENTS, Write, Written};
use flight::Flight;
use quirks::{End, lacks_room};
use wait::Waiter;

/// The most puts under way, whatever the provider would take: enough to fill any pipe.
const IN_FLIGHT: usize = 256;

/// Puts over libfabric. Regions may outlive it: each keeps the domain open.
pub struct Fabric {
    place: Place,
    name: String,
    limits: Limits,
    /// Puts without a report may share a context: the provider does not write into it.
    may_be_silent: bool,
    /// By rank, what libfabric calls the peer; empty until [`connect`](Fabric::connect).
    peers: Vec<sys::fi_addr_t>,
    /// What endpoints leave behind when their process is killed.
    files: Vec<PathBuf>,
    /// Where puts of no bytes go, if they cannot go nowhere.
    doormat: Option<Doormat>,
    /// What is reported of own puts may look like a notice.
    echoes: bool,
    waiter: Waiter,
    /// `None` after the shutdown, until when the cells of `flight` are its.
    endpoint: Option<Endpoint>,
    flight: Flight,
    domain: Arc<Domain>,
}

impl Fabric {
    /// Opens an endpoint. Others cannot be reached before [`connect`](Fabric::connect).
    pub fn open(choice: &Choice, place: Place) -> Result<Fabric> {
        let info = &choice.info;
        // Providers may have threads of their own.
        let domain = threads::quietly(|| Domain::open(info))?;
        let (endpoint, waiter) =
            threads::quietly(|| Endpoint::open(&domain, info, choice.quirk, place.size))?;
        let limits = Limits {
            inject: info.transmit().inject_size,
            max_put: info.endpoint().max_msg_size.min(isize::MAX as usize),
            segments: if choice.quirk.gathers { info.transmit().iov_limit.clamp(1, SEGMENTS) } else { 1 },
            in_flight: info.transmit().size.clamp(1, IN_FLIGHT),
        };
        let doormat = match choice.quirk.bare {
            true => None,
            false => Some(Doormat::new(domain.register(Doormat::memory()?, Access::Both, endpoint.raw())?)),
        };
        Ok(Fabric {
            place,
            name: format!("{} (libfabric {})", choice.provider(), version()?),
            limits,
            may_be_silent: info.root().mode & (sys::FI_CONTEXT | sys::FI_CONTEXT2) == 0,
            peers: Vec::new(),
            files: Vec::new(),
            doormat,
            echoes: choice.quirk.echoes,
            waiter,
            endpoint: Some(endpoint),
            flight: Flight::new(limits.in_flight, place.size),
            domain,
        })
    }

    /// What peers must be given to reach this endpoint; some 16 to 80 bytes.
    pub fn address(&self) -> Result<Vec<u8>> {
        let address = self.opened("address")?.address()?;
        Ok(match &self.doormat {
            Some(doormat) => doormat.behind(address),
            None => address,
        })
    }

    /// Makes all ranks known by their addresses, in rank order. Connections are made at the first put.
    pub fn connect(&mut self, addresses: &[Vec<u8>]) -> Result<()> {
        self.connect_to_some(addresses, self.place.size - 1)
    }

    /// The same, where no more than so many are to be reached.
    pub(super) fn connect_to_some(&mut self, addresses: &[Vec<u8>], reached: u32) -> Result<()> {
        if addresses.len() != self.place.size as usize {
            let what = format!("{} addresses for {} ranks", addresses.len(), self.place.size);
            return Err(Error::argument("connect", what, "give the address of every rank, in rank order"));
        }
        self.see_room(reached)?;
        let addresses: Vec<_> = match &mut self.doormat {
            Some(doormat) => doormat.learn(addresses)?,
            None => addresses.iter().map(Vec::as_slice).collect(),
        };
        let endpoint = self.opened("connect")?;
        self.peers = (0..)
            .zip(&addresses)
            .map(|(rank, address)| endpoint.insert(rank, address))
            .collect::<Result<_>>()?;
        self.files = names::files(self.domain.provider(), &addresses);
        Ok(())
    }

    fn see_room(&self, reached: u32) -> Result<()> {
        let set = std::env::var(ROOM).ok().filter(|set| !set.is_empty());
        let Some(what) = lacks_room(self.domain.provider(), reached, set.as_deref()) else {
            return Ok(());
        };
        let cure = format!("set {ROOM}={} on all ranks", room_for(self.place.size));
        match (set, self.place.rank) {
            (None, _) => return Err(Error::transport("connect", what, cure)),
            (Some(_), 0) => tell(format!("{what}; {cure}")),
            _ => {}
        }
        Ok(())
    }

    fn opened(&self, call: &str) -> Result<&Endpoint> {
        self.endpoint.as_ref().ok_or_else(|| {
            Error::transport(call, "the transport was shut down", "make no calls after the shutdown")
        })
    }

    /// The put's error, where it breaks the contract.
    fn misuse(&self, put: &Put<'_>) -> Error {
        let Limits { max_put, segments, in_flight, .. } = self.limits;
        let what = format!(
            "{} bytes in {} segments, up to byte {} of a region of {}, to rank {} of {} known, token {}",
            put.len(),
            put.segments.len(),
            put.segments.iter().map(|s| s.offset.saturating_add(s.len)).max().unwrap_or(0),
            put.from.memory.len(),
            put.peer,
            self.peers.len(),
            put.token
        );
        let cure = format!(
            "stay in the region, put at most {max_put} bytes in {segments} segments, \
             use a free token below {in_flight}"
        );
        Error::argument("put", what, cure)
    }

    /// Whether the put's segments lie in its region, and neither they nor its bytes are too many.
    fn fits(&self, put: &Put<'_>, len: usize) -> bool {
        let room = put.from.memory.len();
        let lies = |s: &Segment| s.offset.checked_add(s.len).is_some_and(|end| end <= room);
        put.segments.len() <= self.limits.segments
            && put.segments.iter().all(lies)
            && len <= self.limits.max_put
    }

    fn put_failed(&self, code: isize, peer: Rank) -> Error {
        let error = info::meaning(self.domain.library(), code);
        if UNREACHABLE.contains(&-(code as i32)) {
            return Error::Lost {
                rank: peer,
                how: format!("fi_writemsg: {error}, on {}", self.domain.provider()),
            };
        }
        let what = format!("{error}, putting to rank {peer} on {}", self.domain.provider());
        Error::transport("fi_writemsg", what, LOG)
    }

    /// What the queue's error entry says, and of which peer.
    fn failed(&mut self, entry: sys::fi_cq_err_entry) -> Error {
        let error = info::meaning(self.domain.library(), -(entry.err as isize));
        let (provider, own) = (self.domain.provider(), entry.prov_errno);
        let how = |whose: &str| format!("a put{whose} failed: {error}, {own} of {provider}'s own numbers");
        match self.flight.land(entry.op_context) {
            flight::Put::Tracked(_, rank) | flight::Put::Injected(rank) => {
                match self.is_out_of_reach(&entry) {
                    true => Error::Lost { rank, how: how("") },
                    false => Error::transport("fi_cq_readerr", how(&format!(" to rank {rank}")), LOG),
                }
            }
            flight::Put::Unknown => Error::transport("fi_cq_readerr", how(""), LOG),
        }
    }

    /// Whether a failed put says that its peer is. On verbs each failure is FI_EIO, and what the card says stands beside it.
    fn is_out_of_reach(&self, entry: &sys::fi_cq_err_entry) -> bool {
        let by_the_card = entry.err == sys::FI_EIO && self.domain.provider().starts_with("verbs");
        UNREACHABLE.contains(&entry.err) || by_the_card && RETRIED_IN_VAIN.contains(&entry.prov_errno)
    }

    /// What a code other than a count from `fi_cq_read` means.
    fn no_entries(&mut self, code: isize) -> Result<()> {
        let code = code as i32;
        if code == -sys::FI_EAGAIN {
            self.waiter.emptied();
            return Ok(());
        }
        if code == -sys::FI_EINTR {
            return Ok(());
        }
        if code != -(sys::FI_EAVAIL as i32) {
            return self.domain.check("fi_cq_read", code);
        }
        self.no_entries_but_an_error()
    }

    /// All entries have been read, up to an error if there is one: it is told behind what came before it.
    fn no_entries_but_an_error(&mut self) -> Result<()> {
        let entry = {
            let entered = self.domain.enter();
            self.opened("poll")?.error(&entered)
        };
        match entry {
            Some(entry) => Err(self.failed(entry)),
            None => {
                self.waiter.emptied();
                Ok(())
            }
        }
    }
}

/// Error codes that say that the peer cannot be reached (any more).
const UNREACHABLE: [i32; 12] = [
    sys::FI_ECONNREFUSED,
    sys::FI_ECONNRESET,
    sys::FI_ECONNABORTED,
    sys::FI_ENOTCONN,
    sys::FI_ESHUTDOWN,
    sys::FI_ETIMEDOUT,
    sys::FI_EHOSTDOWN,
    sys::FI_EHOSTUNREACH,
    sys::FI_ENETUNREACH,
    sys::FI_ENETDOWN,
    sys::FI_ECANCELED,
    sys::FI_EREMOTEIO,
];

/// What a verbs card says of a peer that has not answered, however often it was asked: IBV_WC_RETRY_EXC_ERR and
/// IBV_WC_RNR_RETRY_EXC_ERR.
const RETRIED_IN_VAIN: [i32; 2] = [12, 13];

impl Transport for Fabric {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn register(&mut self, memory: Memory) -> Result<Region> {
        self.domain.register(memory, Access::Both, self.opened("register")?.raw())
    }

    fn register_source(&mut self, memory: Memory) -> Result<Region> {
        self.domain.register(memory, Access::Source, self.opened("register")?.raw())
    }

    #[inline]
    fn put(&mut self, put: &Put<'_>) -> Result<Posted> {
        let endpoint = self.opened("put")?;
        let len = put.len();
        let written = match &self.doormat {
            Some(doormat) if len == 0 => doormat.step(put.peer),
            _ => Written::of(put, len),
        };
        let inject = written.len <= self.limits.inject;
        let silent = inject || (put.report == Report::Never && self.may_be_silent);
        let (Some(&peer), true) = (self.peers.get(put.peer as usize), self.fits(put, len)) else {
            return Err(self.misuse(put));
        };
        let context =
            if silent { Some(self.flight.injected(put.peer)) } else { self.flight.tracked(put.token) };
        let Some(context) = context else {
            return Err(self.misuse(put));
        };
        let write = Write {
            written,
            peer,
            context,
            notice: put.notice,
            flags: match put.report {
                _ if inject => sys::FI_INJECT,
                _ if silent => 0,
                Report::Landed => sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE,
                Report::Sent | Report::Never => sys::FI_COMPLETION,
            },
        };
        // SAFETY: - `fits` has checked the segments; `register` gave the region and its descriptor
        //         - `flight` keeps the put's registration until it is sent, and self the doormat's
        //         - its cells stay until the endpoint is closed, or for ever (`shut_down`)
        let code = unsafe { endpoint.write(&self.domain.enter(), &write) };
        if code == 0 {
            self.waiter.stirred();
        }
        match code as i32 {
            0 if silent => {
                if !inject {
                    self.flight.stand(&put.from.registration);
                }
                Ok(Posted::Done)
            }
            0 => {
                self.flight.depart(put.token, put.peer, &put.from.registration);
                Ok(Posted::Pending)
            }
            code if code == -sys::FI_EAGAIN => Ok(Posted::Busy),
            _ => Err(self.put_failed(code, put.peer)),
        }
    }

    #[inline]
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let mut all = 0;
        loop {
            let mut batch: Batch = [const { MaybeUninit::uninit() }; BATCH];
            let read = self.opened("poll")?.read(&self.domain.enter(), &mut batch);
            if read <= 0 {
                return self.no_entries(read);
            }
            self.waiter.refresh();
            for entry in &batch[..read as usize] {
                // SAFETY: - libfabric has filled so many entries
                let entry = unsafe { entry.assume_init_ref() };
                // Nothing else in an entry is the same on all providers: neither FI_RMA nor the length.
                let is_echo = self.echoes && self.flight.knows(entry.op_context);
                if entry.flags & sys::FI_REMOTE_CQ_DATA != 0 && !is_echo {
                    events.push(Event::Notice(entry.data as u32));
                } else if let flight::Put::Tracked(token, _) = self.flight.land(entry.op_context) {
                    events.push(Event::Sent(token));
                }
            }
            all += read as usize;
            // So few are all, unless there were more than the queue has room for: then the rest come one by one.
            if (read as usize) < BATCH && all < QUEUE {
                return match self.waiter {
                    Waiter::Bell { .. } => self.no_entries_but_an_error(),
                    Waiter::Descriptor(_) | Waiter::Naps { .. } => Ok(()),
                };
            }
        }
    }

    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()> {
        sleep([self], wakes, timeout)
    }

    fn shut_down(&mut self) {
        match self.endpoint.take().map(Endpoint::close) {
            Some(End::Closed) => self.flight.abandon(),
            Some(End::LeftOpen) => self.flight.leave(),
            None => {}
        }
        names::remove(&std::mem::take(&mut self.files));
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Sleeper for Fabric {
    fn lie_down(&mut self) -> Result<Bed<'_>> {
        let Fabric { endpoint: Some(endpoint), waiter, .. } = self else {
            return self.opened("sleep").map(|_| Bed::Nowhere);
        };
        Ok(waiter.rest(|| endpoint.may_sleep(), |descriptor| endpoint.borrow(descriptor)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::quirks::Quirk;
    use super::*;
    use crate::boot::Exchange;
    use crate::transport::{Gait, conformance};

    fn open(provider: &str, place: Place, exchange: &mut dyn Exchange) -> Result<Fabric> {
        let mut fabric = Fabric::open(&choice(provider), place)?;
        fabric.connect(&exchange.allgather(&fabric.address()?)?)?;
        Ok(fabric)
    }

    #[test]
    fn native_tcp_keeps_the_contract() {
        conformance::on_threads(3, |place, exchange| open("tcp", place, exchange));
    }

    #[test]
    fn rxm_keeps_the_contract() {
        conformance::on_threads(3, |place, exchange| open("rxm", place, exchange));
    }

    /// As a provider that sends nothing of nothing, and of which notices must be told from what it reports of own puts.
    #[test]
    fn what_needs_a_doormat_keeps_the_contract() {
        static ODD: LazyLock<Quirk> = LazyLock::new(|| Quirk {
            bare: false,
            echoes: true,
            gathers: false,
            ..quirks::meant_by("tcp").unwrap().clone()
        });
        conformance::on_threads(3, |place, exchange| {
            let mut odd = choice("tcp");
            odd.quirk = &ODD;
            let mut fabric = Fabric::open(&odd, place)?;
            fabric.connect(&exchange.allgather(&fabric.address()?)?)?;
            Ok(fabric)
        });
    }

    #[test]
    fn a_put_of_no_bytes_steps_on_the_doormat_and_brings_its_notice() {
        let [mut zero, mut one] = pair();
        for fabric in [&mut zero, &mut one] {
            let region = fabric.register(Doormat::memory().unwrap()).unwrap();
            region.memory.write(0, &[fabric.place.rank as u8 + 7]);
            fabric.doormat = Some(Doormat::new(region));
        }
        let addresses = [zero.address().unwrap(), one.address().unwrap()];
        zero.connect(&addresses).unwrap();
        let from = zero.register(Memory::zeroed(8).unwrap()).unwrap();
        let nothing = put(&from, &[], 0);
        let mut events = Vec::new();
        while zero.put(&nothing).unwrap() == Posted::Busy {
            zero.poll(&mut events).unwrap();
            one.poll(&mut events).unwrap();
        }
        while !events.contains(&Event::Notice(0)) {
            zero.poll(&mut events).unwrap();
            one.poll(&mut events).unwrap();
        }
        let mut step = [0];
        one.doormat.as_ref().unwrap().own.memory.read(0, &mut step);
        assert_eq!(step, [7], "rank 0's byte");
    }

    #[test]
    fn an_address_without_its_doormat_is_refused() {
        let mut fabric = pair().into_iter().next().unwrap();
        let region = fabric.register(Doormat::memory().unwrap()).unwrap();
        fabric.doormat = Some(Doormat::new(region));
        let error = fabric.connect(&[vec![0; 64], vec![0; 3]]).unwrap_err().to_string();
        assert!(error.contains("the address of rank 1 has 3 bytes"), "{error}");
    }

    fn choice(word: &str) -> Choice {
        choose(&Request { provider: Some(word.to_owned()), one_machine: true, ..Request::default() }).unwrap()
    }

    /// Two ranks of one thread, connected.
    fn pair() -> [Fabric; 2] {
        let choice = choice("tcp");
        let mut pair = [0, 1].map(|rank| Fabric::open(&choice, Place { rank, size: 2 }).unwrap());
        let addresses = [pair[0].address().unwrap(), pair[1].address().unwrap()];
        pair.iter_mut().for_each(|fabric| fabric.connect(&addresses).unwrap());
        pair
    }

    fn put<'a>(from: &'a Region, segments: &'a [Segment], token: u32) -> Put<'a> {
        Put {
            peer: 1,
            from,
            segments,
            to: from.remote.far,
            to_offset: 0,
            notice: 0,
            report: Report::Sent,
            token,
            attended: true,
            for_user: true,
            gait: Gait::Straight,
        }
    }

    #[test]
    fn a_peer_that_goes_with_puts_under_way_is_named() {
        let [mut zero, mut one] = pair();
        let from = zero.register(Memory::zeroed(8 << 20).unwrap()).unwrap();
        let to = one.register(Memory::zeroed(8 << 20).unwrap()).unwrap();
        let whole = Put { to: to.remote.far, ..put(&from, &[Segment { offset: 0, len: 8 << 20 }], 0) };
        let mut events = Vec::new();
        // Connections are made while both poll; the sockets cannot hold all, as nobody polls later.
        while zero.put(&whole).unwrap() == Posted::Busy {
            zero.poll(&mut events).unwrap();
            one.poll(&mut events).unwrap();
        }
        drop(one);
        let error = loop {
            if let Err(error) = zero.poll(&mut events) {
                break error;
            }
        };
        assert!(matches!(error, Error::Lost { rank: 1, .. }), "{error}");
    }

    #[test]
    fn who_sleeps_misses_neither_its_own_puts_nor_others() {
        let [mut zero, mut one] = pair();
        let from = zero.register(Memory::zeroed(4096).unwrap()).unwrap();
        let to = one.register(Memory::zeroed(4096).unwrap()).unwrap();
        let whole = Put { to: to.remote.far, ..put(&from, &[Segment { offset: 0, len: 4096 }], 0) };
        let (mut sent, mut noticed) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            // Connections are made while both poll.
            while zero.put(&whole).unwrap() == Posted::Busy {
                zero.poll(&mut sent).unwrap();
                one.poll(&mut noticed).unwrap();
            }
            while sent.is_empty() || noticed.is_empty() {
                zero.sleep(&[], if sent.is_empty() { LONG } else { Duration::ZERO }).unwrap();
                zero.poll(&mut sent).unwrap();
                one.sleep(&[], if noticed.is_empty() { LONG } else { Duration::ZERO }).unwrap();
                one.poll(&mut noticed).unwrap();
            }
            assert_eq!((sent.drain(..).count(), noticed.drain(..).count()), (1, 1));
        }
    }

    /// So many ranks of one thread, of which all others have put to rank 0 and may do so again: their regions, and it.
    fn putting_to_zero(n: u32) -> (Fabric, Region, Vec<(Fabric, Region)>) {
        let choice = choice("tcp");
        let open = |rank| Fabric::open(&choice, Place { rank, size: n }).unwrap();
        let mut all: Vec<_> = (0..n).map(open).collect();
        let addresses: Vec<_> = all.iter().map(|fabric| fabric.address().unwrap()).collect();
        all.iter_mut().for_each(|fabric| fabric.connect(&addresses).unwrap());
        let mut zero = all.remove(0);
        let to = zero.register(Memory::zeroed(4096).unwrap()).unwrap();
        let (mut events, mut others) = (Vec::new(), Vec::new());
        for mut other in all {
            let from = other.register(Memory::zeroed(4096).unwrap()).unwrap();
            while put_to_zero(&mut other, &from, &to) == Posted::Busy {
                other.poll(&mut events).unwrap();
                zero.poll(&mut events).unwrap();
            }
            others.push((other, from));
        }
        while events.len() < others.len() {
            zero.poll(&mut events).unwrap();
        }
        (zero, to, others)
    }

    fn put_to_zero(other: &mut Fabric, from: &Region, to: &Region) -> Posted {
        let few = [Segment { offset: 0, len: 8 }];
        other.put(&Put { peer: 0, to: to.remote.far, ..put(from, &few, 0) }).unwrap()
    }

    /// Longer than any test runs.
    const LONG: Duration = Duration::from_secs(100_000);

    #[test]
    fn who_sleeps_leaves_nothing_behind_in_a_queue_that_was_too_small() {
        let (mut zero, to, mut others) = putting_to_zero(17);
        const EACH: usize = 150;
        for (other, from) in &mut others {
            assert!((0..EACH).all(|_| put_to_zero(other, from, &to) == Posted::Done));
        }
        let mut events = Vec::new();
        while events.len() < EACH * others.len() {
            zero.sleep(&[], LONG).unwrap();
            zero.poll(&mut events).unwrap();
        }
    }

    #[test]
    fn who_sleeps_leaves_no_error_behind_what_came_before_it() {
        let (mut zero, to, mut others) = putting_to_zero(3);
        let big = zero.register(Memory::zeroed(64 << 20).unwrap()).unwrap();
        let there = others[0].0.register(Memory::zeroed(64 << 20).unwrap()).unwrap();
        let whole = Put { to: there.remote.far, ..put(&big, &[Segment { offset: 0, len: 64 << 20 }], 0) };
        let mut events = Vec::new();
        while zero.put(&whole).unwrap() == Posted::Busy {
            zero.poll(&mut events).unwrap();
            others[0].0.poll(&mut events).unwrap();
        }
        // A notice of rank 2's, and then the end of rank 1.
        let (two, from) = &mut others[1];
        assert_eq!(put_to_zero(two, from, &to), Posted::Done);
        drop(others.remove(0));
        let error = loop {
            if let Err(error) = zero.poll(&mut events) {
                break error;
            }
            zero.sleep(&[], LONG).unwrap();
        };
        assert!(matches!(error, Error::Lost { rank: 1, .. }), "{error}");
    }

    #[test]
    fn who_waits_for_a_peer_that_does_not_answer_sleeps() {
        let [mut zero, one] = pair();
        let from = zero.register(Memory::zeroed(4096).unwrap()).unwrap();
        let whole = put(&from, &[Segment { offset: 0, len: 4096 }], 0);
        let mut events = Vec::new();
        let slept = (0..20).any(|_| {
            zero.poll(&mut events).unwrap();
            assert_eq!(zero.put(&whole).unwrap(), Posted::Busy, "nobody polls at the other end");
            matches!(zero.lie_down().unwrap(), Bed::Until(_))
        });
        assert!(slept);
        drop(one);
    }

    #[test]
    fn what_breaks_the_contract_is_refused_with_its_numbers() {
        let [mut zero, _one] = pair();
        let from = zero.register(Memory::zeroed(4096).unwrap()).unwrap();
        let Limits { in_flight, segments, .. } = zero.limits();
        let good = Segment { offset: 0, len: 4096 };
        let alone = [good];
        let nobody = Put { peer: 2, ..put(&from, &alone, 0) };
        let outside = [good, Segment { offset: 1, ..good }];
        let beyond = [good, Segment { offset: usize::MAX, len: 8 }];
        let endless = [good, Segment { offset: 0, len: usize::MAX }];
        let many = vec![good; segments + 1];
        for bad in [
            nobody,
            put(&from, &alone, in_flight as u32),
            put(&from, &outside, 0),
            put(&from, &beyond, 0),
            put(&from, &endless, 0),
            put(&from, &many, 0),
        ] {
            let error = zero.put(&bad).unwrap_err();
            assert!(error.to_string().contains("of a region of 4096"), "{error}");
        }
        assert!(zero.connect(&[]).is_err());
    }

    #[test]
    fn a_region_may_outlive_its_transport() {
        let [mut zero, one] = pair();
        let memory = Memory::zeroed(4096).unwrap();
        let region = zero.register(memory.clone()).unwrap();
        drop((zero, one));
        std::thread::spawn(move || drop(region)).join().unwrap();
        assert_eq!(memory.holders(), 1);
    }

    #[test]
    fn what_is_a_source_alone_nobody_asks_to_write() {
        let both = Access::Both.bits();
        assert_eq!(
            (Access::Source.bits(), both & sys::FI_REMOTE_WRITE),
            (sys::FI_WRITE, sys::FI_REMOTE_WRITE)
        );
    }

    #[test]
    fn a_refused_registration_names_size_limit_and_cure() {
        let domain = Domain::open(&choice("tcp").info).unwrap();
        let error = domain.refused(-sys::FI_ENOMEM, 64 << 20).to_string();
        assert!(
            error.starts_with("fi_mr_reg: Cannot allocate memory (-12), registering 64 MiB on "),
            "{error}"
        );
        assert!(error.contains("`ulimit -l` is "), "{error}");
        let error = domain.refused(-rustix::io::Errno::FAULT.raw_os_error(), 64 << 20).to_string();
        assert!(error.contains("(-14)") && error.contains("read-only"), "{error}");
    }
}
