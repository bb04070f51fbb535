//! Without a launcher: all ranks meet at an address where rank 0 listens.
//!
//! Rank 0 collects every card and sends all of them to everyone; an error that it finds, it sends to
//! everyone as well, so that each rank names the one that is at fault. It never guesses who a stranger
//! is: whatever does not begin with our greeting ends the meeting, because two jobs that share a port
//! by mistake must not mix. A star and not a tree: a meeting happens once, and is small.
#![forbid(unsafe_code)]

mod address;
mod door;
mod fault;
mod frame;

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

pub use address::Address;

use self::address::{listen, reach};
use self::door::Door;
use self::fault::{ERROR_BYTES, SEE_OTHERS, gone, nonsense, ranks, tell, told};
use self::frame::{HEAD_BYTES, Kind, frame, greeting, join, read_head, split, take_frame};
use super::socket::{Deadline, Socket, wait};
use super::{CARD_BYTES, Exchange, check_card};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// How much longer the others wait than rank 0, whose error knows more than theirs.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rank that has met all others.
pub struct Rendezvous {
    place: Place,
    at: String,
    limit: Duration,
    gathers: u32,
    side: Side,
}

enum Side {
    /// Rank 0, with the others' sockets: that of rank r at r - 1.
    Hub(Vec<Socket>),
    /// Another rank, with its socket to rank 0.
    Spoke(Socket),
    /// Any rank, after it has left.
    Left,
}

impl Rendezvous {
    /// Meets the others: rank 0 listens at `address`, the others come to it. Returns when all are there.
    pub fn meet(address: &Address, place: Place, limit: Duration) -> Result<Self> {
        let at = address.to_string();
        match place.rank {
            0 => Rendezvous::host(listen(address)?, at, place, limit),
            _ => Rendezvous::visit(address, at, place, limit),
        }
    }

    fn host(listener: TcpListener, at: String, place: Place, limit: Duration) -> Result<Self> {
        // A connection that poll has announced may be gone when it is accepted.
        listener
            .set_nonblocking(true)
            .map_err(|error| Error::boot(error.to_string(), "is the port free?"))?;
        let mut door = Door { listener, at, size: place.size, limit, unknown: vec![], known: vec![] };
        door.known.resize_with(place.size as usize - 1, || None);
        if let Err(error) = door.admit_all() {
            door.turn_away(&error);
            return Err(error);
        }
        let Door { at, known, .. } = door;
        let known = known.into_iter().flatten().collect();
        let mut hub = Rendezvous { place, at, limit, gathers: 0, side: Side::Hub(known) };
        hub.send_to_all(Kind::Welcome, &[])?;
        Ok(hub)
    }

    fn visit(address: &Address, at: String, place: Place, limit: Duration) -> Result<Self> {
        let mut spoke = Rendezvous::arrive(address, at, place, limit)?;
        spoke.receive_from_hub(Kind::Welcome, 0)?;
        Ok(spoke)
    }

    fn arrive(address: &Address, at: String, place: Place, limit: Duration) -> Result<Self> {
        let socket = reach(address, limit)?;
        let mut spoke = Rendezvous { place, at, limit, gathers: 0, side: Side::Spoke(socket) };
        spoke.send_to_hub(&greeting(place))?;
        Ok(spoke)
    }

    /// The call in which something happens, for errors.
    fn call(&self) -> String {
        match self.gathers {
            0 => format!("at the rendezvous {}", self.at),
            number => format!("in allgather #{number} over the rendezvous {}", self.at),
        }
    }

    /// Rank 0: every card, its own among them.
    fn collect(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut cards: Vec<Option<Vec<u8>>> = vec![None; self.place.size as usize];
        cards[0] = Some(card.to_vec());
        let deadline = Deadline::after(self.limit);
        while cards.iter().any(Option::is_none) {
            let ready = self.wait_for_any(deadline).map_err(|error| self.unheard(&error, &cards))?;
            for rank in ready {
                if let Some(card) = self.take_card(rank)? {
                    cards[rank as usize] = Some(card);
                }
            }
        }
        Ok(cards.into_iter().flatten().collect())
    }

    fn spokes(&mut self) -> &mut [Socket] {
        match &mut self.side {
            Side::Hub(spokes) => spokes,
            Side::Spoke(_) | Side::Left => &mut [],
        }
    }

