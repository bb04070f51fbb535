//! Calls that are carried on by a thread of the library's, while the program's own does something else.

use std::sync::Barrier;

use super::tests::on_threads;
use super::*;
use crate::fold::Sum;

fn attended(p: u32, seed: u64) -> Vec<Communicator> {
    let ends = Loopback::world(p, seed).unwrap();
    let ends = ends.into_iter().map(|end| Box::new(end) as Box<dyn Transport>);
    Communicator::among(ends.collect(), Progress::Thread).unwrap()
}

/// Ranks but one make no call until that one has what they hand on to one another.
#[test]
fn calls_go_on_while_their_ranks_do_something_else() {
    for p in [1, 2, 3, 5, 8] {
        let done = Barrier::new(p as usize);
        on_threads(attended(p, 5), |comm| {
            for elements in [0, 1, 9000, 100_000] {
                for one in 0..p {
                    let mut window = comm.window::<u32>(elements).unwrap();
                    window.fill(comm.rank() + 1);
                    let request = comm.start(window, Call::allreduce(Sum)).unwrap();
                    if comm.rank() != one {
                        done.wait();
                    }
                    let window = request.wait().unwrap();
                    assert!(window.iter().all(|&sum| sum == p * (p + 1) / 2), "{p}, {elements}, {one}");
                    if comm.rank() == one {
                        done.wait();
                    }
                }
            }
        });
    }
}

/// Calls that are waited for, tested, and made on other communicators by other threads, while some are under way.
#[test]
fn who_makes_calls_meanwhile_is_let_in() {
    const P: u32 = 3;
    on_threads(attended(P, 6), |comm| {
        let others = [comm.duplicate().unwrap(), comm.duplicate().unwrap()];
        let sum = |comm: &Communicator, size: usize| {
            let mut data = vec![comm.rank(); size];
            comm.run(&mut data, Call::allreduce(Sum)).unwrap();
            assert_eq!(data, vec![3; size]);
        };
        std::thread::scope(|threads| {
            for other in &others {
                threads.spawn(|| (0..30).for_each(|i| sum(other, i * 100)));
            }
            for round in 0..30 {
                let mut window = comm.window::<u32>(20_000).unwrap();
                window.fill(comm.rank());
                let mut request = comm.start(window, Call::allreduce(Sum)).unwrap();
                sum(&comm, 1 + round);
                let _ = request.test().unwrap();
                let window = request.wait().unwrap();
                assert!(window.iter().all(|&sum| sum == 3));
            }
        });
    });
}

/// Prepared ones are started, and forgotten while they run; a rank that has nothing under way any more has all of it.
#[test]
fn what_is_forgotten_is_carried_to_its_end() {
    let over = Barrier::new(4);
    on_threads(attended(4, 7), |comm| {
        for _ in 0..20 {
            let mut prepared =
                comm.prepare(comm.window::<u64>(30_000).unwrap(), Call::allreduce(Sum)).unwrap();
            prepared.window().unwrap().fill(1);
            drop(prepared.start().unwrap());
            drop(prepared);
        }
        while comm.vacancies() < MAX_OPERATIONS {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        over.wait();
        comm.barrier().unwrap();
    });
}

#[test]
fn an_operator_that_panics_meanwhile_is_an_error_of_all() {
    let done = Barrier::new(3);
    on_threads(attended(3, 8), |comm| {
        let broken = |_: &u32, _: &u32| -> u32 { panic!("broken on purpose") };
        let mut window = comm.window::<u32>(50_000).unwrap();
        window.fill(1);
        let request = comm.start(window, Call::allreduce(crate::fold::commutative(broken))).unwrap();
        if comm.rank() > 0 {
            done.wait();
        }
        let Err(error) = request.wait() else { panic!("the operator has failed") };
        if comm.rank() == 0 {
            done.wait();
        }
        assert!(error.to_string().contains("broken on purpose"), "{error}");
    });
}

/// A rank forgets all that it has of its world but for an operator that owns a communicator, in a call that runs: what
/// carries that call to its end is the last to have it.
#[test]
fn the_world_may_end_with_a_call_that_nobody_waits_for() {
    let ended = Barrier::new(2);
    on_threads(attended(2, 9), |comm| {
        let (world, own) = (Arc::downgrade(&comm.world), comm.duplicate().unwrap());
        let sum = move |a: &u32, b: &u32| a + b + own.rank() / 2;
        let mut window = comm.window::<u32>(40_000).unwrap();
        window.fill(1);
        drop(comm.start(window, Call::allreduce(crate::fold::commutative(sum))).unwrap());
        drop(comm);
        while world.strong_count() > 0 {
            std::thread::yield_now();
        }
        ended.wait();
    });
}
