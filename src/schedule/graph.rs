//! What all plans of a communicator share: the skips, and the schedules of all ranks once they are wanted.

use std::sync::OnceLock;

use super::{Skips, Table};

/// The circulant graph of `p` ranks, with its [`Table`] made at first use.
///
/// One for a communicator, shared by its plans: the table takes `p q` bytes and a few nanoseconds a rank,
/// and only collectives in which every rank is a root read it.
#[derive(Debug)]
pub struct Graph {
    skips: Skips,
    table: OnceLock<Table>,
}

impl Graph {
    /// The graph of so many ranks.
    ///
    /// # Panics
    /// If `processes` is 0.
    pub fn new(processes: u32) -> Self {
        Graph { skips: Skips::new(processes), table: OnceLock::new() }
    }

    /// How far each round reaches.
    #[inline]
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// The schedules of all ranks.
    #[inline]
    pub fn table(&self) -> &Table {
        self.table.get_or_init(|| Table::new(&self.skips))
    }
}
