//! A notified put between two threads over libfabric, beside raw TCP in the same run.
//!
//! Half a round trip of 8 bytes, both sides spinning, and a stream of 1 MiB puts. Compare only what one
//! run prints: the other loads of a machine move all figures alike.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use circulant::error::Result;
use circulant::rank::{Place, Rank};
use circulant::transport::fabric::{Fabric, Request, choose};
use circulant::transport::memory::Memory;
use circulant::transport::{Event, Gait, Notice, Posted, Put, Region, RemoteKey, Report, Segment, Transport};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const SMALL: usize = 8;
const LARGE: usize = 1 << 20;
/// Puts under way in a stream.
const WINDOW: u32 = 8;
/// The notice that ends the partner.
const STOP: Notice = Notice::MAX;
const PROVIDERS: [&str; 3] = ["tcp", "rxm", "shm"];

/// One of two connected ranks, with a buffer.
struct End {
    fabric: Fabric,
    region: Region,
    target: RemoteKey,
    events: Vec<Event>,
}

type Card = (Vec<u8>, RemoteKey);

impl End {
    fn open(provider: &str, rank: Rank, to: &Sender<Card>, from: &Receiver<Card>) -> Result<End> {
        let provider = Some(provider.to_owned());
        let choice = choose(&Request { provider, one_machine: true, ..Request::default() })?;
        let mut fabric = Fabric::open(&choice, Place { rank, size: 2 })?;
        let region = fabric.register(Memory::zeroed(LARGE)?)?;
        let mine = fabric.address()?;
        to.send((mine.clone(), region.remote.far)).expect("the other end is there");
        let (theirs, target) = from.recv().expect("the other end is there");
        fabric.connect(&if rank == 0 { [mine, theirs] } else { [theirs, mine] })?;
        Ok(End { fabric, region, target, events: Vec::new() })
    }

    fn put(&mut self, len: usize, token: u32, notice: Notice) {
        let peer = 1 - self.fabric.place().rank;
        let (from, to) = (&self.region, self.target);
        let segments = &[Segment { offset: 0, len }];
        let put = Put {
            peer,
            from,
            segments,
            to,
            to_offset: 0,
            notice,
            report: Report::Sent,
            token,
            attended: true,
            for_user: true,
            gait: Gait::Straight,
        };
        while self.fabric.put(&put).expect("the other end is there") == Posted::Busy {
            self.fabric.poll(&mut self.events).expect("the other end is there");
        }
    }

    /// Spins until there is a notice.
    fn hear(&mut self) -> Notice {
        loop {
            self.fabric.poll(&mut self.events).expect("the other end is there");
            let heard = self.events.iter().find_map(|event| match event {
                Event::Notice(notice) => Some(*notice),
                Event::Sent(_) | Event::Moved => None,
            });
            self.events.clear();
            if let Some(notice) = heard {
                return notice;
            }
        }
    }

    fn ping_pong(&mut self, rounds: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..rounds {
            self.put(SMALL, 0, 0);
            self.hear();
        }
        start.elapsed() / 2
    }

    /// Puts large blocks, a window at a time; the other end answers each with a notice.
    fn stream(&mut self, blocks: u64) -> Duration {
        let start = Instant::now();
        let (mut sent, mut answered) = (0, 0);
        let mut free: Vec<u32> = (0..WINDOW).collect();
        while answered < blocks {
            while sent < blocks
                && let Some(token) = free.pop()
            {
                self.put(LARGE, token, 0);
                sent += 1;
            }
            self.fabric.poll(&mut self.events).expect("the other end is there");
            for event in self.events.drain(..) {
                match event {
                    Event::Sent(token) => free.push(token),
                    Event::Notice(_) => answered += 1,
                    Event::Moved => {}
                }
            }
        }
        start.elapsed()
    }

