//! Segments in the memory of one process, whose ranks are threads of it: what miri has in place of memfds.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapMut, MmapRaw};

use super::{Label, next_serial};
use crate::error::{Error, Result};

/// What there is.
static SEGMENTS: Mutex<Option<HashMap<u64, Arc<MmapRaw>>>> = Mutex::new(None);

/// A segment that this process has made.
pub struct Segment {
    map: Arc<MmapRaw>,
    label: Label,
}

/// A segment's bytes.
pub struct Mapping(Arc<MmapRaw>);

impl Segment {
    /// `len` zeroed bytes; at least one.
    pub fn create(len: usize) -> Result<Segment> {
        let map = MmapMut::map_anon(len)
            .map_err(|e| Error::transport("mmap", format!("{e}, for {len} bytes"), "ask for less"))?;
        let (map, label) = (Arc::new(MmapRaw::from(map)), Label { descriptor: 0, serial: next_serial() });
        with(|segments| segments.insert(label.number(), map.clone()));
        Ok(Segment { map, label })
    }

    /// What peers find it by.
    pub fn label(&self) -> Label {
        self.label
    }

    /// Its bytes.
    pub fn map(&self) -> Result<Mapping> {
        Ok(Mapping(self.map.clone()))
    }

    /// No process forks.
    pub fn is_own(&self) -> bool {
        true
    }

    /// Its pages go with the last mapping.
    pub fn give_back(&self) {}
}

impl Drop for Segment {
    fn drop(&mut self) {
        with(|segments| segments.remove(&self.label.number()));
    }
}

impl Mapping {
    /// All are there.
    pub fn map_pages(&self, _: usize, _: usize) -> bool {
        true
    }

    /// Of the segment with this label, if there is one.
    pub fn of(label: Label) -> Option<Mapping> {
        with(|segments| segments.get(&label.number()).cloned()).map(Mapping)
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        // What is mapped is not at 0.
        NonNull::new(self.0.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn with<R>(act: impl FnOnce(&mut HashMap<u64, Arc<MmapRaw>>) -> R) -> R {
    let mut segments: MutexGuard<'_, _> = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    act(segments.get_or_insert_default())
}
