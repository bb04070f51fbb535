//! A machine as a table of its cores: what each belongs to, and what is near.
//!
//! A table and no tree, because that is what all questions are about: which cores share something. Numbers
//! count from 0 in the order of the machine, and include what this process may not use: so all processes of a
//! machine number alike, however they are bound.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpus::Cpus;

/// What is known of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Who says so: `hwloc 2.9`.
    pub source: String,
    /// Whether it is the machine of this process: hwloc can be told of another, by `HWLOC_XMLFILE` and the like.
    pub here: bool,
    /// The cores, neighbours beside each other.
    pub cores: Vec<Core>,
    /// The NUMA domains with cores.
    pub domains: Vec<Domain>,
    /// The last-level caches.
    pub caches: Vec<Cache>,
    /// The network cards, if they were asked for.
    pub nics: Vec<Nic>,
}

/// A core, and the numbers of what it belongs to, where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// The package (socket).
    pub package: Option<u32>,
    /// The nearest NUMA domain.
    pub domain: Option<u32>,
    /// The last-level cache.
    pub cache: Option<u32>,
    /// Its hardware threads.
    pub cpus: Cpus,
}

/// A NUMA domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// The number that the system gives it.
    pub number: Option<u32>,
    /// Its memory, in bytes.
    pub memory: Option<u64>,
}

/// A last-level cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// 3 for an L3.
    pub level: u32,
    /// Its size, in bytes.
    pub bytes: Option<u64>,
}

/// A network card or port, as the system knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// `eth0`, `mlx5_0`.
    pub name: String,
    /// The CPUs that it is near to.
    pub near: Cpus,
}

/// Where a process may run: the numbers of what all its cores share, none where they share nothing or
/// nothing is known. Small, since every rank tells it to all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seat {
    /// The package.
    pub package: Option<u32>,
    /// The NUMA domain.
    pub domain: Option<u32>,
    /// The last-level cache.
    pub cache: Option<u32>,
    /// How many KiB it has.
    pub cache_kib: Option<u32>,
    /// The core.
    pub core: Option<u32>,
    /// A digest of the set of its CPUs: two that are equal are, but for one case in 2^64, the same set.
    pub cpus: Option<u64>,
}

/// Nothing is known of the machine, and this is why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Looks at the machine: a few milliseconds, more with the NICs.
#[cfg(feature = "hwloc")]
pub fn survey(with_nics: bool) -> Result<Machine, Unknown> {
    super::hwloc::survey(with_nics)
}

/// Nobody here can look at the machine.
#[cfg(not(feature = "hwloc"))]
pub fn survey(_with_nics: bool) -> Result<Machine, Unknown> {
    Err(Unknown("this program was built without hwloc".to_owned()))
}

impl Machine {
    /// Where a process that may run on these CPUs sits.
    pub fn seat(&self, cpus: &Cpus) -> Seat {
        let cores = || (0..).zip(&self.cores).filter(|(_, core)| !core.cpus.and(cpus).is_empty());
        let cache = shared(cores().map(|(_, core)| core.cache));
        Seat {
            package: shared(cores().map(|(_, core)| core.package)),
            domain: shared(cores().map(|(_, core)| core.domain)),
            cache,
            cache_kib: cache
                .and_then(|cache| u32::try_from(self.caches.get(cache as usize)?.bytes? >> 10).ok()),
            core: shared(cores().map(|(number, _)| Some(number))),
            cpus: Some(cpus.digest()),
        }
    }
}

impl Seat {
    /// Of this process.
    pub fn own() -> Seat {
        let Some(cpus) = Cpus::of_this_thread() else { return Seat::default() };
        match survey(false) {
            Ok(machine) if machine.here => machine.seat(&cpus),
            _ => Seat { cpus: Some(cpus.digest()), ..Seat::default() },
        }
    }
}

/// The number that all have, if there is one.
fn shared(mut numbers: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = numbers.next()??;
    numbers.all(|number| number == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_small_on_a_card() {
        let seat = Seat {
            package: Some(15),
            domain: Some(127),
            cache: Some(255),
            cache_kib: Some(1 << 20),
            core: Some(1023),
            cpus: Some(u64::MAX),
        };
        let text = serde_json::to_string(&seat).unwrap();
        assert!(text.len() <= 100, "{text}");
        assert_eq!(serde_json::from_str::<Seat>(&text).unwrap(), seat);
    }

    #[test]
    fn what_only_some_cores_have_is_not_shared() {
        assert_eq!(shared([Some(1), Some(1)].into_iter()), Some(1));
        assert_eq!(shared([Some(1), Some(2)].into_iter()), None);
        assert_eq!(shared([Some(1), None].into_iter()), None);
        assert_eq!(shared([None, Some(1)].into_iter()), None);
        assert_eq!(shared([].into_iter()), None);
    }
}

#[cfg(all(test, feature = "hwloc"))]
mod synthetic_tests {
    use super::*;
    use crate::locality::hwloc::synthetic;

    fn seat(machine: &Machine, cpus: impl IntoIterator<Item = u32>) -> [Option<u32>; 4] {
        let seat = machine.seat(&cpus.into_iter().collect());
        [seat.package, seat.domain, seat.cache, seat.core]
    }

    #[test]
    fn a_seat_is_what_all_cpus_share() {
        let machine = synthetic("package:2 numa:2 l3:2 core:4 pu:2");
        assert_eq!(seat(&machine, [0, 1]), [Some(0), Some(0), Some(0), Some(0)]);
        assert_eq!(seat(&machine, [1, 2]), [Some(0), Some(0), Some(0), None]);
        assert_eq!(seat(&machine, [62]), [Some(1), Some(3), Some(7), Some(31)]);
        assert_eq!(seat(&machine, 0..16), [Some(0), Some(0), None, None]);
        assert_eq!(seat(&machine, 0..32), [Some(0), None, None, None]);
        assert_eq!(seat(&machine, 0..64), [None; 4]);
    }

    #[test]
    fn cpus_that_are_not_in_the_machine_have_no_seat() {
        assert_eq!(seat(&synthetic("core:2 pu:1"), [7]), [None; 4]);
    }

    #[test]
    fn this_machine_gives_every_process_its_cpus() {
        let own = Seat::own();
        let cpus = Cpus::of_this_thread().unwrap();
        assert_eq!(own.cpus, Some(cpus.digest()));
    }
}
