//! The contract of a transport as laws that every implementation is held to.
//!
//! Each rank runs [`keep`] with its own transport, on a thread ([`on_threads`]) or in a process of its
//! own, and an [`Exchange`] to agree on keys. A broken law is a panic that says which. Nothing here
//! depends on time; deadlines only end a hang.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::boot::Exchange;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::transport::memory::Memory;
use crate::transport::{
    Event, Gait, Message, Notice, Posted, Put, Region, RemoteKey, Report, Segment, Token, Transport,
};

/// After so long something hangs.
const HANG: Duration = Duration::from_secs(120);
/// Longer than any test runs: who sleeps so long must be woken.
const FOR_EVER: Duration = Duration::from_secs(100_000);
/// Fills memory that nobody may write.
const UNTOUCHED: u8 = 0xa5;

/// A sentence, and what breaks where it is not true.
type Law = (&'static str, fn(&mut Seat<'_>));

/// The laws in order; the last one ends the transport.
const LAWS: [Law; 14] = [
    ("a put lands exactly, and before its notice", a_put_lands_exactly),
    ("a notice alone needs no bytes, and keeps its 32 bits", a_notice_alone_keeps_its_bits),
    ("segments are gathered in their order, under one notice", segments_are_gathered),
    ("more segments than the limit are the caller's error, and do no harm", too_many_segments_are_refused),
    ("a message lands exactly, and is done with, or is not taken at all", a_message_lands_exactly),
    ("every rank's notices arrive, each once", every_notice_arrives_once),
    ("many puts are taken, each sent once", many_puts_are_taken),
    ("a source may be reused when it is sent", a_sent_source_may_be_reused),
    ("what can only be read is a source", what_can_only_be_read_is_a_source),
    ("what a peer shows is read where it is, and no longer than the peer has it", what_is_shown_is_read),
    ("two regions do not mix, and one goes while the other stays", a_region_goes_while_another_stays),
    ("sleep ends when there is something to wake for", sleep_ends_by_a_wake),
    ("sleep ends when a put arrives", sleep_ends_by_an_arrival),
    ("after the shutdown every call fails", a_shutdown_is_the_end),
];

/// Holds a transport to its contract: all ranks call it at once. Panics where a law is broken.
pub fn keep(transport: &mut dyn Transport, exchange: &mut dyn Exchange) {
    let place = transport.place();
    assert_eq!(place, exchange.place(), "transport and exchange know the same place");
    let free = (0..transport.limits().in_flight as Token).collect();
    let chance = fastrand::Rng::with_seed(place.rank.into());
    let mut seat = Seat { place, transport, exchange, chance, free, notices: VecDeque::new(), law: "" };
    for (law, hold) in LAWS {
        seat.law = law;
        hold(&mut seat);
        seat.settle();
    }
}

/// Runs [`keep`] for `size` ranks on threads; `open` makes a rank's transport, connected to all others.
pub fn on_threads<T: Transport + 'static>(
    size: u32,
    open: impl Fn(Place, &mut dyn Exchange) -> Result<T> + Sync,
) {
    let table = Arc::new(Table::default());
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (mut exchange, open) = (Circle::new(Place { rank, size }, &table), &open);
            scope.spawn(move || {
                let mut transport =
                    open(Place { rank, size }, &mut exchange).unwrap_or_else(|e| panic!("{e}"));
                keep(&mut transport, &mut exchange);
            });
        }
    });
}

/// A rank that keeps the laws.
struct Seat<'a> {
    place: Place,
    transport: &'a mut dyn Transport,
    exchange: &'a mut dyn Exchange,
    /// Decides which memory is the transport's own.
    chance: fastrand::Rng,
    /// Tokens that are not under way.
    free: Vec<Token>,
    /// Notices that have come and were not asked for yet.
    notices: VecDeque<Notice>,
    law: &'static str,
}

/// The bytes of a put: where they are, and where they go.
#[derive(Clone, Copy)]
struct Bytes {
    offset: usize,
    len: usize,
    to_offset: u64,
}

