//! The whole stack over the loopback transport, all ranks in one thread (seeded, so that a failure can
//! be repeated) or each in a thread of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::fold::Sum;
use crate::transport::faulty::{Faults, Faulty};

pub(super) fn faulty(p: u32, seed: u64, faults: Faults) -> Vec<Communicator> {
    let ends = Loopback::world(p, seed).unwrap();
    let worse = |(rank, end)| Box::new(Faulty::new(end, faults, seed ^ rank)) as Box<dyn Transport>;
    Communicator::of_transports((0..).zip(ends).map(worse).collect()).unwrap()
}

/// What element `i` of rank `r`'s vector is.
fn value(i: usize, r: Rank) -> u8 {
    (i.wrapping_mul(31) ^ (i >> 8) ^ (r as usize * 97)) as u8
}

/// Polls requests in seeded order until all are done; the windows in rank order.
pub(super) fn finish<T: Element>(mut requests: Vec<Request<T>>, seed: u64) -> Vec<Window<T>> {
    let mut order = fastrand::Rng::with_seed(seed);
    let mut done = vec![false; requests.len()];
    while done.contains(&false) {
        let rank = order.usize(0..requests.len());
        done[rank] = requests[rank].test().unwrap();
    }
    requests.into_iter().map(|request| request.wait().unwrap()).collect()
}

type Broadcast = Call<u8>;

fn broadcast_all(comms: &[Communicator], bytes: usize, how: Broadcast, seed: u64) {
    let window = |comm: &Communicator| {
        let mut window = comm.window::<u8>(bytes).unwrap();
        if comm.rank() == how.raw.root {
            window.iter_mut().enumerate().for_each(|(i, byte)| *byte = value(i, how.raw.root));
        }
        comm.start(window, how.clone()).unwrap()
    };
    for (rank, window) in finish(comms.iter().map(window).collect(), seed).iter().enumerate() {
        let wrong = window.iter().enumerate().find(|&(i, &byte)| byte != value(i, how.raw.root));
        assert_eq!(
            wrong,
            None,
            "rank {rank} of {}, {bytes} bytes, root {}, seed {seed}",
            comms.len(),
            how.raw.root
        );
    }
}

#[test]
fn every_root_reaches_every_rank_whatever_the_order_of_arrival() {
    for p in [1, 2, 3, 4, 5, 8] {
        let comms = Communicator::loopback(p, 7).unwrap();
        for root in 0..p {
            for bytes in [0, 1, 1000, 8144, 8145, 100_000] {
                for blocks in [1, 2, 5, 64] {
                    broadcast_all(&comms, bytes, Call::broadcast(root).blocks(blocks), u64::from(root));
                }
            }
        }
    }
}

#[test]
fn many_ranks_and_many_blocks_through_a_bad_network() {
    for (p, seed) in [(13, 1), (17, 2), (33, 3), (65, 4)] {
        let comms = faulty(p, seed, Faults { refuse: 60, delay: 100, lose: 0 });
        broadcast_all(&comms, 200_000, Call::broadcast(p / 3).blocks(300), seed);
        broadcast_all(&comms, 5, Call::broadcast(p - 1), seed);
        broadcast_all(&comms, 50_000, Call::broadcast(0), seed);
    }
}

#[test]
fn started_calls_overlap_and_end_in_any_order() {
    let comms = Communicator::loopback(5, 11).unwrap();
    let start = |comm: &Communicator, root: Rank| {
        let mut window = comm.window::<u8>(20_000 + root as usize).unwrap();
        window.fill(if comm.rank() == root { root as u8 + 1 } else { 0 });
        comm.start(window, Call::broadcast(root).blocks(9)).unwrap()
    };
    let mut requests: Vec<Vec<_>> =
        comms.iter().map(|comm| (0..5).map(|root| start(comm, root)).collect()).collect();
    let mut left = 25;
    while left > 0 {
        left = requests.iter_mut().flatten().map(|request| usize::from(!request.test().unwrap())).sum();
    }
    for of_rank in requests {
        for (root, request) in of_rank.into_iter().enumerate().rev() {
            assert!(request.wait().unwrap().iter().all(|&byte| byte == root as u8 + 1));
        }
    }
}

