//! Who shares what: a node, a package, a NUMA domain, a cache, a core.
//!
//! A node is told by the host's own identity ([`node`]), not by a launcher's word; what is inside a machine
//! is told by hwloc ([`machine`]). That hwloc knows nothing, as in some containers, is not an error: what
//! depends on it is then left as it is. It never moves a process: the launcher binds, by the [`binding`] that
//! is worked out here.
//!
//! | file | what |
//! |---|---|
//! | `cpus` | sets of CPUs, as Linux numbers them |
//! | `node` | the host's identity |
//! | `machine` | packages, NUMA domains, last-level caches, cores, NICs; where a process may run among them |
//! | `hwloc` | the one door to hwloc |
//! | `layout` | the ranks of a job by node |
//! | `binding` | which rank is to run where |
#![forbid(unsafe_code)]

pub mod binding;
pub mod cpus;
#[cfg(feature = "hwloc")]
mod hwloc;
pub mod layout;
pub mod machine;
pub mod node;
