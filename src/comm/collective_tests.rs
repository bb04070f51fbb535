//! Every collective by every algorithm over the loopback transport, all ranks in one thread, in seeded orders of
//! arrival: every element against a serial result.

use std::sync::Mutex;

use super::request::Running;
use super::tests::{faulty, finish, on_threads};
use super::*;
use crate::algorithm::{self, Entry};
use crate::engine::operation::shown;
use crate::engine::slots::PAYLOAD;
use crate::engine::staging::STAGES;
use crate::fold::{self, Operator, Sum};
use crate::locality::layout::Domains;
use crate::plan::Needs;
use crate::transport::faulty::Faults;

/// Element `i` of what rank `rank` brings: sums of them stay small, and no two are alike nearby.
fn value(rank: Rank, i: usize) -> u64 {
    (rank as u64 + 1) * 1_000_003 + i as u64 * 7
}

/// The parts of a vector of `n` elements.
fn counts(p: u32, n: usize, kind: usize) -> Vec<usize> {
    let p = p as usize;
    match kind {
        0 => vec![n / p; p],
        1 => (0..p).map(|rank| rank % 3 * n / p).collect(),
        _ => (0..p).map(|rank| if rank == p / 2 { n } else { 0 }).collect(),
    }
}

/// A call with `n` elements to speak of, its buffer's length, and what a rank has at a place before and
/// must have after (`None`: whatever).
struct Case {
    call: Call<u64>,
    len: usize,
    before: Box<dyn Fn(Rank, usize) -> u64>,
    after: Box<dyn Fn(Rank, usize) -> Option<u64>>,
}

fn starts(counts: &[usize]) -> Vec<usize> {
    counts.iter().scan(0, |sum, &count| Some(std::mem::replace(sum, *sum + count))).collect()
}

/// For each place the part that it belongs to.
fn owners(counts: &[usize]) -> Vec<Rank> {
    (0..).zip(counts).flat_map(|(rank, &count)| std::iter::repeat_n(rank, count)).collect()
}

/// What all of `p` ranks bring, added up one after the other.
fn sums(p: u32, n: usize) -> Vec<u64> {
    (0..n).map(|i| (0..p).map(|rank| value(rank, i)).sum()).collect()
}

fn case(collective: Collective, p: u32, root: Rank, n: usize, kind: usize) -> Case {
    let counts = counts(p, n, kind);
    let len: usize = counts.iter().sum();
    // Once for all ranks: without the optimiser's help these would be most of a test's time.
    let (owners, sums) = (owners(&counts), |n| sums(p, n));
    let with =
        |call,
         len,
         before: Box<dyn Fn(Rank, usize) -> u64>,
         after: Box<dyn Fn(Rank, usize) -> Option<u64>>| Case { call, len, before, after };
    match collective {
        Collective::Broadcast => {
            with(Call::broadcast(root), n, Box::new(value), Box::new(move |_, i| Some(value(root, i))))
        }
        Collective::Reduce => {
            let sums = sums(n);
            let after = move |rank, i| (rank == root).then(|| sums[i]);
            with(Call::reduce(root, Sum), n, Box::new(value), Box::new(after))
        }
        Collective::Allreduce => {
            let sums = sums(n);
            with(Call::allreduce(Sum), n, Box::new(value), Box::new(move |_, i| Some(sums[i])))
        }
        Collective::Allgather | Collective::Allgatherv => {
            let call = if collective == Collective::Allgather {
                Call::allgather()
            } else {
                Call::allgatherv(&counts)
            };
            let theirs = owners.clone();
            let before = move |rank, i| if theirs[i] == rank { value(rank, i) } else { 0 };
            with(call, len, Box::new(before), Box::new(move |_, i| Some(value(owners[i], i))))
        }
        Collective::ReduceScatter | Collective::ReduceScatterBlock => {
            let call = match collective {
                Collective::ReduceScatter => Call::reduce_scatter(&counts, Sum),
                _ => Call::reduce_scatter_block(Sum),
            };
            let sums = sums(len);
            let after = move |rank, i| (owners[i] == rank).then(|| sums[i]);
            with(call, len, Box::new(value), Box::new(after))
        }
        Collective::Scatter | Collective::Scatterv => {
            let call = match collective {
                Collective::Scatter => Call::scatter(root),
                _ => Call::scatterv(&counts, root),
            };
            let after = move |rank, i| (owners[i] == rank).then(|| value(root, i));
            with(call, len, Box::new(value), Box::new(after))
        }
        Collective::Gather | Collective::Gatherv => {
            let call = if collective == Collective::Gather {
                Call::gather(root)
            } else {
                Call::gatherv(&counts, root)
            };
            let after = move |rank, i| (rank == root).then(|| value(owners[i], i));
            with(call, len, Box::new(value), Box::new(after))
        }
        Collective::Alltoall => {
            let c = n / p as usize;
            let after = move |rank: Rank, i: usize| {
                let i = i.checked_sub(p as usize * c)?;
                Some(value((i / c) as Rank, rank as usize * c + i % c))
            };
            with(Call::alltoall(), 2 * p as usize * c, Box::new(value), Box::new(after))
        }
        _ => unreachable!("{collective:?} is tested by itself"),
    }
}

impl Case {
    /// What a rank has before.
    fn fill(&self, rank: Rank, window: &mut [u64]) {
        window.iter_mut().enumerate().for_each(|(i, one)| *one = (self.before)(rank, i));
    }

    /// Whether it has what it must have after.
    fn check(&self, rank: Rank, window: &[u64], what: &str) {
        for (i, &found) in window.iter().enumerate() {
            if let Some(right) = (self.after)(rank, i) {
                assert_eq!(found, right, "{what}: element {i} of rank {rank}");
            }
        }
    }
}

