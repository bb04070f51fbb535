//! Puts under way: whose they are, and what must stay until they are sent.
//!
//! A put's context, which libfabric hands back, is one of a fixed row of cells, so that nothing is
//! allocated and the cell's place is the answer. Providers that demand it (FI_CONTEXT) write into the
//! cell while the put is under way. Behind the tokens' cells lies one for each peer: what is injected
//! or not reported has no token, but if it fails, its cell still names the peer.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;

use circulant_libfabric_sys::fi_context2;

use crate::rank::Rank;
use crate::transport::Token;

/// Keeps a source region registered.
type Kept = Arc<dyn Send + Sync>;

/// What a context tells of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It had a token, which is free from now on.
    Tracked(Token, Rank),
    /// It was injected.
    Injected(Rank),
    /// It is none of ours.
    Unknown,
}

pub(super) struct Flight {
    cells: Box<[UnsafeCell<fi_context2>]>,
    /// By token: the peer and the source of a put under way.
    pending: Box<[Option<(Rank, Kept)>]>,
    /// Sources of puts that nobody reports, each once: kept until the end.
    standing: Vec<Kept>,
}

// SAFETY: - the cells are the provider's scratch space; Rust code never looks into them
unsafe impl Send for Flight {}

impl Flight {
    /// Room for `tokens` puts under way to any of `peers` ranks.
    pub fn new(tokens: usize, peers: u32) -> Flight {
        let empty = || UnsafeCell::new(fi_context2 { internal: [std::ptr::null_mut(); 8] });
        Flight {
            cells: std::iter::repeat_with(empty).take(tokens + peers as usize).collect(),
            pending: std::iter::repeat_with(|| None).take(tokens).collect(),
            standing: Vec::new(),
        }
    }

    /// The context for a put with this token; `None` where the token is out of range or under way.
    pub fn tracked(&self, token: Token) -> Option<*mut c_void> {
        match self.pending.get(token as usize) {
            Some(None) => Some(self.cells[token as usize].get().cast()),
            _ => None,
        }
    }

    /// The context for puts that are injected to this peer.
    pub fn injected(&self, peer: Rank) -> *mut c_void {
        self.cells[self.pending.len() + peer as usize].get().cast()
    }

    /// Notes that a put was handed over; its source is kept until [`land`](Flight::land).
    pub fn depart(&mut self, token: Token, peer: Rank, source: &Kept) {
        self.pending[token as usize] = Some((peer, source.clone()));
    }

    /// Notes that a put was handed over that nobody reports: its source is kept until the end.
    pub fn stand(&mut self, source: &Kept) {
        if !self.standing.iter().any(|kept| Arc::ptr_eq(kept, source)) {
            self.standing.push(source.clone());
        }
    }

    /// What the put with this context was; its source is let go, and its token is free.
    ///
    /// Dropping the last hold on a source closes its registration, so the domain must not be entered.
    pub fn land(&mut self, context: *mut c_void) -> Put {
        let offset = (context as usize).wrapping_sub(self.cells.as_ptr() as usize);
        let place = offset / size_of::<fi_context2>();
        match self.pending.get_mut(place) {
            Some(pending) => match pending.take() {
                Some((peer, _source)) => Put::Tracked(place as Token, peer),
                None => Put::Unknown,
            },
            None if place < self.cells.len() => Put::Injected((place - self.pending.len()) as Rank),
            None => Put::Unknown,
        }
    }

    /// Whether a context is of a put that is under way.
    pub fn knows(&self, context: *mut c_void) -> bool {
        let offset = (context as usize).wrapping_sub(self.cells.as_ptr() as usize);
        let place = offset / size_of::<fi_context2>();
        self.pending.get(place).map_or(place < self.cells.len(), Option::is_some)
    }

    /// The endpoint is left open: lets go of all sources, but not of the cells, which a provider may still write into.
    pub fn leave(&mut self) {
        self.abandon();
        self.pending = Box::default();
        std::mem::forget(std::mem::take(&mut self.cells));
    }

    /// Lets go of all sources: the endpoint is closed, and nothing is sent any more.
    pub fn abandon(&mut self) {
        self.pending.fill_with(|| None);
        self.standing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_tells_its_put_once() {
        let mut flight = Flight::new(3, 2);
        let source: Kept = Arc::new(());
        let context = flight.tracked(2).unwrap();
        assert!(!flight.knows(context));
        flight.depart(2, 1, &source);
        assert!(flight.knows(context) && flight.knows(flight.injected(1)));
        assert!(!flight.knows(std::ptr::null_mut()));
        assert_eq!(flight.tracked(2), None, "the token is under way");
        assert_eq!(Arc::strong_count(&source), 2, "the source is kept");
        assert_eq!(flight.land(context), Put::Tracked(2, 1));
        assert_eq!(Arc::strong_count(&source), 1, "the source is let go");
        assert_eq!(flight.land(context), Put::Unknown);
    }

    #[test]
    fn what_was_injected_still_names_its_peer() {
        let mut flight = Flight::new(3, 2);
        let context = flight.injected(1);
        assert_eq!(flight.land(context), Put::Injected(1));
        assert_eq!(flight.land(std::ptr::null_mut()), Put::Unknown);
        assert_eq!(flight.tracked(3), None, "no such token");
    }
}
