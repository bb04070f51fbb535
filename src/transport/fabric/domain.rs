//! The fabric and the domain, and memory registered with it.
//!
//! Whatever belongs to a domain keeps it alive by an `Arc`, so that it is closed last, whoever is dropped
//! when. All calls on a domain's objects are made under its gate: libfabric is told that one thread at a
//! time calls (FI_THREAD_DOMAIN, which spares its own locks), and a region may be dropped on another
//! thread than the one that puts. An uncontended gate costs some 10 ns, a put over TCP some 4 us.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use circulant_libfabric_sys as sys;
use rustix::process::{Resource, getrlimit};
use sys::Functions;

use super::info::{Info, meaning};
use crate::error::{Error, Result};
use crate::forks;
use crate::transport::memory::Memory;
use crate::transport::{Region, RemoteKey};

/// A fabric with one domain.
pub(super) struct Domain {
    gate: Mutex<Handles>,
    library: &'static Functions,
    provider: String,
    mr_mode: c_int,
    /// The process that it is of.
    generation: u32,
}

/// What memory is registered for.
#[derive(Clone, Copy)]
pub(super) enum Access {
    /// To be put from.
    Source,
    /// To be put from and into.
    Both,
}

impl Access {
    pub fn bits(self) -> u64 {
        match self {
            Access::Source => sys::FI_WRITE,
            Access::Both => sys::FI_WRITE | sys::FI_REMOTE_WRITE,
        }
    }
}

/// The right to call into the domain; its raw objects.
pub(super) struct Handles {
    pub fabric: *mut sys::fid_fabric,
    pub domain: *mut sys::fid_domain,
    /// The next key to ask for; never the same twice, so that a stale key fails rather than hits.
    next_key: u64,
}

// SAFETY: - libfabric's objects belong to no thread; only calls must not overlap, which the gate sees to
unsafe impl Send for Handles {}

/// Proof that no other thread is in the domain.
pub(super) type Entered<'d> = MutexGuard<'d, Handles>;

impl Domain {
    pub fn open(info: &Info) -> Result<Arc<Domain>> {
        let (library, provider) = (info.library(), info.provider());
        let mut fabric = std::ptr::null_mut();
        // SAFETY: - the attributes are those that fi_getinfo gave
        let code = unsafe { library.fi_fabric(info.fabric(), &mut fabric, std::ptr::null_mut()) };
        check(library, &provider, "fi_fabric", code)?;
        let mut domain = std::ptr::null_mut();
        // SAFETY: - the fabric was opened from the same info
        let code = unsafe { sys::fi_domain(fabric, info.as_ptr(), &mut domain) };
        if code != 0 {
            // SAFETY: - just opened, and nothing was opened from it
            unsafe { sys::fi_close(fabric.cast()) };
        }
        check(library, &provider, "fi_domain", code)?;
        let gate = Mutex::new(Handles { fabric, domain, next_key: 1 });
        let (mr_mode, generation) = (info.domain().mr_mode, forks::here());
        Ok(Arc::new(Domain { gate, library, provider, mr_mode, generation }))
    }

    /// Whether this is its process. In a forked child nothing of it is closed: what devices have of it is the parent's still, and
    /// a thread that is not there may have been in it.
    pub fn is_own(&self) -> bool {
        self.generation == forks::generation()
    }

    /// Waits until no other thread calls into the domain.
    pub fn enter(&self) -> Entered<'_> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn library(&self) -> &'static Functions {
        self.library
    }

    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// An error for a call that failed, with the cure that helps whatever it was.
    pub fn check(&self, call: &str, code: c_int) -> Result<()> {
        check(self.library, &self.provider, call, code)
    }

    /// Registers memory; `endpoint` is bound to it where the provider demands it.
    pub fn register(
        self: &Arc<Domain>,
        memory: Memory,
        access: Access,
        endpoint: *mut sys::fid_ep,
    ) -> Result<Region> {
        // Providers may refuse no bytes at all: a byte of our own stands in for them.
        let target = if memory.is_empty() { Memory::zeroed(1)? } else { memory.clone() };
        let start = target.address().as_ptr();
        let mut mr = std::ptr::null_mut();
        let mut entered = self.enter();
        // SAFETY: - the bytes are alive until the registration is dropped, which holds `target`
        let code = unsafe {
            sys::fi_mr_reg(
                entered.domain,
                start.cast(),
                target.len(),
                access.bits(),
                entered.next_key,
                &mut mr,
            )
        };
        if code != 0 {
            return Err(self.refused(code, target.len()));
        }
        entered.next_key += 1;
        drop(entered);
        let registration = Arc::new(Registration { mr, memory: target, domain: self.clone() });
        self.attach(&registration, endpoint)?;
        // SAFETY: - registered just above
        let (descriptor, key) = unsafe { ((*mr).mem_desc as usize, (*mr).key) };
        let base = if self.mr_mode & sys::FI_MR_VIRT_ADDR != 0 { start as u64 } else { 0 };
        let remote = RemoteKey { base, key }.into();
        Ok(Region { memory, remote, is_rewritten: false, descriptor, registration })
    }

