//! Sleeping until something happens to one of several descriptors, of one transport or of two at once.

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

/// What has ended a sleep, for one of the sleepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Its own descriptor.
    Rung,
    /// Something else, or it was no sleep.
    Otherwise,
    /// Nothing but time.
    InTime,
}

/// A transport that can be slept on, alone or beside another.
pub(super) trait Sleeper {
    /// Looks a last time, as far as it can tell without a poll; whatever comes after this ends the sleep.
    fn lie_down(&mut self) -> Result<Bed<'_>>;

    /// The sleep is over, if there was one. It may have nothing to do then.
    fn rise(&mut self, _after: Woken) {}
}

/// Sleeps on all of these at once, until there may be something to poll for one, one of `wakes` becomes readable, or
/// `timeout` is over. They lie down in their order.
pub(super) fn sleep<const N: usize>(
    mut sleepers: [&mut dyn Sleeper; N],
    wakes: &[BorrowedFd<'_>],
    timeout: Duration,
) -> Result<()> {
    let slept = sleep_on(&mut sleepers, wakes, timeout);
    let woken = slept.as_ref().map_or([Woken::Otherwise; N], |&woken| woken);
    sleepers.into_iter().zip(woken).for_each(|(sleeper, woken)| sleeper.rise(woken));
    slept.map(drop)
}

/// What has woken each.
fn sleep_on<const N: usize>(
    sleepers: &mut [&mut dyn Sleeper; N],
    wakes: &[BorrowedFd<'_>],
    timeout: Duration,
) -> Result<[Woken; N]> {
    let mut longest = timeout;
    let mut bells = [None; N];
    for (sleeper, bell) in sleepers.iter_mut().zip(&mut bells) {
        match sleeper.lie_down()? {
            Bed::Nowhere => return Ok([Woken::Otherwise; N]),
            Bed::Until(descriptor) => *bell = Some(descriptor),
            Bed::Soon(descriptor, nap) => (*bell, longest) = (Some(descriptor), longest.min(nap)),
            Bed::Nap(nap) => longest = longest.min(nap),
        }
    }
    let descriptors = bells.into_iter().flatten().chain(wakes.iter().copied());
    let mut descriptors: Vec<_> = descriptors.map(readable).collect();
    doze(&mut descriptors, longest)?;
    let mut rung = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty());
    if !rung.clone().any(|rung| rung) {
        return Ok([Woken::InTime; N]);
    }
    let is_rung = |bell: &Option<_>| bell.is_some() && rung.next() == Some(true);
    Ok(bells.each_ref().map(is_rung).map(|rung| if rung { Woken::Rung } else { Woken::Otherwise }))
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

    /// Sleeps on a pipe, if it has one, perhaps not for long, and notes what became of it.
    struct Dozer {
        bell: Option<OwnedFd>,
        nap: Option<Duration>,
        lain: bool,
        woken: Option<Woken>,
    }

    impl Dozer {
        fn on(bell: Option<OwnedFd>) -> Dozer {
            Dozer { bell, nap: None, lain: false, woken: None }
        }
    }

    impl Sleeper for Dozer {
        fn lie_down(&mut self) -> Result<Bed<'_>> {
            self.lain = true;
            Ok(match (&self.bell, self.nap) {
                (None, _) => Bed::Nowhere,
                (Some(bell), None) => Bed::Until(bell.as_fd()),
                (Some(bell), Some(nap)) => Bed::Soon(bell.as_fd(), nap),
            })
        }

        fn rise(&mut self, woken: Woken) {
            self.woken = Some(woken);
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
            let woken = |rung| Some(if rung { Woken::Rung } else { Woken::Otherwise });
            assert_eq!((one.woken, two.woken), (woken(first), woken(!first)));
        }
    }

    #[test]
    fn what_wakes_both_rings_for_none() {
        let ((one, _one), (two, _two), (wake, _wake)) = (silent(), silent(), rung());
        let (mut one, mut two) = (Dozer::on(Some(one)), Dozer::on(Some(two)));
        sleep([&mut one, &mut two], &[wake.as_fd()], FOR_EVER).unwrap();
        assert_eq!((one.woken, two.woken), (Some(Woken::Otherwise), Some(Woken::Otherwise)));
    }

    #[test]
    fn where_one_may_not_sleep_nobody_does_and_all_rise() {
        let (bell, _writer) = silent();
        let (mut one, mut two) = (Dozer::on(None), Dozer::on(Some(bell)));
        sleep([&mut one, &mut two], &[], FOR_EVER).unwrap();
        let otherwise = Some(Woken::Otherwise);
        assert_eq!((one.woken, two.woken, two.lain), (otherwise, otherwise, false));
    }

    #[test]
    fn who_looks_again_soon_is_woken_in_time_or_rung() {
        for ((bell, _writer), woken, nap) in
            [(silent(), Woken::InTime, Duration::from_millis(1)), (rung(), Woken::Rung, FOR_EVER)]
        {
            let mut dozer = Dozer { nap: Some(nap), ..Dozer::on(Some(bell)) };
            sleep([&mut dozer], &[], FOR_EVER).unwrap();
            assert_eq!(dozer.woken, Some(woken));
        }
    }
}
