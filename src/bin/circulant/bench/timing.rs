//! How long it takes what ranks do together: barrier, start, act, stop. An iteration's time is the largest over the ranks.

use std::time::Instant;

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Max;

/// Seconds for which it is done untimed: on a virtual machine that idled, memory is slow for as long.
const WARM_UP: f64 = 0.1;

/// What is timed: the same on all ranks.
pub type Act<'a> = &'a mut dyn FnMut() -> Result<()>;

/// As many iterations as fit the seconds, each with the largest time over the ranks; all ranks get them.
pub fn iterate(comm: &Communicator, seconds: f64, act: Act<'_>) -> Result<Vec<f64>> {
    let each = warm_up(comm, seconds.min(WARM_UP), act)?;
    let count = (seconds / each).clamp(5.0, 10_000.0) as usize;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        times.push(timed(comm, act)?);
    }
    comm.run(&mut times, Call::allreduce(Max))?;
    Ok(times)
}

/// What an iteration takes, from barrier to barrier: a rank's own part may be over long before the others'.
/// Found by twice as many as before until they took half as long. All ranks take rank 0's word.
fn warm_up(comm: &Communicator, seconds: f64, act: Act<'_>) -> Result<f64> {
    timed(comm, act)?;
    let mut count = 1;
    loop {
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..count {
            timed(comm, act)?;
        }
        comm.barrier()?;
        let mut took = [start.elapsed().as_secs_f64()];
        comm.run(&mut took, Call::broadcast(0))?;
        if 2.0 * took[0] >= seconds {
            return Ok((took[0] / f64::from(count)).max(f64::MIN_POSITIVE));
        }
        count *= 2;
    }
}

fn timed(comm: &Communicator, act: Act<'_>) -> Result<f64> {
    comm.barrier()?;
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_secs_f64())
}
