//! Without a launcher: all ranks meet at an address where rank 0 listens.
//!
//! Rank 0 collects every card and sends all of them to everyone; an error that it finds, it sends to
//! everyone as well, so that each rank names the one that is at fault. It never guesses who a stranger
//! is: whatever does not begin with our greeting ends the meeting, because two jobs that share a port
//! by mistake must not mix. A star and not a tree: a meeting happens once, and is small.
//!
//! Frames, little-endian: a greeting is magic (8), version (2), rank (4), size (4). Everything after it
//! is kind (1), length (4), payload; a payload of several parts is each part's length (4) and bytes.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::pmi1::line::quoted;
use super::socket::{Deadline, Socket, wait};
use super::{CARD_BYTES, Exchange, check_card};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

const MAGIC: &[u8; 8] = b"circboot";
const VERSION: u16 = 1;
const GREETING_BYTES: usize = 18;
const HEAD_BYTES: usize = 5;

/// The longest error that is sent to the others.
const ERROR_BYTES: usize = 4096;

/// How much longer the others wait than rank 0, whose error knows more than theirs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long rank 0 sees to it that its error reaches the others, before it returns it.
const FAREWELL: Duration = Duration::from_secs(1);

/// The pauses between two attempts to reach rank 0, which may start later: doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

const SEE_OTHERS: &str = "see what that rank says; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds";

/// A host and a port, as the user wrote them; the name is looked up when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or a numeric address, without brackets.
    pub host: String,
    /// The TCP port, not 0.
    pub port: u16,
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

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

/// Rank 0 while the others come.
struct Door {
    listener: TcpListener,
    at: String,
    size: u32,
    limit: Duration,
    /// Connected, and their greeting not complete.
    unknown: Vec<Socket>,
    /// Rank r at r - 1.
    known: Vec<Option<Socket>>,
}

impl Door {
    fn admit_all(&mut self) -> Result<()> {
        let deadline = Deadline::after(self.limit);
        while self.known.iter().any(Option::is_none) {
            self.wait(deadline).map_err(|error| self.nobody(&error))?;
            while self.accept()? {}
            self.notice_leavers()?;
            self.greet()?;
        }
        Ok(())
    }

    fn wait(&self, deadline: Deadline) -> std::io::Result<()> {
        let sockets = self.unknown.iter().chain(self.known.iter().flatten());
        let mut fds: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        wait(&mut fds, deadline)
    }

    /// Takes in one that has connected, if there is one.
    fn accept(&mut self) -> Result<bool> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                prepare(&stream);
                self.unknown.push(Socket::new(stream));
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(true),
            Err(error) => Err(self.nobody(&error)),
        }
    }

    /// Tells the error to all who have come, also to those who still stand before the door.
    fn turn_away(mut self, error: &Error) {
        while let Ok(true) = self.accept() {}
        tell(self.known.iter_mut().flatten().chain(&mut self.unknown), error);
    }

    /// A rank that was here already and is gone is known by name; there is no need to wait for the others.
    fn notice_leavers(&mut self) -> Result<()> {
        for (rank, socket) in (1..).zip(&mut self.known) {
            let Some(socket) = socket else { continue };
            socket
                .receive()
                .map_err(|error| gone(rank, &error, &format!("at the rendezvous {}", self.at)))?;
        }
        Ok(())
    }

    /// Lets in those whose greeting is complete. A connection that closes without a word was only a probe.
    fn greet(&mut self) -> Result<()> {
        let mut index = 0;
        while let Some(socket) = self.unknown.get_mut(index) {
            let open = socket.receive().is_ok();
            if !open && socket.received().is_empty() {
                self.unknown.swap_remove(index);
                continue;
            }
            match self.read_greeting(&self.unknown[index], open)? {
                None => index += 1,
                Some(rank) => {
                    let mut socket = self.unknown.swap_remove(index);
                    socket.take(GREETING_BYTES);
                    self.known[rank as usize - 1] = Some(socket);
                }
            }
        }
        Ok(())
    }

    /// The rank that greets, or nothing while its greeting is not complete.
    fn read_greeting(&self, socket: &Socket, open: bool) -> Result<Option<Rank>> {
        let bytes = socket.received();
        let ours = bytes.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours);
        if !ours || (!open && bytes.len() < GREETING_BYTES) {
            let what = format!("a stranger came to the rendezvous {} and said {}", self.at, quoted(bytes));
            return Err(Error::boot(what, "choose a port that nothing else uses"));
        }
        // The version is looked at first, as another version's greeting may be shorter.
        let Some(version) = bytes.get(8..10) else { return Ok(None) };
        let version = u16::from_le_bytes([version[0], version[1]]);
        if version != VERSION {
            let what =
                format!("a rank speaks version {version} of the rendezvous, rank 0 speaks version {VERSION}");
            return Err(Error::boot(what, "start all ranks from the same build"));
        }
        if bytes.len() < GREETING_BYTES {
            return Ok(None);
        }
        self.check_place(number(&bytes[10..]), number(&bytes[14..])).map(Some)
    }

    fn check_place(&self, rank: Rank, size: u32) -> Result<Rank> {
        let cure = "give each process its own rank below the one size that all have";
        if size != self.size {
            let what = format!("rank {rank} believes in {size} ranks, rank 0 in {}", self.size);
            return Err(Error::boot(what, cure));
        }
        if rank >= size {
            return Err(Error::boot(format!("a process calls itself rank {rank} of {size}"), cure));
        }
        if rank == 0 || self.known[rank as usize - 1].is_some() {
            return Err(Error::boot(format!("two processes call themselves rank {rank}"), cure));
        }
        Ok(rank)
    }

    fn nobody(&self, error: &std::io::Error) -> Error {
        let missing =
            ranks((1..).zip(&self.known).filter(|(_, socket)| socket.is_none()).map(|(rank, _)| rank));
        let silent = match self.unknown.len() {
            0 => String::new(),
            count => format!(" ({count} connected and said nothing)"),
        };
        let what = match error.kind() {
            ErrorKind::TimedOut => {
                format!(
                    "{missing} did not come to the rendezvous {} within {} s{silent}",
                    self.at,
                    self.limit.as_secs()
                )
            }
            _ => format!("{error} at the rendezvous {}", self.at),
        };
        Error::boot(what, "start all ranks; CIRCULANT_BOOT_TIMEOUT gives slow ones more seconds")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Welcome = 1,
    Card = 2,
    AllCards = 3,
    Error = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Welcome, Kind::Card, Kind::AllCards, Kind::Error].into_iter().find(|&kind| kind as u8 == byte)
    }
}

