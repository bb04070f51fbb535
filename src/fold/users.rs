//! The user's own operators, made of closures over two elements.
//!
//! They are called for one pair of elements at a time, in a loop that the compiler sees through. What they
//! return as an error, all ranks of the call get; what they panic with, too ([`Typed`](super::Typed)
//! catches it), after the panic hook has printed it as always.

use std::fmt::Display;

use super::element::Element;
use super::kinds::Op;
use super::operators::Operator;

/// A closure, and whether it commutes.
struct Users<F> {
    combine: F,
    commutes: bool,
}

impl<T: Element, E: Display, F: Fn(&T, &T) -> Result<T, E> + Send + Sync> Operator<T> for Users<F> {
    fn number(&self) -> u8 {
        self.op().number()
    }

    fn name(&self) -> &str {
        self.op().name()
    }

    fn commutes(&self) -> bool {
        self.commutes
    }

    fn fold(&self, mine: &mut [T], theirs: &[T], before: bool) -> Result<(), String> {
        let folded = if before {
            each(mine, theirs, |mine, theirs| (self.combine)(theirs, mine))
        } else {
            each(mine, theirs, |mine, theirs| (self.combine)(mine, theirs))
        };
        folded.map_err(|e| e.to_string())
    }
}

impl<F> Users<F> {
    fn op(&self) -> Op {
        if self.commutes { Op::Commutative } else { Op::Ordered }
    }
}

fn each<T: Copy, E>(mine: &mut [T], theirs: &[T], f: impl Fn(&T, &T) -> Result<T, E>) -> Result<(), E> {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = f(mine, theirs)?;
    }
    Ok(())
}

/// An operator that is associative and commutes: any algorithm may combine the ranks' elements, in any order.
///
/// As all operators of users it is called from within a call, and makes none itself on communicators of the same world:
/// all ranks would get the error that it panicked. A request by one that owns a communicator, window or request must be
/// waited for: dropped while it runs, it keeps the world, and the world keeps it.
///
/// ```
/// use circulant::fold::{self, Operator};
///
/// let gcd = fold::commutative(|a: &u64, b: &u64| {
///     let (mut a, mut b) = (*a, *b);
///     while b != 0 {
///         (a, b) = (b, a % b);
///     }
///     a
/// });
/// let mut mine = [12, 35];
/// gcd.fold(&mut mine, &[18, 21], false).unwrap();
/// assert_eq!(mine, [6, 7]);
/// ```
pub fn commutative<T: Element>(
    f: impl Fn(&T, &T) -> T + Send + Sync + 'static,
) -> impl Operator<T> + 'static {
    Users { combine: never_fails(f), commutes: true }
}

/// An operator that is associative and does not commute: the ranks' elements are combined in the order of
/// the ranks, the lesser rank's on the left.
///
/// ```
/// use circulant::fold::{self, Operator};
///
/// let last = fold::ordered(|_: &i32, b: &i32| *b);
/// let mut mine = [1];
/// last.fold(&mut mine, &[2], false).unwrap();
/// assert_eq!(mine, [2]);
/// ```
pub fn ordered<T: Element>(f: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> impl Operator<T> + 'static {
    Users { combine: never_fails(f), commutes: false }
}

/// As [`commutative`], for an operator that can fail: all ranks of the call get its error.
///
/// ```
/// use circulant::fold::{self, Operator};
///
/// let sum = fold::try_commutative(|a: &i32, b: &i32| a.checked_add(*b).ok_or("the sum overflows"));
/// assert_eq!(sum.fold(&mut [i32::MAX], &[1], false), Err("the sum overflows".to_owned()));
/// ```
pub fn try_commutative<T: Element, E: Display + 'static>(
    f: impl Fn(&T, &T) -> Result<T, E> + Send + Sync + 'static,
) -> impl Operator<T> + 'static {
    Users { combine: f, commutes: true }
}

/// As [`ordered`], for an operator that can fail: all ranks of the call get its error.
pub fn try_ordered<T: Element, E: Display + 'static>(
    f: impl Fn(&T, &T) -> Result<T, E> + Send + Sync + 'static,
) -> impl Operator<T> + 'static {
    Users { combine: f, commutes: false }
}

fn never_fails<T>(f: impl Fn(&T, &T) -> T) -> impl Fn(&T, &T) -> Result<T, std::convert::Infallible> {
    move |a, b| Ok(f(a, b))
}
