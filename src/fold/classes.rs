//! Which element types each operator fits, as MPI allows them, and what it does to a pair of them.
//!
//! It knows values; loops are elsewhere. The one decision: classes are traits, so that an operator which
//! does not fit a type does not compile. Nobody outside can name them: who has a type of their own brings
//! the operator along.

use std::cmp::Ordering;

use half::{bf16, f16};
use num_complex::Complex;

use super::Located;
use super::element::Element;
use super::halves;
use super::loops::each;

/// What [`Sum`](super::Sum) and [`Product`](super::Product) fit.
#[diagnostic::on_unimplemented(
    message = "there is no sum or product of `{Self}`",
    note = "they fit integers, f16, bf16, f32, f64 and complex numbers"
)]
pub trait Number: Element {
    /// `mine + theirs`.
    fn sum(mine: &mut [Self], theirs: &[Self]);
    /// `mine * theirs`.
    fn product(mine: &mut [Self], theirs: &[Self]);
}

/// What [`Min`](super::Min) and [`Max`](super::Max) fit.
#[diagnostic::on_unimplemented(
    message = "there is no min or max of `{Self}`",
    note = "they fit integers, f16, bf16, f32 and f64"
)]
pub trait Ordered: Element {
    /// The lesser one.
    fn lesser(self, other: Self) -> Self;
    /// The greater one.
    fn greater(self, other: Self) -> Self;
}

/// What the logical operators fit.
#[diagnostic::on_unimplemented(
    message = "there is no logical and, or, xor of `{Self}`",
    note = "they fit integers and bool"
)]
pub trait Logical: Element {
    /// Whether it stands for true.
    fn is_true(self) -> bool;
    /// What stands for it.
    fn from_truth(truth: bool) -> Self;
}

/// What the bitwise operators fit.
#[diagnostic::on_unimplemented(
    message = "there is no bitwise and, or, xor of `{Self}`",
    note = "they fit integers and bool"
)]
pub trait Bits:
    Element + std::ops::BitAnd<Output = Self> + std::ops::BitOr<Output = Self> + std::ops::BitXor<Output = Self>
{
}

/// What [`MinLoc`](super::MinLoc) and [`MaxLoc`](super::MaxLoc) fit.
#[diagnostic::on_unimplemented(
    message = "there is no minloc or maxloc of `{Self}`",
    note = "they fit the pairs of `circulant::fold::Located`"
)]
pub trait Placed: Element {
    /// The one with the lesser value, or else with the lesser place.
    fn least(self, other: Self) -> Self;
    /// The one with the greater value, or else with the lesser place.
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn sum(mine: &mut [Self], theirs: &[Self]) {
                each(mine, theirs, |a, b| a.wrapping_add(b));
            }
            fn product(mine: &mut [Self], theirs: &[Self]) {
                each(mine, theirs, |a, b| a.wrapping_mul(b));
            }
        }
        impl Ordered for $type {
            #[inline]
            fn lesser(self, other: Self) -> Self { Ord::min(self, other) }
            #[inline]
            fn greater(self, other: Self) -> Self { Ord::max(self, other) }
        }
        impl Logical for $type {
            #[inline]
            fn is_true(self) -> bool { self != 0 }
            #[inline]
            fn from_truth(truth: bool) -> Self { truth.into() }
        }
        impl Bits for $type {}
    )*};
}

integers! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

impl Logical for bool {
    fn is_true(self) -> bool {
        self
    }
    fn from_truth(truth: bool) -> Self {
        truth
    }
}

impl Bits for bool {}

macro_rules! by_operators {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn sum(mine: &mut [Self], theirs: &[Self]) {
                each(mine, theirs, |a, b| a + b);
            }
            fn product(mine: &mut [Self], theirs: &[Self]) {
                each(mine, theirs, |a, b| a * b);
            }
        }
    )*};
}

by_operators! { f32 f64 Complex<f32> Complex<f64> }

