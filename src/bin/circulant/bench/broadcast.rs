//! `circulant bench broadcast`.

use std::process::ExitCode;
use std::time::Instant;

use circulant::comm::request::Prepared;
use circulant::comm::window::Window;
use circulant::comm::{Broadcast, Communicator};
use circulant::error::{Error, Result};

use super::World;
use super::rows::{self, Format, Row};
use super::sizes::Sizes;
use crate::Outcome;

/// Measure the broadcast on the circulant graph.
///
/// An iteration is: barrier, start, broadcast, stop. Its time is the largest over the ranks of their own
/// durations; a row gives least, median and largest over the iterations.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench broadcast -n 4                       four ranks on this machine
  circulant bench broadcast -n 2 -m 1M:64M --check     large messages, every byte verified
  mpiexec -n 16 circulant bench broadcast --format csv under MPICH or Intel MPI's launcher
  circulant bench broadcast -n 8 -m 256K --blocks 20   the number of blocks by hand")]
pub struct Arguments {
    #[command(flatten)]
    world: World,

    /// Sizes in bytes, from MIN to MAX (K, M, G for powers of 1024); one number: that size only
    #[arg(short = 'm', long, value_name = "MIN:MAX", default_value = "1:4M")]
    sizes: Sizes,

    /// Each size is this many times the one before
    #[arg(short = 'x', long, value_name = "FACTOR", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    factor: u32,

    /// The rank that sends
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,

    /// The number of blocks [default: from size, ranks and measured costs]
    #[arg(long, value_name = "N")]
    blocks: Option<u32>,

    /// The tense of the call, and with it the memory
    #[arg(long, value_enum, default_value_t = Tense::Slice)]
    tense: Tense,

    /// Aim at this many seconds a size (5 to 10000 iterations)
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 0.5, value_parser = super::duration)]
    seconds: f64,

    /// After the timed loop, verify every byte on every rank, with new data in each iteration
    #[arg(long)]
    check: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Osu)]
    format: Format,
}

/// How the broadcast is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tense {
    /// At once, on a slice, which is registered for each call
    Slice,
    /// At once, on a registered window
    Window,
    /// Started and waited for, on a window
    Started,
    /// Prepared once, on a window, then started again and again
    Prepared,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if let Some(code) = self.world.start()? {
            return Ok(code);
        }
        let comm = Communicator::world_with(&self.world.settings()?)?;
        if comm.rank() == 0 {
            rows::head(self.format, "broadcast", &comm)?;
        }
        for bytes in self.sizes.each(self.factor as usize) {
            self.measure(&comm, bytes)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn how(&self) -> Broadcast {
        let how = Broadcast::from(self.root);
        self.blocks.map_or(how, |blocks| how.blocks(blocks))
    }

    fn measure(
        &self,
        comm: &Communicator,
        bytes: usize,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let mut subject = Subject::new(comm, self.tense, bytes, self.how())?;
        let iterations = self.iterations(comm, &mut subject)?;
        let mut times = Vec::with_capacity(iterations);
        for _ in 0..iterations {
            times.push(timed(comm, &mut subject)?);
        }
        let wrong = if self.check { check(comm, &mut subject, self.root)? } else { None };
        let slowest = largest_over_ranks(comm, times)?;
        first_complaint(comm, wrong)?;
        if comm.rank() == 0 {
            let (min_us, median_us, max_us) = rows::summary(slowest);
            let blocks = self.blocks.unwrap_or(comm.partition(bytes as u64).blocks());
            let about = comm.about();
            let row = Row {
                library: "circulant",
                collective: "broadcast",
                kind: "-",
                algorithm: "circulant",
                ranks: comm.size(),
                nodes: about.nodes,
                bytes,
                blocks,
                min_us,
                median_us,
                max_us,
            };
            rows::print(self.format, &row)?;
        }
        Ok(())
    }

    /// As many as fit the time, by one that does not count, from barrier to barrier: the root's own part
    /// may be over long before the others'. All ranks take rank 0's word.
    fn iterations(&self, comm: &Communicator, subject: &mut Subject) -> Result<usize> {
        timed(comm, subject)?;
        comm.barrier()?;
        let start = Instant::now();
        timed(comm, subject)?;
        comm.barrier()?;
        let mut count = [(self.seconds / start.elapsed().as_secs_f64()).clamp(5.0, 10_000.0) as u64];
        comm.broadcast(&mut count, 0)?;
        Ok(count[0] as usize)
    }
}

