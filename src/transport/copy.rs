//! Copies between cores' caches, by plain vector loads and stores; and past them, where they hold too little.
//!
//! What the C library takes for runs of some KiB is one instruction on most processors (`rep movsb`), up to the size of the
//! second-level cache on AMD's. On some of them (from Zen 3 on) its speed depends on where in their pages source and target
//! begin, and on whose cache the lines are in: chunks of 16 KiB from core to core take then 2.7 times as long (two ranks,
//! broadcast of 256 KiB: 23 µs and 8.7), 512 KiB that begin at bytes 4 and 8 of a page 13 times. It is known as
//! <https://sourceware.org/bugzilla/show_bug.cgi?id=30994>. What goes straight in runs of 1 MiB and more is the C library's,
//! which goes past the caches where that is better; and on Intel's processors what [rests](Gait::AtRest).

use std::ops::Range;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::abreast::PAGE;
use crate::processor::{Maker, maker};

/// Copies bytes from one place to another.
pub type CopyFn = unsafe fn(*const u8, *mut u8, usize);

/// How bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gait {
    /// One after the other.
    Straight,
    /// The same, by what is faster on Intel's processors where all lines rest in this core's cache.
    AtRest,
    /// Two pages abreast, as all that a call touches is about as large as a core's own cache.
    Abreast,
    /// Past the caches, which do not hold them until they are looked for.
    PastCaches,
}

impl Gait {
    /// What copies so.
    pub(crate) fn copy(self) -> CopyFn {
        match self {
            Gait::Straight => copy,
            Gait::AtRest => copy_at_rest,
            Gait::Abreast => copy_abreast,
            Gait::PastCaches => copy_past_caches,
        }
    }
}

/// Copies `len` bytes past the caches, which do not hold them until they are looked for: nothing of the target is fetched
/// only to be overwritten. What is told after it is seen after it, as after a plain copy.
///
/// # Safety
/// As [`copy`].
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promises
    unsafe { copy_past_caches_from(LONG, from, to, len) }
}

/// The same of shorter runs, too: where the target's lines are in the cache of a core that is far, to take them from it takes
/// longer than what a longer run costs in a cache that holds all of it.
///
/// # Safety
/// As [`copy`].
pub unsafe fn copy_afar(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promises
    unsafe { copy_past_caches_from(AFAR, from, to, len) }
}

/// From where on a run goes past the caches where that is wanted.
const LONG: usize = 64 << 10;
/// And where lines are far.
const AFAR: usize = 1 << 10;

/// # Safety
/// As [`copy`].
#[cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    expect(unused_variables, reason = "nothing goes past")
)]
unsafe fn copy_past_caches_from(least: usize, from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= least.max(2 * x86_64::STEP) && std::is_x86_feature_detected!("avx") {
        // SAFETY: - as the caller promises; the processor has the instructions, and there are two steps (both checked)
        return unsafe { x86_64::copy_past_caches(from, to, len) };
    }
    // SAFETY: as the caller promises
    unsafe { copy(from, to, len) }
}

/// Copies `len` bytes.
///
/// # Safety
/// The bytes at `from` must be good for reads, those at `to` for writes, and nobody else may write them meanwhile. They may
/// overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if x86_64::LENGTHS.contains(&len) && std::is_x86_feature_detected!("avx") {
        // SAFETY: - as the caller promises; the processor has the instructions (checked)
        return unsafe { x86_64::copy(from, to, len) };
    }
    // SAFETY: as the caller promises
    unsafe { std::ptr::copy(from, to, len) }
}

/// So many bytes the C library's one instruction copies faster on Intel's processors where all lines rest, and they go straight by a loop
/// else. Two ranks on a Xeon guest (family 6, model 207), beside this loop with all lines claimed: windows of 256 KiB and 1 MiB that rest
/// take 0.77 to 1.0 of the time; what is new would take up to 1.17.
pub const TWO_WAYS: Range<usize> = 16 << 10..1 << 20;

/// Whether to copy so many bytes [straight](Gait::Straight) or [as what rests](Gait::AtRest) is not the same.
#[inline]
pub fn has_two_ways(len: usize) -> bool {
    TWO_WAYS.contains(&len) && maker() == Maker::Intel
}

/// Copies `len` bytes where all lines rest in this core's cache.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_at_rest(from: *const u8, to: *mut u8, len: usize) {
    if has_two_ways(len) {
        // SAFETY: as the caller promises
        return unsafe { std::ptr::copy(from, to, len) };
    }
    // SAFETY: as the caller promises
    unsafe { copy(from, to, len) }
}

