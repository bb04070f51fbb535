//! Windows: memory of the library's, registered once and quick in every call.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use circulant::comm::window::Window;

use crate::communicator::{self, CommunicatorHandle};
use crate::handle::{self, Object, Table};
use crate::memory;
use crate::status::guard;
use crate::world::WorldNumber;

/// What a window's handle points to: nothing that anybody can see.
pub enum WindowObject {}

/// Memory of the library's.
pub type WindowHandle = *mut WindowObject;

/// A window, and where it is. Only the address is used while it lives: what is in it is the caller's.
pub struct Win {
    address: usize,
    window: Window<u8>,
    pub world: WorldNumber,
}

static WINDOWS: Table<Win> = Table::new();

impl Object for Win {
    type Opaque = WindowObject;
    const KIND: usize = 2;

    fn table() -> &'static Table<Win> {
        &WINDOWS
    }
}

impl Win {
    fn bytes(&self) -> Range<usize> {
        self.address..self.address + self.window.len()
    }
}

/// The windows that have some of these bytes.
pub fn holding(ranges: &[Range<usize>]) -> Vec<Arc<Win>> {
    let overlap = |one: &Range<usize>, two: &Range<usize>| one.start < two.end && two.start < one.end;
    handle::all::<Win>(|window| ranges.iter().any(|range| overlap(range, &window.bytes())))
}

/// Gives memory of `bytes` zeroed bytes, aligned to a page: registered once, while other memory is registered
/// for each long call. Any call on communicators of the same world may use it, whole or in part.
///
/// Local. `*address` is where it is; 0 bytes have an address too, and nothing there.
///
/// Errors: CIRCULANT_ERR_TRANSPORT where there is no memory; CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_window_alloc(
    comm: CommunicatorHandle,
    bytes: usize,
    address: *mut *mut c_void,
    window: *mut WindowHandle,
) -> c_int {
    guard("circulant_window_alloc", || {
        memory::check(address, "address")?;
        memory::check(window, "window")?;
        let comm = communicator::get(comm)?;
        let mut made = comm.communicator.window::<u8>(bytes)?;
        let start = made.as_mut_ptr();
        let made =
            handle::insert(Win { address: start.expose_provenance(), window: made, world: comm.world });
        // SAFETY: the caller's `address` and `window` may be written; they are not null (checked above)
        unsafe { memory::give(address, "address", start.cast()).and(memory::give(window, "window", made)) }
    })
}

/// Where a window is, and how many bytes it has; either may be null.
///
/// Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_window_address(
    window: WindowHandle,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    guard("circulant_window_address", || {
        let range = handle::get::<Win>(window)?.bytes();
        if !address.is_null() {
            // SAFETY: the caller's `address` may be written; it is not null
            unsafe { address.write(std::ptr::with_exposed_provenance_mut(range.start)) };
        }
        if !bytes.is_null() {
            // SAFETY: the caller's `bytes` may be written; it is not null
            unsafe { bytes.write(range.len()) };
        }
        Ok(())
    })
}

/// Gives a window's memory back, and sets `*window` to null. Where requests use it, it stays until they are
/// done or freed.
///
/// Local. Errors: CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_window_free(window: *mut WindowHandle) -> c_int {
    guard("circulant_window_free", || {
        // SAFETY: the caller's `window` may be read and written, where it is not null
        unsafe { memory::take(window, "window", handle::remove::<Win>) }.map(drop)
    })
}
