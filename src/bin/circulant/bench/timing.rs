//! How long it takes what ranks do together: barrier, start, act, stop. An iteration's time is the largest over the ranks.

use std::time::{Duration, Instant};

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Max;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Seconds for which it is done untimed: on a virtual machine that idled, memory is slow for as long.
const WARM_UP: f64 = 0.1;

/// Rests that are slept through. From shorter ones ranks would wake microseconds apart: they look at the clock until it is
/// time.
const SLEPT: Duration = Duration::from_micros(100);

/// What is timed: the same on all ranks.
pub type Act<'a> = &'a mut dyn FnMut() -> Result<()>;

/// For how long, and how each iteration starts.
#[derive(Clone, Copy)]
pub struct Timing {
    /// About how long all take, but for the warm-up.
    pub seconds: f64,
    /// All ranks start by a machine's clock, so long after rank 0 has left the barrier, and times count from then; zero: as each
    /// leaves it.
    pub rest: Duration,
}

impl Timing {
    /// So many seconds, and each iteration as ranks leave the barrier.
    pub fn without_rest(seconds: f64) -> Self {
        Timing { seconds, rest: Duration::ZERO }
    }

    /// As many iterations as fit the seconds, each with the largest time over the ranks; all ranks get them.
    pub fn iterate(self, comm: &Communicator, act: Act<'_>) -> Result<Vec<f64>> {
        let each = self.warm_up(comm, act)?;
        let count = (self.seconds / each).clamp(5.0, 10_000.0) as usize;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            times.push(self.once(comm, act)?);
        }
        comm.run(&mut times, Call::allreduce(Max))?;
        Ok(times)
    }

    /// What an iteration takes, from barrier to barrier: a rank's own part may be over long before the others'.
    /// Found by twice as many as before until they took half as long. All ranks take rank 0's word.
    fn warm_up(self, comm: &Communicator, act: Act<'_>) -> Result<f64> {
        self.once(comm, act)?;
        let mut count = 1;
        loop {
            comm.barrier()?;
            let start = Instant::now();
            for _ in 0..count {
                self.once(comm, act)?;
            }
            comm.barrier()?;
            let mut took = [start.elapsed().as_secs_f64()];
            comm.run(&mut took, Call::broadcast(0))?;
            if 2.0 * took[0] >= self.seconds.min(WARM_UP) {
                return Ok((took[0] / f64::from(count)).max(f64::MIN_POSITIVE));
            }
            count *= 2;
        }
    }

    /// What it takes this rank, from when all were to start: a rank that the system wakes late has not done less.
    fn once(self, comm: &Communicator, act: Act<'_>) -> Result<f64> {
        comm.barrier()?;
        let start = if self.rest.is_zero() { nanoseconds() } else { start_by_the_clock(comm, self.rest)? };
        act()?;
        Ok((nanoseconds() - start) as f64 / 1e9)
    }
}

/// Waits until the time that rank 0 names, which all read from one clock. The time.
fn start_by_the_clock(comm: &Communicator, rest: Duration) -> Result<i64> {
    let after_rest = || nanoseconds().saturating_add(rest.as_nanos() as i64);
    let mut start = [after_rest()];
    comm.run(&mut start, Call::broadcast(0))?;
    // Another machine's clock shows anything; and who hears of a time that has passed starts late by no fault of the call.
    let start = start[0].clamp(nanoseconds(), after_rest());
    if rest >= SLEPT {
        sleep_until(start);
    }
    while nanoseconds() < start {}
    Ok(start)
}

/// As whatever library is measured beside does, so that the system wakes both alike.
fn sleep_until(time: i64) {
    let time = Timespec { tv_sec: time / 1_000_000_000, tv_nsec: time % 1_000_000_000 };
    // What a signal ends early is waited for by looks at the clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

/// Since the machine began: a clock that all its ranks share.
pub fn nanoseconds() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
