//! Operations that are over and kept as they are: the next call that asks for the same takes one up again, on
//! other memory, and saves making it.
//!
//! A program makes the same few calls again and again, and to choose an algorithm, to make its plan and
//! layout and to look up its peers takes several times as long as to carry out a small call, and as long as to copy
//! 64 KiB within a node.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::operation::Operation;
use crate::collective::Collective;
use crate::rank::Rank;

/// Operations that are kept; of more the one that has not been asked for longest goes.
const KEPT: usize = 32;

/// What a caller asks for, as far as plan, layout and path depend on it. Memory and operator are given anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// On which communicator.
    pub communicator: u32,
    /// What is done.
    pub collective: Collective,
    /// From or to which rank.
    pub root: Rank,
    /// How many elements the buffer has.
    pub elements: usize,
    /// Each rank's part of them, where they may differ.
    pub counts: Option<Arc<[usize]>>,
    /// Bytes of an element.
    pub unit: usize,
    /// The numbers of operator and element type.
    pub fold: Option<(u8, u8)>,
    /// Whether the order of operands counts.
    pub commutes: bool,
    /// Whether what comes in has a memory of its own.
    pub apart: bool,
}

/// Operations at rest, the latest last.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "an operation comes and goes with every call, and is large")]
pub struct Rest {
    kept: Vec<Box<Operation>>,
}

impl Rest {
    /// Takes up what was asked for lately.
    pub fn take(&mut self, ask: &Ask) -> Option<Box<Operation>> {
        let at = self.kept.iter().rposition(|operation| operation.ask.as_ref() == Some(ask))?;
        Some(self.kept.remove(at))
    }

    /// Keeps an operation that is over.
    pub fn keep(&mut self, operation: Box<Operation>) {
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(operation);
    }

    /// Forgets a communicator's calls.
    pub fn forget(&mut self, communicator: u32) {
        self.kept.retain(|operation| operation.call().communicator != communicator);
    }
}