fn verify(comms: &[Communicator], case: &Case, seed: u64, what: &str) {
    let start = |comm: &Communicator| {
        let mut window = comm.window::<u64>(case.len).unwrap();
        case.fill(comm.rank(), &mut window);
        comm.start(window, case.call.clone()).unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let windows = finish(comms.iter().map(start).collect(), seed);
    (0..).zip(&windows).for_each(|(rank, window)| case.check(rank, window, what));
}

fn every_algorithm(comms: &[Communicator], sizes: &[usize], seed: u64) {
    algorithms(comms, sizes, seed, |_| true);
}

fn algorithms(comms: &[Communicator], sizes: &[usize], seed: u64, wanted: impl Fn(&Entry) -> bool) {
    each_case(&comms[0], sizes, wanted, |case, n, what| {
        verify(comms, case, seed ^ n, &format!("{what}, seed {seed}"))
    });
}

/// Calls by each algorithm that serves these ranks, of about so many elements.
fn each_case(
    comm: &Communicator,
    sizes: &[usize],
    wanted: impl Fn(&Entry) -> bool,
    mut act: impl FnMut(&Case, u64, &str),
) {
    let p = comm.size();
    for collective in Collective::ALL {
        if matches!(collective, Collective::Barrier | Collective::Alltoallv) {
            continue;
        }
        let kinds = if collective.has_counts() { 3 } else { 1 };
        let fits = |entry: &&Entry| entry.fits(p) && entry.suits(&comm.groups);
        for entry in algorithm::of(collective).filter(fits).filter(|entry| wanted(entry)) {
            for (&n, kind) in sizes.iter().flat_map(|n| (0..kinds).map(move |kind| (n, kind))) {
                if entry.exchanges && (n > 1000 || p > 48) {
                    continue;
                }
                for blocks in if entry.pipelined { &[None, Some(1), Some(4), Some(9)][..] } else { &[None] } {
                    let root = (n as u32 + blocks.unwrap_or(0)) % p;
                    let mut case = case(collective, p, root, n, kind);
                    case.call = case.call.algorithm(entry.name);
                    if let Some(blocks) = blocks {
                        case.call = case.call.blocks(*blocks);
                    }
                    let what = format!(
                        "{} by {}, p = {p}, {n} elements, kind {kind}, root {root}, blocks {blocks:?}",
                        collective.name(),
                        entry.name
                    );
                    act(&case, n as u64, &what);
                }
            }
        }
    }
}

/// Ranks that wait for each call, and make it three times on one window: what has room in a slot is shown, or not. Whoever still
/// reads it when the call is over reads nonsense.
#[test]
fn what_is_shown_in_the_place_of_a_message_gives_the_serial_result() {
    let make_all = |comm: &Communicator, case: &Case, what: &str| {
        let mut window = comm.window::<u64>(case.len).unwrap();
        for time in 0..3 {
            case.fill(comm.rank(), &mut window);
            comm.run_window(&mut window, &case.call).unwrap_or_else(|error| panic!("{what}: {error}"));
            case.check(comm.rank(), &window, &format!("{what}, time {time}"));
            window.fill(u64::MAX);
        }
    };
    let all_of = |p: u32, comms: Vec<Communicator>| {
        let sizes = [600, 600 * p as usize];
        let shown = on_threads(comms, |comm| {
            each_case(&comm, &sizes, |_| true, |case, _, what| make_all(&comm, case, what));
            (shown::BY_LINE.get(), shown::BY_RUN.get())
        });
        assert!(shown.iter().map(|shown| shown.0).sum::<u64>() > 9, "{p} ranks: {shown:?}");
        assert!(shown.iter().map(|shown| shown.1).sum::<u64>() > 2, "{p} ranks: {shown:?}");
    };
    for p in [2, 3, 4, 7] {
        let comms = Communicator::loopback(p, 31).unwrap();
        all_of(p, on_nodes(comms, 1.0));
        let comms = faulty(p, 32, Faults { refuse: 60, delay: 100, lose: 0 });
        all_of(p, comms);
    }
}

/// The same ranks, some of them on one node, and with so many to a core.
fn on_nodes(mut comms: Vec<Communicator>, crowd: f64) -> Vec<Communicator> {
    let groups = Arc::new(Groups::scattered_in_domains(comms.len() as u32));
    for comm in &mut comms {
        comm.groups = Arc::clone(&groups);
        comm.costs.crowd = crowd;
    }
    comms
}

#[test]
fn every_algorithm_of_every_collective_gives_the_serial_result() {
    for (p, sizes) in [
        (1, &[0, 7, 5000][..]),
        (2, &[0, 6, 1024, 5000, 40_000]),
        (3, &[0, 6, 900, 6000, 50_000]),
        (4, &[8, 1000, 30_000]),
        (5, &[10, 4000]),
        (7, &[14, 7000]),
        (8, &[8, 1024, 20_000]),
    ] {
        every_algorithm(&on_nodes(Communicator::loopback(p, u64::from(p)).unwrap(), 1.0), sizes, 1);
    }
}

/// Vectors, and parts, of as many bytes as a slot takes, and of a few more.
#[test]
fn over_a_slow_network_slots_carry_more() {
    for p in [2, 3, 5] {
        let mut comms = Communicator::loopback(p, 13).unwrap();
        comms.iter_mut().for_each(|comm| comm.costs.latency = 1e-4);
        let (full, each) = (PAYLOAD / 8, p as usize);
        every_algorithm(&comms, &[full, full + 1, each * full, each * (full + 1)], 2);
    }
}

/// With so many leaders a node, or by the domains of one, every element as before.
#[test]
fn leaders_of_any_number_and_domains_of_one_node_give_the_serial_result() {
    for (p, leaders) in [(7, 2), (12, 3), (16, 4), (17, 100)] {
        let mut comms = on_nodes(faulty(p, 11, Faults { refuse: 60, delay: 100, lose: 0 }), 1.0);
        comms.iter_mut().for_each(|comm| comm.hierarchy.leaders = leaders);
        algorithms(&comms, &[40 * p as usize, 160 * p as usize], 5, |entry| entry.several_leaders);
    }
    for p in [6, 11] {
        let one = Arc::new(Groups::runs(p, 1).with_domains(|rank| Some(rank / 3)));
        let mut comms = Communicator::loopback(p, 12).unwrap();
        for comm in &mut comms {
            comm.groups = Arc::clone(&one);
            comm.hierarchy = Hierarchy { domains: Some(Domains::Runs(2)), leaders: 2 };
            assert_eq!(
                comm.choice(&Call::<u64>::broadcast(0), 4000).unwrap().algorithm,
                "leader-domains",
                "the user wants it"
            );
        }
        algorithms(&comms, &[p as usize, 300 * p as usize], 9, Entry::is_nested);
    }
}

#[test]
fn many_ranks_and_a_bad_network_change_nothing() {
    for p in [13, 16, 33] {
        let comms = faulty(p, u64::from(p), Faults { refuse: 60, delay: 100, lose: 0 });
        every_algorithm(&on_nodes(comms, 4.0), &[p as usize, 100 * p as usize], u64::from(p));
    }
}

/// Some of them are shown, and some come in messages: loopback shows every other region.
#[test]
fn pieces_beyond_a_sources_staging_slots_wait_for_their_target() {
    const STAGES_AND_ONE: u32 = STAGES as u32 + 1;
    for p in [2, 3, 5, 16] {
        for comms in
            [Communicator::loopback(p, 8).unwrap(), faulty(p, 8, Faults { refuse: 60, delay: 100, lose: 0 })]
        {
            for (collective, kind) in
                [(Collective::Reduce, 0), (Collective::ReduceScatter, 1), (Collective::ReduceScatter, 2)]
            {
                let suits =
                    |entry: &&Entry| entry.pipelined && entry.fits(p) && entry.suits(&comms[0].groups);
                for entry in algorithm::of(collective).filter(suits) {
                    // Of neighbours' pieces a rank gets every so many rounds one.
                    for blocks in [STAGES_AND_ONE, STAGES_AND_ONE * p.ilog2(), 150] {
                        let mut case = case(collective, p, p - 1, 20_000, kind);
                        case.call = case.call.algorithm(entry.name).blocks(blocks);
                        let what = format!("{} by {}, {blocks} blocks", collective.name(), entry.name);
                        verify(&comms, &case, u64::from(blocks), &what);
                    }
                }
            }
        }
    }
}

/// The same once more of what is kept from the time before, and with what is shown before its target is ready.
#[test]
fn calls_of_many_pieces_can_be_made_again() {
    const LEN: usize = 20_000;
    for p in [2, 3, 5] {
        on_threads(faulty(p, 9, Faults { refuse: 60, delay: 100, lose: 0 }), |comm| {
            let (me, all) = (u64::from(comm.rank()), u64::from(p * (p - 1) / 2));
            let call = || Call::reduce(0, Sum).algorithm("circulant").blocks(70);
            let mut prepared = comm.prepare(comm.window(LEN).unwrap(), call()).unwrap();
            // One rank has a third of them, in legs of many pieces.
            let counts: Vec<_> = (1..=p as usize).map(|rank| rank * LEN * 5).collect();
            let begin = |rank: usize| counts[..rank].iter().sum::<usize>();
            let own = begin(me as usize)..begin(me as usize + 1);
            for time in 0..3 {
                prepared.window().unwrap().fill(me + time);
                prepared.run().unwrap();
                let sum = all + time * u64::from(p);
                assert!(me != 0 || prepared.window().unwrap().iter().all(|&one| one == sum));
                let mut vector = vec![me + time; LEN];
                comm.run(&mut vector, call()).unwrap();
                assert!(me != 0 || vector.iter().all(|&one| one == sum));
                let mut parts = vec![time; begin(p as usize)];
                parts[own.clone()].fill(me + time + 1);
                comm.run(&mut parts, Call::allgatherv(&counts).algorithm("circulant-n").blocks(2)).unwrap();
                let right = |rank: usize| {
                    parts[begin(rank)..begin(rank + 1)].iter().all(|&one| one == rank as u64 + time + 1)
                };
                assert!((0..p as usize).all(right));
            }
        });
    }
}

/// Long blocks on a slow network, whose ranks share cores.
fn in_a_slow_crowd(mut comms: Vec<Communicator>) -> Vec<Communicator> {
    let costs = Costs { latency: 1e-7, byte: 1e-6, block: 2e-8, crowd: 8.0, shared: false };
    comms.iter_mut().for_each(|comm| comm.costs = costs);
    comms
}

/// In the background with all algorithms, at once, and prepared.
#[test]
fn an_all_to_all_that_welcomes_one_source_at_a_time_gives_the_serial_result() {
    const PART: usize = 2200;
    let faults = Faults { refuse: 60, delay: 100, lose: 0 };
    for p in [2, 3, 5, 16, 49] {
        let lossy = (p < 49).then(|| faulty(p, 14, faults));
        for comms in [Some(Communicator::loopback(p, 14).unwrap()), lossy].into_iter().flatten() {
            let comms = in_a_slow_crowd(comms);
            let call = Call::<u64>::alltoall();
            let elements = call.raw.elements_of(2 * p as usize * PART, comms[0].place).unwrap();
            let decided = comms[0].decide(&call.raw, elements).unwrap();
            let pace = decided.problem.pace(decided.entry, decided.blocks, 0, &comms[0].costs);
            assert_eq!(pace.welcome, Some(1), "{}", decided.entry.name);
            let straight = |entry: &Entry| entry.collective == Collective::Alltoall && !entry.relays();
            let sizes = [1, 3].map(|times| times * p as usize * PART);
            algorithms(&comms, if p < 49 { &sizes } else { &sizes[..1] }, 7, straight);
        }
    }
    for p in [2, 3, 7] {
        on_threads(in_a_slow_crowd(faulty(p, 15, faults)), |comm| {
            let (me, n) = (comm.rank() as usize, p as usize * PART);
            let mut prepared = comm.prepare(comm.window::<u64>(2 * n).unwrap(), Call::alltoall()).unwrap();
            let right = |all: &[u64], time: u64| {
                (0..n).all(|i| all[n + i] == value((i / PART) as Rank, me * PART + i % PART) + time)
            };
            for time in 0..3 {
                let mine = |i| value(me as Rank, i) + time;
                prepared.window().unwrap().iter_mut().enumerate().for_each(|(i, one)| *one = mine(i));
                prepared.run().unwrap();
                assert!(right(prepared.window().unwrap(), time), "prepared, p = {p}");
                let mut all: Vec<u64> = (0..2 * n).map(mine).collect();
                comm.run(&mut all, Call::alltoall()).unwrap();
                assert!(right(&all, time), "at once, p = {p}");
            }
        });
    }
}

/// In the background, at once, and prepared and run again.
#[test]
fn a_reduction_that_keeps_in_step_gives_the_serial_result() {
    // No block of nine fits a slot.
    const LEN: usize = 20_000;
    let faults = Faults { refuse: 60, delay: 100, lose: 0 };
    let reduce = || Call::<u64>::reduce(0, Sum).algorithm("circulant").blocks(9);
    for p in [3, 4, 33] {
        let mut counts = vec![0; p as usize];
        counts[1] = LEN;
        let scattered = Call::<u64>::reduce_scatter(&counts, Sum).algorithm("circulant-n").blocks(9);
        for comms in [Communicator::loopback(p, 16).unwrap(), faulty(p, 16, faults)] {
            let comms = in_a_slow_crowd(comms);
            keeps_in_step(&comms[2], &reduce(), LEN);
            keeps_in_step(&comms[2], &scattered, LEN);
            let to_one = |entry: &Entry| {
                matches!(entry.collective, Collective::Reduce | Collective::ReduceScatter) && entry.pipelined
            };
            algorithms(&comms, &[LEN], 8, to_one);
            on_threads(comms, |comm| {
                let (me, all) = (u64::from(comm.rank()), u64::from(p));
                let mut prepared = comm.prepare(comm.window(LEN).unwrap(), reduce()).unwrap();
                for time in 0..3 {
                    let vector = |i: usize| i as u64 * (me + 1) + time;
                    let sum = |i: usize| i as u64 * (all * (all + 1) / 2) + time * all;
                    let is_right = |found: &[u64]| me != 0 || (0..LEN).all(|i| found[i] == sum(i));
                    let mut found: Vec<u64> = (0..LEN).map(vector).collect();
                    prepared.window().unwrap().copy_from_slice(&found);
                    prepared.run().unwrap();
                    assert!(is_right(prepared.window().unwrap()), "prepared, p = {p}");
                    comm.run(&mut found, reduce()).unwrap();
                    assert!(is_right(&found), "at once, p = {p}");
                }
            });
        }
    }
}

fn keeps_in_step(comm: &Communicator, call: &Call<u64>, elements: usize) {
    let decided = comm.decide(&call.raw, elements).unwrap();
    let plan = comm.plan(&call.raw, &decided, None);
    assert!((1..plan.rounds()).all(|i| plan.round(i).needs == Needs::AllBefore(i)), "{}", decided.entry.name);
}

#[test]
fn where_not_all_have_wide_channels_far_peers_are_reached_too() {
    let p = 49;
    every_algorithm(&on_nodes(Communicator::loopback(p, 5).unwrap(), 2.0), &[49 * 50], 3);
}

#[test]
fn alltoallv_takes_counts_that_only_its_two_ranks_know() {
    for p in [1, 2, 3, 5, 8] {
        let count = |from: Rank, to: Rank| (from * 7 + to * 13) as usize % 5 * 300;
        for name in algorithm::of(Collective::Alltoallv).filter(|entry| entry.fits(p)).map(|entry| entry.name)
        {
            on_threads(Communicator::loopback(p, 4).unwrap(), |comm| {
                let me = comm.rank();
                let sent: Vec<usize> = (0..p).map(|to| count(me, to)).collect();
                let received: Vec<usize> = (0..p).map(|from| count(from, me)).collect();
                let part = |from: Rank, to: Rank| vec![u64::from(from * 100 + to); count(from, to)];
                let outgoing: Vec<u64> = (0..p).flat_map(|to| part(me, to)).collect();
                let right: Vec<u64> = (0..p).flat_map(|from| part(from, me)).collect();
                let mut both = [outgoing.clone(), vec![0; right.len()]].concat();
                comm.run(&mut both, Call::alltoallv(&sent, &received).algorithm(name)).unwrap();
                assert_eq!(both[outgoing.len()..], right);
                let mut incoming = vec![0; right.len()];
                comm.alltoallv(&outgoing, &sent, &mut incoming, &received).unwrap();
                assert_eq!(incoming, right);
            });
        }
    }
}

#[test]
fn blocks_that_are_handed_on_reach_their_ranks() {
    for p in [1, 2, 3, 7, 16] {
        for c in [1, 3, 100, 3000] {
            on_threads(on_nodes(Communicator::loopback(p, 8).unwrap(), 1.0), |comm| {
                let (me, all) = (comm.rank(), c * p as usize);
                let outgoing: Vec<u64> = (0..all).map(|i| value(me, i)).collect();
                let right = |i: usize| value((i / c) as Rank, me as usize * c + i % c);
                let named = |name| algorithm::named(Collective::Alltoall, name).unwrap();
                let suits = |entry: &&Entry| entry.suits(&comm.groups);
                for entry in ["store-and-forward", "two-phase", "leader"].map(named).into_iter().filter(suits)
                {
                    let mut both = [outgoing.clone(), vec![0; all]].concat();
                    comm.run(&mut both, Call::alltoall().algorithm(entry.name)).unwrap();
                    assert!((0..all).all(|i| both[all + i] == right(i)), "{}", entry.name);
                }
                let mut incoming = vec![0; all];
                comm.alltoall(&outgoing, &mut incoming).unwrap();
                assert!((0..all).all(|i| incoming[i] == right(i)));
            });
        }
    }
}

#[test]
fn nobody_works_where_a_call_still_runs_that_was_dropped() {
    let p = 7;
    let names = ["store-and-forward", "two-phase", "leader"];
    for (name, c) in names.into_iter().flat_map(|name| [(name, 3), (name, 3000)]) {
        let comms = on_nodes(Communicator::loopback(p, 8).unwrap(), 1.0);
        let n = c * p as usize;
        for seed in 0..3 {
            let dropped = |comm: &Communicator| {
                let window = comm.window::<u64>(2 * n).unwrap();
                comm.start(window, Call::alltoall().algorithm(name)).unwrap()
            };
            drop(comms.iter().map(dropped).collect::<Vec<_>>());
            let case = case(Collective::Alltoall, p, 0, n, 0);
            let case = Case { call: case.call.algorithm(name), ..case };
            verify(&comms, &case, seed, &format!("alltoall by {name}, {c} elements a pair"));
        }
    }
}

#[test]
fn the_forms_with_two_slices_keep_what_goes_in() {
    for p in [1, 2, 3, 5, 8] {
        // Beyond one segment of the workspace, too.
        for n in [0, 40, 3000, 2_400_000 / p as usize] {
            let size = p as usize;
            let counts = &counts(p, n * size, 1)[..];
            let (total, starts) = (counts.iter().sum::<usize>(), starts(counts));
            let sums = sums(p, total.max(n * size));
            on_threads(Communicator::loopback(p, 21).unwrap(), |comm| {
                let me = comm.rank();
                let input: Vec<u64> = (0..total).map(|i| value(me, i)).collect();
                let own = starts[me as usize]..starts[me as usize] + counts[me as usize];

                let mut all = vec![0; total];
                comm.allreduce(&input, &mut all, Sum).unwrap();
                assert!(all == sums[..total]);
                let root = p / 2;
                let mut result = vec![0; if me == root { total } else { 0 }];
                comm.reduce(&input, &mut result, Sum, root).unwrap();
                assert!(result == sums[..result.len()]);
                let mut part = vec![0; own.len()];
                comm.reduce_scatter(&input, &mut part, counts, Sum).unwrap();
                assert!(part == sums[own.clone()]);
                let mut gathered = vec![0; total];
                comm.allgatherv(&input[own.clone()], &mut gathered, counts).unwrap();
                let at_root = if me == root { &gathered[..] } else { &[] };
                let mut scattered = vec![0; own.len()];
                comm.scatterv(at_root, &mut scattered, counts, root).unwrap();
                assert_eq!(scattered, input[own.clone()]);
                let mut collected = vec![0; result.len()];
                comm.gatherv(&scattered, &mut collected, counts, root).unwrap();
                assert!(collected.is_empty() || collected == gathered);

                let mut equal = vec![0; n];
                let whole: Vec<u64> = (0..n * size).map(|i| value(me, i)).collect();
                comm.reduce_scatter_block(&whole, &mut equal, Sum).unwrap();
                assert!(equal == sums[me as usize * n..][..n]);
                let mut gathered = vec![0; n * size];
                comm.allgather(&equal, &mut gathered).unwrap();
                assert!(gathered == sums[..n * size]);
                let mut back = vec![0; n];
                comm.scatter(if me == root { &gathered } else { &[] }, &mut back, root).unwrap();
                assert_eq!(back, equal);
                let mut collected = vec![0; if me == root { n * size } else { 0 }];
                comm.gather(&back, &mut collected, root).unwrap();
                assert!(collected.is_empty() || collected == gathered);
                assert!((0..total).all(|i| input[i] == value(me, i)));
            });
        }
    }
}

/// Two by two matrices of small numbers, of which products depend on the order.
type Matrix = [u32; 4];

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let at =
        |i: usize, j: usize| a[2 * i].wrapping_mul(b[j]).wrapping_add(a[2 * i + 1].wrapping_mul(b[2 + j]));
    [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]
}

