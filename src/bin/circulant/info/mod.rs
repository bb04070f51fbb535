//! `circulant info`: what there is on this machine, what would be chosen, and why.

mod machine;

use std::io::{self, Write};
use std::process::ExitCode;

use circulant::boot;
use circulant::comm::carrier::try_shm;
use circulant::comm::channels::{slot_bytes, wide};
use circulant::comm::meeting::WIRE;
use circulant::comm::settings::Settings;
use circulant::comm::wanted::{SHM, Wanted};
use circulant::engine::slots::{NARROW, SLOTS, WIDE};
use circulant::error::{Error, Result};
use circulant::rank::Place;
use circulant::transport::fabric::{self, Request};
use circulant::transport::room;
use rustix::process::{Resource, getrlimit};

use crate::Outcome;
use crate::output::{print, size};

/// Show this machine, which transports, libfabric and providers there are, what is chosen and why, and what it takes.
///
/// No other rank is asked. Libfabric is opened to be asked for its providers, as ranks do, but no endpoint is; without it,
/// it says how to get it. A setting with a value that is none is told, and taken as not set.
///
/// The exit code is 0; 1 where --provider names one that cannot be used here; 2 where there is none of that name.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  circulant info                     what would be chosen, and why not the others
  circulant info --provider verbs    what one provider lacks")]
