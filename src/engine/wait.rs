//! How a thread waits for an operation: it carries the engine on, lets others in, or leaves it to another one.
#![forbid(unsafe_code)]

use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::{Engine, Entry, Handle};
use crate::error::{Error, Result, words_of};

/// The longest sleep, in case that a transport misses to wake us.
const NAP: Duration = Duration::from_millis(100);
/// The sleep while a transport is busy: nothing wakes us when it no longer is.
const SHORT_NAP: Duration = Duration::from_micros(200);
/// Who has so much to do that it does not sleep looks after waits every so many turns.
const MANY: u32 = 256;
/// Who has something else to do meanwhile, and does not sleep, does it and looks after waits every so many turns.
const SOME: u32 = 4;
/// How long a rank that leaves waits for its neighbours' goodbyes.
const LAST_CALL: Duration = Duration::from_secs(5);

/// How a wait in the engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is done.
    Done,
    /// Others want in, or what they wait for is done: to be let in, before one [waits on](Engine::wait_on).
    LetIn,
    /// Another thread carries the engine on already, and this one will be told.
    ForAnother,
}

impl Engine {
    /// Makes progress, and says whether an operation is done.
    pub fn test(&mut self, handle: Handle) -> Result<bool> {
        self.check()?;
        let progressed = self.vigil.check().and_then(|()| self.progress());
        let watched = progressed.and_then(|_| self.look_after(handle));
        watched.map_err(|error| self.fail(error))?;
        Ok(self.is_done(handle))
    }

    /// Who wants in while a thread [waits](Self::wait) in here.
    pub fn crowd(&self) -> Arc<Crowd> {
        Arc::clone(&self.crowd)
    }

    /// Waits until an operation is done, or there is reason to leave for a moment.
    pub fn wait(&mut self, handle: Handle) -> Result<Waited> {
        self.check()?;
        if self.is_done(handle) {
            self.is_awaited(handle, false);
            return Ok(Waited::Done);
        }
        if self.carried {
            self.is_awaited(handle, true);
            return self.watch(handle).map(|()| Waited::ForAnother).map_err(|error| self.fail(error));
        }
        self.is_awaited(handle, false);
        self.carried = true;
        let waited = self.wait_or_err(handle);
        self.carried = matches!(waited, Ok(Waited::LetIn));
        waited.map_err(|error| self.fail(error))
    }

    /// Carries on what no thread waits for, until nothing of that is left, or others want in.
    ///
    /// It sleeps whenever nothing happens: the program computes meanwhile. And as the program does not wait, no wait is told,
    /// or ends in an error for its length; but ranks that disagree about a call hear of it, and others are told what it waits for.
    pub fn attend(&mut self) {
        if self.is_broken() {
            return;
        }
        if let Err(error) = self.attend_or_err() {
            self.fail(error);
            self.leave_untold();
        }
    }

    /// Whether something is under way that no thread waits for, or carries on.
    pub fn is_left_alone(&self) -> bool {
        let mut operations = self.operations.iter().flatten();
        !self.carried && self.awaiting == 0 && operations.any(|entry| !entry.operation.is_done())
    }

    /// Goes on as the one that waits, after having let others in.
    pub fn wait_on(&mut self, handle: Handle) -> Result<Waited> {
        self.carried = false;
        self.watch(handle).map_err(|error| self.fail(error))?;
        self.wait(handle)
    }

    /// Whether others than the one that carries it on wait for an operation: they must be told of changes.
    pub fn is_awaited_by_others(&self) -> bool {
        self.awaiting > 0
    }

