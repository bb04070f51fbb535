//! The operators that come with the library, and the trait that all operators have.
//!
//! They name no types; [`classes`](super::classes) says what each fits. The one decision: whatever does not
//! depend on rounding does not depend on order either, not even for zeros and NaNs, so that every algorithm
//! gives the same bits.

use std::sync::Arc;

use super::classes::{Bits, Logical, Number, Ordered, Placed};
use super::element::Element;
use super::kinds::Op;
use super::loops::each;

/// Combines elements of type `T`; it is associative up to rounding.
///
/// Closures become operators by [`commutative`](super::commutative) and its kin; an operator in an [`Arc`]
/// is one too, for many calls.
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` does not fit elements of type `{T}`",
    note = "the table at `circulant::fold` says what fits; `fold::commutative` takes a closure"
)]
pub trait Operator<T: Element>: Send + Sync {
    /// Its number on the wire, an [`Op`]'s.
    fn number(&self) -> u8;

    /// What messages call it.
    fn name(&self) -> &str;

    /// Whether `a ∘ b = b ∘ a`.
    fn commutes(&self) -> bool;

    /// `mine = mine ∘ theirs` element by element, or `theirs ∘ mine` where they come `before`. Of equal
    /// lengths. After an error `mine` may be combined in part.
    fn fold(&self, mine: &mut [T], theirs: &[T], before: bool) -> Result<(), String>;
}

impl<T: Element, O: Operator<T> + ?Sized> Operator<T> for Arc<O> {
    fn number(&self) -> u8 {
        (**self).number()
    }
    fn name(&self) -> &str {
        (**self).name()
    }
    fn commutes(&self) -> bool {
        (**self).commutes()
    }
    fn fold(&self, mine: &mut [T], theirs: &[T], before: bool) -> Result<(), String> {
        (**self).fold(mine, theirs, before)
    }
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident: $class:ident, |$mine:ident, $theirs:ident| $fold:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl<T: $class> Operator<T> for $name {
            fn number(&self) -> u8 {
                Op::$name.number()
            }
            fn name(&self) -> &str {
                Op::$name.name()
            }
            fn commutes(&self) -> bool {
                true
            }
            fn fold(&self, $mine: &mut [T], $theirs: &[T], _: bool) -> Result<(), String> {
                $fold;
                Ok(())
            }
        }
    )*};
}

operators! {
    /// `a + b` of integers, which wrap around, of floats and of complex numbers.
    ///
    /// Floats are rounded after each step, f16 and bf16 to their own precision; in which order the ranks'
    /// elements are added is the algorithm's, the same in every run.
    ///
    /// ```
    /// use circulant::fold::{Operator, Sum};
    ///
    /// let mut mine = [250_u8, 1];
    /// Sum.fold(&mut mine, &[10, 1], false).unwrap();
    /// assert_eq!(mine, [4, 2]);
    /// ```
    ///
    /// Of truths there is none:
    ///
    /// ```compile_fail,E0277
    /// circulant::fold::of::<bool, _>(circulant::fold::Sum);
    /// ```
    Sum: Number, |mine, theirs| T::sum(mine, theirs);

    /// `a b` of integers, which wrap around, of floats and of complex numbers, rounded as in [`Sum`].
    ///
    /// ```
    /// use circulant::fold::{Operator, Product};
    /// use num_complex::Complex;
    ///
    /// let mut mine = [Complex::new(0.0_f64, 1.0)];
    /// Product.fold(&mut mine, &[Complex::new(0.0, 1.0)], false).unwrap();
    /// assert_eq!(mine, [Complex::new(-1.0, 0.0)]);
    /// ```
    Product: Number, |mine, theirs| T::product(mine, theirs);

    /// The least one.
    ///
    /// Of floats: -0 is less than +0, and where any is a NaN, the result is a NaN of no sign or payload
    /// that means anything. So the result never depends on the order, and a NaN is never lost.
    ///
    /// Complex numbers have none:
    ///
    /// ```compile_fail,E0277
    /// circulant::fold::of::<num_complex::Complex<f64>, _>(circulant::fold::Min);
    /// ```
    Min: Ordered, |mine, theirs| each(mine, theirs, T::lesser);

    /// The greatest one; of floats as in [`Min`].
    Max: Ordered, |mine, theirs| each(mine, theirs, T::greater);

    /// Whether both are true; of integers each but 0 is, and where two ranks or more combine the result is 1 or 0.
    LogicalAnd: Logical, |mine, theirs| each(mine, theirs, |a, b| T::from_truth(a.is_true() & b.is_true()));

    /// Whether any is true; of integers each but 0 is, and where two ranks or more combine the result is 1 or 0.
    LogicalOr: Logical, |mine, theirs| each(mine, theirs, |a, b| T::from_truth(a.is_true() | b.is_true()));

    /// Whether an odd number is true; of integers each but 0 is, and where two ranks or more combine the result is 1 or 0.
    LogicalXor: Logical, |mine, theirs| each(mine, theirs, |a, b| T::from_truth(a.is_true() ^ b.is_true()));

    /// `a & b` of integers and `bool`.
    ///
    /// Floats have none:
    ///
    /// ```compile_fail,E0277
    /// circulant::fold::of::<f32, _>(circulant::fold::BitAnd);
    /// ```
    BitAnd: Bits, |mine, theirs| each(mine, theirs, |a, b| a & b);

    /// `a | b` of integers and `bool`.
    BitOr: Bits, |mine, theirs| each(mine, theirs, |a, b| a | b);

    /// `a ^ b` of integers and `bool`.
    BitXor: Bits, |mine, theirs| each(mine, theirs, |a, b| a ^ b);

    /// The least value with its place; of equal ones (-0 and +0 are) the least place.
    ///
    /// A NaN comes before all numbers, so that its place is found.
    ///
    /// ```
    /// use circulant::fold::{Located, MinLoc, Operator};
    ///
    /// let mut mine = [Located { value: 2.5_f64, index: 7_u64 }];
    /// MinLoc.fold(&mut mine, &[Located { value: 2.5, index: 3 }], false).unwrap();
    /// assert_eq!(mine[0].index, 3);
    /// ```
    MinLoc: Placed, |mine, theirs| each(mine, theirs, T::least);

    /// The greatest value with its place; of equal ones, and of NaNs, as in [`MinLoc`].
    MaxLoc: Placed, |mine, theirs| each(mine, theirs, T::greatest);
}
