//! Segments as memfds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

use memmap2::{Advice, MmapRaw};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Resource, getpid, getrlimit};

use super::{DESCRIPTOR_BITS, Label, MAPPING_CURE, next_serial, nonce};
use crate::error::{Error, Result};
use crate::transport::room::{self, Owner, Room};

/// A segment that this process has made.
pub struct Segment {
    descriptor: OwnedFd,
    len: usize,
    label: Label,
    /// The process. A child that it forks has the segment, too, and must leave it alone.
    maker: Pid,
}

/// A segment's bytes in this process.
pub struct Mapping(MmapRaw);

/// Space is taken in pieces of so much, and before each it is asked how much there is: others take it at the same
/// time.
const PIECE: usize = 4 << 20;

/// Less is not worth the question.
const SMALL: usize = 64 << 10;

impl Segment {
    /// `len` zeroed bytes; at least one.
    ///
    /// Fails where there is no memory, or a limit is hit, with its cure.
    pub fn create(len: usize) -> Result<Segment> {
        check_file_size(len)?;
        let serial = next_serial();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = memfd_create(name(nonce(), serial), flags)
            .map_err(|e| refused("memfd_create", e, len, cure(e)))?;
        let number = descriptor.as_raw_fd() as u32;
        if number >= 1 << DESCRIPTOR_BITS {
            return Err(refused("memfd_create", Errno::MFILE, len, "close some of the process's files"));
        }
        take(&descriptor, len)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(|e| refused("fcntl (F_ADD_SEALS)", e, len, "report this"))?;
        Ok(Segment { descriptor, len, label: Label { descriptor: number, serial }, maker: getpid() })
    }

    /// What peers find it by.
    pub fn label(&self) -> Label {
        self.label
    }

    /// Its bytes.
    pub fn map(&self) -> Result<Mapping> {
        Mapping::of(&self.descriptor).map_err(|e| refused("mmap", e, self.len, MAPPING_CURE))
    }

    /// Whether this process is the one that made it, and not a child of it.
    pub fn is_own(&self) -> bool {
        self.maker == getpid()
    }

    /// Gives its pages back, also those that others still have mapped: they are zero then. In another process
    /// than the one that made it, nothing.
    pub fn give_back(&self) {
        if !self.is_own() {
            return;
        }
        let all = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where it fails the pages go with the last mapping.
        let _ = retry_on_intr(|| fallocate(&self.descriptor, all, 0, self.len as u64));
    }
}

impl Label {
    /// What the link of its descriptor in /proc says, in the process with this nonce and whoever has opened it.
    pub fn link(self, nonce: u64) -> String {
        format!("/memfd:{} (deleted)", name(nonce, self.serial))
    }
}

impl Mapping {
    /// Maps the pages of some of its bytes for writing; whether the system could (Linux from 5.14 on).
    pub fn map_pages(&self, offset: usize, len: usize) -> bool {
        self.0.advise_range(Advice::PopulateWrite, offset, len).is_ok()
    }

    /// Maps a segment, of this process or another.
    pub fn of(segment: &impl AsFd) -> std::result::Result<Mapping, Errno> {
        let segment = segment.as_fd();
        if !fcntl_get_seals(segment)?.contains(SealFlags::SHRINK) {
            return Err(Errno::PERM);
        }
        let map = MmapRaw::map_raw(&segment).map_err(|e| errno(&e))?;
        Ok(Mapping(map))
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        // What is mapped is not at 0.
        NonNull::new(self.0.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn name(nonce: u64, serial: u64) -> String {
    format!("circulant.{nonce:016x}.{serial:x}")
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error)
}

/// What helps where none can be made.
fn cure(error: Errno) -> &'static str {
    match error {
        Errno::MFILE | Errno::NFILE => "raise `ulimit -n`",
        Errno::NOMEM => "free memory, or use smaller or fewer windows",
        _ => {
            "let the container or sandbox allow memfd_create (seccomp, vm.memfd_noexec), or do without shm (CIRCULANT_PROVIDER)"
        }
    }
}

fn refused(call: &str, error: Errno, len: usize, cure: &str) -> Error {
    Error::transport(call, format!("{error}, for shared memory of {len} bytes"), cure)
}

/// Beyond the limit on files the kernel would kill us.
fn check_file_size(len: usize) -> Result<()> {
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < len as u64) {
        return Err(refused("fallocate", Errno::FBIG, len, "ask for less, or raise `ulimit -f`"));
    }
    Ok(())
}

/// Takes space for a whole segment.
fn take(descriptor: &OwnedFd, len: usize) -> Result<()> {
    for at in (0..len).step_by(PIECE) {
        check_room(len, len - at)?;
        let (at, piece) = (at as u64, PIECE.min(len - at) as u64);
        retry_on_intr(|| fallocate(descriptor, FallocateFlags::empty(), at, piece))
            .map_err(|e| refused("fallocate", e, len, Owner::Machine.cure()))?;
    }
    Ok(())
}

/// What a memfd is not limited by would be taken until the kernel kills somebody. `rest` is still to be taken.
fn check_room(len: usize, rest: usize) -> Result<()> {
    match (len > SMALL).then(room::left).flatten().filter(|room| room.bytes < rest as u64) {
        None => Ok(()),
        Some(Room { bytes, of }) => {
            let what = format!("{of} has {bytes} bytes left, for shared memory of {len} bytes");
            Err(Error::transport("fallocate", what, of.cure()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_stays_when_its_maker_gives_it_back() {
        let segment = Segment::create(10_000).unwrap();
        let mapping = segment.map().unwrap();
        // SAFETY: - the mapping has as many bytes, and nobody else knows of them
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) };
        bytes.fill(7);
        segment.give_back();
        drop(segment);
        assert_eq!(bytes, [0; 10_000], "the pages are others");
        bytes.fill(8);
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused_with_its_cure() {
        let error = Segment::create(1 << 50).err().unwrap().to_string();
        assert!(error.contains("for shared memory of 1125899906842624 bytes; ask for less"), "{error}");
    }
}