#[test]
fn a_request_may_be_forgotten() {
    let comms = Communicator::loopback(3, 5).unwrap();
    for comm in &comms {
        let window = comm.window::<u32>(30_000).unwrap();
        drop(comm.start(window, Call::broadcast(1)).unwrap());
        let window = comm.window::<u32>(30_000).unwrap();
        std::mem::forget(comm.start(window, Call::broadcast(2)).unwrap());
    }
    broadcast_all(&comms, 100_000, Call::broadcast(0), 5);
}

#[test]
fn a_rank_may_run_ahead_by_many_small_calls() {
    let comms = Communicator::loopback(2, 3).unwrap();
    let ahead = 500;
    std::thread::scope(|threads| {
        threads.spawn(|| (0..ahead).for_each(|i| comms[0].broadcast(&mut [i], 0).unwrap()));
        threads.spawn(|| {
            for i in 0..ahead {
                let mut got = [0];
                comms[1].broadcast(&mut got, 0).unwrap();
                assert_eq!(got, [i]);
            }
        });
    });
}

#[test]
fn prepared_calls_are_started_many_times() {
    for bytes in [10, 60_000] {
        on_threads(Communicator::loopback(7, 9).unwrap(), |comm| {
            let window = comm.window::<u8>(bytes).unwrap();
            let mut prepared = comm.prepare(window, Call::broadcast(4).blocks(6)).unwrap();
            for round in 0..50u8 {
                if comm.rank() == 4 {
                    prepared.window().unwrap().fill(round);
                }
                prepared.run().unwrap();
                assert!(prepared.window().unwrap().iter().all(|&byte| byte == round));
            }
            drop(prepared.start().unwrap());
            assert!(prepared.into_window().unwrap().iter().all(|&byte| byte == 49));
        });
    }
}

/// Twice this and the calls between goes past where numbers begin anew.
const AN_AGE: u32 = u32::MAX / 2 - 30;

#[test]
fn prepared_calls_go_on_when_all_numbers_of_starts_have_been_used() {
    for bytes in [10, 60_000] {
        on_threads(Communicator::loopback(3, 9).unwrap(), |comm| {
            let window = comm.window::<u8>(bytes).unwrap();
            let mut prepared = comm.prepare(window, Call::broadcast(2).blocks(2)).unwrap();
            for age in 0..4 {
                for round in 0..30u8 {
                    if comm.rank() == 2 {
                        prepared.window().unwrap().fill(round + age);
                    }
                    prepared.run().unwrap();
                    assert!(prepared.window().unwrap().iter().all(|&byte| byte == round + age));
                }
                // Twice, so that no word of the age before is on its way when one has gone on.
                comm.barrier().unwrap();
                comm.barrier().unwrap();
                comm.world.engine().grow_old(AN_AGE);
            }
        });
    }
}

/// The late rank hears of a call by the number of the prepared one that it still has, before it makes that call.
#[test]
fn a_prepared_call_may_live_until_its_number_is_given_again() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (grown, made) = (std::sync::Barrier::new(2), AtomicU32::new(0));
    on_threads(Communicator::loopback(2, 9).unwrap(), |comm| {
        let window = comm.window::<u8>(10).unwrap();
        let mut prepared = comm.prepare(window, Call::broadcast(0)).unwrap();
        for age in 0..3 {
            prepared.run().unwrap();
            comm.barrier().unwrap();
            comm.barrier().unwrap();
            comm.world.engine().grow_old(AN_AGE);
            grown.wait();
            let mut all = 0..40u8;
            if comm.rank() == 0 {
                all.for_each(|i| comm.broadcast(&mut [i], 0).unwrap());
                made.store(age + 1, Ordering::SeqCst);
            } else {
                let listen = || assert!(comm.world.engine().test(usize::MAX).unwrap());
                while made.load(Ordering::SeqCst) <= age {
                    listen();
                }
                let heard = all.all(|i| {
                    (0..100).for_each(|_| listen());
                    let mut got = [0];
                    comm.broadcast(&mut got, 0).unwrap();
                    got == [i]
                });
                assert!(heard);
            }
        }
        prepared.run().unwrap();
    });
}