#[test]
fn a_product_that_does_not_commute_keeps_the_order_of_ranks() {
    let matrix = |rank: Rank, i: usize| [rank + 2, i as u32 + 1, 3, rank * 5 + 1];
    let product = || fold::ordered(times);
    assert!(!Operator::<Matrix>::commutes(&product()));
    // With a core for each, and with four to a core in shared memory, where short ones go straight to the root.
    for (p, crowd) in [1, 2, 3, 4, 6, 7, 8, 13].into_iter().flat_map(|p| [(p, 1.0), (p, 4.0)]) {
        let product_of = |i: usize| (1..p).fold(matrix(0, i), |all, rank| times(&all, &matrix(rank, i)));
        for n in [1, 13, 3000] {
            let whole = n * p as usize;
            let right: Vec<Matrix> = (0..whole).map(product_of).collect();
            let mut comms = Communicator::loopback(p, 17).unwrap();
            let costs = Costs { crowd, shared: crowd > 1.0, ..Costs::default() };
            comms.iter_mut().for_each(|comm| comm.costs = costs);
            on_threads(comms, |comm| {
                let me = comm.rank();
                let input: Vec<Matrix> = (0..whole).map(|i| matrix(me, i)).collect();
                let mut all = input.clone();
                comm.run(&mut all, Call::allreduce(product())).unwrap();
                assert!(all == right, "allreduce, p = {p}, n = {n}");
                for root in 0..p {
                    let mut data = input.clone();
                    comm.run(&mut data, Call::reduce(root, product())).unwrap();
                    assert!(me != root || data == right, "reduce, p = {p}");
                }
                let counts = counts(p, whole, 1);
                let (total, start) = (counts.iter().sum::<usize>(), starts(&counts)[me as usize]);
                let mut data = input[..total.min(whole)].to_vec();
                data.resize_with(total, || matrix(me, 0));
                data.iter_mut().enumerate().for_each(|(i, one)| *one = matrix(me, i));
                comm.run(&mut data, Call::reduce_scatter(&counts, product())).unwrap();
                let own = start..start + counts[me as usize];
                assert!(data[own.clone()] == right[own]);
                let mut own = vec![[0; 4]; n];
                comm.reduce_scatter_block(&input, &mut own, product()).unwrap();
                assert!(own == right[me as usize * n..][..n]);
            });
        }
    }
}

