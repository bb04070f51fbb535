//! Folds as calls hold them.
#![forbid(unsafe_code)]

use std::ops::Deref;
use std::sync::Arc;

use super::Fold;

/// A fold that a call holds, and that is one itself: by [`of`](super::of) or [`builtin`](super::builtin), or from an `Arc`.
///
/// One that those two make of an operator that is nothing but its type, as the library's own are, costs nothing to hold, to
/// copy and to let go of; any other is shared.
#[derive(Clone)]
pub struct AnyFold(Held);

#[derive(Clone)]
enum Held {
    OfType(&'static dyn Fold),
    Shared(Arc<dyn Fold>),
}

impl AnyFold {
    /// One that is there for ever.
    pub(super) fn of_type(fold: &'static dyn Fold) -> Self {
        AnyFold(Held::OfType(fold))
    }
}

impl Deref for AnyFold {
    type Target = dyn Fold;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Held::OfType(fold) => *fold,
            Held::Shared(fold) => &**fold,
        }
    }
}

impl From<Arc<dyn Fold>> for AnyFold {
    fn from(fold: Arc<dyn Fold>) -> Self {
        AnyFold(Held::Shared(fold))
    }
}

impl<F: Fold + 'static> From<Arc<F>> for AnyFold {
    fn from(fold: Arc<F>) -> Self {
        AnyFold(Held::Shared(fold))
    }
}