    /// Answers every put with a small one, until there is a word to stop.
    fn echo(&mut self) {
        let mut events = Vec::new();
        loop {
            self.fabric.poll(&mut events).expect("the other end is there");
            for event in events.drain(..) {
                match event {
                    Event::Notice(STOP) => return,
                    Event::Notice(_) => self.put(SMALL, 0, 0),
                    Event::Sent(_) | Event::Moved => {}
                }
            }
            events.append(&mut self.events);
        }
    }
}

/// Runs `measure` against a partner that echoes.
fn with_partner(provider: &str, measure: impl FnOnce(&mut End)) -> Result<()> {
    let ((to_one, from_zero), (to_zero, from_one)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || End::open(provider, 1, &to_zero, &from_zero).map(|mut end| end.echo()));
        let mut end = End::open(provider, 0, &to_one, &from_one)?;
        measure(&mut end);
        end.put(0, 0, STOP);
        Ok(())
    })
}

fn raw(spins: bool) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let one = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (other, _) = listener.accept().expect("one connects");
    for socket in [&one, &other] {
        socket.set_nodelay(true).expect("TCP has it");
        socket.set_nonblocking(spins).expect("sockets have it");
    }
    (one, other)
}

/// Reads all of `bytes`, spinning; false at the end.
fn read(socket: &mut TcpStream, bytes: &mut [u8]) -> bool {
    let mut got = 0;
    while got < bytes.len() {
        match socket.read(&mut bytes[got..]) {
            Ok(0) => return false,
            Ok(more) => got += more,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

fn raw_ping_pong(rounds: u64) -> Duration {
    let (mut one, mut other) = raw(true);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut word = [0; SMALL];
            while read(&mut other, &mut word) {
                other.write_all(&word).expect("the other end is there");
            }
        });
        let start = Instant::now();
        let mut word = [0; SMALL];
        for _ in 0..rounds {
            one.write_all(&word).expect("the other end is there");
            read(&mut one, &mut word);
        }
        let time = start.elapsed() / 2;
        drop(one);
        time
    })
}

fn raw_stream(blocks: u64) -> Duration {
    let (mut one, mut other) = raw(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut block = vec![0; LARGE];
            while read(&mut other, &mut block) {
                other.write_all(&[0; SMALL]).expect("the other end is there");
            }
        });
        let block = vec![0; LARGE];
        let mut answer = [0; SMALL];
        let start = Instant::now();
        for i in 0..blocks {
            one.write_all(&block).expect("the other end is there");
            if i >= u64::from(WINDOW) {
                read(&mut one, &mut answer);
            }
        }
        for _ in 0..blocks.min(u64::from(WINDOW)) {
            read(&mut one, &mut answer);
        }
        let time = start.elapsed();
        drop(one);
        time
    })
}

fn puts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("half round trip of 8 bytes");
    group.bench_function("raw TCP", |bencher| bencher.iter_custom(raw_ping_pong));
    for provider in PROVIDERS {
        let measured = with_partner(provider, |end| {
            let name = BenchmarkId::from_parameter(end.fabric.name());
            group.bench_function(name, |bencher| bencher.iter_custom(|rounds| end.ping_pong(rounds)));
        });
        measured.unwrap_or_else(|e| eprintln!("{provider} is left out: {e}"));
    }
    group.finish();

    let mut group = criterion.benchmark_group("stream of 1 MiB puts");
    group.throughput(Throughput::Bytes(LARGE as u64)).sample_size(20);
    group.bench_function("raw TCP", |bencher| bencher.iter_custom(raw_stream));
    for provider in PROVIDERS {
        let measured = with_partner(provider, |end| {
            let name = BenchmarkId::from_parameter(end.fabric.name());
            group.bench_function(name, |bencher| bencher.iter_custom(|blocks| end.stream(blocks)));
        });
        measured.unwrap_or_else(|e| eprintln!("{provider} is left out: {e}"));
    }
    group.finish();
}

criterion_group!(benches, puts);
criterion_main!(benches);