fn timed(comm: &Communicator, subject: &mut Subject) -> Result<f64> {
    comm.barrier()?;
    let start = Instant::now();
    subject.broadcast(comm)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The memory of a tense, and how it is broadcast.
enum Subject {
    Slice(Vec<u8>, Broadcast),
    Window(Window<u8>, Broadcast),
    /// `None` only after an error.
    Started(Option<Window<u8>>, Broadcast),
    Prepared(Prepared<u8>),
}

impl Subject {
    fn new(comm: &Communicator, tense: Tense, bytes: usize, how: Broadcast) -> Result<Self> {
        Ok(match tense {
            Tense::Slice => Subject::Slice(zeros(bytes)?, how),
            Tense::Window => Subject::Window(comm.window(bytes)?, how),
            Tense::Started => Subject::Started(Some(comm.window(bytes)?), how),
            Tense::Prepared => Subject::Prepared(comm.prepare_broadcast(comm.window(bytes)?, how)?),
        })
    }

    fn broadcast(&mut self, comm: &Communicator) -> Result<()> {
        match self {
            Subject::Slice(data, how) => comm.broadcast(data, *how),
            Subject::Window(window, how) => comm.broadcast_window(window, *how),
            Subject::Started(place, how) => {
                if let Some(window) = place.take() {
                    *place = Some(comm.start_broadcast(window, *how)?.wait()?);
                }
                Ok(())
            }
            Subject::Prepared(prepared) => prepared.run(),
        }
    }

    fn bytes(&mut self) -> Result<&mut [u8]> {
        Ok(match self {
            Subject::Slice(data, _) => data,
            Subject::Window(window, _) => window,
            Subject::Started(place, _) => place.as_deref_mut().unwrap_or_default(),
            Subject::Prepared(prepared) => prepared.window()?,
        })
    }
}

/// As many bytes, or an error: a size is the user's word.
fn zeros(bytes: usize) -> Result<Vec<u8>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).map_err(|_| {
        Error::argument("bench", format!("no memory for {bytes} bytes"), "ask for less with -m")
    })?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

/// Broadcasts with new data, each into bytes that are all wrong; what this rank has to complain of.
fn check(comm: &Communicator, subject: &mut Subject, root: u32) -> Result<Option<String>> {
    let mut complaint = None;
    for iteration in 0..3 {
        let is_root = comm.rank() == root;
        for (place, byte) in subject.bytes()?.iter_mut().enumerate() {
            *byte = if is_root { value(iteration, place) } else { !value(iteration, place) };
        }
        comm.barrier()?;
        subject.broadcast(comm)?;
        let bytes = subject.bytes()?;
        let wrong = bytes.iter().enumerate().find(|&(place, &byte)| byte != value(iteration, place));
        if let (Some((place, byte)), None) = (wrong, &complaint) {
            let right = value(iteration, place);
            complaint =
                Some(format!("byte {place} of {} is {byte:#04x} in place of {right:#04x}", bytes.len()));
        }
    }
    Ok(complaint)
}

/// The byte at a place in an iteration: no two places near each other, and no two iterations, agree throughout.
fn value(iteration: usize, place: usize) -> u8 {
    let mixed = (place as u64 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(iteration as u64 * 0x0123_4567_89ab_cdef);
    (mixed >> 56) as u8
}

/// For each iteration the largest time over the ranks; every rank gets it.
fn largest_over_ranks(comm: &Communicator, own: Vec<f64>) -> Result<Vec<f64>> {
    let mut largest = own.clone();
    for rank in 0..comm.size() {
        let mut theirs = own.clone();
        comm.broadcast(&mut theirs, rank)?;
        largest.iter_mut().zip(theirs).for_each(|(most, time)| *most = most.max(time));
    }
    Ok(largest)
}

/// Fails on every rank where any rank has something to complain of.
fn first_complaint(comm: &Communicator, own: Option<String>) -> Result<()> {
    for rank in 0..comm.size() {
        let mut text = [0u8; 128];
        if let (Some(own), true) = (&own, rank == comm.rank()) {
            own.bytes().zip(&mut text).for_each(|(from, to)| *to = from);
        }
        comm.broadcast(&mut text, rank)?;
        if text[0] != 0 {
            let what = String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned();
            return Err(Error::transport(
                "check",
                format!("rank {rank}: {what}"),
                "report this with the output of `circulant info`",
            ));
        }
    }
    Ok(())
}
