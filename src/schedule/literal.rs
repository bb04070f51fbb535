//! The pseudo-code of the source's Algorithms 3 to 6, line by line: the oracle of the tests and the baseline of
//! the benches. It is never used to schedule anything.
//!
//! The decision: nothing is improved here, not even what is plainly slow, so that a reader can hold it beside
//! the source, and so that the benches compare with what the source describes.

use crate::rank::Rank;
use crate::schedule::{MAX_ROUNDS, Skips};

/// How often the steps happened whose number the source bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `allblocks` made by itself.
    pub recursive_calls: u32,
    /// Passes through the loop of `allblocks`.
    pub scans: u32,
    /// Send blocks looked up in the receiver's schedule.
    pub violations: u32,
}

/// A schedule of one rank, as one number a round; those from `q` on have no meaning.
pub type Blocks = [i32; MAX_ROUNDS];

/// Algorithm 3.
pub fn baseblock(skips: &Skips, rank: Rank) -> u32 {
    let mut acc = 0;
    for k in (0..skips.rounds()).rev() {
        if acc + skips.skip(k) == rank {
            return k;
        }
        if acc + skips.skip(k) < rank {
            acc += skips.skip(k);
        }
    }
    skips.rounds()
}

/// Algorithms 4 and 5.
pub fn receive(skips: &Skips, rank: Rank, counts: &mut Counts) -> Blocks {
    let (p, q) = (skips.processes(), skips.rounds() as i32);
    let base = baseblock(skips, rank) as i32;
    let mut list = List::descending(q);
    list.unlink(base);
    let mut search = Search { skips, list, s: 2 * i64::from(p), blocks: [0; MAX_ROUNDS], counts };
    search.allblocks(i64::from(p) + i64::from(rank), 0, q, 0);
    let mut blocks = search.blocks;
    for block in &mut blocks[..q as usize] {
        *block = if *block == q { base } else { *block - q };
    }
    blocks
}

/// Algorithm 6.
pub fn send(skips: &Skips, rank: Rank, counts: &mut Counts) -> Blocks {
    let q = skips.rounds() as i32;
    let skip = |k: usize| i64::from(skips.skip(k as u32));
    let mut blocks = [0; MAX_ROUNDS];
    if rank == 0 {
        for k in 0..q {
            blocks[k as usize] = k;
        }
        return blocks;
    }
    let b = baseblock(skips, rank) as i32;
    let (mut v, mut c, mut e) = (i64::from(rank), b, skip(q as usize));
    for k in (1..q as usize).rev() {
        if v < skip(k) {
            if v + skip(k) < e || e < skip(k - 1) || (k == 1 && b > 0) {
                blocks[k] = c;
            } else {
                counts.violations += 1;
                blocks[k] = receive(skips, skips.to(rank, k as u32), counts)[k];
            }
            e = e.min(skip(k));
        } else {
            c = k as i32 - q;
            if k == 1 || v > skip(k) || e - skip(k) < skip(k - 1) {
                blocks[k] = c;
            } else if v + skip(k) > e {
                counts.violations += 1;
                blocks[k] = receive(skips, skips.to(rank, k as u32), counts)[k];
            } else {
                blocks[k] = c;
            }
            v -= skip(k);
            e -= skip(k);
        }
    }
    blocks[0] = b - q;
    blocks
}

/// What the recursive calls share.
struct Search<'s> {
    skips: &'s Skips,
    list: List,
    s: i64,
    blocks: Blocks,
    counts: &'s mut Counts,
}

impl Search<'_> {
    fn allblocks(&mut self, r: i64, acc: i64, mut e: i32, mut k: usize) -> usize {
        while e != END && k < self.skips.rounds() as usize {
            self.counts.scans += 1;
            if acc + self.skip(e as usize) <= r - self.skip(k) && acc + self.skip(e as usize) < self.s {
                if acc + self.skip(e as usize) <= r - self.skip(k + 1) {
                    self.counts.recursive_calls += 1;
                    k = self.allblocks(r, acc + self.skip(e as usize), e, k);
                    if k == self.skips.rounds() as usize {
                        return k;
                    }
                }
                if acc > r - self.skip(k + 1) {
                    return k;
                }
                self.s = acc + self.skip(e as usize);
                self.blocks[k] = e;
                k += 1;
                self.list.unlink(e);
            }
            e = self.list.next(e);
        }
        k
    }

    fn skip(&self, k: usize) -> i64 {
        i64::from(self.skips.skip(k as u32))
    }
}

const END: i32 = -1;

/// A doubly linked list of skip indices; the end stands at place 0, index `e` at place `e + 1`.
struct List {
    next: [i32; MAX_ROUNDS + 2],
    previous: [i32; MAX_ROUNDS + 2],
}

impl List {
    /// `q, q - 1, ..., 0`.
    fn descending(q: i32) -> List {
        let mut list = List { next: [END; MAX_ROUNDS + 2], previous: [END; MAX_ROUNDS + 2] };
        for e in 0..=q {
            list.next[e as usize + 1] = e - 1;
            list.previous[e as usize + 1] = if e == q { END } else { e + 1 };
        }
        list
    }

    fn next(&self, e: i32) -> i32 {
        self.next[(e + 1) as usize]
    }

