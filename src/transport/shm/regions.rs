//! Memory that peers may put into, and the keys to it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::forks;
use crate::transport::RemoteKey;
use crate::transport::memory::Memory;
use crate::transport::segment::Label;

/// In a key, where peers cannot map the memory: the rest is the region's number, and its base an address.
pub(super) const PRIVATE: u64 = 1 << 63;

/// Memory that peers may put into.
#[derive(Default)]
pub(super) struct Regions {
    /// The number of the last private one.
    last: u64,
    /// By their keys, and how often each is registered.
    pub(super) memory: HashMap<u64, (Memory, u32)>,
}

/// A region's place in the table, perhaps one of several.
pub(super) struct Registration {
    regions: Arc<Mutex<Regions>>,
    key: u64,
    /// The process that it is of.
    generation: u32,
}

impl Registration {
    pub(super) fn new(regions: &Arc<Mutex<Regions>>, key: u64, memory: &Memory) -> Registration {
        lock(regions).memory.entry(key).or_insert_with(|| (memory.clone(), 0)).1 += 1;
        Registration { regions: Arc::clone(regions), key, generation: forks::here() }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // In a forked child a thread that is not there may have had the table.
        if self.generation != forks::generation() {
            return;
        }
        if let Entry::Occupied(mut entry) = lock(&self.regions).memory.entry(self.key) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }
}

impl Regions {
    /// A number for one that has none.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The one with this key.
    pub(super) fn of(&self, key: u64) -> Option<&Memory> {
        self.memory.get(&key).map(|(memory, _)| memory)
    }
}

/// A panic leaves the table whole: every change to it is one call.
pub(super) fn lock(regions: &Mutex<Regions>) -> MutexGuard<'_, Regions> {
    regions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a key is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Private,
    Shared(Label),
}

impl Target {
    pub(super) fn of(to: RemoteKey) -> Target {
        if to.key & PRIVATE != 0 { Target::Private } else { Target::Shared(Label::from_number(to.key)) }
    }
}
