//! Ranks that are threads of one process: they die together, but one that gives up must still be heard by the others.
#![forbid(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::news::{Board, News};
use crate::error::Result;
use crate::rank::Rank;

/// One rank's word with the others.
pub struct Kin {
    me: Rank,
    boards: Arc<[Board]>,
}

impl Kin {
    /// Those of so many ranks, in their order.
    pub fn world(ranks: u32) -> Result<Vec<Kin>> {
        let boards: Arc<[Board]> = (0..ranks).map(|_| Board::new()).collect::<Result<_>>()?;
        Ok((0..ranks).map(|me| Kin { me, boards: Arc::clone(&boards) }).collect())
    }

    /// Readable while there is news that has not been looked at.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.boards[self.me as usize].wake()
    }

    /// The first fatal news; the same at each later call. Costs one atomic load while there is none.
    pub fn news(&self) -> Option<News> {
        self.boards[self.me as usize].news()
    }

    /// Tells all others that no call can succeed any more.
    pub fn abort(&self, why: &str) {
        self.tell(&News::Aborted { by: self.me, why: why.to_owned() });
    }

    fn tell(&self, news: &News) {
        let others = (0..).zip(&*self.boards).filter(|&(rank, _)| rank != self.me);
        others.for_each(|(_, board)| {
            board.settle(news, true);
        });
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell(&News::Lost { rank: self.me, how: "its thread has panicked".to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_says_all_others_hear_once() {
        let kin = Kin::world(3).unwrap();
        assert!(kin.iter().all(|one| one.news().is_none()));
        kin[1].abort("no more");
        kin[2].abort("neither");
        let first = News::Aborted { by: 1, why: "no more".to_owned() };
        assert_eq!(kin[0].news(), Some(first.clone()));
        assert_eq!(kin[1].news(), Some(News::Aborted { by: 2, why: "neither".to_owned() }));
        assert_eq!(kin[2].news(), Some(first));
    }

    #[test]
    fn a_thread_that_panics_with_it_is_lost() {
        let mut kin = Kin::world(2).unwrap();
        let one = kin.pop();
        let panicked = std::thread::spawn(move || {
            let _one = one;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panicked.join().is_err());
        assert!(matches!(kin[0].news(), Some(News::Lost { rank: 1, .. })));
        assert!(Kin::world(2).unwrap().pop().unwrap().news().is_none());
    }
}
