//! Every collective on bare memory, in every form and tense, against what MPI says it does.

use std::sync::{Arc, Barrier, Mutex};

use super::raw::Span;
use super::tests::on_threads;
use super::*;
use crate::fold::{Op, Type, builtin};

/// Element `i` of what rank `rank` brings.
fn value(rank: Rank, i: usize) -> i64 {
    i64::from(rank + 1) * 1_000_003 + i as i64 * 7
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Apart,
    InPlace,
    Displaced,
}

#[derive(Debug, Clone, Copy)]
enum Tense {
    AtOnce,
    Started,
    Prepared,
}

/// A call as one rank makes it: what it gives, and what must be in its output afterwards (`None`: whatever).
struct Made {
    call: RawCall,
    input: Option<(Vec<i64>, Option<Vec<usize>>)>,
    output: Option<(Vec<i64>, Option<Vec<usize>>)>,
    after: Vec<Option<i64>>,
    counts: [Vec<usize>; 2],
}

/// Where parts lie: one after the other, or the last first with a gap before each.
fn places(counts: &[usize], form: Form) -> Vec<usize> {
    let mut next = 0;
    let place = |&count: &usize| {
        let gap = usize::from(form == Form::Displaced);
        next += gap + count;
        next - count
    };
    if form != Form::Displaced {
        return counts.iter().map(place).collect();
    }
    let mut places: Vec<_> = counts.iter().rev().map(place).collect();
    places.reverse();
    places
}

fn parts(
    counts: &[usize],
    form: Form,
    value: impl Fn(usize, usize) -> Option<i64>,
) -> (Vec<Option<i64>>, Vec<usize>) {
    let places = places(counts, form);
    let len = places.iter().zip(counts).map(|(place, count)| place + count).max().unwrap_or(0);
    let mut all = vec![None; len];
    for (part, (&count, &place)) in counts.iter().zip(&places).enumerate() {
        (0..count).for_each(|i| all[place + i] = value(part, i));
    }
    (all, places)
}

fn filled(all: &[Option<i64>]) -> Vec<i64> {
    all.iter().map(|one| one.unwrap_or(-1)).collect()
}

fn made(collective: Collective, place: Place, root: Rank, n: usize, form: Form) -> Made {
    use Collective::*;
    let (me, p) = (place.rank, place.size as usize);
    let irregular = collective.has_counts();
    let counts: Vec<usize> = (0..p).map(|rank| if irregular { rank % 3 * n } else { n }).collect();
    let own = counts[me as usize];
    let sum = |i: usize| (0..place.size).map(|rank| value(rank, i)).sum::<i64>();
    let call = RawCall::new(collective, 8).root(root);
    let call = if collective.reduces() { call.fold(builtin(Op::Sum, Type::I64).unwrap()) } else { call };
    let call = if irregular && collective != Alltoallv { call.counts(&counts) } else { call };
    let vector = |rank| Some(((0..n).map(|i| value(rank, i)).collect::<Vec<_>>(), None));
    let total: usize = counts.iter().sum();
    let mut made =
        Made { call, input: None, output: None, after: vec![], counts: [counts.clone(), counts.clone()] };
    match collective {
        Broadcast => {
            made.output = vector(me);
            made.after = (0..n).map(|i| Some(value(root, i))).collect();
        }
        Reduce | Allreduce => {
            let root = me == root || collective == Allreduce;
            let in_place = form == Form::InPlace && root;
            made.input = vector(me).filter(|_| !in_place);
            made.output = vector(me).filter(|_| in_place).or(Some((vec![0; n], None))).filter(|_| root);
            made.after = (0..n).map(|i| Some(sum(i))).filter(|_| root).collect();
        }
        Allgather | Allgatherv | Gather | Gatherv => {
            let root = me == root || matches!(collective, Allgather | Allgatherv);
            let in_place = form == Form::InPlace && root;
            let own_only = |part, i| (part == me as usize && in_place).then(|| value(me, i));
            let (before, at) = parts(&counts, form, own_only);
            made.input = Some(((0..own).map(|i| value(me, i)).collect(), None)).filter(|_| !in_place);
            made.output = root.then(|| (filled(&before), Some(at)));
            made.after = parts(&counts, form, |part, i| Some(value(part as Rank, i))).0;
            made.after.truncate(if root { usize::MAX } else { 0 });
        }
        Scatter | Scatterv => {
            let (all, at) = parts(&counts, form, |part, i| Some(value(part as Rank, i)));
            let in_place = form == Form::InPlace && me == root;
            made.input = (me == root).then(|| (filled(&all), Some(at)));
            made.output = (!in_place).then(|| (vec![0; own], None));
            made.after = (0..own).map(|i| Some(value(me, i))).filter(|_| !in_place).collect();
        }
        ReduceScatter | ReduceScatterBlock => {
            let in_place = form == Form::InPlace;
            let all: Vec<_> = (0..total).map(|i| value(me, i)).collect();
            let start: usize = counts[..me as usize].iter().sum();
            made.output = Some((if in_place { all.clone() } else { vec![0; own] }, None));
            made.input = (!in_place).then_some((all, None));
            made.after = (0..own).map(|i| Some(sum(start + i))).collect();
        }
        _ => {
            let between = |a: usize, b: usize| if irregular { (a + b) % 3 * n } else { n };
            let sent: Vec<_> = (0..p).map(|to| between(me as usize, to)).collect();
            let of = |from: usize, to: usize, i: usize| Some(value((from * p + to) as Rank, i));
            let (out, at) = parts(&sent, form, |to, i| of(me as usize, to, i));
            made.after = parts(&sent, form, |from, i| of(from, me as usize, i)).0;
            if irregular {
                made.call = made.call.pairs(&sent, &sent);
            }
            let zeros = vec![0; out.len()];
            let in_place = form == Form::InPlace;
            made.output = Some((if in_place { filled(&out) } else { zeros }, Some(at.clone())));
            made.input = (!in_place).then(|| (filled(&out), Some(at)));
            made.counts = [sent.clone(), sent];
        }
    }
    made
}

