//! How long it takes what ranks do together: barrier, start, act, stop. An iteration's time is the largest over the ranks.

use std::time::Instant;

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Max;

/// What is timed: the same on all ranks.
pub type Act<'a> = &'a mut dyn FnMut() -> Result<()>;

/// As many iterations as fit the seconds, each with the largest time over the ranks; all ranks get them.
pub fn iterate(comm: &Communicator, seconds: f64, act: Act<'_>) -> Result<Vec<f64>> {
    let count = iterations(comm, seconds, act)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        times.push(timed(comm, act)?);
    }
    comm.run(&mut times, Call::allreduce(Max))?;
    Ok(times)
}

/// By one that does not count, from barrier to barrier: a rank's own part may be over long before the
/// others'. All ranks take rank 0's word.
fn iterations(comm: &Communicator, seconds: f64, act: Act<'_>) -> Result<usize> {
    timed(comm, act)?;
    comm.barrier()?;
    let start = Instant::now();
    timed(comm, act)?;
    comm.barrier()?;
    let mut count = [(seconds / start.elapsed().as_secs_f64()).clamp(5.0, 10_000.0) as u64];
    comm.run(&mut count, Call::broadcast(0))?;
    Ok(count[0] as usize)
}

fn timed(comm: &Communicator, act: Act<'_>) -> Result<f64> {
    comm.barrier()?;
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_secs_f64())
}
