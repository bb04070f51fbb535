use super::board::{CHUNK, CHUNKS as ALL_CHUNKS};
use super::*;
use crate::boot::Exchange;
use crate::transport::copy::has_two_ways;
use crate::transport::memory::Memory;
use crate::transport::{Gait, Region, Report, conformance};

fn open(way: Way, place: Place, exchange: &mut dyn Exchange) -> Result<Shm> {
    let mut shm = Shm::open(place)?;
    shm.connect(&exchange.allgather(&shm.card()?)?)?;
    let own = serde_json::to_vec(&shm.probe(Some(way))).unwrap();
    let findings: Vec<_> =
        exchange.allgather(&own)?.iter().map(|f| serde_json::from_slice(f).unwrap()).collect();
    shm.agree(&findings, Some(way), Vicinity { cache: Some(u64::MAX), rounds: true, ..Vicinity::default() })?;
    Ok(shm)
}

#[test]
#[cfg_attr(
    miri,
    ignore = "is not through after minutes; a_put_is_seen_whole_when_its_notice_is stands for it"
)]
fn the_contract_is_kept_among_threads() {
    for way in Way::ALL {
        for size in [1, 3, 4] {
            conformance::on_threads(size, |place, exchange| open(way, place, exchange));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "miri copies far lines as others")]
fn the_contract_is_kept_where_lines_are_far() {
    conformance::on_threads(3, |place, exchange| {
        let mut shm = open(Way::Ring, place, exchange)?;
        shm.peers.iter_mut().for_each(|peer| peer.distance = super::distance::Distance::far());
        Ok(shm)
    });
}

#[test]
#[cfg_attr(miri, ignore = "as above")]
fn the_contract_is_kept_where_lines_go_to_and_fro() {
    conformance::on_threads(3, |place, exchange| {
        let mut shm = open(Way::Joint, place, exchange)?;
        shm.be_busy();
        shm.show_chunks()?;
        Ok(shm)
    });
}

#[test]
fn where_lines_go_to_and_fro_windows_are_put_through_chunks_if_their_rank_has_some() {
    let mut all = ranks_by(Way::Joint, 2);
    let [one, other] = &mut all[..] else { unreachable!() };
    one.be_busy();
    let windows = |shm: &mut Shm| {
        let memory = shm.allocate(*TRAFFIC.start()).unwrap();
        (memory.clone(), shm.register(memory).unwrap())
    };
    let ((source, from), (target, to)) = (windows(one), windows(other));
    // Whoever registers it once more may give that up.
    drop(other.register(target.clone()).unwrap());
    let all_of_it = [Run { offset: 0, len: source.len() }];
    let put = |one: &mut Shm, byte: u8, attended: bool| {
        source.write(0, &vec![byte; source.len()]);
        let put = Put {
            peer: 1,
            from: &from,
            segments: &all_of_it,
            to: to.remote.near,
            to_offset: 0,
            notice: byte.into(),
            report: Report::Never,
            token: 0,
            attended,
            for_user: true,
            gait: Gait::Straight,
        };
        assert_ne!(one.put(&put).unwrap(), Posted::Busy);
    };
    let read = || {
        let mut bytes = vec![0; target.len()];
        target.read(0, &mut bytes);
        bytes
    };
    put(one, 1, true);
    assert!(read() == vec![1; target.len()], "straight, as there are no chunks");
    other.show_chunks().unwrap();
    put(one, 2, true);
    assert!(read() == vec![1; target.len()], "still in chunks");
    let mut events = Vec::new();
    while !events.contains(&Event::Notice(2)) {
        one.poll(&mut Vec::new()).unwrap();
        other.poll(&mut events).unwrap();
    }
    assert!(read() == vec![2; target.len()]);
    put(one, 3, false);
    assert!(read() == vec![3; target.len()], "straight, as nobody would empty chunks");
}

/// Ranks that know each other and let chunks go through the ring.
fn ring_of(ranks: u32) -> Vec<Shm> {
    ranks_by(Way::Ring, ranks)
}

fn crowd() -> Vicinity {
    Vicinity { crowded: true, ..Vicinity::default() }
}

/// Ranks that know each other, and have not agreed on a way.
fn connected(ranks: u32) -> Vec<Shm> {
    let mut all: Vec<_> = (0..ranks).map(|rank| Shm::open(Place { rank, size: ranks }).unwrap()).collect();
    let cards: Vec<_> = all.iter().map(|shm| shm.card().unwrap()).collect();
    all.iter_mut().for_each(|shm| shm.connect(&cards).unwrap());
    all
}

/// Ranks that know each other.
fn ranks_by(way: Way, ranks: u32) -> Vec<Shm> {
    let mut all = connected(ranks);
    let unwritable = (way == Way::Ring).then(|| "a test".to_owned());
    let findings = Findings { unwritable, ..Findings::default() };
    for shm in &mut all {
        shm.agree(std::slice::from_ref(&findings), Some(way), crowd()).unwrap();
    }
    all
}

#[test]
fn nothing_is_read_of_what_a_rank_has_shown_that_has_shut_down() {
    let mut all = ring_of(2);
    let mut read = 0;
    assert!(all[1].while_shown(0, &mut || read += 1).unwrap());
    all[0].shut_down();
    assert!(!all[1].while_shown(0, &mut || read += 1).unwrap());
    assert!(!all[1].while_shown_to_copy(0, 1 << 20, &mut |_| read += 1).unwrap());
    assert_eq!(read, 1);
}

#[test]
fn what_is_shown_is_copied_in_either_gait_now_and_then() {
    let mut all = ring_of(2);
    let mut gaits = |bytes| {
        let mut copies = [0; 2];
        for _ in 0..100 {
            all[1]
                .while_shown_to_copy(0, bytes, &mut |gait| copies[usize::from(gait == Gait::AtRest)] += 1)
                .unwrap();
        }
        copies
    };
    assert_eq!(!gaits(64 << 10).contains(&0), has_two_ways(64 << 10));
    assert_eq!(gaits(1 << 10), [100, 0], "what is short goes straight");
}

#[test]
fn a_message_is_taken_for_a_window_and_for_no_memory_of_a_users() {
    let mut all = ring_of(2);
    let window = Memory::shared(100).unwrap();
    let keys = [window.clone(), Memory::zeroed(100).unwrap()].map(|memory| all[0].register(memory).unwrap());
    let [inbox, none] = keys.each_ref().map(|region| all[1].inbox(0, region.remote.near).unwrap());
    assert!(none.is_none());
    let inbox = inbox.unwrap();
    let mut post = |to_offset| {
        let message =
            Message { peer: 0, seal: b's', head: b"four", data: None, to: &inbox, to_offset, notice: 3 };
        all[1].post(&message)
    };
    assert_eq!(post(95).unwrap(), Posted::Done);
    // Pages are longer than what was asked for.
    assert!(matches!(post(inbox.len() - 4), Err(Error::Argument { .. })));
    assert!(matches!(post(usize::MAX), Err(Error::Argument { .. })));
    let mut bytes = [0; 4];
    window.read(96, &mut bytes);
    assert_eq!((&bytes, window.seal(95)), (b"four", b's'));
}

#[test]
#[cfg_attr(miri, ignore = "many messages")]
fn a_message_that_finds_no_room_is_taken_later_and_none_when_its_rank_has_shut_down() {
    taken_where_there_is_room(b"four");
    // One whose place is claimed behind its copy.
    taken_where_there_is_room(&[7; INJECT + 1]);
}

fn taken_where_there_is_room(head: &[u8]) {
    let mut all = ring_of(2);
    let window = Memory::shared(1 + head.len()).unwrap();
    let region = all[0].register(window.clone()).unwrap();
    let inbox = all[1].inbox(0, region.remote.near).unwrap().unwrap();
    let message = |seal| Message { peer: 0, seal, head, data: None, to: &inbox, to_offset: 0, notice: 3 };
    for _ in 0..NOTICES {
        assert_eq!(all[1].post(&message(1)).unwrap(), Posted::Done);
    }
    for _ in 0..3 {
        assert_eq!(all[1].post(&message(2)).unwrap(), Posted::Busy);
    }
    assert_eq!(window.seal(0), 1);
    assert_eq!(std::iter::from_fn(|| all[0].next_notice()).count(), NOTICES);
    assert_eq!(all[1].post(&message(2)).unwrap(), Posted::Done);
    assert_eq!((window.seal(0), all[0].next_notice(), all[0].next_notice()), (2, Some(3), None));
    all[0].shut_down();
    assert_eq!(all[1].post(&message(3)).unwrap(), Posted::Busy);
    assert_eq!(window.seal(0), 2);
}

#[test]
fn to_anticipate_what_is_not_there_does_nothing() {
    let mut all = ring_of(2);
    let window = Memory::shared(100).unwrap();
    let region = all[0].register(window.clone()).unwrap();
    // Before its board is known, then.
    all[1].anticipate(0, &window, 0, 10);
    let inbox = all[1].inbox(0, region.remote.near).unwrap().unwrap();
    for (peer, to_offset) in [(0, 90), (0, 100), (0, usize::MAX), (1, 0), (7, 0)] {
        all[1].anticipate(peer, &inbox, to_offset, 1000);
    }
    all[1].anticipate(0, &Memory::nothing(), 0, 1);
    let mut bytes = [1; 100];
    window.read(0, &mut bytes);
    assert_eq!(bytes, [0; 100]);
    assert_eq!(all[0].next_notice(), None);
}

/// One rank posts, another one looks at the seals alone, and gives each slot back by a word of its own.
#[test]
fn a_message_is_seen_whole_when_its_seal_is() {
    const MESSAGES: u8 = if cfg!(miri) { 20 } else { 200 };
    const LEN: usize = 70;
    let mut all = ring_of(2);
    let window = Memory::shared(1 + LEN).unwrap();
    let region = all[0].register(window.clone()).unwrap();
    let mut writer = all.pop().unwrap();
    let (given_back, taken) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let inbox = writer.inbox(0, region.remote.near).unwrap().unwrap();
            for seal in 1..=MESSAGES {
                let (head, data, to) = (&[seal; LEN][..], None, &inbox);
                let message = Message { peer: 0, seal, head, data, to, to_offset: 0, notice: 1 };
                writer.anticipate(0, to, 0, 1 + LEN);
                assert_eq!(writer.post(&message).unwrap(), Posted::Done);
                taken.recv().unwrap();
            }
        });
        for seal in 1..=MESSAGES {
            while window.seal(0) != seal {
                std::thread::yield_now();
            }
            let mut bytes = [0; LEN];
            window.read(1, &mut bytes);
            assert_eq!(bytes, [seal; LEN]);
            given_back.send(()).unwrap();
        }
    });
    all[0].shut_down();
}