    /// Has `meanwhile` called by who waits, again and again while nothing happens; who has a core to itself does not sleep then.
    pub fn while_waiting(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    /// Leaves after a last barrier: after this no call is made.
    ///
    /// What this rank has put may still be queued in the transport, and goes only while it is polled; so
    /// it stays until its neighbours have said goodbye, and with it that they are through the barrier.
    pub fn leave(&mut self) {
        self.vigil.farewell();
        let until = Instant::now() + LAST_CALL;
        while self.check().and_then(|()| self.vigil.check()).is_ok()
            && !self.vigil.all_left()
            && Instant::now() < until
        {
            self.events.clear();
            let polled = self.events.refill(&mut *self.io.transport);
            if polled.and_then(|_| self.io.transport.sleep(&[], SHORT_NAP)).is_err() {
                break;
            }
        }
        self.vigil.leave();
        self.shut_down(Error::argument("communicator", "it was finalized", "make no calls after that"));
    }

    fn is_awaited(&mut self, handle: Handle, is: bool) {
        let Some(Some(entry)) = self.operations.get_mut(handle) else { return };
        match (std::mem::replace(&mut entry.awaited, is), is) {
            (false, true) => self.awaiting += 1,
            (true, false) => self.awaiting -= 1,
            _ => {}
        }
    }

    fn wait_or_err(&mut self, handle: Handle) -> Result<Waited> {
        let soon = self.is_all_done_soon();
        let mut turns = 0_u32;
        while !self.is_done(handle) {
            let happened = !self.is_quiet() && self.progress()?;
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(MANY) {
                self.watch_all(handle)?;
            }
            if self.jammed {
                self.look_after(handle)?;
            }
            if self.crowd.is_outside() || self.is_another_done() {
                return Ok(Waited::LetIn);
            }
            let may_sleep = !self.is_done(handle) && (!happened || self.patience.skips_a_poll(soon));
            if may_sleep {
                self.idle(handle, soon, turns)?;
            }
        }
        self.rest_from(handle);
        Ok(Waited::Done)
    }

    /// Nothing happens: it sleeps, does what else is to be done, or goes on polling.
    fn idle(&mut self, handle: Handle, soon: bool, turns: u32) -> Result<()> {
        let is_over = self.patience.is_over(soon);
        match self.meanwhile {
            // The library beside this one polls without sleeping, too: other ranks may need its progress at any moment.
            Some(meanwhile) if self.patience.offers_its_own_core() => {
                if turns.is_multiple_of(SOME) {
                    self.watch_all(handle)?;
                    see_to(meanwhile)?;
                }
                Ok(())
            }
            _ if is_over => self.sleep(handle),
            _ => Ok(()),
        }
    }

    fn attend_or_err(&mut self) -> Result<()> {
        let mut turns = 0_u32;
        while self.is_left_alone() && !self.crowd.is_outside() {
            let happened = !self.is_quiet() && self.progress()?;
            turns = turns.wrapping_add(1);
            if happened && !turns.is_multiple_of(MANY) {
                continue;
            }
            self.watch_unawaited()?;
            if self.jammed {
                self.clear_jam(None)?;
            }
            if !happened {
                self.nap(false)?;
            }
        }
        Ok(())
    }

    /// Looks after what is under way, in the program's stead.
    fn watch_unawaited(&mut self) -> Result<()> {
        let unawaited = |entry: &&mut Entry| !entry.operation.is_done();
        for entry in self.operations.iter_mut().flatten().filter(unawaited) {
            let Entry { operation, stirs, wait, .. } = entry;
            self.vigil.watch(false, wait, *stirs, || operation.waiting())?;
        }
        self.vigil.check()
    }

    /// Whether progress would do nothing: most looks, while a rank waits, are no more than this.
    pub(super) fn is_quiet(&self) -> bool {
        !self.held_up && self.events.is_empty() && self.io.transport.is_quiet()
    }

    /// Whether what is under way takes no time to speak of, and nothing gains by a rank that sleeps.
    fn is_all_done_soon(&self) -> bool {
        let mut under_way = self.operations.iter().flatten().filter(|entry| !entry.operation.is_done());
        under_way.all(|entry| entry.operation.is_done_soon())
    }

    /// Whether another thread's wait is over.
    fn is_another_done(&self) -> bool {
        self.awaiting > 0
            && self.operations.iter().flatten().any(|entry| entry.awaited && entry.operation.is_done())
    }

    /// The same, and sees to it that nothing is in its way.
    fn look_after(&mut self, handle: Handle) -> Result<()> {
        self.watch(handle)?;
        if self.jammed { self.clear_jam(Some(handle)) } else { Ok(()) }
    }

    /// Looks after the wait for an operation, if it is not done.
    fn watch(&mut self, handle: Handle) -> Result<()> {
        if self.is_done(handle) {
            self.rest_from(handle);
            return Ok(());
        }
        let Some(Some(entry)) = self.operations.get_mut(handle) else { return Ok(()) };
        let Entry { operation, stirs, wait, .. } = entry;
        self.vigil.watch(true, wait, *stirs, || operation.waiting())
    }

    /// The same for what this thread waits for, and for what others do, who cannot come in meanwhile.
    fn watch_all(&mut self, handle: Handle) -> Result<()> {
        self.watch(handle)?;
        self.attend_to_others();
        if self.awaiting == 0 {
            return Ok(());
        }
        for other in 0..self.operations.len() {
            if self.operations[other].as_ref().is_some_and(|entry| entry.awaited) {
                self.watch(other)?;
            }
        }
        Ok(())
    }

    /// What nobody waits for, and was told of when it was tested, goes on meanwhile.
    fn attend_to_others(&mut self) {
        for Entry { wait, .. } in self.operations.iter().flatten() {
            self.vigil.attends(wait);
        }
    }

    fn rest_from(&mut self, handle: Handle) {
        if let Some(Some(entry)) = self.operations.get_mut(handle) {
            self.vigil.rest(&mut entry.wait);
        }
    }

    fn sleep(&mut self, handle: Handle) -> Result<()> {
        self.watch_all(handle)?;
        if let (Some(meanwhile), true) = (self.meanwhile, std::mem::replace(&mut self.napped, true)) {
            see_to(meanwhile)?;
        }
        self.nap(self.meanwhile.is_some())
    }

    /// Sleeps until something comes, or somebody wants in; not for long where that is `restless`.
    fn nap(&mut self, restless: bool) -> Result<()> {
        let nap = if self.held_up || self.jammed || restless { SHORT_NAP } else { NAP };
        let bell = self.crowd.wake();
        let slept = match self.vigil.wake() {
            Some(news) => self.io.transport.sleep(&[bell, news], nap),
            None => self.io.transport.sleep(&[bell], nap),
        };
        self.crowd.hush();
        slept
    }
}

/// Has it done. A panic there is not to leave what is under way as it is.
fn see_to(meanwhile: fn()) -> Result<()> {
    catch_unwind(meanwhile).map_err(|panic| {
        let what = format!("what was to be done while waiting panicked: {}", words_of(panic));
        Error::transport("wait", what, "mend it")
    })
}
