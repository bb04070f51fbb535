//! The headers' `static inline` functions that are needed, one line each through the tables of operations.

// Each is its man page's function, with that page's contract, and does nothing but the call.
#![allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_void};

use crate::bindings::*;

/// Calls an entry of a table of operations, or gives `-FI_ENOSYS` where the provider has none: the entry
/// is null, or the provider is older than it and its table ends before.
macro_rules! call {
    ($table:expr, $type:ty, $entry:ident ( $($argument:expr),* )) => {{
        let table: *mut $type = $table;
        let there = (*table).size > std::mem::offset_of!($type, $entry);
        match there.then(|| (*table).$entry).flatten() {
            Some(function) => function($($argument),*),
            None => -FI_ENOSYS as _,
        }
    }};
}

#[inline]
pub unsafe fn fi_close(fid: *mut fid) -> c_int {
    call!((*fid).ops, fi_ops, close(fid))
}

#[inline]
pub unsafe fn fi_control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    call!((*fid).ops, fi_ops, control(fid, command, argument))
}

#[inline]
pub unsafe fn fi_bind(fid: *mut fid, to: *mut fid, flags: u64) -> c_int {
    call!((*fid).ops, fi_ops, bind(fid, to, flags))
}

#[inline]
pub unsafe fn fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain) -> c_int {
    call!((*fabric).ops, fi_ops_fabric, domain(fabric, info, domain, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    call!((*fabric).ops, fi_ops_fabric, trywait(fabric, fids, count))
}

#[inline]
pub unsafe fn fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep) -> c_int {
    call!((*domain).ops, fi_ops_domain, endpoint(domain, info, ep, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq) -> c_int {
    call!((*domain).ops, fi_ops_domain, cq_open(domain, attr, cq, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av) -> c_int {
    call!((*domain).ops, fi_ops_domain, av_open(domain, attr, av, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_av_insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    to: *mut fi_addr_t,
) -> c_int {
    call!((*av).ops, fi_ops_av, insert(av, addresses, count, to, 0, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    start: *const c_void,
    len: usize,
    access: u64,
    key: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    let fid = domain.cast();
    call!((*domain).mr, fi_ops_mr, reg(fid, start, len, access, 0, key, 0, mr, std::ptr::null_mut()))
}

#[inline]
pub unsafe fn fi_enable(fid: *mut fid) -> c_int {
    fi_control(fid, FI_ENABLE as c_int, std::ptr::null_mut())
}

#[inline]
pub unsafe fn fi_getname(ep: *mut fid_ep, address: *mut c_void, len: *mut usize) -> c_int {
    call!((*ep).cm, fi_ops_cm, getname(ep.cast(), address, len))
}

#[inline]
pub unsafe fn fi_writemsg(ep: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize {
    call!((*ep).rma, fi_ops_rma, writemsg(ep, message, flags))
}

#[inline]
pub unsafe fn fi_cq_read(cq: *mut fid_cq, entries: *mut c_void, count: usize) -> isize {
    call!((*cq).ops, fi_ops_cq, read(cq, entries, count))
}

#[inline]
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize {
    call!((*cq).ops, fi_ops_cq, readerr(cq, entry, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_beyond_the_table_of_an_older_provider_is_absent() {
        unsafe extern "C" fn trywait(_: *mut fid_fabric, _: *mut *mut fid, _: c_int) -> c_int {
            0
        }
        let call_with_table_of = |size| {
            // SAFETY: - zero is a value of every field: null pointers, no functions, numbers
            let (table, fabric) = unsafe { std::mem::zeroed::<(fi_ops_fabric, fid_fabric)>() };
            let mut table = fi_ops_fabric { size, trywait: Some(trywait), ..table };
            let mut fabric = fid_fabric { ops: &mut table, ..fabric };
            // SAFETY: - the fabric and its table live in this function; `trywait` reads nothing
            unsafe { fi_trywait(&mut fabric, std::ptr::null_mut(), 0) }
        };
        let end = std::mem::offset_of!(fi_ops_fabric, trywait);
        assert_eq!(call_with_table_of(end), -FI_ENOSYS);
        assert_eq!(call_with_table_of(end + size_of::<usize>()), 0);
    }
}
