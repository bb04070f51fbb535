//! Calls that are made again and again, each rank in a thread of its own: what went along its line, what was left to
//! its run on the way, what came too early, what is too long for a slot, and what two ranks share the work of
//! give the serial result alike.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::tests::{faulty, on_threads, said_of_different_calls};
use super::*;
use crate::comm::request::Prepared;
use crate::engine::operation::shown;
use crate::fold::element::Element;
use crate::fold::{self, Sum};
use crate::transport::faulty::{Faults, Faulty};
use crate::transport::shm::{ABREAST, ROUNDS, SHOWN_AFAR, Shm, Vicinity};
use crate::transport::{Caches, Gait};

/// Times that each call is made.
const TIMES: u64 = 30;
/// Elements of a part, or vector, that travels in slots, of one that does not, and of one that two ranks share.
const SHORT: usize = 3;
const LONG: usize = 1500;
const SHARED: usize = 10_000;
/// Of how many ranks vectors are so long.
const FEW: u32 = 3;

/// What rank `rank` brings at a time.
fn value(rank: Rank, time: u64) -> u64 {
    u64::from(rank + 1) * 1_000_003 + time * 7
}

/// `len` elements that begin with `first`.
fn from(first: u64, len: usize) -> impl Iterator<Item = u64> {
    (first..).take(len)
}

/// All calls of one time, of so many elements, on two communicators in turn.
fn all_calls(comm: &Communicator, other: &Communicator, time: u64, len: usize) {
    let (p, me) = (comm.size(), comm.rank());
    let root = (time % u64::from(p)) as Rank;
    let own = || from(value(me, time), len).collect::<Vec<_>>();
    let sums: Vec<u64> = (0..len as u64).map(|i| (0..p).map(|rank| value(rank, time) + i).sum()).collect();
    let everything: Vec<u64> = (0..p).flat_map(|rank| from(value(rank, time), len)).collect();
    let own_place = me as usize * len..(me as usize + 1) * len;

    let mut one = own();
    comm.run(&mut one, Call::broadcast(root)).unwrap();
    assert!(one.into_iter().eq(from(value(root, time), len)));

    let first = time;
    for time in [first, first + 1] {
        let mut one: Vec<_> = from(value(me, time), len).collect();
        comm.run(&mut one, by_hand(root, first)).unwrap();
        assert!(one.into_iter().eq(from(value(root, time), len)));
    }

    let mut one = own();
    other.run(&mut one, Call::allreduce(Sum)).unwrap();
    assert_eq!(one, sums);

    let mut window = comm.window(len).unwrap();
    window.copy_from_slice(&own());
    comm.run_window(&mut window, Call::reduce(root, Sum)).unwrap();
    assert!(me != root || window[..] == sums);
    comm.barrier().unwrap();

    let mut all = vec![0; p as usize * len];
    all[own_place.clone()].copy_from_slice(&own());
    comm.run(&mut all, Call::allgather()).unwrap();
    assert_eq!(all, everything);

    let mut each = everything.clone();
    comm.run(&mut each, Call::reduce_scatter_block(Sum)).unwrap();
    assert!(each[own_place].iter().copied().eq(from(value(me, time), len).map(|one| one * u64::from(p))));

    // Rank r has r mod 3 parts, and nobody but rank 0 any at times.
    let parts = |rank| if time.is_multiple_of(2) { rank % 3 } else { usize::from(rank == 0) };
    let counts: Vec<usize> = (0..p as usize).map(|rank| parts(rank) * len).collect();
    let of = |rank: Rank| from(value(rank, time), counts[rank as usize]);
    let before = (0..p).flat_map(|rank| of(rank).map(move |one| if rank == me { one } else { 0 }));
    let mut parts: Vec<u64> = before.collect();
    comm.run(&mut parts, Call::allgatherv(&counts)).unwrap();
    assert!(parts.into_iter().eq((0..p).flat_map(of)));

    let to_each = (0..p).flat_map(|to| from(value(me, time + u64::from(to)), len));
    let mut both: Vec<u64> = to_each.chain(vec![0; p as usize * len]).collect();
    other.run(&mut both, Call::alltoall()).unwrap();
    let from_each = (0..p).flat_map(|rank| from(value(rank, time + u64::from(me)), len));
    assert!(both.into_iter().skip(p as usize * len).eq(from_each));

    // Digits in the order of ranks: no two orders give the same.
    let digit = |rank: Rank, i: usize| [(u64::from(rank) + i as u64) % 9 + 1, 10];
    let right = |i| (1..p).fold(digit(0, i), |all, rank| join(&all, &digit(rank, i)));
    let mut digits: Vec<_> = (0..len).map(|i| digit(me, i)).collect();
    let mut window = comm.window(len).unwrap();
    window.copy_from_slice(&digits);
    comm.run(&mut digits, Call::allreduce(fold::ordered(join))).unwrap();
    comm.run_window(&mut window, Call::reduce(root, fold::ordered(join))).unwrap();
    assert!((0..len).all(|i| digits[i] == right(i) && (me != root || window[i] == right(i))));
}

