//! Windows: memory of the library's, registered once and quick in every call.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use circulant::comm::raw::RawWindow;

use crate::communicator::{self, CommunicatorHandle};
use crate::handle::{self, Object, Table};
use crate::memory;
use crate::status::guard;
use crate::world::WorldNumber;

/// What a window's handle points to: nothing that anybody can see.
pub enum WindowObject {}

/// Memory of the library's.
pub type WindowHandle = *mut WindowObject;

/// A window: what is in it is the caller's.
pub struct Win {
    window: RawWindow,
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

/// Where a window of no bytes is said to be: not where CIRCULANT_IN_PLACE is.
const NOWHERE: usize = 4096;

impl Win {
    fn start(&self) -> *mut u8 {
        if self.window.is_empty() { ptr::without_provenance_mut(NOWHERE) } else { self.window.start() }
    }

    fn bytes(&self) -> Range<usize> {
        let start = self.start().addr();
        start..start + self.window.len()
    }
}

/// The windows that have some of these bytes.
pub fn holding(ranges: &[Range<usize>]) -> Vec<Arc<Win>> {
    let overlap = |one: &Range<usize>, two: &Range<usize>| one.start < two.end && two.start < one.end;
    handle::all::<Win>(|window| ranges.iter().any(|range| overlap(range, &window.bytes())))
}

/// Gives memory of `bytes` zeroed bytes, aligned to a page, for calls on communicators of the same world.
///
/// A long call is quicker where its memory begins at a window's beginning: it is registered already, and ranks of
/// one node reach it directly, while other memory, a window's later bytes too, is registered for each long call.
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
        let made = Win { window: comm.communicator.raw_window(bytes)?, world: comm.world };
        let start = made.start();
        let made = handle::insert(made);
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
        let found = handle::get::<Win>(window)?;
        if !address.is_null() {
            // SAFETY: the caller's `address` may be written; it is not null
            unsafe { address.write(found.start().cast()) };
        }
        if !bytes.is_null() {
            // SAFETY: the caller's `bytes` may be written; it is not null
            unsafe { bytes.write(found.window.len()) };
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
