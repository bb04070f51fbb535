//! How long the schedules take, against a literal transcription of the source's pseudo-code in the same run.
//!
//! First the source's Table 4 in ratios; then criterion's statistics for single numbers of ranks.
//! `cargo bench --bench schedules -- table` prints the table alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use circulant::schedule::literal::{self, Counts};
use circulant::schedule::{Schedule, Skips, Table};
use criterion::{BenchmarkId, Criterion, Throughput};

/// The ranges of `p` in the source's Table 4.
const RANGES: [(u32, u32); 8] = [
    (1, 17_000),
    (16_000, 33_000),
    (64_000, 73_000),
    (131_000, 140_000),
    (262_000, 267_000),
    (524_000, 529_000),
    (1_048_000, 1_050_000),
    (2_097_000, 2_099_000),
];

/// Numbers of ranks measured in each range, evenly spread; odd, for a median.
const SAMPLES: u32 = 5;

fn main() {
    // Cargo asks benches to list or to test themselves, which must be quick.
    let measures = !std::env::args().any(|argument| argument == "--list" || argument == "--test");
    if measures {
        print_table_4();
    }
    let mut criterion = Criterion::default().configure_from_args();
    one_rank(&mut criterion);
    all_ranks(&mut criterion);
    criterion.final_summary();
}

fn print_table_4() {
    println!(
        "microseconds a rank, send and receive schedules; medians over {SAMPLES} numbers of ranks a range"
    );
    println!(
        "{:>23} | {:>8} | {:>8} {:>6} | {:>9} {:>6}",
        "ranks", "literal", "one rank", "ratio", "all ranks", "ratio"
    );
    for (low, high) in RANGES {
        let samples: Vec<_> = samples(low, high).map(Sample::measure).collect();
        println!(
            "{:>23} | {:>8.4} | {:>8.4} {:>6.2} | {:>9.4} {:>6.1}",
            format!("{low} .. {high}"),
            median(&samples, |sample| sample.literal),
            median(&samples, |sample| sample.one_rank),
            median(&samples, |sample| sample.literal / sample.one_rank),
            median(&samples, |sample| sample.all_ranks),
            median(&samples, |sample| sample.literal / sample.all_ranks),
        );
    }
}

fn samples(low: u32, high: u32) -> impl Iterator<Item = u32> {
    (0..SAMPLES).map(move |i| low + (high - low) * (2 * i + 1) / (2 * SAMPLES))
}

fn median(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<_> = samples.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds a rank for one number of ranks.
struct Sample {
    literal: f64,
    one_rank: f64,
    all_ranks: f64,
}

impl Sample {
    fn measure(p: u32) -> Sample {
        let per_rank = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(p);
        Sample {
            literal: per_rank(fastest(|| literal_of_all(p))),
            one_rank: per_rank(fastest(|| single_of_all(p))),
            all_ranks: per_rank(fastest(|| table_of_all(p))),
        }
    }
}

/// The least of three runs: what others do on the machine only adds.
fn fastest(work: impl Fn()) -> Duration {
    let run = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(|_| run()).min().unwrap_or_default()
}

fn literal_of_all(p: u32) {
    let skips = Skips::new(p);
    let mut counts = Counts::default();
    for rank in 0..p {
        black_box(literal::receive(&skips, rank, &mut counts));
        black_box(literal::send(&skips, rank, &mut counts));
    }
}

fn single_of_all(p: u32) {
    let skips = Skips::new(p);
    for rank in 0..p {
        black_box(Schedule::new(&skips, rank));
    }
}

fn table_of_all(p: u32) {
    black_box(Table::new(&Skips::new(p)));
}

fn one_rank(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one_rank");
    for p in [17, 1000, 65_537, 2_099_000] {
        let skips = Skips::new(p);
        // A stride without a common divisor goes through the ranks in no order a branch predictor learns.
        let mut ranks = (0u64..).map(|i| (i * 1_000_003 % u64::from(p)) as u32).cycle();
        let mut next = || ranks.next().unwrap_or_default();
        group.bench_function(BenchmarkId::new("literal", p), |bencher| {
            let mut counts = Counts::default();
            bencher.iter(|| {
                let rank = next();
                (literal::receive(&skips, rank, &mut counts), literal::send(&skips, rank, &mut counts))
            });
        });
        group.bench_function(BenchmarkId::new("schedule", p), |bencher| {
            bencher.iter(|| Schedule::new(&skips, next()));
        });
    }
    group.finish();
}

fn all_ranks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("all_ranks");
    group.sample_size(20);
    for p in [17, 1000, 65_537] {
        group.throughput(Throughput::Elements(u64::from(p)));
        group.bench_function(BenchmarkId::new("literal", p), |bencher| bencher.iter(|| literal_of_all(p)));
        group.bench_function(BenchmarkId::new("table", p), |bencher| bencher.iter(|| table_of_all(p)));
    }
    group.finish();
}
