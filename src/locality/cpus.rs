//! Sets of CPUs (what Linux calls so: hardware threads), by the numbers that Linux gives them.

use std::collections::BTreeSet;
use std::fmt;

use rustix::thread::{CpuSet, sched_getaffinity};

/// A set of CPUs. It is written with the numbers as Linux writes them: `CPUs 0-3,64-67`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<u32>);

impl Cpus {
    /// Where the calling thread, and what it starts, may run; none if the system does not say, or has more
    /// CPUs than its interface has room for (1024).
    pub fn of_this_thread() -> Option<Cpus> {
        let set = sched_getaffinity(None).ok()?;
        Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
    }

    /// In the form that the system takes; none if a number is beyond its interface.
    pub fn for_the_system(&self) -> Option<CpuSet> {
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU)?;
            set.set(cpu);
        }
        Some(set)
    }

    /// As Linux writes it: `0-3,64-67`.
    pub fn numbers(&self) -> String {
        ranges(self.0.iter().copied())
    }

    /// What both have.
    pub fn and(&self, other: &Cpus) -> Cpus {
        self.0.intersection(&other.0).copied().collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A number that equal sets have, and in all likelihood no others, in whatever build (FNV-1a,
    /// <http://www.isthe.com/chongo/tech/comp/fnv/>).
    pub fn digest(&self) -> u64 {
        let bytes = self.0.iter().flat_map(|cpu| cpu.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Cpus {
        Cpus(numbers.into_iter().collect())
    }
}

impl<'a> FromIterator<&'a Cpus> for Cpus {
    fn from_iter<I: IntoIterator<Item = &'a Cpus>>(sets: I) -> Cpus {
        sets.into_iter().flat_map(|set| set.0.iter().copied()).collect()
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.len() == 1 { "" } else { "s" };
        write!(f, "CPU{plural} {}", self.numbers())
    }
}

/// Rising numbers as ranges: `0-3,8`.
pub fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_linux_writes_it() {
        let set = |numbers: &[u32]| numbers.iter().copied().collect::<Cpus>().to_string();
        assert_eq!(set(&[]), "CPUs ");
        assert_eq!(set(&[5]), "CPU 5");
        assert_eq!(set(&[67, 0, 1, 2, 64, 66, 65, 3, 9]), "CPUs 0-3,9,64-67");
    }

    #[test]
    fn sets_of_the_same_ends_and_as_many_have_digests_of_their_own() {
        let digest = |numbers: [u32; 4]| Cpus::from_iter(numbers).digest();
        assert_eq!(digest([0, 2, 4, 7]), digest([7, 4, 2, 0]));
        assert_ne!(digest([0, 2, 4, 7]), digest([0, 3, 4, 7]));
        assert_ne!(Cpus::default().digest(), Cpus::from_iter([0]).digest());
    }

    #[test]
    fn the_system_takes_what_it_has_given() {
        let own = Cpus::of_this_thread().unwrap();
        assert!(!own.is_empty());
        let set = own.for_the_system().unwrap();
        assert_eq!(set.count() as usize, own.len());
    }

    #[test]
    fn numbers_beyond_the_systems_interface_are_not_given_to_it() {
        assert!(Cpus::from_iter([3, 5000]).for_the_system().is_none());
    }
}
