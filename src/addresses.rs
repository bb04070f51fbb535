//! Where a rank listens, and how it tells others, in at most 512 bytes: a port and the host's addresses.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The most bytes of a card.
pub const MAX_CARD: usize = 512;

/// Where the ranks are that should reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All on one machine and in one network namespace: nobody else can connect.
    Loopback,
    /// On any hosts that reach each other.
    Network,
}

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// How many of its first bits its network's others share.
    pub prefix: u8,
}

/// The addresses of this host, and of the others that its ranks are to reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// This host's.
    pub own: Vec<Address>,
    /// Those of each other host.
    pub others: Vec<Vec<Address>>,
}

impl Hosts {
    /// Whether another host has this address, too: then it leads nowhere but to the host itself, as a bridge for containers
    /// or virtual machines.
    pub fn others_have(&self, ip: IpAddr) -> bool {
        self.others.iter().flatten().any(|other| other.ip == ip)
    }

    /// How many of the others have no address in the network of this one, and can be reached from it by routes only.
    pub fn beyond(&self, ip: IpAddr) -> usize {
        let own = self.own.iter().find(|own| own.ip == ip);
        let is_near = |other: &Vec<Address>| {
            own.is_some_and(|own| other.iter().any(|other| other.ip != ip && shares_network(own, other.ip)))
        };
        self.others.iter().filter(|other| !is_near(other)).count()
    }
}

/// A socket that peers can connect to, and the addresses to tell them.
pub struct Listener {
    /// It does not block.
    pub socket: TcpListener,
    /// This host's, as far as they matter.
    pub addresses: Vec<Address>,
    port: u16,
}

impl Listener {
    /// Listens at a port that the system chooses. Fails where no interface is up.
    pub fn bind(scope: Scope) -> Result<Listener> {
        let addresses = match scope {
            Scope::Loopback => vec![Address { ip: Ipv4Addr::LOCALHOST.into(), prefix: 8 }],
            Scope::Network => own_addresses()?,
        };
        let (socket, port) = listen_within(scope, &addresses)
            .map_err(|e| Error::boot(format!("listen: {e}"), "raise `ulimit -n`, or free TCP ports"))?;
        Ok(Listener { socket, addresses, port })
    }

    /// Listens for ranks that may be anywhere; where no interface is up, for those of this machine.
    pub fn anywhere() -> Result<Listener> {
        Listener::bind(Scope::Network).or_else(|_| Listener::bind(Scope::Loopback))
    }

    /// What every peer must get, in at most 512 bytes.
    pub fn card(&self) -> Vec<u8> {
        self.card_within(MAX_CARD)
    }

    /// The same in at most so many bytes: of many addresses the first.
    pub fn card_within(&self, most: usize) -> Vec<u8> {
        encode_within(most, self.port, self.addresses.iter().map(|address| address.ip))
    }
}

/// Listens at all of this host's addresses.
pub fn listen_at_all(port: u16) -> std::io::Result<TcpListener> {
    listen_at(any_of(&of_this_host()), port)
}

