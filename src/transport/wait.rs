//! Sleeping until something happens to one of several descriptors, of one transport or of two at once.

use std::array;
use std::os::fd::BorrowedFd;
use std::time::Duration;

#[cfg(not(miri))]
use rustix::event::poll;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// What a transport that is about to sleep can be woken by.
pub(super) enum Bed<'a> {
    /// It must not sleep: there may be something to poll.
    Nowhere,
    /// This is readable when there is.
    Until(BorrowedFd<'a>),
    /// Likewise, mostly: it may sleep so long, then it must look.
    Soon(BorrowedFd<'a>, Duration),
    /// Nothing tells: it may sleep so long, then it must look.
    Nap(Duration),
}

/// A transport that can be slept on, alone or beside another.
pub(super) trait Sleeper {
    /// Looks a last time, as far as it can tell without a poll; whatever comes after this ends the sleep.
    fn lie_down(&mut self) -> Result<Bed<'_>>;

    /// The sleep is over, if there was one; whether its own descriptor was readable. It may have nothing to do then.
    fn rise(&mut self, _rung: bool) {}
}

/// Sleeps on all of these at once, until there may be something to poll for one, one of `wakes` becomes readable, or
/// `timeout` is over. They lie down in their order.
pub(super) fn sleep<const N: usize>(
    mut sleepers: [&mut dyn Sleeper; N],
    wakes: &[BorrowedFd<'_>],
    timeout: Duration,
) -> Result<()> {
    let slept = sleep_on(&mut sleepers, wakes, timeout);
    let rung = slept.as_ref().map_or([false; N], |&rung| rung);
    sleepers.into_iter().zip(rung).for_each(|(sleeper, rung)| sleeper.rise(rung));
    slept.map(drop)
}

/// Whose descriptor was readable.
fn sleep_on<const N: usize>(
    sleepers: &mut [&mut dyn Sleeper; N],
    wakes: &[BorrowedFd<'_>],
    timeout: Duration,
) -> Result<[bool; N]> {
    let mut longest = timeout;
    let mut bells = [None; N];
    for (sleeper, bell) in sleepers.iter_mut().zip(&mut bells) {
        match sleeper.lie_down()? {
            Bed::Nowhere => return Ok([false; N]),
            Bed::Until(descriptor) => *bell = Some(descriptor),
            Bed::Soon(descriptor, nap) => (*bell, longest) = (Some(descriptor), longest.min(nap)),
            Bed::Nap(nap) => longest = longest.min(nap),
        }
    }
    let descriptors = bells.into_iter().flatten().chain(wakes.iter().copied());
    let mut descriptors: Vec<_> = descriptors.map(readable).collect();
    doze(&mut descriptors, longest)?;
    let mut rung = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty());
    Ok(array::from_fn(|i| bells[i].is_some() && rung.next() == Some(true)))
}

/// A descriptor that is waited for until it is readable.
pub(super) fn readable(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
}

/// Waits until one of some descriptors, or of none, is ready, or `timeout` is over.
pub(super) fn doze(descriptors: &mut [PollFd<'_>], timeout: Duration) -> Result<()> {
    // Longer than the clock can say is for ever; the caller comes back when a signal interrupts.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(descriptors, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(Error::transport("poll", e.to_string(), "raise `ulimit -n`, or free memory")),
    }
}

/// Miri has no ppoll: a nap in its place, as a sleep may end at any time and whoever sleeps looks again.
#[cfg(miri)]
fn poll(_: &mut [PollFd<'_>], _: Option<&Timespec>) -> std::result::Result<usize, Errno> {
    std::thread::sleep(Duration::from_micros(10));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, OwnedFd};

    /// Longer than any test runs.
    const FOR_EVER: Duration = Duration::from_secs(100_000);

    /// Sleeps on a pipe, if it has one, and notes what became of it.
    struct Dozer {
        bell: Option<OwnedFd>,
        lain: bool,
        rung: Option<bool>,
    }

    impl Dozer {
        fn on(bell: Option<OwnedFd>) -> Dozer {
            Dozer { bell, lain: false, rung: None }
        }
    }

    impl Sleeper for Dozer {
        fn lie_down(&mut self) -> Result<Bed<'_>> {
            self.lain = true;
            Ok(self.bell.as_ref().map_or(Bed::Nowhere, |bell| Bed::Until(bell.as_fd())))
        }

        fn rise(&mut self, rung: bool) {
            self.rung = Some(rung);
        }
    }

    fn silent() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe().unwrap()
    }

    fn rung() -> (OwnedFd, OwnedFd) {
        let pipe = silent();
        rustix::io::write(&pipe.1, b"x").unwrap();
        pipe
    }

    #[test]
    fn of_two_the_one_that_has_something_ends_the_sleep_and_is_told() {
        for first in [true, false] {
            let ((one, _one), (two, _two)) = if first { (rung(), silent()) } else { (silent(), rung()) };
            let (mut one, mut two) = (Dozer::on(Some(one)), Dozer::on(Some(two)));
            sleep([&mut one, &mut two], &[], FOR_EVER).unwrap();
            assert_eq!((one.rung, two.rung), (Some(first), Some(!first)));
        }
    }

    #[test]
    fn what_wakes_both_rings_for_none() {
        let ((one, _one), (two, _two), (wake, _wake)) = (silent(), silent(), rung());
        let (mut one, mut two) = (Dozer::on(Some(one)), Dozer::on(Some(two)));
        sleep([&mut one, &mut two], &[wake.as_fd()], FOR_EVER).unwrap();
        assert_eq!((one.rung, two.rung), (Some(false), Some(false)));
    }

    #[test]
    fn where_one_may_not_sleep_nobody_does_and_all_rise() {
        let (bell, _writer) = silent();
        let (mut one, mut two) = (Dozer::on(None), Dozer::on(Some(bell)));
        sleep([&mut one, &mut two], &[], FOR_EVER).unwrap();
        assert_eq!((one.rung, two.rung, two.lain), (Some(false), Some(false), false));
    }
}