#[test]
fn sums_are_the_same_bit_for_bit_on_all_ranks_and_in_every_order_of_arrival() {
    let noise = |rank: Rank, i: usize| fastrand::Rng::with_seed(u64::from(rank) << 32 | i as u64).f32() - 0.3;
    for (p, n) in [(3, 10), (8, 1000), (8, 30_000), (13, 5000)] {
        let run = |seed| {
            let sums = on_threads(Communicator::loopback(p, seed).unwrap(), |comm| {
                let mut data: Vec<f32> = (0..n).map(|i| noise(comm.rank(), i)).collect();
                comm.run(&mut data, Call::allreduce(Sum)).unwrap();
                data.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            });
            assert!(sums.iter().all(|other| other == &sums[0]));
            sums.into_iter().next().unwrap()
        };
        let first = run(1);
        assert!((2..6).all(|seed| run(seed) == first));
    }
}

#[test]
fn communicators_split_by_colour_and_key() {
    for p in [1, 2, 5, 8, 53] {
        on_threads(Communicator::loopback(p, 2).unwrap(), |comm| {
            let me = comm.rank();
            // The keys turn the order round; every seventh rank stays out.
            let colour = (me % 7 != 6).then_some(me % 3);
            let part = comm.split(colour, -i64::from(me)).unwrap();
            assert_eq!(part.is_some(), colour.is_some());
            let twin = comm.duplicate().unwrap();
            if let Some(part) = &part {
                let mut members: Vec<Rank> =
                    (0..p).filter(|rank| rank % 7 != 6 && rank % 3 == me % 3).collect();
                members.reverse();
                assert_eq!(members[part.rank() as usize], me);
                let mut ranks = vec![0; members.len()];
                ranks[part.rank() as usize] = me;
                part.run(&mut ranks, Call::allgather()).unwrap();
                assert_eq!(ranks, members);
                for n in [3, 5000] {
                    let mut sum = vec![u64::from(me); n];
                    part.run(&mut sum, Call::allreduce(Sum)).unwrap();
                    assert_eq!(sum, vec![members.iter().map(|&rank| u64::from(rank)).sum::<u64>(); n]);
                }
                part.barrier().unwrap();
            }
            let mut count = [1u32];
            twin.run(&mut count, Call::allreduce(Sum)).unwrap();
            assert_eq!(count, [p]);
            twin.free().unwrap();
            if let Some(part) = part {
                let half = part.split(Some(part.rank() / 2), 0).unwrap().unwrap();
                half.run(&mut [1u8], Call::broadcast(0)).unwrap();
            }
            comm.barrier().unwrap();
        });
    }
}

