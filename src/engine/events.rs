//! What a transport has said and nobody has looked at yet.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::transport::{Event, Transport};

/// Events, in their order.
#[derive(Default)]
pub struct Events {
    come: Vec<Event>,
    seen: usize,
}

impl Events {
    /// Whether all have been looked at.
    pub fn is_empty(&self) -> bool {
        self.seen == self.come.len()
    }

    /// The next one.
    pub fn take(&mut self) -> Option<Event> {
        let event = self.come.get(self.seen).copied();
        self.seen += usize::from(event.is_some());
        event
    }

    /// One more, behind those that nobody has looked at yet.
    pub fn add(&mut self, event: Event) {
        if self.is_empty() {
            self.clear();
        }
        self.come.push(event);
    }

    /// What was taken last is the next one again.
    pub fn put_back(&mut self) {
        self.seen = self.seen.saturating_sub(1);
    }

    /// Asks the transport for more instead of these; whether there are any.
    pub fn refill(&mut self, transport: &mut dyn Transport) -> Result<bool> {
        self.clear();
        transport.poll(&mut self.come)?;
        Ok(!self.is_empty())
    }

    /// Nobody is to look at the rest.
    pub fn clear(&mut self) {
        self.come.clear();
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_comes_behind_the_rest_and_what_was_looked_at_takes_no_room() {
        let mut events = Events::default();
        (0..3).for_each(|notice| events.add(Event::Notice(notice)));
        assert_eq!(
            (0..3).map(|_| events.take()).collect::<Vec<_>>(),
            [0, 1, 2].map(|n| Some(Event::Notice(n)))
        );
        for notice in 0..1000 {
            events.add(Event::Notice(notice));
            assert_eq!(events.take(), Some(Event::Notice(notice)));
            assert!(events.is_empty() && events.come.len() == 1);
            events.put_back();
            assert_eq!(events.take(), Some(Event::Notice(notice)));
        }
    }
}