    /// FI_MR_ENDPOINT: a registration is for one endpoint, and off until it is enabled.
    fn attach(&self, registration: &Registration, endpoint: *mut sys::fid_ep) -> Result<()> {
        if self.mr_mode & sys::FI_MR_ENDPOINT == 0 {
            return Ok(());
        }
        let _entered = self.enter();
        let mr = registration.mr.cast();
        // SAFETY: - both are open: the caller's endpoint and the registration
        self.check("fi_mr_bind", unsafe { sys::fi_bind(mr, endpoint.cast(), 0) })?;
        // SAFETY: as above
        self.check("fi_mr_enable", unsafe { sys::fi_enable(mr) })
    }

    /// Why memory could not be registered.
    pub fn refused(&self, code: c_int, len: usize) -> Error {
        let error = meaning(self.library, code as isize);
        let cure = match getrlimit(Resource::Memlock).current {
            _ if -code == EFAULT => UNFIT.to_owned(),
            _ if !WANTS.contains(&-code) => LOG.to_owned(),
            Some(limit) => format!("`ulimit -l` is {}: raise it, or use smaller windows", size(limit)),
            None => "`ulimit -l` is unlimited: free memory, or use smaller or fewer windows".to_owned(),
        };
        let what = format!("{error}, registering {} on {}", size(len as u64), self.provider);
        Error::transport("fi_mr_reg", what, cure)
    }
}

/// Error codes of a want of memory that may stay where it is: devices that pin none have others, and a limit lets nobody
/// else than who may lock pages pass.
const WANTS: [c_int; 3] = [sys::FI_ENOMEM, sys::FI_EAGAIN as c_int, EPERM];
/// libfabric takes it from the system, and has no name of its own for it here.
const EPERM: c_int = rustix::io::Errno::PERM.raw_os_error();
/// Pages that cannot be pinned as they are to be used.
const EFAULT: c_int = rustix::io::Errno::FAULT.raw_os_error();
const UNFIT: &str = "it is unmapped, or read-only where this asks to write: give the call other memory";
/// What helps where nothing else is known to.
pub(super) const LOG: &str = "set FI_LOG_LEVEL=warn, and libfabric tells why";

impl Drop for Domain {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let handles = self.enter();
        // SAFETY: - opened in `open`, closed once, the domain before its fabric
        //         - all that was opened from them held an `Arc` of self, and is closed
        unsafe {
            sys::fi_close(handles.domain.cast());
            sys::fi_close(handles.fabric.cast());
        }
    }
}

/// Memory that a provider may read, and write if it was asked for that.
struct Registration {
    mr: *mut sys::fid_mr,
    memory: Memory,
    domain: Arc<Domain>,
}

// SAFETY: - the provider's object is used under the domain's gate only
unsafe impl Send for Registration {}
// SAFETY: as for Send
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.domain.is_own() {
            return;
        }
        let entered = self.domain.enter();
        // SAFETY: - opened in `register`, closed once, before its domain
        let code = unsafe { sys::fi_close(self.mr.cast()) };
        drop(entered);
        if code != 0 {
            // The provider has not let go of the bytes, so they must outlive it.
            std::mem::forget(self.memory.clone());
        }
    }
}

fn check(library: &'static Functions, provider: &str, call: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let what = format!("{}, on {provider}", meaning(library, code as isize));
    let too_small = code == -sys::FI_EINVAL && provider.ends_with("ofi_rxm");
    Err(Error::transport(call, what, if too_small { fewer_peers() } else { LOG.to_owned() }))
}

/// What helps where a device may be too small for rxm's queue.
fn fewer_peers() -> String {
    let set = std::env::var("FI_UNIVERSE_SIZE").ok().and_then(|set| set.parse::<u32>().ok());
    let fewer = set.map_or(64, |set| (set / 2).max(1));
    format!(
        "set FI_UNIVERSE_SIZE={fewer}, as the device may be too small for more; FI_LOG_LEVEL=warn tells why"
    )
}

/// A number of bytes as people write it, rounded down: `64 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (bytes.max(1).ilog2() / 10).min(4);
    format!("{} {}", bytes >> (10 * step), UNITS[step as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        assert_eq!([0, 1023, 65536, 67 << 20].map(size), ["0 B", "1023 B", "64 KiB", "67 MiB"]);
    }
}
