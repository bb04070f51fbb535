//! What a process does once: it joins its launcher. A second time is refused before anything is sent, as a launcher
//! takes a key that is used twice, or a second greeting, for a fault and ends the job.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Whether the launcher is joined.
pub(super) struct Once(AtomicBool);

impl Once {
    pub(super) const fn new() -> Self {
        Once(AtomicBool::new(false))
    }

    /// Joins, unless it was done. One that failed may be tried again.
    pub(super) fn join<T>(&self, join: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.0.swap(true, Ordering::Relaxed) {
            return Err(Error::boot(
                "this process has joined its launcher already, which serves one world",
                "take a further world by an id or by an allgather (UniqueId, Callback; circulant_init_id, \
                 circulant_init_allgather), a group of ranks by a split",
            ));
        }
        join().inspect_err(|_| self.0.store(false, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_joined_once() {
        let launcher = Once::new();
        assert!(launcher.join(|| Err::<(), _>(Error::boot("no socket", "mend it"))).is_err());
        assert_eq!(launcher.join(|| Ok(7)), Ok(7));
        let error =
            launcher.join(|| -> Result<()> { unreachable!("nothing is sent") }).unwrap_err().to_string();
        assert!(error.contains("has joined its launcher already"), "{error}");
    }
}
