//! Without a launcher: all ranks meet at one place, and learn there whom they are to call.
//!
//! The place is an address that all know, where rank 0 listens, or a [unique id](super::UniqueId). Whoever opens it collects one
//! small card of each rank and gives each those of its neighbours; what follows goes among neighbours (`boot::graph`). An error
//! that is found there is told to everyone, so that each rank names the one that is at fault. It never guesses who
//! a stranger is.
#![forbid(unsafe_code)]

mod address;
mod hub;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

pub use address::Address;

use self::address::{listen, reach, through};
use self::hub::{Hub, Introduction};
use super::frame::{Kind, split};
use super::graph::{Call, Door, Failure, Graph, NO_RANK, Words};
use super::link::{Link, pump};
use super::socket::Deadline;
use super::{Exchange, check_card};
use crate::addresses::{self, Scope};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// How much longer a rank waits than the place where all meet, whose error knows more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who opens a place that all know.
const RANK_0: &str = "rank 0";

/// The most bytes of the doors of a rank's neighbours.
const DOORS_BYTES: usize = 32 * 1024;

/// A rank that has met all others.
pub struct Rendezvous {
    place: Place,
    at: String,
    graph: Option<Graph>,
}

impl Rendezvous {
    /// Meets the others: rank 0 listens at `address`, and all come to it. Returns when all are there.
    pub fn meet(address: &Address, place: Place, limit: Duration) -> Result<Self> {
        let at = format!("the rendezvous {address}");
        match place.rank {
            0 => Rendezvous::host(listen(address)?, at, place, limit),
            _ => {
                let hub = reach(address, place.rank, &at, limit)?;
                let scope = address.scope_of(&hub);
                Rendezvous::enter(hub, scope, at, RANK_0, place, limit)
            }
        }
    }

    fn host(listener: TcpListener, at: String, place: Place, limit: Duration) -> Result<Self> {
        let here = own_address(&listener).map_err(|error| unopened(&at, &error))?;
        let mut call = Call::new(place.rank, NO_RANK, Words::default(), vec![here]);
        // Begun before the place opens, so that it stands before its door whatever is found wrong there first.
        call.tend().map_err(|failure| unreached(&at, failure))?;
        serve(listener, Words::default(), at.clone())?;
        let hub = through(call, Deadline::after(limit)).map_err(|failure| unreached(&at, failure))?;
        Rendezvous::visit(hub, at, RANK_0, place, limit)
    }

    /// Meets the others by a connection to the place, which that one has opened.
    pub(super) fn visit(hub: Link, at: String, opener: &str, place: Place, limit: Duration) -> Result<Self> {
        let scope = hub.socket.scope();
        Rendezvous::enter(hub, scope, at, opener, place, limit)
    }

    /// The same where others may come from within this scope.
    fn enter(
        mut hub: Link,
        scope: Scope,
        at: String,
        opener: &str,
        place: Place,
        limit: Duration,
    ) -> Result<Self> {
        let door = Door::open(scope)?;
        hub.send(&Introduction { size: place.size, limit, card: door.card() }.frame());
        let doors = doors(&mut hub, (&at, opener), Deadline::after(limit.saturating_add(PATIENCE)))?;
        let graph = Graph::connect(door, place, &doors, at.clone(), limit)?;
        Ok(Rendezvous { place, at, graph: Some(graph) })
    }
}

/// Opens a place to meet, for one meeting.
pub(super) fn serve(listener: TcpListener, words: Words, at: String) -> Result<()> {
    Hub::open(listener, words, at.clone()).map_err(|error| unopened(&at, &error))
}

/// An address at which this process reaches a listener of its own.
fn own_address(listener: &TcpListener) -> std::io::Result<SocketAddr> {
    let mut here = listener.local_addr()?;
    if here.ip().is_unspecified() {
        // Not loopback: from where a rank comes follows whether others may be elsewhere.
        here.set_ip(
            addresses::of_this_host().first().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip),
        );
    }
    Ok(here)
}

/// A connection to a place that is open already.
pub(super) fn call(
    rank: Rank,
    words: Words,
    theirs: Vec<SocketAddr>,
    at: &str,
    limit: Duration,
) -> Result<Link> {
    let call = Call::new(rank, NO_RANK, words, theirs);
    through(call, Deadline::after(limit)).map_err(|failure| unreached(at, failure))
}

fn unopened(at: &str, error: &std::io::Error) -> Error {
    Error::boot(format!("{at}: {error}"), "raise `ulimit -n` and `ulimit -u`, or take another port")
}

fn unreached(at: &str, failure: Failure) -> Error {
    match failure {
        Failure::Told(error) => error,
        Failure::Unreachable(why) => Error::boot(
            format!("{at} cannot be reached ({why})"),
            "let its process live until all have joined, and make a new id for each job: an id serves one meeting",
        ),
    }
}

