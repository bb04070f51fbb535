//! How long calls take: barrier, start, call, stop. An iteration's time is the largest over the ranks.

use std::time::Instant;

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Max;

use super::caller::Caller;
use super::subject::Subject;

/// As many iterations as fit the seconds, each with the largest time over the ranks; all ranks get them.
pub fn iterate(
    comm: &Communicator,
    subject: &Subject,
    caller: &mut Caller,
    seconds: f64,
) -> Result<Vec<f64>> {
    let count = iterations(comm, subject, caller, seconds)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        times.push(timed(comm, subject, caller)?);
    }
    comm.run(&mut times, Call::allreduce(Max))?;
    Ok(times)
}

/// By one that does not count, from barrier to barrier: a rank's own part may be over long before the
/// others'. All ranks take rank 0's word.
fn iterations(comm: &Communicator, subject: &Subject, caller: &mut Caller, seconds: f64) -> Result<usize> {
    timed(comm, subject, caller)?;
    comm.barrier()?;
    let start = Instant::now();
    timed(comm, subject, caller)?;
    comm.barrier()?;
    let mut count = [(seconds / start.elapsed().as_secs_f64()).clamp(5.0, 10_000.0) as u64];
    comm.run(&mut count, Call::broadcast(0))?;
    Ok(count[0] as usize)
}

fn timed(comm: &Communicator, subject: &Subject, caller: &mut Caller) -> Result<f64> {
    comm.barrier()?;
    let start = Instant::now();
    caller.call(comm, subject)?;
    Ok(start.elapsed().as_secs_f64())
}