pub struct Arguments {
    /// Consider this provider only, as `bench --provider` does
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

/// The variables that are read, and what they are for.
const VARIABLES: [(&str, &str); 25] = [
    ("CIRCULANT_PROVIDER", "the provider, by name; shm, or shm+NAME"),
    ("CIRCULANT_INTERFACE", "the interface or address, where there are several"),
    (
        "CIRCULANT_SHM_COPY",
        "how long slices go through shared memory: joint, writev or ring; found out if not set",
    ),
    ("CIRCULANT_DOMAINS", "by which domains of a node calls go: numa, cache, or so many; by none if not set"),
    ("CIRCULANT_LEADERS", "how many leaders a node has; 1 if not set"),
    ("CIRCULANT_COSTS", "us a put, ns a byte, as 2.0,0.1, from which choices follow; measured if not set"),
    ("CIRCULANT_PROGRESS", "what carries on calls that were started: calls, or a thread; calls if not set"),
    ("CIRCULANT_STALL", "seconds after which a wait is told; 0: never; 10 if not set"),
    ("CIRCULANT_TIMEOUT", "seconds after which a wait is an error; never if not set"),
    ("CIRCULANT_LIBFABRIC", "the library's file"),
    ("CIRCULANT_BOOT", "single, pmi1, pmix or rendezvous; found out if not set"),
    ("CIRCULANT_LIBPMIX", "libpmix's file, for launchers that speak PMIx"),
    ("MASTER_ADDR", "and MASTER_PORT, RANK, WORLD_SIZE: torchrun's, with CIRCULANT_BOOT=rendezvous"),
    ("CIRCULANT_BOOT_TIMEOUT", "seconds to wait for the others at the start; 60 if not set"),
    ("CIRCULANT_RENDEZVOUS", "host:port of rank 0, without a launcher"),
    ("CIRCULANT_RANK", "this rank, with CIRCULANT_RENDEZVOUS"),
    ("CIRCULANT_SIZE", "the number of ranks, with CIRCULANT_RENDEZVOUS"),
    ("CIRCULANT_NODE", "divides a host: the pretended node of this rank"),
    ("CIRCULANT_MPI", "of MPI programs: on, off, or report, a table at the end; on if not set"),
    ("CIRCULANT_MPI_COLLECTIVES", "which to take over, by their names in MPI; all if not set"),
    ("CIRCULANT_MPI_LEAST", "the least bytes of a call that is taken over"),
    ("CIRCULANT_MPI_MOST", "the most"),
    ("FI_PROVIDER", "libfabric's own: the only providers there are to be"),
    ("FI_UNIVERSE_SIZE", "libfabric's own: peers that rxm makes room for"),
    ("FI_LOG_LEVEL", "libfabric's own: warn, and it tells why a call failed"),
];

impl Arguments {
    /// Prints all there is to know.
    pub fn run(self) -> Outcome {
        if let Some(name) = &self.provider {
            Wanted::of(Some(name)).check()?;
        }
        let (mut settings, mut refused) = Settings::read();
        if let Err(unknown) = Wanted::of(settings.provider.as_deref()).check() {
            refused.push(unknown);
            settings.provider = None;
        }
        let provider = self.provider.clone().or(settings.provider.clone());
        let wanted = Wanted::of(provider.as_deref());
        let shm = wanted.takes_shm().then(|| try_shm(&settings));
        let request = |one_machine| {
            let (provider, interface) = (wanted.clone().provider(), settings.interface.clone());
            Request { provider, one_machine, interface, ..Request::default() }
        };
        let mut usable = !wanted.takes_fabric();
        let without_shm = shm.as_ref().is_some_and(Result::is_err);
        print(|out| {
            line(out, "circulant", &format!("{}, wire format {WIRE}", env!("CARGO_PKG_VERSION")))?;
            line(out, "libfabric", &library())?;
            line(out, "machine", &machine())?;
            line(out, "boot", &launcher())?;
            for refused in &refused {
                line(out, "variables", &words(refused))?;
            }
            machine::draw(out)?;
            writeln!(out, "\ntransports, best first; -> is chosen for ranks on this machine")?;
            let shared = shm.map_or(Ok(false), |shm| shared_memory(out, shm))?;
            match fabric::version() {
                Ok(_) if wanted.takes_fabric() => usable = providers(out, request, shared)?,
                Err(_) if wanted.takes_fabric() => {
                    writeln!(out, "   libfabric's: none, as it cannot be opened")?;
                }
                _ => {}
            }
            memory(out)?;
            variables(out)
        })?;
        match self.provider {
            Some(name) if !usable || without_shm => Err(unusable(&name).into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn unusable(provider: &str) -> Error {
    Error::NoTransport(format!("{provider} cannot be used here, as the list says"))
}

/// An error in a line that has a name already.
fn words(error: &Error) -> String {
    match error {
        Error::Boot { what, cure } | Error::Transport { what, cure, .. } => format!("{what}; {cure}"),
        other => other.to_string(),
    }
}

fn line(out: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{name:<10} {value}")
}

fn library() -> String {
    match fabric::version() {
        Ok(version) => format!("{version}{}", file().map_or(String::new(), |file| format!(", {file}"))),
        Err(error) => words(&error),
    }
}

/// The library's file, as the kernel knows it.
fn file() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    files.find(|file| file.rsplit('/').next().is_some_and(|name| name.contains("fabric"))).map(str::to_owned)
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let system = rustix::system::sysinfo();
    let memory = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    let locked = getrlimit(Resource::Memlock).current.map_or("unlimited".to_owned(), size);
    format!(
        "{cores} cores, {} of memory in all, {} left; memory that may be registered (`ulimit -l`): {locked}",
        size(memory),
        room::left().map_or("? B".to_owned(), |room| size(room.bytes))
    )
}

fn launcher() -> String {
    let variables = boot::Variables::of_the_process();
    match variables.choose() {
        Ok(boot::Choice::Single) => "no launcher: this process is alone".to_owned(),
        Ok(boot::Choice::Pmi1Socket { fd, place }) => {
            format!("PMI-1 (PMI_FD={fd}), rank {} of {}", place.rank, place.size)
        }
        Ok(boot::Choice::Pmi1Port { address, id }) => format!("PMI-1 (PMI_PORT={address}), process {id}"),
        Ok(boot::Choice::Pmix { library }) => {
            format!(
                "PMIx, by {}",
                library.as_deref().unwrap_or("the libpmix that the launcher has, or the system")
            )
        }
        Ok(boot::Choice::Rendezvous { address, place }) => {
            format!("rendezvous at {address}, rank {} of {}", place.rank, place.size)
        }
        Err(error) => words(&error),
    }
}

/// Whether shared memory can be had, with what works of it, or why not.
fn shared_memory(out: &mut dyn Write, shm: Result<String>) -> io::Result<bool> {
    let (mark, what) = match &shm {
        Ok(way) => ("->", format!("puts by plain copies, {way}")),
        Err(error) => ("", error.to_string()),
    };
    writeln!(out, "  {mark:2} {SHM:<14} {what}")?;
    Ok(shm.is_ok())
}

/// Each provider with its reason, for ranks on this machine, the chosen one marked if there is no `better`
/// one; then what would be chosen between machines. Whether one can be used.
fn providers(out: &mut dyn Write, request: impl Fn(bool) -> Request, better: bool) -> io::Result<bool> {
    let mut usable = false;
    match fabric::considered(&request(true)) {
        Err(error) => writeln!(out, "  {error}")?,
        Ok(all) => {
            for considered in all {
                usable |= considered.taken;
                let mark = if considered.taken && !better { "->" } else { "" };
                writeln!(out, "  {mark:2} {:<14} {}", considered.provider, considered.reason)?;
            }
        }
    }
    let between = fabric::considered(&request(false)).unwrap_or_default();
    let between = between.iter().find(|considered| considered.taken);
    let between = between.map_or("none".to_owned(), |taken| format!("{} {}", taken.provider, taken.reason));
    let within = if better { ", and shm among those of one" } else { "" };
    writeln!(out, "  for ranks on several machines: {between}{within}")?;
    Ok(usable)
}

fn memory(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nregistered memory of a rank, beside its windows")?;
    writeln!(out, "  {:>6}  {:>4}  {:>9}", "ranks", "wide", "memory")?;
    for p in [2, 16, 256, 4096] {
        let wide = wide(Place { rank: 0, size: p }).len();
        writeln!(out, "  {p:>6}  {wide:>4}  {:>9}", size(slot_bytes(p) as u64))?;
    }
    writeln!(
        out,
        "  = 2 x {SLOTS} slots of {WIDE} B for each of the wide channels and of {NARROW} B for each other rank,\n  \
         for messages of any number and size"
    )
}

fn variables(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nvariables that are read")?;
    for (name, meaning) in VARIABLES {
        let value = std::env::var_os(name).map_or("-".into(), |value| value.to_string_lossy().into_owned());
        writeln!(out, "  {name:<25} {value:<12} {meaning}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_for_jobs_of_every_scale() {
        let mut text = Vec::new();
        memory(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let of_two = format!("     2     1  {:>9}", size(slot_bytes(2) as u64));
        assert!(text.contains(&of_two), "{text}");
        assert!(text.contains("  4096"), "{text}");
    }
}