/// Copies them two pages abreast.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_abreast(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= 2 * PAGE && std::is_x86_feature_detected!("avx") {
        // SAFETY: - as the caller promises; the processor has the instructions, and there are two pages, which are many steps
        //           (both checked)
        return unsafe { x86_64::copy_abreast(from, to, len) };
    }
    // SAFETY: as the caller promises
    unsafe { copy(from, to, len) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, _mm_sfence, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
    };
    use std::ops::Range;

    use super::PAGE;
    use crate::processor::{Maker, maker};
    use crate::transport::memory::{LINE, claim_line};

    /// Where the C library may take the one instruction: up to the size of a core's own cache on AMD's processors, which is
    /// 1 MiB on EPYC 9004.
    pub const LENGTHS: Range<usize> = 1 << 10..1 << 20;
    /// Bytes of a step: a few lines, all of which are loaded before any is stored.
    pub const STEP: usize = 128;
    const VECTOR: usize = size_of::<__m256i>();
    /// So many bytes before a line of the target is written one of Intel's processors is told to take it away from whoever has it:
    /// by stores alone it asks for few lines at a time. Two ranks on that Xeon guest, slices of 4 to 512 KiB: 0.8 to 0.95 of the time,
    /// with 1 KiB as with 2. On EPYC 9004 messages of 2 KiB took 1.1 of it, all of whose lines were claimed.
    const AHEAD: usize = 2 << 10;

    /// Copies `len` bytes, at least a step, as suits the processor.
    ///
    /// # Safety
    /// As [`super::copy`], and the processor must have AVX.
    #[target_feature(enable = "avx")]
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let claimed = if maker() == Maker::Intel { len } else { 0 };
        // SAFETY: as the caller promises
        unsafe { copy_claiming(from, to, len, claimed) }
    }

    /// The same; lines of the first `claimed` bytes are claimed. But for the first step the target is aligned to its lines: stores
    /// that lie in two of them each take twice as long, wherever the source begins (on that Xeon, 8 to 512 KiB within a cache).
    ///
    /// # Safety
    /// As [`copy`].
    #[inline]
    #[target_feature(enable = "avx")]
    pub unsafe fn copy_claiming(from: *const u8, to: *mut u8, len: usize, claimed: usize) {
        // Steps overwrite what later ones read where the target begins within the source, or closely before it.
        if from.addr().abs_diff(to.addr()) < len {
            // SAFETY: as the caller promises
            return unsafe { std::ptr::copy(from, to, len) };
        }
        let last = len - STEP;
        let claim = |lines: Range<usize>| {
            (lines.start..lines.end.min(claimed))
                .step_by(LINE)
                .for_each(|at| claim_line(to.wrapping_add(at)));
        };
        let mut at = to.addr().wrapping_neg() % LINE;
        claim(0..at);
        claim(at..at + AHEAD);
        if at > 0 {
            // SAFETY: - the first step's bytes
            unsafe { step(from, to) };
        }
        while at < last {
            claim(at + AHEAD..at + AHEAD + STEP);
            // SAFETY: - there is a step's bytes from `at` on (`last`)
            unsafe { step(from.add(at), to.add(at)) };
            at += STEP;
        }
        // SAFETY: - the last step's bytes, of which some may be copied twice
        unsafe { step(from.add(last), to.add(last)) };
    }

    /// The same, two pages in turns; what is left of less than two pages goes straight. A turn writes whole lines of the target:
    /// where lines are begun and go on when the other page has had its turn, a copy takes 1.3 times as long if a peer has read
    /// them.
    ///
    /// # Safety
    /// As [`copy`], and there must be a step's bytes at least.
    #[target_feature(enable = "avx")]
    pub unsafe fn copy_abreast(from: *const u8, to: *mut u8, len: usize) {
        if from.addr().abs_diff(to.addr()) < len {
            // SAFETY: as the caller promises
            return unsafe { std::ptr::copy(from, to, len) };
        }
        // From where on the target is aligned to its lines: within the first step.
        let start = to.addr().wrapping_neg() % LINE;
        if start > 0 {
            // SAFETY: - the first step's bytes
            unsafe { step(from, to) };
        }
        let end = len - (len - start) % (2 * PAGE);
        for two in (start..end).step_by(2 * PAGE) {
            for at in (two..two + PAGE).step_by(STEP) {
                // SAFETY: - there are two pages from `two` on (`end`), and in each of them a step's bytes from here on
                unsafe {
                    step(from.add(at), to.add(at));
                    step(from.add(at + PAGE), to.add(at + PAGE));
                }
            }
        }
        // SAFETY: - the bytes behind these pages, as the caller promises
        unsafe { super::copy(from.add(end), to.add(end), len - end) }
    }

    /// The same past the caches, at least two steps.
    ///
    /// # Safety
    /// As [`copy`].
    #[target_feature(enable = "avx")]
    pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
        if from.addr().abs_diff(to.addr()) < len {
            // SAFETY: as the caller promises
            return unsafe { std::ptr::copy(from, to, len) };
        }
        let last = len - STEP;
        // From where on the target is aligned: within the first step.
        let mut at = to.addr().wrapping_neg() % STEP;
        if at > 0 {
            // SAFETY: - the first step's bytes
            unsafe { step(from, to) };
        }
        while at < last {
            // SAFETY: - there is a step's bytes from `at` on (`last`), and the target is aligned there
            unsafe { step_past_caches(from.add(at), to.add(at)) };
            at += STEP;
        }
        // Before anything else is written there, or told: such stores are seen in any order otherwise.
        #[allow(unused_unsafe, reason = "compilers before 1.94 want it")]
        // SAFETY: - it only keeps an order
        unsafe {
            _mm_sfence();
        }
        // SAFETY: - the last step's bytes, of which some may be copied twice
        unsafe { step(from.add(last), to.add(last)) };
    }

    /// # Safety
    /// There must be a step's bytes on both sides, and AVX.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn step(from: *const u8, to: *mut u8) {
        // SAFETY: - four vectors are a step
        unsafe {
            let load = |i: usize| _mm256_loadu_si256(from.add(i * VECTOR).cast());
            let all = [load(0), load(1), load(2), load(3)];
            for (i, vector) in all.into_iter().enumerate() {
                _mm256_storeu_si256(to.add(i * VECTOR).cast(), vector);
            }
        }
    }

    /// # Safety
    /// As [`step`], and the target must be aligned to a step.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn step_past_caches(from: *const u8, to: *mut u8) {
        // SAFETY: - four vectors are a step, and each begins where it must
        unsafe {
            let load = |i: usize| _mm256_loadu_si256(from.add(i * VECTOR).cast());
            let all = [load(0), load(1), load(2), load(3)];
            for (i, vector) in all.into_iter().enumerate() {
                _mm256_stream_si256(to.add(i * VECTOR).cast(), vector);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::memory::LINE;

    const LENGTHS: [usize; 38] = [
        0, 1, 127, 128, 129, 191, 192, 255, 1023, 1024, 1025, 1151, 1152, 2176, 4096, 5000, 8191, 8192, 8193,
        8255, 8256, 8319, 9216, 16_383, 16_384, 16_385, 65_535, 65_536, 65_663, 262_143, 262_144, 262_145,
        300_001, 524_288, 720_896, 720_897, 1_048_575, 1_048_576,
    ];
    const WAYS: [CopyFn; 7] = [
        copy,
        copy_at_rest,
        copy_claiming::<true>,
        copy_claiming::<false>,
        copy_abreast,
        copy_past_caches,
        copy_afar,
    ];

    /// As on one maker's processors or another's.
    unsafe fn copy_claiming<const ALL: bool>(from: *const u8, to: *mut u8, len: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if len >= x86_64::STEP && std::is_x86_feature_detected!("avx") {
            // SAFETY: - as the caller promises; there is a step, and the processor has the instructions (both checked)
            return unsafe { x86_64::copy_claiming(from, to, len, if ALL { len } else { 0 }) };
        }
        // SAFETY: as the caller promises
        unsafe { copy(from, to, len) }
    }

    fn numbers(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    #[test]
    fn runs_of_all_lengths_are_copied_and_nothing_beside_them() {
        for len in if cfg!(miri) { &LENGTHS[..3] } else { &LENGTHS[..] } {
            for ((skew, start), copy) in
                [(0, 0), (1, 1), (0, 17), (63, 63)].into_iter().flat_map(|at| WAYS.map(|copy| (at, copy)))
            {
                let (from, mut to) = (numbers(len + skew), vec![7; LINE + start + len + 9]);
                // So far behind the beginning of a line.
                let start = start + to.as_ptr().align_offset(LINE);
                // SAFETY: - there is room behind `start` for all bytes behind `skew`
                unsafe { copy(from.as_ptr().add(skew), to.as_mut_ptr().add(start), *len) };
                assert!(to[start..start + len] == from[skew..], "{len} bytes");
                assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 7), "{len} bytes");
            }
        }
    }

    #[test]
    fn runs_that_overlap_are_copied_as_they_were() {
        for (len, copy) in (if cfg!(miri) { &LENGTHS[1..3] } else { &LENGTHS[1..] })
            .iter()
            .flat_map(|len| WAYS.map(|copy| (len, copy)))
        {
            for (from, to) in
                [(0, 1), (1, 0), (0, len / 2), (len / 2, 0), (0, 0), (0, len - 1), (0, *len), (*len, 0)]
            {
                let mut bytes = numbers(2 * len);
                let expected = bytes[from..from + len].to_vec();
                let start = bytes.as_mut_ptr();
                // SAFETY: - both runs lie in the bytes
                unsafe { copy(start.add(from), start.add(to), *len) };
                assert!(bytes[to..to + len] == expected, "{len} bytes from {from} to {to}");
            }
        }
    }
}
