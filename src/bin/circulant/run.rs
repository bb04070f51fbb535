//! `circulant run`: starts the ranks of a job on this machine.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use crate::{Outcome, variables_of_ranks};
use circulant::boot::launcher::{GRACE, Job};
use circulant::locality::binding::Bind;

/// Start N ranks of a command on this machine, and end them together.
///
/// The ranks find each other through PMI-1, which circulant's own programs speak, and MPI programs that
/// were built for MPICH or Intel MPI. When a rank fails, the launcher says which and how, and ends the
/// rest; nothing that a rank has started stays behind.
///
/// The exit code is 0 if every rank's is 0, else that of the first rank that failed, 128 + n if signal n
/// killed it; 127 if there is no such command, 126 if it cannot be started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant run -n 4 -- circulant bench broadcast      four ranks that find each other
  circulant run -n 3 --label -- sh -c 'echo $PMI_RANK' [0] 0, [1] 1, [2] 2, in any order
  circulant run -n 8 --nodes 2 -- ./program            ranks 0-3 and 4-7 take themselves for two nodes
  circulant run -n 8 --bind core -- ./program          each rank on a core of its own

The ranks' variables: PMI_FD, PMI_RANK, PMI_SIZE, and with --nodes CIRCULANT_NODE. Rank 0 reads the
launcher's input, the others none.")]
pub struct Arguments {
    /// How many ranks to start
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: u32,

    /// Let the ranks take themselves for K nodes, in contiguous runs of nearly equal length
    #[arg(long, value_name = "K")]
    nodes: Option<u32>,

    /// Bind each rank, and say how in a line
    ///
    /// Ranks in their order are spread evenly over the cores that this process may use (by taskset, a
    /// batch system, a container), so that neighbours in rank are neighbours on the machine. More ranks
    /// than cores are not bound to cores, and none are where hwloc does not know the machine; a line then says
    /// why. The default is none: two jobs that know nothing of each
    /// other would bind to the same cores, and a rank's threads would share one.
    #[arg(long, value_name = "TO", default_value = "none")]
    bind: To,

    /// Begin each line of output with its rank: [3] text
    #[arg(long, overrides_with = "no_label")]
    label: bool,

    /// Let the ranks write straight to the launcher's output (the default)
    #[arg(long, overrides_with = "label")]
    no_label: bool,

    /// How long ranks have to end after SIGTERM, or a signal that is passed on, before SIGKILL
    ///
    /// SIGINT, SIGTERM, SIGHUP and SIGQUIT that the launcher gets go to all ranks and end the job; a second one does
    /// so at once. A batch system that ends a job waits for some time of its own (Slurm: KillWait), which
    /// this should not exceed. SIGUSR1 and SIGUSR2 go to all ranks, and do not end the launcher.
    #[arg(long, value_name = "SECONDS", default_value_t = GRACE.as_secs_f64(), value_parser = seconds)]
    grace: f64,

    /// The command that every rank runs, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    /// Runs the job to its end and passes its exit code on.
    pub fn run(self) -> Outcome {
        let mut words = self.command.into_iter();
        let job = Job {
            ranks: self.ranks,
            nodes: self.nodes,
            bind: self.bind.bind(),
            command: words.next().unwrap_or_default(),
            args: words.collect(),
            env: variables_of_ranks(self.ranks),
            label: self.label && !self.no_label,
            grace: Duration::try_from_secs_f64(self.grace).unwrap_or(Duration::MAX),
        };
        Ok(job.run().map(ExitCode::from)?)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let is_one = |seconds: &f64| (0.0..=1e6).contains(seconds);
    text.parse().ok().filter(is_one).ok_or_else(|| "give seconds, from 0 to 1000000".to_owned())
}

/// What a rank is bound to.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum To {
    /// The system moves ranks as it likes
    None,
    /// A core of its own
    Core,
    /// The cores that share a last-level cache
    Cache,
    /// The cores of a NUMA domain
    Numa,
}

impl To {
    fn bind(self) -> Option<Bind> {
        match self {
            To::None => None,
            To::Core => Some(Bind::Core),
            To::Cache => Some(Bind::Cache),
            To::Numa => Some(Bind::Numa),
        }
    }
}
