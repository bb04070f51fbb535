//! One description of what a provider offers (`fi_info`), owned, with readable accessors.
//!
//! Never decides anything; see [`provider`](super::provider) for that. The one place that reads C
//! strings and socket addresses out of libfabric's structures.

use std::ffi::{CStr, CString, c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::NonNull;

use circulant_libfabric_sys as sys;
use sys::{Functions, fi_info};

/// An `fi_info` without successor, freed when dropped; its attributes are all there.
pub(super) struct Info {
    raw: NonNull<fi_info>,
    library: &'static Functions,
}

// SAFETY: - plain data that nothing else points to; libfabric only reads what it is given
unsafe impl Send for Info {}
// SAFETY: as for Send; `&Info` allows reading only
unsafe impl Sync for Info {}

/// What is asked of a provider, beside its name.
pub(super) struct Wanted {
    pub ep_type: sys::fi_ep_type,
    pub caps: u64,
    pub mode: u64,
    pub mr_mode: c_int,
    pub cq_data_size: usize,
    pub threading: sys::fi_threading,
}

impl Info {
    /// What the provider `name` offers of what is wanted; the negative error code where it offers nothing.
    pub fn query(library: &'static Functions, name: &str, wanted: &Wanted) -> Result<Vec<Info>, c_int> {
        let name = CString::new(name).map_err(|_| -sys::FI_EINVAL)?;
        // SAFETY: - null asks for an empty one
        let hints = Info::own(library, unsafe { library.fi_dupinfo(std::ptr::null()) })?;
        let mut found = std::ptr::null_mut();
        // SAFETY: - `fi_dupinfo(NULL)` allocates all of the attributes that are written here
        //         - the name is taken back below, as `fi_freeinfo` would free it
        let code = unsafe {
            let info = hints.raw.as_ptr();
            (*info).caps = wanted.caps;
            (*info).mode = wanted.mode;
            (*(*info).ep_attr).type_ = wanted.ep_type;
            (*(*info).domain_attr).mr_mode = wanted.mr_mode;
            (*(*info).domain_attr).cq_data_size = wanted.cq_data_size;
            (*(*info).domain_attr).threading = wanted.threading;
            (*(*info).fabric_attr).prov_name = name.as_ptr().cast_mut();
            let none = std::ptr::null();
            let code = library.fi_getinfo(sys::VERSION, none, none, 0, info, &mut found);
            (*(*info).fabric_attr).prov_name = std::ptr::null_mut();
            code
        };
        if code != 0 {
            return Err(code);
        }
        Info::own_list(library, found)
    }

    /// Takes a list apart into copies, and frees it.
    fn own_list(library: &'static Functions, list: *mut fi_info) -> Result<Vec<Info>, c_int> {
        let mut infos = Vec::new();
        let mut next = list;
        // SAFETY: - `list` is what `fi_getinfo` gave: linked by `next`, ended by null, freed once, last
        unsafe {
            while !next.is_null() {
                infos.push(Info::own(library, library.fi_dupinfo(next)));
                next = (*next).next;
            }
            library.fi_freeinfo(list);
        }
        infos.into_iter().collect()
    }

    fn own(library: &'static Functions, raw: *mut fi_info) -> Result<Info, c_int> {
        let raw = NonNull::new(raw).ok_or(-sys::FI_ENOMEM)?;
        Ok(Info { raw, library })
    }

    /// For calls that take it; they only read it.
    pub fn as_ptr(&self) -> *mut fi_info {
        self.raw.as_ptr()
    }

    pub fn library(&self) -> &'static Functions {
        self.library
    }

    pub fn root(&self) -> &fi_info {
        // SAFETY: - owned by self, and never written while `&self` lives
        unsafe { self.raw.as_ref() }
    }

    pub fn endpoint(&self) -> &sys::fi_ep_attr {
        // SAFETY: - libfabric fills all attributes; freed with self
        unsafe { &*self.root().ep_attr }
    }

    pub fn domain(&self) -> &sys::fi_domain_attr {
        // SAFETY: as in `endpoint`
        unsafe { &*self.root().domain_attr }
    }

    pub fn transmit(&self) -> &sys::fi_tx_attr {
        // SAFETY: as in `endpoint`
        unsafe { &*self.root().tx_attr }
    }

    pub fn fabric(&self) -> *mut sys::fi_fabric_attr {
        self.root().fabric_attr
    }

    /// The provider's name: `tcp;ofi_rxm`.
    pub fn provider(&self) -> String {
        // SAFETY: as in `endpoint`
        text(unsafe { (*self.fabric()).prov_name })
    }

    /// The fabric's name.
    pub fn fabric_name(&self) -> String {
        // SAFETY: as in `endpoint`
        text(unsafe { (*self.fabric()).name })
    }

    /// The domain's name, which is the interface's or the device's.
    pub fn interface(&self) -> String {
        text(self.domain().name)
    }

    /// The address that an endpoint would have, where addresses are those of the internet.
    pub fn ip(&self) -> Option<IpAddr> {
        let info = self.root();
        let is_socket =
            [sys::FI_SOCKADDR, sys::FI_SOCKADDR_IN, sys::FI_SOCKADDR_IN6].contains(&info.addr_format);
        if !is_socket || info.src_addr.is_null() {
            return None;
        }
        // SAFETY: - libfabric says that there are `src_addrlen` bytes of socket address
        ip(unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) })
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: - owned, from `fi_dupinfo`, freed once
        unsafe { self.library.fi_freeinfo(self.raw.as_ptr()) }
    }
}

/// The address in a `sockaddr_in` or `sockaddr_in6`.
fn ip(socket: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(socket.get(..2)?.try_into().ok()?);
    match i32::from(family) {
        AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(socket.get(4..8)?).ok()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(socket.get(8..24)?).ok()?).into()),
        _ => None,
    }
}

const AF_INET: i32 = rustix::net::AddressFamily::INET.as_raw() as i32;
const AF_INET6: i32 = rustix::net::AddressFamily::INET6.as_raw() as i32;

/// A C string of libfabric's; empty for null.
fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: - libfabric's strings end with 0, and live as long as the structure they were read from
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// What an error code means, with the code: `Cannot allocate memory (-12)`.
pub(super) fn meaning(library: &Functions, code: isize) -> String {
    // SAFETY: - any number is allowed; the string is a constant of the library
    let words = text(unsafe { library.fi_strerror(code.unsigned_abs() as c_int) });
    format!("{words} ({code})")
}

/// Bits by their names: `FI_MR_RAW`. The caller sees to it that one thread at a time asks: the library has one buffer.
pub(super) fn bit_names<T>(library: &Functions, bits: T, kind: sys::fi_type) -> String {
    // SAFETY: - `kind` says what `bits` is; the answer is copied before anybody can ask again
    let names = text(unsafe { library.fi_tostr(std::ptr::from_ref(&bits).cast(), kind) });
    names.trim_matches(|c| "[] ".contains(c)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_socket_addresses() {
        let mut v4 = [0; 16];
        v4[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        v4[4..8].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!(ip(&v4), Some(Ipv4Addr::LOCALHOST.into()));
        let mut v6 = [0; 28];
        v6[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
        v6[23] = 1;
        assert_eq!(ip(&v6), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(ip(&v4[..6]), None);
        assert_eq!(ip(&[0; 16]), None);
    }
}
