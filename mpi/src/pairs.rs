//! MINLOC and MAXLOC on MPI's pairs, whose values and places lie as C lays them out, with gaps.
//!
//! The one decision: pairs have a total order, that of [`MinLoc`](circulant::fold::MinLoc), so that which one is kept
//! never depends on the side that it is on, and all ranks keep the same.

use std::cmp::Ordering;
use std::sync::Arc;

use bytemuck::Pod;
use circulant::fold::{AnyFold, Fold, Op, Type};

/// The operator on pairs of this name; `extent` is from one pair to the next.
pub fn fold(name: &str, op: Op, extent: usize) -> Option<AnyFold> {
    let greatest = match op {
        Op::MinLoc => false,
        Op::MaxLoc => true,
        _ => return None,
    };
    match name {
        "MPI_FLOAT_INT" => pairs::<f32, i32>(greatest, extent),
        "MPI_DOUBLE_INT" => pairs::<f64, i32>(greatest, extent),
        "MPI_LONG_INT" => pairs::<i64, i32>(greatest, extent),
        "MPI_SHORT_INT" => pairs::<i16, i32>(greatest, extent),
        "MPI_2INT" | "MPI_2INTEGER" => pairs::<i32, i32>(greatest, extent),
        "MPI_2REAL" => pairs::<f32, f32>(greatest, extent),
        "MPI_2DOUBLE_PRECISION" => pairs::<f64, f64>(greatest, extent),
        _ => None,
    }
}

fn pairs<V: Number, P: Number>(greatest: bool, extent: usize) -> Option<AnyFold> {
    // As C does it: the place begins where it may, and the whole is as aligned as its widest member.
    let place = size_of::<V>().next_multiple_of(align_of::<P>());
    let whole = (place + size_of::<P>()).next_multiple_of(align_of::<V>().max(align_of::<P>()));
    let wins = move |theirs: &[u8], mine: &[u8]| {
        let (a, b): (V, V) = (read(theirs, 0), read(mine, 0));
        let (at, other): (P, P) = (read(theirs, place), read(mine, place));
        let order = a.nan_first(b).then(if greatest { b.by_value(a) } else { a.by_value(b) });
        let order = order.then(at.nan_first(other)).then(at.by_value(other));
        order.then_with(|| a.by_bits(b)).then_with(|| at.by_bits(other)).is_lt()
    };
    (whole == extent).then(|| Arc::new(Pairs { extent, greatest, wins }).into())
}

fn read<T: Pod>(pair: &[u8], at: usize) -> T {
    bytemuck::pod_read_unaligned(&pair[at..at + size_of::<T>()])
}

/// What pairs are made of.
trait Number: Pod {
    /// Whether it is no number, which comes before all that are.
    fn is_nan(self) -> bool;
    /// Numbers by value; two that are equal but look different (zeros, NaNs) are [`Ordering::Equal`].
    fn by_value(self, other: Self) -> Ordering;
    /// Some order of those that look different.
    fn by_bits(self, other: Self) -> Ordering;

    fn nan_first(self, other: Self) -> Ordering {
        other.is_nan().cmp(&self.is_nan())
    }
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn is_nan(self) -> bool { false }
            fn by_value(self, other: Self) -> Ordering { self.cmp(&other) }
            fn by_bits(self, other: Self) -> Ordering { self.cmp(&other) }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn is_nan(self) -> bool { self.is_nan() }
            fn by_value(self, other: Self) -> Ordering { self.partial_cmp(&other).unwrap_or(Ordering::Equal) }
            fn by_bits(self, other: Self) -> Ordering { self.total_cmp(&other) }
        }
    )*};
}

whole_numbers! { i16 i32 i64 }
floats! { f32 f64 }

/// Keeps the better one of two pairs, as bytes.
struct Pairs<W> {
    extent: usize,
    greatest: bool,
    wins: W,
}

impl<W: Fn(&[u8], &[u8]) -> bool + Send + Sync> Fold for Pairs<W> {
    fn unit(&self) -> usize {
        self.extent
    }

