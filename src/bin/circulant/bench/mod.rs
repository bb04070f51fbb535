//! `circulant bench`: microbenchmarks in the manner of the OSU suite.

mod broadcast;
mod put;
mod rows;
mod sizes;

use std::process::ExitCode;

use circulant::boot::launcher::Job;
use circulant::comm::settings::Settings;
use circulant::error::Result;
use clap::Subcommand;

use crate::Outcome;

/// Measure collectives and puts.
///
/// With -n the program starts its own ranks on this machine; without, it is a rank of whatever launcher
/// started it: `mpiexec -n 8 circulant bench broadcast`, or `circulant run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Broadcast(broadcast::Arguments),
    Put(put::Arguments),
}

impl Arguments {
    pub fn run(self) -> Outcome {
        match self.what {
            What::Broadcast(arguments) => arguments.run(),
            What::Put(arguments) => arguments.run(),
        }
    }
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

    /// Which libfabric provider: net, tcp, rxm, shm, psm2, psm3, verbs, or a full name [default: the best]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

impl World {
    /// Starts the ranks, where that is asked for; each runs this same command without `-n`.
    fn start(&self) -> Result<Option<ExitCode>> {
        let Some(ranks) = self.ranks else { return Ok(None) };
        let command = std::env::current_exe().map_or("circulant".into(), Into::into);
        let args = without_ranks(std::env::args().skip(1)).into_iter().map(Into::into).collect();
        let job = Job { ranks, nodes: self.nodes, command, args, env: vec![], label: false };
        job.run().map(ExitCode::from).map(Some)
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Settings::from_environment()?;
        Ok(Settings { provider: self.provider.clone().or(settings.provider), ..settings })
    }
}

/// A number of seconds, as users write it.
fn duration(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| format!("'{text}' is no number of seconds; write one from 0 on, as in 0.5"))
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
