//! How a rank waits: it polls for a little while, then sleeps.
//!
//! Polling answers in a microsecond and takes a core; sleeping takes none and answers in twenty or
//! more. Where ranks outnumber cores, a rank that polls holds up the one that it waits for, so there a
//! rank sleeps at once. Elsewhere it polls as long as polling has paid lately.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// The longest time to poll before sleeping: a few times what a sleeper's waking takes.
const LONGEST: Duration = Duration::from_micros(200);
const SHORTEST: Duration = Duration::from_micros(2);

/// A rank's way of waiting.
pub struct Patience {
    crowded: bool,
    polls_for: Duration,
    since: Option<Instant>,
}

impl Patience {
    /// `crowded`: more ranks on this machine than cores.
    pub fn new(crowded: bool) -> Self {
        Patience { crowded, polls_for: LONGEST, since: None }
    }

    /// Whether to sleep now (else poll again). In a crowd also when something has just `happened`: a
    /// transport does not sleep on what has come already, and one poll less is one system call less.
    pub fn is_over(&mut self, happened: bool) -> bool {
        if self.crowded || happened {
            return self.crowded;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let over = since.elapsed() >= self.polls_for;
        if !over {
            std::hint::spin_loop();
        }
        over
    }

    /// Something has happened: if soon enough for polling to have seen it, poll longer next time.
    pub fn rewarded(&mut self) {
        if let Some(since) = self.since.take() {
            let paid = since.elapsed() < LONGEST;
            self.polls_for =
                if paid { self.polls_for * 2 } else { self.polls_for / 2 }.clamp(SHORTEST, LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_one_sleeps_at_once() {
        assert!(Patience::new(true).is_over(false));
        assert!(Patience::new(true).is_over(true));
    }

    #[test]
    fn alone_one_polls_first() {
        let mut patience = Patience::new(false);
        assert!(!patience.is_over(false));
        while !patience.is_over(false) {}
        assert!(!patience.is_over(true));
    }
}
