//! How much of a call passes while its ranks compute.

use std::hint::black_box;

use circulant::comm::Communicator;
use circulant::error::Result;
use rustix::time::{ClockId, clock_gettime};

use super::super::rows;
use super::super::timing::Timing;

/// Additions between two looks at the clock.
const STEP: u64 = 1 << 10;
/// Steps by which a rank finds out how fast it computes.
const TRIAL: u64 = 200;

/// A computation of always as many steps, whatever else its core does.
pub struct Work {
    steps: u64,
}

impl Work {
    /// What takes a core that does nothing else about so many microseconds, and one step at least.
    pub fn of(microseconds: f64) -> Work {
        let before = processor_seconds();
        Work { steps: TRIAL }.be_done();
        let step = (processor_seconds() - before).max(1e-9) / TRIAL as f64;
        Work { steps: (microseconds * 1e-6 / step).max(1.0) as u64 }
    }

    /// Does it.
    pub fn be_done(&self) {
        let sum = (0..self.steps * STEP).fold(1_u64, |sum, i| black_box(sum.wrapping_mul(3).wrapping_add(i)));
        black_box(sum);
    }
}

/// Medians of the call alone, the computation alone, and both: started, computed, waited for; in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Overlap {
    pub call_us: f64,
    pub compute_us: f64,
    pub both_us: f64,
}

impl Overlap {
    /// What was saved, of what could have been: of the shorter of the two; 100 at most, less than 0 where both together take
    /// longer than one after the other.
    pub fn percent(self) -> f64 {
        let Overlap { call_us, compute_us, both_us } = self;
        let most = call_us.min(compute_us);
        if most <= 0.0 { 0.0 } else { (100.0 * (call_us + compute_us - both_us) / most).min(100.0) }
    }
}

/// Measures computations beside calls, given what these take alone; the times of both, for about as long as the call takes.
pub fn measure(
    comm: &Communicator,
    timing: Timing,
    alone: Vec<f64>,
    call: &mut dyn FnMut(Meanwhile<'_>) -> Result<()>,
) -> Result<(Vec<f64>, Option<Overlap>)> {
    let median = |times: Vec<f64>| rows::summary(times).1;
    let call_us = median(alone);
    // Ranks that share a core take turns at it.
    let work = Work::of(call_us / comm.costs().crowd);
    let compute = timing.iterate(comm, &mut || {
        work.be_done();
        Ok(())
    })?;
    let both = timing.iterate(comm, &mut || call(&|| work.be_done()))?;
    let overlap = Overlap { call_us, compute_us: median(compute), both_us: median(both.clone()) };
    Ok((both, Some(overlap)))
}

/// What one does between a call's start and the wait for it.
pub type Meanwhile<'a> = &'a dyn Fn();

/// Of a call that leaves no time for anything.
pub const NOTHING: Meanwhile<'static> = &|| ();

/// Of this thread.
fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nothing_half_of_the_shorter_one_or_less_is_saved() {
        let saved = |call_us, compute_us, both_us| Overlap { call_us, compute_us, both_us }.percent();
        assert_eq!([saved(10.0, 30.0, 30.0), saved(10.0, 30.0, 40.0)], [100.0, 0.0]);
        assert_eq!(
            [saved(30.0, 10.0, 35.0), saved(10.0, 10.0, 25.0), saved(0.0, 1.0, 1.0)],
            [50.0, -50.0, 0.0]
        );
    }

    #[test]
    fn there_is_always_something_to_do() {
        assert_eq!(Work::of(0.0).steps, 1);
    }
}