#[test]
fn an_operator_that_fails_or_panics_is_told_with_its_own_words() {
    for panics in [false, true] {
        let fail = move |a: &i32, b: &i32| match (a.max(b), panics) {
            (7, true) => panic!("seven is too much"),
            (7, false) => Err("seven is too much"),
            _ => Ok(a + b),
        };
        let comms = Communicator::loopback(3, 1).unwrap();
        let start = |comm: &Communicator| {
            let mut window = comm.window::<i32>(10).unwrap();
            window[4] = if comm.rank() == 1 { 7 } else { 0 };
            comm.start(window, Call::allreduce(fold::try_commutative(fail)))
        };
        let error = match comms.iter().map(start).collect::<Result<Vec<_>>>() {
            Err(error) => error,
            Ok(mut requests) => loop {
                let failed = requests.iter_mut().find_map(|request| request.test().err());
                if let Some(error) = failed {
                    break error;
                }
            },
        };
        assert!(error.to_string().contains("seven is too much"), "{error}");
    }
}

/// The sum of two ranks' numbers by an operator that owns windows and communicators, in each tense.
#[test]
fn an_operator_may_own_what_needs_the_engine_to_go() {
    let comms = Communicator::loopback(2, 4).unwrap();
    on_threads(comms, |comm| {
        let owner = || {
            let owned = (comm.duplicate().unwrap(), comm.window::<u8>(5000).unwrap());
            fold::commutative(move |a: &i64, b: &i64| a + b + i64::from(owned.1[7]))
        };
        let number = i64::from(comm.rank()) + 1;
        // In slots, and straight; miri takes minutes for more.
        for len in [3, if cfg!(miri) { 2100 } else { 40_000 }] {
            let mut data = vec![number; len];
            comm.run(&mut data, Call::allreduce(owner())).unwrap();
            assert_eq!(data, vec![3; len]);
            let window = || {
                let mut window = comm.window::<i64>(len).unwrap();
                window.fill(number);
                window
            };
            let request = comm.start(window(), Call::allreduce(owner())).unwrap();
            assert_eq!(request.wait().unwrap()[..], vec![3; len]);
            drop(comm.start(window(), Call::allreduce(owner())).unwrap());
            let mut prepared = comm.prepare(window(), Call::allreduce(owner())).unwrap();
            prepared.run().unwrap();
            assert_eq!(prepared.window().unwrap()[..], vec![3; len]);
        }
        assert!(comm.run(&mut [1_i64], Call::allreduce(owner()).algorithm("magic")).is_err());
        // All ends while a call is under way.
        let running = comm.start(comm.window::<i64>(3).unwrap(), Call::allreduce(owner())).unwrap();
        comm.world.engine().shut_down(Error::transport("test", "it is over", ""));
        assert!(comm.run(&mut [1_i64], Call::allreduce(Sum)).is_err());
        drop(running);
    });
}

