//! What carries a world's puts: shared memory where all ranks are on one node; where some share a node and others do
//! not, both it and a provider of libfabric; else the provider alone.
#![forbid(unsafe_code)]

use std::net::IpAddr;

use super::meeting::Meeting;
use super::settings::Settings;
use super::wanted::{SHM, Wanted};
use crate::error::{Error, Result};
use crate::processor::{Maker, maker};
use crate::rank::{Place, Rank};
use crate::transport::Transport;
use crate::transport::fabric::{self, Choice, Fabric, Request};
use crate::transport::mixed::Mixed;
use crate::transport::shm::{Findings, Shm, Vicinity};

/// A transport that is open, and that [`Meeting::connect`] connects.
pub enum Carrier {
    /// Shared memory, whose ranks have found each other already.
    Shm(Box<Shm>),
    /// libfabric.
    Fabric(Box<Fabric>, Network),
    /// Shared memory within nodes, and libfabric between them.
    Mixed(Box<Mixed>, Network),
}

/// Which ranks share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All of them.
    All,
    /// Those of each node.
    OfNodes,
}

/// What is known of a carrier that goes over libfabric.
#[derive(Debug, Clone)]
pub struct Network {
    /// What all ranks must have alike: the provider, as libfabric writes it.
    provider: String,
    /// Its address, where it is one of the internet.
    ip: Option<IpAddr>,
    /// Why ranks of one node do not share memory, though nobody has named another way.
    without_shm: Option<String>,
}

impl Network {
    fn of(choice: &Choice) -> Network {
        Network { provider: choice.provider(), ip: choice.ip(), without_shm: None }
    }
}

impl Carrier {
    /// Opens what the user has named, else what is best: shared memory on one node; with the best provider
    /// where some ranks share a node; and the provider alone where none do, or where one cannot. All ranks
    /// must call it: they find out together whether they share memory.
    ///
    /// # Errors
    /// No transport, or none of that name, with each that was considered and what it lacks.
    pub fn open(meeting: &mut Meeting, settings: &Settings) -> Result<Carrier> {
        match Wanted::of(settings.provider.as_deref()) {
            Wanted::Best if meeting.shares_nodes() => best(meeting, settings),
            Wanted::Best | Wanted::Fabric(_) => over_fabric(meeting, settings, None),
            Wanted::Shm if meeting.is_one_node() => Ok(Carrier::Shm(Box::new(shared(meeting, settings)?))),
            Wanted::Shm => {
                let what = format!(
                    "{SHM} (the ranks are on {} nodes; name a provider beside it, as {SHM}+tcp)",
                    meeting.nodes()
                );
                Err(Error::NoTransport(what))
            }
            Wanted::Mixed(_) => {
                let shm = shared(meeting, settings)?;
                mixed(meeting, settings, shm)
            }
        }
    }

    /// What puts.
    pub fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Carrier::Shm(shm) => &mut **shm,
            Carrier::Fabric(fabric, _) => &mut **fabric,
            Carrier::Mixed(mixed, _) => &mut **mixed,
        }
    }

    /// What puts, for good.
    pub fn into_transport(self) -> Box<dyn Transport> {
        match self {
            Carrier::Shm(shm) => shm,
            Carrier::Fabric(fabric, _) => fabric,
            Carrier::Mixed(mixed, _) => mixed,
        }
    }

    /// The address that it has on the internet, if any.
    pub fn ip(&self) -> Option<IpAddr> {
        self.network().and_then(|network| network.ip)
    }

    /// Why ranks of one node do not share memory, though nobody has named another way; all ranks say the same.
    pub fn without_shm(&self) -> Option<&str> {
        self.network().and_then(|network| network.without_shm.as_deref())
    }

    /// Who shares memory, if anybody does.
    pub fn sharing(&self, meeting: &Meeting) -> Option<Sharing> {
        match self {
            Carrier::Shm(_) => Some(Sharing::All),
            Carrier::Mixed(..) if meeting.is_one_node() => Some(Sharing::All),
            Carrier::Fabric(..) => None,
            Carrier::Mixed(..) => Some(Sharing::OfNodes),
        }
    }

    fn network(&self) -> Option<&Network> {
        match self {
            Carrier::Shm(_) => None,
            Carrier::Fabric(_, network) | Carrier::Mixed(_, network) => Some(network),
        }
    }

    /// What all ranks must have alike.
    pub(super) fn provider(&self) -> &str {
        self.network().map_or(SHM, |network| &network.provider)
    }

    /// What peers must be given to reach it.
    pub(super) fn address(&self) -> Result<Vec<u8>> {
        match self {
            Carrier::Shm(_) => Ok(Vec::new()),
            Carrier::Fabric(fabric, _) => fabric.address(),
            Carrier::Mixed(mixed, _) => mixed.address(),
        }
    }

    /// Makes all ranks known by their addresses, in rank order. So many at most are on other nodes than a rank's own.
    pub(super) fn connect(&mut self, addresses: &[Vec<u8>], far: u32) -> Result<()> {
        match self {
            Carrier::Shm(_) => Ok(()),
            Carrier::Fabric(fabric, _) => fabric.connect(addresses),
            Carrier::Mixed(mixed, _) => mixed.connect(addresses, far),
        }
    }
}

