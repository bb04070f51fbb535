//! The transport contract with a process for each rank, as real jobs have it: over libfabric, and over shared memory.
//!
//! A test starts this very executable once a rank and is the hub through which the ranks exchange cards.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};

use circulant::boot::Exchange;
use circulant::error::{Error, Result};
use circulant::rank::{Place, Rank};
use circulant::transport::fabric::{Fabric, Request, choose};
use circulant::transport::memory::Memory;
use circulant::transport::mixed::Mixed;
use circulant::transport::shm::{Shm, Vicinity, Way};
use circulant::transport::{Event, Gait, Put, Region, RemoteKey, Report, Segment, Transport, conformance};

#[test]
fn native_tcp_keeps_the_contract_between_processes() {
    in_processes("tcp", 3);
}

#[test]
fn rxm_keeps_the_contract_between_processes() {
    in_processes("rxm", 3);
}

#[test]
fn libfabrics_shm_keeps_the_contract_between_processes() {
    in_processes("ofi-shm", 3);
}

#[test]
fn shared_memory_keeps_the_contract_between_processes() {
    in_processes("joint", 3);
    in_processes("writev", 4);
    in_processes("ring", 3);
}

#[test]
fn shared_memory_and_a_fabric_together_keep_the_contract_between_processes() {
    in_processes("joint+tcp", 3);
    in_processes("writev+tcp", 5);
    in_processes("ring+tcp", 3);
}

#[test]
fn a_rank_that_is_killed_amid_puts_through_shared_memory_harms_nobody() {
    for way in ["joint", "writev", "ring"].repeat(4) {
        let job = Job::start("traffic", way, 3);
        let mut spokes = job.spokes();
        pass_on(&mut spokes, 4);
        // A rank speaks up when puts of all have come to it.
        let mut word = [0];
        spokes[2].read_exact(&mut word).expect("rank 2 is amid puts");
        let mut ranks = job.ranks;
        let mut victim = ranks.remove(2);
        victim.kill().expect("rank 2 is killed");
        victim.wait().expect("a child");
        drop(spokes);
        all_succeed(ranks, way);
    }
}

/// For providers that need a prepared machine: CIRCULANT_TEST_PROVIDER=psm2, verbs.
#[test]
#[ignore = "needs CIRCULANT_TEST_PROVIDER"]
fn the_provider_that_is_named_keeps_the_contract_between_processes() {
    in_processes(&std::env::var("CIRCULANT_TEST_PROVIDER").expect("CIRCULANT_TEST_PROVIDER names one"), 3);
}

#[test]
#[ignore = "a rank of the other tests"]
fn a_rank() {
    let variable = |name| std::env::var(name).expect("a test of this file started this");
    let number = |name| variable(name).parse().expect("a number");
    let place = Place { rank: number("TEST_RANK"), size: number("TEST_SIZE") };
    let hub = UnixStream::connect(variable("TEST_HUB")).expect("the hub listens");
    let mut spoke = Spoke { place, hub };
    spoke.hub.write_all(&place.rank.to_le_bytes()).expect("the hub reads");
    let mut transport = open(&variable("TEST_PROVIDER"), &mut spoke).unwrap_or_else(|e| panic!("{e}"));
    match variable("TEST_PART").as_str() {
        "traffic" => traffic(&mut *transport, spoke),
        _ => conformance::keep(&mut *transport, &mut spoke),
    }
}

fn open(provider: &str, exchange: &mut dyn Exchange) -> Result<Box<dyn Transport>> {
    let Place { rank, size } = exchange.place();
    let way = |word: &str| Way::ALL.into_iter().find(|way| way.word() == word);
    if let Some((word, provider)) = provider.split_once('+') {
        // Two ranks a node, and one on the last if there are as many.
        let node: Vec<_> = (0..size).filter(|other| other / 2 == rank / 2).collect();
        let near = shared(way(word).expect("a way"), &node, exchange)?;
        let mut mixed = Mixed::new(near, fabric(provider, exchange)?, &node);
        mixed.connect(&exchange.allgather(&mixed.address()?)?, size - 1)?;
        return Ok(Box::new(mixed));
    }
    if let Some(way) = way(provider) {
        return Ok(Box::new(shared(way, &(0..size).collect::<Vec<_>>(), exchange)?));
    }
    let mut fabric = fabric(provider, exchange)?;
    fabric.connect(&exchange.allgather(&fabric.address()?)?)?;
    Ok(Box::new(fabric))
}

/// Not yet connected.
fn fabric(provider: &str, exchange: &dyn Exchange) -> Result<Fabric> {
    let provider = Some(provider.to_owned());
    let choice = choose(&Request { provider, one_machine: true, ..Request::default() })?;
    Fabric::open(&choice, exchange.place())
}

/// Among the ranks of a node, which have agreed with all others.
fn shared(way: Way, node: &[Rank], exchange: &mut dyn Exchange) -> Result<Shm> {
    let number = node.iter().position(|&rank| rank == exchange.place().rank).expect("it is its own node");
    let mut shm = Shm::among(number as Rank, node.into(), true)?;
    let cards = exchange.allgather(&shm.card()?)?;
    shm.connect(&node.iter().map(|&rank| cards[rank as usize].clone()).collect::<Vec<_>>())?;
    let found = serde_json::to_vec(&shm.probe(Some(way))).expect("findings are text");
    let found = exchange.allgather(&found)?;
    let found: Vec<_> = found.iter().map(|found| serde_json::from_slice(found).expect("findings")).collect();
    shm.agree(&found, Some(way), Vicinity::default())?;
    Ok(shm)
}

