//! Where the ranks meet, and how they get there.
//!
//! It never gives up before the deadline because rank 0 is not there yet: ranks start in any order.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use crate::addresses::{self, Scope};
use crate::boot::graph::{Call, Failure, NO_RANK, Words};
use crate::boot::link::Link;
use crate::boot::socket::{Deadline, wait};
use crate::error::{Error, Result};
use crate::rank::Rank;

/// The pauses between two attempts to reach rank 0, which may start later: doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// A host and a port, as the user wrote them; the name is looked up when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or a numeric address, without brackets.
    pub host: String,
    /// The TCP port, not 0.
    pub port: u16,
}

impl Address {
    /// The addresses that the name has now.
    fn find(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port @ 1..) if !host.is_empty() => Ok(Address { host: host.into(), port }),
            _ => Err(()),
        }
    }
}

impl Address {
    /// From where others may come to one who came here by this connection: by a name others may come another way.
    pub(super) fn scope_of(&self, hub: &Link) -> Scope {
        if is_one_address(&self.host) { hub.socket.scope() } else { Scope::Network }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

pub(super) fn listen(address: &Address) -> Result<TcpListener> {
    bind(&address.host, address.port).map_err(|error| {
        Error::boot(
            format!("rank 0 cannot listen at the rendezvous {address}: {error}"),
            "give an address of rank 0's host and a free port",
        )
    })
}

/// A host's own name may mean its loopback to itself (127.0.1.1 in /etc/hosts), and elsewhere an address that is not its
/// own: so where a name is given it listens at all addresses.
pub(super) fn bind(host: &str, port: u16) -> std::io::Result<TcpListener> {
    match is_one_address(host) {
        true => TcpListener::bind((host, port)),
        false => addresses::listen_at_all(port),
    }
}

/// What systems call their loopback.
const LOOPBACK: [&str; 8] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
];

/// A number, perhaps with the link that it is of (`fe80::1%eth0`), or a name of the loopback.
fn is_one_address(host: &str) -> bool {
    let number = host.split_once('%').map_or(host, |(number, _)| number);
    LOOPBACK.contains(&host) || number.parse::<IpAddr>().is_ok()
}

/// A connection to the place where all meet, which may be opened later than a rank comes to it.
pub(super) fn reach(address: &Address, rank: Rank, at: &str, limit: Duration) -> Result<Link> {
    let deadline = Deadline::after(limit);
    let mut pause = PAUSES.0;
    let mut last = String::from("no attempt was made");
    while let Some(left) = deadline.remaining() {
        let call = address.find().map(|found| Call::new(rank, NO_RANK, Words::default(), found));
        match call.map(|call| through(call, deadline)) {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(Failure::Told(error))) => return Err(error),
            Ok(Err(Failure::Unreachable(why))) => last = why,
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES.1);
    }
    let what = format!("rank {rank} could not reach {at} within {} s ({last})", limit.as_secs());
    Err(Error::boot(what, "start rank 0 on that host; CIRCULANT_BOOT_TIMEOUT gives it more seconds"))
}

/// Goes through with a call.
pub(super) fn through(mut call: Call, deadline: Deadline) -> std::result::Result<Link, Failure> {
    loop {
        call.tend()?;
        if let Some(link) = call.made {
            return Ok(link);
        }
        let mut polls: Vec<_> = call.links().filter_map(Link::poll).collect();
        let until = call.pause().map_or(deadline, |pause| deadline.or_after(pause));
        if wait(&mut polls, until).is_err() && deadline.remaining().is_none() {
            return Err(Failure::Unreachable("nobody answers".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_the_loopback_are_one_address_and_names_of_hosts_are_not() {
        for host in
            ["192.0.2.1", "::1", "fe80::1%eth0", "localhost", "localhost.localdomain", "ip6-localhost"]
        {
            assert!(is_one_address(host), "{host}");
        }
        for host in ["node17", "node17.cluster", "localhost-7", "localhost.cluster", ""] {
            assert!(!is_one_address(host), "{host}");
        }
    }
}
