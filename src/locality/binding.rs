//! Which rank of a job is to run where on this machine.
//!
//! Ranks in their order are spread evenly over the cores that the launcher may use, in the machine's order: so
//! neighbours in rank are neighbours on the machine, and few ranks still get the caches and memories of all
//! packages. A rank's core gives its cache or NUMA domain, which thus gets ranks by the number of its cores.

use std::fmt;

use super::cpus::{Cpus, ranges};
use super::machine::{Core, Machine, survey};
use crate::rank::Rank;

/// What a rank is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// A core of its own.
    Core,
    /// The cores of a last-level cache.
    Cache,
    /// The cores of a NUMA domain.
    Numa,
}

impl Bind {
    /// The number of the thing that a core, itself of this number, belongs to.
    fn unit(self, number: usize, core: &Core) -> Option<u32> {
        match self {
            Bind::Core => Some(number as u32),
            Bind::Cache => core.cache,
            Bind::Numa => core.domain,
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Bind::Core => "cores",
            Bind::Cache => "last-level caches",
            Bind::Numa => "NUMA domains",
        }
    }
}

/// Where each rank is to run. It is written as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    to: Bind,
    sets: Vec<Cpus>,
}

/// What limits a job on this machine.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// The CPUs that may be used.
    pub cpus: Cpus,
    /// How many may run at once: a container's quota can be less than its CPUs.
    pub at_once: usize,
}

impl Binding {
    /// For a job that this process is to start.
    ///
    /// # Errors
    /// Why ranks cannot, or had better not, be bound as asked.
    pub fn of_job(to: Bind, ranks: u32) -> Result<Binding, String> {
        let machine = survey(false).map_err(|unknown| unknown.to_string())?;
        let cpus = Cpus::of_this_thread().ok_or("the system does not say which CPUs may be used")?;
        let at_once = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        Binding::plan(to, ranks, &machine, &Allowance { cpus, at_once })
    }

    /// For a job on a machine, within what it is allowed. O(ranks x cores).
    ///
    /// # Errors
    /// Why ranks cannot, or had better not, be bound as asked.
    pub fn plan(to: Bind, ranks: u32, machine: &Machine, allowance: &Allowance) -> Result<Binding, String> {
        if !machine.here {
            return Err(format!("{} was told of another machine", machine.source));
        }
        let cores = allowed(machine, &allowance.cpus);
        let room = cores.len().min(allowance.at_once);
        if room == 0 {
            return Err(format!("{} knows none of the CPUs that may be used", machine.source));
        }
        if to == Bind::Core && ranks as usize > room {
            return Err(format!(
                "{ranks} ranks are more than there are cores ({room}); the system shares them out better"
            ));
        }
        let units: Option<Vec<u32>> =
            cores.iter().enumerate().map(|(number, core)| to.unit(number, core)).collect();
        let units = units.ok_or_else(|| format!("{} knows of no {} here", machine.source, to.plural()))?;
        let set = |rank: u32| {
            let unit = units[(u64::from(rank) * cores.len() as u64 / u64::from(ranks)) as usize];
            let members = units.iter().zip(&cores).filter(|(other, _)| **other == unit);
            members.map(|(_, core)| &core.cpus).collect()
        };
        Ok(Binding { to, sets: (0..ranks).map(set).collect() })
    }

    /// The CPUs of a rank.
    pub fn cpus(&self, rank: Rank) -> &Cpus {
        &self.sets[rank as usize]
    }
}

/// The cores of a machine with what is allowed of each.
fn allowed(machine: &Machine, cpus: &Cpus) -> Vec<Core> {
    let cores = machine.cores.iter().map(|core| Core { cpus: core.cpus.and(cpus), ..core.clone() });
    cores.filter(|core| !core.cpus.is_empty()).collect()
}

/// More than this are not listed one by one.
const LISTED: usize = 8;

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(Vec<Rank>, &Cpus)> = Vec::new();
        for (rank, cpus) in (0..).zip(&self.sets) {
            match runs.last_mut() {
                Some((ranks, last)) if *last == cpus => ranks.push(rank),
                _ => runs.push((vec![rank], cpus)),
            }
        }
        let mut words: Vec<String> = runs.iter().map(|(ranks, cpus)| on(ranks, cpus)).collect();
        if words.len() > LISTED {
            words.splice(LISTED - 2..words.len() - 1, ["...".to_owned()]);
        }
        write!(f, "ranks bound to {}: {}", self.to.plural(), words.join("; "))
    }
}

fn on(ranks: &[Rank], cpus: &Cpus) -> String {
    format!("{} on {cpus}", ranges(ranks.iter().copied()))
}

#[cfg(all(test, feature = "hwloc"))]
mod tests {
    use super::*;
    use crate::locality::hwloc::synthetic;