#[test]
fn a_prepared_call_takes_a_vacancy_as_long_as_it_is_there() {
    on_threads(Communicator::loopback(2, 9).unwrap(), |comm| {
        assert_eq!(comm.vacancies(), MAX_OPERATIONS);
        let prepared = comm.prepare(comm.window::<u8>(10).unwrap(), Call::broadcast(0)).unwrap();
        assert_eq!(comm.vacancies(), MAX_OPERATIONS - 1);
        drop(prepared);
        assert_eq!(comm.vacancies(), MAX_OPERATIONS);
    });
}

#[test]
fn a_start_that_was_dropped_is_waited_for_by_the_next() {
    on_threads(Communicator::loopback(4, 2).unwrap(), |comm| {
        let window = comm.window::<u8>(60_000).unwrap();
        let mut prepared = comm.prepare(window, Call::broadcast(1).blocks(9)).unwrap();
        (0..20).for_each(|_| drop(prepared.start().unwrap()));
        prepared.run().unwrap();
    });
}

#[test]
fn a_window_of_other_ranks_is_refused() {
    let comms = Communicator::loopback(2, 0).unwrap();
    let window = comms[0].window::<u8>(60_000).unwrap();
    let error = comms[1].start(window, Call::broadcast(0)).err().unwrap().to_string();
    assert!(error.contains("a window of another communicator's ranks"), "{error}");
}

#[test]
fn a_credit_that_is_refused_is_given_later() {
    for seed in 0..8 {
        let faults = Faults { refuse: 128, ..Faults::default() };
        on_threads(faulty(2, seed, faults), |comm| {
            (0..50).for_each(|i| comm.broadcast(&mut [i], 0).unwrap());
        });
    }
}

/// Devices of one provider differ in what they take; both ends of a leg must cut it alike.
#[test]
fn puts_are_as_long_as_every_rank_can_take() {
    const ALL: usize = 2_000_000;
    let longest = |rank| [600_000, 300_000, 450_000, 1 << 30][rank as usize];
    let end = |(rank, end)| {
        Box::new(Faulty::new(end, Faults::default(), 4).with_max_put(longest(rank))) as Box<dyn Transport>
    };
    let ends = (0..).zip(Loopback::world(4, 7).unwrap());
    on_threads(Communicator::of_transports(ends.map(end).collect()).unwrap(), |comm| {
        let all: Vec<u8> = (0..ALL).map(|i| value(i, 3)).collect();
        let mut got = if comm.rank() == 2 { all.clone() } else { vec![0; all.len()] };
        comm.run(&mut got, Call::broadcast(2).blocks(1)).unwrap();
        assert!(got == all);
        let mut sums = vec![1u32; ALL / 4];
        comm.run(&mut sums, Call::allreduce(Sum)).unwrap();
        assert!(sums == vec![4; ALL / 4]);
        let mut parts = vec![0; ALL];
        comm.alltoall(&all, &mut parts).unwrap();
        let own = &all[comm.rank() as usize * (ALL / 4)..][..ALL / 4];
        assert!(parts.chunks(ALL / 4).all(|part| part == own));
    });
}

/// One rank starts so many calls that what it sends ahead fills all that the others hold for it, before
/// rank 0 begins the first call, whose block it may have to forward.
#[test]
fn calls_that_run_ahead_do_not_hold_up_an_older_one() {
    const AHEAD: usize = 200;
    for early in 1..4 {
        let started = std::sync::Barrier::new(2);
        on_threads(Communicator::loopback(4, 6).unwrap(), |comm| {
            let root = |call| if call == 0 { 0 } else { early };
            let start =
                |call| comm.start(comm.window::<u8>(8).unwrap(), Call::broadcast(root(call))).unwrap();
            if comm.rank() == early {
                let mut requests: Vec<_> = (0..AHEAD).map(start).collect();
                for _ in 0..3000 {
                    requests[0].test().unwrap();
                    std::thread::yield_now();
                }
                started.wait();
                requests.into_iter().for_each(|request| drop(request.wait().unwrap()));
                return;
            }
            if comm.rank() == 0 {
                started.wait();
            }
            (0..AHEAD).for_each(|call| drop(start(call).wait().unwrap()));
        });
    }
}