/// Polls while the target has no room: that may wait for this rank in turn.
fn put(shm: &mut Shm, events: &mut Vec<Event>, put: &Put<'_>) {
    while shm.put(put).unwrap() == Posted::Busy {
        shm.poll(events).unwrap();
        std::thread::yield_now();
    }
}

/// As many as these ranks have, which are told that there is a crowd.
const CHUNKS: usize = ALL_CHUNKS.0;

/// Bytes of a put that takes more chunks than there are, in segments that are cut elsewhere.
const STREAM: usize = (CHUNKS + 1) * CHUNK + 3;
const CUTS: [usize; 4] = [1, CHUNK - 1, 2 * CHUNK + 7, CHUNK];

fn cut(mut offset: usize) -> Vec<Run> {
    let last = STREAM - CUTS.iter().sum::<usize>();
    let run = |&len: &usize| {
        offset += len;
        Run { offset: offset - len, len }
    };
    CUTS.iter().chain([&last]).map(run).collect()
}

#[test]
fn what_streams_lands_whole_from_every_source() {
    all_put_to_all(Way::Ring, &cut(0));
}

#[test]
#[cfg_attr(miri, ignore = "it has no process_vm_writev")]
fn what_both_ends_carry_lands_whole_from_every_source() {
    for _ in 0..20 {
        all_put_to_all(Way::Joint, &[Run { offset: 0, len: STREAM }]);
    }
}

