//! Copies straight into another process's private memory, and out of it, by the kernel.

use std::ffi::c_ulong;

use libc::iovec;
use rustix::io::Errno;
use rustix::process::Pid;

use super::home::Missing;
use crate::error::Error;
use crate::rank::Rank;
use crate::transport::Segment;

/// The most segments of a put.
pub const SEGMENTS: usize = 32;

/// Copies segments from `start` on, at most [`SEGMENTS`], into one run at `address` of a process.
///
/// # Safety
/// The segments must lie in memory that is alive and that nobody writes meanwhile.
pub unsafe fn write(
    pid: Pid,
    start: *const u8,
    segments: &[Segment],
    address: u64,
) -> std::result::Result<(), Errno> {
    let mut sources = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SEGMENTS];
    let mut count = 0;
    for segment in segments.iter().filter(|segment| segment.len > 0) {
        let base = start.wrapping_add(segment.offset);
        sources[count] = iovec { iov_base: base.cast_mut().cast(), iov_len: segment.len };
        count += 1;
    }
    let pid = pid.as_raw_pid();
    // SAFETY: - the sources are as the caller promises, and as many as are told
    //         - the target is another process's, which the kernel checks
    copy(&mut sources[..count], address, |own, there| unsafe {
        libc::process_vm_writev(pid, own.as_ptr(), own.len() as c_ulong, there, 1, 0)
    })
}

/// Copies `len` bytes at `address` of a process to `into`.
///
/// # Safety
/// There must be room, which nobody else reads or writes meanwhile.
pub unsafe fn read(pid: Pid, address: u64, into: *mut u8, len: usize) -> std::result::Result<(), Errno> {
    let pid = pid.as_raw_pid();
    // SAFETY: - there is room for as much as is told (the caller's promise)
    //         - the source is another process's, which the kernel checks
    copy(&mut [iovec { iov_base: into.cast(), iov_len: len }], address, |own, there| unsafe {
        libc::process_vm_readv(pid, own.as_ptr(), own.len() as c_ulong, there, 1, 0)
    })
}

/// Lets the kernel copy between own memory and one run at an address of another process, until all is done.
fn copy(
    mut own: &mut [iovec],
    address: u64,
    mut call: impl FnMut(&[iovec], &iovec) -> isize,
) -> std::result::Result<(), Errno> {
    let mut address = address as usize;
    while !own.is_empty() {
        let len = own.iter().map(|run| run.iov_len).sum();
        let there = iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: len };
        let copied = usize::try_from(call(own, &there)).map_err(|_| last_error())?;
        if copied == 0 {
            return Err(Errno::FAULT);
        }
        address += copied;
        own = behind(own, copied);
    }
    Ok(())
}

/// What is left of runs of which so many bytes are copied.
fn behind(runs: &mut [iovec], mut copied: usize) -> &mut [iovec] {
    let mut done = 0;
    while done < runs.len() && runs[done].iov_len <= copied {
        copied -= runs[done].iov_len;
        done += 1;
    }
    let rest = &mut runs[done..];
    if let Some(first) = rest.first_mut() {
        first.iov_base = first.iov_base.wrapping_byte_add(copied);
        first.iov_len -= copied;
    }
    rest
}

/// Why the kernel has not copied so many bytes between this rank and another.
pub fn failed(call: &str, error: Errno, len: usize, name: Rank) -> Error {
    match error {
        Errno::SRCH => Missing::Gone(error).of(name, "process"),
        _ => {
            let what = format!("{error}, {len} bytes, with rank {name}");
            Error::transport(call, what, "CIRCULANT_SHM_COPY=ring does without")
        }
    }
}

fn last_error() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_in_part_goes_on_where_it_stopped() {
        let mut sources = [3, 5].map(|iov_len| iovec { iov_base: std::ptr::null_mut(), iov_len });
        let rest = behind(&mut sources, 4);
        assert_eq!((rest.len(), rest[0].iov_len, rest[0].iov_base as usize), (1, 4, 1));
        assert!(behind(rest, 4).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no process_vm_writev")]
    fn nothing_at_an_address_is_an_error_and_no_crash() {
        let bytes = [1_u8; 8];
        let segments = [Segment { offset: 0, len: 8 }];
        let own = rustix::process::getpid();
        // SAFETY: - the segment is the array
        assert_eq!(unsafe { write(own, bytes.as_ptr(), &segments, 8) }, Err(Errno::FAULT));
        let mut target = [0_u8; 8];
        // SAFETY: as above, and the target is an array of as many bytes
        let written = unsafe { write(own, bytes.as_ptr(), &segments, target.as_mut_ptr() as u64) };
        assert_eq!((written, target), (Ok(()), bytes));
        let mut back = [0_u8; 8];
        // SAFETY: - there is room for 8 bytes, and they are not read meanwhile
        let mut fetch = |address| unsafe { read(own, address, back.as_mut_ptr(), 8) };
        assert_eq!((fetch(8), fetch(target.as_ptr() as u64)), (Err(Errno::FAULT), Ok(())));
        assert_eq!(back, bytes);
    }
}
