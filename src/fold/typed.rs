//! Operators over elements as folds over bytes: what the engine is given.
//!
//! It never trusts bytes: such as are no value of the type are an error, such as are not aligned are
//! copied. The one decision: panics are caught here, for every operator, so that a rank that is asked to
//! fold can still tell the others.

use std::marker::PhantomData;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::element::{self, Element, Unfit};
use super::kinds::Type;
use super::operators::Operator;
use super::{AnyFold, Fold};
use crate::abreast::suits_fold;
use crate::error::words_of;

/// Bytes that are folded at a time: what is looked through, or copied, is then in the first-level cache.
const STEP: usize = 16 << 10;

/// An operator on elements of type `T`, over bytes.
pub struct Typed<T, O> {
    operator: O,
    element: PhantomData<fn(T) -> T>,
}

/// The operator as the engine takes it.
pub fn of<T: Element, O: Operator<T> + 'static>(operator: O) -> AnyFold {
    let fold = Typed::new(operator);
    if size_of::<O>() == 0 && !needs_drop::<O>() {
        // A box of no bytes has no memory, so that none is lost.
        return AnyFold::of_type(Box::leak(Box::new(fold)));
    }
    Arc::new(fold).into()
}

impl<T: Element, O: Operator<T>> Typed<T, O> {
    /// Of this operator.
    pub fn new(operator: O) -> Self {
        Typed { operator, element: PhantomData }
    }

    /// Folds elements, and catches a panic.
    fn elements(&self, mine: &mut [T], theirs: &[T], before: bool) -> Result<(), String> {
        // After a panic nobody looks at `mine`, which the operator has combined in part: the call fails.
        let folded = catch_unwind(AssertUnwindSafe(|| self.operator.fold(mine, theirs, before)));
        folded.unwrap_or_else(|panic| Err(format!("the operator panicked: {}", words_of(panic))))
    }

    /// Folds bytes, through copies where they do not begin as elements do.
    fn bytes(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> Result<(), String> {
        match (element::values_mut(mine), element::values(theirs)) {
            (Ok(mine), Ok(theirs)) => self.elements(mine, theirs, before),
            (Err(Unfit::Value), _) | (_, Err(Unfit::Value)) => Err(no_value::<T>()),
            _ => {
                let mut combined = copy(mine)?;
                self.elements(&mut combined, &copy(theirs)?, before)?;
                mine.copy_from_slice(bytemuck::cast_slice(&combined));
                Ok(())
            }
        }
    }
}

impl<T: Element, O: Operator<T>> Fold for Typed<T, O> {
    fn unit(&self) -> usize {
        // No bytes are a whole number of units, also where elements have no size.
        size_of::<T>().max(1)
    }

    fn numbers(&self) -> (u8, u8) {
        (self.operator.number(), Type::of::<T>().number())
    }

    fn commutes(&self) -> bool {
        self.operator.commutes()
    }

    fn fold(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> Result<(), String> {
        if mine.len() != theirs.len() || !mine.len().is_multiple_of(size_of::<T>()) {
            let (name, mine, theirs, unit) = (self.operator.name(), mine.len(), theirs.len(), size_of::<T>());
            return Err(format!("{name} of {mine} and {theirs} bytes, in elements of {unit} bytes"));
        }
        // Most folds are short. Of no bytes there is no telling whether they begin as elements do.
        if (1..=STEP).contains(&mine.len()) || goes_whole::<T>(mine, theirs) {
            return self.bytes(mine, theirs, before);
        }
        let step = (STEP / self.unit()).max(1) * self.unit();
        mine.chunks_mut(step).zip(theirs.chunks(step)).try_for_each(|(m, t)| self.bytes(m, t, before))
    }
}

/// Whether the operator had better have all of it, so that its loop goes two pages abreast: of numbers that are neither looked
/// through nor copied here.
fn goes_whole<T: Element>(mine: &[u8], theirs: &[u8]) -> bool {
    let are_numbers = !matches!(Type::of::<T>(), Type::Bool | Type::Users);
    let is_aligned = |bytes: &[u8]| bytes.as_ptr().cast::<T>().is_aligned();
    are_numbers && is_aligned(mine) && is_aligned(theirs) && suits_fold(mine.len())
}

fn copy<T: Element>(bytes: &[u8]) -> Result<Vec<T>, String> {
    let read = |one| bytemuck::checked::try_pod_read_unaligned(one).map_err(|_| no_value::<T>());
    bytes.chunks_exact(size_of::<T>()).map(read).collect()
}

fn no_value<T>() -> String {
    format!("bytes came in that are no value of {}", std::any::type_name::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_about_as_many_as_a_cache_holds_go_whole() {
        let (long, other) = (vec![0_u64; 100 << 10], vec![0_u64; 100 << 10]);
        let (long, other): (&[u8], &[u8]) = (bytemuck::cast_slice(&long), bytemuck::cast_slice(&other));
        let whole = |len: usize, skew: usize| goes_whole::<u64>(&long[..len], &other[skew..][..len]);
        let (least, most) = (256 << 10, 704 << 10);
        assert_eq!([least - 8, least, most, most + 8].map(|len| whole(len, 0)), [false, true, true, false]);
        assert_eq!([1, 8].map(|skew| whole(least, skew)), [false, true]);
        assert!(!goes_whole::<bool>(&long[..least], &other[..least]), "they are looked through");
    }
}
