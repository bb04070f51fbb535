//! `circulant bench`: microbenchmarks in the manner of the OSU suite.

mod agreement;
mod collective;
mod copy;
mod put;
pub mod rows;
mod sizes;
mod timing;

use std::process::ExitCode;
use std::time::Duration;

use circulant::boot::launcher::{GRACE, Job};
use circulant::collective::Collective;
use circulant::comm::settings::Settings;
use circulant::comm::wanted::Wanted;
use circulant::error::{Error, Result};
use clap::Subcommand;

use crate::{Outcome, variables_of_ranks};

/// Measure collectives, puts, and the memory that ranks share.
///
/// With -n the program starts its own ranks on this machine; without, it is a rank of whatever launcher
/// started it: `mpiexec -n 8 circulant bench broadcast`, or `circulant run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench allreduce -n 8                        by the algorithms that the library chooses
  circulant bench allreduce -n 8 --algorithm all        every algorithm beside the others
  circulant bench allreduce -n 8 --algorithm all --format csv | circulant plot -o allreduce.svg
  circulant bench allgatherv -n 8 --kind all --check    equal and unequal parts, verified
  circulant bench put -n 2 --provider tcp --baseline    what a put costs, beside raw TCP
  mpiexec -n 16 circulant bench reduce --format csv     under MPICH or Intel MPI's launcher")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

/// A line here, under the name that it has in [`Collective`], is a collective that can be measured; its doc
/// comment says what a size means.
macro_rules! collectives {
    ($($(#[doc = $help:literal])+ $name:ident),+ $(,)?) => {
        #[derive(Debug, Subcommand)]
        #[command(rename_all = "snake_case")]
        enum What {
            $(
                $(#[doc = $help])+
                #[command(after_help = collective::after_help(Collective::$name))]
                $name(collective::Arguments),
            )+
            Put(put::Arguments),
            Copy(copy::Arguments),
        }

        impl Arguments {
            pub fn run(self) -> Outcome {
                match self.what {
                    $(What::$name(arguments) => arguments.run(Collective::$name),)+
                    What::Put(arguments) => arguments.run(),
                    What::Copy(arguments) => arguments.run(),
                }
            }
        }
    };
}

collectives! {
    /// Measure broadcast: the root's vector to all ranks
    ///
    /// A size is the vector's.
    Broadcast,

    /// Measure reduce: all ranks' vectors added up, at the root
    ///
    /// A size is one vector's.
    Reduce,

    /// Measure allreduce: all ranks' vectors added up, at all ranks
    ///
    /// A size is one vector's.
    Allreduce,

    /// Measure allgather: all ranks' parts, of one size, to all ranks
    ///
    /// A size is that of all parts together; each is a p-th of it, and at least one element.
    Allgather,

    /// Measure allgatherv: all ranks' parts, of sizes of their own (--kind), to all ranks
    ///
    /// A size is that of all parts together.
    Allgatherv,

    /// Measure reduce_scatter: all ranks' vectors added up, to each rank a part of a size of its own (--kind)
    ///
    /// A size is one whole vector's.
    ReduceScatter,

    /// Measure reduce_scatter_block: all ranks' vectors added up, to each rank a part of one size
    ///
    /// A size is one whole vector's; a part is a p-th of it, and at least one element.
    ReduceScatterBlock,

    /// Measure scatter: the root's parts, one to each rank
    ///
    /// A size is that of all parts together, as the root has them; each is a p-th of it, and at least one
    /// element.
    Scatter,

    /// Measure gather: all ranks' parts, of one size, to the root
    ///
    /// A size is that of all parts together, as the root gets them; each is a p-th of it, and at least one
    /// element.
    Gather,

    /// Measure alltoall: from every rank a part for every rank
    ///
    /// A size is that of all parts which one rank sends, the one to itself included; each is a p-th of it,
    /// and at least one element.
    Alltoall,

    /// Measure barrier: all ranks wait for all
    ///
    /// It has no sizes: there is one measurement, of 0 bytes.
    Barrier,
}

/// Where the ranks come from and what carries their puts: options of every benchmark.
#[derive(Debug, clap::Args)]
struct World {
    /// Start N ranks on this machine (else: be a rank of the launcher that started this process)
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: Option<u32>,

    /// With -n: let the ranks take themselves for K nodes
    #[arg(long, value_name = "K", requires = "ranks")]
    nodes: Option<u32>,

    /// What carries puts: shm (shared memory), or libfabric's psm2, psm3, opx, verbs, efa, cxi, tcp (net up to 1.x), rxm,
    /// ofi-shm, or a full name; or shm+NAME: shm within nodes [default: shm on one node, else the best, with shm where
    /// ranks share a node]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

impl World {
    /// Starts the ranks, where that is asked for; each runs this same command without `-n`.
    fn start(&self) -> Result<Option<ExitCode>> {
        // What each rank would refuse is refused once.
        Wanted::of(self.settings()?.provider.as_deref()).check()?;
        let Some(ranks) = self.ranks else { return Ok(None) };
        let command = std::env::current_exe().map_or("circulant".into(), Into::into);
        let args = without_ranks(std::env::args().skip(1)).into_iter().map(Into::into).collect();
        let job = Job {
            ranks,
            nodes: self.nodes,
            bind: None,
            command,
            args,
            env: variables_of_ranks(ranks),
            label: false,
            grace: GRACE,
        };
        job.run().map(ExitCode::from).map(Some)
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Settings::from_environment().map_err(of_the_user)?;
        Ok(Settings { provider: self.provider.clone().or(settings.provider), ..settings })
    }
}

/// A variable is the user's word, as an option is.
fn of_the_user(error: Error) -> Error {
    match error {
        Error::Boot { what, cure } => Error::argument("bench", what, cure),
        other => other,
    }
}

/// A number of seconds, as users write it.
fn duration(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("'{text}' is no number of seconds; write one from 0 on, as in 0.5"))
}

/// The longest pause before a call: what a link or a core needs to rest is milliseconds.
const LONGEST_REST: f64 = 60.0;

/// A number of seconds to rest, as users write it.
fn rest(text: &str) -> std::result::Result<Duration, String> {
    match duration(text)? {
        seconds if seconds <= LONGEST_REST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("'{text}' is too long; write up to {LONGEST_REST} seconds, as in 0.003")),
    }
}

/// The arguments but for those that say how many ranks to start.
fn without_ranks(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut value_follows = false;
    let stays = |arg: &String| {
        if std::mem::take(&mut value_follows) {
            return false;
        }
        value_follows = ["-n", "--ranks", "--nodes"].contains(&arg.as_str());
        let joined = arg.starts_with("--ranks=") || arg.starts_with("--nodes=");
        let short =
            arg.strip_prefix("-n").is_some_and(|rest| rest.trim_start_matches('=').parse::<u32>().is_ok());
        !(value_follows || joined || short)
    };
    args.filter(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_taken_out_in_every_spelling() {
        for n in ["-n 4", "-n4", "-n=4", "--ranks 4", "--ranks=4", "-n 4 --nodes 2", "--nodes=2 -n 4"] {
            let line = format!("bench broadcast {n} -m 8:64 --check");
            let left = without_ranks(line.split(' ').map(str::to_owned));
            assert_eq!(left.join(" "), "bench broadcast -m 8:64 --check");
        }
    }
}
