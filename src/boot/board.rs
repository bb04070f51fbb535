//! A launcher's board, where ranks leave cards and read those of others; and how few of them each reads.
//!
//! A launcher serves reads one after the other, so in a larger job nobody reads everybody's: a rank leaves its door's
//! card, reads those of the O(log p) ranks that it calls, and the rest goes [among neighbours](super::graph).
#![forbid(unsafe_code)]

use std::time::Duration;

use super::graph::{Door, Graph, callees};
use super::{Exchange, check_card};
use crate::addresses::Scope;
use crate::error::Result;
use crate::rank::{Place, Rank};

/// Up to how many ranks read everybody's cards. On one machine 16 ranks take as much CPU time either way, 32 take a tenth
/// less by connections, 64 a third.
const DIRECT: u32 = 16;

/// Where ranks leave cards and read those of others.
pub(super) trait Board: Send {
    /// Who and how many we are.
    fn place(&self) -> Place;

    /// What it is, as in [`Exchange::name`].
    fn name(&self) -> String;

    /// Leaves a card, waits until all ranks have left theirs, and reads those of `whom`. All ranks call it the same number
    /// of times.
    fn post(&mut self, card: &[u8], whom: &[Rank]) -> Result<Vec<Vec<u8>>>;

    /// Tells the launcher that this process ends well. Called once, last.
    fn finish(&mut self) -> Result<()>;
}

/// An exchange over a board.
pub(super) struct Posted<B> {
    board: B,
    limit: Duration,
    /// Once it is needed.
    graph: Option<Graph>,
}

impl<B: Board> Posted<B> {
    pub(super) fn new(board: B, limit: Duration) -> Self {
        Posted { board, limit, graph: None }
    }

    fn connect(&mut self) -> Result<Graph> {
        let place = self.board.place();
        let door = Door::open(Scope::Network)?;
        let doors = self.board.post(&door.card(), &callees(place))?;
        Graph::connect(door, place, &doors, self.board.name(), self.limit)
    }
}

impl<B: Board> Exchange for Posted<B> {
    fn place(&self) -> Place {
        self.board.place()
    }

    fn name(&self) -> String {
        self.board.name()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        let Place { rank, size } = self.board.place();
        if size <= DIRECT {
            let others: Vec<_> = (0..size).filter(|&other| other != rank).collect();
            let mut cards = self.board.post(card, &others)?;
            cards.insert(rank as usize, card.to_vec());
            return Ok(cards);
        }
        let mut graph = self.graph.take().map_or_else(|| self.connect(), Ok)?;
        let cards = graph.gather(card)?;
        self.graph = Some(graph);
        Ok(cards)
    }

    fn finish(&mut self) -> Result<()> {
        self.graph = None;
        self.board.finish()
    }
}
