//! The side of a rank: cards left and read over a launcher's PMI-1 socket.
//!
//! It never has two requests under way and never writes one in two pieces or longer than
//! [`REQUEST_BYTES`]: Slurm reads each request with a single read and hangs on anything else.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use super::cards;
use super::line::{ANSWER_BYTES, Line, REQUEST_BYTES, quoted};
use crate::boot::board::Board;
use crate::boot::rendezvous::Address;
use crate::boot::socket::{Deadline, Socket};
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// The shortest value with which cards still travel in a sensible number of chunks.
const LEAST_ROOM: usize = 64;

/// The answer that comes when every rank has asked for it.
const BARRIER_OUT: &str = "barrier_out";

/// A rank's connection with its launcher.
pub struct Pmi1 {
    wire: Wire,
    place: Place,
    /// The launcher's name for the job's key-value space.
    space: String,
    /// The most characters of a value.
    room: usize,
    /// How many times cards were left: keys may not be used twice.
    posts: u32,
}

impl Pmi1 {
    /// Joins over the socket `PMI_FD` that the launcher left open for this process.
    pub fn from_inherited(fd: i32, place: Place, limit: Duration) -> Result<Self> {
        let name = format!("PMI_FD={fd}");
        Pmi1::join(Wire { socket: Socket::new(adopt(fd)?), name, limit }, place)
    }

    /// Joins at the address `PMI_PORT`, where the launcher says which rank the process `id` is.
    pub fn from_port(address: &Address, id: u32, limit: Duration) -> Result<Self> {
        let name = format!("PMI_PORT={address}");
        let mut wire = Wire { socket: Socket::new(connect(address, limit)?), name, limit };
        let place = wire.introduce(id)?;
        Pmi1::join(wire, place)
    }

    fn join(mut wire: Wire, place: Place) -> Result<Self> {
        wire.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let maxima = wire.ask("cmd=get_maxes", "maxes")?;
        let value_bytes = maxima.number("vallen_max").map_err(|what| wire.wrong(&what))?;
        let key_bytes = maxima.number("keylen_max").map_err(|what| wire.wrong(&what))?;
        let named = wire.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space =
            named.get("kvsname").ok_or_else(|| wire.wrong("no 'kvsname' in 'my_kvsname'"))?.to_owned();
        let room =
            room(&space, value_bytes, key_bytes).ok_or_else(|| wire.wrong("maxima too small for a card"))?;
        Ok(Pmi1 { wire, place, space, room, posts: 0 })
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        self.wire.ask(&request, "put_result").map(drop)
    }

    fn get(&mut self, key: &str) -> Result<String> {
        let answer = self.wire.ask(&format!("cmd=get kvsname={} key={key}", self.space), "get_result")?;
        match answer.get("value") {
            Some(value) => Ok(value.to_owned()),
            None => Err(self.wire.wrong(&format!("no 'value' for key {key}"))),
        }
    }

    fn publish(&mut self, card: &[u8]) -> Result<()> {
        for (chunk, value) in cards::write(card, self.room).iter().enumerate() {
            self.put(&key(self.posts, self.place.rank, chunk), value)?;
        }
        Ok(())
    }

    fn fetch(&mut self, rank: Rank) -> Result<Vec<u8>> {
        let mut whole = self.get(&key(self.posts, rank, 0))?;
        let count = cards::count(&whole).ok_or_else(|| self.no_card(rank, &whole))?;
        for chunk in 1..count {
            whole += &self.get(&key(self.posts, rank, chunk))?;
        }
        cards::read(&whole).ok_or_else(|| self.no_card(rank, &whole))
    }

    fn no_card(&self, rank: Rank, value: &str) -> Error {
        self.wire.wrong(&format!("{} as the card of rank {rank}", quoted(value.as_bytes())))
    }
}

impl Board for Pmi1 {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        format!("PMI-1 ({})", self.wire.name)
    }

    fn post(&mut self, card: &[u8], whom: &[Rank]) -> Result<Vec<Vec<u8>>> {
        self.posts += 1;
        self.publish(card)?;
        self.wire.ask("cmd=barrier_in", BARRIER_OUT)?;
        whom.iter().map(|&rank| self.fetch(rank)).collect()
    }

    fn finish(&mut self) -> Result<()> {
        self.wire.ask("cmd=finalize", "finalize_ack").map(drop)
    }
}

