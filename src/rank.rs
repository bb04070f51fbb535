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

/// How ranks are counted from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    /// Around the ring of so many.
    Ring(u32),
    /// By the bits in which they differ, of a power of two of ranks: there and back are one way, so that whoever is handed
    /// something hands something back.
    Hypercube,
}

impl Ways {
    /// The hypercube's where `p` ranks have one.
    pub fn among(p: u32) -> Ways {
        if p.is_power_of_two() { Ways::Hypercube } else { Ways::Ring(p) }
    }

    /// From one rank to another.
    pub fn distance(self, from: Rank, to: Rank) -> u32 {
        match self {
            Ways::Ring(size) => Place { rank: to, size }.before(from),
            Ways::Hypercube => from ^ to,
        }
    }

    /// The rank that is so far from this one.
    pub fn after(self, rank: Rank, distance: u32) -> Rank {
        match self {
            Ways::Ring(size) => Place { rank, size }.after(distance),
            Ways::Hypercube => rank ^ distance,
        }
    }

    /// The rank from which this one is so far.
    pub fn before(self, rank: Rank, distance: u32) -> Rank {
        match self {
            Ways::Ring(size) => Place { rank, size }.before(distance),
            Ways::Hypercube => rank ^ distance,
        }
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
    fn whoever_goes_a_distance_and_back_is_where_it_was() {
        for p in 1..20 {
            for ways in [Ways::Ring(p), Ways::among(p)] {
                for (from, to) in (0..p).flat_map(|from| (0..p).map(move |to| (from, to))) {
                    let distance = ways.distance(from, to);
                    assert!(distance < p && (distance == 0) == (from == to));
                    assert_eq!((ways.after(from, distance), ways.before(to, distance)), (to, from));
                }
            }
        }
        assert_eq!((Ways::among(8), Ways::among(6)), (Ways::Hypercube, Ways::Ring(6)));
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