/// One rank starts many calls on one communicator before it makes one on another, which comes first at the other
/// rank: the words about what has not begun there, of data and of readiness, hold that one up for no longer than a moment.
#[test]
fn many_calls_that_have_not_begun_do_not_hold_up_one_on_another_communicator() {
    for (many, bytes, ahead) in [(400, 8, 0), (400, 8, 1), (100, 100_000, 0), (100, 100_000, 1)] {
        on_threads(Communicator::loopback(2, 6).unwrap(), |comm| {
            let other = comm.duplicate().unwrap();
            let meet = || other.run(&mut [1u64], Call::allreduce(crate::fold::Sum)).unwrap();
            if comm.rank() != ahead {
                meet();
            }
            let start = |_| comm.start(comm.window::<u8>(bytes).unwrap(), Call::broadcast(0)).unwrap();
            let requests: Vec<_> = (0..many).map(start).collect();
            if comm.rank() == ahead {
                meet();
            }
            requests.into_iter().for_each(|request| drop(request.wait().unwrap()));
        });
    }
}

pub(super) fn on_threads<R: Send>(
    comms: Vec<Communicator>,
    act: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    std::thread::scope(|threads| {
        let started: Vec<_> = comms.into_iter().map(|comm| threads.spawn(|| act(comm))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for p in [1, 2, 3, 8, 33] {
        let came = AtomicUsize::new(0);
        on_threads(Communicator::loopback(p, 1).unwrap(), |comm| {
            for round in 1..=20 {
                came.fetch_add(1, Ordering::SeqCst);
                comm.barrier().unwrap();
                assert!(came.load(Ordering::SeqCst) >= round * p as usize);
            }
        });
    }
}

#[test]
fn nobody_leaves_a_barrier_of_any_name_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for p in [1, 2, 3, 33, 65] {
        for name in ["circulant", "mst"] {
            let came = AtomicUsize::new(0);
            on_threads(Communicator::loopback(p, 1).unwrap(), |comm| {
                for round in 1..=10 {
                    came.fetch_add(1, Ordering::SeqCst);
                    comm.barrier_by(name).unwrap();
                    assert!(came.load(Ordering::SeqCst) >= round * p as usize, "{name}, p = {p}");
                }
            });
        }
    }
}

#[test]
fn a_barrier_that_there_is_not_or_that_ranks_name_differently_is_an_error() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let error = comm.barrier_by("ring").unwrap_err().to_string();
    assert_eq!(error, "barrier: no algorithm `ring` for these ranks; take one of: circulant, mst");
    let said = said_of_different_calls(|comm, which| comm.barrier_by(["circulant", "mst"][which]));
    let both =
        |said: &String| ["barrier(by circulant)", "barrier(by mst)"].iter().all(|way| said.contains(way));
    assert!(said.iter().any(both), "{said:?}");
}

#[test]
fn ranks_that_share_cores_make_short_calls_by_a_tree_unless_told_how_many_blocks() {
    let crowd = Costs { latency: 5e-5, byte: 8e-8, block: 1e-5, crowd: 4.0, shared: false };
    for p in [2, 3, 8, 33] {
        let mut comms = Communicator::loopback(p, 2).unwrap();
        comms.iter_mut().for_each(|comm| comm.costs = crowd);
        on_threads(comms, |comm| {
            let me = comm.rank();
            assert_eq!(comm.barrier_choice(None).unwrap().algorithm, "mst");
            assert_eq!(comm.choice(&Call::<u32>::allgather(), p as usize).unwrap().algorithm, "mst");
            comm.barrier().unwrap();
            let mut all = vec![u32::MAX; p as usize];
            comm.allgather(&[me], &mut all).unwrap();
            assert!(all.iter().copied().eq(0..p), "{all:?}");
            let mut sum = [me, 1];
            comm.run(&mut sum, Call::allreduce(Sum)).unwrap();
            assert_eq!(sum, [p * (p - 1) / 2, p]);
            let counts: Vec<usize> = (0..p as usize).map(|rank| rank % 3).collect();
            let mut part = vec![0; counts[me as usize]];
            comm.reduce_scatter(&vec![me; counts.iter().sum()], &mut part, &counts, Sum).unwrap();
            assert!(part.iter().all(|&part| part == p * (p - 1) / 2), "{part:?}");

            let in_blocks = Call::broadcast(p - 1).blocks(4);
            assert_eq!(comm.choice(&in_blocks, 8).unwrap().algorithm, "circulant");
            let mut data = [me; 8];
            comm.run(&mut data, in_blocks).unwrap();
            assert_eq!(data, [p - 1; 8]);
        });
    }
}

#[test]
fn ranks_that_share_cores_and_memory_put_straight_from_the_root_and_to_it() {
    for p in [5, 7, 16] {
        let mut comms = Communicator::loopback(p, 3).unwrap();
        let costs = Costs { crowd: 4.0, shared: true, ..Costs::default() };
        comms.iter_mut().for_each(|comm| comm.costs = costs);
        on_threads(comms, |comm| {
            for (root, len) in (0..p).flat_map(|root| [(root, 0), (root, 1), (root, 2000)]) {
                let own: Vec<u64> = (0..len as u64).map(|i| i ^ u64::from(comm.rank())).collect();
                let mut data = own.clone();
                assert_eq!(comm.choice(&Call::<u64>::broadcast(root), len).unwrap().algorithm, "linear");
                comm.broadcast(&mut data, root).unwrap();
                assert!((0..).zip(&data).all(|(i, &x)| x == i ^ u64::from(root)), "{p}, {root}, {len}");
                data = own;
                assert_eq!(comm.choice(&Call::<u64>::reduce(root, Sum), len).unwrap().algorithm, "linear");
                comm.run(&mut data, Call::reduce(root, Sum)).unwrap();
                let sum = |i| (0..u64::from(p)).map(|rank| i ^ rank).sum::<u64>();
                assert!(comm.rank() != root || (0..).zip(&data).all(|(i, &x)| x == sum(i)));
            }
        });
    }
}

#[test]
fn a_root_out_of_range_is_named_and_nothing_is_broken() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let error = comm.broadcast(&mut [1u8], 1).unwrap_err().to_string();
    assert_eq!(error, "broadcast: root 1 of a communicator of 1 ranks; take a root from 0 to 0");
    comm.broadcast(&mut [1u8], 0).unwrap();
}