/// Puts into shared and private memory of all others, until the hub hangs up; says so when all have been
/// heard of. Whom it loses it leaves alone.
fn traffic(transport: &mut dyn Transport, mut spoke: Spoke) {
    let place = transport.place();
    let own = [transport.allocate(LEN), Memory::zeroed(LEN)].map(|memory| memory.expect("there is memory"));
    let own = own.map(|memory| transport.register(memory).expect("it is registered"));
    let keys = own.each_ref().map(|region| share(transport, &mut spoke, region));
    spoke.hub.set_nonblocking(true).expect("a socket");
    let (mut peers, mut unheard): (Vec<_>, Vec<_>) =
        (1..place.size).map(|distance| (place.after(distance), place.after(distance))).unzip();
    let mut events = Vec::new();
    while !matches!(spoke.hub.read(&mut [0]), Ok(0)) {
        peers.retain(|&peer| (0..own.len()).all(|i| lives(transport, peer, &own[i], keys[i][peer as usize])));
        transport.poll(&mut events).expect("a poll");
        let before = unheard.len();
        unheard.retain(|&peer| !events.contains(&Event::Notice(peer)));
        events.clear();
        if before > 0 && unheard.is_empty() {
            // The hub may have hung up by now.
            let _ = spoke.hub.write(b"!");
        }
    }
    transport.shut_down();
}

/// Bytes of a put amid traffic.
/// Longer than what goes through chunks in any case.
const LEN: usize = 300_000;

/// Every rank's key to the region that it names here.
fn share(transport: &dyn Transport, spoke: &mut Spoke, region: &Region) -> Vec<RemoteKey> {
    let own = serde_json::to_vec(&region.remote).expect("keys are numbers");
    let cards = spoke.allgather(&own).expect("the hub passes cards on");
    let keys = |card: &Vec<u8>| serde_json::from_slice(card).expect("a rank has told its keys");
    (0..).zip(&cards).map(|(rank, card)| transport.key(keys(card), rank)).collect()
}

/// Puts a whole region; whether its peer is not lost.
fn lives(transport: &mut dyn Transport, peer: u32, from: &Region, to: RemoteKey) -> bool {
    let segments = &[Segment { offset: 0, len: LEN }];
    let notice = transport.place().rank;
    let put = Put {
        peer,
        from,
        segments,
        to,
        to_offset: 0,
        notice,
        report: Report::Never,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    match transport.put(&put) {
        Ok(_) => true,
        Err(Error::Lost { rank, .. }) if rank == peer => false,
        Err(error) => panic!("{error}"),
    }
}

/// Processes that a test has started.
struct Job {
    ranks: Vec<Child>,
    listener: UnixListener,
    _folder: tempfile::TempDir,
}

impl Job {
    fn start(part: &str, provider: &str, size: u32) -> Job {
        let folder = tempfile::tempdir().expect("a folder");
        let hub = folder.path().join("hub");
        let listener = UnixListener::bind(&hub).expect("a socket");
        let start = |rank: u32| {
            Command::new(std::env::current_exe().expect("our own name"))
                .args(["a_rank", "--exact", "--ignored", "--nocapture"])
                .env("TEST_PART", part)
                .env("TEST_RANK", rank.to_string())
                .env("TEST_SIZE", size.to_string())
                .env("TEST_HUB", &hub)
                .env("TEST_PROVIDER", provider)
                .spawn()
                .expect("our own executable starts")
        };
        Job { ranks: (0..size).map(start).collect(), listener, _folder: folder }
    }

    /// The ranks' ends of the hub, in rank order.
    fn spokes(&self) -> Vec<UnixStream> {
        let come = |_| {
            let (mut spoke, _) = self.listener.accept().expect("a rank");
            let mut rank = [0; 4];
            spoke.read_exact(&mut rank).expect("a rank says its number");
            (u32::from_le_bytes(rank), spoke)
        };
        let mut spokes: Vec<_> = self.ranks.iter().map(come).collect();
        spokes.sort_by_key(|(rank, _)| *rank);
        spokes.into_iter().map(|(_, spoke)| spoke).collect()
    }
}

/// Runs the laws in `size` processes.
fn in_processes(provider: &str, size: u32) {
    let job = Job::start("laws", provider, size);
    pass_on(&mut job.spokes(), usize::MAX);
    all_succeed(job.ranks, provider);
}

fn all_succeed(ranks: Vec<Child>, provider: &str) {
    for mut rank in ranks {
        let status = rank.wait().expect("a child");
        assert!(status.success(), "a rank failed on {provider}: {status}");
    }
}

/// Passes cards on, so many times or until a rank hangs up; the others then see the end too.
fn pass_on(spokes: &mut [UnixStream], times: usize) {
    for _ in 0..times {
        let Ok(cards) = spokes.iter_mut().map(hear).collect::<std::io::Result<Vec<_>>>() else { return };
        for spoke in &mut *spokes {
            cards.iter().try_for_each(|card| say(spoke, card)).expect("a rank reads");
        }
    }
}

fn say(to: &mut UnixStream, card: &[u8]) -> std::io::Result<()> {
    to.write_all(&(card.len() as u32).to_le_bytes())?;
    to.write_all(card)
}

fn hear(from: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let mut card = vec![0; u32::from_le_bytes(len) as usize];
    from.read_exact(&mut card)?;
    Ok(card)
}

/// A rank's end of the exchange.
struct Spoke {
    place: Place,
    hub: UnixStream,
}

impl Exchange for Spoke {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        "the test's hub".to_owned()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        let hub = &mut self.hub;
        let cards = say(hub, card).and_then(|()| (0..self.place.size).map(|_| hear(hub)).collect());
        cards.map_err(|e| Error::boot(e.to_string(), "see what the other ranks say"))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