fn span(side: &mut Option<(Vec<i64>, Option<Vec<usize>>)>, counts: &[usize]) -> Option<Span> {
    let (data, places) = side.as_mut()?;
    let start = data.as_mut_ptr().cast();
    Some(match places {
        Some(places) => Span::placed(start, counts, places),
        None => Span::new(start, data.len()),
    })
}

fn make(comm: &Communicator, made: &mut Made, tense: Tense) {
    let untouched = made.input.clone();
    let (input, output) = (span(&mut made.input, &made.counts[0]), span(&mut made.output, &made.counts[1]));
    // SAFETY: both are vectors of these lengths, apart, which live until the call is done and are not touched before
    unsafe {
        match tense {
            Tense::AtOnce => comm.run_raw(&made.call, input, output).unwrap(),
            Tense::Started => comm.start_raw(&made.call, input, output).unwrap().wait().unwrap(),
            Tense::Prepared => {
                let mut request = comm.prepare_raw(&made.call, input, output).unwrap();
                request.start().unwrap();
                while !request.test().unwrap() {}
            }
        }
    }
    assert_eq!(made.input, untouched, "{:?} {tense:?}: its input", made.call.collective());
    let found = made.output.iter().flat_map(|(data, _)| data);
    let wrong =
        made.after.iter().zip(found).position(|(after, found)| after.is_some_and(|one| one != *found));
    assert_eq!(wrong, None, "{:?} {tense:?} {:?}", made.call.collective(), made.output);
}

#[test]
fn every_collective_does_on_bare_memory_what_mpi_says() {
    use Collective::*;
    let all = [
        Broadcast,
        Reduce,
        Allreduce,
        Allgather,
        Allgatherv,
        ReduceScatter,
        ReduceScatterBlock,
        Scatter,
        Scatterv,
        Gather,
        Gatherv,
        Alltoall,
        Alltoallv,
    ];
    // Miri is far slower.
    let worlds: &[u32] = if cfg!(miri) { &[2] } else { &[1, 2, 3, 7] };
    for &p in worlds {
        on_threads(Communicator::loopback(p, 11).unwrap(), |comm| {
            for collective in all {
                for form in [Form::Apart, Form::InPlace, Form::Displaced] {
                    let displaced = matches!(collective, Allgatherv | Scatterv | Gatherv | Alltoallv);
                    if form == Form::Displaced && !displaced {
                        continue;
                    }
                    let tenses = [
                        (Tense::AtOnce, 5),
                        (Tense::AtOnce, 0),
                        (Tense::AtOnce, 9000),
                        (Tense::Started, 5),
                        (Tense::Started, 9000),
                        (Tense::Prepared, 5),
                        (Tense::Prepared, 9000),
                    ];
                    let tried = if cfg!(miri) { 1 } else { tenses.len() };
                    for &(tense, n) in &tenses[..tried] {
                        let root = (n as u32 + 1) % p;
                        make(&comm, &mut made(collective, comm.place, root, n, form), tense);
                    }
                }
            }
            let barrier = RawCall::new(Collective::Barrier, 0);
            // SAFETY: no memory is given
            let (once, later) =
                unsafe { (comm.run_raw(&barrier, None, None), comm.start_raw(&barrier, None, None)) };
            once.unwrap();
            later.unwrap().wait().unwrap();
        });
    }
}

