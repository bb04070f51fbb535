//! The transport contract over libfabric with a process for each rank, as real jobs have it.
//!
//! A test starts this very executable once a rank and is the hub through which the ranks exchange cards.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};

use circulant::boot::Exchange;
use circulant::error::{Error, Result};
use circulant::rank::Place;
use circulant::transport::conformance;
use circulant::transport::fabric::{Fabric, Request, choose};

#[test]
fn native_tcp_keeps_the_contract_between_processes() {
    in_processes("tcp", 3);
}

#[test]
fn rxm_keeps_the_contract_between_processes() {
    in_processes("rxm", 3);
}

#[test]
fn shm_keeps_the_contract_between_processes() {
    in_processes("shm", 3);
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
    let mut fabric = open(&variable("TEST_PROVIDER"), &mut spoke).unwrap_or_else(|e| panic!("{e}"));
    conformance::keep(&mut fabric, &mut spoke);
}

fn open(provider: &str, exchange: &mut dyn Exchange) -> Result<Fabric> {
    let provider = Some(provider.to_owned());
    let choice = choose(&Request { provider, one_machine: true, interface: None })?;
    let mut fabric = Fabric::open(&choice, exchange.place())?;
    fabric.connect(&exchange.allgather(&fabric.address()?)?)?;
    Ok(fabric)
}

/// Runs the laws in `size` processes.
fn in_processes(provider: &str, size: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = folder.path().join("hub");
    let listener = UnixListener::bind(&hub).expect("a socket");
    let start = |rank: u32| {
        Command::new(std::env::current_exe().expect("our own name"))
            .args(["a_rank", "--exact", "--ignored", "--nocapture"])
            .env("TEST_RANK", rank.to_string())
            .env("TEST_SIZE", size.to_string())
            .env("TEST_HUB", &hub)
            .env("TEST_PROVIDER", provider)
            .spawn()
            .expect("our own executable starts")
    };
    let ranks: Vec<Child> = (0..size).map(start).collect();
    serve(&listener, size);
    for mut rank in ranks {
        assert!(rank.wait().expect("a child").success(), "a rank failed on {provider}");
    }
}

/// Passes cards on until a rank hangs up; the others then see the end too.
fn serve(listener: &UnixListener, size: u32) {
    let mut spokes: Vec<(u32, UnixStream)> = (0..size)
        .map(|_| {
            let (mut spoke, _) = listener.accept().expect("a rank");
            let mut rank = [0; 4];
            spoke.read_exact(&mut rank).expect("a rank says its number");
            (u32::from_le_bytes(rank), spoke)
        })
        .collect();
    spokes.sort_by_key(|(rank, _)| *rank);
    while let Ok(cards) = spokes.iter_mut().map(|(_, spoke)| hear(spoke)).collect::<std::io::Result<Vec<_>>>()
    {
        for (_, spoke) in &mut spokes {
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
