//! Callers' slices while a call has them. However the call ends, nobody else has them afterwards.

use std::ptr::NonNull;

use super::window;
use super::world::World;
use crate::engine::Source;
use crate::error::{Error, Result};
use crate::fold::element::Element;
use crate::transport::memory::Memory;

/// A slice that a call has.
pub(super) struct Lent<'w> {
    source: Source,
    world: &'w World,
}

impl<'w> Lent<'w> {
    /// To be read and written. Borrows both for as long as it lives.
    pub fn new<T: Element>(data: &'w mut [T], world: &'w World) -> Self {
        let (start, bytes) = (NonNull::from(&mut *data).cast::<u8>(), size_of_val(data));
        // SAFETY: - the bytes are `data`'s, which is borrowed mutably as long as this lives
        //         - when it ends, however that happens, its drop sees to it that nobody else has them
        //         - what is written are values of T once `check` has been over them (Element)
        Lent { source: Source::Unregistered(unsafe { Memory::lend(start, bytes) }), world }
    }

    /// To be read only. Borrows both for as long as it lives.
    ///
    /// # Safety
    /// Nobody may write to its memory.
    pub unsafe fn shared<T: Element>(data: &'w [T], world: &'w World) -> Self {
        let (start, bytes) = (NonNull::from(data).cast::<u8>(), size_of_val(data));
        // SAFETY: - the bytes are `data`'s, which is borrowed as long as this lives
        //         - when it ends, however that happens, its drop sees to it that nobody else has them
        //         - nobody writes them (the caller)
        Lent { source: Source::Unregistered(unsafe { Memory::lend(start, bytes) }), world }
    }

    /// For one call.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What peers have put must be values of `T`, which it was lent as: zero takes the place of what is not.
    pub fn check<T: Element>(&self) -> Result<()> {
        window::check::<T>(self.source.memory())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Source::Unregistered(memory) = &mut self.source else { return };
        if memory.holders() > 1 {
            let what = "its memory is in use, as it was cut off by a panic, or the provider does not let go";
            let error = Error::transport(
                "call",
                what,
                "see the panic's message; FI_LOG_LEVEL=warn tells of a provider",
            );
            self.world.engine().give_up(error);
        }
        std::mem::replace(memory, Memory::nothing()).return_loan();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Communicator;

    fn traffic_after(lend: impl FnOnce(&World)) -> Result<()> {
        let comm = &Communicator::loopback(1, 0)?[0];
        lend(&comm.world);
        comm.barrier()
    }

    #[test]
    fn a_slice_that_is_given_back_while_somebody_has_it_ends_all_traffic() {
        let mut data = [1u8; 4];
        let mut kept = Vec::new();
        let written = traffic_after(|world| kept.push(Lent::new(&mut data, world).source().clone()));
        // SAFETY: nobody writes: what is kept is never used
        let read = traffic_after(|world| kept.push(unsafe { Lent::shared(&data, world) }.source().clone()));
        for done in [written, read] {
            let error = done.unwrap_err().to_string();
            assert!(error.contains("cut off by a panic"), "{error}");
        }
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn a_slice_that_nobody_has_any_more_ends_nothing() {
        let mut data = [1u8; 4];
        traffic_after(|world| drop(Lent::new(&mut data, world).source().clone())).unwrap();
        // SAFETY: nobody writes
        traffic_after(|world| drop(unsafe { Lent::shared(&data, world) }.source().clone())).unwrap();
    }
}
