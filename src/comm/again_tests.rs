//! Small calls that are made again and again, each rank in a thread of its own: what went along its line, what was
//! left to its run on the way, and what came too early give the serial result alike.

use super::tests::{faulty, on_threads};
use super::*;
use crate::fold::{self, Sum};
use crate::transport::faulty::Faults;

/// Times that each call is made.
const TIMES: u64 = 30;

/// What rank `rank` brings at a time.
fn value(rank: Rank, time: u64) -> u64 {
    u64::from(rank + 1) * 1_000_003 + time * 7
}

/// All small calls of one time, on two communicators in turn.
fn all_calls(comm: &Communicator, other: &Communicator, time: u64) {
    let (p, me) = (comm.size(), comm.rank());
    let root = (time % u64::from(p)) as Rank;
    let sum: u64 = (0..p).map(|rank| value(rank, time)).sum();
    let everything: Vec<u64> = (0..p).map(|rank| value(rank, time)).collect();

    let mut one = [value(me, time); 3];
    comm.run(&mut one, Call::broadcast(root)).unwrap();
    assert_eq!(one, [value(root, time); 3]);

    let mut one = [value(me, time)];
    other.run(&mut one, Call::allreduce(Sum)).unwrap();
    assert_eq!(one, [sum]);

    let mut one = [value(me, time)];
    comm.run(&mut one, Call::reduce(root, Sum)).unwrap();
    assert!(me != root || one == [sum]);
    comm.barrier().unwrap();

    let mut all = vec![0; p as usize];
    all[me as usize] = value(me, time);
    comm.run(&mut all, Call::allgather()).unwrap();
    assert_eq!(all, everything);

    let mut each = everything.clone();
    comm.run(&mut each, Call::reduce_scatter_block(Sum)).unwrap();
    assert_eq!(each[me as usize], value(me, time) * u64::from(p));

    // Rank r has r mod 3 parts, and nobody but rank 0 any at times.
    let counts: Vec<usize> = (0..p as usize)
        .map(|rank| if time.is_multiple_of(2) { rank % 3 } else { usize::from(rank == 0) })
        .collect();
    let owners = || (0..p).flat_map(|rank| vec![rank; counts[rank as usize]]);
    let mut parts: Vec<u64> = owners().map(|rank| if rank == me { value(rank, time) } else { 0 }).collect();
    comm.run(&mut parts, Call::allgatherv(&counts)).unwrap();
    assert_eq!(parts, owners().map(|rank| value(rank, time)).collect::<Vec<_>>());

    let mut both: Vec<u64> =
        (0..p).map(|to| value(me, time + u64::from(to))).chain(vec![0; p as usize]).collect();
    other.run(&mut both, Call::alltoall()).unwrap();
    let from_each: Vec<u64> = (0..p).map(|from| value(from, time + u64::from(me))).collect();
    assert_eq!(both[p as usize..], from_each);

    // Digits in the order of ranks: no two orders give the same.
    let mut digits = [[u64::from(me % 9) + 1, 10]];
    comm.run(&mut digits, Call::allreduce(fold::ordered(join))).unwrap();
    let right = (1..p).fold([1, 10], |all, rank| join(&all, &[u64::from(rank % 9) + 1, 10]));
    assert_eq!(digits, [right]);
}

/// Digits behind digits, each with the power of ten that its successors shift it by.
fn join(a: &[u64; 2], b: &[u64; 2]) -> [u64; 2] {
    [a[0].wrapping_mul(b[1]).wrapping_add(b[0]), a[1].wrapping_mul(b[1])]
}

fn again_and_again(comms: Vec<Communicator>) {
    on_threads(comms, |comm| {
        let other = comm.duplicate().unwrap();
        (0..TIMES).for_each(|time| all_calls(&comm, &other, time));
    });
}

#[test]
fn small_calls_that_are_repeated_give_the_serial_result() {
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
