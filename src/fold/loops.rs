//! The loops: two slices, combined element by element.
//!
//! Plain Rust that the compiler vectorises; it never names a type or an operator. The one decision: every
//! loop is compiled for AVX-512, for AVX2 and for any machine, and chosen at run time, because SSE2 alone
//! has no minimum of 64-bit integers, no widening and no blending (`benches/folds.rs` measures it).

use multiversion::multiversion;

/// `mine = f(mine, theirs)`, element by element, as far as both reach.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(super) fn each<T: Copy, F: Fn(T, T) -> T>(mine: &mut [T], theirs: &[T], f: F) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = f(*mine, *theirs);
    }
}