#[test]
fn more_rounds_than_a_notice_can_name_are_refused_and_nothing_is_broken() {
    on_threads(Communicator::loopback(10, 0).unwrap(), |comm| {
        let counts = [10_000; 10];
        let call = Call::allgatherv(&counts).algorithm("ring-n").blocks(65536);
        let said = comm.run(&mut vec![0u8; 100_000], call).unwrap_err().to_string();
        assert!(said.contains("rounds") && said.contains("take fewer blocks"), "{said}");
        comm.barrier().unwrap();
    });
}

#[test]
fn a_window_too_small_is_named() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let mut window = comm.window::<u64>(10).unwrap();
    let error = comm.run_window(&mut window, Call::broadcast(0).elements(11)).unwrap_err().to_string();
    assert!(error.contains("11 elements of a buffer of 10"), "{error}");
}

/// The first error when each of `p` ranks starts the call that `how` gives it.
fn disagreement(p: u32, bytes: impl Fn(Rank) -> usize, how: impl Fn(Rank) -> Call<u8>) -> String {
    let comms = Communicator::loopback(p, 3).unwrap();
    let start = |comm: &Communicator| {
        let window = comm.window::<u8>(bytes(comm.rank())).unwrap();
        comm.start(window, how(comm.rank()))
    };
    let started: Result<Vec<_>> = comms.iter().map(start).collect();
    let mut requests = match started {
        Ok(requests) => requests,
        Err(error) => return error.to_string(),
    };
    loop {
        for request in &mut requests {
            if let Err(error) = request.test() {
                return error.to_string();
            }
        }
    }
}

#[test]
fn an_operator_that_fails_on_one_thread_ends_the_calls_of_all() {
    for panics in [false, true] {
        let said = std::sync::Mutex::new(Vec::new());
        on_threads(Communicator::loopback(3, 5).unwrap(), |comm| {
            let add = move |a: &i32, b: &i32| match a.checked_add(*b) {
                None if panics => std::panic::resume_unwind(Box::new("too much")),
                sum => sum.ok_or_else(|| "too much".to_owned()),
            };
            let mut sum = [i32::MAX; 3];
            let error = comm.run(&mut sum, Call::allreduce(crate::fold::try_commutative(add))).unwrap_err();
            assert_eq!(comm.barrier(), Err(error.clone()));
            said.lock().unwrap().push(error.to_string());
        });
        let said = said.into_inner().unwrap();
        assert!(said.len() == 3 && said.iter().all(|said| said.contains("too much")), "{said:?}");
    }
}