/// A broadcast by a name, or in a number of blocks, that changes with time.
fn by_hand(root: Rank, time: u64) -> Call<u64> {
    let call = Call::broadcast(root);
    match time % 4 {
        0 => call.algorithm("mst"),
        1 => call.algorithm("linear"),
        2 => call.algorithm("circulant").blocks(3),
        _ => call.blocks(2),
    }
}

/// Digits behind digits, each with the power of ten that its successors shift it by.
fn join(a: &[u64; 2], b: &[u64; 2]) -> [u64; 2] {
    [a[0].wrapping_mul(b[1]).wrapping_add(b[0]), a[1].wrapping_mul(b[1])]
}

/// Prepared calls, of which the root of one runs ahead of all others.
struct Again {
    from_root: Prepared<u64>,
    sums: Prepared<u64>,
    digits: Prepared<[u64; 2]>,
}

impl Again {
    fn new(comm: &Communicator) -> Again {
        let window = || comm.window(SHORT).unwrap();
        Again {
            from_root: comm.prepare(window(), Call::broadcast(0)).unwrap(),
            sums: comm.prepare(window(), Call::allreduce(Sum)).unwrap(),
            digits: comm.prepare(comm.window(SHORT).unwrap(), Call::allreduce(fold::ordered(join))).unwrap(),
        }
    }

    /// Runs each; the first one several times, and begun and waited for in between.
    fn run(&mut self, place: Place, time: u64) {
        let Place { rank: me, size: p } = place;
        for time in 4 * time..4 * time + 4 {
            set(&mut self.from_root, from(value(me, time), SHORT));
            match time % 4 {
                2 => self.from_root.start().unwrap().wait().unwrap(),
                _ => self.from_root.run().unwrap(),
            }
            assert!(self.from_root.window().unwrap().iter().copied().eq(from(value(0, time), SHORT)));
        }
        set(&mut self.sums, from(value(me, time), SHORT));
        self.sums.run().unwrap();
        let sum = |i| (0..p).map(|rank| value(rank, time) + i).sum::<u64>();
        assert!(self.sums.window().unwrap().iter().copied().eq((0..SHORT as u64).map(sum)));
        let digit = |rank: Rank| [(u64::from(rank) + time) % 9 + 1, 10];
        set(&mut self.digits, std::iter::repeat_n(digit(me), SHORT));
        self.digits.run().unwrap();
        let right = (1..p).fold(digit(0), |all, rank| join(&all, &digit(rank)));
        assert!(self.digits.window().unwrap().iter().all(|found| *found == right));
    }
}

fn set<T: Element>(prepared: &mut Prepared<T>, values: impl Iterator<Item = T>) {
    prepared.window().unwrap().iter_mut().zip(values).for_each(|(one, value)| *one = value);
}

fn again_and_again(comms: Vec<Communicator>) {
    on_threads(comms, |comm| {
        let other = comm.duplicate().unwrap();
        let mut again = Again::new(&comm);
        for time in 0..TIMES {
            again.run(Place { rank: comm.rank(), size: comm.size() }, time);
            all_calls(&comm, &other, time, SHORT);
            if time % 5 < 2 {
                all_calls(&comm, &other, time / 5, LONG);
            }
            if time % 5 < 2 && comm.size() <= FEW {
                all_calls(&comm, &other, time / 5, SHARED);
            }
        }
    });
}

#[test]
fn calls_that_are_repeated_give_the_serial_result() {
    for p in [1, 2, 3, 5, 8, 16] {
        again_and_again(Communicator::loopback(p, u64::from(p)).unwrap());
    }
}

#[test]
fn a_transport_that_is_busy_and_late_changes_nothing() {
    for p in [2, 3, 4, 7] {
        again_and_again(faulty(p, 3, Faults { refuse: 60, delay: 100, lose: 0 }));
    }
}

/// Ranks of one process that share memory as processes do, perhaps by a transport that is made worse.
fn sharing(p: u32, worse: impl Fn(Shm) -> Box<dyn Transport>) -> Vec<Communicator> {
    let mut all: Vec<_> = (0..p).map(|rank| Shm::open(Place { rank, size: p }).unwrap()).collect();
    let cards: Vec<_> = all.iter().map(|shm| shm.card().unwrap()).collect();
    all.iter_mut().for_each(|shm| shm.connect(&cards).unwrap());
    let found: Vec<_> = all.iter_mut().map(|shm| shm.probe(None)).collect();
    all.iter_mut().for_each(|shm| shm.agree(&found, None, Vicinity::default()).unwrap());
    Communicator::of_transports(all.into_iter().map(worse).collect()).unwrap()
}

