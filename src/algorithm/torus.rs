//! Allgather on a torus of `a` times `b` ranks: around the ring of the row, then whole rows around the
//! ring of the column, `a + b - 2` rounds; backwards reduce-scatter, and the two together allreduce.
//!
//! The source has square tori; here `a` is the largest divisor of p that is at most `√p`, so any p
//! will do, but where p is a prime the torus is one ring. Kumar, Grama, Gupta and Karypis, Introduction
//! to Parallel Computing, "Basic Communication Operations".

use super::ring::{Step, step};
use crate::plan::{Blocks, Landing, Leg, Needs, Plan, Round, distinct};
use crate::rank::{Place, Rank};

/// The allgather, from one rank's side: O(1) memory and time for a round.
pub struct Torus {
    place: Place,
    /// How many rows, and how many ranks in each.
    sides: (u32, u32),
}

impl Torus {
    /// The plan of `place.rank`. O(√p).
    pub fn new(place: Place) -> Self {
        Torus { place, sides: sides(place.size) }
    }

    fn first_steps(&self) -> impl Iterator<Item = u32> {
        [0, self.sides.1 - 1].into_iter().filter(|&i| i < self.rounds())
    }

    /// In the row: the part of one rank, to the next rank of the row.
    fn along_the_row(&self, s: u32) -> (Leg, Leg) {
        let columns = self.sides.1;
        let (row, column) = (self.place.rank / columns, self.place.rank % columns);
        let leg =
            |(column, part)| Leg { peer: row * columns + column, blocks: Blocks::One(row * columns + part) };
        let Step { put, arrival } = step(Place { rank: column, size: columns }, s);
        (leg(put), leg(arrival))
    }

    /// In the column: the parts of a whole row, to the next rank of the column.
    fn along_the_column(&self, s: u32) -> (Leg, Leg) {
        let (rows, columns) = self.sides;
        let (row, column) = (self.place.rank / columns, self.place.rank % columns);
        let leg = |(row, parts)| Leg {
            peer: row * columns + column,
            blocks: Blocks::Run { first: parts * columns, count: columns },
        };
        let Step { put, arrival } = step(Place { rank: row, size: rows }, s);
        (leg(put), leg(arrival))
    }
}

/// Rows and columns of the torus, as nearly square as p allows; no more rows than columns.
pub fn sides(p: u32) -> (u32, u32) {
    let rows = (1..=p.isqrt()).rev().find(|rows| p.is_multiple_of(*rows)).unwrap_or(1);
    (rows, p / rows)
}

impl Plan for Torus {
    fn place(&self) -> Place {
        self.place
    }

    fn rounds(&self) -> u32 {
        self.sides.0 + self.sides.1 - 2
    }

    fn blocks(&self) -> u32 {
        self.place.size
    }

    fn round(&self, i: u32) -> Round {
        let steps_in_row = self.sides.1 - 1;
        let ((put, arrival), needs) = match i.checked_sub(steps_in_row) {
            None => (self.along_the_row(i), i.checked_sub(1).map_or(Needs::Nothing, Needs::Arrival)),
            Some(0) => (self.along_the_column(0), Needs::AllBefore(i)),
            Some(s) => (self.along_the_column(s), Needs::Arrival(i - 1)),
        };
        Round { put: Some(put), arrival: Some(arrival), needs, landing: Landing::Store }
    }

    /// The neighbours in the row and in the column, which the first step of either ring names.
    fn sources(&self) -> Vec<Rank> {
        distinct(self.first_steps().filter_map(|i| self.round(i).arrival))
    }

    fn targets(&self) -> Vec<Rank> {
        distinct(self.first_steps().filter_map(|i| self.round(i).put))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_torus_is_as_square_as_the_number_of_ranks_allows() {
        assert_eq!([1, 2, 12, 36, 37, 100].map(sides), [(1, 1), (1, 2), (3, 4), (6, 6), (1, 37), (10, 10)]);
    }
}
