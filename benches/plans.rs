//! What plans cost: making one, reading a round, and driving a run without I/O.
//!
//! Peers in the same run: a plan's round beside the schedule entry that it rests on, a run beside the
//! bare loop over the plan's rounds.

use std::hint::black_box;
use std::sync::Arc;

use circulant::algorithm::all_broadcast::AllBroadcast;
use circulant::algorithm::broadcast::Circulant;
use circulant::algorithm::one_block::OneBlock;
use circulant::engine::run::Run;
use circulant::plan::compose::Reversed;
use circulant::plan::{Plan, Side, each_block};
use circulant::rank::Place;
use circulant::schedule::Graph;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const RANKS: [u32; 3] = [36, 1000, 100_000];

fn making(c: &mut Criterion) {
    let mut group = c.benchmark_group("make a broadcast plan");
    for p in RANKS {
        let place = Place { rank: p / 3, size: p };
        group.bench_with_input(BenchmarkId::from_parameter(p), &place, |b, &place| {
            b.iter(|| Circulant::new(black_box(place), 0, black_box(1000)));
        });
    }
    group.finish();
}

fn rounds(c: &mut Criterion) {
    let mut group = c.benchmark_group("all rounds of a broadcast of 1000 blocks");
    for p in RANKS {
        let plan = Circulant::new(Place { rank: p / 3, size: p }, 0, 1000);
        group.throughput(Throughput::Elements(plan.rounds().into()));
        group.bench_with_input(BenchmarkId::new("plan", p), &plan, |b, plan| {
            b.iter(|| all_rounds(plan));
        });
        group.bench_function(BenchmarkId::new("run", p), |b| b.iter(|| drive(p)));
    }
    group.finish();
}

/// What a round costs in which all ranks' blocks travel: without naming them, and with.
fn all_broadcast(c: &mut Criterion) {
    let mut group = c.benchmark_group("all rounds of an all-broadcast");
    for p in RANKS {
        let place = Place { rank: p / 3, size: p };
        let graph = Arc::new(Graph::new(p));
        let blocks = |n| AllBroadcast::new(place, n, graph.clone(), None);
        let one = OneBlock::new(place);
        group.throughput(Throughput::Elements(one.rounds().into()));
        group.bench_function(BenchmarkId::new("one block", p), |b| b.iter(|| all_rounds(&one)));
        let many = blocks(40);
        group.throughput(Throughput::Elements(many.rounds().into()));
        group.bench_function(BenchmarkId::new("40 blocks", p), |b| b.iter(|| all_rounds(&many)));
        group.bench_function(BenchmarkId::new("40 blocks, named", p), |b| b.iter(|| all_names(&many)));
        let backwards = Reversed(blocks(40));
        group.bench_function(BenchmarkId::new("40 blocks, backwards", p), |b| {
            b.iter(|| all_rounds(&backwards))
        });
    }
    group.finish();
}

fn all_rounds(plan: &impl Plan) {
    for i in 0..plan.rounds() {
        black_box(plan.round(i));
    }
}

fn all_names(plan: &impl Plan) {
    for i in 0..plan.rounds() {
        each_block(plan, i, Side::Put, &mut |block| {
            black_box(block);
        });
    }
}

/// One rank's run from beginning to end, every arrival in the order of the rounds.
fn drive(p: u32) {
    let mut run = Run::new(Circulant::new(Place { rank: p / 3, size: p }, 0, 1000), 2);
    for i in 0..run.plan().rounds() {
        if run.plan().round(i).arrival.is_some() {
            run.arrived(i).expect("the plan has this arrival");
        }
        while let Some(order) = run.next_put(|_, _| true) {
            run.ordered(order);
            run.sent();
        }
    }
    assert!(run.is_done());
}

criterion_group!(benches, making, rounds, all_broadcast);
criterion_main!(benches);
