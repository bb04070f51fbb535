//! The one door to hwloc: from its tree to the table of cores.

use std::{fmt, iter};

use hwlocality::Topology;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{OSDeviceType, ObjectType};
use hwlocality::topology::builder::{BuildFlags, TypeFilter};

use super::cpus::Cpus;
use super::machine::{Cache, Core, Domain, Machine, Nic, Unknown};

/// Looks at the machine of this process.
pub(super) fn survey(with_nics: bool) -> Result<Machine, Unknown> {
    let machine = Machine::of(&load(with_nics)?);
    if machine.cores.is_empty() {
        return Err(Unknown(format!("{} knows of no core here", machine.source)));
    }
    Ok(machine)
}

/// What is not allowed to this process counts, so that all number alike. The x86 component is left out: it would
/// move this thread over all CPUs, to ask each for what Linux tells as well.
fn load(with_nics: bool) -> Result<Topology, Unknown> {
    let unknown = |error: &dyn fmt::Display| Unknown(format!("hwloc: {error}"));
    let builder = Topology::builder().with_flags(BuildFlags::INCLUDE_DISALLOWED).map_err(|e| unknown(&e))?;
    let builder = builder.without_component("x86").map_err(|e| unknown(&e))?;
    let nics = if with_nics { TypeFilter::KeepImportant } else { TypeFilter::KeepNone };
    let builder = builder.with_io_type_filter(nics).map_err(|e| unknown(&e))?;
    builder.build().map_err(|error| match error.errno {
        Some(errno) => unknown(&format_args!("{}: {errno}", error.api)),
        None => unknown(&error),
    })
}

impl Machine {
    fn of(topology: &Topology) -> Machine {
        let (mut domains, mut caches) = (Numbered::default(), Numbered::default());
        let cores = cores(topology).map(|core| Core {
            package: core.first_ancestor_with_type(ObjectType::Package).map(|p| p.logical_index() as u32),
            domain: nearest_domain(core).map(|domain| domains.number(domain)),
            cache: last_cache(core).map(|cache| caches.number(cache)),
            cpus: cpus(core),
        });
        let cores = cores.collect();
        Machine {
            source: source(topology),
            here: topology.is_this_system(),
            cores,
            domains: domains.0.into_iter().map(Domain::of).collect(),
            caches: caches.0.into_iter().map(Cache::of).collect(),
            nics: topology.objects_with_type(ObjectType::OSDevice).filter_map(Nic::of).collect(),
        }
    }
}

/// hwloc with the version by which it looked.
fn source(topology: &Topology) -> String {
    let version = topology.root_object().info("hwlocVersion");
    version.map_or("hwloc".to_owned(), |version| format!("hwloc {}", version.to_string_lossy()))
}

/// The cores, or the hardware threads where no more is known.
fn cores(topology: &Topology) -> impl Iterator<Item = &TopologyObject> {
    let has_cores = topology.objects_with_type(ObjectType::Core).next().is_some();
    topology.objects_with_type(if has_cores { ObjectType::Core } else { ObjectType::PU })
}

/// The memory that hangs at a core, or nearest above it.
fn nearest_domain(core: &TopologyObject) -> Option<&TopologyObject> {
    let mut holders = iter::once(core).chain(core.ancestors());
    holders.find_map(|holder| holder.memory_children().find_map(domain_within))
}

/// A NUMA domain may be behind a cache of its own.
fn domain_within(memory: &TopologyObject) -> Option<&TopologyObject> {
    match memory.object_type() {
        ObjectType::NUMANode => Some(memory),
        _ => memory.memory_children().find_map(domain_within),
    }
}

fn last_cache(core: &TopologyObject) -> Option<&TopologyObject> {
    core.ancestors().filter(|above| above.object_type().is_cpu_data_cache()).last()
}

fn cpus(object: &TopologyObject) -> Cpus {
    let cpus = object.cpuset();
    cpus.iter().flat_map(|cpus| cpus.iter_set()).map(|cpu| usize::from(cpu) as u32).collect()
}

