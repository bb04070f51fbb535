//! Ranks as threads, over this machine's loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::*;
use crate::boot::fault::{self, told};
use crate::boot::frame::HEAD_BYTES;

const LIMIT: Duration = Duration::from_secs(60);

/// What each rank comes to that opens a door, learns its neighbours' doors, and does this with its own.
fn each<T: Send>(size: u32, act: impl Fn(Door, Place, &[Vec<u8>]) -> T + Sync) -> Vec<T> {
    let doors: Vec<_> = (0..size).map(|_| Door::open(Scope::Loopback).unwrap()).collect();
    let cards: Vec<_> = doors.iter().map(Door::card).collect();
    let (act, cards) = (&act, &cards);
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .zip(doors)
            .map(|(rank, door)| {
                scope.spawn(move || {
                    let place = Place { rank, size };
                    let theirs: Vec<_> =
                        callees(place).iter().map(|&to| cards[to as usize].clone()).collect();
                    act(door, place, &theirs)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn connect(door: Door, place: Place, doors: &[Vec<u8>]) -> Result<Graph> {
    Graph::connect(door, place, doors, "the test".into(), LIMIT)
}

fn card(rank: Rank, gather: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + gather * 31 + rank as usize * 13) as u8).collect()
}

#[test]
fn every_rank_gets_every_card_in_rank_order() {
    for size in (1..=9).chain([31, 32, 33]) {
        each(size, |door, place, doors| {
            let mut graph = connect(door, place, doors).unwrap();
            for (gather, len) in [0, 1, 700, CARD_BYTES].into_iter().enumerate() {
                let all = graph.gather(&card(place.rank, gather, len)).unwrap();
                let expected: Vec<_> = (0..size).map(|rank| card(rank, gather, len)).collect();
                assert!(all == expected, "gather {gather} over {size} ranks on rank {}", place.rank);
            }
        });
    }
}

#[test]
fn a_rank_has_few_neighbours_and_all_of_them_are_asked() {
    for size in [1, 2, 3, 64, 100, 4096] {
        let callees = callees(Place { rank: size - 1, size });
        assert_eq!(callees.len() as u32, size.next_power_of_two().ilog2());
    }
}

#[test]
fn strangers_are_dropped_and_hold_up_nobody() {
    let all = each(3, |door, place, doors| {
        let at = read_door_card(&door.card()).unwrap().1[0];
        let greeting = |words: Words| words.greeting(place.before(1), place.rank);
        let wrong =
            [&b"GET / HTTP/1.1\r\n\r\n                "[..], &greeting(Words::default()), &[0xff; 100]];
        let _silent = TcpStream::connect(at).unwrap();
        let _strangers = wrong.map(|bytes| {
            let mut stranger = TcpStream::connect(at).unwrap();
            stranger.write_all(bytes).unwrap();
            stranger
        });
        connect(door, place, doors).and_then(|mut graph| graph.gather(&[place.rank as u8]))
    });
    assert!(all.into_iter().all(|all| all.unwrap() == [[0], [1], [2]]));
}

#[test]
fn another_version_is_an_error_where_the_words_are_right() {
    let error = each(2, |door, place, doors| {
        let (words, at) = read_door_card(&doors[0]).unwrap();
        if place.rank == 1 {
            let mut old = words.greeting(1, 0);
            old[MAGIC.len()] = 9;
            let mut peer = TcpStream::connect(at[0]).unwrap();
            peer.write_all(&old).unwrap();
            // Its own door stays until it is called.
            drop(connect(door, place, doors));
            return None;
        }
        connect(door, place, doors).err()
    });
    let error = error[0].as_ref().unwrap().to_string();
    assert!(
        error.contains("a rank speaks version 9 of the rendezvous, this one speaks version 2"),
        "{error}"
    );
}

#[test]
fn a_rank_that_never_connects_is_named_by_all_its_neighbours() {
    let results = each(5, |door, place, doors| match place.rank {
        2 => {
            // The kernel accepts for it, as for a process that is stopped.
            thread::sleep(Duration::from_millis(1500));
            drop(door);
            None
        }
        _ => Graph::connect(door, place, doors, "the test".into(), Duration::from_secs(1)).err(),
    });
    for error in results.into_iter().flatten().map(|error| error.to_string()) {
        assert!(error.contains("2 did not connect with rank"), "{error}");
    }
}

/// What all others come to when rank 4 of 9 does this with its graph.
fn others_say(act: impl Fn(Graph) + Sync) -> Vec<String> {
    let results = each(9, |door, place, doors| {
        let mut graph = connect(door, place, doors)?;
        match place.rank {
            4 => {
                act(graph);
                Ok(vec![])
            }
            _ => graph.gather(b"card"),
        }
    });
    let others = results.into_iter().enumerate().filter(|&(rank, _)| rank != 4);
    others.map(|(_, result)| result.unwrap_err().to_string()).collect()
}

#[test]
fn a_rank_that_dies_is_named_on_all() {
    for error in others_say(drop) {
        assert!(error.contains("rank 4 has disconnected"), "{error}");
    }
}

#[test]
fn a_rank_that_sends_nonsense_is_named_on_all() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &frame(Kind::Cards, b"abc"), &frame(Kind::Welcome, b"")] {
        let say = |mut graph: Graph| {
            graph.targets.iter_mut().for_each(|target| target.send(bytes));
            // Ended by those who have understood.
            assert!(graph.gather(b"card").is_err());
        };
        for error in others_say(say) {
            assert!(error.contains("rank 4 sent "), "{error}");
        }
    }
}

#[test]
fn an_error_of_one_is_the_error_of_all() {
    let give_up = |mut graph: Graph| tell(graph.links(), &Error::boot("no luck", "try again"));
    for error in others_say(give_up) {
        assert_eq!(error, "boot: no luck; try again");
    }
}

/// What rank 0 of 3 comes to that finds rank 2 gone, while somebody says this at its door; and what that one is told.
fn beside_a_rank_that_is_gone(says: impl Fn(Words) -> Vec<u8> + Sync) -> (String, String) {
    let gone = Barrier::new(3);
    let mut results = each(3, |door, place, doors| match place.rank {
        0 => {
            gone.wait();
            connect(door, place, doors).err().unwrap().to_string()
        }
        1 => {
            // Rank 0 is the second that rank 1 calls.
            let (words, at) = read_door_card(&doors[1]).unwrap();
            let mut guest = TcpStream::connect(at[0]).unwrap();
            guest.write_all(&says(words)).unwrap();
            gone.wait();
            let mut answer = Vec::new();
            guest.read_to_end(&mut answer).unwrap();
            let is_error = answer.first() == Some(&(Kind::Error as u8));
            if is_error { told(&answer[HEAD_BYTES..]).to_string() } else { String::new() }
        }
        _ => {
            drop(door);
            gone.wait();
            String::new()
        }
    });
    (std::mem::take(&mut results[0]), std::mem::take(&mut results[1]))
}

#[test]
fn who_stands_before_the_gate_hears_why_it_closes() {
    let (zero, guest) = beside_a_rank_that_is_gone(|_| vec![]);
    assert!(zero.contains("rank 2 cannot be reached"), "{zero}");
    assert_eq!(guest, zero);
}

#[test]
fn who_knows_more_is_believed_before_a_rank_that_cannot_be_reached_is_blamed() {
    let news = frame(Kind::Error, &fault::words(&Error::boot("no luck", "try again")));
    // One that has got no further than to greet, and one that was ahead when it heard.
    let ahead = [frame(Kind::Welcome, &[]), frame(Kind::Cards, b"card")].concat();
    for before in [&[][..], &ahead] {
        let (zero, _) =
            beside_a_rank_that_is_gone(|words| [&words.greeting(1, 0), before, news.as_slice()].concat());
        assert_eq!(zero, "boot: no luck; try again");
    }
}
