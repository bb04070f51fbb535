//! From a process to a rank of the world: boot, choice of a transport, connections, costs.
//!
//! Two allgathers of small cards: the first tells who is where, after which a provider can be chosen;
//! the second tells addresses. Everything after that goes over the fabric and the lifeline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::window::Window;
use super::world::{Farewell, World};
use super::{Communicator, barrier_task, connect, neighbours};
use crate::boot::{self, Exchange};
use crate::engine::Engine;
use crate::engine::call::Collective;
use crate::engine::slots::Slots;
use crate::engine::vigil::{Limits, Vigil};
use crate::error::{Error, Result};
use crate::lifeline::listening::{Listening, Scope};
use crate::lifeline::status::Status;
use crate::rank::{Place, Rank};
use crate::schedule::Skips;
use crate::select::{self, Costs};
use crate::transport::RemoteKey;
use crate::transport::fabric::{self, Choice, Fabric, Request};
use crate::transport::loopback::Loopback;

/// Two ranks whose numbers differ do not understand each other: cards, notices, slots, schedules.
pub const WIRE: u16 = 1;
const MAGIC: &[u8] = b"circulant";

/// What a user may set, in the environment (all ranks alike).
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `CIRCULANT_PROVIDER`: which provider, by name.
    pub provider: Option<String>,
    /// `CIRCULANT_INTERFACE`: which interface or address.
    pub interface: Option<String>,
    /// `CIRCULANT_STALL`: seconds after which a wait is told on the standard error; 0 for never. Default 10.
    pub stall: Option<Duration>,
    /// `CIRCULANT_TIMEOUT`: seconds after which a wait is an error; 0 or none for never.
    pub timeout: Option<Duration>,
}

impl Settings {
    /// From the environment; fails where a number is none.
    pub fn from_environment() -> Result<Settings> {
        let word = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(Settings {
            provider: word("CIRCULANT_PROVIDER"),
            interface: word("CIRCULANT_INTERFACE"),
            stall: seconds("CIRCULANT_STALL", word("CIRCULANT_STALL"), Some(10.0))?,
            timeout: seconds("CIRCULANT_TIMEOUT", word("CIRCULANT_TIMEOUT"), None)?,
        })
    }
}

fn seconds(name: &str, value: Option<String>, default: Option<f64>) -> Result<Option<Duration>> {
    let number = match value {
        None => default,
        Some(value) => {
            Some(value.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s)).ok_or_else(|| {
                Error::boot(
                    format!("{name}={value} is no number of seconds"),
                    "take one from 0 (never) on, or unset it",
                )
            })?)
        }
    };
    Ok(number.filter(|&seconds| seconds > 0.0).map(Duration::from_secs_f64))
}

/// What is known of the world after boot, for people to read.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// How the ranks found each other.
    pub boot: String,
    /// Distinct nodes.
    pub nodes: u32,
    /// More ranks on this machine than cores, so that a rank that waits sleeps at once.
    pub crowded: bool,
}

/// The first card: who is where.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Whereabouts {
    version: String,
    machine: String,
    network: String,
    node: String,
    job: u64,
    provider: Option<String>,
}

/// The second card: how to reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reach {
    provider: String,
    address: Vec<u8>,
    inbox: (u64, u64),
    lifeline: Vec<u8>,
}

/// Joins the world that this process was started in.
pub fn world(settings: &Settings) -> Result<Communicator> {
    let mut exchange = boot::detect()?;
    let place = exchange.place();
    let everybody: Vec<Whereabouts> = swap(&mut *exchange, &Whereabouts::own(settings)?)?;
    agree_on_provider(&everybody)?;

    let crowd =
        everybody.iter().filter(|other| other.machine == everybody[place.rank as usize].machine).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (ranks_per_core, crowded) = (crowd as f64 / cores as f64, crowd > cores);
    let limits = Limits { tell: settings.stall, end: settings.timeout };
    let engine = if place.size == 1 {
        alone(place, limits)?
    } else {
        among_others(&mut *exchange, &everybody, settings, limits, crowded)?
    };
    let nodes = everybody.iter().map(|other| &other.node).collect::<BTreeSet<_>>().len() as u32;
    let boot = exchange.name();
    let task = |engine: &Engine| barrier_task(engine.place(), Collective::Finalize);
    let mut comm = Communicator::new(World::new(engine, Some(Farewell { task, exchange })), place);
    comm.costs = measure(&comm, ranks_per_core)?;
    comm.about = About { boot, nodes, crowded };
    Ok(comm)
}

