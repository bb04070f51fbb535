//! Ranks that are threads of one process: they die together, but one that gives up must still be heard by the others. One
//! that just goes is not: where others wait for it, they wait for ever.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::bell;
use super::news::News;
use crate::error::Result;
use crate::rank::Rank;

/// One rank's word with the others.
pub struct Kin {
    me: Rank,
    common: Arc<Common>,
}

/// What all have in common: the first fatal news, and a bell that it rings for good, as nobody waits after it.
struct Common {
    fatal: AtomicBool,
    news: Mutex<Option<News>>,
    bell: OwnedFd,
}

impl Kin {
    /// Those of so many ranks, in their order.
    pub fn world(ranks: u32) -> Result<Vec<Kin>> {
        let (fatal, news) = Default::default();
        let common = Arc::new(Common { fatal, news, bell: bell::new()? });
        Ok((0..ranks).map(|me| Kin { me, common: Arc::clone(&common) }).collect())
    }

    /// Readable once there is news.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.common.bell.as_fd()
    }

    /// The first fatal news; the same at each later call. Costs one atomic load while there is none.
    pub fn news(&self) -> Option<News> {
        if !self.common.fatal.load(Ordering::Acquire) {
            return None;
        }
        self.common.news.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells all others that no call can succeed any more. Without effect after other news.
    pub fn abort(&self, why: &str) {
        self.tell(News::Aborted { by: self.me, why: why.to_owned() });
    }

    fn tell(&self, news: News) {
        self.common.news.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(news);
        self.common.fatal.store(true, Ordering::Release);
        bell::ring(&self.common.bell);
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell(News::Lost { rank: self.me, how: "its thread has panicked".to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_says_first_all_hear() {
        let kin = Kin::world(3).unwrap();
        assert!(kin.iter().all(|one| one.news().is_none()));
        kin[1].abort("no more");
        kin[2].abort("neither");
        let first = News::Aborted { by: 1, why: "no more".to_owned() };
        assert!(kin.iter().all(|one| one.news().as_ref() == Some(&first)));
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
        let mut kin = Kin::world(2).unwrap();
        drop(kin.pop());
        assert!(kin[0].news().is_none());
    }
}
