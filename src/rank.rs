//! Ranks, and where one stands among its peers.
#![forbid(unsafe_code)]

/// The number of a process in its communicator, `0 <= rank < size`.
pub type Rank = u32;

/// A rank among `size` ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// This process.
    pub rank: Rank,
    /// How many processes there are; at least 1.
    pub size: u32,
}

impl Place {
    /// The rank that stands `distance` after this one, around the circle.
    pub fn after(self, distance: u32) -> Rank {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as Rank
    }

    /// The rank that stands `distance` before this one, around the circle; `distance <= size`.
    pub fn before(self, distance: u32) -> Rank {
        self.after(self.size - distance % self.size)
    }

    /// This rank as seen from `root`, which is then 0 (Träff numbers from the root).
    pub fn seen_from(self, root: Rank) -> Place {
        Place { rank: self.before(root), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_closes_both_ways() {
        let last = Place { rank: 4, size: 5 };
        assert_eq!(last.after(1), 0);
        assert_eq!(Place { rank: 0, size: 5 }.before(1), 4);
        assert_eq!(last.before(5), 4);
        assert_eq!(Place { rank: 0, size: 1 }.after(7), 0);
    }

    #[test]
    fn the_root_sees_itself_as_zero() {
        for rank in 0..7 {
            let place = Place { rank, size: 7 };
            assert_eq!(place.seen_from(rank).rank, 0);
            assert_eq!(place.seen_from(0), place);
        }
    }
}