fn alone(place: Place, limits: Limits) -> Result<Engine> {
    let mut transport = Loopback::world(1, 0)?.remove(0);
    let slots = Slots::new(&mut transport, &neighbours(place))?;
    Ok(Engine::new(Box::new(transport), slots, Vigil::new(None, Arc::default(), limits), false))
}

fn among_others(
    exchange: &mut dyn Exchange,
    everybody: &[Whereabouts],
    settings: &Settings,
    limits: Limits,
    crowded: bool,
) -> Result<Engine> {
    let place = exchange.place();
    let local = everybody
        .iter()
        .all(|other| (&other.machine, &other.network) == (&everybody[0].machine, &everybody[0].network));
    let choice = choose(settings, local)?;
    let mut fabric = Fabric::open(&choice, place)?;
    let mut slots = Slots::new(&mut fabric, &neighbours(place))?;
    let listening = Listening::bind(if local { Scope::Loopback } else { Scope::Network })?;
    let inbox = slots.inbox();
    let own = Reach {
        provider: choice.provider(),
        address: fabric.address()?,
        inbox: (inbox.base, inbox.key),
        lifeline: listening.card(),
    };
    let reach: Vec<Reach> = swap(exchange, &own)?;
    same_provider(&reach)?;

    fabric.connect(&reach.iter().map(|other| other.address.clone()).collect::<Vec<_>>())?;
    let inboxes: Vec<_> =
        reach.iter().map(|other| RemoteKey { base: other.inbox.0, key: other.inbox.1 }).collect();
    connect(&mut slots, place.rank, place.size, &inboxes);
    let cards: Vec<_> = reach.into_iter().map(|other| other.lifeline).collect();
    let status = Arc::<Status>::default();
    let lifeline =
        listening.connect(place, &followers(place), &cards, everybody[0].job, Arc::clone(&status))?;
    Ok(Engine::new(Box::new(fabric), slots, Vigil::new(Some(lifeline), status, limits), crowded))
}

/// The provider, and why: what `circulant info` shows.
pub fn choose(settings: &Settings, one_machine: bool) -> Result<Choice> {
    let (provider, interface) = (settings.provider.clone(), settings.interface.clone());
    fabric::choose(&Request { provider, one_machine, interface })
}

/// The ranks at a skip's distance after this one.
fn followers(place: Place) -> Vec<Rank> {
    let skips = Skips::new(place.size);
    (0..skips.rounds()).map(|k| place.after(skips.skip(k))).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Whereabouts {
    fn own(settings: &Settings) -> Result<Whereabouts> {
        let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = |name| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
        let network = space("net").display().to_string();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let pretended = std::env::var("CIRCULANT_NODE").ok();
        let node = pretended.unwrap_or_else(|| format!("{host} {machine} {network} {:?}", space("ipc")));
        Ok(Whereabouts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            network,
            node,
            job: fastrand::u64(..),
            provider: settings.provider.clone(),
        })
    }
}

fn agree_on_provider(everybody: &[Whereabouts]) -> Result<()> {
    let say = |word: &Option<String>| word.clone().unwrap_or("none".to_owned());
    match everybody.iter().position(|other| other.provider != everybody[0].provider) {
        None => Ok(()),
        Some(rank) => Err(Error::boot(
            format!(
                "rank 0 asks for provider {}, rank {rank} for {}",
                say(&everybody[0].provider),
                say(&everybody[rank].provider)
            ),
            "set CIRCULANT_PROVIDER alike on all ranks",
        )),
    }
}