fn greeting(place: Place) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &place.rank.to_le_bytes(), &place.size.to_le_bytes()].concat()
}

fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&[kind as u8], &length(payload)[..], payload].concat()
}

/// Kind and length; the error is a phrase.
fn read_head(head: &[u8], most: usize) -> std::result::Result<(Kind, usize), String> {
    let length = number(&head[1..]) as usize;
    match Kind::of(head[0]) {
        Some(kind) if length <= most => Ok((kind, length)),
        _ => Err(quoted(head)),
    }
}

/// A frame of which everything has come.
fn take_frame(socket: &mut Socket, most: usize) -> std::result::Result<Option<(Kind, Vec<u8>)>, String> {
    let Some(head) = socket.received().get(..HEAD_BYTES) else { return Ok(None) };
    let (kind, length) = read_head(head, most)?;
    if socket.received().len() < HEAD_BYTES + length {
        return Ok(None);
    }
    socket.take(HEAD_BYTES);
    Ok(Some((kind, socket.take(length))))
}

fn join(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&length(part.as_ref()), part.as_ref()].concat()).collect()
}

fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(4)?;
        let (part, rest) = rest.split_at_checked(number(head) as usize)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Some(parts)
}

/// The length of a part, all of which are far below 4 GiB.
fn length(part: &[u8]) -> [u8; 4] {
    (part.len() as u32).to_le_bytes()
}

/// The number that the first four bytes are.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

/// Sends an error to everyone, as far as they can still be reached: it is about to be returned anyway.
fn tell<'s>(sockets: impl IntoIterator<Item = &'s mut Socket>, error: &Error) {
    let parts = match error {
        Error::Boot { what, cure } => [what.clone(), cure.clone()],
        other => [other.to_string(), SEE_OTHERS.into()],
    };
    let bytes = frame(Kind::Error, &join(&parts));
    let deadline = Deadline::after(FAREWELL);
    let told: Vec<_> = sockets.into_iter().filter(|socket| socket.send(&bytes, deadline).is_ok()).collect();
    for socket in told {
        socket.close_gently(deadline);
    }
}

/// The error that rank 0 found.
fn told(payload: &[u8]) -> Error {
    let parts = split(payload).unwrap_or_default();
    let text = |index: usize| {
        parts.get(index).map(|part| String::from_utf8_lossy(part).into_owned()).unwrap_or_default()
    };
    Error::boot(text(0), text(1))
}

fn gone(rank: Rank, error: &std::io::Error, call: &str) -> Error {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "has disconnected".into()
        }
        ErrorKind::TimedOut => "did not answer in time".into(),
        _ => format!("cannot be reached ({error})"),
    };
    Error::boot(format!("rank {rank} {what} {call}"), SEE_OTHERS)
}

fn nonsense(rank: Rank, what: &str, call: &str) -> Error {
    Error::boot(format!("rank {rank} sent {what} {call}"), "start all ranks from the same build")
}

/// A list of ranks in words.
fn ranks(list: impl Iterator<Item = Rank>) -> String {
    const MOST: usize = 10;
    let all: Vec<String> = list.map(|rank| rank.to_string()).collect();
    let more = if all.len() > MOST { format!(" and {} more", all.len() - MOST) } else { String::new() };
    let noun = if all.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}{more}", all[..all.len().min(MOST)].join(", "))
}

fn listen(address: &Address) -> Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port)).map_err(|error| {
        Error::boot(
            format!("rank 0 cannot listen at the rendezvous {address}: {error}"),
            "give an address of rank 0's host and a free port",
        )
    })
}

/// A connection to rank 0, which may start later than this rank.
fn reach(address: &Address, limit: Duration) -> Result<Socket> {
    let deadline = Deadline::after(limit);
    let mut pause = PAUSES.0;
    let mut last = String::from("no attempt was made");
    while let Some(left) = deadline.remaining() {
        match connect(address, left) {
            Ok(stream) => {
                prepare(&stream);
                return Ok(Socket::new(stream));
            }
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES.1);
    }
    Err(Error::boot(
        format!(
            "rank 0 could not be reached at the rendezvous {address} within {} s ({last})",
            limit.as_secs()
        ),
        "start rank 0 on that host; CIRCULANT_BOOT_TIMEOUT gives it more seconds",
    ))
}

fn connect(address: &Address, limit: Duration) -> std::io::Result<TcpStream> {
    let mut last = ErrorKind::NotFound.into();
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Frames are small and awaited. If the option cannot be set they are only later.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}

#[cfg(test)]
mod tests {
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
