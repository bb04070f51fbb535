//! Bytes that stay where they are while others read and write them.
//!
//! The one place that knows raw addresses on this side of a transport. No reference to the bytes is
//! ever given out from here, as a peer may write them at any time: they are copied in and out.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};

use memmap2::{MmapMut, MmapRaw};

use super::copy::{Gait, copy};
use super::segment::{Label, Mapping, Segment};
use crate::error::{Error, Result};

/// A range of memory, owned (zeroed pages) or lent for the length of one call. Clones share it.
#[derive(Clone)]
pub struct Memory(Option<Arc<Range>>);

struct Range {
    start: NonNull<u8>,
    len: usize,
    pages: Pages,
}

/// Bytes that the processor fetches together.
pub const LINE: usize = 64;

thread_local! {
    /// What was lent last, and is nobody's: it saves each call an allocation.
    static SPARE: Cell<Option<Arc<Range>>> = const { Cell::new(None) };
}

/// What keeps a range alive.
enum Pages {
    /// Somebody else, or nobody, as there is nothing.
    Elsewhere,
    /// Pages of this process.
    Private { _map: MmapRaw },
    /// Pages that other processes can map.
    Shared { map: Mapping, segment: Segment },
    /// Pages that another process shares.
    Mapped { map: Mapping },
}

impl Drop for Pages {
    /// A peer may keep them mapped for long, as nobody tells it.
    fn drop(&mut self) {
        if let Pages::Shared { segment, .. } = self {
            segment.give_back();
        }
    }
}

// SAFETY: - the range is plain bytes, and this type gives out copies of them, never references;
//         - who may write which bytes when is agreed between ranks by the engine (readiness), which
//           is what synchronises the copies
unsafe impl Send for Range {}
// SAFETY: as for Send
unsafe impl Sync for Range {}

impl Memory {
    /// `len` zeroed bytes, page-aligned, given back when the last clone is dropped.
    pub fn zeroed(len: usize) -> Result<Memory> {
        if len == 0 {
            return Ok(Memory::nothing());
        }
        let pages = MmapMut::map_anon(len).map_err(|e| {
            Error::transport("mmap", format!("{e}, for {len} bytes"), "ask for less, or raise `ulimit -v`")
        })?;
        let map = MmapRaw::from(pages);
        // Its own pointer: one that is made from a reference to a byte is good for that byte only.
        let start = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Ok(Memory::of(start, len, Pages::Private { _map: map }))
    }

    /// As [`zeroed`](Self::zeroed), in pages that other processes of this machine can map.
    pub(in crate::transport) fn shared(len: usize) -> Result<Memory> {
        if len == 0 {
            return Ok(Memory::nothing());
        }
        let segment = Segment::create(len)?;
        let map = segment.map()?;
        Ok(Memory::of(map.start(), len, Pages::Shared { map, segment }))
    }

    /// What of another process is mapped here.
    pub(in crate::transport) fn mapped(map: Mapping) -> Memory {
        Memory::of(map.start(), map.len(), Pages::Mapped { map })
    }

    /// No bytes at all. Costs nothing.
    pub fn nothing() -> Memory {
        Memory(None)
    }

    fn of(start: NonNull<u8>, len: usize, pages: Pages) -> Memory {
        Memory(Some(Arc::new(Range { start, len, pages })))
    }

    /// What other processes find the pages by, where they can map them.
    pub(in crate::transport) fn label(&self) -> Option<Label> {
        match &self.0.as_ref()?.pages {
            Pages::Shared { segment, .. } => Some(segment.label()),
            Pages::Elsewhere | Pages::Private { .. } | Pages::Mapped { .. } => None,
        }
    }

    /// Lends `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes must stay valid for reads, and for writes where any is made here or put here, and nothing but this `Memory` and those it was
    /// given to may touch them, until the last clone is dropped.
    pub unsafe fn lend(start: NonNull<u8>, len: usize) -> Memory {
        // Neither here nor below is there one while the thread ends.
        let Some(range) = SPARE.try_with(Cell::take).unwrap_or_default() else {
            return Memory::of(start, len, Pages::Elsewhere);
        };
        // SAFETY: - nobody else has it: whoever left it there was alone with it (`return_loan`)
        //         - what is overwritten needs no drop: it is a loan that is over
        unsafe { Arc::as_ptr(&range).cast_mut().write(Range { start, len, pages: Pages::Elsewhere }) };
        Memory(Some(range))
    }

