//! What the lifeline's thread leaves for the engine: the first fatal news, and the newest answers.
//!
//! A look that finds no news costs one atomic load. There is one fatal news for each rank, the first
//! that it hears: a communicator is broken by one as by ten, and relaying no more than one keeps the
//! traffic of a flood below the number of connections, however many ranks fail after it.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bell;
use crate::error::{Error, Result};
use crate::rank::Rank;

/// Why no call of this job can succeed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A rank is gone.
    Lost {
        /// Which.
        rank: Rank,
        /// How that was noticed, and by whom.
        how: String,
    },
    /// A rank found an error and told all.
    Aborted {
        /// Which rank.
        by: Rank,
        /// The error.
        why: String,
    },
}

impl From<News> for Error {
    fn from(news: News) -> Error {
        match news {
            News::Lost { rank, how } => Error::Lost { rank, how },
            News::Aborted { by, why } => Error::Aborted { by, why },
        }
    }
}

/// What the ranks said that were asked, beginning with `rank`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// To which question.
    pub id: u32,
    /// Who was asked first.
    pub rank: Rank,
    /// The call that it is in: its number, and what it is.
    pub call: Option<(u64, String)>,
    /// One clause for each rank of the chain of who waits for whom, the culprit last.
    pub text: String,
    /// False while a rank of the chain has not answered yet; the text names it.
    pub complete: bool,
}

/// The place where news and answers are left.
pub(super) struct Board {
    /// Whether there is fatal news.
    fatal: AtomicBool,
    notes: Mutex<Notes>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Notes {
    news: Option<News>,
    news_unread: bool,
    /// The newest to each question, in their order; the oldest go.
    answers: VecDeque<Answer>,
    answer_unread: bool,
}

/// Questions whose answers are kept: as many as there may be calls at a time, each with a thread that waits for it.
pub(super) const QUESTIONS: usize = 1024;

impl Board {
    pub fn new() -> Result<Self> {
        Ok(Board { fatal: AtomicBool::new(false), notes: Mutex::default(), bell: bell::new()? })
    }

    /// Readable while something is unread.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The first fatal news, left unread.
    pub fn fatal(&self) -> Option<News> {
        self.notes().news.clone()
    }

    /// The first fatal news, again at each call.
    pub fn news(&self) -> Option<News> {
        if !self.fatal.load(Ordering::Acquire) {
            return None;
        }
        let mut notes = self.notes();
        if std::mem::take(&mut notes.news_unread) {
            self.show(&notes);
        }
        notes.news.clone()
    }

    /// The answer so far to a question, unless it was forgotten for others.
    pub fn answer(&self, id: u32) -> Option<Answer> {
        let mut notes = self.notes();
        if std::mem::take(&mut notes.answer_unread) {
            self.show(&notes);
        }
        notes.answers.iter().find(|answer| answer.id == id).cloned()
    }

    /// Leaves fatal news, which wakes the engine if it is another's; false if there was some already.
    pub fn settle(&self, news: &News, wakes: bool) -> bool {
        let mut notes = self.notes();
        if notes.news.is_some() {
            return false;
        }
        notes.news = Some(news.clone());
        notes.news_unread = wakes;
        self.fatal.store(true, Ordering::Release);
        self.show(&notes);
        true
    }

    /// Leaves what is known of a question; wakes the engine when that is all.
    pub fn answered(&self, answer: Answer) {
        let mut notes = self.notes();
        notes.answer_unread |= answer.complete;
        match notes.answers.iter_mut().find(|known| known.id == answer.id) {
            Some(known) => *known = answer,
            None => notes.answers.push_back(answer),
        }
        if notes.answers.len() > QUESTIONS {
            notes.answers.pop_front();
        }
        self.show(&notes);
    }

    /// Makes the bell agree with the notes; called with their lock held.
    fn show(&self, notes: &Notes) {
        if notes.news_unread || notes.answer_unread {
            bell::ring(&self.bell);
        } else {
            bell::hush(&self.bell);
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(board: &Board) -> bool {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(board.wake(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    fn lost(rank: Rank) -> News {
        News::Lost { rank, how: "gone".into() }
    }

    #[test]
    fn only_the_first_news_counts_and_it_wakes_once() {
        let board = Board::new().unwrap();
        assert_eq!(board.news(), None);
        assert!(!rings(&board));
        assert!(board.settle(&lost(3), true));
        assert!(!board.settle(&lost(4), true));
        assert!(rings(&board));
        assert_eq!(board.news(), Some(lost(3)));
        assert!(!rings(&board));
        assert_eq!(board.news(), Some(lost(3)));
    }

    fn answer(id: u32, text: &str, complete: bool) -> Answer {
        Answer { id, rank: 1, call: None, text: text.into(), complete }
    }

    #[test]
    fn each_question_has_its_answer_and_the_oldest_are_forgotten() {
        let board = Board::new().unwrap();
        (0..=QUESTIONS as u32).for_each(|id| board.answered(answer(id, "half", false)));
        (1..=QUESTIONS as u32).rev().for_each(|id| board.answered(answer(id, &id.to_string(), true)));
        assert_eq!(board.answer(0), None);
        assert_eq!(board.answer(3).unwrap().text, "3");
        assert_eq!(board.answer(QUESTIONS as u32).unwrap().text, QUESTIONS.to_string());
    }

    #[test]
    fn reading_the_answer_leaves_the_news_unread() {
        let board = Board::new().unwrap();
        board.answered(answer(7, "rank 1 has not answered", false));
        assert!(!rings(&board), "half an answer wakes nobody");
        board.answered(answer(7, "rank 1 is alive", true));
        board.settle(&lost(3), true);
        assert_eq!(board.answer(7).unwrap().text, "rank 1 is alive");
        assert!(rings(&board));
        board.news();
        assert!(!rings(&board));
    }

    #[test]
    fn ones_own_news_does_not_wake() {
        let board = Board::new().unwrap();
        board.settle(&lost(3), false);
        assert!(!rings(&board));
        assert_eq!(board.news(), Some(lost(3)));
    }
}
