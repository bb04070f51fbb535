//! One endpoint with its completion queue and address vector: opening, calls, and the order of closing.
//!
//! The endpoint is closed first, so that from then on no registered byte is read or written; then the
//! queues and the vector that it used. Puts are `fi_writemsg` with FI_REMOTE_CQ_DATA, small ones with
//! FI_INJECT too: the one call that every provider has and none does wrongly.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use circulant_libfabric_sys as sys;

use super::domain::{Domain, Entered};
use super::info::Info;
use super::quirks::{End, Quirk, Waits};
use super::wait::Waiter;
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::{Put, Segment};

/// The most entries that are read from the queue at once.
pub(super) const BATCH: usize = 32;
pub(super) type Batch = [MaybeUninit<sys::fi_cq_data_entry>; BATCH];

/// Room in the queue; providers that keep it in software extend it.
pub(super) const QUEUE: usize = 1024;

pub(super) struct Endpoint {
    ep: *mut sys::fid_ep,
    cq: *mut sys::fid_cq,
    /// A second queue, for its descriptor; may be null.
    bell: *mut sys::fid_cq,
    av: *mut sys::fid_av,
    domain: Arc<Domain>,
    end: End,
    ended: bool,
}

// SAFETY: - libfabric's objects belong to no thread; they are used under the domain's gate only
unsafe impl Send for Endpoint {}

/// The most segments that a put gathers, whatever the provider would take: there is a row of so many on the stack.
pub(super) const SEGMENTS: usize = 8;

/// What a put writes, and where.
pub(super) struct Written<'a> {
    /// The first byte of the source region.
    pub source: *mut u8,
    /// Of the source, at most [`SEGMENTS`].
    pub segments: &'a [Segment],
    /// Of all segments together.
    pub len: usize,
    pub descriptor: usize,
    pub target: u64,
    pub key: u64,
}

impl<'a> Written<'a> {
    /// What a put of so many bytes asks for.
    pub fn of(put: &Put<'a>, len: usize) -> Self {
        Written {
            source: put.from.memory.address().as_ptr(),
            segments: put.segments,
            len,
            descriptor: put.from.descriptor,
            target: put.to.base.wrapping_add(put.to_offset),
            key: put.to.key,
        }
    }
}

/// A put as `fi_writemsg` takes it.
pub(super) struct Write<'a> {
    pub written: Written<'a>,
    pub peer: sys::fi_addr_t,
    pub context: *mut c_void,
    pub notice: u32,
    pub flags: u64,
}

impl Endpoint {
    /// Opens and enables an endpoint that `peers` others will be known to.
    pub fn open(domain: &Arc<Domain>, info: &Info, quirk: &Quirk, peers: u32) -> Result<(Endpoint, Waiter)> {
        let (cq, bell) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (ep, av) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut it = Endpoint { ep, cq, bell, av, domain: domain.clone(), end: quirk.end, ended: false };
        let entered = domain.enter();
        let opened = it.open_all(&entered, info, quirk.waits, peers);
        // Dropping what was opened enters the domain again.
        drop(entered);
        opened.map(|waiter| (it, waiter))
    }

    fn open_all(&mut self, entered: &Entered<'_>, info: &Info, waits: Waits, peers: u32) -> Result<Waiter> {
        let waiter = self.open_queues(entered, waits)?;
        self.open_vector(entered, info, peers)?;
        // SAFETY: - domain and info belong together
        let code = unsafe { sys::fi_endpoint(entered.domain, info.as_ptr(), &mut self.ep) };
        self.domain.check("fi_endpoint", code)?;
        self.bind("fi_ep_bind (address vector)", self.av.cast(), 0)?;
        // What is injected is to leave no entry in the queue: other puts ask for one each.
        let sends = sys::FI_TRANSMIT | sys::FI_SELECTIVE_COMPLETION;
        self.bind("fi_ep_bind (queue, sends)", self.cq.cast(), sends)?;
        self.bind("fi_ep_bind (queue, notices)", self.cq.cast(), sys::FI_RECV)?;
        // SAFETY: - the endpoint is open and has all that it needs
        self.domain.check("fi_enable", unsafe { sys::fi_enable(self.ep.cast()) })?;
        Ok(waiter)
    }

    fn bind(&self, call: &str, to: *mut sys::fid, flags: u64) -> Result<()> {
        // SAFETY: - both are open; the caller has entered the domain
        self.domain.check(call, unsafe { sys::fi_bind(self.ep.cast(), to, flags) })
    }