#[test]
fn an_operator_that_makes_a_call_is_an_error_of_it_and_no_hang() {
    let comms = Communicator::loopback(2, 5).unwrap();
    on_threads(comms, |comm| {
        let (own, window) = (comm.duplicate().unwrap(), Mutex::new(Some(comm.window::<u8>(9).unwrap())));
        let calls = move |a: &i64, b: &i64| {
            // It goes while the operator unwinds.
            let _window = window.lock().unwrap().take();
            a + b + own.barrier().map_or(1, |()| 0)
        };
        let request = comm.start(comm.window::<i64>(1).unwrap(), Call::allreduce(fold::commutative(calls)));
        let error = request.and_then(|request| request.wait().map(drop)).unwrap_err().to_string();
        assert!(error.contains("it makes a call, or lets go of what needs one, within a call"), "{error}");
    });
}

#[test]
fn bad_arguments_are_named_and_break_nothing() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let said = |result: Result<()>| result.unwrap_err().to_string();
    let mut data = [1u32, 2, 3];
    let sum = || Call::allreduce(Sum);
    assert!(
        said(comm.run(&mut data, sum().algorithm("magic")))
            .contains("no algorithm `magic`; take one of: circulant")
    );
    assert!(said(comm.run(&mut data, sum().blocks(0))).contains("0 blocks; take 1 to"));
    assert!(said(comm.run(&mut data, sum().algorithm("ring").blocks(3))).contains("ring takes one"));
    assert!(said(comm.run(&mut data, Call::allgatherv(&[1, 2]))).contains("2 counts for 1 ranks"));
    assert!(said(comm.run(&mut data, Call::allgatherv(&[4]))).contains("4 elements of a buffer of 3"));
    assert!(said(comm.run(&mut data, Call::allgatherv(&[usize::MAX]))).contains("elements of a buffer of 3"));
    assert!(said(comm.run(&mut data, Call::alltoall())).contains("3 elements in 2 equal parts"));
    let own = Call::alltoallv(&[1], &[2]);
    assert!(said(comm.run(&mut data, own)).contains("1 elements from rank 0 to itself, and 2 received"));
    let too_many = Call::alltoallv(&[usize::MAX], &[usize::MAX]);
    assert!(said(comm.run(&mut data, too_many)).contains("exceed all memory"));
    assert!(said(comm.allreduce(&[1], &mut data, Sum)).contains("a buffer of 3 elements where 1 belong"));
    comm.run(&mut data, sum()).unwrap();
}

