//! What carries a world's puts: shared memory where all ranks are on one node, else a provider of libfabric.
#![forbid(unsafe_code)]

use std::net::IpAddr;

use super::meeting::Meeting;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::transport::Transport;
use crate::transport::fabric::{self, Fabric, Request};
use crate::transport::shm::{Findings, Shm};

/// What users call our own shared memory.
pub const SHM: &str = "shm";

/// A transport that is open, and that [`Meeting::connect`] connects.
pub enum Carrier {
    /// Shared memory, whose ranks have found each other already.
    Shm(Box<Shm>),
    /// libfabric.
    Fabric {
        /// The transport.
        fabric: Box<Fabric>,
        /// The provider, as libfabric writes it.
        provider: String,
        /// Its address, where it is one of the internet.
        ip: Option<IpAddr>,
    },
}

impl Carrier {
    /// Opens the transport that the user has named, else shared memory, else the best provider. All ranks
    /// must call it: they find out together whether they share memory.
    ///
    /// # Errors
    /// No transport, or none of that name, with each that was considered and what it lacks.
    pub fn open(meeting: &mut Meeting, settings: &Settings) -> Result<Carrier> {
        let provider = settings.provider.as_deref();
        if provider.is_none_or(|named| named == SHM) {
            match shared(meeting, settings) {
                Ok(shm) => return Ok(Carrier::Shm(Box::new(shm))),
                Err(Error::NoTransport(_)) if provider.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        fabric(meeting, settings)
    }

    /// What puts.
    pub fn transport(&mut self) -> &mut dyn Transport {
        match self {
            Carrier::Shm(shm) => &mut **shm,
            Carrier::Fabric { fabric, .. } => &mut **fabric,
        }
    }

    /// What puts, for good.
    pub fn into_transport(self) -> Box<dyn Transport> {
        match self {
            Carrier::Shm(shm) => shm,
            Carrier::Fabric { fabric, .. } => fabric,
        }
    }

    /// The address that it has on the internet, if any.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Carrier::Shm(_) => None,
            Carrier::Fabric { ip, .. } => *ip,
        }
    }

    /// What all ranks must have alike.
    pub(super) fn provider(&self) -> &str {
        match self {
            Carrier::Shm(_) => SHM,
            Carrier::Fabric { provider, .. } => provider,
        }
    }

    /// What peers must be given to reach it.
    pub(super) fn address(&self) -> Result<Vec<u8>> {
        match self {
            Carrier::Shm(_) => Ok(Vec::new()),
            Carrier::Fabric { fabric, .. } => fabric.address(),
        }
    }

    /// Makes all ranks known by their addresses, in rank order.
    pub(super) fn connect(&mut self, addresses: &[Vec<u8>]) -> Result<()> {
        match self {
            Carrier::Shm(_) => Ok(()),
            Carrier::Fabric { fabric, .. } => fabric.connect(addresses),
        }
    }
}

/// Whether shared memory works on this machine, as far as a process can tell alone: how, or why not.
pub fn try_shm(settings: &Settings) -> Result<String> {
    let mut shm = Shm::open(Place { rank: 0, size: 1 })?;
    shm.connect(&[shm.card()?])?;
    let findings = shm.probe(settings.shm_copy);
    let why = findings.unwritable.clone().map_or(String::new(), |why| format!(" ({why})"));
    shm.agree(&[findings], settings.shm_copy)?;
    Ok(format!("slices {}{why}", shm.way()))
}

fn fabric(meeting: &Meeting, settings: &Settings) -> Result<Carrier> {
    let (provider, interface) = (settings.provider.clone(), settings.interface.clone());
    let choice = fabric::choose(&Request { provider, one_machine: meeting.is_local(), interface })?;
    let fabric = Box::new(Fabric::open(&choice, meeting.place())?);
    Ok(Carrier::Fabric { fabric, provider: choice.provider(), ip: choice.ip() })
}

/// What all ranks agree on, whether or not it is an error, as each of them knows what all have found.
fn shared(meeting: &mut Meeting, settings: &Settings) -> Result<Shm> {
    let place = meeting.place();
    if !meeting.is_one_node() {
        let what = format!("{SHM} (the ranks are on {} nodes)", meeting.nodes());
        return Err(Error::NoTransport(what));
    }
    let opened = Shm::open(place).and_then(|shm| Ok((shm.card()?, shm)));
    let told = opened.as_ref().map(|(card, _)| card.clone()).map_err(ToString::to_string);
    let cards = (0..).zip(meeting.swap(&told)?).map(|(rank, card): (Rank, _)| {
        card.map_err(|why| Error::NoTransport(format!("{SHM} (rank {rank}: {why})")))
    });
    let cards: Vec<_> = cards.collect::<Result<_>>()?;
    let (_, mut shm) = opened?;
    shm.connect(&cards)?;
    let findings: Vec<Findings> = meeting.swap(&shm.probe(settings.shm_copy))?;
    shm.agree(&findings, settings.shm_copy)?;
    Ok(shm)
}