    fn open_queues(&mut self, entered: &Entered<'_>, waits: Waits) -> Result<Waiter> {
        match waits {
            Waits::Naps => {
                self.cq = self.open_queue(entered, QUEUE, sys::FI_WAIT_NONE)?;
                Ok(Waiter::naps())
            }
            Waits::Descriptor => {
                self.cq = self.open_queue(entered, QUEUE, sys::FI_WAIT_FD)?;
                self.descriptor(self.cq).map(Waiter::Descriptor)
            }
            Waits::Bell => {
                self.cq = self.open_queue(entered, QUEUE, sys::FI_WAIT_NONE)?;
                self.bell = self.open_queue(entered, 1, sys::FI_WAIT_FD)?;
                self.descriptor(self.bell).map(Waiter::bell)
            }
        }
    }

    /// With room for so many entries.
    fn open_queue(
        &self,
        entered: &Entered<'_>,
        size: usize,
        wait: sys::fi_wait_obj,
    ) -> Result<*mut sys::fid_cq> {
        let mut attr = sys::fi_cq_attr {
            size,
            flags: 0,
            format: sys::FI_CQ_FORMAT_DATA,
            wait_obj: wait,
            signaling_vector: 0,
            wait_cond: sys::FI_CQ_COND_NONE,
            wait_set: std::ptr::null_mut(),
        };
        let mut queue = std::ptr::null_mut();
        // SAFETY: - the domain is open
        let code = unsafe { sys::fi_cq_open(entered.domain, &mut attr, &mut queue) };
        self.domain.check("fi_cq_open", code).map(|()| queue)
    }

    /// Of a queue that was opened with FI_WAIT_FD.
    fn descriptor(&self, queue: *mut sys::fid_cq) -> Result<RawFd> {
        let mut descriptor: RawFd = -1;
        let to = (&raw mut descriptor).cast();
        // SAFETY: - the queue is open, and with FI_WAIT_FD FI_GETWAIT writes an int
        let code = unsafe { sys::fi_control(queue.cast(), sys::FI_GETWAIT as i32, to) };
        self.domain.check("fi_control (FI_GETWAIT)", code).map(|()| descriptor)
    }

