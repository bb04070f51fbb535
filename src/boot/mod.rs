//! How the ranks of a job find each other: one allgather of small cards, then nothing more.
//!
//! Whatever started the processes gives rank, size and a way to exchange a few bytes; the rest is
//! done over the fabric. A launcher's word on who shares a node is not asked for.

use crate::error::Result;
use crate::rank::Place;

/// A way to exchange small cards among all ranks, before there is a fabric.
pub trait Exchange: Send {
    /// Who and how many we are.
    fn place(&self) -> Place;

    /// What it is, for `circulant info` and errors: `PMI-1 (PMI_FD=7)`.
    fn name(&self) -> String;

    /// Every rank's card, in rank order. All ranks call it the same number of times; a card has at
    /// most 4096 bytes. Fails (with the rank that is missing, where that can be known) and never waits
    /// for ever.
    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Tells the launcher that this process ends well. Called once, last.
    fn finish(&mut self) -> Result<()>;
}