    /// The loan is over: where nobody else has it, its place in the heap is for this thread's next one.
    pub fn return_loan(self) {
        let is_loan = |range: &Arc<Range>| matches!(range.pages, Pages::Elsewhere);
        if self.0.as_ref().is_some_and(is_loan) && self.holders() == 1 {
            // What others did with it is over before it is anybody's again.
            fence(Ordering::Acquire);
            let _ = SPARE.try_with(|spare| spare.set(self.0));
        }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |range| range.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the first byte.
    pub fn address(&self) -> NonNull<u8> {
        self.0.as_ref().map_or(NonNull::dangling(), |range| range.start)
    }

    /// How many clones there are: 1 says that no transport holds it any more.
    pub fn holders(&self) -> usize {
        self.0.as_ref().map_or(1, Arc::strong_count)
    }

    /// Copies bytes out, from `offset`. Panics where the range is exceeded, as slices do.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        // SAFETY: - the source is in the range (checked) and alive (self holds it)
        //         - a Rust slice cannot overlap memory that only `Memory` gives access to
        unsafe { copy(self.address().as_ptr().add(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Some words, as they lie. Panics where the range is exceeded, as slices do.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        self.check(offset, size_of::<[u64; N]>());
        // SAFETY: - the words are in the range (checked) and alive (self holds it); every pattern of bits is some
        unsafe { self.address().as_ptr().add(offset).cast::<[u64; N]>().read_unaligned() }
    }

    /// Writes the same into every byte of what is new, and nobody else's: whether it was.
    #[must_use]
    pub fn fill(&mut self, byte: u8) -> bool {
        match self.0.as_mut().and_then(Arc::get_mut) {
            Some(&mut Range { start, len, pages: Pages::Private { .. } | Pages::Shared { .. } }) => {
                // SAFETY: - the range has so many bytes, which are this process's to write, and no clone is left through
                //           which another thread could reach them; a peer puts there only where that is agreed
                unsafe { start.as_ptr().write_bytes(byte, len) };
                true
            }
            _ => self.is_empty(),
        }
    }

    /// Copies bytes in, at `offset`. Panics where the range is exceeded, as slices do.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        self.check(offset, from.len());
        // SAFETY: as in `read`, the other way
        unsafe { copy(from.as_ptr(), self.address().as_ptr().add(offset), from.len()) }
    }

    /// Copies `len` bytes from `from` of another memory to `to` of this one. Panics where a range is exceeded.
    pub(crate) fn copy(&self, to: usize, other: &Memory, from: usize, len: usize) {
        self.copy_in(Gait::Straight, to, other, from, len);
    }

    /// The same in some gait.
    pub(crate) fn copy_in(&self, gait: Gait, to: usize, other: &Memory, from: usize, len: usize) {
        self.check(to, len);
        other.check(from, len);
        // SAFETY: - both ranges are checked and alive
        //         - all gaits allow that they overlap
        unsafe { gait.copy()(other.address().as_ptr().add(from), self.address().as_ptr().add(to), len) }
    }

    /// Has the processor fetch the cache lines of some bytes, as far as they lie in the range, without waiting for them.
    pub(crate) fn prefetch(&self, at: usize, len: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for at in (at..self.len().min(at.saturating_add(len))).step_by(LINE) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: - a hint, which reads and writes nothing; the byte is in the range (checked) besides
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.address().as_ptr().add(at).cast()) }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (at, len);
    }

    /// Has the processor take the cache lines of some bytes away from others, as far as they lie in the range, as they are
    /// about to be written.
    pub(crate) fn claim(&self, at: usize, len: usize) {
        let end = self.len().min(at.saturating_add(len));
        let lines = (at - at % LINE..end).step_by(LINE);
        claim_lines(lines.map(|at| self.address().as_ptr().wrapping_add(at).cast_const()));
    }