impl Seat<'_> {
    fn next(&self) -> Rank {
        self.place.after(1)
    }

    fn previous(&self) -> Rank {
        self.place.before(1)
    }

    fn register(&mut self, memory: &Memory) -> Region {
        self.transport.register(memory.clone()).unwrap_or_else(|e| panic!("{}: {e}", self.law))
    }

    /// So many bytes, or as many as a put may have.
    fn most(&self, len: usize) -> usize {
        len.min(self.transport.limits().max_put)
    }

    /// Memory of `len` untouched bytes, of the transport's own kind or any other, and its region.
    fn window(&mut self, len: usize) -> (Memory, Region) {
        let own = self.chance.bool();
        let memory = if own { self.transport.allocate(len) } else { Memory::zeroed(len) };
        let memory = memory.unwrap_or_else(|e| panic!("{}: {e}", self.law));
        memory.write(0, &vec![UNTOUCHED; len]);
        let region = self.register(&memory);
        (memory, region)
    }

    /// Every rank's key to the region it names here.
    fn share(&mut self, region: &Region) -> Vec<RemoteKey> {
        let card = serde_json::to_vec(&region.remote).expect("keys are numbers");
        let cards = self.gather(&card);
        let keys = |card: &Vec<u8>| serde_json::from_slice(card).expect("a rank has told its keys");
        (0..).zip(&cards).map(|(rank, card)| self.transport.key(keys(card), rank)).collect()
    }

    /// Every rank's card; all wait for all. The transport makes progress meanwhile, as others may need it.
    fn gather(&mut self, card: &[u8]) -> Vec<Vec<u8>> {
        let Seat { exchange, transport, free, notices, law, .. } = self;
        let mut events = Events { free, notices, law };
        std::thread::scope(|scope| {
            let others = scope.spawn(|| exchange.allgather(card));
            while !others.is_finished() {
                events.take(*transport);
                std::thread::yield_now();
            }
            others.join().expect("an exchange does not panic").unwrap_or_else(|e| panic!("{law}: {e}"))
        })
    }

    fn barrier(&mut self) {
        self.gather(&[]);
    }

    fn poll(&mut self) -> bool {
        Events { free: &mut self.free, notices: &mut self.notices, law: self.law }.take(self.transport)
    }

    /// Polls and sleeps until `done` has an answer.
    fn until<T>(&mut self, what: &str, done: impl Fn(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = done(self) {
                return answer;
            }
            let Place { rank, size } = self.place;
            assert!(start.elapsed() < HANG, "{}: rank {rank} of {size} waits for ever for {what}", self.law);
            if !self.poll() {
                self.transport
                    .sleep(&[], Duration::from_millis(20))
                    .unwrap_or_else(|e| panic!("{}: {e}", self.law));
            }
        }
    }

    /// Hands over a put of one segment.
    fn put(&mut self, peer: Rank, from: &Region, bytes: Bytes, to: RemoteKey, notice: Notice) -> Posted {
        let Bytes { offset, len, to_offset } = bytes;
        self.put_segments(peer, from, &[Segment { offset, len }], to, to_offset, notice)
    }

    /// Hands a put over, however often it is refused.
    fn put_segments(
        &mut self,
        peer: Rank,
        from: &Region,
        segments: &[Segment],
        to: RemoteKey,
        to_offset: u64,
        notice: Notice,
    ) -> Posted {
        let token = self.until("a free token", |seat| seat.free.pop());
        let report = if token % 2 == 1 { Report::Landed } else { Report::Sent };
        let put = Put {
            peer,
            from,
            segments,
            to,
            to_offset,
            notice,
            report,
            token,
            attended: true,
            for_user: true,
            gait: Gait::Straight,
        };
        let posted = self.until("a put to be taken", |seat| match seat.transport.put(&put) {
            Ok(Posted::Busy) => None,
            Ok(posted) => Some(posted),
            Err(e) => panic!("{}: {e}", seat.law),
        });
        if posted == Posted::Done {
            self.free.push(token);
        } else {
            let (len, inject) = (put.len(), self.transport.limits().inject);
            assert!(len > inject, "{}: {len} bytes are pending, where {inject} are done at once", self.law);
        }
        posted
    }

    fn notice(&mut self) -> Notice {
        self.until("a notice", |seat| seat.notices.pop_front())
    }

    /// Waits until no put is under way.
    fn sent(&mut self) {
        let all = self.transport.limits().in_flight;
        self.until("puts to be sent", |seat| (seat.free.len() == all).then_some(()));
    }

    /// The end of a law: nothing is under way, and no rank has heard too much.
    fn settle(&mut self) {
        if self.law != LAWS[LAWS.len() - 1].0 {
            self.sent();
            self.barrier();
            assert_eq!(self.notices.pop_front(), None, "{}: a notice too many", self.law);
            self.barrier();
        }
    }
}