#[test]
fn ranks_that_disagree_get_an_error_that_names_both_calls() {
    let roots = disagreement(2, |_| 16, Call::broadcast);
    assert!(roots.contains("broadcast(root 0, 16 bytes in 1 block, by "), "{roots}");
    assert!(roots.contains("broadcast(root 1, 16 bytes in 1 block, by "), "{roots}");
    let large = disagreement(5, |rank| 100_000 + usize::from(rank == 3), |_| Call::broadcast(0).blocks(4));
    assert!(large.contains("100000 bytes") && large.contains("100001 bytes"), "{large}");
    let small_and_large = disagreement(3, |rank| if rank == 0 { 10 } else { 90_000 }, |_| Call::broadcast(0));
    assert!(small_and_large.contains("(root 0, 10 bytes") && small_and_large.contains("90000 bytes"));
}

#[test]
fn a_call_that_is_made_again_moves_other_memory_with_another_operator() {
    on_threads(Communicator::loopback(5, 11).unwrap(), |comm| {
        let other = comm.split(Some(0), 0).unwrap().unwrap();
        for i in 0..30_u64 {
            let plus = crate::fold::commutative(move |a: &u64, b: &u64| a + b + i);
            let mut sum = vec![u64::from(comm.rank()); 3];
            if i % 3 == 0 { &other } else { &comm }.run(&mut sum, Call::allreduce(plus)).unwrap();
            assert_eq!(sum, [10 + 4 * i; 3]);
            // More sorts of calls than are remembered, now and then.
            let mut data = vec![if comm.rank() == 2 { i } else { 0 }; 1 + i as usize % 13];
            comm.broadcast(&mut data, 2).unwrap();
            assert!(data.iter().all(|&x| x == i));
            let outgoing: Vec<u64> = (0..5).map(|to| i + 10 * u64::from(comm.rank()) + to).collect();
            let mut incoming = vec![0; 5];
            comm.alltoall(&outgoing, &mut incoming).unwrap();
            let right: Vec<u64> = (0..5).map(|from| i + 10 * from + u64::from(comm.rank())).collect();
            assert_eq!(incoming, right);
            comm.barrier().unwrap();
        }
    });
}