#[test]
fn a_window_is_known_by_its_address() {
    on_threads(Communicator::loopback(2, 11).unwrap(), |comm| {
        let window = comm.raw_window(4096).unwrap();
        let (start, sum) = (window.start().cast::<i64>(), builtin(Op::Sum, Type::I64).unwrap());
        assert!(comm.world.raw_window(start as usize, 4096).is_some());
        assert!(comm.world.raw_window(start as usize, 4097).is_none());
        for n in [5, 512] {
            let call = RawCall::new(Collective::Allreduce, 8).fold(sum.clone());
            // SAFETY: the window has 512 elements, and nobody else touches it
            unsafe {
                (0..512).for_each(|i| *start.add(i) = i as i64);
                comm.run_raw(&call, None, Some(Span::new(start.cast(), n))).unwrap();
                assert!((0..512).all(|i| *start.add(i) == i as i64 * if i < n { 2 } else { 1 }));
            }
        }
        drop(window);
        assert!(comm.world.raw_window(start as usize, 0).is_none());
    });
}

#[test]
fn of_a_window_no_more_is_copied_than_an_all_to_all_in_place_has_and_nothing_if_it_is_refused() {
    on_threads(Communicator::loopback(2, 7).unwrap(), |comm| {
        let window = comm.raw_window(1 << 20).unwrap();
        let (start, call) = (window.start(), RawCall::new(Collective::Alltoall, 1));
        let largest = |comm: &Communicator| comm.world.workspace(1).unwrap().source().memory().len();
        // SAFETY: nothing is read or written of what is refused
        let refused = unsafe { comm.run_raw(&call, None, Some(Span::new(start, isize::MAX as usize - 1))) };
        assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
        // SAFETY: the window is larger, and nobody else touches it
        unsafe { comm.run_raw(&call, None, Some(Span::new(start, 2))).unwrap() };
        assert!(largest(&comm) < 1 << 20);
    });
}

#[test]
fn of_an_all_to_all_in_place_what_lies_between_its_parts_is_not_looked_at() {
    const APART: usize = 1 << 20;
    on_threads(Communicator::loopback(2, 7).unwrap(), |comm| {
        let me = comm.rank() as u8;
        let mut all = vec![9u8; APART + 1];
        (all[0], all[APART]) = (10 * me, 10 * me + 1);
        let call = RawCall::new(Collective::Alltoallv, 1).pairs(&[1, 1], &[1, 1]);
        let span = Span::placed(all.as_mut_ptr(), &[1, 1], &[0, APART]);
        // SAFETY: the parts are in the vector, and nobody else touches it
        unsafe { comm.run_raw(&call, None, Some(span)).unwrap() };
        assert_eq!((all[0], all[APART]), (me, 10 + me));
        assert!(comm.world.workspace(1).unwrap().source().memory().len() < APART);
        assert!(all[1..APART].iter().all(|&byte| byte == 9));
    });
}

#[test]
fn what_exceeds_a_workspace_goes_in_segments_of_one_kind_at_all_ranks() {
    on_threads(Communicator::loopback(2, 3).unwrap(), |comm| {
        for form in [Form::Apart, Form::InPlace, Form::Displaced] {
            for collective in [Collective::Reduce, Collective::Gatherv, Collective::Scatterv] {
                make(&comm, &mut made(collective, comm.place, 1, 1_500_000, form), Tense::AtOnce);
            }
        }
    });
}