#[test]
fn a_turn_that_is_given_before_its_rank_has_started_is_kept() {
    let comms = Communicator::loopback(3, 9).unwrap();
    let prepare = |comm: &Communicator| {
        let window = comm.window::<u64>(2 * 3 * 9000).unwrap();
        comm.prepare(window, Call::alltoallv(&[9000; 3], &[9000; 3])).unwrap()
    };
    let mut prepared: Vec<_> = comms.iter().map(prepare).collect();
    for round in 0..4 {
        for (rank, one) in (0..).zip(&mut prepared) {
            let window = one.window().unwrap();
            window.iter_mut().enumerate().for_each(|(i, one)| *one = value(rank, i) + round);
        }
        let mut running: Vec<Running<'_, u64>> = Vec::new();
        for one in &mut prepared {
            // The last rank starts when the others have said all that they can.
            (0..100).for_each(|_| comms.iter().for_each(poll));
            running.push(one.start().unwrap());
        }
        let mut polls = 0;
        while !running.iter_mut().map(|one| one.test().unwrap()).fold(true, |all, one| all & one) {
            polls += 1;
            assert!(polls < 100_000, "start {round} hangs");
        }
        drop(running);
        for (rank, one) in (0..).zip(&mut prepared) {
            let window = one.window().unwrap();
            let right = |i: usize| value((i / 9000) as Rank, rank as usize * 9000 + i % 9000) + round;
            assert!((0..3 * 9000).all(|i| window[3 * 9000 + i] == right(i)), "start {round}, rank {rank}");
        }
    }
}