/// The doors that a rank is told at the place where all meet.
fn doors(hub: &mut Link, at: (&str, &str), deadline: Deadline) -> Result<Vec<Vec<u8>>> {
    loop {
        if let Some(error) = hub.bad_news() {
            return Err(error);
        }
        match hub.take(DOORS_BYTES) {
            Ok(Some((Kind::Cards, payload))) => {
                return split(&payload).ok_or_else(|| astray(at, "sent no doors"));
            }
            Ok(None) => {}
            Ok(Some((kind, _))) => return Err(astray(at, &format!("sent {kind:?}"))),
            Err(what) => return Err(astray(at, &format!("sent {what}"))),
        }
        if hub.end().is_some() {
            return Err(astray(at, "was closed before all had met"));
        }
        pump(&mut [&mut *hub], deadline)
            .map_err(|error| astray(at, &format!("does not answer ({error})")))?;
    }
}

fn astray((at, opener): (&str, &str), what: &str) -> Error {
    let cure = format!("see what {opener} says that opened it; start all ranks from the same build");
    Error::boot(format!("{at} {what}"), cure)
}

impl Exchange for Rendezvous {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        format!("TCP, by {}", self.at)
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        match &mut self.graph {
            Some(graph) => graph.gather(card),
            None => {
                Err(Error::argument("boot allgather", "the rendezvous is finished", "gather before finish"))
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.graph = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::CARD_BYTES;
    use crate::boot::fault::told;
    use crate::boot::frame::HEAD_BYTES;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(60);
    const AT: &str = "the rendezvous here:1";

    fn place(rank: Rank, size: u32) -> Place {
        Place { rank, size }
    }

    fn door() -> (TcpListener, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, Address { host: "127.0.0.1".into(), port })
    }

    fn host(listener: TcpListener, size: u32, limit: Duration) -> Result<Rendezvous> {
        Rendezvous::host(listener, AT.into(), place(0, size), limit)
    }

    fn visit(address: &Address, rank: Rank, size: u32) -> Result<Rendezvous> {
        Rendezvous::visit(reach(address, rank, AT, LIMIT)?, AT.into(), RANK_0, place(rank, size), LIMIT)
    }

    /// Stands before the door, where rank 0 may not listen yet.
    fn arrive(address: &Address, rank: Rank) -> Call {
        let mut call = Call::new(rank, NO_RANK, Words::default(), vec![connectable(address)]);
        assert!(call.tend().is_ok());
        call
    }

    fn enter(call: Call, place: Place) -> Result<Rendezvous> {
        let hub = through(call, Deadline::after(LIMIT)).map_err(|failure| unreached(AT, failure))?;
        Rendezvous::visit(hub, AT.into(), RANK_0, place, LIMIT)
    }

    fn connectable(address: &Address) -> SocketAddr {
        address.to_string().parse().unwrap()
    }

    /// What rank 0 and then each visitor come to.
    fn errors(size: u32, limit: Duration, visitors: &[(Rank, u32)]) -> Vec<String> {
        let (listener, address) = door();
        let calls: Vec<_> =
            visitors.iter().map(|&(rank, size)| (arrive(&address, rank), place(rank, size))).collect();
        thread::scope(|scope| {
            let visitors: Vec<_> =
                calls.into_iter().map(|(call, place)| scope.spawn(move || enter(call, place))).collect();
            let mut results = vec![host(listener, size, limit)];
            results.extend(visitors.into_iter().map(|visitor| visitor.join().unwrap()));
            results.into_iter().map(|result| result.err().unwrap().to_string()).collect()
        })
    }

    #[test]
    fn every_rank_gets_every_card_more_than_once() {
        for size in [1, 2, 3, 17] {
            let (listener, address) = door();
            let card = |rank: Rank, len: usize| vec![rank as u8; len];
            let gathers = |mut met: Rendezvous| {
                for len in [0, 1, 1000, CARD_BYTES] {
                    let all = met.allgather(&card(met.place().rank, len)).unwrap();
                    assert_eq!(all, (0..size).map(|rank| card(rank, len)).collect::<Vec<_>>());
                }
                met.finish().unwrap();
            };
            thread::scope(|scope| {
                for rank in 1..size {
                    let address = &address;
                    scope
                        .spawn(move || gathers(Rendezvous::meet(address, place(rank, size), LIMIT).unwrap()));
                }
                gathers(host(listener, size, LIMIT).unwrap());
            });
        }
    }

    #[test]
    fn rank_zero_may_start_later() {
        let (listener, address) = door();
        drop(listener);
        thread::scope(|scope| {
            let gathers = |rank| Rendezvous::meet(&address, place(rank, 2), LIMIT)?.allgather(b"card");
            let visitor = scope.spawn(move || gathers(1));
            thread::sleep(Duration::from_millis(50));
            gathers(0).unwrap();
            visitor.join().unwrap().unwrap();
        });
    }

    #[test]
    fn two_processes_with_one_rank_are_named_on_all() {
        for error in errors(3, LIMIT, &[(1, 3), (1, 3)]) {
            assert!(
                error.contains("two processes call themselves rank 1; give each process its own"),
                "{error}"
            );
        }
        for error in errors(2, LIMIT, &[(2, 2)]) {
            assert!(error.contains("a process calls itself rank 2 of 2"), "{error}");
        }
    }

    #[test]
    fn a_different_size_is_named_on_all() {
        for error in errors(3, LIMIT, &[(1, 4)]) {
            let either =
                ["rank 1 believes in 4 ranks, rank 0 in 3", "rank 0 believes in 3 ranks, rank 1 in 4"];
            assert!(either.iter().any(|words| error.contains(words)), "{error}");
        }
    }

    #[test]
    fn a_rank_that_never_comes_is_named_on_all() {
        for error in errors(4, Duration::from_secs(1), &[(2, 4)]) {
            assert!(error.contains("ranks 1, 3 did not come to the rendezvous here:1 within "), "{error}");
        }
    }

    /// What all sides say when someone sends these bytes to a rendezvous of three, where rank 1 waits.
    fn when_someone_says(bytes: &[u8]) -> Vec<String> {
        let (listener, address) = door();
        let waiting = arrive(&address, 1);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| enter(waiting, place(1, 3)));
            let zero = scope.spawn(|| host(listener, 3, LIMIT));
            let mut someone = TcpStream::connect(connectable(&address)).unwrap();
            someone.write_all(bytes).unwrap();
            let mut answer = Vec::new();
            someone.read_to_end(&mut answer).unwrap();
            let texts = [zero, waiting].map(|side| side.join().unwrap().err().unwrap().to_string());
            [&texts[..], &[told(&answer[HEAD_BYTES..]).to_string()]].concat()
        })
    }

    #[test]
    fn another_version_is_named_on_all() {
        for error in when_someone_says(b"circboot\x09\x00") {
            let words =
                "a rank speaks version 9 of the rendezvous, this one speaks version 2; start all ranks";
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_stranger_is_quoted_on_all() {
        for error in when_someone_says(b"GET / HTTP/1.1\r\n") {
            assert!(
                error.contains(r"a stranger came to the rendezvous here:1 and said 'GET / HTTP/1.1\r\n'"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_probe_that_says_nothing_is_no_stranger() {
        let (listener, address) = door();
        thread::scope(|scope| {
            drop(TcpStream::connect(connectable(&address)).unwrap());
            let visitor = scope.spawn(|| visit(&address, 1, 2)?.allgather(b"card"));
            host(listener, 2, LIMIT).unwrap().allgather(b"card").unwrap();
            visitor.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_rank_that_leaves_is_named_on_all() {
        let (listener, address) = door();
        thread::scope(|scope| {
            let stays = scope.spawn(|| visit(&address, 1, 3)?.allgather(b"card"));
            let leaves = scope.spawn(|| drop(visit(&address, 2, 3)));
            let zero = host(listener, 3, LIMIT).and_then(|mut met| met.allgather(b"card"));
            leaves.join().unwrap();
            for result in [zero, stays.join().unwrap()] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("rank 2 has disconnected"), "{error}");
            }
        });
    }

    #[test]
    fn a_lost_rank_zero_is_named() {
        let (listener, address) = door();
        thread::scope(|scope| {
            let visitor = scope.spawn(|| visit(&address, 1, 2)?.allgather(b""));
            drop(host(listener, 2, LIMIT));
            let error = visitor.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("rank 0 has disconnected"), "{error}");
        });
    }

    #[test]
    fn an_address_where_nobody_listens_is_named_with_the_cure() {
        let (listener, address) = door();
        drop(listener);
        let error = reach(&address, 1, AT, Duration::from_secs(1)).err().unwrap().to_string();
        assert!(error.contains(&format!("rank 1 could not reach {AT} within 1 s")), "{error}");
        assert!(error.contains("refused") && error.contains("start rank 0"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_named_with_the_cure() {
        let (_listener, address) = door();
        let error = Rendezvous::meet(&address, place(0, 2), LIMIT).err().unwrap().to_string();
        assert!(error.contains("cannot listen") && error.contains("a free port"), "{error}");
    }

    #[test]
    fn of_a_name_all_addresses_are_opened_and_of_an_address_that_one() {
        let opened = |host| address::bind(host, 0).unwrap().local_addr().unwrap().ip();
        assert!(opened("node0.of-no-network").is_unspecified());
        assert!(opened("127.0.0.1").is_loopback() && opened("localhost").is_loopback());
    }

    #[test]
    fn an_address_is_host_and_port() {
        assert_eq!("[::1]:5".parse(), Ok(Address { host: "::1".into(), port: 5 }));
        assert_eq!("[::1]:5".parse::<Address>().unwrap().to_string(), "[::1]:5");
        for bad in ["", "host", "host:", ":5", "host:0", "host:65536"] {
            assert_eq!(bad.parse::<Address>(), Err(()), "{bad}");
        }
    }
}
