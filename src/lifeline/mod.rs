//! The liveness channel: who is alive, who gave up, and who waits for whom.
//!
//! The fabric says nothing when a peer dies, so each rank keeps TCP connections to its O(log p)
//! neighbours on the circulant graph, watched by one thread that sleeps in poll. When a process dies
//! its kernel closes them; when a host vanishes, keepalive ends them within about 10 s. The news are
//! flooded, and q disjoint ways lead to every rank, so that fewer than q deaths at once hide nothing.
//!
//! It never carries data of a collective, and nothing waits for it. The decision: liveness is the
//! kernel's knowledge, not a matter of heartbeats and deadlines of ours; so a slow rank is never taken
//! for a dead one, and silence costs no CPU.
#![forbid(unsafe_code)]

pub mod bell;
mod dial;
mod gate;
mod hub;
mod inquiry;
pub mod kin;
mod link;
pub mod listening;
pub mod news;
pub mod status;
mod watch;
mod wire;

#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::threads;
use gate::Gate;
use hub::Hub;
use news::{Answer, Board, News};
use status::Status;
use watch::Shared;
use wire::Message;

/// A rank's connections to its neighbours, alive until [`Lifeline::leave`].
///
/// Dropped without it, in a panic or by an early return, the rank counts as lost: "it ended without
/// finalize"; except after fatal news, when all know already.
pub struct Lifeline {
    me: Rank,
    board: Arc<Board>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Lifeline {
    fn start(place: Place, status: Arc<Status>, gate: Gate) -> Result<Self> {
        let me = place.rank;
        let board = Arc::new(Board::new()?);
        let shared = Arc::new(Shared::new(Hub::new(place, status, Arc::clone(&board), gate))?);
        let theirs = Arc::clone(&shared);
        let thread = threads::start(format!("lifeline {me}"), move || theirs.watch(me))
            .map_err(|e| Error::boot(format!("rank {me} cannot start a thread: {e}"), "raise `ulimit -u`"))?;
        Ok(Lifeline { me, board, shared, thread: Some(thread) })
    }

    /// Whose it is.
    pub fn rank(&self) -> Rank {
        self.me
    }

    /// Readable while there is fatal news or a complete answer that has not been looked at.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.board.wake()
    }

    /// The first fatal news, this rank's own [`abort`](Self::abort) too; the same at each later call.
    /// Costs one atomic load while there is none.
    pub fn news(&self) -> Option<News> {
        self.board.news()
    }

    /// Whether all neighbours have said goodbye. Puts that they issued before may still be on their
    /// way. Of ranks that are no neighbours an [`ask`](Self::ask) tells it.
    pub fn all_left(&self) -> bool {
        self.shared.lock().all_left()
    }

    /// Tells all ranks that no call of this job can succeed any more. The word is with the kernel when
    /// this returns, which is at once. Without effect after other fatal news.
    pub fn abort(&self, why: &str) {
        let news = News::Aborted { by: self.me, why: why.to_owned() };
        self.shared.act(|hub| hub.settle(news, false));
    }

    /// Asks `peer` what it is doing, above all on a communicator, and then whomever it waits for, and so on. Returns at
    /// once, with the number of the question, by which there is an [`answer`](Self::answer); a rank that does not exist is
    /// not asked.
    pub fn ask(&self, peer: Rank, communicator: u32) -> Option<u32> {
        self.shared.act(|hub| hub.ask(peer, communicator))
    }

    /// What is known of a question: complete, or as far as the ranks have answered by now
    /// (one that is stopped never does). `None` where some thousand were asked since.
    pub fn answer(&self, question: u32) -> Option<Answer> {
        self.board.answer(question)
    }

    /// Says goodbye to the neighbours and stays: after it the end of this process is no loss to them, and
    /// [`all_left`](Self::all_left) tells whether they have said it too.
    pub fn farewell(&self) {
        self.shared.act(Hub::farewell);
    }

    /// Says goodbye to the neighbours, so that the closing of the connections is no loss, and waits
    /// until they have heard it: a moment, and at most 2 s where a neighbour's process is stopped.
    pub fn leave(mut self) {
        self.end(Message::Goodbye);
    }

    fn end(&mut self, last: Message) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.act(|hub| hub.end(last));
        // Only a panic of the thread makes this fail, and that has been printed.
        let _ = thread.join();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        let lost = News::Lost { rank: self.me, how: "it ended without finalize".into() };
        let last = if self.board.fatal().is_some() { Message::Goodbye } else { Message::Fatal(lost) };
        self.end(last);
    }
}