/// The same whose posts are refused, and whose notices come late and in any order.
fn faulty_sharing(p: u32) -> Vec<Communicator> {
    sharing(p, |shm| Box::new(late_and_busy(shm)))
}

/// Posts that are refused, and notices that come late, by a seed of its place.
fn late_and_busy(shm: Shm) -> Faulty<Shm> {
    let Place { rank, size } = shm.place();
    Faulty::new(shm, Faults { refuse: 60, delay: 100, lose: 0 }, u64::from(size) << 8 | u64::from(rank))
}

fn as_it_is(shm: Shm) -> Box<dyn Transport> {
    Box::new(shm)
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn messages_that_are_seen_before_they_are_told_of_are_taken_once() {
    for p in [2, 3, 5] {
        again_and_again(sharing(p, as_it_is));
        again_and_again(faulty_sharing(p));
    }
}

/// The same between whom lines go to and fro.
fn busy(mut shm: Shm) -> Box<dyn Transport> {
    shm.be_busy();
    Box::new(shm)
}

/// Often enough that some go straight in between.
#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn what_goes_round_in_windows_comes_whole() {
    for p in [2, 3] {
        let before = ROUNDS.load(Ordering::Relaxed);
        on_threads(sharing(p, busy), |comm| {
            // Each part by itself is long enough.
            let (me, len) = (comm.rank(), SHARED / 2);
            let mut window = comm.window::<u64>(len * p as usize).unwrap();
            let mut both = comm.window::<u64>(2 * len * p as usize).unwrap();
            for time in 0..150 {
                let root = (time % u64::from(p)) as Rank;
                let fill = |part: &mut [u64], first| {
                    part.iter_mut().zip(first..).for_each(|(one, value)| *one = value)
                };
                fill(&mut window, value(me, time));
                comm.run_window(&mut window, Call::broadcast(root)).unwrap();
                assert!(window.iter().copied().eq(from(value(root, time), len * p as usize)));
                fill(&mut window[me as usize * len..][..len], value(me, time));
                comm.run_window(&mut window, Call::allgather()).unwrap();
                let all = (0..p).flat_map(|rank| from(value(rank, time), len));
                assert!(window.iter().copied().eq(all));
                comm.run_window(&mut window, Call::reduce(root, Sum)).unwrap();
                let sums = (0..p).flat_map(|rank| from(value(rank, time), len)).map(|one| one * u64::from(p));
                assert!(me != root || window.iter().copied().eq(sums));
                (0..p).for_each(|to| {
                    fill(&mut both[to as usize * len..][..len], value(me, time + u64::from(to)))
                });
                comm.run_window(&mut both, Call::alltoall()).unwrap();
                let each = (0..p).flat_map(|rank| from(value(rank, time + u64::from(me)), len));
                assert!(both[len * p as usize..].iter().copied().eq(each));
            }
        });
        assert!(ROUNDS.load(Ordering::Relaxed) > before, "as they all begin so");
    }
}

