//! Windows: memory that is registered once and moved by many calls, block by block.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::world::World;
use crate::engine::Source;
use crate::error::{Error, Result};
use crate::fold::element::{self, Element};
use crate::transport::memory::Memory;

/// What a page is aligned to, at the least.
const PAGE: usize = 4096;

/// `len` elements in memory that peers can put into, zeroed at first; it reads and writes as a slice.
///
/// Calls that run in the background take a window over and give it back when they are done, so that
/// nobody looks at it meanwhile.
pub struct Window<T: Element> {
    /// Unregistered only while it is dropped.
    source: Source,
    len: usize,
    world: Arc<World>,
    elements: PhantomData<T>,
}

impl<T: Element> Window<T> {
    pub(super) fn new(world: Arc<World>, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::argument("window", format!("{len} elements of {} bytes", size_of::<T>()), "ask for less")
        })?;
        if align_of::<T>() > PAGE {
            let what = format!("elements aligned to {} bytes, where pages are to {PAGE}", align_of::<T>());
            return Err(Error::argument("window", what, "take a type of less alignment"));
        }
        let region = world.engine().window(bytes)?;
        Ok(Window { source: Source::Registered(region), len, world, elements: PhantomData })
    }

    pub(super) fn memory(&self) -> &Memory {
        self.source.memory()
    }

    /// For calls.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it was registered with the transport of this world, whose keys and descriptors mean nothing elsewhere.
    pub(super) fn is_of(&self, world: &Arc<World>) -> bool {
        Arc::ptr_eq(&self.world, world)
    }

    /// What peers have put must be values of `T`. Costs nothing for types of which every pattern is one.
    pub(super) fn check(&self) -> Result<()> {
        check::<T>(self.memory())
    }
}

/// Zero takes the place of what is no value of `T`, which is an error.
pub(super) fn check<T: Element>(memory: &Memory) -> Result<()> {
    memory.change(0, memory.len(), element::check::<T>).map_err(|index| {
        let what = format!("element {index} has bits that are no value of its type");
        Error::transport("check", what, "are all ranks of one program?")
    })
}

impl<T: Element> Drop for Window<T> {
    /// The registration ends under the engine's lock: a transport serves one thread at a time.
    fn drop(&mut self) {
        let engine = self.world.engine_at_the_end();
        self.source = Source::Unregistered(Memory::nothing());
        drop(engine);
    }
}

impl<T: Element> Deref for Window<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let start = self.memory().address().cast::<T>();
        // SAFETY: - its memory holds `len` elements from `start` on (new) as long as `self` lives
        //         - pages are aligned for it (checked in new); for no bytes the address is made to be
        //         - zero is a value (Element), and what peers have put is checked when their call is done
        //         - nobody writes meanwhile: a peer puts only into what a running call has offered,
        //           and a call has the window by value or borrows it mutably
        unsafe { std::slice::from_raw_parts(aligned(start.as_ptr(), self.len), self.len) }
    }
}

impl<T: Element> DerefMut for Window<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let start = self.memory().address().cast::<T>();
        // SAFETY: as in `deref`; and `&mut self` is the only borrow
        unsafe { std::slice::from_raw_parts_mut(aligned(start.as_ptr(), self.len), self.len) }
    }
}

/// An empty window has no pages, and an empty slice needs an aligned address all the same.
fn aligned<T>(start: *mut T, len: usize) -> *mut T {
    if len == 0 || size_of::<T>() == 0 { std::ptr::NonNull::dangling().as_ptr() } else { start }
}

#[cfg(test)]
mod tests {
    use crate::comm::Communicator;

    #[test]
    fn an_element_with_more_alignment_than_a_page_is_refused() {
        #[derive(Clone, Copy)]
        #[repr(C, align(8192))]
        struct Wide([u8; 8192]);
        // SAFETY: - bytes without padding, and every bit pattern is a value
        unsafe impl bytemuck::Zeroable for Wide {}
        // SAFETY: as above
        unsafe impl bytemuck::Pod for Wide {}
        let comm = &Communicator::loopback(1, 0).unwrap()[0];
        let error = comm.window::<Wide>(1).err().unwrap().to_string();
        assert!(error.contains("aligned to 8192 bytes, where pages are to 4096"), "{error}");
    }
}
