//! Folds as calls hold them.
#![forbid(unsafe_code)]

use std::ops::Deref;
use std::sync::Arc;

use super::Fold;

/// A fold that a call holds: one that is nothing but its type, as the library's own are, costs nothing to hold, to copy
/// and to let go of; any other is shared.
#[derive(Clone)]
pub enum AnyFold {
    /// It has no bytes.
    OfType(&'static dyn Fold),
    /// It has a state, or an end.
    Shared(Arc<dyn Fold>),
}

impl Deref for AnyFold {
    type Target = dyn Fold;

    fn deref(&self) -> &Self::Target {
        match self {
            AnyFold::OfType(fold) => *fold,
            AnyFold::Shared(fold) => &**fold,
        }
    }
}

impl From<Arc<dyn Fold>> for AnyFold {
    fn from(fold: Arc<dyn Fold>) -> Self {
        AnyFold::Shared(fold)
    }
}