#[test]
fn a_call_that_is_remembered_has_let_go_of_its_operator() {
    on_threads(Communicator::loopback(2, 5).unwrap(), |comm| {
        let held = Arc::new(());
        let theirs = Arc::clone(&held);
        let operator =
            crate::fold::commutative(move |a: &u32, _: &u32| a + Arc::strong_count(&theirs) as u32);
        comm.run(&mut [1_u32, 2], Call::allreduce(operator)).unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// What two ranks say that have made both of two calls several times, and then each makes another one.
pub(super) fn said_of_different_calls(
    make: impl Fn(&Communicator, usize) -> Result<()> + Sync,
) -> Vec<String> {
    let comms = Communicator::loopback(2, 9).unwrap();
    let worlds: Vec<_> = comms.iter().map(|comm| Arc::clone(&comm.world)).collect();
    on_threads(comms, |comm| {
        [0, 1, 0, 1].into_iter().for_each(|which| make(&comm, which).unwrap());
        let me = comm.rank() as usize;
        // Who only puts may be over, and hear of it in the barrier.
        let error = make(&comm, me).and_then(|()| comm.barrier()).unwrap_err();
        // Whoever is told first may have sent nothing, and threads have no lifeline to tell the other by.
        worlds[1 - me].engine().shut_down(error.clone());
        error.to_string()
    })
}

#[test]
fn ranks_that_disagree_after_calls_that_were_made_again_are_told_both() {
    let said =
        said_of_different_calls(|comm, which| comm.run(&mut vec![1_u8; 8 + 8 * which], Call::allreduce(Sum)));
    assert!(said.iter().any(|said| said.contains("8 bytes") && said.contains("16 bytes")), "{said:?}");
}

/// A rank's threads, each on a communicator of its own, while the other rank makes the same calls one after the
/// other in some order.
#[test]
fn threads_of_a_rank_wait_on_their_communicators_at_once() {
    for (size, rounds) in [(1, 200), (9000, 100)] {
        on_threads(Communicator::loopback(2, 3).unwrap(), |comm| {
            let comms: Vec<_> = (0..4).map(|_| comm.duplicate().unwrap()).collect();
            let sum = |comm: &Communicator| {
                let mut data = vec![comm.rank() + 1; size];
                comm.run(&mut data, Call::allreduce(crate::fold::Sum)).unwrap();
                assert_eq!(data, vec![3; size]);
            };
            if comm.rank() == 0 {
                std::thread::scope(|threads| {
                    for comm in &comms {
                        threads.spawn(|| (0..rounds).for_each(|_| sum(comm)));
                    }
                });
            } else {
                // All of the last one's calls, then all of the one before.
                comms.iter().rev().for_each(|comm| (0..rounds).for_each(|_| sum(comm)));
            }
        });
    }
}

#[test]
fn a_rank_that_is_lost_ends_the_waits_of_all_threads() {
    let mut comms = Communicator::loopback(2, 3).unwrap();
    let (other, comm) = (comms.pop().unwrap(), comms.pop().unwrap());
    let pairs = std::thread::scope(|threads| {
        let theirs = threads.spawn(|| [other.duplicate().unwrap(), other.duplicate().unwrap()]);
        let ours = [comm.duplicate().unwrap(), comm.duplicate().unwrap()];
        (ours, theirs.join().unwrap())
    });
    std::thread::scope(|threads| {
        let waits: Vec<_> = pairs.0.iter().map(|comm| threads.spawn(|| comm.barrier())).collect();
        let error = crate::error::Error::transport("test", "an end", "none");
        comm.world.engine().shut_down(error);
        for wait in waits {
            assert!(wait.join().unwrap().unwrap_err().to_string().contains("an end"));
        }
    });
}

#[test]
fn a_rank_that_waits_does_something_else_meanwhile() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    wait_while_waiting(&DONE, 1, false, || {
        DONE.fetch_add(1, Ordering::Relaxed);
    });
}

#[test]
fn a_rank_that_has_a_core_does_not_sleep_while_there_is_something_else_to_do() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    const OFTEN: u32 = 2000;
    let slept = wait_while_waiting(&DONE, OFTEN, true, || {
        DONE.fetch_add(1, Ordering::Relaxed);
    });
    assert!(slept < OFTEN / 4, "{slept} times");
}

/// Has a rank, with a core of its own or in a crowd, wait until `meanwhile`, which counts its calls, has been called so often;
/// and says how often it has slept.
fn wait_while_waiting(calls: &AtomicU32, enough: u32, has_a_core: bool, meanwhile: fn()) -> u32 {
    let mut comms = Communicator::loopback(2, 0).unwrap();
    let (late, early) = (comms.pop().unwrap(), comms.pop().unwrap());
    if has_a_core {
        early.world.engine().give_a_core();
    }
    early.while_waiting(meanwhile);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            while calls.load(Ordering::Relaxed) < enough {
                std::thread::yield_now();
            }
            late.barrier().unwrap();
        });
        let before = sleeps();
        let waited = early.barrier();
        // Whatever happened, the other one is to end.
        calls.store(enough, Ordering::Relaxed);
        waited.unwrap();
        sleeps() - before
    })
}

/// How often this thread has slept.
fn sleeps() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

/// Barriers until one fails; how.
fn barriers_until_one_fails(comm: &Communicator) -> String {
    std::iter::repeat_with(|| comm.barrier()).find_map(Result::err).unwrap().to_string()
}

#[test]
fn all_hear_of_a_panic_before_its_rank_makes_another_call() {
    let mut comms = Communicator::loopback(2, 0).unwrap();
    let (late, early) = (comms.pop().unwrap(), comms.pop().unwrap());
    let cut_off = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _engine = early.world.engine();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(cut_off.is_err());
    let error = barriers_until_one_fails(&late);
    assert!(error.contains("rank 0 gave up: engine: a thread panicked in a call"), "{error}");
}