/// Whether shared memory works on this machine, as far as a process can tell alone: how, or why not.
pub fn try_shm(settings: &Settings) -> Result<String> {
    let mut shm = Shm::open(Place { rank: 0, size: 1 })?;
    shm.connect(&[shm.card()?])?;
    let findings = shm.probe(settings.shm_copy);
    let why = findings.unwritable.clone().map_or(String::new(), |why| format!(" ({why})"));
    shm.agree(&[findings], settings.shm_copy, Vicinity::default())?;
    Ok(format!("slices {}{why}", shm.way()))
}

/// Shared memory, alone or within nodes, unless one rank cannot: then all know why, and do without.
fn best(meeting: &mut Meeting, settings: &Settings) -> Result<Carrier> {
    match shared(meeting, settings) {
        Ok(shm) if meeting.is_one_node() => Ok(Carrier::Shm(Box::new(shm))),
        Ok(shm) => mixed(meeting, settings, shm),
        Err(Error::NoTransport(why)) => over_fabric(meeting, settings, Some(why)),
        Err(error) => Err(error),
    }
}

fn mixed(meeting: &Meeting, settings: &Settings, shm: Shm) -> Result<Carrier> {
    let choice = choose(meeting, settings)?;
    let fabric = Fabric::open(&choice, meeting.place())?;
    let network = Network { provider: format!("{SHM}+{}", choice.provider()), ..Network::of(&choice) };
    Ok(Carrier::Mixed(Box::new(Mixed::new(shm, fabric, meeting.own_node())), network))
}

fn over_fabric(meeting: &Meeting, settings: &Settings, without_shm: Option<String>) -> Result<Carrier> {
    let choice = choose(meeting, settings)?;
    let fabric = Fabric::open(&choice, meeting.place())?;
    Ok(Carrier::Fabric(Box::new(fabric), Network { without_shm, ..Network::of(&choice) }))
}

fn choose(meeting: &Meeting, settings: &Settings) -> Result<Choice> {
    let provider = Wanted::of(settings.provider.as_deref()).provider();
    let interface = settings.interface.clone();
    fabric::choose(&Request { provider, one_machine: meeting.is_local(), interface, hosts: meeting.hosts() })
}

/// Shared memory among the ranks of this node. What all ranks of all nodes agree on, whether or not it is an
/// error, as each of them knows what all have found.
fn shared(meeting: &mut Meeting, settings: &Settings) -> Result<Shm> {
    let (me, node) = (meeting.place().rank, meeting.own_node().to_vec());
    let vicinity = vicinity(meeting, &node);
    let opened = Shm::among(meeting.layout().index(me), node.clone().into(), !vicinity.crowded)
        .and_then(|shm| Ok((shm.card()?, shm)));
    let told = opened.as_ref().map(|(card, _)| card.clone()).map_err(ToString::to_string);
    let cards = (0..).zip(meeting.swap(&told)?).map(|(rank, card): (Rank, _)| {
        card.map_err(|why| Error::NoTransport(format!("{SHM} (rank {rank}: {why})")))
    });
    let cards: Vec<_> = cards.collect::<Result<_>>()?;
    let (_, mut shm) = opened?;
    let cards: Vec<_> = node.iter().map(|&rank| cards[rank as usize].clone()).collect();
    shm.connect(&cards)?;
    let findings: Vec<Findings> = meeting.swap(&shm.probe(settings.shm_copy))?;
    shm.agree(&findings, settings.shm_copy, vicinity)?;
    Ok(shm)
}

/// What goes round, and what goes abreast, takes less time on AMD's processors (EPYC 9004: half, and 0.9 of it). On a Xeon guest
/// (family 6, model 207) memory that goes round takes 1.3 to 1.4 times as long for slices of 4 to 8 KiB, 1.1 of 32 to 512 KiB, and up to
/// 2.1 for windows; copies that go abreast 1.05 to 1.1. Nobody else's have been measured.
fn vicinity(meeting: &Meeting, node: &[Rank]) -> Vicinity {
    let seat = |rank: Rank| meeting.layout().seat(rank);
    let own = seat(meeting.place().rank);
    let near = node.iter().map(|&rank| own.cache.is_some() && seat(rank).cache == own.cache).collect();
    Vicinity {
        crowded: meeting.ranks_per_core() > 1.0,
        near,
        sharing: meeting.ranks_on_cache(),
        cache: own.cache_kib.map(|kib| u64::from(kib) << 10),
        rounds: maker() == Maker::Amd,
        abreast: maker() == Maker::Amd,
    }
}