/// The key of one chunk of a rank's card; at most 32 characters.
fn key(post: u32, rank: Rank, chunk: usize) -> String {
    format!("circ-{post}-{rank}-{chunk}")
}

/// How long values may be, if the launcher's announced maxima leave enough.
fn room(space: &str, value_bytes: usize, key_bytes: usize) -> Option<usize> {
    const KEY_BYTES: usize = 32;
    let around = "cmd=put kvsname= key= value=\n".len() + space.len() + KEY_BYTES;
    // Both maxima count C's closing zero.
    let room = value_bytes.checked_sub(1)?.min(REQUEST_BYTES.checked_sub(around)?);
    (key_bytes > KEY_BYTES && room >= LEAST_ROOM).then_some(room)
}

/// The socket to the launcher, on which answers follow requests.
struct Wire {
    socket: Socket,
    /// Where it came from, for errors: `PMI_FD=7`.
    name: String,
    limit: Duration,
}

impl Wire {
    fn ask(&mut self, request: &str, expected: &str) -> Result<Line> {
        self.send(request, expected)?;
        let answer = self.answer(expected)?;
        match answer.get("rc") {
            None | Some("0") => Ok(answer),
            Some(code) => {
                let why = answer.get("msg").or(answer.get("errmsg")).unwrap_or("no reason given");
                if why.contains("duplicate") {
                    let what =
                        format!("the launcher on {} has a card of this rank already ({why})", self.name);
                    return Err(Error::boot(what, "start each program by a launcher of its own"));
                }
                Err(self.wrong(&format!("{expected} rc={code} ({why}) to {}", quoted(request.as_bytes()))))
            }
        }
    }

    fn send(&mut self, request: &str, expected: &str) -> Result<()> {
        let line = format!("{request}\n");
        self.socket
            .send(line.as_bytes(), Deadline::after(self.limit))
            .map_err(|error| self.broken(&error, expected))
    }

    fn answer(&mut self, expected: &str) -> Result<Line> {
        let bytes = match self.socket.line(ANSWER_BYTES, Deadline::after(self.limit)) {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.broken(&error, expected)),
        };
        match Line::parse(&bytes) {
            Ok(line) if line.command() == expected => Ok(line),
            _ => Err(self.wrong(&format!("{} where '{expected}' was expected", quoted(&bytes)))),
        }
    }

    /// The handshake of `PMI_PORT`: four lines that give what `PMI_RANK` and `PMI_SIZE` would.
    fn introduce(&mut self, id: u32) -> Result<Place> {
        self.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        let size = self.setting("size")?;
        let rank = self.setting("rank")?;
        self.setting("debug")?;
        if rank < size {
            Ok(Place { rank, size })
        } else {
            Err(self.wrong(&format!("rank {rank} of {size}")))
        }
    }

    fn setting(&mut self, key: &str) -> Result<u32> {
        self.answer("set")?.number(key).map_err(|what| self.wrong(&what))
    }

    fn wrong(&self, what: &str) -> Error {
        Error::boot(
            format!("the launcher on {} answered {what}", self.name),
            "is it PMI-1? CIRCULANT_BOOT chooses another way of boot",
        )
    }

    fn broken(&self, error: &std::io::Error, expected: &str) -> Error {
        let name = &self.name;
        match error.kind() {
            ErrorKind::TimedOut => Error::boot(
                format!(
                    "the launcher on {name} did not answer with '{expected}' within {} s{}",
                    self.limit.as_secs(),
                    // Only this answer depends on the other ranks.
                    if expected == BARRIER_OUT {
                        ": some rank has not started or died before boot"
                    } else {
                        ""
                    }
                ),
                "see what the launcher and the other ranks say; CIRCULANT_BOOT_TIMEOUT gives them more seconds",
            ),
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::boot(
                format!("the launcher closed {name} where '{expected}' was expected"),
                "see what the launcher says: it has ended the job or died",
            ),
            _ => Error::boot(
                format!("{name}: {error} where '{expected}' was expected"),
                "see what the launcher says; CIRCULANT_BOOT chooses another way of boot",
            ),
        }
    }
}