/// The extremes of floats by two comparisons: where neither is less they are equal, and their bits differ in
/// the sign of a zero at most, or one is a NaN, and then all bits are set, which is a NaN too.
macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            #[inline]
            fn lesser(self, other: Self) -> Self {
                let one = if self < other { self } else { other };
                let two = if other < self { other } else { self };
                let nan = if self.is_nan() || other.is_nan() { !0 } else { 0 };
                Self::from_bits(one.to_bits() | two.to_bits() | nan)
            }
            #[inline]
            fn greater(self, other: Self) -> Self {
                let one = if self > other { self } else { other };
                let two = if other > self { other } else { self };
                let nan = if self.is_nan() || other.is_nan() { !0 } else { 0 };
                Self::from_bits(one.to_bits() & two.to_bits() | nan)
            }
        }
    )*};
}

floats! { f32 f64 }

macro_rules! halves {
    ($($type:ty, $each:path;)*) => {$(
        impl Number for $type {
            fn sum(mine: &mut [Self], theirs: &[Self]) {
                $each(mine, theirs, |a, b| a + b);
            }
            fn product(mine: &mut [Self], theirs: &[Self]) {
                $each(mine, theirs, |a, b| a * b);
            }
        }
        /// Their bits are compared as integers, once the negative ones are turned around.
        impl Ordered for $type {
            #[inline]
            fn lesser(self, other: Self) -> Self {
                let least = turned(self.to_bits()).min(turned(other.to_bits()));
                let nan = if self.is_nan() || other.is_nan() { !0 } else { 0 };
                Self::from_bits(turned(least as u16) as u16 | nan)
            }
            #[inline]
            fn greater(self, other: Self) -> Self {
                let most = turned(self.to_bits()).max(turned(other.to_bits()));
                let nan = if self.is_nan() || other.is_nan() { !0 } else { 0 };
                Self::from_bits(turned(most as u16) as u16 | nan)
            }
        }
    )*};
}

halves! {
    f16, halves::each_f16;
    bf16, halves::each_bf16;
}

/// Bits of a sign and a magnitude as an integer in the same order, and back.
#[inline]
fn turned(bits: u16) -> i16 {
    let bits = bits as i16;
    bits ^ ((bits >> 15) & i16::MAX)
}

/// How the values of a [`Located`] compare.
trait Value: Copy {
    /// Whether it is no number, which is more extreme than any.
    fn is_nan(self) -> bool;
    /// Numbers by value; two that are equal but look different (zeros, NaNs) are [`Ordering::Equal`].
    fn by_value(self, other: Self) -> Ordering;
    /// Some order of those that look different.
    fn by_bits(self, other: Self) -> Ordering;
}

macro_rules! whole_values {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn is_nan(self) -> bool { false }
            fn by_value(self, other: Self) -> Ordering { self.cmp(&other) }
            fn by_bits(self, other: Self) -> Ordering { self.cmp(&other) }
        }
    )*};
}

macro_rules! float_values {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn is_nan(self) -> bool { self.is_nan() }
            fn by_value(self, other: Self) -> Ordering { self.partial_cmp(&other).unwrap_or(Ordering::Equal) }
            fn by_bits(self, other: Self) -> Ordering { self.total_cmp(&other) }
        }
    )*};
}

whole_values! { i32 i64 u32 u64 }
float_values! { f32 f64 }

impl<V: Value, I: Ord + Copy> Placed for Located<V, I>
where
    Self: Element,
{
    fn least(self, other: Self) -> Self {
        first(self, other, self.value.by_value(other.value))
    }
    fn greatest(self, other: Self) -> Self {
        first(self, other, other.value.by_value(self.value))
    }
}

/// The one that comes first: by being a NaN, by `order`, by the place, and at last by its bits, so that the
/// result is the same whichever side each is on.
fn first<V: Value, I: Ord + Copy>(a: Located<V, I>, b: Located<V, I>, order: Ordering) -> Located<V, I> {
    let nan = b.value.is_nan().cmp(&a.value.is_nan());
    let place = a.index.cmp(&b.index);
    let all = nan.then(order).then(place).then_with(|| a.value.by_bits(b.value));
    if all.is_le() { a } else { b }
}
