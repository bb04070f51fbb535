//! The thread that watches the links. It sleeps in poll and wakes for a socket or for its bell only:
//! the probes of idle connections are the kernel's.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::bell;
use super::hub::{Hub, Watched, Who};
use super::news::News;
use crate::error::Result;
use crate::rank::Rank;

/// The hub, as the engine's threads and the lifeline's thread share it.
pub struct Shared {
    hub: Mutex<Hub>,
    /// The thread has looked after something.
    changed: Condvar,
    /// Wakes the thread.
    bell: OwnedFd,
}

impl Shared {
    pub fn new(hub: Hub) -> Result<Self> {
        Ok(Shared { hub: Mutex::new(hub), changed: Condvar::new(), bell: bell::new()? })
    }

    pub fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the hub that the thread must know of: a new link, bytes left to send, the end.
    pub fn act<R>(&self, act: impl FnOnce(&mut Hub) -> R) -> R {
        let done = act(&mut self.lock());
        bell::ring(&self.bell);
        done
    }

    /// Waits until `done`; false if the deadline came first.
    pub fn wait_until(&self, deadline: Instant, mut done: impl FnMut(&Hub) -> bool) -> bool {
        let patience = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |hub| !done(hub));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// What the thread does, until the hub ends.
    pub fn watch(&self, me: Rank) {
        loop {
            let (watched, deadline) = {
                let hub = self.lock();
                (hub.watched(), hub.deadline())
            };
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return;
            }
            match self.sleep(&watched, deadline) {
                Ok(ready) => self.tend(ready),
                Err(e) => {
                    let why = format!("poll: {e}; raise `ulimit -n`");
                    return self.lock().settle(News::Aborted { by: me, why }, true);
                }
            }
        }
    }

    fn tend(&self, ready: Vec<Who>) {
        let mut hub = self.lock();
        ready.into_iter().for_each(|who| hub.tend(who));
        self.changed.notify_all();
    }

    /// Sleeps until something is ready, and says who.
    fn sleep(&self, watched: &[Watched], deadline: Option<Instant>) -> rustix::io::Result<Vec<Who>> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)];
        fds.extend(watched.iter().map(|w| PollFd::from_borrowed_fd(w.socket.as_fd(), w.flags)));
        let timeout = deadline.map(|deadline| timespec(deadline.saturating_duration_since(Instant::now())));
        match poll(&mut fds, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(Vec::new()),
            polled => polled?,
        };
        bell::hush(&self.bell);
        let ready = watched.iter().zip(&fds[1..]).filter(|(_, fd)| !fd.revents().is_empty());
        let mut who: Vec<Who> = ready.map(|(watched, _)| watched.who).collect();
        who.dedup();
        Ok(who)
    }
}

/// A timeout for poll.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