    fn unlink(&mut self, e: i32) {
        let (before, after) = (self.previous[(e + 1) as usize], self.next(e));
        self.next[(before + 1) as usize] = after;
        self.previous[(after + 1) as usize] = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row a line, a rank a column: baseblocks, receive blocks of each round, send blocks of each round.
    fn printed(p: u32) -> Vec<Vec<i32>> {
        let skips = Skips::new(p);
        let mut counts = Counts::default();
        let mut rows = vec![(0..p).map(|rank| baseblock(&skips, rank) as i32).collect()];
        for k in 0..skips.rounds() as usize {
            rows.push((0..p).map(|rank| receive(&skips, rank, &mut counts)[k]).collect());
        }
        for k in 0..skips.rounds() as usize {
            rows.push((0..p).map(|rank| send(&skips, rank, &mut counts)[k]).collect());
        }
        rows
    }

    fn parsed(table: &str) -> Vec<Vec<i32>> {
        let row = |line: &str| line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        table.trim().lines().map(row).collect()
    }

    #[test]
    fn seventeen_ranks_are_as_the_source_prints_them() {
        let source = "
            5  0  1  2  0  3  0  1  2  4  0  1  2  0  3  0  1
           -4  0 -5 -4 -3 -5 -2 -5 -4 -3 -1 -5 -4 -3 -5 -2 -5
           -5 -4  1 -5 -4 -3 -3 -2 -5 -4 -3 -1 -5 -4 -3 -3 -2
           -2 -2 -2  2  0 -4 -4 -3 -2 -2 -4 -3 -1 -1 -4 -4 -3
           -1 -3 -3 -2 -2  3  0  1  2 -5 -2 -2 -2 -2 -1 -1 -1
           -3 -1 -1 -1 -1 -1 -1 -1 -1  4  0  1  2  0  3  0  1
            0 -5 -4 -3 -5 -2 -5 -4 -3 -1 -5 -4 -3 -5 -2 -5 -4
            1 -5 -4 -3 -3 -2 -5 -4 -3 -1 -5 -4 -3 -3 -2 -5 -4
            2  0 -4 -4 -3 -2 -2 -4 -3 -1 -1 -4 -4 -3 -2 -2 -2
            3  0  1  2 -5 -2 -2 -2 -2 -1 -1 -1 -1 -3 -3 -2 -2
            4  0  1  2  0  3  0  1 -3 -1 -1 -1 -1 -1 -1 -1 -1";
        assert_eq!(printed(17), parsed(source));
    }

    #[test]
    fn nine_ranks_are_as_the_source_prints_them() {
        let source = "
            4  0  1  2  0  3  0  1  2
           -2  0 -4 -3 -2 -4 -1 -4 -3
           -3 -2  1 -4 -3 -2 -2 -1 -4
           -1 -3 -2  2  0 -3 -3 -2 -1
           -4 -1 -1 -1 -1  3  0  1  2
            0 -4 -3 -2 -4 -1 -4 -3 -2
            1 -4 -3 -2 -2 -1 -4 -3 -2
            2  0 -3 -3 -2 -1 -1 -3 -2
            3  0  1  2 -4 -1 -1 -1 -1";
        assert_eq!(printed(9), parsed(source));
    }

    #[test]
    fn eighteen_ranks_are_as_the_source_prints_them() {
        let source = "
            5  0  1  2  0  3  0  1  2  4  0  1  2  0  3  0  1  2
           -3  0 -5 -4 -3 -5 -2 -5 -4 -3 -1 -5 -4 -3 -5 -2 -5 -4
           -4 -3  1 -5 -4 -3 -3 -2 -5 -4 -3 -1 -5 -4 -3 -3 -2 -5
           -2 -4 -3  2  0 -4 -4 -3 -2 -2 -4 -3 -1 -1 -4 -4 -3 -2
           -5 -2 -2 -2 -2  3  0  1  2 -5 -2 -2 -2 -2 -1 -1 -1 -1
           -1 -1 -1 -1 -1 -1 -1 -1 -1  4  0  1  2  0  3  0  1  2
            0 -5 -4 -3 -5 -2 -5 -4 -3 -1 -5 -4 -3 -5 -2 -5 -4 -3
            1 -5 -4 -3 -3 -2 -5 -4 -3 -1 -5 -4 -3 -3 -2 -5 -4 -3
            2  0 -4 -4 -3 -2 -2 -4 -3 -1 -1 -4 -4 -3 -2 -2 -4 -3
            3  0  1  2 -5 -2 -2 -2 -2 -1 -1 -1 -1 -5 -2 -2 -2 -2
            4  0  1  2  0  3  0  1  2 -1 -1 -1 -1 -1 -1 -1 -1 -1";
        assert_eq!(printed(18), parsed(source));
    }

    #[test]
    fn the_source_s_bounds_hold() {
        for p in (2..600).chain([2049]) {
            let skips = Skips::new(p);
            for rank in 0..p {
                let mut counts = Counts::default();
                receive(&skips, rank, &mut counts);
                let q = skips.rounds();
                assert!(counts.recursive_calls < q, "p {p} rank {rank}: {counts:?}");
                // The source's bound is 2q + recursive calls; it does not count every pass.
                let scans = 2 * q + counts.recursive_calls + q / 2;
                assert!(counts.scans <= scans, "p {p} rank {rank}: {counts:?}");
                send(&skips, rank, &mut counts);
                assert!(counts.violations <= 4, "p {p} rank {rank}: {counts:?}");
            }
        }
    }
}