    /// On a machine of which all CPUs are allowed, but for some.
    fn plan(to: Bind, ranks: u32, description: &str, but: &[u32]) -> Result<Binding, String> {
        let machine = synthetic(description);
        let all: Cpus = machine.cores.iter().map(|core| &core.cpus).collect();
        let cpus: Cpus = (0..1000).filter(|cpu| !but.contains(cpu)).collect();
        Binding::plan(to, ranks, &machine, &Allowance { cpus: cpus.and(&all), at_once: 1000 })
    }

    fn sets(to: Bind, ranks: u32, description: &str, but: &[u32]) -> Vec<String> {
        plan(to, ranks, description, but).unwrap().sets.iter().map(Cpus::numbers).collect()
    }

    const FOUR: &str = "package:2 numa:2 core:4 pu:1";

    #[test]
    fn as_many_ranks_as_cores_take_them_in_order() {
        let all: Vec<_> = (0..16).map(|cpu| cpu.to_string()).collect();
        assert_eq!(sets(Bind::Core, 16, FOUR, &[]), all);
    }

    #[test]
    fn few_ranks_are_spread_over_the_whole_machine() {
        assert_eq!(sets(Bind::Core, 2, FOUR, &[]), ["0", "8"]);
        assert_eq!(sets(Bind::Core, 3, FOUR, &[]), ["0", "5", "10"]);
        assert_eq!(sets(Bind::Numa, 2, FOUR, &[]), ["0-3", "8-11"]);
        assert_eq!(sets(Bind::Cache, 2, "package:2 l3:2 core:2 pu:2", &[]), ["0-3", "8-11"]);
    }

    #[test]
    fn all_threads_of_a_core_are_its_ranks() {
        assert_eq!(sets(Bind::Core, 3, "core:3 pu:2", &[]), ["0-1", "2-3", "4-5"]);
    }

    #[test]
    fn domains_get_runs_of_ranks() {
        let runs = ["0-3", "0-3", "4-7", "4-7", "8-11", "8-11", "12-15", "12-15"];
        assert_eq!(sets(Bind::Numa, 8, FOUR, &[]), runs);
        assert_eq!(sets(Bind::Numa, 5, "numa:2 core:1 pu:1", &[]), ["0", "0", "0", "1", "1"]);
    }

    #[test]
    fn what_the_launcher_may_not_use_its_ranks_do_not_get() {
        assert_eq!(sets(Bind::Core, 2, "core:4 pu:2", &[0, 1, 3, 4, 5]), ["2", "6-7"]);
        // A domain with one core left gets a third of the ranks that the other, with two, gets.
        assert_eq!(sets(Bind::Numa, 3, "numa:2 core:2 pu:1", &[1]), ["0", "2-3", "2-3"]);
    }

    #[test]
    fn more_ranks_than_cores_are_not_bound_to_cores() {
        let why = plan(Bind::Core, 5, "core:4 pu:2", &[]).unwrap_err();
        assert_eq!(why, "5 ranks are more than there are cores (4); the system shares them out better");
        assert!(plan(Bind::Numa, 50, "core:4 pu:2", &[]).is_ok());
        let machine = synthetic("core:4 pu:1");
        let quota = Allowance { cpus: (0..4).collect(), at_once: 2 };
        let why = Binding::plan(Bind::Core, 3, &machine, &quota).unwrap_err();
        assert_eq!(why, "3 ranks are more than there are cores (2); the system shares them out better");
    }

    #[test]
    fn what_is_not_known_cannot_be_bound_to() {
        let why = plan(Bind::Cache, 2, "core:4 pu:1", &[]).unwrap_err();
        assert!(why.ends_with(" knows of no last-level caches here"), "{why}");
        let elsewhere = Machine { here: false, ..synthetic("core:2 pu:1") };
        let all = Allowance { cpus: (0..2).collect(), at_once: 2 };
        assert!(Binding::plan(Bind::Core, 2, &elsewhere, &all).unwrap_err().contains("another machine"));
        let none = Allowance { cpus: (7..9).collect(), at_once: 2 };
        let why = Binding::plan(Bind::Core, 2, &synthetic("core:2 pu:1"), &none).unwrap_err();
        assert!(why.contains("none of the CPUs"), "{why}");
    }

    #[test]
    fn it_is_told_in_one_sentence() {
        let text = |to, ranks| plan(to, ranks, FOUR, &[]).unwrap().to_string();
        assert_eq!(text(Bind::Core, 2), "ranks bound to cores: 0 on CPU 0; 1 on CPU 8");
        assert_eq!(
            text(Bind::Numa, 6),
            "ranks bound to NUMA domains: 0-1 on CPUs 0-3; 2 on CPUs 4-7; 3-4 on CPUs 8-11; 5 on CPUs 12-15"
        );
        assert!(
            text(Bind::Core, 16).ends_with("; 5 on CPU 5; ...; 15 on CPU 15"),
            "{}",
            text(Bind::Core, 16)
        );
    }
}
