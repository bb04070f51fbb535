//! Operations that are over and kept as they are: the next call that asks for the same takes one up again, on
//! other memory, and saves making it.
//!
//! A program makes the same few calls again and again, and to choose an algorithm, to make its plan and
//! layout and to look up its peers takes several times as long as to carry out a small call, and as long as to copy
//! 64 KiB within a node.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::operation::Operation;
use crate::collective::Collective;
use crate::rank::Rank;

/// Operations that are kept; of more the one that has not been asked for longest goes.
const KEPT: usize = 32;

/// What a caller asks for, as far as plan, layout and path depend on it. Memory and operator are given anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask<'c> {
    /// On which communicator.
    pub communicator: u32,
    /// What is done.
    pub collective: Collective,
    /// From or to which rank.
    pub root: Rank,
    /// How many elements the buffer has.
    pub elements: usize,
    /// Each rank's part of them, where they may differ.
    pub counts: Option<Cow<'c, [usize]>>,
    /// Bytes of an element.
    pub unit: usize,
    /// The numbers of operator and element type.
    pub fold: Option<(u8, u8)>,
    /// Whether the order of operands counts.
    pub commutes: bool,
    /// Whether what comes in has a memory of its own.
    pub apart: bool,
    /// The algorithm, where it is named.
    pub algorithm: Option<Cow<'c, str>>,
    /// How many blocks, where that is told.
    pub blocks: Option<u32>,
}

impl Ask<'_> {
    /// To be kept.
    pub fn into_owned(self) -> Ask<'static> {
        let counts = self.counts.map(|counts| Cow::Owned(counts.into_owned()));
        let algorithm = self.algorithm.map(|name| Cow::Owned(name.into_owned()));
        Ask { counts, algorithm, ..self }
    }

    /// A number by which most others are told from it without a look at them.
    fn mark(&self) -> u64 {
        let call = u64::from(self.communicator) << 32 | u64::from(self.root) << 8 | self.collective as u64;
        call ^ (self.elements as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Operations at rest.
#[derive(Default)]
pub struct Rest {
    kept: Vec<Kept>,
    /// How often one was asked for, or kept.
    uses: u64,
    /// Where the last one was found, if it is there still.
    latest: usize,
}

struct Kept {
    /// That of what was asked for.
    mark: u64,
    operation: Box<Operation>,
    used: u64,
}

/// The place of one, until another one is taken up or kept.
#[derive(Clone, Copy)]
pub struct Recalled(usize);

impl Rest {
    /// What was asked for lately.
    pub fn find(&mut self, ask: &Ask<'_>) -> Option<Recalled> {
        let mark = ask.mark();
        let is_it = |kept: &Kept| kept.mark == mark && kept.operation.ask.as_ref() == Some(ask);
        let at = match self.kept.get(self.latest) {
            Some(latest) if is_it(latest) => self.latest,
            _ => self.kept.iter().position(is_it)?,
        };
        self.latest = at;
        self.uses += 1;
        self.kept[at].used = self.uses;
        Some(Recalled(at))
    }

    /// What is kept at a place.
    pub fn at(&mut self, Recalled(at): Recalled) -> &mut Operation {
        &mut self.kept[at].operation
    }

    /// Takes it up.
    pub fn take(&mut self, Recalled(at): Recalled) -> Box<Operation> {
        self.kept.swap_remove(at).operation
    }

    /// Keeps an operation that is over.
    pub fn keep(&mut self, operation: Box<Operation>) {
        let oldest = (0..self.kept.len()).min_by_key(|&at| self.kept[at].used);
        if let Some(oldest) = oldest.filter(|_| self.kept.len() == KEPT) {
            self.kept.swap_remove(oldest);
        }
        self.uses += 1;
        let mark = operation.ask.as_ref().map_or(0, Ask::mark);
        self.kept.push(Kept { mark, operation, used: self.uses });
    }

    /// Forgets a communicator's calls.
    pub fn forget(&mut self, communicator: u32) {
        self.kept.retain(|kept| kept.operation.call().communicator != communicator);
    }
}