    fn numbers(&self) -> (u8, u8) {
        let op = if self.greatest { Op::MaxLoc } else { Op::MinLoc };
        (op.number(), Type::Users.number())
    }

    fn commutes(&self) -> bool {
        true
    }

    fn fold(&self, mine: &mut [u8], theirs: &[u8], _: bool) -> Result<(), String> {
        for (mine, theirs) in mine.chunks_exact_mut(self.extent).zip(theirs.chunks_exact(self.extent)) {
            if (self.wins)(theirs, mine) {
                mine.copy_from_slice(theirs);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct DoubleInt(f64, i32);

    fn bytes(value: f64, place: i32) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<DoubleInt>()];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..12].copy_from_slice(&place.to_ne_bytes());
        bytes
    }

    #[test]
    fn the_better_value_wins_and_of_equal_ones_the_lesser_place() {
        let [least, greatest] =
            [Op::MinLoc, Op::MaxLoc].map(|op| fold("MPI_DOUBLE_INT", op, size_of::<DoubleInt>()).unwrap());
        for (fold, theirs, expected) in [
            (&least, (1.5, 9), (1.5, 9)),
            (&least, (3.0, 0), (2.0, 4)),
            (&greatest, (3.0, 7), (3.0, 7)),
            (&greatest, (2.0, 3), (2.0, 3)),
            (&least, (2.0, 5), (2.0, 4)),
        ] {
            let mut mine = bytes(2.0, 4);
            fold.fold(&mut mine, &bytes(theirs.0, theirs.1), false).unwrap();
            assert_eq!(mine, bytes(expected.0, expected.1));
        }
    }

    /// Of every two of them the one that comes first is kept, whichever side it is on.
    fn kept_is_the_first<const N: usize>(name: &str, in_order: [[&[u8]; N]; 2]) {
        for (op, pairs) in [Op::MinLoc, Op::MaxLoc].into_iter().zip(in_order) {
            let fold = fold(name, op, pairs[0].len()).unwrap();
            for (i, one) in pairs.iter().enumerate() {
                for other in &pairs[i..] {
                    for (mine, theirs) in [(one, other), (other, one)] {
                        let mut mine = mine.to_vec();
                        fold.fold(&mut mine, theirs, false).unwrap();
                        assert_eq!(mine, *one, "{name}, {op}: {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_nan_comes_first_and_zeros_are_equal_whichever_side_they_are_on() {
        let nan = [bytes(-f64::NAN, 0), bytes(f64::NAN, 0), bytes(f64::NAN, 7)];
        let [least, most] = [bytes(-1.0, 2), bytes(1.0, 1)];
        let zeros = [bytes(0.0, 1), bytes(-0.0, 3), bytes(0.0, 3)];
        let between = [&nan[0], &nan[1], &nan[2], &zeros[0], &zeros[1], &zeros[2]].map(Vec::as_slice);
        let [a, b, c, d, e, f] = between;
        kept_is_the_first(
            "MPI_DOUBLE_INT",
            [[a, b, c, &least, d, e, f, &most], [a, b, c, &most, d, e, f, &least]],
        );
    }

    #[test]
    fn places_that_are_floats_may_be_nans_and_zeros_too() {
        let [nan, none, some] = [[f32::NAN, f32::NAN], [f32::NAN, 1.0], [2.0, f32::NAN]];
        let (low, high) = ([2.0, -0.0], [2.0, 0.0]);
        let order = [&nan, &none, &some, &low, &high].map(bytemuck::bytes_of);
        kept_is_the_first("MPI_2REAL", [order, order]);
    }

    #[test]
    fn other_operators_and_layouts_are_not_taken() {
        assert!(fold("MPI_DOUBLE_INT", Op::Sum, 16).is_none());
        assert!(fold("MPI_DOUBLE_INT", Op::MinLoc, 12).is_none());
        assert!(fold("MPI_LONG_DOUBLE_INT", Op::MinLoc, 32).is_none());
    }
}