impl Domain {
    fn of(object: &TopologyObject) -> Domain {
        let memory = match object.attributes() {
            Some(ObjectAttributes::NUMANode(domain)) => domain.local_memory(),
            _ => None,
        };
        Domain { number: object.os_index().map(|number| number as u32), memory: memory.map(u64::from) }
    }
}

impl Cache {
    fn of(object: &TopologyObject) -> Cache {
        match object.attributes() {
            Some(ObjectAttributes::Cache(cache)) => {
                Cache { level: cache.depth() as u32, bytes: cache.size().map(u64::from) }
            }
            _ => Cache { level: 0, bytes: None },
        }
    }
}

impl Nic {
    /// None if it is another device.
    fn of(object: &TopologyObject) -> Option<Nic> {
        let Some(ObjectAttributes::OSDevice(device)) = object.attributes() else { return None };
        let is_nic = matches!(device.device_type(), OSDeviceType::Network | OSDeviceType::OpenFabrics);
        let near = object.first_non_io_ancestor().filter(|_| is_nic).map(cpus)?;
        Some(Nic { name: object.name()?.to_string_lossy().into_owned(), near })
    }
}

/// Objects by the order in which they appear first.
#[derive(Default)]
struct Numbered<'t>(Vec<&'t TopologyObject>);

impl<'t> Numbered<'t> {
    fn number(&mut self, object: &'t TopologyObject) -> u32 {
        let id = object.global_persistent_index();
        let known = self.0.iter().rposition(|other| other.global_persistent_index() == id);
        known.unwrap_or_else(|| {
            self.0.push(object);
            self.0.len() - 1
        }) as u32
    }
}

/// A machine that is not there, by hwloc's description; it passes for the one of this process.
#[cfg(test)]
pub(super) fn synthetic(description: &str) -> Machine {
    let builder = Topology::builder().from_synthetic(description).unwrap();
    Machine { here: true, ..Machine::of(&builder.build().unwrap()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Package, domain, cache and CPUs of each core.
    fn table(description: &str) -> Vec<String> {
        let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
        let line = |core: &Core| {
            let [package, domain, cache] = [core.package, core.domain, core.cache].map(number);
            format!("{package} {domain} {cache} {}", core.cpus.numbers())
        };
        synthetic(description).cores.iter().map(line).collect()
    }

    #[test]
    fn cores_know_what_they_belong_to() {
        assert_eq!(
            table("package:2 numa:2 core:2 pu:1"),
            ["0 0 - 0", "0 0 - 1", "0 1 - 2", "0 1 - 3", "1 2 - 4", "1 2 - 5", "1 3 - 6", "1 3 - 7"]
        );
        assert_eq!(table("package:1 [numa] l3:2 core:1 pu:2"), ["0 0 0 0-1", "0 0 1 2-3"]);
    }

    #[test]
    fn the_last_cache_is_the_outermost() {
        let machine = synthetic("package:1 l3:2 l2:2 l1d:1 core:1 pu:1");
        assert_eq!(machine.caches.len(), 2);
        assert!(machine.caches.iter().all(|cache| cache.level == 3 && cache.bytes.is_some()));
        assert_eq!(synthetic("l2:3 core:1 pu:1").caches[0].level, 2);
    }

    #[test]
    fn hardware_threads_stand_for_cores_that_are_not_known() {
        assert_eq!(table("pu:3"), ["- 0 - 0", "- 0 - 1", "- 0 - 2"]);
    }

    #[test]
    fn the_machine_of_the_tests_is_seen() {
        let machine = survey(true).unwrap();
        let allowed = Cpus::of_this_thread().unwrap();
        let all = machine.cores.iter().map(|core| &core.cpus).collect::<Cpus>();
        assert!(!machine.here || all.and(&allowed) == allowed, "{machine:?}");
    }
}