#[test]
fn an_all_to_all_of_some_of_a_windows_elements_leaves_the_others_alone() {
    for name in ["ring", "store-and-forward", "two-phase"] {
        on_threads(Communicator::loopback(3, 1).unwrap(), |comm| {
            let mut window = comm.window::<u64>(20).unwrap();
            window.iter_mut().enumerate().for_each(|(i, one)| *one = value(comm.rank(), i));
            comm.run_window(&mut window, Call::alltoall().elements(12).algorithm(name)).unwrap();
            let right = |i: usize| value((i / 2) as Rank, comm.rank() as usize * 2 + i % 2);
            assert!((0..6).all(|i| window[6 + i] == right(i)), "{name}: {:?}", &window[..]);
            assert!((12..20).all(|i| window[i] == value(comm.rank(), i)), "{name}");
        });
    }
}

#[test]
fn a_word_that_comes_after_hundreds_of_calls_is_no_disagreement() {
    // Rank 0's parts go ahead; the roots say that they are ready for them long after.
    let (p, calls) = (6, 300);
    let comms = Communicator::loopback(p, 1).unwrap();
    let counts: Vec<usize> = (0..p).map(|rank| if rank == 0 { 1 } else { 1100 }).collect();
    let start = |comm: &Communicator, call: u32| {
        let window = comm.window::<u64>(counts.iter().sum()).unwrap();
        let root = 1 + call % (p - 1);
        comm.start(window, Call::gatherv(&counts, root).algorithm("linear")).unwrap()
    };
    for call in 0..calls {
        let mut ahead = start(&comms[0], call);
        while !ahead.test().unwrap() {
            comms.iter().for_each(poll);
        }
    }
    for call in 0..calls {
        let mut others: Vec<_> = comms[1..].iter().map(|comm| start(comm, call)).collect();
        while !others.iter_mut().map(|one| one.test().unwrap()).fold(true, |all, one| all & one) {
            poll(&comms[0]);
        }
    }
}

/// Makes progress on a rank, whatever is under way there.
fn poll(comm: &Communicator) {
    comm.world.engine().test(usize::MAX).unwrap();
}

/// What each of two ranks is told, where one sends so many elements and the other awaits so many.
fn unequal_parts(sent: usize, received: usize) -> Vec<String> {
    let comms = Communicator::loopback(2, 3).unwrap();
    let call = |rank: Rank| match rank {
        0 => Call::alltoallv(&[1, sent], &[1, 3]),
        _ => Call::alltoallv(&[3, 2], &[received, 2]),
    };
    let start = |comm: &Communicator| {
        let window = comm.window::<u64>(2 * (sent + received) + 20)?;
        comm.start(window, call(comm.rank()))
    };
    let mut requests: Vec<_> = comms.iter().map(start).collect();
    for _ in 0..1000 {
        let test = |request: &mut Result<Request<u64>>| match request {
            Ok(request) => request.test().err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let said: Vec<_> = requests.iter_mut().filter_map(test).collect();
        if !said.is_empty() {
            return said;
        }
    }
    Vec::new()
}

#[test]
fn two_ranks_that_differ_about_the_part_between_them_are_told() {
    for (sent, received) in [(5, 6), (6, 5), (0, 4), (4, 0), (3000, 3001), (3001, 3000), (9, 4000), (4000, 9)]
    {
        let said = unequal_parts(sent, received);
        let (sent_words, received_words) =
            (format!("{} bytes for rank 1", sent * 8), format!("{} bytes from rank 0", received * 8));
        assert!(!said.is_empty(), "{sent} {received}: nothing");
        assert!(
            said.iter().all(|said| said.contains(&sent_words) && said.contains(&received_words)),
            "{sent} {received}: {said:?}"
        );
    }
}

#[test]
fn new_channels_lose_no_slots_to_ranks_that_use_them_at_once() {
    let p = 49;
    for seed in 0..2 {
        on_threads(Communicator::loopback(p, seed).unwrap(), |comm| {
            let me = comm.rank();
            for shuffle in [7, 10] {
                let part = comm.split(Some(0), i64::from(me * shuffle % p)).unwrap().unwrap();
                let rank = part.rank();
                for i in 0..20 {
                    let mut data = [if rank == 0 { i } else { 0 }];
                    part.broadcast(&mut data, 0).unwrap();
                    assert_eq!(data, [i]);
                }
            }
        });
    }
}

#[test]
fn elements_without_size_and_elements_larger_than_a_piece_are_moved_and_combined() {
    type Large = [[u32; 256]; 128];
    for p in [1, 2, 3, 5] {
        on_threads(Communicator::loopback(p, 6).unwrap(), |comm| {
            let size = p as usize;
            let mut nothing = vec![(); 6 * size];
            let unit = || fold::commutative(|_: &(), _: &()| ());
            comm.run(&mut nothing, Call::allreduce(unit())).unwrap();
            comm.run(&mut nothing, Call::allgather()).unwrap();
            comm.run(&mut nothing, Call::alltoall()).unwrap();
            comm.run(&mut nothing, Call::reduce_scatter(&vec![1; size], unit())).unwrap();
            comm.reduce_scatter_block(&nothing, &mut [(); 6], unit()).unwrap();
            comm.alltoall(&nothing, &mut vec![(); 6 * size]).unwrap();

            let add =
                |a: &Large, b: &Large| std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]));
            let large = |base: u32| -> Large { std::array::from_fn(|i| [base * (i as u32 + 1); 256]) };
            let input = vec![large(comm.rank()); size];
            let right = large((0..p).sum());
            let mut own = vec![large(0)];
            comm.reduce_scatter_block(&input, &mut own, fold::commutative(add)).unwrap();
            assert!(own[0] == right);
            let mut all = input.clone();
            comm.run(&mut all, Call::allreduce(fold::ordered(add))).unwrap();
            assert!(all.iter().all(|one| *one == right));
        });
    }
}
