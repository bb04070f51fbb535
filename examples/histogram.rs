//! A distributed histogram: every rank has samples, no rank has all of them, and bins belong to ranks.
//!
//! ```sh
//! cargo run --release --example histogram                                   # one process
//! circulant run -n 4 -- target/release/examples/histogram --verify          # four ranks
//! ```
//!
//! Three collectives do it. An allreduce finds the range, of minimum and maximum in one call; a reduce_scatter adds
//! the ranks' counts up and leaves each rank those of its own bins, as many as divide evenly and one more for some;
//! a gatherv brings rank 0 what it draws. The reduce_scatter is prepared once, and started for each batch of
//! samples while the next batch is drawn.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::{Max, Sum};
use clap::Parser;

/// Draws samples on all ranks, and their common histogram on rank 0.
#[derive(Parser)]
struct Arguments {
    /// Samples of each rank, in a batch
    #[arg(long, default_value = "200000")]
    samples: NonZeroUsize,
    /// Batches
    #[arg(long, default_value_t = 5)]
    batches: usize,
    /// Bins of all ranks together
    #[arg(long, default_value = "24")]
    bins: NonZeroUsize,
    /// Compare with a histogram that rank 0 makes alone, of all ranks' samples
    #[arg(long)]
    verify: bool,
}

fn main() -> ExitCode {
    match Communicator::world().and_then(|comm| run(&comm, &Arguments::parse())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("histogram: the ranks' histogram is not the one that rank 0 made alone");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("histogram: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the histogram is right, or was not to be verified.
fn run(comm: &Communicator, arguments: &Arguments) -> Result<bool> {
    let range = common_range(comm, &batch(arguments, comm.rank(), 0))?;
    let shares = shares(arguments.bins.get(), comm.size() as usize);
    let own = count(comm, arguments, range, &shares)?;

    let mut all = vec![0; if comm.rank() == 0 { arguments.bins.get() } else { 0 }];
    comm.gatherv(&own, &mut all, &shares, 0)?;
    if comm.rank() > 0 {
        return Ok(true);
    }
    draw(&all, range, arguments, comm.size());
    Ok(!arguments.verify || all == alone(arguments, comm.size(), range))
}

/// The least and the largest of all ranks' samples, in one call: the largest of what is negated is the least.
fn common_range(comm: &Communicator, samples: &[f64]) -> Result<(f64, f64)> {
    let own = samples.iter().fold([f64::MIN; 2], |[least, most], &x| [least.max(-x), most.max(x)]);
    let mut all = own;
    comm.run(&mut all, Call::allreduce(Max))?;
    Ok((-all[0], all[1]))
}

/// How many bins each rank has.
fn shares(bins: usize, p: usize) -> Vec<usize> {
    (0..p).map(|rank| bins / p + usize::from(rank < bins % p)).collect()
}

/// Counts all batches, and leaves this rank the sums of its own bins.
fn count(
    comm: &Communicator,
    arguments: &Arguments,
    range: (f64, f64),
    shares: &[usize],
) -> Result<Vec<u64>> {
    let me = comm.rank() as usize;
    let first: usize = shares[..me].iter().sum();
    let window = comm.window::<u64>(arguments.bins.get())?;
    let mut summed_up = comm.prepare(window, Call::reduce_scatter(shares, Sum))?;
    let mut own = vec![0; shares[me]];
    let mut counts = histogram(&batch(arguments, comm.rank(), 0), range, arguments.bins.get());
    for next in 1..=arguments.batches {
        summed_up.window()?.copy_from_slice(&counts);
        let running = summed_up.start()?;
        if next < arguments.batches {
            counts = histogram(&batch(arguments, comm.rank(), next), range, arguments.bins.get());
        }
        running.wait()?;
        let sums = &summed_up.window()?[first..first + own.len()];
        own.iter_mut().zip(sums).for_each(|(own, sum)| *own += sum);
    }
    Ok(own)
}

/// A rank's samples, the same in every run: sums of uniform numbers, which are nearly normal.
fn batch(arguments: &Arguments, rank: u32, batch: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed((u64::from(rank) << 32) + batch as u64);
    (0..arguments.samples.get()).map(|_| (0..6).map(|_| random.f64()).sum()).collect()
}

/// What lies outside of the range counts for the outermost bins.
fn histogram(samples: &[f64], (least, most): (f64, f64), bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    let scale = bins as f64 / (most - least).max(f64::MIN_POSITIVE);
    for sample in samples {
        counts[(((sample - least) * scale) as usize).min(bins - 1)] += 1;
    }
    counts
}

fn alone(arguments: &Arguments, p: u32, range: (f64, f64)) -> Vec<u64> {
    let mut all = vec![0; arguments.bins.get()];
    for (rank, next) in (0..p).flat_map(|rank| (0..arguments.batches).map(move |next| (rank, next))) {
        let counts = histogram(&batch(arguments, rank, next), range, arguments.bins.get());
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    all
}

fn draw(counts: &[u64], (least, most): (f64, f64), arguments: &Arguments, p: u32) {
    let largest = counts.iter().max().copied().unwrap_or(0).max(1);
    println!("{} samples of {p} ranks in {} bins", counts.iter().sum::<u64>(), arguments.bins.get());
    for (bin, count) in counts.iter().enumerate() {
        let from = least + (most - least) * bin as f64 / arguments.bins.get() as f64;
        println!("{from:7.3} {count:9}  {}", "#".repeat((count * 60 / largest) as usize));
    }
}