/// A socket of our own to the launcher at the other end of the inherited one.
fn adopt(fd: i32) -> Result<OwnedFd> {
    let cure = match std::env::var_os("PMIX_NAMESPACE").is_some() {
        true => {
            "it is of a launcher around the one that speaks PMIx: unset PMI_FD, or set CIRCULANT_BOOT=pmix"
        }
        false => {
            "start with a launcher that passes its socket on; CIRCULANT_BOOT=single runs this process alone"
        }
    };
    let refused = |what: &str| Error::boot(format!("PMI_FD is '{fd}', but that {what}"), cure);
    // Looked at through /proc, because a number that may be closed must not become a descriptor.
    let seen = std::fs::metadata(format!("/proc/self/fd/{fd}"))
        .map_err(|_| refused("is not open in this process"))?;
    if !seen.file_type().is_socket() {
        return Err(refused("is not a socket"));
    }
    // SAFETY: - it is open: the line above has seen it, and whoever set PMI_FD left it to the boot of this
    //           process alone, so nobody closes it before the copy is made
    //         - it is not -1: -1 is never open
    let inherited = unsafe { BorrowedFd::borrow_raw(fd) };
    inherited.try_clone_to_owned().map_err(|error| refused(&format!("cannot be copied: {error}")))
}

fn connect(address: &Address, limit: Duration) -> Result<TcpStream> {
    let refused =
        |what: String| Error::boot(format!("PMI_PORT={address}: {what}"), "is the launcher still there?");
    let found = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|error| refused(error.to_string()))?;
    let mut last = refused("the name has no address".into());
    for address in found {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = refused(error.to_string()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Exchange;
    use crate::boot::board::Posted;
    use crate::boot::pmi1::server::{Answer, Server};
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(60);

    fn client(stream: UnixStream, place: Place, limit: Duration) -> Result<Posted<Pmi1>> {
        let joined = Pmi1::join(Wire { socket: Socket::new(stream), name: "PMI_FD=7".into(), limit }, place);
        joined.map(|board| Posted::new(board, limit))
    }

    /// Serves real clients until all have closed, as the launcher's loop does. Gives the most reads of a rank, too.
    fn serve(size: u32, streams: Vec<UnixStream>) -> (Server, usize) {
        let most_reads = AtomicUsize::new(0);
        let server = std::sync::Mutex::new(Server::new(size, None));
        let streams = &streams;
        thread::scope(|scope| {
            for rank in 0..size {
                let (server, most_reads) = (&server, &most_reads);
                scope.spawn(move || {
                    let (mut buffer, mut reads) = ([0; 4096], 0);
                    while let Ok(count @ 1..) = (&streams[rank as usize]).read(&mut buffer) {
                        // Each request comes by itself.
                        reads += usize::from(buffer.starts_with(b"cmd=get kvsname="));
                        // Answers are written under the lock, so that one rank's come in order.
                        let mut server = server.lock().unwrap();
                        for answer in server.receive(rank, &buffer[..count]) {
                            let Answer::Reply { rank, line } = answer else { panic!("{answer:?}") };
                            (&streams[rank as usize]).write_all(line.as_bytes()).unwrap();
                        }
                    }
                    most_reads.fetch_max(reads, Ordering::Relaxed);
                });
            }
        });
        (server.into_inner().unwrap(), most_reads.into_inner())
    }

    fn card(rank: u32, gather: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + gather * 31 + rank as usize * 13) as u8).collect()
    }

    /// Gives the most reads of a rank.
    fn gathers_everything(size: u32, lengths: &[usize]) -> usize {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..size).map(|_| UnixStream::pair().unwrap()).unzip();
        let cards = |(gather, &len)| (0..size).map(|rank| card(rank, gather, len)).collect::<Vec<_>>();
        let gathers: &Vec<_> = &lengths.iter().enumerate().map(cards).collect();
        thread::scope(|scope| {
            let served = scope.spawn(move || serve(size, ours));
            for (rank, stream) in (0..).zip(theirs) {
                scope.spawn(move || {
                    let mut boot = client(stream, Place { rank, size }, LIMIT).unwrap();
                    for (gather, cards) in gathers.iter().enumerate() {
                        let all = boot.allgather(&cards[rank as usize]).unwrap();
                        assert!(all == *cards, "gather {gather} of {} bytes on rank {rank}", lengths[gather]);
                    }
                    boot.finish().unwrap();
                });
            }
            let (server, most_reads) = served.join().unwrap();
            assert!((0..size).all(|rank| server.owes_nothing(rank)));
            most_reads
        })
    }

    #[test]
    fn every_rank_gets_every_card_whatever_its_length() {
        for size in [1, 2, 3, 33, 65] {
            gathers_everything(size, &[0, 1, 1000, 4096]);
        }
    }

    #[test]
    fn in_a_large_job_no_rank_reads_more_than_log_p_cards() {
        for (size, most) in [(64, 6), (100, 7), (200, 8)] {
            assert_eq!(gathers_everything(size, &[600, 600, 600]), most);
        }
    }

    #[test]
    fn no_request_is_longer_than_slurm_reads() {
        let space = "kvs_12345_0_1234567890_a.rather.long.host.name.example";
        let room = room(space, 1024, 64).unwrap();
        let longest = format!(
            "cmd=put kvsname={space} key={} value={}\n",
            key(u32::MAX, 99999, 9999),
            "x".repeat(room)
        );
        assert!(longest.len() <= REQUEST_BYTES, "{}", longest.len());
        assert!(super::room(space, 4096, 64).unwrap() < REQUEST_BYTES);
    }

    #[test]
    fn maxima_that_leave_no_room_are_refused() {
        assert_eq!(room("kvs", 0, 64), None);
        assert_eq!(room("kvs", 1024, 16), None);
        assert_eq!(room(&"k".repeat(2000), 1024, 64), None);
    }

    /// The client's error when the launcher answers its requests with these lines and then closes.
    fn error_after(answers: &'static [&'static str]) -> String {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let launcher = thread::spawn(move || {
            for answer in answers {
                let mut request = [0; REQUEST_BYTES];
                assert_ne!(ours.read(&mut request).unwrap(), 0);
                ours.write_all(answer.as_bytes()).unwrap();
            }
        });
        let result =
            client(theirs, Place { rank: 0, size: 2 }, LIMIT).and_then(|mut boot| boot.allgather(b"card"));
        launcher.join().unwrap();
        result.unwrap_err().to_string()
    }

    const INIT: &str = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
    const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
    const SPACE: &str = "cmd=my_kvsname kvsname=kvs\n";
    const PUT: &str = "cmd=put_result rc=0 msg=success\n";
    const BARRIER: &str = "cmd=barrier_out\n";

    #[test]
    fn a_launcher_that_closes_is_named_with_what_was_expected() {
        let error = error_after(&[]);
        assert!(
            error.contains("the launcher closed PMI_FD=7 where 'response_to_init' was expected"),
            "{error}"
        );
        let error = error_after(&[INIT, MAXES, SPACE, PUT]);
        assert!(error.contains("where 'barrier_out' was expected"), "{error}");
    }

    #[test]
    fn a_wrong_answer_is_quoted_with_what_was_expected() {
        for (answers, part) in [
            (&["cmd=nonsense\n"][..], "answered 'cmd=nonsense' where 'response_to_init' was expected"),
            (&["\u{0}\u{1}\n"], r"answered '\x00\x01' where"),
            (&["cmd=response_to_init rc=-1\n"], "response_to_init rc=-1 (no reason given) to 'cmd=init"),
            (&[INIT, "cmd=maxes\n"], "no 'vallen_max' in 'maxes'"),
            (&[INIT, "cmd=maxes keylen_max=64 vallen_max=-1\n"], "'vallen_max=-1'"),
            (&[INIT, "cmd=maxes keylen_max=64 vallen_max=3\n", SPACE], "maxima too small"),
            (&[INIT, MAXES, "cmd=my_kvsname\n"], "no 'kvsname'"),
            (&[INIT, MAXES, SPACE, "cmd=put_result rc=-1 msg=full\n"], "put_result rc=-1 (full)"),
            (
                &[INIT, MAXES, SPACE, "cmd=put_result rc=-1 msg=duplicate_key\n"],
                "a card of this rank already",
            ),
            (&[INIT, MAXES, SPACE, PUT, BARRIER, "cmd=get_result rc=1\n"], "get_result rc=1"),
            (&[INIT, MAXES, SPACE, PUT, BARRIER, "cmd=get_result rc=0\n"], "no 'value' for key circ-1-1-0"),
            (
                &[INIT, MAXES, SPACE, PUT, BARRIER, "cmd=get_result value=zzzz\n"],
                "'zzzz' as the card of rank 1",
            ),
            (
                &[INIT, MAXES, SPACE, PUT, BARRIER, "cmd=get_result value=0001!\n"],
                "'0001!' as the card of rank 1",
            ),
        ] {
            let error = error_after(answers);
            assert!(error.contains("PMI_FD=7") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let launcher = thread::spawn(move || while ours.write_all(&[b'x'; 4096]).is_ok() {});
        let error = client(theirs, Place { rank: 0, size: 2 }, LIMIT).err().unwrap().to_string();
        assert!(error.contains("a line of over"), "{error}");
        launcher.join().unwrap();
    }

    proptest! {
        #[test]
        fn garbage_from_the_launcher_is_an_error(garbage in proptest::collection::vec(any::<u8>(), 0..300), joined in any::<bool>()) {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let before = if joined { [INIT, MAXES, SPACE, PUT, BARRIER].concat() } else { String::new() };
            ours.write_all(before.as_bytes()).unwrap();
            ours.write_all(&garbage).unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            let gathered = client(theirs, Place { rank: 0, size: 2 }, LIMIT).and_then(|mut boot| boot.allgather(b""));
            prop_assert!(gathered.is_err());
        }
    }

    #[test]
    fn a_launcher_that_never_answers_meets_the_deadline() {
        for (before, part) in [
            (String::new(), "did not answer with 'response_to_init' within 1 s;"),
            (
                [INIT, MAXES, SPACE, PUT].concat(),
                "with 'barrier_out' within 1 s: some rank has not started or died",
            ),
        ] {
            let (mut silent, theirs) = UnixStream::pair().unwrap();
            silent.write_all(before.as_bytes()).unwrap();
            let met = client(theirs, Place { rank: 0, size: 2 }, Duration::from_secs(1));
            let error = met.and_then(|mut boot| boot.allgather(b"")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_descriptor_that_is_closed_or_no_socket_is_refused() {
        let place = Place { rank: 0, size: 2 };
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = |fd| Pmi1::from_inherited(fd, place, LIMIT).err().unwrap().to_string();
        assert!(error(file.as_raw_fd()).contains("is not a socket; start with a launcher"));
        assert!(error(1_000_000).contains("PMI_FD is '1000000', but that is not open"));
        assert!(error(-1).contains("not open"));
    }

    #[test]
    fn a_port_gives_rank_and_size() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let launcher = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut server = Server::new(1, None);
            let mut buffer = [0; 4096];
            let first = stream.read(&mut buffer).unwrap();
            assert_eq!(&buffer[..first], b"cmd=initack pmiid=5\n");
            stream.write_all(b"cmd=initack rc=0\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0\n").unwrap();
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                for answer in server.receive(0, &buffer[..count]) {
                    let Answer::Reply { line, .. } = answer else { panic!("{answer:?}") };
                    stream.write_all(line.as_bytes()).unwrap();
                }
            }
        });
        let mut boot = Posted::new(Pmi1::from_port(&address, 5, LIMIT).unwrap(), LIMIT);
        assert_eq!(boot.place(), Place { rank: 0, size: 1 });
        assert_eq!(boot.allgather(b"card").unwrap(), [b"card"]);
        boot.finish().unwrap();
        drop(boot);
        launcher.join().unwrap();
    }
}
