//! `circulant bench copy`: what the memory that ranks share allows, by plain copies and sums.
//!
//! All ranks work at once, each with bytes of the next rank: one copies them into its own memory, or adds
//! them up there, as a program would that does it itself: by the C library's copy, and by a loop that the compiler makes for
//! the processor. A collective within a node cannot be done with fewer bytes copied and added up, evenly divided over the
//! ranks; which these are, the manual says. In less time it can, where its own loops are better ones (`abreast`).

use std::io;
use std::process::ExitCode;

use circulant::comm::Communicator;
use circulant::error::{Error, Result};
use circulant::rank::Place;
use circulant::transport::shm::plain::{Card, Pair, Plain};
use multiversion::multiversion;

use super::World;
use super::agreement::agreed;
use super::rows::{self, Format, Row};
use super::sizes::Sizes;
use super::timing::Timing;
use crate::{Failure, Outcome, output};

/// Measure the memory that ranks of one node share: plain copies and sums
///
/// A size is what each rank copies, or adds up, of the next rank's memory, by the C library's copy and by a plain loop;
/// all do it at once. An iteration is
/// timed as a collective's: barrier, start, copy, stop, the largest time over the ranks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench copy -n 2                          what collectives of two ranks are measured by
  circulant bench copy -n 4 -m 1M:16M --format csv   in the columns of the collectives")]
pub struct Arguments {
    #[command(flatten)]
    world: World,

    /// Sizes in bytes, from MIN to MAX (K, M, G for powers of 1024); one number: that size only
    #[arg(short = 'm', long, value_name = "MIN:MAX", default_value = "512K:16M")]
    sizes: Sizes,

    /// Each size is this many times the one before
    #[arg(short = 'x', long, value_name = "FACTOR", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    factor: u32,

    /// Aim at this many seconds a measurement (5 to 10000 iterations), after a warm-up of as long, some 0.1 s at most, but two at least
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 0.5, allow_negative_numbers = true, value_parser = super::duration)]
    seconds: f64,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Osu)]
    format: Format,
}

/// Bytes of an element of a sum.
const UNIT: usize = size_of::<i32>();

impl Arguments {
    pub fn run(self) -> Outcome {
        if let Some(code) = self.world.start()? {
            return Ok(code);
        }
        let comm = Communicator::world_with(&self.world.settings()?)?;
        agreed(&comm, one_node(&comm))?;
        self.head(&comm)?;
        let mut sizes: Vec<_> = self
            .sizes
            .each(self.factor as usize)
            .into_iter()
            .map(|bytes| bytes.next_multiple_of(UNIT))
            .collect();
        sizes.dedup();
        for bytes in sizes {
            let rows = measure(&comm, bytes, Timing::without_rest(self.seconds))?;
            self.report(&comm, rows)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn head(&self, comm: &Communicator) -> io::Result<()> {
        if comm.rank() != 0 {
            return Ok(());
        }
        output::print(|out| match self.format {
            Format::Csv => writeln!(out, "{}", Row::HEAD),
            Format::Json => Ok(()),
            Format::Osu => {
                writeln!(out, "# circulant {} copy", env!("CARGO_PKG_VERSION"))?;
                let ranks = if comm.size() == 1 { "rank" } else { "ranks" };
                writeln!(out, "# {} {ranks}, each with bytes of the next, all at once", comm.size())?;
                writeln!(
                    out,
                    "{:>10} {:>12} {:>12} {:>10} {:>12} {:>12} {:>10}",
                    "bytes", "copy min us", "median us", "MB/s", "sum min us", "median us", "MB/s"
                )
            }
        })
    }

    fn report(&self, comm: &Communicator, rows: [Row; 2]) -> io::Result<()> {
        match self.format {
            _ if comm.rank() != 0 => Ok(()),
            Format::Osu => output::print(|out| writeln!(out, "{}", table_row(&rows))),
            format => rows.iter().try_for_each(|row| rows::print_line(format, row)),
        }
    }
}

fn one_node(comm: &Communicator) -> Result<()> {
    match comm.about().nodes {
        // A rank alone is told of no node.
        0 | 1 => Ok(()),
        nodes => {
            let what = format!("ranks on {nodes} nodes, which share no memory");
            Err(Error::argument("bench copy", what, "start them on one"))
        }
    }
}

/// A copy and a sum of so many bytes, on all ranks at once.
fn measure(comm: &Communicator, bytes: usize, timing: Timing) -> std::result::Result<[Row; 2], Failure> {
    let mut pair = pair(comm, bytes)?;
    let (mine, theirs) = pair.both();
    let copies = timing.iterate(comm, &mut || {
        mine.copy_from_slice(theirs);
        Ok(())
    })?;
    let sums = timing.iterate(comm, &mut || {
        add(bytemuck::cast_slice_mut(mine), bytemuck::cast_slice(theirs));
        Ok(())
    })?;
    // Nobody's memory goes while others use it.
    comm.barrier()?;
    Ok([row(comm, "copy", bytes, copies), row(comm, "sum", bytes, sums)])
}

fn pair(comm: &Communicator, bytes: usize) -> std::result::Result<Pair, Failure> {
    let place = Place { rank: comm.rank(), size: comm.size() };
    let own = agreed(comm, Plain::new(bytes, (place.rank as u8).wrapping_add(1)))?;
    let mut cards = vec![0; place.size as usize * size_of::<Card>() / size_of::<u64>()];
    comm.allgather(&own.card(), &mut cards)?;
    let (cards, _) = cards.as_chunks();
    let next = place.after(1);
    let pair = own.meet(next, cards[next as usize])?;
    comm.barrier()?;
    Ok(pair)
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add(mine: &mut [i32], theirs: &[i32]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = mine.wrapping_add(*theirs);
    }
}

fn row(comm: &Communicator, what: &'static str, bytes: usize, times: Vec<f64>) -> Row {
    let (min_us, median_us, max_us) = rows::summary(times);
    Row {
        library: "memory",
        collective: what,
        kind: "-",
        algorithm: "plain",
        ranks: comm.size(),
        nodes: comm.about().nodes,
        bytes,
        blocks: 1,
        min_us,
        median_us,
        max_us,
        tense: "-".into(),
        root: None,
        rest_s: 0.0,
        fresh: false,
        call_us: None,
        compute_us: None,
        overlap_percent: None,
        // By the segments of shared memory, whatever carries the ranks' puts.
        transport: "-".into(),
    }
}

fn table_row(rows: &[Row]) -> String {
    let bytes = rows.first().map_or(0, |row| row.bytes);
    let columns = rows.iter().map(|Row { bytes, min_us, median_us, .. }| {
        format!(" {min_us:>12.2} {median_us:>12.2} {:>10.1}", *bytes as f64 / median_us.max(1e-3))
    });
    format!("{bytes:>10}{}", columns.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_measure_together_and_each_gets_the_same() {
        let comms = Communicator::loopback(3, 0).unwrap();
        let rows: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = comms
                .iter()
                .map(|comm| scope.spawn(|| measure(comm, 4096, Timing::without_rest(0.0)).unwrap()))
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        for [copy, sum] in &rows {
            assert_eq!((copy.collective, sum.collective, copy.bytes, sum.ranks), ("copy", "sum", 4096, 3));
            assert_eq!(copy.median_us, rows[0][0].median_us);
        }
    }
}
