//! Arithmetic of 16-bit floats: each step is done in f32 and rounded to the nearest, ties to even.
//!
//! It knows no operators; a closure over f32 says which. The one decision: bf16 is computed in pairs, each
//! in its half of a 32-bit word, so that no vector is ever widened or narrowed. f16 is converted by the
//! processor, eight at a time, as half's conversions of slices come to a seventh of that; they do the rest.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use multiversion::multiversion;
use multiversion::target::match_target;

use super::loops::each;

/// Elements that are converted at a time: both buffers of them stay in the first-level cache.
const STEP: usize = 512;

/// `mine = f(mine, theirs)`, element by element.
#[multiversion(targets("x86_64+avx+f16c"))]
pub(super) fn each_f16<F: Fn(f32, f32) -> f32>(mine: &mut [f16], theirs: &[f16], f: F) {
    match_target! {
        "x86_64+avx+f16c" => {
            use std::arch::x86_64::{__m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};
            let (eights, rest) = mine.as_chunks_mut::<8>();
            let (their_eights, their_rest) = theirs.as_chunks::<8>();
            for (mine, theirs) in eights.iter_mut().zip(their_eights) {
                let a: [f32; 8] = bytemuck::cast(_mm256_cvtph_ps(bytemuck::cast(*mine)));
                let b: [f32; 8] = bytemuck::cast(_mm256_cvtph_ps(bytemuck::cast(*theirs)));
                let result: __m256 = bytemuck::cast(std::array::from_fn::<f32, 8, _>(|i| f(a[i], b[i])));
                *mine = bytemuck::cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(result));
            }
            through_f32(rest, their_rest, f)
        }
        _ => through_f32(mine, theirs, f),
    }
}

fn through_f32(mine: &mut [f16], theirs: &[f16], f: impl Fn(f32, f32) -> f32) {
    let (mut wide, mut other) = ([0.0; STEP], [0.0; STEP]);
    for (mine, theirs) in mine.chunks_mut(STEP).zip(theirs.chunks(STEP)) {
        let (wide, other) = (&mut wide[..mine.len()], &mut other[..mine.len()]);
        mine.convert_to_f32_slice(wide);
        theirs.convert_to_f32_slice(other);
        each(wide, other, &f);
        mine.convert_from_f32_slice(wide);
    }
}

/// `mine = f(mine, theirs)`, element by element.
pub(super) fn each_bf16(mine: &mut [bf16], theirs: &[bf16], f: impl Fn(f32, f32) -> f32) {
    let (their_head, their_pairs, their_tail) = bytemuck::pod_align_to::<bf16, u32>(theirs);
    let (head, pairs, tail) = bytemuck::pod_align_to_mut::<bf16, u32>(mine);
    if head.len() == their_head.len() && pairs.len() == their_pairs.len() {
        each(head, their_head, |a, b| one(a, b, &f));
        each(pairs, their_pairs, |a, b| two(a, b, &f));
        each(tail, their_tail, |a, b| one(a, b, &f));
    } else {
        each(mine, theirs, |a, b| one(a, b, &f));
    }
}

#[inline]
fn one(a: bf16, b: bf16, f: impl Fn(f32, f32) -> f32) -> bf16 {
    bf16::from_bits((rounded(f(a.to_f32(), b.to_f32())) >> 16) as u16)
}

/// Two at once: one in the upper half of the word, one in the lower.
#[inline]
fn two(a: u32, b: u32, f: impl Fn(f32, f32) -> f32) -> u32 {
    const UPPER: u32 = 0xffff_0000;
    let upper = f(f32::from_bits(a & UPPER), f32::from_bits(b & UPPER));
    let lower = f(f32::from_bits(a << 16), f32::from_bits(b << 16));
    rounded(upper) & UPPER | rounded(lower) >> 16
}

/// Bits whose upper half is the nearest bf16, the even one of two.
///
/// A NaN needs no care, as its lower half is zero: it is one of the operands', or the processor's own.
#[inline]
fn rounded(x: f32) -> u32 {
    let bits = x.to_bits();
    bits.wrapping_add(0x7fff + (bits >> 16 & 1))
}
