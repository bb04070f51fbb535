//! Whether what a rank would show is as it was when it would have been shown last.
//!
//! To read from afar what rests costs nobody much. What a program writes again each time it has to take away from its reader
//! first, line by line, for 28 ns each (EPYC 9004, cores that share no cache): then a copy past the caches is the better way.
#![forbid(unsafe_code)]

use crate::transport::Sight;

/// How many places are known: of calls with more legs to a peer none rests.
const PLACES: usize = 64;

/// What lay where it would have been shown, the latest places, and whether it rested then.
#[derive(Debug, Default)]
pub struct Sights {
    known: Vec<(Sight, bool)>,
    next: usize,
}

impl Sights {
    /// Whether it rests: false at a new place, and the same as often as one call asks.
    pub fn rest(&mut self, sight: Sight) -> bool {
        let is_there = |known: &&mut (Sight, bool)| known.0.place == sight.place;
        match self.known.iter_mut().find(is_there) {
            Some((known, rests)) => {
                if known.call != sight.call {
                    *rests = known.sample == sight.sample;
                    *known = sight;
                }
                *rests
            }
            None => {
                match self.known.get_mut(self.next) {
                    Some(oldest) => *oldest = (sight, false),
                    None => self.known.push((sight, false)),
                }
                self.next = (self.next + 1) % PLACES;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(call: u64, place: usize, sample: u64) -> Sight {
        Sight { call: (call, 0), place: (place, 1000), sample }
    }

    #[test]
    fn what_is_as_it_was_in_the_call_before_rests() {
        let mut sights = Sights::default();
        assert!(!sights.rest(sight(1, 0, 7)), "nothing is known of it");
        assert!(!sights.rest(sight(1, 0, 7)), "it is the same call");
        assert!(sights.rest(sight(2, 0, 7)) && sights.rest(sight(2, 0, 8)));
        assert!(!sights.rest(sight(3, 0, 8)) && sights.rest(sight(4, 0, 8)));
        assert!(!sights.rest(sight(5, 1, 8)), "another place");
        assert!(sights.rest(sight(5, 0, 8)));
    }

    #[test]
    fn of_many_places_the_latest_are_known() {
        let mut sights = Sights::default();
        for call in 0..2 {
            assert!((0..=PLACES).all(|place| !sights.rest(sight(call, place, 7))), "one too many");
        }
        assert!(!(1..=PLACES).any(|place| sights.rest(sight(1, place, 7))));
        assert!((1..=PLACES).filter(|&place| sights.rest(sight(2, place, 7))).count() >= PLACES - 1);
    }
}