    fn open_vector(&mut self, entered: &Entered<'_>, info: &Info, peers: u32) -> Result<()> {
        let offered = info.domain().av_type;
        let mut attr = sys::fi_av_attr {
            type_: if offered == sys::FI_AV_UNSPEC { sys::FI_AV_TABLE } else { offered },
            rx_ctx_bits: 0,
            count: peers as usize,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: std::ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: - the domain is open
        let code = unsafe { sys::fi_av_open(entered.domain, &mut attr, &mut self.av) };
        self.domain.check("fi_av_open", code)
    }

    /// For registrations that are bound to it.
    pub fn raw(&self) -> *mut sys::fid_ep {
        self.ep
    }

    /// What peers must know to reach it.
    pub fn address(&self) -> Result<Vec<u8>> {
        let _entered = self.domain.enter();
        let mut address = vec![0; 512];
        let mut len = address.len();
        // SAFETY: - the endpoint is enabled, and there are `len` bytes
        let code = unsafe { sys::fi_getname(self.ep, address.as_mut_ptr().cast(), &mut len) };
        self.domain.check("fi_getname", code)?;
        address.truncate(len);
        Ok(address)
    }

    /// Makes a peer known by the address that it gave.
    pub fn insert(&self, peer: Rank, address: &[u8]) -> Result<sys::fi_addr_t> {
        let _entered = self.domain.enter();
        // A name that is a string ends with 0; more behind an address does no harm.
        let mut padded = address.to_vec();
        padded.resize(address.len().max(MIN_ADDRESS) + 1, 0);
        let mut to = 0;
        // SAFETY: - the vector is open
        //         - one address is read: no format has more than `MIN_ADDRESS` bytes or no end
        let inserted = unsafe { sys::fi_av_insert(self.av, padded.as_ptr().cast(), 1, &mut to) };
        if inserted == 1 {
            return Ok(to);
        }
        let code = if inserted < 0 { inserted } else { -sys::FI_EINVAL };
        self.domain.check("fi_av_insert", code).map_err(|e| match e {
            Error::Transport { call, what, cure } => {
                Error::transport(call, format!("{what}, the address of rank {peer}"), cure)
            }
            other => other,
        })?;
        Ok(to)
    }

    /// Hands a put over; 0 or an error code. The peer is one that [`insert`](Endpoint::insert) gave.
    ///
    /// # Safety
    /// The segments must be registered with `descriptor`, and stay so while the put is under way;
    /// `context` must be a cell that is there until this endpoint is closed, and for ever if it is left open.
    #[inline]
    pub unsafe fn write(&self, _entered: &Entered<'_>, write: &Write<'_>) -> isize {
        let Written { source, segments, len, descriptor, target, key } = write.written;
        // A put without bytes has one segment of none, as providers may refuse to have none at all.
        let nothing = sys::iovec { iov_base: source.cast(), iov_len: 0 };
        let mut sources = [nothing; SEGMENTS];
        let mut count = 0;
        for segment in segments.iter().filter(|segment| segment.len > 0) {
            let start = source.wrapping_add(segment.offset).cast();
            sources[count] = sys::iovec { iov_base: start, iov_len: segment.len };
            count += 1;
        }
        let mut descriptors = [descriptor as *mut c_void; SEGMENTS];
        let target = sys::fi_rma_iov { addr: target, len, key };
        let message = sys::fi_msg_rma {
            msg_iov: sources.as_ptr(),
            desc: descriptors.as_mut_ptr(),
            iov_count: count.max(1),
            addr: write.peer,
            rma_iov: &target,
            rma_iov_count: 1,
            context: write.context,
            data: u64::from(write.notice),
        };
        // SAFETY: - the endpoint is enabled; the message lives until the call returns, and is copied
        //         - source and context are as the caller promises
        unsafe { sys::fi_writemsg(self.ep, &message, write.flags | sys::FI_REMOTE_CQ_DATA) }
    }

    /// Makes progress and reads at most [`BATCH`] entries: how many, or an error code.
    #[inline]
    pub fn read(&self, _entered: &Entered<'_>, batch: &mut Batch) -> isize {
        // SAFETY: - the queue has the format of these entries, and there is room for `BATCH`
        unsafe { sys::fi_cq_read(self.cq, batch.as_mut_ptr().cast(), BATCH) }
    }

    /// The error that the last [`read`](Endpoint::read) announced, if it is still there.
    pub fn error(&self, _entered: &Entered<'_>) -> Option<sys::fi_cq_err_entry> {
        // SAFETY: - zero is a value of every field, and says that there is no room for further data
        let mut entry = unsafe { std::mem::zeroed() };
        // SAFETY: - the queue is open
        let read = unsafe { sys::fi_cq_readerr(self.cq, &mut entry) };
        (read == 1).then_some(entry)
    }

    /// Whether the queue's descriptor may be slept on: nothing would be missed.
    pub fn may_sleep(&self) -> bool {
        let entered = self.domain.enter();
        let mut queue = self.cq.cast();
        // SAFETY: - fabric and queue are open
        unsafe { sys::fi_trywait(entered.fabric, &mut queue, 1) == 0 }
    }

    /// A queue's descriptor as something that can be polled.
    pub fn borrow(&self, descriptor: RawFd) -> BorrowedFd<'_> {
        // SAFETY: - one of the queues owns it, and is closed with self
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }
}

/// The longest address of a fixed format (FI_SOCKADDR_IB) has fewer bytes.
const MIN_ADDRESS: usize = 64;

impl Endpoint {
    /// Ends it: whether that closed it.
    pub fn close(mut self) -> End {
        self.end_once();
        self.end
    }

    /// Closes it, or leaves it open where that is not to be, or cannot be: as long as a registration is bound to an
    /// endpoint some providers call it busy.
    fn end_once(&mut self) {
        if std::mem::replace(&mut self.ended, true) || !self.domain.is_own() {
            return;
        }
        if self.end == End::Closed && !self.close_in_order() {
            self.end = End::LeftOpen;
        }
        if self.end == End::LeftOpen {
            std::mem::forget(Arc::clone(&self.domain));
        }
    }

    /// Closes all that is open; nothing, where the endpoint cannot be closed.
    fn close_in_order(&mut self) -> bool {
        let _entered = self.domain.enter();
        let closed = |fid: *mut sys::fid| {
            // SAFETY: - opened by self, closed once, each before what it uses
            fid.is_null() || unsafe { sys::fi_close(fid) } == 0
        };
        if !closed(self.ep.cast()) {
            return false;
        }
        for fid in [self.cq.cast(), self.bell.cast(), self.av.cast()] {
            closed(fid);
        }
        true
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end_once();
    }
}
