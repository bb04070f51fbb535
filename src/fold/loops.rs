//! The loops: two slices, combined element by element.
//!
//! Plain Rust that the compiler vectorises; it never names a type or an operator. Two decisions: every
//! loop is compiled for AVX-512, for AVX2 and for any machine, and chosen at run time, because SSE2 alone
//! has no minimum of 64-bit integers, no widening and no blending (`benches/folds.rs` measures it); and what fills a core's
//! own cache goes two pages [abreast](crate::abreast).

use multiversion::multiversion;

use crate::abreast::{PAGE, suits_fold};

/// Bytes of one page before it is the other's turn: whole lines. With 128 sums take as long, but minima of floats 1.08 times as
/// long as with this (512 KiB, one core).
const TURN: usize = 256;

/// `mine = f(mine, theirs)`, element by element, as far as both reach.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(super) fn each<T: Copy, F: Fn(T, T) -> T>(mine: &mut [T], theirs: &[T], f: F) {
    let len = mine.len().min(theirs.len());
    let (mine, theirs) = (&mut mine[..len], &theirs[..len]);
    let divides_a_turn = size_of::<T>() > 0 && TURN.is_multiple_of(size_of::<T>());
    if divides_a_turn && suits_fold(size_of_val(theirs)) {
        abreast(mine, theirs, &f);
    } else {
        straight(mine, theirs, &f);
    }
}

/// Two pages in turns, from where a turn begins with a line; straight what is before that, and what is left of less than two
/// pages.
#[inline(always)]
fn abreast<T: Copy>(mine: &mut [T], theirs: &[T], f: &impl Fn(T, T) -> T) {
    let (page, turn) = (PAGE / size_of::<T>(), TURN / size_of::<T>());
    // Where none ever does, all goes straight.
    let start = mine.as_ptr().align_offset(TURN).min(mine.len());
    let ((head, mine), (their_head, theirs)) = (mine.split_at_mut(start), theirs.split_at(start));
    straight(head, their_head, f);
    let (mut pairs, mut their_pairs) = (mine.chunks_exact_mut(2 * page), theirs.chunks_exact(2 * page));
    for (mine, theirs) in pairs.by_ref().zip(their_pairs.by_ref()) {
        let ((one, other), (their_one, their_other)) = (mine.split_at_mut(page), theirs.split_at(page));
        let ones = one.chunks_exact_mut(turn).zip(their_one.chunks_exact(turn));
        let others = other.chunks_exact_mut(turn).zip(their_other.chunks_exact(turn));
        for ((one, their_one), (other, their_other)) in ones.zip(others) {
            straight(one, their_one, f);
            straight(other, their_other, f);
        }
    }
    straight(pairs.into_remainder(), their_pairs.remainder(), f);
}

#[inline(always)]
fn straight<T: Copy>(mine: &mut [T], theirs: &[T], f: &impl Fn(T, T) -> T) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = f(*mine, *theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_serially<T: Copy + PartialEq>(
        len: usize,
        theirs: usize,
        value: impl Fn(usize) -> T,
        f: fn(T, T) -> T,
    ) {
        let mut mine: Vec<T> = (0..len).map(&value).collect();
        let theirs: Vec<T> = (0..theirs).map(|i| value(3 * i + 1)).collect();
        let serial: Vec<T> =
            (0..len).map(|i| theirs.get(i).map_or(mine[i], |&theirs| f(mine[i], theirs))).collect();
        each(&mut mine, &theirs, f);
        assert!(mine == serial, "{len} elements of {} bytes, {} others", size_of::<T>(), theirs.len());
    }

    /// Elements of so many bytes, whole pairs of pages of them and less, of slices that go abreast and that do not.
    fn of_bytes<const N: usize>() {
        let value = |i: usize| std::array::from_fn(|at| (i * 31 + i / 251 + at) as u8);
        let add = |a: [u8; N], b: [u8; N]| std::array::from_fn(|at| a[at].wrapping_add(b[at]));
        for bytes in
            [0, 300, 32 << 10, 256 << 10, (256 << 10) + 4096 + 300, 300_007, 704 << 10, (704 << 10) + 4096]
        {
            let len = bytes / N;
            as_serially(len, len, value, add);
            as_serially(len, len.saturating_sub(1), value, add);
            as_serially(len.saturating_sub(1), len, value, add);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it adds up millions")]
    fn slices_of_any_length_are_combined_as_serially() {
        of_bytes::<1>();
        of_bytes::<4>();
        of_bytes::<16>();
        of_bytes::<24>();
        of_bytes::<256>();
        of_bytes::<300>();
        as_serially(1 << 20, 1 << 20, |_| (), |(), ()| ());
    }
}
