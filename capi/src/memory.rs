//! What C gives as pointers: checked for null, read and written in one place.

use std::ptr;

use crate::status::{Failure, Result};

/// Fails where a result would have no place.
pub fn check<T>(place: *mut T, name: &str) -> Result<()> {
    if place.is_null() { Err(Failure::null(name, "give the address of a variable")) } else { Ok(()) }
}

/// Writes a result.
///
/// # Safety
/// `place` is null, or may be written.
pub unsafe fn give<T>(place: *mut T, name: &str, value: T) -> Result<()> {
    check(place, name)?;
    // SAFETY: it is not null, so it may be written (the caller's promise)
    unsafe { place.write(value) };
    Ok(())
}

/// Takes a handle from its variable, which becomes null where `act` succeeds.
///
/// # Safety
/// `place` is null, or may be read and written.
pub unsafe fn take<O, R>(place: *mut *mut O, name: &str, act: impl FnOnce(*mut O) -> Result<R>) -> Result<R> {
    check(place, name)?;
    // SAFETY: it is not null, so it may be read (the caller's promise)
    let result = act(unsafe { place.read() })?;
    // SAFETY: as above, written
    unsafe { place.write(ptr::null_mut()) };
    Ok(result)
}
