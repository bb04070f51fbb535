//! The three structures that PMIx calls take, as versions 3 to 5 of its library lay them out.
#![forbid(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// What a call returns: 0 or an error, which is negative.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ALL_OF_THE_JOB: u32 = u32::MAX - 1;
/// To the ranks of this node and of all others.
pub(super) const GLOBAL: u8 = 3;

const BOOL: u16 = 1;
pub(super) const UINT32: u16 = 14;
pub(super) const BYTE_OBJECT: u16 = 27;

/// `pmix_proc_t`: a rank of a job.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) job: [c_char; 256],
    pub(super) rank: u32,
}

impl Proc {
    pub(super) const NOBODY: Proc = Proc { job: [0; 256], rank: 0 };
}

/// `pmix_value_t`: a number says which part of the union counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// The parts of the union that are used here; the longest has 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) uint32: u32,
    pub(super) bytes: Bytes,
    whole: [u64; 3],
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub(super) start: *mut c_void,
    pub(super) size: usize,
}

impl Value {
    pub(super) fn of_bytes(start: *mut c_void, size: usize) -> Value {
        Value { kind: BYTE_OBJECT, data: Data { bytes: Bytes { start, size } } }
    }
}

/// `pmix_info_t`: a wish.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

impl Info {
    /// What is left by all is brought to all, so that no read waits for another node.
    pub(super) fn collect() -> Info {
        let mut key = [0; 512];
        for (to, &from) in key.iter_mut().zip(b"pmix.collect") {
            *to = from as c_char;
        }
        let mut data = Data { whole: [0; 3] };
        data.flag = true;
        Info { key, flags: 0, value: Value { kind: BOOL, data } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_library() {
        let sizes = [size_of::<Proc>(), size_of::<Value>(), size_of::<Info>(), size_of::<Data>()];
        assert_eq!(sizes, [260, 32, 552, 24]);
    }
}
