//! The ranks of a job meet: they learn who is where, agree on a provider, and connect their transports.
//!
//! Two allgathers of small cards: the first tells who is where, after which a [carrier](Carrier) can be opened
//! (where some share a node, all make two more to find out whether they share memory); the last tells addresses, and whatever else
//! the caller wants to tell. It knows no engine and no
//! collective: [`join`](super::join) adds those, and a benchmark of bare puts does without.

use std::collections::HashMap;
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::settings::Settings;
use crate::addresses::{self, Address, Hosts};
use crate::boot::{self, Exchange};
use crate::error::{Error, Result};
use crate::locality::cpus::Cpus;
use crate::locality::layout::{Domains, Layout};
use crate::locality::machine::Seat;
use crate::locality::node::Host;
use crate::rank::{Place, Rank};
use crate::select::PutCosts;
use crate::transport::shm::Way;

/// Two ranks whose numbers differ do not understand each other: cards, notices, slots, schedules.
pub const WIRE: u16 = 22;
const MAGIC: &[u8] = b"circulant";
/// Of a host with more, the first are told.
const MOST_ADDRESSES: usize = 16;

/// The ranks of a job, after the first allgather.
pub struct Meeting {
    begin: Instant,
    exchange: Box<dyn Exchange>,
    everybody: Vec<Whereabouts>,
    layout: Layout,
}

/// The first card: who is where.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Whereabouts {
    version: String,
    machine: String,
    network: String,
    addresses: Vec<Address>,
    container: String,
    node: String,
    seat: Seat,
    cores: Cores,
    job: u64,
    provider: Option<String>,
    shm_copy: Option<Way>,
    domains: Option<Domains>,
    leaders: Option<u32>,
    costs: Option<PutCosts>,
}

/// How many cores a process has at a time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cores {
    /// Those that it may run on.
    allowed: usize,
    /// Of these, as many as its container may use.
    at_once: usize,
}

/// The second card: how to reach it, and what the caller tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reach<T> {
    provider: String,
    address: Vec<u8>,
    word: T,
}

impl Meeting {
    /// Finds the others, by whatever started this process. All ranks must call it.
    ///
    /// # Errors
    /// Ranks that do not find each other, are of different versions, or ask for different providers.
    pub fn attend(settings: &Settings) -> Result<Meeting> {
        Meeting::since(Instant::now(), boot::detect()?, settings)
    }

    /// Finds the others by an exchange. All ranks must call it; errors as [`attend`](Self::attend).
    pub fn by(exchange: Box<dyn Exchange>, settings: &Settings) -> Result<Meeting> {
        Meeting::since(Instant::now(), exchange, settings)
    }

    fn since(begin: Instant, mut exchange: Box<dyn Exchange>, settings: &Settings) -> Result<Meeting> {
        let everybody = swap(&mut *exchange, &Whereabouts::own(settings))?;
        agree_on_versions(&everybody)?;
        agree_on_settings(&everybody)?;
        let layout = Layout::new(everybody.iter().map(|other| (other.node.as_str(), other.seat)));
        Ok(Meeting { begin, exchange, everybody, layout })
    }

    /// Who and how many we are.
    pub fn place(&self) -> Place {
        self.exchange.place()
    }

    /// How the ranks found each other.
    pub fn boot(&self) -> String {
        self.exchange.name()
    }

    /// When this rank began to look for the others.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// How many distinct nodes there are.
    pub fn nodes(&self) -> u32 {
        self.layout.nodes()
    }

    /// Which rank is on which node, and where in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether all ranks reach each other by this machine's loopback.
    pub fn is_local(&self) -> bool {
        let first = &self.everybody[0];
        self.everybody
            .iter()
            .all(|other| (&other.machine, &other.network) == (&first.machine, &first.network))
    }

    /// The addresses of this rank's host and of all others.
    pub fn hosts(&self) -> Hosts {
        let host = |rank: &Whereabouts| (rank.machine.clone(), rank.network.clone());
        let mut all: HashMap<_, _> =
            self.everybody.iter().map(|rank| (host(rank), &rank.addresses)).collect();
        all.remove(&host(&self.everybody[self.place().rank as usize]));
        Hosts { own: addresses::of_this_host(), others: all.into_values().cloned().collect() }
    }

    /// Whether all ranks are on one node: they could share memory.
    pub fn is_one_node(&self) -> bool {
        self.nodes() == 1
    }

    /// The ranks of this rank's node, rising.
    pub fn own_node(&self) -> &[Rank] {
        self.layout.ranks_of(self.layout.node(self.place().rank))
    }