/// Every rank puts to all others at the same time, from one memory and through the same few chunks.
fn all_put_to_all(way: Way, segments: &[Run]) {
    const RANKS: u32 = 3;
    let byte = |rank: u32, i: usize| (rank as usize * 7 + i * 31 + i / 251) as u8;
    let mut all = ranks_by(way, RANKS);
    let regions: Vec<Region> = all
        .iter_mut()
        .map(|shm| shm.register(Memory::zeroed((1 + RANKS as usize) * STREAM).unwrap()).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for mut shm in all {
            let regions = &regions;
            scope.spawn(move || {
                let rank = shm.place().rank;
                let from = &regions[rank as usize];
                from.memory.write(0, &(0..STREAM).map(|i| byte(rank, i)).collect::<Vec<_>>());
                let mut events = Vec::new();
                let (mut pending, mut told) = (Vec::new(), Vec::new());
                for peer in (0..RANKS).filter(|&peer| peer != rank) {
                    let (to, to_offset) =
                        (regions[peer as usize].remote.far, u64::from(1 + rank) * STREAM as u64);
                    let (report, token) = (Report::Sent, peer);
                    let put = Put {
                        peer,
                        from,
                        segments,
                        to,
                        to_offset,
                        notice: rank,
                        report,
                        token,
                        attended: true,
                        for_user: true,
                        gait: Gait::Straight,
                    };
                    let posted = loop {
                        match shm.put(&put).unwrap() {
                            Posted::Busy => shm.poll(&mut events).unwrap(),
                            posted => break posted,
                        }
                        std::thread::yield_now();
                    };
                    if posted == Posted::Pending {
                        pending.push(peer);
                    }
                }
                while told.len() < RANKS as usize - 1 || !pending.is_empty() {
                    shm.poll(&mut events).unwrap();
                    for event in events.drain(..) {
                        match event {
                            Event::Notice(source) => told.push(source),
                            Event::Sent(peer) => pending.retain(|&other| other != peer),
                            Event::Moved => {}
                        }
                    }
                    std::thread::yield_now();
                }
                told.sort_unstable();
                assert!(told.iter().copied().eq((0..RANKS).filter(|&source| source != rank)));
                for source in told {
                    let mut bytes = vec![0; STREAM];
                    from.memory.read((1 + source as usize) * STREAM, &mut bytes);
                    assert!((0..STREAM).all(|i| bytes[i] == byte(source, i)), "{source} to {rank}");
                }
            });
        }
    });
}