    /// Has the system map the pages of some bytes for writing at once, and not each as it is first written; whether it has.
    pub(crate) fn map_pages(&self, at: usize, len: usize) -> bool {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len());
        match self.0.as_ref().map(|range| &range.pages) {
            Some(Pages::Shared { map, .. } | Pages::Mapped { map }) if fits => map.map_pages(at, len),
            _ => false,
        }
    }

    /// A byte that a peer may be writing as a message's [seal](crate::transport::Message::seal): what it wrote before is
    /// seen with it. Panics where the range is exceeded, as slices do.
    pub(crate) fn seal(&self, at: usize) -> u8 {
        self.check(at, 1);
        // SAFETY: - the byte is in the range (checked) and alive (self holds it)
        //         - while a peer may write it, it does so in this way, and everybody reads it in this way
        unsafe { AtomicU8::from_ptr(self.address().as_ptr().add(at)) }.load(Ordering::Acquire)
    }

    /// Writes 0 where a [seal](Self::seal) will be. Panics where the range is exceeded, as slices do.
    pub(crate) fn unseal(&self, at: usize) {
        self.check(at, 1);
        // SAFETY: - the byte is in the range (checked) and alive (self holds it)
        //         - everybody reads and writes it in this way until it is a seal
        unsafe { AtomicU8::from_ptr(self.address().as_ptr().add(at)) }.store(0, Ordering::Relaxed);
    }

    /// Lets `act` change `len` bytes from `at` on. Panics where the range is exceeded, as slices do.
    pub(crate) fn change<R>(&self, at: usize, len: usize, act: impl FnOnce(&mut [u8]) -> R) -> R {
        self.check(at, len);
        // SAFETY: - the range is checked, and alive (self holds it)
        //         - nobody else touches it meanwhile: the engine changes a block that no put reads or
        //           writes any more, on the one thread that drives it; or one of a peer's, which has said that it
        //           leaves it alone until it is told
        act(unsafe { std::slice::from_raw_parts_mut(self.address().as_ptr().add(at), len) })
    }

    /// Lets `act` change `len` bytes from `at` on, given as many from `from` of another memory. Panics where
    /// a range is exceeded or the two overlap.
    pub(crate) fn combine<R>(
        &self,
        at: usize,
        other: &Memory,
        from: usize,
        len: usize,
        act: impl FnOnce(&mut [u8], &[u8]) -> R,
    ) -> R {
        other.check(from, len);
        self.change(at, len, |mine| {
            let theirs = other.address().as_ptr().wrapping_add(from);
            let mine_end = mine.as_ptr().addr() + len;
            assert!(
                mine_end <= theirs.addr() || theirs.addr() + len <= mine.as_ptr().addr(),
                "bytes combined with themselves"
            );
            // SAFETY: - the range is checked, alive (other holds it), and apart from `mine`
            //         - nobody writes it meanwhile: a slot, or what is shown, is its source's again when told, and
            //           one that shuts down waits for who reads (`Transport::while_shown`)
            act(mine, unsafe { std::slice::from_raw_parts(theirs, len) })
        })
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len()),
            "bytes {offset}..+{len} of a memory of {} bytes",
            self.len()
        );
    }
}

/// Has the processor take cache lines away from others, each by an address on it, as they are about to be written.
#[inline]
pub(in crate::transport) fn claim_lines(addresses: impl Iterator<Item = *const u8>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::is_x86_feature_detected!("avx") {
        addresses.for_each(claim_line);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = addresses;
}

/// The same of one line, where the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(in crate::transport) fn claim_line(address: *const u8) {
    // SAFETY: - a hint, which reads and writes nothing, wherever the address is; processors with AVX know it, or pass over it
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let memory = Memory::zeroed(10_000).unwrap();
        memory.write(9_990, b"0123456789");
        let mut out = [0; 4];
        memory.read(9_993, &mut out);
        assert_eq!(&out, b"3456");
        assert_eq!(memory.holders(), 1);
    }

    #[test]
    fn nothing_is_a_memory_too() {
        Memory::zeroed(0).unwrap().read(0, &mut []);
    }

    /// Pages of this thread that the system has had to map as they were touched.
    #[cfg(not(miri))]
    fn faults() -> usize {
        let told = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        told.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(not(miri))]
    fn pages_that_are_mapped_at_once_are_not_when_they_are_written() {
        const PAGES: usize = 512;
        const PAGE: usize = 4096;
        let memory = Memory::shared(PAGES * PAGE).unwrap();
        assert!(!memory.map_pages(PAGE, PAGES * PAGE), "beyond its end");
        // Linux before 5.14 does not know how.
        if memory.map_pages(0, PAGES * PAGE) {
            let before = faults();
            (0..PAGES).for_each(|page| memory.write(page * PAGE, &[1]));
            assert!(faults() - before < PAGES / 8);
        }
    }

    #[test]
    fn a_loan_takes_the_place_of_the_last_one_unless_somebody_has_that_still() {
        let (mut four, mut eight) = ([0_u8; 4], [0_u8; 8]);
        // SAFETY: the arrays outlive what is lent, and nobody writes there
        let lend = |bytes: &mut [u8]| unsafe { Memory::lend(NonNull::from(&mut *bytes).cast(), bytes.len()) };
        let first = lend(&mut four);
        let kept = first.clone();
        first.return_loan();
        let second = lend(&mut eight);
        assert_eq!((kept.len(), kept.holders(), second.len(), second.holders()), (4, 1, 8, 1));
        second.return_loan();
        let third = lend(&mut four);
        assert_eq!((third.len(), third.holders()), (4, 1));
    }

    #[test]
    #[should_panic(expected = "of a memory of 8 bytes")]
    fn what_exceeds_the_range_is_refused() {
        Memory::zeroed(8).unwrap().write(usize::MAX, b"x");
    }
}
