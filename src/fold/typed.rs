//! Operators over elements as folds over bytes: what the engine is given.
//!
//! It never trusts bytes: such as are no value of the type are an error, such as are not aligned are
//! copied. The one decision: panics are caught here, for every operator, so that a rank that is asked to
//! fold can still tell the others.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytemuck::checked::{self, CheckedCastError};

use super::Fold;
use super::element::Element;
use super::kinds::Type;
use super::operators::Operator;

/// Bytes that are copied at a time where they are not aligned.
const STEP: usize = 4096;

/// An operator on elements of type `T`, over bytes.
pub struct Typed<T, O> {
    operator: O,
    element: PhantomData<fn(T) -> T>,
}

/// The operator as the engine takes it.
pub fn of<T: Element, O: Operator<T> + 'static>(operator: O) -> Arc<dyn Fold> {
    Arc::new(Typed::new(operator))
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
        folded.unwrap_or_else(|panic| Err(format!("the operator panicked: {}", words(&*panic))))
    }

    /// Folds bytes that may begin anywhere, through aligned copies.
    fn copies(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> Result<(), String> {
        let step = (STEP / size_of::<T>()).max(1) * size_of::<T>();
        for (mine, theirs) in mine.chunks_mut(step).zip(theirs.chunks(step)) {
            let mut combined = copy(mine)?;
            self.elements(&mut combined, &copy(theirs)?, before)?;
            mine.copy_from_slice(bytemuck::cast_slice(&combined));
        }
        Ok(())
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
        if mine.len() != theirs.len() || !mine.len().is_multiple_of(self.unit()) {
            let (name, mine, theirs, unit) = (self.operator.name(), mine.len(), theirs.len(), self.unit());
            return Err(format!("{name} of {mine} and {theirs} bytes, in elements of {unit} bytes"));
        }
        if mine.is_empty() {
            return Ok(());
        }
        match (checked::try_cast_slice_mut(mine), checked::try_cast_slice(theirs)) {
            (Ok(mine), Ok(theirs)) => self.elements(mine, theirs, before),
            (Err(CheckedCastError::InvalidBitPattern), _) | (_, Err(CheckedCastError::InvalidBitPattern)) => {
                Err(no_value::<T>())
            }
            _ => self.copies(mine, theirs, before),
        }
    }
}

fn copy<T: Element>(bytes: &[u8]) -> Result<Vec<T>, String> {
    let read = |one| checked::try_pod_read_unaligned(one).map_err(|_| no_value::<T>());
    bytes.chunks_exact(size_of::<T>()).map(read).collect()
}

fn no_value<T>() -> String {
    format!("bytes came in that are no value of {}", std::any::type_name::<T>())
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