    /// The ranks from which something has come, if only their end.
    fn wait_for_any(&mut self, deadline: Deadline) -> std::io::Result<Vec<Rank>> {
        let mut fds: Vec<_> = self.spokes().iter().map(|spoke| PollFd::new(spoke, PollFlags::IN)).collect();
        wait(&mut fds, deadline)?;
        Ok((1..).zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(rank, _)| rank).collect())
    }

    /// Rank 0: the card that `rank` sent, once all of it has come.
    fn take_card(&mut self, rank: Rank) -> Result<Option<Vec<u8>>> {
        let call = self.call();
        let socket = &mut self.spokes()[rank as usize - 1];
        socket.receive().map_err(|error| gone(rank, &error, &call))?;
        match take_frame(socket, CARD_BYTES) {
            Ok(Some((Kind::Card, card))) => Ok(Some(card)),
            Ok(None) => Ok(None),
            Ok(Some((kind, _))) => Err(nonsense(rank, &format!("{kind:?}"), &call)),
            Err(what) => Err(nonsense(rank, &what, &call)),
        }
    }

    fn unheard(&self, error: &std::io::Error, cards: &[Option<Vec<u8>>]) -> Error {
        let missing = ranks((0..).zip(cards).filter(|(_, card)| card.is_none()).map(|(rank, _)| rank));
        let what = match error.kind() {
            ErrorKind::TimedOut => {
                format!("{missing} sent no card within {} s {}", self.limit.as_secs(), self.call())
            }
            _ => format!("{error} {}", self.call()),
        };
        Error::boot(what, SEE_OTHERS)
    }

    fn send_to_all(&mut self, kind: Kind, payload: &[u8]) -> Result<()> {
        let (call, deadline, bytes) = (self.call(), Deadline::after(self.limit), frame(kind, payload));
        let sent = (1..).zip(self.spokes()).try_for_each(|(rank, spoke)| {
            spoke.send(&bytes, deadline).map_err(|error| gone(rank, &error, &call))
        });
        sent.inspect_err(|error| tell(self.spokes().iter_mut(), error))
    }

    fn hub(&mut self) -> Result<&mut Socket> {
        match &mut self.side {
            Side::Spoke(socket) => Ok(socket),
            Side::Hub(_) | Side::Left => {
                Err(Error::argument("boot allgather", "the rendezvous is finished", "gather before finish"))
            }
        }
    }

    fn send_to_hub(&mut self, bytes: &[u8]) -> Result<()> {
        let (call, deadline) = (self.call(), Deadline::after(self.limit));
        match self.hub()?.send(bytes, deadline) {
            // Rank 0 may have closed after an error that is still to be read, and that says more.
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(gone(0, &error, &call)),
            _ => Ok(()),
        }
    }

    /// What rank 0 sends next, which must be of this kind; or the error that it sends instead.
    fn receive_from_hub(&mut self, expected: Kind, most: usize) -> Result<Vec<u8>> {
        let (call, deadline) = (self.call(), Deadline::after(self.limit + PATIENCE));
        let socket = self.hub()?;
        let head = socket.exactly(HEAD_BYTES, deadline).map_err(|error| gone(0, &error, &call))?;
        let (kind, length) =
            read_head(&head, most.max(ERROR_BYTES)).map_err(|what| nonsense(0, &what, &call))?;
        let payload = socket.exactly(length, deadline).map_err(|error| gone(0, &error, &call))?;
        match kind {
            kind if kind == expected => Ok(payload),
            Kind::Error => Err(told(&payload)),
            kind => Err(nonsense(0, &format!("{kind:?}"), &call)),
        }
    }
}