fn same_provider(reach: &[Reach]) -> Result<()> {
    match reach.iter().position(|other| other.provider != reach[0].provider) {
        None => Ok(()),
        Some(rank) => Err(Error::boot(
            format!("rank 0 has provider {}, rank {rank} has {}", reach[0].provider, reach[rank].provider),
            "name one that all have in CIRCULANT_PROVIDER; `circulant info` on both hosts tells what there is",
        )),
    }
}

/// An allgather of cards that begin with a magic and the version of the wire format.
fn swap<T: Serialize + DeserializeOwned>(exchange: &mut dyn Exchange, own: &T) -> Result<Vec<T>> {
    let cards = exchange.allgather(&encode(own)?)?;
    (0..).zip(&cards).map(|(rank, card)| decode(rank, card)).collect()
}

fn encode<T: Serialize>(own: &T) -> Result<Vec<u8>> {
    let mut card = [MAGIC, &WIRE.to_le_bytes()].concat();
    serde_json::to_writer(&mut card, own).map_err(|e| Error::boot(e.to_string(), "report this"))?;
    Ok(card)
}

fn decode<T: DeserializeOwned>(rank: Rank, card: &[u8]) -> Result<T> {
    let stranger =
        |why: &str| Error::boot(format!("rank {rank} {why}"), "start the same version on all ranks");
    let rest = card.strip_prefix(MAGIC).ok_or_else(|| stranger("is not a rank of circulant"))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(|| stranger("sent half a card"))?;
    let version = u16::from_le_bytes([version[0], version[1]]);
    if version != WIRE {
        return Err(stranger(&format!("speaks version {version} of the wire format, this rank {WIRE}")));
    }
    serde_json::from_slice(rest).map_err(|e| stranger(&format!("sent a card that makes no sense ({e})")))
}

/// Bytes of the long ping-pong: enough to show the bandwidth.
const PROBE: usize = 1 << 16;

/// What a put and a byte cost, as rank 0 measures it with rank 1; the others take its word.
fn measure(comm: &Communicator, ranks_per_core: f64) -> Result<Costs> {
    if comm.size() == 1 {
        return Ok(Costs::default());
    }
    let window = comm.window::<u8>(PROBE)?;
    let (short, long) = (one_way(comm, &window, 1)?, one_way(comm, &window, PROBE)?);
    let block = short * select::BLOCK_SHARE * ranks_per_core.max(1.0);
    let mut costs = [short, (long - short) / (PROBE - 1) as f64, block];
    comm.broadcast(&mut costs, 0)?;
    // A clock that stands still must not make a block free, nor a machine that was stopped a year dear.
    Ok(Costs {
        latency: costs[0].clamp(1e-7, 1.0),
        byte: costs[1].clamp(1e-12, 1e-3),
        block: costs[2].clamp(1e-8, 1.0),
    })
}

/// Half the least time of a few ping-pongs, in seconds. Others only add to it; the first, which makes
/// connections, does not count.
fn one_way(comm: &Communicator, window: &Window<u8>, bytes: usize) -> Result<f64> {
    let mut least = f64::INFINITY;
    for round in 0..5 {
        let start = Instant::now();
        comm.probe(window, bytes)?;
        if round > 0 {
            least = least.min(start.elapsed().as_secs_f64() / 2.0);
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_the_wire_format_is_named() {
        let mut card = encode(&0u8).unwrap();
        assert_eq!(decode::<u8>(3, &card), Ok(0));
        card[MAGIC.len()] += 1;
        let error = decode::<u8>(3, &card).unwrap_err().to_string();
        assert!(error.contains("rank 3 speaks version 2 of the wire format, this rank 1"), "{error}");
    }

    #[test]
    fn garbage_for_a_card_is_an_error() {
        for card in [&b""[..], b"circulant", b"circulant\x01", b"circulant\x01\x00{"] {
            assert!(decode::<u8>(0, card).is_err());
        }
    }

    #[test]
    fn seconds_that_are_none_are_named() {
        assert_eq!(seconds("X", Some("0".into()), Some(3.0)), Ok(None));
        assert_eq!(seconds("X", None, Some(3.0)), Ok(Some(Duration::from_secs(3))));
        assert!(seconds("X", Some("-1".into()), None).unwrap_err().to_string().contains("X=-1"));
    }
}
