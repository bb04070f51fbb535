//! MINLOC and MAXLOC on MPI's pairs, whose values and places lie as C lays them out, with gaps.

use std::sync::Arc;

use bytemuck::Pod;
use circulant::fold::{Fold, Op, Type};

/// The operator on pairs of this name; `extent` is from one pair to the next.
pub fn fold(name: &str, op: Op, extent: usize) -> Option<Arc<dyn Fold>> {
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

fn pairs<V: Pod + PartialOrd + Send + Sync, P: Pod + PartialOrd + Send + Sync>(
    greatest: bool,
    extent: usize,
) -> Option<Arc<dyn Fold>> {
    // As C does it: the place begins where it may, and the whole is as aligned as its widest member.
    let place = size_of::<V>().next_multiple_of(align_of::<P>());
    let whole = (place + size_of::<P>()).next_multiple_of(align_of::<V>().max(align_of::<P>()));
    let better: fn(&V, &V) -> bool = if greatest { |a, b| a > b } else { |a, b| a < b };
    let wins = move |theirs: &[u8], mine: &[u8]| {
        let (a, b): (V, V) = (read(theirs, 0), read(mine, 0));
        better(&a, &b) || (a == b && read::<P>(theirs, place) < read::<P>(mine, place))
    };
    (whole == extent).then(|| Arc::new(Pairs { extent, greatest, wins }) as Arc<dyn Fold>)
}

fn read<T: Pod>(pair: &[u8], at: usize) -> T {
    bytemuck::pod_read_unaligned(&pair[at..at + size_of::<T>()])
}

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

    #[test]
    fn other_operators_and_layouts_are_not_taken() {
        assert!(fold("MPI_DOUBLE_INT", Op::Sum, 16).is_none());
        assert!(fold("MPI_DOUBLE_INT", Op::MinLoc, 12).is_none());
        assert!(fold("MPI_LONG_DOUBLE_INT", Op::MinLoc, 32).is_none());
    }
}
