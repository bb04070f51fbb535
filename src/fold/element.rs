//! What collectives can move: types whose values are plain bytes.
//!
//! It never looks into a value. The one decision: [`bytemuck`]'s traits say which types these are, so
//! that a user's struct needs one derive and no `unsafe`.
//!
//! Every type of [`bytemuck::Pod`] is an element: numbers, arrays of them, and structs without padding
//! (add `bytemuck` with its feature `derive` to your own dependencies).
//!
//! ```
//! use circulant::fold::{self, Fold};
//!
//! #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
//! #[repr(C)]
//! struct Particle {
//!     place: [f64; 3],
//!     mass: f64,
//! }
//!
//! // Of equal masses the lower rank's, which is why the order counts.
//! let heavier = fold::ordered(|a: &Particle, b: &Particle| if a.mass >= b.mass { *a } else { *b });
//! assert_eq!(fold::of(heavier).unit(), 32);
//! ```
//!
//! Types of which not every pattern of bits is a value, such as `bool` and enums, are elements too; bytes
//! that come from elsewhere are looked at before they are taken for one.
//!
//! ```
//! use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};
//! use circulant::fold::element::{self, Element};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, NoUninit, CheckedBitPattern, Zeroable)]
//! #[repr(u8)]
//! enum Light {
//!     Red,
//!     Green,
//! }
//!
//! let mut bytes = [1, 7];
//! assert_eq!(element::check::<Light>(&mut bytes), Err(1));
//! assert_eq!(bytes, [Light::Green as u8, Light::Red as u8]);
//! ```

use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};

/// A type that collectives can move: plain bytes without padding, and all zeros is one of its values.
///
/// There is nothing to implement: derive `bytemuck::{Pod, Zeroable}`, or where not every pattern of bits
/// is a value `bytemuck::{NoUninit, CheckedBitPattern, Zeroable}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element that collectives can move",
    note = "derive `bytemuck::Pod` and `bytemuck::Zeroable` for it"
)]
pub trait Element: NoUninit + CheckedBitPattern + Zeroable + Send + Sync + 'static {}

impl<T: NoUninit + CheckedBitPattern + Zeroable + Send + Sync + 'static> Element for T {}

/// Makes sure that bytes which others have written are values of `T`: zero replaces each that is none, and
/// the error is the index of the first. Costs nothing for types of which every pattern is a value.
///
/// It takes bytes, as a slice of `T` must never hold anything else. Bytes past the last whole element are
/// left alone.
pub fn check<T: Element>(bytes: &mut [u8]) -> Result<(), usize> {
    let mut first = Ok(());
    // An element without size has no bytes that could be wrong, and chunks must have some.
    for (index, one) in bytes.chunks_exact_mut(size_of::<T>().max(1)).enumerate() {
        if size_of::<T>() > 0 && !T::is_valid_bit_pattern(&bytemuck::pod_read_unaligned(one)) {
            one.fill(0);
            first = first.and(Err(index));
        }
    }
    first
}

/// Why bytes are no slice of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// They begin where elements cannot, or end within one.
    Place,
    /// Some are no value of the type.
    Value,
}

/// Bytes as elements.
pub(super) fn values<T: Element>(bytes: &[u8]) -> Result<&[T], Unfit> {
    let len = look_through::<T>(bytes)?;
    // SAFETY: - aligned for `T`, and `len` of them long (look_through)
    //         - every one is a value (look_through)
    //         - borrowed from `bytes`, as the signature says
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) })
}

/// As [`values`], to be written.
pub(super) fn values_mut<T: Element>(bytes: &mut [u8]) -> Result<&mut [T], Unfit> {
    let len = look_through::<T>(bytes)?;
    // SAFETY: - as in `values`, and borrowed mutably
    //         - whatever is written leaves bytes behind, as no value has any that are not set (NoUninit)
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
}

/// How many values of `T` these bytes are. It looks at all of them even if one is none, as the compiler
/// vectorises that; `bytemuck::checked` stops at the first, at a quarter of the speed.
fn look_through<T: Element>(bytes: &[u8]) -> Result<usize, Unfit> {
    // `Bits` has the layout of `T` (CheckedBitPattern), so this is aligned and long enough for `T` too.
    let bits: &[T::Bits] = bytemuck::try_cast_slice(bytes).map_err(|_| Unfit::Place)?;
    let all = bits.iter().fold(true, |all, one| all & T::is_valid_bit_pattern(one));
    if all { Ok(bits.len()) } else { Err(Unfit::Value) }
}