#[test]
fn a_panic_of_what_is_done_while_waiting_is_an_error_of_all() {
    let mut comms = Communicator::loopback(2, 0).unwrap();
    let (late, early) = (comms.pop().unwrap(), comms.pop().unwrap());
    early.while_waiting(|| std::panic::resume_unwind(Box::new("on purpose")));
    let error = early.barrier().unwrap_err().to_string();
    assert!(error.contains("what was to be done while waiting panicked"), "{error}");
    assert!(barriers_until_one_fails(&late).contains(&error));
}

#[test]
fn who_leaves_hears_of_an_error_that_only_drops_have_met() {
    let started = AtomicU32::new(0);
    on_threads(Communicator::loopback(2, 5).unwrap(), |comm| {
        if comm.rank() == 1 {
            while started.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            comm.give_up(crate::error::Error::transport("test", "an end", "none"));
            return assert!(comm.barrier().is_err());
        }
        let mut data = [[0u8; 4]; 2];
        let requests = data.each_mut().map(|data| {
            let span = raw::Span::new(data.as_mut_ptr(), 4);
            // SAFETY: it lives longer than the request, and is left alone
            unsafe { comm.start_raw(&Call::<u8>::broadcast(1).raw, None, Some(span)) }.unwrap()
        });
        started.store(1, Ordering::Relaxed);
        drop(requests);
        assert!(comm.leave().unwrap_err().to_string().contains("an end"));
    });
}

#[test]
fn a_request_that_is_started_again_has_landed_before() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let (mut input, mut output) = ([1u8; 4], [0u8; 4]);
    let [from, to] = [&mut input, &mut output].map(|data| raw::Span::new(data.as_mut_ptr(), 4));
    let call = Call::<u8>::reduce(0, Sum).raw;
    // SAFETY: both live longer than the request, and are used only while it rests
    let mut request = unsafe { comm.prepare_raw(&call, Some(from), Some(to)) }.unwrap();
    request.start().unwrap();
    assert_eq!(output, [0; 4]);
    request.start().unwrap();
    assert_eq!(output, [1; 4]);
    request.wait().unwrap();
}

#[test]
fn a_rank_that_only_one_cannot_reach_is_told_to_all() {
    let end = |(rank, end)| {
        let end = Faulty::new(end, Faults::default(), 4);
        Box::new(if rank == 0 { end.cut_off_from(1) } else { end }) as Box<dyn Transport>
    };
    let ends = (0..).zip(Loopback::world(3, 7).unwrap());
    let errors = on_threads(Communicator::of_transports(ends.map(end).collect()).unwrap(), |comm| {
        barriers_until_one_fails(&comm)
    });
    let lost = "rank 1 is lost: no way leads there";
    assert_eq!(errors[0], lost);
    assert!(errors[1..].iter().all(|error| *error == format!("rank 0 gave up: {lost}")), "{errors:?}");
}

#[test]
fn what_has_come_for_a_communicator_that_is_freed_is_an_error_of_all() {
    on_threads(Communicator::loopback(2, 3).unwrap(), |comm| {
        let other = comm.duplicate().unwrap();
        if comm.rank() == 1 {
            other.broadcast(&mut [7u8; 10], 1).unwrap();
        } else {
            other.broadcast(&mut [7u8; 10], 9).unwrap_err();
        }
        // What rank 1 has sent comes with it.
        comm.barrier().unwrap();
        drop(other);
        let error = match comm.rank() {
            0 => comm.leave().unwrap_err().to_string(),
            _ => barriers_until_one_fails(&comm),
        };
        assert!(error.contains("a call on a communicator that was freed here"), "{error}");
    });
}

#[test]
fn a_rank_that_has_no_number_left_for_a_communicator_is_an_error_of_all() {
    on_threads(Communicator::loopback(3, 2).unwrap(), |comm| {
        drop(comm.duplicate().unwrap());
        if comm.rank() == 1 {
            comm.world.use_numbers(u32::MAX / 3);
        }
        for _ in 0..2 {
            let Err(error) = comm.duplicate() else { panic!("rank 1 has none") };
            assert!(error.to_string().contains("the rank at place 1 of those that call"), "{error}");
        }
        comm.barrier().unwrap();
    });
}