/// Sorts what a transport has to say.
struct Events<'a> {
    free: &'a mut Vec<Token>,
    notices: &'a mut VecDeque<Notice>,
    law: &'static str,
}

impl Events<'_> {
    /// Polls once; whether there was anything.
    fn take(&mut self, transport: &mut dyn Transport) -> bool {
        let mut events = Vec::new();
        transport.poll(&mut events).unwrap_or_else(|e| panic!("{}: {e}", self.law));
        for event in &events {
            match *event {
                Event::Moved => {}
                Event::Notice(notice) => self.notices.push_back(notice),
                Event::Sent(token) => {
                    assert!(!self.free.contains(&token), "{}: token {token} was sent twice", self.law);
                    self.free.push(token);
                }
            }
        }
        !events.is_empty()
    }
}

/// The byte that `rank` puts at place `i` of put number `salt`.
fn byte(rank: Rank, salt: usize, i: usize) -> u8 {
    let mixed =
        (i as u64 ^ (u64::from(rank) << 40) ^ ((salt as u64) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

fn content(rank: Rank, salt: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| byte(rank, salt, i)).collect()
}

fn read(memory: &Memory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

fn a_put_lands_exactly(seat: &mut Seat<'_>) {
    const SIZES: [usize; 9] = [1, 0, 7, 8, 64, 4096, 4097, 65_536, (1 << 20) + 3];
    const ROOM: usize = (1 << 20) + 128;
    for (salt, len) in SIZES.map(|len| seat.most(len)).into_iter().enumerate() {
        for (offset, to_offset) in [(0, 0), (3, 61)] {
            let (source, from) = seat.window(ROOM);
            let (target, to) = seat.window(ROOM);
            let keys = seat.share(&to);
            let next = seat.next();
            source.write(offset, &content(seat.place.rank, salt, len));
            seat.put(next, &from, Bytes { offset, len, to_offset }, keys[next as usize], salt as Notice);
            assert_eq!(seat.notice(), salt as Notice);
            let start = to_offset as usize;
            let mut expected = vec![UNTOUCHED; ROOM];
            expected[start..start + len].copy_from_slice(&content(seat.previous(), salt, len));
            assert!(read(&target) == expected, "{len} bytes at {to_offset} did not land exactly");
            seat.sent();
            seat.barrier();
        }
    }
}

fn a_notice_alone_keeps_its_bits(seat: &mut Seat<'_>) {
    const NOTICES: [Notice; 6] = [0, 1, 0x8000_0000, 0x7fff_ffff, 0x1234_5678, u32::MAX];
    let (_memory, full) = seat.window(64);
    let (_nothing, empty) = seat.window(0);
    let next = seat.next() as usize;
    for region in [&full, &empty] {
        let to = seat.share(region)[next];
        for from in [&full, &empty] {
            for notice in NOTICES {
                seat.put(next as Rank, from, Bytes { offset: 0, len: 0, to_offset: 0 }, to, notice);
            }
        }
        // In any order, also those of one peer.
        let mut heard: Vec<_> = (0..2 * NOTICES.len()).map(|_| seat.notice()).collect();
        heard.sort_unstable();
        let mut expected = [NOTICES, NOTICES].concat();
        expected.sort_unstable();
        assert_eq!(heard, expected);
        seat.barrier();
    }
    assert!(read(&full.memory).iter().all(|&b| b == UNTOUCHED), "a notice wrote bytes");
}

/// Segments of uneven lengths, in falling order, each overlapping those beside it; every third is empty.
fn uneven(count: usize, scale: usize) -> Vec<Segment> {
    let segment = |i| Segment {
        offset: (count - i) * scale / 2 + i,
        len: if i % 3 == 1 { 0 } else { scale * (i + 1) + i },
    };
    (0..count).map(segment).collect()
}

fn segments_are_gathered(seat: &mut Seat<'_>) {
    const SCALES: [usize; 4] = [1, 61, 4099, 20_011];
    let most = seat.transport.limits().segments.min(8);
    assert!(most >= 1, "a put has a segment");
    // The longest put has more than `most` (`most` + 1) / 2 times a scale.
    let longest = seat.most(usize::MAX) / (most * (most + 1)) - 1;
    for (salt, scale) in SCALES.map(|scale| scale.min(longest)).into_iter().enumerate() {
        let room = (most + 1) * (scale + 1) * 2;
        let stride = most * (most + 1) * (scale + 1);
        // Many at once, so that a transport that refuses some for now is asked again.
        let mut puts: Vec<_> = (0..4 * most).map(|i| uneven(1 + i % most, scale)).collect();
        puts.push(Vec::new());
        puts.push(vec![Segment { offset: 0, len: 0 }; most]);
        let (source, from) = seat.window(room);
        let (target, to) = seat.window(puts.len() * stride);
        let keys = seat.share(&to);
        let next = seat.next();
        source.write(0, &content(seat.place.rank, salt, room));
        for (i, segments) in puts.iter().enumerate() {
            let to_offset = (i * stride) as u64;
            seat.put_segments(next, &from, segments, keys[next as usize], to_offset, i as Notice);
        }
        let mut heard: Vec<_> = puts.iter().map(|_| seat.notice()).collect();
        heard.sort_unstable();
        assert_eq!(heard, (0..puts.len() as Notice).collect::<Vec<_>>());
        let theirs = content(seat.previous(), salt, room);
        let mut expected = vec![UNTOUCHED; target.len()];
        for (segments, place) in puts.iter().zip(expected.chunks_exact_mut(stride)) {
            let gathered: Vec<_> = segments.iter().map(|s| &theirs[s.offset..s.offset + s.len]).collect();
            let gathered = gathered.concat();
            place[..gathered.len()].copy_from_slice(&gathered);
        }
        assert!(read(&target) == expected, "segments of some {scale} bytes were not gathered exactly");
        seat.sent();
        seat.barrier();
    }
}

fn what_is_shown_is_read(seat: &mut Seat<'_>) {
    const LEN: usize = 10_000;
    for salt in 0..8 {
        let (source, region) = seat.window(LEN);
        let keys = seat.share(&region);
        source.write(0, &content(seat.place.rank, salt, LEN));
        let (next, previous) = (seat.next(), seat.previous());
        let shows = seat.transport.shows(&region, previous);
        let bytes = Bytes { offset: 0, len: 0, to_offset: 0 };
        seat.put(previous, &region, bytes, keys[previous as usize], shows.into());
        let view = (seat.notice() == 1).then(|| seat.transport.view(next, keys[next as usize]).unwrap());
        if let Some(view) = &view {
            let mut bytes = Vec::new();
            let shown = seat.transport.while_shown(next, &mut || bytes = read(view)).unwrap();
            assert!(shown && bytes == content(next, salt, LEN), "the view of rank {next} has other bytes");
            let copied = Memory::zeroed(LEN).unwrap();
            let mut copy = |gait| copied.copy_in(gait, 0, view, 0, LEN);
            assert!(seat.transport.while_shown_to_copy(next, LEN, &mut copy).unwrap());
            assert!(read(&copied) == content(next, salt, LEN), "the copy of rank {next}'s has other bytes");
        }
        seat.sent();
        seat.barrier();
        drop((source, region));
        seat.barrier();
        assert!(view.is_none_or(|view| read(&view).len() == LEN));
    }
    let unknown = RemoteKey { base: 0, key: u64::MAX >> 1 };
    assert!(seat.transport.view(seat.next(), unknown).is_err(), "what is shown by nobody is an error");
}

fn too_many_segments_are_refused(seat: &mut Seat<'_>) {
    const LEN: usize = 1000;
    let (source, from) = seat.window(LEN);
    let (target, to) = seat.window(LEN);
    let next = seat.next();
    let key = seat.share(&to)[next as usize];
    source.write(0, &content(seat.place.rank, 5, LEN));
    let segments = vec![Segment { offset: 0, len: 1 }; seat.transport.limits().segments + 1];
    let report = Report::Sent;
    let put = Put {
        peer: next,
        from: &from,
        segments: &segments,
        to: key,
        to_offset: 0,
        notice: 1,
        report,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    let refused = seat.until("a put to be refused for good", |seat| match seat.transport.put(&put) {
        Ok(Posted::Busy) => None,
        answer => Some(answer),
    });
    assert!(matches!(refused, Err(Error::Argument { .. })), "{} segments: {refused:?}", segments.len());
    seat.put(next, &from, Bytes { offset: 0, len: LEN, to_offset: 0 }, key, 2);
    assert_eq!(seat.notice(), 2);
    assert!(read(&target) == content(seat.previous(), 5, LEN), "the next put did not land exactly");
}

fn a_message_lands_exactly(seat: &mut Seat<'_>) {
    const LEN: usize = 20_000;
    const POSTED: Notice = 1;
    const SEAL: u8 = 0x5e;
    let sizes = [(56, 0), (56, 8), (0, 1), (88, 4097), (3, LEN)];
    for (salt, (head, data)) in sizes.into_iter().enumerate() {
        let (target, to) = seat.window(2 * LEN);
        let (_, from) = seat.window(1);
        let (next, mine) = (seat.next(), content(seat.place.rank, salt, head + data));
        let key = seat.share(&to)[next as usize];
        let memory = Memory::zeroed(LEN).unwrap();
        memory.write(0, &mine[head..]);
        let halves =
            [(0, data / 2), (data / 2, data - data / 2)].map(|(offset, len)| Segment { offset, len });
        match seat.transport.inbox(next, key).unwrap() {
            Some(to) => {
                let (head, to) = (&mine[..head], &to);
                let message = |segments| {
                    let (seal, data, to_offset) = (SEAL, Some((&memory, segments)), 60);
                    Message { peer: next, seal, head, data, to, to_offset, notice: POSTED }
                };
                let beyond = [Segment { offset: LEN, len: 1 }];
                let refused = seat.transport.post(&message(&beyond));
                assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
                let taken = seat.until("a message to be taken", |seat| {
                    match seat.transport.post(&message(&halves)) {
                        Ok(Posted::Busy) => None,
                        answer => Some(answer.unwrap()),
                    }
                });
                assert_eq!(taken, Posted::Done, "a message of {} bytes", mine.len());
                // The source is its owner's at once.
                memory.write(0, &[0; LEN]);
            }
            None => {
                seat.put(next, &from, Bytes { offset: 0, len: 0, to_offset: 0 }, key, 0);
            }
        }
        let mut expected = vec![UNTOUCHED; 2 * LEN];
        if seat.notice() == POSTED {
            expected[60] = SEAL;
            expected[61..][..mine.len()].copy_from_slice(&content(seat.previous(), salt, mine.len()));
        }
        assert!(read(&target) == expected, "a message of {} bytes did not land exactly", mine.len());
        seat.sent();
        seat.barrier();
    }
}

fn every_notice_arrives_once(seat: &mut Seat<'_>) {
    const EACH: u32 = 100;
    let (_memory, region) = seat.window(8);
    let keys = seat.share(&region);
    let peers: Vec<Rank> = (1..seat.place.size).map(|distance| seat.place.after(distance)).collect();
    for i in 0..EACH {
        for &peer in &peers {
            let notice = seat.place.rank << 16 | i;
            seat.put(peer, &region, Bytes { offset: 0, len: 0, to_offset: 0 }, keys[peer as usize], notice);
        }
    }
    let mut heard: Vec<_> = (0..EACH * peers.len() as u32).map(|_| seat.notice()).collect();
    heard.sort_unstable();
    let mut expected: Vec<_> =
        peers.iter().flat_map(|&peer| (0..EACH).map(move |i| peer << 16 | i)).collect();
    expected.sort_unstable();
    assert_eq!(heard, expected);
}

fn many_puts_are_taken(seat: &mut Seat<'_>) {
    const PUTS: usize = 1000;
    const LEN: usize = 5000;
    let (source, from) = seat.window(PUTS * LEN);
    let (target, to) = seat.window(PUTS * LEN);
    let keys = seat.share(&to);
    let next = seat.next();
    source.write(0, &content(seat.place.rank, 1, PUTS * LEN));
    for i in 0..PUTS {
        let bytes = Bytes { offset: i * LEN, len: LEN, to_offset: (i * LEN) as u64 };
        seat.put(next, &from, bytes, keys[next as usize], i as Notice);
    }
    let mut heard: Vec<_> = (0..PUTS).map(|_| seat.notice()).collect();
    heard.sort_unstable();
    assert_eq!(heard, (0..PUTS as Notice).collect::<Vec<_>>());
    assert!(read(&target) == content(seat.previous(), 1, PUTS * LEN), "a put went astray");
}

fn a_sent_source_may_be_reused(seat: &mut Seat<'_>) {
    const PUTS: usize = 20;
    const LEN: usize = 100_000;
    let (source, from) = seat.window(LEN);
    let (target, to) = seat.window(PUTS * LEN);
    let keys = seat.share(&to);
    let (next, previous) = (seat.next(), seat.previous());
    // Every other put is small enough to be taken over at once.
    let large = seat.most(LEN);
    let small = seat.transport.limits().inject.clamp(1, large);
    let mut expected = vec![UNTOUCHED; PUTS * LEN];
    for i in 0..PUTS {
        let len = if i % 2 == 0 { large } else { small };
        source.write(0, &content(seat.place.rank, i, len));
        let bytes = Bytes { offset: 0, len, to_offset: (i * LEN) as u64 };
        if seat.put(next, &from, bytes, keys[next as usize], i as Notice) == Posted::Pending {
            seat.sent();
        }
        source.write(0, &vec![0; LEN]);
        expected[i * LEN..i * LEN + len].copy_from_slice(&content(previous, i, len));
    }
    for _ in 0..PUTS {
        seat.notice();
    }
    assert!(read(&target) == expected, "a put carried bytes that came after it");
}

fn what_can_only_be_read_is_a_source(seat: &mut Seat<'_>) {
    let len = seat.most(100_000);
    let mut pages = MmapMut::map_anon(len).expect("so few pages are there");
    pages.copy_from_slice(&content(seat.place.rank, 0, len));
    let pages = pages.make_read_only().expect("a process may do that with its own pages");
    let start = NonNull::from(&pages[..]).cast();
    // SAFETY: - the pages are given back after the memory; nobody writes there, as it is a source alone
    let memory = unsafe { Memory::lend(start, len) };
    let from = seat.transport.register_source(memory).unwrap_or_else(|e| panic!("{}: {e}", seat.law));
    let (target, to) = seat.window(len);
    let keys = seat.share(&to);
    let next = seat.next();
    seat.put(next, &from, Bytes { offset: 0, len, to_offset: 0 }, keys[next as usize], 0);
    seat.notice();
    assert!(read(&target) == content(seat.previous(), 0, len), "what can only be read did not land");
    seat.sent();
    seat.barrier();
}

fn a_region_goes_while_another_stays(seat: &mut Seat<'_>) {
    const LEN: usize = 10_000;
    let (source, from) = seat.window(LEN);
    source.write(0, &content(seat.place.rank, 7, LEN));
    let (going, gone) = seat.window(LEN);
    let (staying, stays) = seat.window(LEN);
    let next = seat.next();
    let (to_going, to_staying) = (seat.share(&gone)[next as usize], seat.share(&stays)[next as usize]);
    let half = |offset| Bytes { offset, len: LEN / 2, to_offset: offset as u64 };
    seat.put(next, &from, half(0), to_going, 1);
    seat.put(next, &from, half(LEN / 2), to_staying, 2);
    assert_eq!(seat.notice() + seat.notice(), 3);
    seat.sent();
    seat.barrier();
    drop(gone);
    assert_eq!(going.holders(), 1, "a dropped region still holds its memory");
    seat.barrier();
    seat.put(next, &from, half(0), to_staying, 3);
    assert_eq!(seat.notice(), 3);
    let expected = content(seat.previous(), 7, LEN);
    assert!(read(&staying) == expected, "the region that stays has other bytes");
    let (first, rest) = (&expected[..LEN / 2], vec![UNTOUCHED; LEN / 2]);
    assert!(read(&going) == [first, &rest].concat(), "the region that went has other bytes");
}

fn sleep_ends_by_a_wake(seat: &mut Seat<'_>) {
    let (reader, writer) = rustix::pipe::pipe().expect("there are descriptors");
    seat.transport.sleep(&[reader.as_fd()], Duration::from_millis(1)).expect("a timeout is no error");
    rustix::io::write(&writer, b"x").expect("the pipe has room");
    seat.transport.sleep(&[reader.as_fd()], FOR_EVER).expect("a wake is no error");
}

fn sleep_ends_by_an_arrival(seat: &mut Seat<'_>) {
    let (_memory, region) = seat.window(8);
    let next = seat.next() as usize;
    let to = seat.share(&region)[next];
    let wait = |seat: &mut Seat<'_>| loop {
        seat.poll();
        match seat.notices.pop_front() {
            Some(notice) => return notice,
            None => seat.transport.sleep(&[], FOR_EVER).expect("to sleep is no error"),
        }
    };
    let say = |seat: &mut Seat<'_>, notice| {
        seat.put(next as Rank, &region, Bytes { offset: 0, len: 8, to_offset: 0 }, to, notice);
    };
    // A word goes round the circle, so that all but one sleep.
    for round in 0..20 {
        if seat.place.rank == 0 {
            say(seat, round);
            assert_eq!(wait(seat), round);
        } else {
            assert_eq!(wait(seat), round);
            say(seat, round);
        }
    }
}

fn a_shutdown_is_the_end(seat: &mut Seat<'_>) {
    let (memory, region) = seat.window(64);
    seat.transport.shut_down();
    let put = Put {
        peer: seat.next(),
        from: &region,
        segments: &[Segment { offset: 0, len: 8 }],
        to: region.remote.far,
        to_offset: 0,
        notice: 0,
        report: Report::Landed,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    assert!(seat.transport.put(&put).is_err());
    assert!(seat.transport.poll(&mut Vec::new()).is_err());
    assert!(seat.transport.sleep(&[], Duration::ZERO).is_err());
    assert!(seat.transport.register(memory.clone()).is_err());
    drop(region);
    assert_eq!(memory.holders(), 1, "a region outlives the shutdown, but not its drop");
}

/// Where ranks on threads lay down their cards.
#[derive(Default)]
struct Table {
    round: Mutex<Round>,
    complete: Condvar,
}

#[derive(Default)]
struct Round {
    number: u64,
    laid: Vec<Option<Vec<u8>>>,
    last: Vec<Vec<u8>>,
}

/// The exchange of ranks that are threads of one process.
struct Circle {
    place: Place,
    table: Arc<Table>,
}

impl Circle {
    fn new(place: Place, table: &Arc<Table>) -> Circle {
        Circle { place, table: table.clone() }
    }
}

impl Exchange for Circle {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        "threads".to_owned()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut round = self.table.round.lock().map_err(|_| gone())?;
        let number = round.number;
        round.laid.resize(self.place.size as usize, None);
        round.laid[self.place.rank as usize] = Some(card.to_vec());
        if round.laid.iter().all(Option::is_some) {
            round.last = round.laid.drain(..).flatten().collect();
            round.number += 1;
            self.table.complete.notify_all();
        }
        let waiting = |round: &mut Round| round.number == number;
        let (round, wait) =
            self.table.complete.wait_timeout_while(round, HANG, waiting).map_err(|_| gone())?;
        if wait.timed_out() { Err(gone()) } else { Ok(round.last.clone()) }
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn gone() -> Error {
    Error::boot("a rank of this test is gone", "see what it says")
}