    /// Whether some node has more than one rank.
    pub fn shares_nodes(&self) -> bool {
        self.nodes() < self.place().size
    }

    /// The ranks that may run where this rank may, over its cores.
    pub fn ranks_per_core(&self) -> f64 {
        crowds(&self.everybody)[self.place().rank as usize]
    }

    /// The same of most ranks: the median, of which all know the same.
    pub fn ranks_per_core_of_most(&self) -> f64 {
        let mut crowds = crowds(&self.everybody);
        crowds.sort_by(f64::total_cmp);
        crowds[crowds.len() / 2]
    }

    /// How many ranks of this machine, whatever nodes they are said to be of, run where they share this rank's last-level
    /// cache, itself with them; 0 where nothing is known of caches.
    pub fn ranks_on_cache(&self) -> usize {
        let caches = self.everybody.iter().map(|one| (one.machine.as_str(), one.seat.cache));
        with_the_same_cache(caches, self.place().rank)
    }

    /// A number that all ranks of this job, and of no other, have.
    pub fn job(&self) -> u64 {
        self.everybody[0].job
    }

    /// Connects a carrier with those of all other ranks, and tells them `word`. Gives each rank's word, in rank
    /// order. All ranks must call it, once.
    pub fn connect<T>(&mut self, carrier: &mut Carrier, word: T) -> Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned,
    {
        let own = Reach { provider: carrier.provider().to_owned(), address: carrier.address()?, word };
        let reach: Vec<Reach<T>> = self.swap(&own)?;
        same_provider(&reach)?;
        let (addresses, words): (Vec<_>, _) =
            reach.into_iter().map(|other| (other.address, other.word)).unzip();
        carrier.connect(&addresses, self.most_on_other_nodes())?;
        Ok(words)
    }

    /// How many ranks are on other nodes than a rank's own, at most: all know the same.
    fn most_on_other_nodes(&self) -> u32 {
        let fewest = (0..self.nodes()).map(|node| self.layout.ranks_of(node).len() as u32).min();
        self.place().size - fewest.unwrap_or(0)
    }

    /// Gives every rank's card, in rank order.
    pub(super) fn swap<T: Serialize + DeserializeOwned>(&mut self, own: &T) -> Result<Vec<T>> {
        swap(&mut *self.exchange, own)
    }

    /// What is to be told that this process ends well, last.
    pub fn into_exchange(self) -> Box<dyn Exchange> {
        self.exchange
    }
}

impl Whereabouts {
    fn own(settings: &Settings) -> Whereabouts {
        let Host { machine, network, container, node } = Host::own();
        Whereabouts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            network,
            addresses: addresses::of_this_host().into_iter().take(MOST_ADDRESSES).collect(),
            container,
            node,
            seat: Seat::own(),
            cores: Cores::own(),
            job: fastrand::u64(..),
            provider: settings.provider.clone(),
            shm_copy: settings.shm_copy,
            domains: settings.domains,
            leaders: settings.leaders,
            costs: settings.costs,
        }
    }
}

impl Cores {
    fn own() -> Cores {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        Cores { allowed: Cpus::of_this_thread().map_or(at_once, |cpus| cpus.len().max(1)), at_once }
    }
}

/// For each rank those that share its cores, over these: ranks that may run on the same ones, and ranks of one container, which
/// may use some of them at a time.
fn crowds(everybody: &[Whereabouts]) -> Vec<f64> {
    let machine = |one: &Whereabouts| (one.machine.clone(), one.seat.cpus);
    let container = |one: &Whereabouts| (one.container.clone(), one.seat.cpus);
    let (mut on_machine, mut in_container) = (HashMap::new(), HashMap::new());
    for one in everybody {
        *on_machine.entry(machine(one)).or_insert(0) += 1;
        *in_container.entry(container(one)).or_insert(0) += 1;
    }
    let crowd = |one: &Whereabouts| {
        let Cores { allowed, at_once } = one.cores;
        let shares = [(on_machine[&machine(one)], allowed), (in_container[&container(one)], at_once)];
        let shares = shares.map(|(ranks, cores): (u32, usize)| f64::from(ranks) / cores.max(1) as f64);
        shares[0].max(shares[1])
    };
    everybody.iter().map(crowd).collect()
}

/// Other versions may choose other algorithms, though they speak alike.
fn agree_on_versions(everybody: &[Whereabouts]) -> Result<()> {
    let first = &everybody[0].version;
    match everybody.iter().position(|other| other.version != *first) {
        None => Ok(()),
        Some(rank) => Err(Error::boot(
            format!("rank 0 is of version {first}, rank {rank} of {}", everybody[rank].version),
            "start the same version on all ranks",
        )),
    }
}

