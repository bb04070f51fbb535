//! What folds cost beside a copy of the same bytes, in the same run.
//!
//! A copy reads one stream and writes one, a fold reads two and writes one. `GB/s` are bytes of the result
//! a second, of both alike, and `ratio` is the fold's over the copy's: that is how much slower a collective
//! that folds is than one that stores. `moved` counts every stream the program names, two of a copy and
//! three of a fold; that a cache also reads what it is about to write is not counted. Copies and folds
//! alternate, and the best of each counts, as other loads of the machine can only slow them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use circulant::fold::{Fold, Min, Operator, Sum, of};
use half::{bf16, f16};

/// Bytes of a buffer: two of them in the second-level cache, and far more than any cache of a core.
const SIZES: [usize; 2] = [256 << 10, 64 << 20];
/// Bytes that are folded between two looks at the clock.
const STRETCH: usize = 64 << 20;
const ROUNDS: usize = 7;

fn main() {
    println!("                      ------- copy ------  ------- fold ------");
    println!("     fold       KiB      GB/s  moved GB/s      GB/s  moved GB/s  ratio");
    for bytes in SIZES {
        row("i32 sum", bytes, 3_i32, Sum);
        row("i32 min", bytes, 3_i32, Min);
        row("i64 sum", bytes, 3_i64, Sum);
        row("i64 min", bytes, 3_i64, Min);
        row("f32 sum", bytes, 3_f32, Sum);
        row("f32 min", bytes, 3_f32, Min);
        row("f64 sum", bytes, 3_f64, Sum);
        row("f64 min", bytes, 3_f64, Min);
        row("bf16 sum", bytes, bf16::from_f32(3.0), Sum);
        row("f16 sum", bytes, f16::from_f32(3.0), Sum);
    }
}

fn row<T: Pod + Send + Sync, O: Operator<T> + 'static>(name: &str, bytes: usize, value: T, operator: O) {
    let (copy, fold) = seconds(value, bytes, &*of(operator));
    let speed = |seconds: f64| bytes as f64 / seconds / 1e9;
    println!(
        "{name:>9}  {:>8}  {:>8.1}  {:>10.1}  {:>8.1}  {:>10.1}  {:>5.2}",
        bytes >> 10,
        speed(copy),
        2.0 * speed(copy),
        speed(fold),
        3.0 * speed(fold),
        copy / fold
    );
}

/// Seconds of a copy and of a fold, the best of some rounds.
fn seconds<T: Pod>(value: T, bytes: usize, fold: &dyn Fold) -> (f64, f64) {
    let mut mine = vec![value; bytes / size_of::<T>()];
    let theirs = mine.clone();
    let (mine, theirs): (&mut [u8], &[u8]) =
        (bytemuck::cast_slice_mut(&mut mine), bytemuck::cast_slice(&theirs));
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        let copied = timed(bytes, || black_box(&mut *mine).copy_from_slice(black_box(theirs)));
        let folded =
            timed(bytes, || fold.fold(black_box(mine), black_box(theirs), false).expect("numbers fold"));
        best = [best[0].min(copied.as_secs_f64()), best[1].min(folded.as_secs_f64())];
    }
    (best[0], best[1])
}

fn timed(bytes: usize, mut work: impl FnMut()) -> Duration {
    let times = (STRETCH / bytes).max(1) as u32;
    let start = Instant::now();
    (0..times).for_each(|_| work());
    start.elapsed() / times
}
