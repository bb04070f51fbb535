//! The identity of the host that a process runs on, by the kernel's word.
//!
//! Ranks share a node when they have the boot of one kernel, its name, and the namespaces in which memory
//! and processes can be shared: containers of one machine are nodes of their own. `CIRCULANT_NODE` divides a
//! host into pretended nodes; it never makes one of two hosts, which could not share memory.

use std::env;
use std::fs;

/// Who this host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kernel's boot: the same for all processes on a machine.
    pub machine: String,
    /// The network namespace: whose loopback it is.
    pub network: String,
    /// The machine's container, or what is outside of all: the same for all processes that can share memory.
    pub container: String,
    /// The node: the same for all processes that can share memory, and are not to pretend otherwise.
    pub node: String,
}

impl Host {
    /// Of this process.
    pub fn own() -> Host {
        Host::divided(env::var("CIRCULANT_NODE").unwrap_or_default())
    }

    fn divided(pretended: String) -> Host {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // Where that is not shown, hosts are told from each other by their names.
        let machine = if boot.trim().is_empty() { name.clone() } else { boot.trim().to_owned() };
        // Of another user namespace's processes the kernel shows nothing, though they be the same user's.
        let [network, processes, shared, users] = ["net", "pid", "ipc", "user"].map(namespace);
        let container =
            [&name, &machine, &network, &processes, &shared, &users].map(String::as_str).join(" ");
        let node = format!("{container} {pretended}");
        Host { machine, network, container, node }
    }
}

/// As the kernel names it, `net:[4026531840]`; empty where it does not.
fn namespace(kind: &str) -> String {
    fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretending_divides_a_host() {
        let [whole, again, zero, one] = ["", "", "0", "1"].map(|name| Host::divided(name.to_owned()));
        assert_eq!(whole, again);
        assert!(whole.node != zero.node && zero.node != one.node);
        assert_eq!((&zero.machine, &zero.network), (&one.machine, &one.network));
        assert_eq!(zero.container, one.container);
        assert!(zero.node.contains(&zero.machine), "two hosts are never one node");
    }
}