fn agree_on_settings(everybody: &[Whereabouts]) -> Result<()> {
    let none = || "none".to_owned();
    let provider = |other: &Whereabouts| other.provider.clone().unwrap_or_else(none);
    agree_on("provider", "CIRCULANT_PROVIDER", everybody, provider)?;
    let way = |other: &Whereabouts| other.shm_copy.map_or_else(none, |way| way.word().to_owned());
    agree_on("way to copy", "CIRCULANT_SHM_COPY", everybody, way)?;
    let domains = |other: &Whereabouts| other.domains.map_or_else(none, |domains| domains.to_string());
    agree_on("domains", "CIRCULANT_DOMAINS", everybody, domains)?;
    let leaders = |other: &Whereabouts| other.leaders.unwrap_or(1).to_string();
    agree_on("leaders a node:", "CIRCULANT_LEADERS", everybody, leaders)?;
    let costs = |other: &Whereabouts| other.costs.map_or_else(none, |costs| costs.to_string());
    agree_on("costs", "CIRCULANT_COSTS", everybody, costs)
}

fn agree_on(
    what: &str,
    variable: &str,
    everybody: &[Whereabouts],
    said: impl Fn(&Whereabouts) -> String,
) -> Result<()> {
    let first = said(&everybody[0]);
    match everybody.iter().position(|other| said(other) != first) {
        None => Ok(()),
        Some(rank) => Err(Error::boot(
            format!("rank 0 asks for {what} {first}, rank {rank} for {}", said(&everybody[rank])),
            format!("set {variable} alike on all ranks"),
        )),
    }
}

fn same_provider<T>(reach: &[Reach<T>]) -> Result<()> {
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

/// How many of these machines and caches on them are those of this rank; none where its cache is not known.
fn with_the_same_cache<'a>(
    caches: impl Iterator<Item = (&'a str, Option<u32>)> + Clone,
    rank: Rank,
) -> usize {
    let own = caches.clone().nth(rank as usize).filter(|(_, cache)| cache.is_some());
    caches.filter(|&one| Some(one) == own).count()
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
        assert!(
            include_str!("../../docs/manual.md").contains(&format!("Version {WIRE}.")),
            "the manual has another"
        );
        let words = format!("rank 3 speaks version {} of the wire format, this rank {WIRE}", WIRE + 1);
        assert!(error.contains(&words), "{error}");
    }

    /// A rank of a machine and container there, which may use so many of 8 cores at a time.
    fn on(machine: &str, container: &str, at_once: usize) -> Whereabouts {
        let settings = Settings::default();
        let (machine, container) = (machine.to_owned(), format!("{machine} {container}"));
        let cores = Cores { allowed: 8, at_once };
        Whereabouts { machine, container, cores, ..Whereabouts::own(&settings) }
    }

    #[test]
    fn ranks_share_the_cores_of_their_machine_and_what_their_container_may_use_of_them() {
        let pods: Vec<_> = ["a", "b", "c", "d"].map(|pod| on("one", pod, 1)).to_vec();
        assert_eq!(crowds(&pods), [1.0; 4], "each has a core");
        let full: Vec<_> = (0..16).map(|_| on("one", "a", 8)).chain([on("two", "a", 8)]).collect();
        assert_eq!((crowds(&full)[0], crowds(&full)[16]), (2.0, 0.125));
        let tight: Vec<_> = (0..4).map(|_| on("one", "a", 2)).collect();
        assert_eq!(crowds(&tight), [2.0; 4]);
    }

    #[test]
    fn another_version_is_named() {
        let other = Whereabouts { version: "9.9.9".to_owned(), ..on("one", "a", 1) };
        let error = agree_on_versions(&[on("one", "a", 1), other]).unwrap_err().to_string();
        assert!(error.contains(", rank 1 of 9.9.9; start the same version"), "{error}");
    }

    #[test]
    fn caches_of_one_number_are_shared_on_one_machine_alone() {
        let caches = [("one", Some(0)), ("one", Some(1)), ("two", Some(0)), ("one", Some(0)), ("one", None)];
        let sharing = (0..5).map(|rank| with_the_same_cache(caches.iter().copied(), rank));
        assert_eq!(sharing.collect::<Vec<_>>(), [2, 1, 1, 2, 0]);
    }

    #[test]
    fn garbage_for_a_card_is_an_error() {
        for card in [&b""[..], b"circulant", b"circulant\x03", b"circulant\x03\x00{"] {
            assert!(decode::<u8>(0, card).is_err());
        }
    }
}