#[test]
fn a_stream_that_nobody_takes_is_let_go_of_at_the_end() {
    let mut all = ring_of(2);
    let long = (CHUNKS + 1) * CHUNK;
    let to = all[0].register(Memory::zeroed(long).unwrap()).unwrap();
    let memory = Memory::zeroed(long).unwrap();
    let from = all[1].register(memory.clone()).unwrap();
    let segments = [Run { offset: 0, len: long }];
    let (to, report) = (to.remote.far, Report::Sent);
    let put = Put {
        peer: 0,
        from: &from,
        segments: &segments,
        to,
        to_offset: 0,
        notice: 0,
        report,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    assert_eq!(all[1].put(&put).unwrap(), Posted::Pending);
    all[0].shut_down();
    let mut events = Vec::new();
    all[1].poll(&mut events).unwrap();
    assert!(events.is_empty() && !all[1].is_quiet(), "it may still be taken, as far as its source knows");
    all[1].shut_down();
    drop(from);
    assert_eq!(memory.holders(), 1);
}

/// A target and a source, with a put between them that the target knows of, and the source does not carry.
#[cfg(not(miri))]
fn offered() -> (Shm, Shm, [Region; 2]) {
    let mut all = ranks_by(Way::Joint, 2);
    let numbers: Vec<u8> = (0..STREAM).map(|i| (i * 31 + i / 251) as u8).collect();
    let regions = [0, 1].map(|rank| {
        let memory = Memory::zeroed(STREAM).unwrap();
        memory.write(0, &numbers[..STREAM * rank]);
        all[rank].register(memory).unwrap()
    });
    let segment = Run { offset: 0, len: STREAM };
    let put = Put {
        peer: 0,
        from: &regions[1],
        segments: &[segment],
        to: regions[0].remote.far,
        to_offset: 0,
        notice: 5,
        report: Report::Sent,
        token: 7,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    let Peer { card, board, chunks, .. } = &mut all[1].peers[0];
    let label = board.of(card, 2).ok().and_then(Board::chunks).unwrap();
    let joint = Joint::offer(&put, segment, 1, chunks.of(card, label).ok().unwrap()).unwrap();
    all[1].joint.push(joint);
    let source = all.pop().unwrap();
    (all.remove(0), source, regions)
}

#[test]
#[cfg(not(miri))]
fn a_target_whose_source_is_busy_carries_all_of_a_put_and_both_hear_of_it() {
    let (mut target, mut source, regions) = offered();
    let mut events = Vec::new();
    source.poll(&mut events).unwrap();
    assert!(events.is_empty() && !source.is_quiet() && !target.is_quiet());
    target.poll(&mut events).unwrap();
    assert_eq!(events, [Event::Moved], "a half at first, so that it hears of others between");
    target.poll(&mut events).unwrap();
    assert_eq!(events, [Event::Moved, Event::Notice(5)]);
    assert!(matches!(source.lie_down().unwrap(), Bed::Nowhere), "it has something to hear");
    events.clear();
    source.poll(&mut events).unwrap();
    assert_eq!(events, [Event::Sent(7)]);
    assert!(source.is_quiet() && target.is_quiet());
    let [landed, sent] = regions.map(|region| {
        let mut bytes = vec![0; STREAM];
        region.memory.read(0, &mut bytes);
        bytes
    });
    assert!(landed == sent);
}

#[test]
#[cfg(not(miri))]
fn of_a_source_that_has_shut_down_nothing_is_carried() {
    let (mut target, mut source, [landed, sent]) = offered();
    source.shut_down();
    let memory = sent.memory.clone();
    drop(sent);
    assert_eq!(memory.holders(), 1, "its user has it again");
    let mut events = Vec::new();
    target.poll(&mut events).unwrap();
    assert!(events.is_empty() && !target.has_arrivals(), "it may sleep until it is told");
    let mut bytes = vec![1; STREAM];
    landed.memory.read(0, &mut bytes);
    assert!(bytes.iter().all(|&byte| byte == 0));
}

/// Past the caches, where bytes are seen in any order if the notice does not come behind all of them.
#[test]
fn a_long_put_past_the_caches_is_seen_whole_when_its_notice_is() {
    const LEN: usize = if cfg!(miri) { 300 } else { 200_003 };
    const PUTS: u8 = if cfg!(miri) { 2 } else { 200 };
    const READ: Notice = 1000;
    let mut all = ring_of(2);
    let windows: Vec<Region> = all
        .iter_mut()
        .map(|shm| {
            let own = shm.allocate(2 * LEN).unwrap();
            shm.register(own).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for (rank, mut shm) in all.into_iter().enumerate() {
            let windows = &windows;
            scope.spawn(move || {
                let (from, peer) = (&windows[rank], 1 - rank as Rank);
                let to = windows[peer as usize].remote.far;
                let mut events = Vec::new();
                let mut exchange = |notice, len| {
                    let (segments, to_offset) = (&[Run { offset: 0, len }], LEN as u64);
                    let (report, token, attended) = (Report::Sent, 0, true);
                    let long = Put {
                        peer,
                        from,
                        segments,
                        to,
                        to_offset,
                        notice,
                        report,
                        token,
                        attended,
                        for_user: true,
                        gait: Gait::PastCaches,
                    };
                    put(&mut shm, &mut events, &long);
                    while !events.contains(&Event::Notice(notice)) {
                        shm.poll(&mut events).unwrap();
                        std::thread::yield_now();
                    }
                    events.retain(|event| *event != Event::Notice(notice));
                };
                for i in 1..=PUTS {
                    from.memory.write(0, &[i; LEN]);
                    exchange(i.into(), LEN);
                    let mut seen = vec![0; LEN];
                    from.memory.read(LEN, &mut seen);
                    assert!(seen.iter().all(|&byte| byte == i), "put {i}");
                    // Not before may the peer write there again.
                    exchange(READ, 0);
                }
            });
        }
    });
}

/// Each rank puts a word of its own into all others' memory, of both kinds, and rank 0 ends while others put.
#[test]
fn a_put_is_seen_whole_when_its_notice_is() {
    const RANKS: u32 = 3;
    const PUTS: u32 = if cfg!(miri) { 3 } else { 1000 };
    const WORD: usize = 8;
    let places = RANKS * PUTS;
    let mut all = ring_of(RANKS);
    let regions: Vec<[Region; 2]> = all
        .iter_mut()
        .map(|shm| {
            let own = shm.allocate(places as usize * WORD).unwrap();
            [own, Memory::zeroed(places as usize * WORD).unwrap()].map(|memory| shm.register(memory).unwrap())
        })
        .collect();
    let heard_all = std::sync::Barrier::new(RANKS as usize);
    std::thread::scope(|scope| {
        for mut shm in all {
            let (regions, heard_all) = (&regions, &heard_all);
            scope.spawn(move || {
                let rank = shm.place().rank;
                let [from, _] = &regions[rank as usize];
                let word = |source: u32, i: u32| u64::from(1 + source * PUTS + i).to_ne_bytes();
                let own = [Run { offset: rank as usize * PUTS as usize * WORD, len: WORD }];
                let mut events = Vec::new();
                for i in 0..PUTS {
                    from.memory.write(own[0].offset, &word(rank, i));
                    for peer in (0..RANKS).filter(|&peer| peer != rank) {
                        for (kind, region) in (0..).zip(&regions[peer as usize]) {
                            let place = rank * PUTS + i;
                            let notice = kind * places + place;
                            let (to, to_offset) = (region.remote.far, u64::from(place) * WORD as u64);
                            let report = Report::Sent;
                            put(
                                &mut shm,
                                &mut events,
                                &Put {
                                    peer,
                                    from,
                                    segments: &own,
                                    to,
                                    to_offset,
                                    notice,
                                    report,
                                    token: 0,
                                    attended: true,
                                    for_user: true,
                                    gait: Gait::Straight,
                                },
                            );
                        }
                    }
                    shm.poll(&mut events).unwrap();
                }
                let awaited = 2 * (RANKS - 1) * PUTS;
                let mut seen = 0;
                while seen < awaited {
                    shm.sleep(&[], Duration::from_millis(1)).unwrap();
                    shm.poll(&mut events).unwrap();
                    for event in events.drain(..) {
                        let Event::Notice(notice) = event else { panic!("{event:?}") };
                        let (kind, place) = (notice / places, notice % places);
                        let mut bytes = [0; WORD];
                        regions[rank as usize][kind as usize].memory.read(place as usize * WORD, &mut bytes);
                        assert_eq!(bytes, word(place / PUTS, place % PUTS));
                        seen += 1;
                    }
                }
                heard_all.wait();
                if rank == 0 {
                    shm.shut_down();
                    // Nobody is inside the gate any more.
                    regions[0]
                        .iter()
                        .for_each(|region| region.memory.write(0, &vec![0; region.memory.len()]));
                } else {
                    let to = regions[0][0].remote.far;
                    let (to_offset, report) = (own[0].offset as u64, Report::Sent);
                    shm.put(&Put {
                        peer: 0,
                        from,
                        segments: &own,
                        to,
                        to_offset,
                        notice: 0,
                        report,
                        token: 0,
                        attended: true,
                        for_user: true,
                        gait: Gait::Straight,
                    })
                    .unwrap();
                }
            });
        }
    });
}

fn alone() -> Shm {
    let mut shm = Shm::open(Place { rank: 0, size: 1 }).unwrap();
    shm.connect(&[shm.card().unwrap()]).unwrap();
    shm
}

#[test]
fn who_spares_others_their_fences_looks_again_before_it_sleeps_for_long() {
    let mut shm = Shm::among(0, [0].into(), false).unwrap();
    for _ in 0..2 {
        assert!(matches!(shm.lie_down().unwrap(), Bed::Until(_)));
        shm.rise(Woken::InTime);
        assert!(!shm.board.alarm().must_ring(Fences::Both), "nobody need wake it");
    }
    let mut shm = alone();
    if shm.board.fences() == Fences::Both {
        return eprintln!("no process can fence for others here");
    }
    // So far ahead that nothing has been long enough ago.
    let lies_down = |shm: &mut Shm, since: Instant| {
        shm.lain = since;
        matches!(shm.lie_down().unwrap(), Bed::Soon(..))
    };
    let (now, ahead) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
    assert!(lies_down(&mut shm, now), "its alarm was not set");
    shm.rise(Woken::InTime);
    assert!(lies_down(&mut shm, ahead), "it was not so long ago");
    shm.rise(Woken::InTime);
    assert!(!lies_down(&mut shm, now - STORED));
    shm.rise(Woken::InTime);
    assert!(shm.board.alarm().must_ring(shm.board.fences()), "it is about to look");
    for woken in [Woken::Rung, Woken::Otherwise] {
        assert!(lies_down(&mut shm, now - STORED), "its alarm was not set");
        shm.rise(woken);
        assert!(!shm.board.alarm().must_ring(shm.board.fences()), "it is awake");
    }
}

#[test]
fn one_rank_that_may_not_write_lets_all_go_through_the_ring_unless_writing_is_wanted() {
    let free = Findings::default();
    let forbidden = Findings { unwritable: Some("rank 0: process_vm_writev: EPERM".into()), ..free.clone() };
    let mut shm = alone();
    let mut way = |findings: [&Findings; 2], wanted, crowded| {
        let vicinity = Vicinity { crowded, ..Vicinity::default() };
        shm.agree(&findings.map(Clone::clone), wanted, vicinity).map(|()| shm.way())
    };
    assert_eq!(way([&free, &free], None, false).unwrap(), Way::Joint);
    assert_eq!(way([&free, &free], None, true).unwrap(), Way::Writev, "the target has no core of its own");
    assert_eq!(way([&free, &forbidden], None, true).unwrap(), Way::Ring);
    for wanted in [Way::Joint, Way::Writev] {
        assert_eq!(way([&free, &free], Some(wanted), true).unwrap(), wanted);
        let error = way([&free, &forbidden], Some(wanted), true).unwrap_err().to_string();
        assert!(
            error.contains("rank 1 may not reach the memory of rank 0") && error.contains("unset"),
            "{error}"
        );
    }
}

#[test]
fn where_memory_may_be_written_and_not_read_the_source_copies_alone_or_chunks_do() {
    let free = Findings::default();
    let unreadable = Findings { unreadable: Some("rank 0: process_vm_readv: EPERM".into()), ..free.clone() };
    let mut shm = alone();
    let mut way = |wanted, crowded| {
        let vicinity = Vicinity { crowded, ..Vicinity::default() };
        shm.agree(&[free.clone(), unreadable.clone()], wanted, vicinity).map(|()| shm.way())
    };
    assert_eq!([way(None, false), way(None, true)], [Ok(Way::Ring), Ok(Way::Writev)]);
    assert_eq!(way(Some(Way::Writev), false), Ok(Way::Writev));
    let error = way(Some(Way::Joint), false).unwrap_err().to_string();
    assert!(error.contains("rank 1 may not reach the memory of rank 0: process_vm_readv"), "{error}");
}

/// Bytes of a put that streams to near ranks, or is copied by the kernel: in pieces of which the first 16 are half a MiB, and 17 more. One in
/// 16 of its chunks is timed, none of which is the last one.
const BESIDE: usize = (1 << 20) + CHUNK;

/// Two ranks that are near each other, the memory of one and of the other, and where puts come from and go to.
struct Neighbours {
    source: Shm,
    target: Shm,
    memories: [Memory; 2],
    from: Region,
    to: Region,
}

impl Neighbours {
    fn new(rounds: bool) -> Self {
        let [mut source, mut target] = <[Shm; 2]>::try_from(connected(2)).ok().unwrap();
        for shm in [&mut source, &mut target] {
            let vicinity = Vicinity { near: [true; 2].into(), rounds, ..Vicinity::default() };
            shm.agree(&[Findings::default()], None, vicinity).unwrap();
        }
        let memories = [(); 2].map(|()| Memory::zeroed(BESIDE).unwrap());
        let from = source.register(memories[0].clone()).unwrap();
        let to = target.register(memories[1].clone()).unwrap();
        Neighbours { source, target, memories, from, to }
    }

    /// Writes what is to be put, and nothing where it goes.
    fn fill(&self, bytes: &[u8]) {
        self.memories[0].write(0, bytes);
        self.memories[1].write(0, &[0; BESIDE]);
    }

    fn landed(&self) -> Vec<u8> {
        let mut landed = vec![0; BESIDE];
        self.memories[1].read(0, &mut landed);
        landed
    }

    fn receive(&mut self, notice: u32) {
        let mut events = Vec::new();
        while !events.contains(&Event::Notice(notice)) {
            self.source.poll(&mut Vec::new()).unwrap();
            self.target.poll(&mut events).unwrap();
        }
    }

    fn with_put<T>(&mut self, notice: u32, make: impl FnOnce(&mut Shm, &Put<'_>) -> T) -> T {
        let put = Put {
            peer: 1,
            from: &self.from,
            segments: &[Run { offset: 0, len: BESIDE }],
            to: self.to.remote.near,
            to_offset: 0,
            notice,
            report: Report::Sent,
            token: 0,
            attended: true,
            for_user: true,
            gait: Gait::Straight,
        };
        make(&mut self.source, &put)
    }
}

/// Bytes that differ from place to place.
fn numbered(content: u8) -> Vec<u8> {
    (0..BESIDE).map(|i| (i % 251) as u8 ^ content).collect()
}

/// Between cores that share a cache, where chunks do not go round: what is new goes through them, what rests is copied by the
/// kernel, by the end that is there.
#[test]
#[cfg_attr(miri, ignore = "it has no process_vm_writev")]
fn what_rests_in_private_memory_goes_beside_the_chunks() {
    let beside = |rounds, is_rewritten, contents: &[u8]| {
        let mut both = Neighbours::new(rounds);
        both.from.is_rewritten = is_rewritten;
        let one_more = |(&content, time)| {
            both.fill(&numbered(content));
            let is_beside = both.with_put(time, |source, put| {
                assert_ne!(source.put(put).unwrap(), Posted::Busy);
                source.outflow.is_empty()
            });
            both.receive(time);
            assert!(both.landed() == numbered(content), "put {time}");
            is_beside
        };
        contents.iter().zip(1..).map(one_more).collect::<Vec<_>>()
    };
    assert_eq!(beside(false, false, &[7, 7, 7, 8, 8]), [false, true, true, false, true]);
    assert_eq!(beside(false, true, &[7; 4]), [false; 4], "it was written again");
    assert_eq!(beside(true, false, &[7; 4]), [false; 4], "chunks go round");
}

/// A look sees some words only: all that has changed comes nevertheless.
#[test]
#[cfg_attr(miri, ignore = "it has no process_vm_writev")]
fn what_no_look_sees_comes_beside_the_chunks_too() {
    let mut both = Neighbours::new(false);
    let mut bytes = numbered(0);
    let mut unseen = 0;
    for time in 1..=100 {
        bytes[time as usize * 9973] ^= 255;
        both.fill(&bytes);
        unseen += u32::from(both.with_put(time, |source, put| {
            assert_ne!(source.put(put).unwrap(), Posted::Busy);
            source.outflow.is_empty()
        }));
        both.receive(time);
        assert!(both.landed() == bytes, "put {time}");
    }
    assert!(unseen > 50, "{unseen} of 100");
}

#[test]
#[cfg_attr(miri, ignore = "it has no process_vm_writev")]
fn each_end_carries_its_own_pieces() {
    let mut both = Neighbours::new(false);
    both.fill(&numbered(3));
    let offered = both.with_put(1, |source, put| {
        let Shm { place: Place { rank: own, size }, peers, bells, lives, .. } = source;
        let mut reach = Reach { own: *own, ranks: *size as usize, peers, bells, lives };
        match joint::begin(put, put.segments[0], &mut reach).unwrap() {
            joint::Begun::Offered(offered) => offered,
            _ => panic!("there is a chunk for it"),
        }
    });
    both.target.poll(&mut Vec::new()).unwrap();
    const HALF: usize = 512 << 10;
    assert!(both.landed()[HALF..] == numbered(3)[HALF..] && both.landed()[..HALF] == [0; HALF]);
    let Shm { place: Place { rank: own, size }, peers, bells, lives, .. } = &mut both.source;
    offered.carry(&mut Reach { own: *own, ranks: *size as usize, peers, bells, lives }).unwrap();
    both.receive(1);
    assert!(both.landed() == numbered(3));
}

/// Nobody reads what rests where it lies whose source has no core, nor what is short and near on a processor where slots go round.
#[test]
#[cfg_attr(miri, ignore = "its cores have no caches")]
fn what_rests_is_shown_for_a_slot_where_that_takes_less() {
    let rests = |crowded, rounds, far, len| {
        let mut shm = connected(2).swap_remove(0);
        shm.agree(&[Findings::default()], None, Vicinity { crowded, rounds, ..Vicinity::default() }).unwrap();
        if far {
            shm.be_far();
        }
        let (memory, segments) = (Memory::zeroed(len).unwrap(), [Run { offset: 0, len }]);
        [1, 2].map(|call| shm.rests(1, Sight { call: (call, 0), memory: &memory, segments: &segments }))
    };
    assert_eq!(rests(false, false, false, 4096), [false, true]);
    assert_eq!(rests(false, true, true, 4096), [false, true]);
    assert_eq!(rests(false, true, false, SHOWN_NEAR - 1), [false; 2], "slots go round");
    assert_eq!(rests(false, true, false, SHOWN_NEAR), [false, true], "and are long");
    for (rounds, far) in [(false, false), (true, true), (true, false)] {
        assert_eq!(rests(true, rounds, far, SHOWN_NEAR), [false; 2], "no core of its own");
    }
}

/// In a crowd, by the way that nobody has named: to who shares a cache through chunks, where a put that finds too few
/// leaves the rest until they are emptied, to others by the kernel at once.
#[test]
#[cfg_attr(miri, ignore = "it has no process_vm_writev")]
fn in_a_crowd_what_is_long_streams_between_cores_that_share_a_cache() {
    const LEN: usize = 1 << 20;
    let posted = |near: bool, cache: Option<u64>, attended: bool, len: usize| {
        let mut all = connected(2);
        for shm in &mut all {
            let near = vec![near; 2].into();
            shm.agree(&[Findings::default()], None, Vicinity { near, cache, ..crowd() }).unwrap();
        }
        let [source, target] = [(); 2].map(|()| Memory::zeroed(len).unwrap());
        let mut bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        source.write(0, &bytes);
        let (from, to) = (all[0].register(source).unwrap(), all[1].register(target.clone()).unwrap());
        let (half, rest) = (len / 2, len - len / 2);
        let put = Put {
            peer: 1,
            from: &from,
            segments: &[Run { offset: half, len: rest }, Run { offset: 0, len: half }],
            to: to.remote.near,
            to_offset: 0,
            notice: 1,
            report: Report::Sent,
            token: 0,
            attended,
            for_user: true,
            gait: Gait::Straight,
        };
        let posted = all[0].put(&put).unwrap();
        assert_ne!(posted, Posted::Busy);
        let mut events = Vec::new();
        for _ in 0..2 * len / board::CHUNK {
            all[0].poll(&mut Vec::new()).unwrap();
            all[1].poll(&mut events).unwrap();
        }
        assert!(events.contains(&Event::Notice(1)));
        let mut landed = vec![0; len];
        target.read(0, &mut landed);
        bytes.rotate_left(half);
        assert!(landed == bytes);
        posted
    };
    assert_eq!(posted(true, None, true, LEN), Posted::Pending, "in chunks, of which there are too few");
    assert_eq!(
        posted(true, Some(u64::MAX), true, LEN),
        Posted::Done,
        "as many as a large cache has room for"
    );
    for (near, attended, len) in [(false, true, LEN), (true, false, LEN), (true, true, *TRAFFIC.end() + 1)] {
        assert_eq!(posted(near, None, attended, len), Posted::Done, "{near}, {attended}, {len}");
    }
}

#[test]
fn one_rank_that_does_not_reach_its_peer_is_named_to_all() {
    let lost = Findings { unreachable: Some("rank 2: it is not in /proc".into()), ..Findings::default() };
    let error = alone().agree(&[Findings::default(), lost], None, Vicinity::default()).unwrap_err();
    assert_eq!(error.to_string(), "no transport: shm (rank 1 does not reach rank 2: it is not in /proc)");
}

#[test]
fn what_breaks_the_contract_is_refused_with_its_numbers() {
    let mut shm = alone();
    let memory = shm.allocate(4096).unwrap();
    let region = shm.register(memory).unwrap();
    let good = [Run { offset: 0, len: 4096 }];
    let report = Report::Sent;
    let put = |peer, segments, to_offset| Put {
        peer,
        from: &region,
        segments,
        to: region.remote.far,
        to_offset,
        notice: 0,
        report,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    let outside = [Run { offset: 1, ..good[0] }];
    for bad in [put(1, &good, 0), put(0, &outside, 0)] {
        let error = shm.put(&bad).unwrap_err();
        assert!(matches!(error, Error::Argument { .. }) && error.to_string().contains("4096"), "{error}");
    }
    // What the target has told is not the caller's fault.
    for bad in [put(0, &good, 1), put(0, &good, u64::MAX)] {
        let error = shm.put(&bad).unwrap_err();
        let words = "of a window of 4096 at rank 0";
        assert!(matches!(error, Error::Transport { .. }) && error.to_string().contains(words), "{error}");
    }
    assert_eq!(shm.put(&put(0, &good, 0)), Ok(Posted::Done));
}

#[test]
fn a_put_to_oneself_beyond_ones_regions_is_refused_and_nothing_is_written() {
    for way in Way::ALL {
        let mut shm = ranks_by(way, 1).remove(0);
        let mut memory = Memory::zeroed(100).unwrap();
        assert!(memory.fill(7));
        let region = shm.register(memory.clone()).unwrap();
        assert!(!memory.fill(8), "the region has it, too");
        let alien = Box::new([1_u8; 8]);
        let near = region.remote.near;
        let stray = RemoteKey { base: alien.as_ptr() as u64, ..near };
        let unknown = RemoteKey { key: near.key + 1, ..near };
        for (to, to_offset) in [(stray, 0), (unknown, 0), (near, 93), (near, u64::MAX)] {
            let put = Put {
                peer: 0,
                from: &region,
                segments: &[Run { offset: 0, len: 8 }],
                to,
                to_offset,
                notice: 1,
                report: Report::Never,
                token: 0,
                attended: true,
                for_user: true,
                gait: Gait::Straight,
            };
            let error = shm.put(&put).unwrap_err().to_string();
            assert!(error.contains("8 bytes at "), "{error}");
        }
        assert_eq!(*alien, [1; 8]);
    }
}

#[test]
fn a_window_that_was_put_away_is_no_more_found_though_its_descriptor_is_another_ones() {
    let mut shm = alone();
    let region = |shm: &mut Shm| {
        let memory = shm.allocate(64).unwrap();
        shm.register(memory).unwrap()
    };
    let from = region(&mut shm);
    let stale = region(&mut shm).remote.far;
    let later = region(&mut shm);
    assert_ne!(stale, later.remote.far);
    let segments = &[Run { offset: 0, len: 64 }];
    let report = Report::Sent;
    let put = Put {
        peer: 0,
        from: &from,
        segments,
        to: stale,
        to_offset: 0,
        notice: 0,
        report,
        token: 0,
        attended: true,
        for_user: true,
        gait: Gait::Straight,
    };
    let error = shm.put(&put).unwrap_err().to_string();
    // Its number may be another test's by now, or nobody's.
    let gone = ["the window of rank 0 is no more what it was", "window is gone from /proc"];
    assert!(gone.iter().any(|words| error.contains(words)), "{error}");
    shm.put(&Put { to: later.remote.far, ..put }).unwrap();
}

#[test]
fn a_rank_that_ends_tells_whom_it_waits_for_and_ends_when_that_one_goes_on() {
    let shm = alone();
    let gate = shm.board.gate();
    let mut inside = gate.enter(0);
    assert!(inside.is_some());
    let mut told = Vec::new();
    shm.close_gate(Duration::ZERO, |peer| {
        told.push(stays_inside(peer));
        inside = None;
    });
    assert!(
        matches!(&told[..], [one] if one.contains("rank 0 (pid ") && one.contains("kill -CONT")),
        "{told:?}"
    );
}