/// The same between whom lines are far.
fn far(mut shm: Shm) -> Box<dyn Transport> {
    shm.be_far();
    Box::new(shm)
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn what_rests_is_shown_from_afar_and_what_is_new_comes_whole() {
    for p in [2, 3, 5] {
        again_and_again(sharing(p, far));
        let before = SHOWN_AFAR.load(Ordering::Relaxed);
        on_threads(sharing(p, far), |comm| {
            let me = comm.rank();
            let mut window = comm.window::<u64>(SHARED).unwrap();
            // The same for three calls in a row, but where sums have come.
            for time in 0..12 {
                window.iter_mut().zip(value(me, time / 3)..).for_each(|(one, new)| *one = new);
                comm.run_window(&mut window, Call::reduce(0, Sum)).unwrap();
                let of_all: u64 = (0..p).map(|rank| value(rank, time / 3)).sum();
                assert!(
                    me != 0 || (0..SHARED as u64).all(|i| window[i as usize] == of_all + u64::from(p) * i)
                );
            }
        });
        assert!(SHOWN_AFAR.load(Ordering::Relaxed) > before, "{p} ranks");
    }
}

/// Elements of a part that has room in a slot, and is worth showing; and one of them that no look finds.
const IN_SLOT: usize = 1024;
const UNSEEN: usize = 777;

/// Calls on windows that are filled alike for three times in a row, but for what no look finds; how many legs were shown though
/// slots had room.
fn calls_that_rest(comm: &Communicator) -> u64 {
    let (p, me) = (comm.size() as usize, comm.rank());
    let [mut whole, mut parts, mut both] = [1, p, 2 * p].map(|parts| comm.window(parts * IN_SLOT).unwrap());
    for time in 0..24 {
        let root = (time / 6 % p as u64) as Rank;
        let has = |rank: Rank, i: usize| match i % IN_SLOT {
            UNSEEN => time + u64::from(rank),
            _ => value(rank, time / 3) + i as u64,
        };
        let sum = |i: usize| (0..p as Rank).map(|rank| has(rank, i)).sum::<u64>();
        let make = |window: &mut Window<u64>, call: Call<u64>| {
            window.iter_mut().enumerate().for_each(|(i, one)| *one = has(me, i));
            comm.run_window(window, call).unwrap();
        };
        make(&mut whole, Call::broadcast(root));
        assert!((0..IN_SLOT).all(|i| whole[i] == has(root, i)));
        make(&mut whole, Call::reduce(root, Sum));
        assert!(me != root || (0..IN_SLOT).all(|i| whole[i] == sum(i)));
        make(&mut whole, Call::allreduce(Sum));
        assert!((0..IN_SLOT).all(|i| whole[i] == sum(i)));
        make(&mut parts, Call::allgather());
        assert!((0..p * IN_SLOT).all(|i| parts[i] == has((i / IN_SLOT) as Rank, i)));
        make(&mut parts, Call::reduce_scatter_block(Sum));
        assert!((me as usize * IN_SLOT..).take(IN_SLOT).all(|i| parts[i] == sum(i)));
        make(&mut both, Call::alltoall());
        let sent = |i: usize| has((i / IN_SLOT) as Rank, me as usize * IN_SLOT + i % IN_SLOT);
        assert!((0..p * IN_SLOT).all(|i| both[p * IN_SLOT + i] == sent(i)));
    }
    shown::BY_LINE.get() + shown::BY_RUN.get()
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn what_rests_is_shown_though_a_slot_has_room_for_it() {
    for p in [2, 3, 5] {
        for end in [far, as_it_is] {
            let shown = on_threads(sharing(p, end), |comm| calls_that_rest(&comm));
            assert!(shown.iter().all(|&legs| legs > 0), "{p} ranks: {shown:?}");
        }
        for seed in 0..4 {
            on_threads(Communicator::loopback(p, seed).unwrap(), |comm| calls_that_rest(&comm));
        }
    }
}

/// Elements of a part that has no room in a slot.
const TOO_LONG: usize = 8 * IN_SLOT;

/// Long calls of two ranks on windows that rest but for what no look finds.
struct OfTwo {
    comm: Communicator,
}

impl OfTwo {
    fn has(rank: Rank, i: usize, time: u64) -> u64 {
        match i % TOO_LONG {
            UNSEEN => time + u64::from(rank),
            _ => value(rank, 0) + i as u64,
        }
    }

    fn make(&self, window: &mut Window<u64>, time: u64, call: Call<u64>) {
        let me = self.comm.rank();
        window.iter_mut().enumerate().for_each(|(i, one)| *one = Self::has(me, i, time));
        self.comm.run_window(window, call).unwrap();
    }

    /// How many went along their line to its end.
    fn along(&self, act: &mut dyn FnMut(u64)) -> u64 {
        let before = shown::LONG_LINES.get()[0];
        (0..40).for_each(act);
        shown::LONG_LINES.get()[0] - before
    }

    fn gather(&self) -> u64 {
        let mut parts = self.comm.window(2 * TOO_LONG).unwrap();
        self.along(&mut |time| {
            self.make(&mut parts, time, Call::allgather());
            assert!((0..2 * TOO_LONG).all(|i| parts[i] == Self::has((i / TOO_LONG) as Rank, i, time)));
        })
    }

    fn sum(&self) -> u64 {
        let (own, mut parts) = (self.own(), self.comm.window(2 * TOO_LONG).unwrap());
        self.along(&mut |time| {
            self.make(&mut parts, time, Call::reduce_scatter_block(Sum));
            let sum = |i| Self::has(0, i, time) + Self::has(1, i, time);
            assert!((own..own + TOO_LONG).all(|i| parts[i] == sum(i)));
        })
    }

    fn swap(&self) -> u64 {
        let (own, mut both) = (self.own(), self.comm.window(4 * TOO_LONG).unwrap());
        self.along(&mut |time| {
            self.make(&mut both, time, Call::alltoall());
            let sent = |i: usize| Self::has((i / TOO_LONG) as Rank, own + i % TOO_LONG, time);
            assert!((0..2 * TOO_LONG).all(|i| both[2 * TOO_LONG + i] == sent(i)));
        })
    }

    fn own(&self) -> usize {
        self.comm.rank() as usize * TOO_LONG
    }

    fn spread(&self) -> u64 {
        self.spread_from(0, Call::broadcast(0))
    }

    fn give_all(&self) -> u64 {
        self.spread_from(1, Call::allgatherv(&[0, 2 * TOO_LONG]))
    }

    /// Where ranks have other numbers than in the world.
    fn spread_turned(&self) -> u64 {
        let comm = self.comm.split(Some(0), 1 - i64::from(self.comm.rank())).unwrap().unwrap();
        OfTwo { comm }.spread()
    }

    fn spread_from(&self, root: Rank, call: Call<u64>) -> u64 {
        let mut window = self.comm.window(2 * TOO_LONG).unwrap();
        self.along(&mut |time| {
            self.make(&mut window, time, call.clone());
            assert!((0..2 * TOO_LONG).all(|i| window[i] == Self::has(root, i, time)));
        })
    }
}

/// How many long calls of a kind each of two ranks makes along their line, and how many it leaves on the way.
fn along_lines(comms: Vec<Communicator>, make: fn(&OfTwo) -> u64) -> Vec<[u64; 2]> {
    on_threads(comms, |comm| {
        comm.world.engine().give_a_core();
        [make(&OfTwo { comm }), shown::LONG_LINES.get()[1]]
    })
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn long_calls_of_two_ranks_go_along_a_line_and_are_the_runs_from_anywhere() {
    // What rests is shown from afar, too; what both carry is not.
    let exchanges: [fn(&OfTwo) -> u64; 3] = [OfTwo::gather, OfTwo::sum, OfTwo::swap];
    let carried: [fn(&OfTwo) -> u64; 3] = [OfTwo::spread, OfTwo::give_all, OfTwo::spread_turned];
    for (kinds, is_far) in [(&exchanges[..], true), (&carried, false)] {
        let ends = if is_far { [far, as_it_is] } else { [as_it_is, far] };
        let mut left = 0;
        for &make in kinds {
            // Where threads of a busy machine lose their patience the next calls are the run's.
            let mut tries = (0..20).map(|_| along_lines(sharing(2, ends[0]), make));
            assert!(
                tries.any(|counts| counts.iter().all(|&[along, _]| along > 0)),
                "none went along its line"
            );
            along_lines(sharing(2, ends[1]), make);
            // There what is late, or not taken, and what one shows and the other does not.
            let worse = (0..3).map(|seed| Communicator::loopback(2, seed).unwrap());
            let worse = worse.chain([faulty_sharing(2)]);
            left += worse.flat_map(|comms| along_lines(comms, make)).map(|[_, left]| left).sum::<u64>();
        }
        assert!(left > 0, "none was left on the way");
    }
}

/// That it is ready, a rank may still have to tell who has put all before that, and has left.
#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn nobody_waits_for_one_that_has_all_and_is_gone() {
    for seed in 0..400 {
        let refuses = |shm: Shm| -> Box<dyn Transport> {
            let faults = Faults { refuse: 128, delay: 0, lose: 0 };
            if shm.place().rank == 0 { Box::new(shm) } else { Box::new(Faulty::new(shm, faults, seed)) }
        };
        on_threads(sharing(2, refuses), |comm| {
            let (me, mut window) = (comm.rank(), comm.window::<u64>(2 * TOO_LONG).unwrap());
            // So that the other one loses its patience meanwhile.
            let add = fold::commutative(move |a: &u64, b: &u64| {
                if me == 0 && *a == u64::MAX {
                    std::thread::sleep(Duration::from_micros(200));
                }
                a.wrapping_add(*b)
            });
            let sum = Call::reduce_scatter_block(add);
            let rare = |i: usize| if i.is_multiple_of(TOO_LONG) { u64::MAX } else { 0 };
            if seed % 2 == 0 {
                for _ in 0..2 {
                    window.iter_mut().enumerate().for_each(|(i, one)| *one = rare(i));
                    comm.run_window(&mut window, &sum).unwrap();
                }
            } else {
                let mut again = comm.prepare(window, sum).unwrap();
                for _ in 0..2 {
                    set(&mut again, (0..2 * TOO_LONG).map(rare));
                    again.run().unwrap();
                }
            }
        });
    }
}

/// Sources that offer to fold what their target has in a slice, or that are not the first ones, wait for its answer though it has
/// taken in all that they have.
#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn who_offers_to_fold_is_answered_by_a_target_that_is_seldom_heard() {
    for (p, in_window) in [(2, false), (3, true), (3, false), (5, true)] {
        let refuses = |shm: Shm| -> Box<dyn Transport> {
            let (faults, seed) = (Faults { refuse: 200, delay: 0, lose: 0 }, u64::from(p));
            if shm.place().rank == 0 { Box::new(Faulty::new(shm, faults, seed)) } else { Box::new(shm) }
        };
        on_threads(sharing(p, refuses), |comm| {
            let me = comm.rank();
            for time in 0..40 {
                let mut data: Vec<_> = from(value(me, time), SHARED).collect();
                make(&comm, &mut data, Call::reduce(0, Sum).blocks(1), in_window || me > 0);
                let sum = |i: u64| (0..p).map(|rank| value(rank, time) + i).sum::<u64>();
                assert!(me != 0 || data.into_iter().eq((0..SHARED as u64).map(sum)));
            }
        });
    }
}

#[test]
fn ranks_that_exchange_on_lines_and_disagree_or_fail_are_told() {
    let said = said_of_different_calls(|comm, which| {
        let mut window = comm.window::<u64>(2 * TOO_LONG)?;
        let calls = [|| Call::allgather(), || Call::reduce_scatter_block(Sum)];
        comm.run_window(&mut window, calls[which]())
    });
    let both = |said: &String| said.contains("allgather") && said.contains("reduce_scatter_block");
    assert!(said.iter().any(both), "{said:?}");

    // What both carry, of other lengths.
    let said = said_of_different_calls(|comm, which| {
        let mut window = comm.window::<u64>(4 * TOO_LONG)?;
        comm.run_window(&mut window, Call::broadcast(0).elements((2 + which) * TOO_LONG))
    });
    let both = |said: &String| [2, 3].iter().all(|n| said.contains(&format!("{} bytes", n * 8 * TOO_LONG)));
    assert!(said.iter().any(both), "{said:?}");

    let said = on_threads(Communicator::loopback(2, 1).unwrap(), |comm| {
        let below = |bound| {
            fold::try_commutative(move |a: &u64, b: &u64| match a + b {
                sum if sum < bound => Ok(sum),
                _ => Err("too much".to_owned()),
            })
        };
        let mut window = comm.window::<u64>(2 * TOO_LONG).unwrap();
        let mut sum = |value| {
            window.fill(value);
            comm.run_window(&mut window, Call::reduce_scatter_block(below(50_u64)))
        };
        (0..20).for_each(|value| sum(value).unwrap());
        sum(30).err().map_or_else(String::new, |error| error.to_string())
    });
    assert!(said.iter().any(|said| said.contains("too much")), "{said:?}");
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn two_ranks_that_share_memory_fold_half_of_a_long_vector_each() {
    const LEN: usize = 5 << 18;
    for root in 0..2 {
        let folded = on_threads(sharing(2, as_it_is), |comm| {
            let folds = Arc::new(AtomicUsize::new(0));
            let add = || {
                let folds = Arc::clone(&folds);
                fold::commutative(move |a: &u64, b: &u64| {
                    folds.fetch_add(1, Ordering::Relaxed);
                    a + b
                })
            };
            let mut window = comm.window(LEN).unwrap();
            for time in 0..3 {
                window.iter_mut().zip(value(comm.rank(), time)..).for_each(|(one, value)| *one = value);
                comm.run_window(&mut window, Call::reduce(root, add())).unwrap();
                let sum = |i| value(0, time) + value(1, time) + 2 * i as u64;
                assert!(comm.rank() != root || (0..LEN).all(|i| window[i] == sum(i)));
            }
            folds.load(Ordering::Relaxed)
        });
        assert_eq!(folded, [3 * LEN / 2; 2], "root {root}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn whoever_is_always_through_last_folds_less() {
    const LEN: usize = 64 << 10;
    let folded = on_threads(sharing(2, as_it_is), {
        let folds: Arc<[AtomicUsize; 2]> = Arc::default();
        move |comm| {
            let (me, mut window) = (comm.rank() as usize, comm.window(LEN).unwrap());
            for time in 0..60 {
                folds[me].store(0, Ordering::Relaxed);
                comm.barrier().unwrap();
                let all = Arc::clone(&folds);
                let add = fold::commutative(move |a: &u64, b: &u64| {
                    // The source begins when its target has done a quarter, which is the target's always, and rests now and then.
                    let rests = all[me].fetch_add(1, Ordering::Relaxed).is_multiple_of(64);
                    if me == 1 && rests {
                        std::thread::yield_now();
                    }
                    while me == 1 && all[0].load(Ordering::Relaxed) < LEN / 4 {
                        std::thread::yield_now();
                    }
                    a + b
                });
                window.iter_mut().zip(value(comm.rank(), time)..).for_each(|(one, value)| *one = value);
                comm.run_window(&mut window, Call::reduce(0, add)).unwrap();
                let sum = |i| value(0, time) + value(1, time) + 2 * i as u64;
                assert!(me != 0 || (0..LEN).all(|i| window[i] == sum(i)));
            }
            folds[me].load(Ordering::Relaxed)
        }
    });
    assert_eq!(folded[0] + folded[1], LEN);
    assert!(
        (LEN / 4..LEN * 7 / 16).contains(&folded[1]),
        "{folded:?}: some nine moves of a 64th were expected"
    );
}

/// Makes a call in place, in a window or a slice.
fn make(comm: &Communicator, data: &mut [u64], call: Call<u64>, in_window: bool) {
    if !in_window {
        return comm.run(data, call).unwrap();
    }
    let mut window = comm.window(data.len()).unwrap();
    window.copy_from_slice(data);
    comm.run_window(&mut window, call).unwrap();
    data.copy_from_slice(&window);
}

/// Long calls, of which each rank makes its own in a window or a slice, and prepared ones, started again and again.
fn with_windows_and_with_slices(comms: Vec<Communicator>) {
    const LONGER: usize = 2 * SHARED;
    on_threads(comms, |comm| {
        let (me, p) = (comm.rank(), comm.size());
        let sum = |time, i| (0..p).map(|rank| value(rank, time) + i).sum::<u64>();
        let mut shared = comm.prepare(comm.window(SHARED).unwrap(), Call::broadcast(0)).unwrap();
        let mut summed = comm.prepare(comm.window(SHARED).unwrap(), Call::reduce(0, Sum)).unwrap();
        for time in 0..3 * TIMES / 2 {
            let root = (time / 4 % u64::from(p)) as Rank;
            let in_window = time >> me & 1 == 0;
            // Ranks are not always in step, nor what is shown early in a call of one length.
            let len = if time % 3 == 0 { SHARED / 2 } else { LONGER };
            let mut data: Vec<_> = from(value(me, time), len).collect();
            make(&comm, &mut data, Call::broadcast(root), in_window);
            assert!(data.iter().copied().eq(from(value(root, time), len)));
            data = from(value(me, time), len).collect();
            make(&comm, &mut data, Call::reduce(root, Sum), in_window);
            assert!(me != root || data.into_iter().eq((0..len as u64).map(|i| sum(time, i))));
            let (part, own) = (len / 2, me as usize * (len / 2));
            data = vec![u64::MAX; p as usize * part];
            data.iter_mut().skip(own).take(part).zip(value(me, time)..).for_each(|(one, value)| *one = value);
            make(&comm, &mut data, Call::allgather(), in_window);
            assert!(data.into_iter().eq((0..p).flat_map(|rank| from(value(rank, time), part))));
            data = from(value(me, time), p as usize * part).collect();
            make(&comm, &mut data, Call::reduce_scatter_block(Sum), in_window);
            assert!((own..own + part).all(|i| data[i] == sum(time, i as u64)));
            set(&mut shared, from(value(me, time), SHARED));
            shared.run().unwrap();
            assert!(shared.window().unwrap().iter().copied().eq(from(value(0, time), SHARED)));
            set(&mut summed, from(value(me, time), SHARED));
            summed.run().unwrap();
            let right = (0..SHARED as u64).map(|i| sum(time, i));
            assert!(me != 0 || summed.window().unwrap().iter().copied().eq(right));
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn what_is_shown_before_its_target_is_ready_is_taken_in_once() {
    for p in [2, 3, 5] {
        with_windows_and_with_slices(sharing(p, as_it_is));
        with_windows_and_with_slices(faulty_sharing(p));
    }
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn what_goes_past_a_small_cache_or_abreast_arrives() {
    let past = Caches { share: Some(4096), ..Caches::default() };
    let abreast = Caches { own: Some((SHARED * size_of::<u64>()) as u64), share: None, abreast: true };
    let before = ABREAST.load(Ordering::Relaxed);
    for (p, caches) in [2, 3].into_iter().flat_map(|p| [(p, past), (p, abreast)]) {
        let ranks = || sharing(p, |shm| Box::new(late_and_busy(shm).with_caches(caches)));
        again_and_again(ranks());
        with_windows_and_with_slices(ranks());
    }
    assert!(ABREAST.load(Ordering::Relaxed) > before, "vectors of `SHARED` elements");
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn a_call_copies_as_what_it_touches_fits_the_caches() {
    const OWN: u64 = 1024;
    const SHARE: u64 = 65536;
    let of = |caches| sharing(1, |shm| Box::new(late_and_busy(shm).with_caches(caches)));
    let known = of(Caches { own: Some(OWN), share: Some(SHARE), abreast: true });
    let gait = |touched, folds| known[0].world.engine().gait(touched, folds);
    for (touched, expected) in [
        (0, Gait::Straight),
        (OWN / 2 - 1, Gait::Straight),
        (OWN / 2, Gait::Abreast),
        (OWN * 11 / 8, Gait::Abreast),
        (OWN * 11 / 8 + 1, Gait::Straight),
        (SHARE * 7 / 10, Gait::Straight),
        (SHARE * 3 / 4, Gait::PastCaches),
    ] {
        assert_eq!(gait(touched, false), expected, "{touched} bytes");
    }
    let folded = [SHARE * 6 / 5, SHARE * 5 / 4].map(|touched| gait(touched, true));
    assert_eq!(folded, [Gait::Straight, Gait::PastCaches], "what is folded stays longer");
    let alone = of(Caches { own: Some(OWN), share: None, abreast: true });
    assert_eq!(alone[0].world.engine().gait(OWN, true), Gait::Abreast);
    assert_eq!(alone[0].world.engine().gait(SHARE, true), Gait::Straight, "nobody knows what others take");
    let tiny = of(Caches { own: Some(OWN), share: Some(OWN / 2), abreast: true });
    assert_eq!(
        tiny[0].world.engine().gait(OWN, false),
        Gait::PastCaches,
        "what holds nothing needs no turns"
    );
    let unknown = of(Caches::default());
    for touched in [0, 1, OWN, SHARE, u64::MAX] {
        assert_eq!(unknown[0].world.engine().gait(touched, false), Gait::Straight, "{touched} bytes");
    }
    let others = of(Caches { own: Some(OWN), share: None, abreast: false });
    assert_eq!(others[0].world.engine().gait(OWN, false), Gait::Straight, "another maker's processor");
}

#[test]
#[cfg_attr(miri, ignore = "it has no memfd_create")]
fn long_calls_in_the_background_leave_slots_to_others() {
    const MANY: usize = 100;
    on_threads(sharing(2, as_it_is), |comm| {
        let other = comm.duplicate().unwrap();
        let begin = || {
            let window = || comm.window::<u64>(2 * SHARED).unwrap();
            (0..MANY).map(|_| comm.start(window(), Call::broadcast(0)).unwrap()).collect::<Vec<_>>()
        };
        // One has begun them all before the other is through the barrier, and begins any.
        let mut all = if comm.rank() == 0 { begin() } else { Vec::new() };
        other.barrier().unwrap();
        if comm.rank() == 1 {
            all = begin();
        }
        all.into_iter().for_each(|one| drop(one.wait().unwrap()));
        comm.barrier().unwrap();
    });
}

#[test]
fn an_operator_that_fails_when_its_call_is_repeated_fails_that_call() {
    let sum_below = |bound| {
        fold::try_commutative(move |a: &u64, b: &u64| match a + b {
            sum if sum < bound => Ok(sum),
            _ => Err("too much".to_owned()),
        })
    };
    let said = on_threads(Communicator::loopback(2, 1).unwrap(), |comm| {
        let sum = |value| comm.run(&mut [value], Call::allreduce(sum_below(50_u64)));
        (0..5).for_each(|value| sum(value).unwrap());
        sum(30).err().map_or_else(String::new, |error| error.to_string())
    });
    assert!(said.iter().any(|said| said.contains("too much")), "{said:?}");
}

/// Makes a call.
type Maker = fn() -> Call<u64>;

#[test]
fn a_call_is_not_another_one_again_that_has_another_algorithm_or_number_of_blocks() {
    let pairs: [[Maker; 2]; 3] = [
        [|| Call::broadcast(0).algorithm("mst"), || Call::broadcast(0).algorithm("linear")],
        [|| Call::broadcast(0).blocks(2), || Call::broadcast(0).blocks(3)],
        [|| Call::broadcast(0), || Call::broadcast(0).algorithm("linear").blocks(1)],
    ];
    for pair in pairs {
        let said = said_of_different_calls(|comm, which| {
            let mut data = [7 + u64::from(comm.rank())];
            comm.run(&mut data, pair[which]()).map(|()| assert_eq!(data, [7]))
        });
        assert!(said.iter().any(|said| said.contains("disagree")), "{said:?}");
    }
}

#[test]
fn an_unknown_algorithm_is_an_error_though_the_call_was_made_before() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let run = |name: &str| comm.run(&mut [7_u64], Call::broadcast(0).algorithm(name));
    (0..3).for_each(|_| run("mst").unwrap());
    let unknown = run("mist").unwrap_err().to_string();
    assert!(unknown.contains("no algorithm `mist`"), "{unknown}");
}

#[test]
fn every_start_of_a_call_is_counted_once() {
    for p in [1, 2, 3] {
        for refuse in [0, 60] {
            on_threads(faulty(p, 1, Faults { refuse, delay: refuse, lose: 0 }), |comm| {
                let made = || comm.world.engine().calls_made();
                let before = made();
                let mut count = 0;
                let mut is_one_more = || {
                    count += 1;
                    assert_eq!(made() - before, count);
                };
                for time in 0..4 {
                    for len in [SHORT, LONG] {
                        let mut data: Vec<_> = from(value(comm.rank(), time), len).collect();
                        comm.run(&mut data, Call::allreduce(Sum)).unwrap();
                        is_one_more();
                    }
                }
                let mut prepared =
                    comm.prepare(comm.window::<u64>(SHORT).unwrap(), Call::broadcast(0)).unwrap();
                for _ in 0..3 {
                    prepared.run().unwrap();
                    is_one_more();
                }
            });
        }
    }
}
