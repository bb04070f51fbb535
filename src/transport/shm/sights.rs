//! Whether what a rank would show, or let the kernel copy, is as it was the last time.
//!
//! To read from afar what rests costs nobody much. What a program writes again each time it has to take away from its reader
//! first, line by line, for 28 ns each (EPYC 9004, cores that share no cache): then a copy past the caches is the better way.
//!
//! A look costs a tenth of a microsecond: of what has been new for some calls in a row it is taken now and then only.
#![forbid(unsafe_code)]

use crate::transport::Sight;

/// How many places are known: of calls with more legs, or long puts, to a peer none rests.
const PLACES: usize = 64;
/// After so many calls in a row with something new the next ones are taken to be alike, and only one of so many tells.
const NEW: u8 = 4;
const SELDOM: u8 = 16;

/// What lay where it would have been shown: the latest places.
#[derive(Debug, Default)]
pub struct Sights {
    known: Vec<Known>,
    next: usize,
}

/// What a look tells.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Whether it rests: not at a new place.
    pub rests: bool,
    /// Whether its call had not asked before: as often as it does the answer is the same.
    pub is_first: bool,
}

#[derive(Debug)]
struct Known {
    place: (usize, usize),
    /// In which call it was asked for last, and whether it rested then.
    call: (u64, u32),
    rests: bool,
    /// What it was at the last look.
    sample: u64,
    /// In how many looks in a row it was new, and in how many calls since none was taken.
    new: u8,
    passed: u8,
}

impl Sights {
    /// Whether it rests.
    pub fn look(&mut self, sight: Sight<'_>) -> Seen {
        let place = sight.place();
        match self.known.iter_mut().find(|known| known.place == place) {
            Some(known) if known.call == sight.call => Seen { rests: known.rests, is_first: false },
            Some(known) => Seen { rests: known.look_again(sight), is_first: true },
            None => {
                self.learn(place, sight);
                Seen { rests: false, is_first: true }
            }
        }
    }

    /// A place that is not known takes that of the oldest, if there is room for no more.
    fn learn(&mut self, place: (usize, usize), sight: Sight<'_>) {
        let known =
            Known { place, call: sight.call, rests: false, sample: sight.sample(), new: 0, passed: 0 };
        match self.known.get_mut(self.next) {
            Some(oldest) => *oldest = known,
            None => self.known.push(known),
        }
        self.next = (self.next + 1) % PLACES;
    }
}

impl Known {
    /// The same in another call.
    fn look_again(&mut self, sight: Sight<'_>) -> bool {
        self.call = sight.call;
        if self.new >= NEW && self.passed < SELDOM {
            self.passed += 1;
            return self.rests;
        }
        let sample = sight.sample();
        self.rests = sample == self.sample;
        self.new = if self.rests { 0 } else { self.new.saturating_add(1) };
        (self.sample, self.passed) = (sample, 0);
        self.rests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Segment;
    use crate::transport::memory::Memory;

    const LEN: usize = 1000;

    /// A look at one of some places, where this lies in that call.
    struct Looker {
        sights: Sights,
        memory: Memory,
    }

    impl Looker {
        fn new() -> Self {
            Looker { sights: Sights::default(), memory: Memory::zeroed(LEN * (PLACES + 1)).unwrap() }
        }

        fn rest(&mut self, call: u64, place: usize, what: u8) -> bool {
            let segments = [Segment { offset: place * LEN, len: LEN }];
            self.memory.write(place * LEN, &[what]);
            self.sights.look(Sight { call: (call, 0), memory: &self.memory, segments: &segments }).rests
        }
    }

    #[test]
    fn what_is_as_it_was_in_the_call_before_rests() {
        let mut looker = Looker::new();
        assert!(!looker.rest(1, 0, 7), "nothing is known of it");
        assert!(!looker.rest(1, 0, 7), "it is the same call");
        assert!(looker.rest(2, 0, 7) && looker.rest(2, 0, 8));
        assert!(!looker.rest(3, 0, 8) && looker.rest(4, 0, 8));
        assert!(!looker.rest(5, 1, 8), "another place");
        assert!(looker.rest(5, 0, 8));
    }

    #[test]
    fn of_many_places_the_latest_are_known() {
        let mut looker = Looker::new();
        for call in 0..2 {
            assert!((0..=PLACES).all(|place| !looker.rest(call, place, 7)), "one too many");
        }
        assert!(!(1..=PLACES).any(|place| looker.rest(1, place, 7)));
        assert!((1..=PLACES).filter(|&place| looker.rest(2, place, 7)).count() >= PLACES - 1);
    }

    #[test]
    fn what_is_always_new_is_looked_at_seldom_and_known_to_rest_again_soon() {
        let mut looker = Looker::new();
        assert!(!(0..100).any(|call| looker.rest(call, 0, call as u8)));
        let first = (100..200).find(|&call| looker.rest(call, 0, 77)).unwrap();
        assert!(first <= 100 + 2 * (u64::from(SELDOM) + 1), "call {first}");
        assert!((first + 1..200).all(|call| looker.rest(call, 0, 77)));
        assert!(!looker.rest(200, 0, 78), "a look in every call");
    }
}
