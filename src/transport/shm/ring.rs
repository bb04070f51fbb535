//! A bounded ring of notices that many ranks write and one reads.
//!
//! A writer claims a place, then publishes its word there with the number of the lap, which is what the
//! reader waits for (Vyukov's bounded queue, <https://www.1024cores.net/home/lock-free-algorithms/queues/bounded-mpmc-queue>).
//! Unlike there the reader does not write into the cells: it says from time to time how far it has come, so
//! that the lines which writers write stay with them. There is a ring for a reader, not one for each pair of
//! ranks, as a node may have a thousand. Whoever dies between claim and publication stops the ring; but then
//! the job is over anyway.
#![forbid(unsafe_code)]

use crossbeam_utils::CachePadded;

use super::primitive::{AtomicU64, Ordering};
use crate::transport::Notice;
use crate::transport::memory::claim_lines;

/// Where writers write next, and how far the reader has come. Zeroed at first.
#[repr(C)]
#[derive(Default)]
pub struct Ends {
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
}

/// A ring as all see it. The cells are a power of two, and zeroed at first.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    ends: &'a Ends,
    cells: &'a [AtomicU64],
}

/// A place that a writer has claimed, and is to publish soon: those behind it wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Place(u64);

/// The one reader of a ring.
pub struct Reader {
    /// The place that it reads next.
    next: u64,
    /// How far writers know that it has come.
    told: u64,
    /// Tells them after so many places.
    lot: u64,
}

impl<'a> Ring<'a> {
    /// Over these cells.
    pub fn new(ends: &'a Ends, cells: &'a [AtomicU64]) -> Ring<'a> {
        debug_assert!(cells.len().is_power_of_two());
        Ring { ends, cells }
    }

    /// Whether there is room, for the moment.
    pub fn has_room(&self) -> bool {
        self.has_place(self.ends.head.load(Ordering::Relaxed))
    }

    /// Has the processor get the line of the next place, as it is about to be published.
    pub fn anticipate(&self) {
        let next = Place(self.ends.head.load(Ordering::Relaxed));
        claim_lines(std::iter::once(std::ptr::from_ref(&self.cells[self.index(next)]).cast()));
    }

    /// A place, if there is one.
    pub fn claim(&self) -> Option<Place> {
        let mut head = self.ends.head.load(Ordering::Relaxed);
        while self.has_place(head) {
            match self.ends.head.compare_exchange_weak(head, head + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Place(head)),
                Err(moved) => head = moved,
            }
        }
        None
    }

    /// The reader may read the place from now on, and all that was written before.
    pub fn publish(&self, place: Place, notice: Notice) {
        let word = u64::from(self.lap(place)) << 32 | u64::from(notice);
        self.cells[self.index(place)].store(word, Ordering::Release);
    }

    /// Which cell a place is.
    pub fn index(&self, Place(place): Place) -> usize {
        place as usize & (self.cells.len() - 1)
    }

    /// The number of a place's lap, from 1.
    pub fn lap(&self, Place(place): Place) -> u32 {
        ((place >> self.cells.len().trailing_zeros()) as u32).wrapping_add(1)
    }

    /// Acquires what the reader has told: a cell that it has left may be written again.
    fn has_place(&self, head: u64) -> bool {
        let ahead = head.wrapping_sub(self.ends.tail.load(Ordering::Acquire));
        // A head that was read before others moved on may lie behind the tail; claiming it fails.
        (ahead as i64) < self.cells.len() as i64
    }
}

impl Reader {
    /// At the beginning; writers learn after every `lot` places that these are free.
    pub fn new(lot: u64) -> Reader {
        Reader { next: 0, told: 0, lot }
    }

    /// The next notice and its place, if it is there. It stays until the reader [moves on](Self::advance).
    pub fn peek(&self, ring: Ring<'_>) -> Option<(Place, Notice)> {
        let place = Place(self.next);
        let word = ring.cells[ring.index(place)].load(Ordering::Acquire);
        ((word >> 32) as u32 == ring.lap(place)).then_some((place, word as Notice))
    }

    /// The reader needs its place no more.
    pub fn advance(&mut self, ring: Ring<'_>) {
        self.next += 1;
        if self.next - self.told == self.lot {
            ring.ends.tail.store(self.next, Ordering::Release);
            self.told = self.next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_every_lap_and_no_more_than_there_is_room_for() {
        let (ends, cells) = (Ends::default(), [const { AtomicU64::new(0) }; 4]);
        let ring = Ring::new(&ends, &cells);
        let mut reader = Reader::new(2);
        for lap in 0..10 {
            let places: Vec<_> = std::iter::from_fn(|| ring.claim()).collect();
            assert_eq!(places.len(), 4);
            assert!(!ring.has_room());
            assert_eq!(reader.peek(ring), None, "claimed, not published");
            for (place, notice) in places.into_iter().zip(10 * lap..) {
                ring.publish(place, notice);
            }
            for notice in 10 * lap..10 * lap + 4 {
                assert_eq!(reader.peek(ring).map(|(_, notice)| notice), Some(notice));
                reader.advance(ring);
            }
            assert_eq!(reader.peek(ring), None);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Shared {
        ends: Ends,
        cells: Vec<AtomicU64>,
        /// What the cells' notices are about.
        data: Vec<UnsafeCell<()>>,
    }

    impl Shared {
        fn new(cells: usize) -> Arc<Shared> {
            let cells: Vec<_> = (0..cells).map(|_| AtomicU64::new(0)).collect();
            let data = cells.iter().map(|_| UnsafeCell::new(())).collect();
            Arc::new(Shared { ends: Ends::default(), cells, data })
        }

        fn ring(&self) -> Ring<'_> {
            Ring::new(&self.ends, &self.cells)
        }

        fn write(&self, notice: Notice) {
            let place = loop {
                match self.ring().claim() {
                    Some(place) => break place,
                    None => thread::yield_now(),
                }
            };
            // Loom itself checks that nobody else has the cell meanwhile.
            self.data[self.ring().index(place)].with_mut(|_| ());
            self.ring().publish(place, notice);
        }

        fn read(&self, reader: &mut Reader) -> Notice {
            loop {
                if let Some((place, notice)) = reader.peek(self.ring()) {
                    self.data[self.ring().index(place)].with(|_| ());
                    reader.advance(self.ring());
                    return notice;
                }
                thread::yield_now();
            }
        }
    }

    fn heard_of(cells: usize, writers: u32, each: u32) {
        loom::model(move || {
            let shared = Shared::new(cells);
            let threads: Vec<_> = (0..writers)
                .map(|writer| {
                    let shared = shared.clone();
                    thread::spawn(move || (0..each).for_each(|i| shared.write(1 + writer * each + i)))
                })
                .collect();
            let mut reader = Reader::new(1);
            let mut heard: Vec<_> = (0..writers * each).map(|_| shared.read(&mut reader)).collect();
            heard.sort_unstable();
            assert_eq!(heard, (1..=writers * each).collect::<Vec<_>>());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn loom_two_writers_are_heard_once_each() {
        heard_of(2, 2, 1);
    }

    #[test]
    fn loom_a_cell_is_written_again_after_it_was_read() {
        heard_of(1, 1, 3);
        heard_of(1, 2, 1);
    }
}