/// What stands for all of these addresses.
fn any_of(addresses: &[Address]) -> IpAddr {
    // An IPv6 socket takes IPv4 connections too, but a kernel without IPv6 has none.
    match addresses.iter().any(|address| address.ip.is_ipv6()) {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn listen_at(ip: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    let family = if ip.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if ip.is_ipv6() {
        // Whatever the system's default is (net.ipv6.bindv6only).
        set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &SocketAddr::new(ip, port))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connections that may wait to be accepted: as many as the system lets (net.core.somaxconn), as all ranks may come at once.
const BACKLOG: i32 = i32::MAX;

fn listen_within(scope: Scope, addresses: &[Address]) -> std::io::Result<(TcpListener, u16)> {
    let ip = match scope {
        Scope::Loopback => Ipv4Addr::LOCALHOST.into(),
        Scope::Network => any_of(addresses),
    };
    let socket = listen_at(ip, 0)?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// The addresses of this host's interfaces that are up, without loopback and link-local ones (the
/// latter mean nothing without the interface's name on the other host).
fn own_addresses() -> Result<Vec<Address>> {
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|e| Error::boot(format!("getifaddrs: {e}"), "free memory or raise `ulimit -n`"))?;
    let up = interfaces.iter().filter(|i| i.is_oper_up() && !i.is_loopback() && !i.is_link_local());
    let addresses: Vec<Address> = up.map(|i| address(&i.addr)).collect();
    if addresses.is_empty() {
        return Err(Error::boot(
            "no network interface is up (beside loopback)",
            "bring one up with `ip link set DEVICE up` and give it an address, or run all ranks on one machine",
        ));
    }
    Ok(addresses)
}

/// The addresses at which other hosts may reach this one; none where no interface is up.
pub fn of_this_host() -> Vec<Address> {
    own_addresses().unwrap_or_default()
}

fn address(addr: &if_addrs::IfAddr) -> Address {
    let prefix = match addr {
        if_addrs::IfAddr::V4(v4) => v4.prefixlen,
        if_addrs::IfAddr::V6(v6) => v6.prefixlen,
    };
    Address { ip: addr.ip(), prefix }
}

/// The card of a rank that listens at `port` of each address, of as many as fit.
pub fn encode(port: u16, ips: impl Iterator<Item = IpAddr>) -> Vec<u8> {
    encode_within(MAX_CARD, port, ips)
}

fn encode_within(most: usize, port: u16, ips: impl Iterator<Item = IpAddr>) -> Vec<u8> {
    let mut card = port.to_le_bytes().to_vec();
    for ip in ips {
        let (tag, octets) = match ip {
            IpAddr::V4(v4) => (4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (6, v6.octets().to_vec()),
        };
        if card.len() + 1 + octets.len() <= most {
            card.push(tag);
            card.extend(octets);
        }
    }
    card
}

/// Where the owner of a card listens; `None` if it is no card.
pub fn decode(card: &[u8]) -> Option<Vec<SocketAddr>> {
    let (port, mut rest) = card.split_first_chunk::<2>()?;
    let port = u16::from_le_bytes(*port);
    let mut addresses = Vec::new();
    while let Some((tag, octets)) = rest.split_first() {
        let ip;
        (ip, rest) = match tag {
            4 => octets.split_first_chunk::<4>().map(|(v4, rest)| (IpAddr::V4(Ipv4Addr::from(*v4)), rest))?,
            6 => {
                octets.split_first_chunk::<16>().map(|(v6, rest)| (IpAddr::V6(Ipv6Addr::from(*v6)), rest))?
            }
            _ => return None,
        };
        addresses.push(SocketAddr::new(ip, port));
    }
    Some(addresses).filter(|addresses| !addresses.is_empty())
}

/// The most promising address first: one in a network of ours, then the others, then our own
/// (the peer shares our host, or it is a bridge that has the same address on every host).
pub fn sort(theirs: &mut [SocketAddr], ours: &[Address]) {
    theirs.sort_by_key(|their| {
        let own = ours.iter().any(|our| our.ip == their.ip());
        let near = ours.iter().any(|our| shares_network(our, their.ip()));
        (own, !near)
    });
}

fn shares_network(our: &Address, ip: IpAddr) -> bool {
    match (our.ip, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(our.prefix)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(our.prefix)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_others_have_is_told_from_what_leads_to_them() {
        let host =
            |all: &[&str]| all.iter().map(|text| Address { ip: ip(text), prefix: 24 }).collect::<Vec<_>>();
        let hosts = Hosts {
            own: host(&["172.17.0.1", "10.0.0.1", "192.168.1.1", "203.0.113.5"]),
            others: vec![
                host(&["172.17.0.1", "10.0.0.2", "192.168.1.2"]),
                host(&["10.0.1.3", "192.168.1.3"]),
            ],
        };
        let found = hosts.own.iter().map(|own| (hosts.others_have(own.ip), hosts.beyond(own.ip)));
        assert_eq!(found.collect::<Vec<_>>(), [(true, 2), (false, 1), (false, 0), (false, 2)]);
        assert_eq!(hosts.beyond(ip("10.0.0.9")), 2, "no address of this host");
        assert!(!Hosts::default().others_have(ip("10.0.0.1")));
    }

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let ips = [ip("10.1.2.3"), ip("fd00::7")];
        let expected: Vec<_> = ips.iter().map(|ip| SocketAddr::new(*ip, 4711)).collect();
        assert_eq!(decode(&encode(4711, ips.into_iter())), Some(expected));
    }

    #[test]
    fn a_card_never_exceeds_its_limit_and_keeps_the_first_addresses() {
        let card = encode(1, (0..100).map(|i| IpAddr::V6(Ipv6Addr::from_bits(i))));
        assert!(card.len() <= MAX_CARD);
        assert_eq!(decode(&card).unwrap().len(), 30);
    }

    #[test]
    fn what_is_no_card_is_refused() {
        for bytes in [&[][..], &[1], &[1, 2], &[1, 2, 4, 10, 0, 0], &[1, 2, 5, 0], &[1, 2, 6, 0, 0, 0, 0]] {
            assert_eq!(decode(bytes), None);
        }
    }

    #[test]
    fn a_shared_network_comes_first_and_an_address_of_our_own_last() {
        let ours =
            [Address { ip: ip("172.17.0.1"), prefix: 16 }, Address { ip: ip("192.168.4.9"), prefix: 22 }];
        let mut theirs: Vec<SocketAddr> = ["172.17.0.1:5", "10.0.0.7:5", "192.168.7.1:5", "[fd00::7]:5"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        sort(&mut theirs, &ours);
        let sorted: Vec<String> = theirs.iter().map(ToString::to_string).collect();
        assert_eq!(sorted, ["192.168.7.1:5", "10.0.0.7:5", "[fd00::7]:5", "172.17.0.1:5"]);
    }
}
