//! The loops: two slices, combined element by element.
//!
//! Plain Rust that the compiler vectorises; it never names a type or an operator. The one decision: every
//! loop is compiled for AVX-512, for AVX2 and for any machine, and chosen at run time, because SSE2 alone
//! has no minimum of 64-bit integers, no widening and no blending (`benches/folds.rs` measures it).

use multiversion::multiversion;

use crate::abreast::PAGE;

/// Bytes of the slices from which on they go two pages abreast: whoever wants that gives so many at a time.
pub(super) const ABREAST: usize = 8 * PAGE;
/// Bytes of one page before it is the other's turn.
const TURN: usize = 256;

/// `mine = f(mine, theirs)`, element by element, as far as both reach.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(super) fn each<T: Copy, F: Fn(T, T) -> T>(mine: &mut [T], theirs: &[T], f: F) {
    let len = mine.len().min(theirs.len());
    let (mine, theirs) = (&mut mine[..len], &theirs[..len]);
    let turn = TURN / size_of::<T>().max(1);
    // What does not divide a page goes straight.
    if size_of_val(theirs) < ABREAST || !TURN.is_multiple_of(size_of::<T>()) {
        return straight(mine, theirs, &f);
    }
    let page = PAGE / TURN * turn;
    let (mut pairs, mut their_pairs) = (mine.chunks_exact_mut(2 * page), theirs.chunks_exact(2 * page));
    for (mine, theirs) in pairs.by_ref().zip(their_pairs.by_ref()) {
        let ((one, other), (their_one, their_other)) = (mine.split_at_mut(page), theirs.split_at(page));
        let ones = one.chunks_exact_mut(turn).zip(their_one.chunks_exact(turn));
        let others = other.chunks_exact_mut(turn).zip(their_other.chunks_exact(turn));
        for ((one, their_one), (other, their_other)) in ones.zip(others) {
            straight(one, their_one, &f);
            straight(other, their_other, &f);
        }
    }
    straight(pairs.into_remainder(), their_pairs.remainder(), &f);
}

#[inline(always)]
fn straight<T: Copy>(mine: &mut [T], theirs: &[T], f: &impl Fn(T, T) -> T) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = f(*mine, *theirs);
    }
}