#[test]
fn what_exceeds_a_workspace_is_one_call_where_other_ranks_need_none() {
    let forms = [Form::Apart, Form::InPlace, Form::Displaced];
    on_threads(Communicator::loopback(2, 3).unwrap(), |comm| {
        for (one, other) in [(0, 2), (0, 1), (1, 2), (2, 0)] {
            let form = forms[if comm.rank() == 0 { one } else { other }];
            make(&comm, &mut made(Collective::Allgatherv, comm.place, 1, 1_500_000, form), Tense::AtOnce);
        }
    });
}

#[test]
fn raw_calls_that_are_not_said_in_full_are_refused() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let sum = builtin(Op::Sum, Type::I64).unwrap();
    let mut data = [1i64; 4];
    let mut said = |call: RawCall| {
        let span = Span::new(data.as_mut_ptr().cast(), 4);
        // SAFETY: the array, which nobody else has
        unsafe { comm.run_raw(&call, None, Some(span)) }.unwrap_err().to_string()
    };
    assert!(said(RawCall::new(Collective::Allreduce, 8)).contains("give a fold"));
    assert!(said(RawCall::new(Collective::Broadcast, 8).fold(sum.clone())).contains("give a fold"));
    assert!(said(RawCall::new(Collective::Allreduce, 4).fold(sum)).contains("an operator on 8 bytes"));
    assert!(said(RawCall::new(Collective::Allgatherv, 8)).contains("give the counts"));
    assert!(said(RawCall::new(Collective::Broadcast, 8).root(1)).contains("root 1 of a communicator of 1"));
    assert!(said(RawCall::new(Collective::Broadcast, usize::MAX / 2)).contains("exceed all memory"));
    let nothing = || None;
    // SAFETY: no memory is given
    let error = unsafe { comm.run_raw(&RawCall::new(Collective::Broadcast, 8), nothing(), nothing()) };
    assert!(error.unwrap_err().to_string().contains("no output"));
}

/// An allgather of some threads.
struct Meet {
    all: Mutex<Vec<Vec<u8>>>,
    came: Barrier,
}

impl Meet {
    fn of(n: usize) -> Arc<Meet> {
        Arc::new(Meet { all: Mutex::new(vec![Vec::new(); n]), came: Barrier::new(n) })
    }

    fn agree(&self, rank: usize, own: &[u8]) -> Vec<Vec<u8>> {
        self.all.lock().unwrap()[rank] = own.to_vec();
        self.came.wait();
        let all = self.all.lock().unwrap().clone();
        self.came.wait();
        all
    }
}

#[test]
fn groups_are_made_by_their_members_alone_also_where_they_overlap() {
    for p in [2, 5, 65] {
        let groups: Vec<Vec<Rank>> =
            vec![(0..p).rev().collect(), (0..p).step_by(2).collect(), (1..p).collect()];
        let meets: Vec<_> = groups.iter().map(|group| Meet::of(group.len())).collect();
        on_threads(Communicator::loopback(p, 5).unwrap(), |comm| {
            let mut made = Vec::new();
            for (group, meet) in groups.iter().zip(&meets) {
                let Some(me) = group.iter().position(|&rank| rank == comm.rank()) else { continue };
                let part = comm.of_group(group, |own| Ok(meet.agree(me, own))).unwrap();
                assert_eq!((part.rank(), part.size()), (me as Rank, group.len() as u32));
                made.push((part, group));
            }
            // On all of them, in an order of each rank's own would be wrong; in this order they do not mix.
            for (part, group) in &made {
                let mut sum = [comm.rank()];
                part.run(&mut sum, Call::allreduce(crate::fold::Sum)).unwrap();
                assert_eq!(sum[0], group.iter().sum::<Rank>());
            }
        });
    }
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let comm = &Communicator::loopback(1, 0).unwrap()[0];
    let said =
        |members: &[Rank]| comm.of_group(members, |own| Ok(vec![own.to_vec()])).err().unwrap().to_string();
    assert!(said(&[0, 1]).contains("rank 1 of 1 ranks"));
    assert!(said(&[0, 0]).contains("rank 0 comes twice"));
    assert!(said(&[]).contains("rank 0 is no member"));
    let error = comm.of_group(&[0], |_| Ok(vec![])).err().unwrap().to_string();
    assert!(error.contains("a word from each member"), "{error}");
}