impl Exchange for Rendezvous {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        format!("TCP rendezvous at {}", self.at)
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        self.gathers += 1;
        if let Side::Hub(_) = self.side {
            let cards = self.collect(card).inspect_err(|error| tell(self.spokes().iter_mut(), error))?;
            self.send_to_all(Kind::AllCards, &join(&cards))?;
            return Ok(cards);
        }
        self.send_to_hub(&frame(Kind::Card, card))?;
        let count = self.place.size as usize;
        let payload = self.receive_from_hub(Kind::AllCards, count * (CARD_BYTES + 4))?;
        let cards = split(&payload).filter(|cards| cards.len() == count);
        cards.ok_or_else(|| nonsense(0, "not one card a rank", &self.call()))
    }

    fn finish(&mut self) -> Result<()> {
        self.side = Side::Left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::address::connect;
    use super::*;
    use std::io::{Read, Write};
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(60);

    fn place(rank: Rank, size: u32) -> Place {
        Place { rank, size }
    }

    fn door() -> (TcpListener, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, Address { host: "127.0.0.1".into(), port })
    }

    fn host(listener: TcpListener, size: u32, limit: Duration) -> Result<Rendezvous> {
        Rendezvous::host(listener, "here:1".into(), place(0, size), limit)
    }

    /// Stands before the door, where rank 0 may not listen yet.
    fn arrive(address: &Address, rank: Rank, size: u32) -> Rendezvous {
        Rendezvous::arrive(address, "here:1".into(), place(rank, size), LIMIT).unwrap()
    }

    fn welcomed(mut visitor: Rendezvous) -> Result<Rendezvous> {
        visitor.receive_from_hub(Kind::Welcome, 0)?;
        Ok(visitor)
    }

    /// What rank 0 and then each visitor come to.
    fn errors(size: u32, limit: Duration, visitors: &[(Rank, u32)]) -> Vec<String> {
        let (listener, address) = door();
        let visitors: Vec<_> = visitors.iter().map(|&(rank, size)| arrive(&address, rank, size)).collect();
        thread::scope(|scope| {
            let visitors: Vec<_> =
                visitors.into_iter().map(|visitor| scope.spawn(|| welcomed(visitor))).collect();
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
            let visitor = scope.spawn(|| Rendezvous::meet(&address, place(1, 2), LIMIT));
            thread::sleep(Duration::from_millis(50));
            Rendezvous::meet(&address, place(0, 2), LIMIT).unwrap();
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
            assert!(error.contains("rank 1 believes in 4 ranks, rank 0 in 3"), "{error}");
        }
    }

    #[test]
    fn a_rank_that_never_comes_is_named_on_all() {
        for error in errors(4, Duration::from_secs(1), &[(2, 4)]) {
            assert!(error.contains("ranks 1, 3 did not come to the rendezvous here:1 within 1 s"), "{error}");
        }
    }

    /// What all sides say when someone sends these bytes to a rendezvous of three, where rank 1 waits.
    fn when_someone_says(bytes: &[u8]) -> Vec<String> {
        let (listener, address) = door();
        let waiting = arrive(&address, 1, 3);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| welcomed(waiting));
            let zero = scope.spawn(|| host(listener, 3, LIMIT));
            let mut someone = connect(&address, LIMIT).unwrap();
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
            assert!(error.contains("speaks version 9 of the rendezvous, rank 0 speaks version 1"), "{error}");
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
            drop(connect(&address, LIMIT).unwrap());
            let visitor = scope.spawn(|| Rendezvous::visit(&address, "here:1".into(), place(1, 2), LIMIT));
            host(listener, 2, LIMIT).unwrap();
            visitor.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_rank_that_leaves_is_named_on_all() {
        let (listener, address) = door();
        thread::scope(|scope| {
            let visit = |rank| Rendezvous::visit(&address, "here:1".into(), place(rank, 3), LIMIT).unwrap();
            let stays = scope.spawn(move || visit(1).allgather(b"card"));
            let leaves = scope.spawn(move || drop(visit(2)));
            let zero = host(listener, 3, LIMIT).unwrap().allgather(b"card");
            leaves.join().unwrap();
            for result in [zero, stays.join().unwrap()] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("rank 2 has disconnected in allgather #1"), "{error}");
            }
        });
    }

    #[test]
    fn a_lost_rank_zero_is_named() {
        let (listener, address) = door();
        thread::scope(|scope| {
            let visitor = scope
                .spawn(|| Rendezvous::visit(&address, "here:1".into(), place(1, 2), LIMIT)?.allgather(b""));
            drop(host(listener, 2, LIMIT).unwrap());
            let error = visitor.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("rank 0 has disconnected in allgather #1"), "{error}");
        });
    }

    #[test]
    fn an_address_where_nobody_listens_is_named_with_the_cure() {
        let (listener, address) = door();
        drop(listener);
        let error = reach(&address, Duration::from_secs(1)).err().unwrap().to_string();
        assert!(
            error.contains(&format!("rank 0 could not be reached at the rendezvous {address} within 1 s")),
            "{error}"
        );
    }

    #[test]
    fn a_port_in_use_is_named_with_the_cure() {
        let (_listener, address) = door();
        let error = Rendezvous::meet(&address, place(0, 2), LIMIT).err().unwrap().to_string();
        assert!(error.contains("cannot listen") && error.contains("a free port"), "{error}");
    }

    #[test]
    fn an_address_is_host_and_port() {
        assert_eq!("[::1]:5".parse(), Ok(Address { host: "::1".into(), port: 5 }));
        assert_eq!("[::1]:5".parse::<Address>().unwrap().to_string(), "[::1]:5");
        for bad in ["", "host", "host:", ":5", "host:0", "host:65536"] {
            assert_eq!(bad.parse::<Address>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn parts_that_do_not_add_up_are_refused() {
        let parts = [b"a".to_vec(), vec![], b"bc".to_vec()];
        let bytes = join(&parts);
        assert_eq!(split(&bytes).unwrap(), parts);
        assert_eq!(split(&bytes[..bytes.len() - 1]), None);
        assert_eq!(split(&[1, 0]), None);
    }
}
