//! What is to carry a world's puts, by the user's word.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::transport::fabric::Request;

/// What users call our own shared memory; before a `+` and a provider, both together.
pub const SHM: &str = "shm";

/// What a user asks for, in one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Whatever is best.
    Best,
    /// Shared memory.
    Shm,
    /// This provider, for all pairs of ranks.
    Fabric(String),
    /// Shared memory within nodes, and this provider between them.
    Mixed(String),
}

impl Wanted {
    /// By the user's word, if there is one: `shm`, `tcp`, `shm+tcp`.
    pub fn of(word: Option<&str>) -> Wanted {
        let Some(word) = word else { return Wanted::Best };
        match word.split_once('+') {
            Some((SHM, provider)) => Wanted::Mixed(provider.to_owned()),
            _ if word == SHM => Wanted::Shm,
            _ => Wanted::Fabric(word.to_owned()),
        }
    }

    /// Whether shared memory may be part of it.
    pub fn takes_shm(&self) -> bool {
        !matches!(self, Wanted::Fabric(_))
    }

    /// Whether a provider of libfabric may be part of it.
    pub fn takes_fabric(&self) -> bool {
        *self != Wanted::Shm
    }

    /// The provider that it names.
    pub fn provider(self) -> Option<String> {
        match self {
            Wanted::Best | Wanted::Shm => None,
            Wanted::Fabric(provider) | Wanted::Mixed(provider) => Some(provider),
        }
    }

    /// Fails where it names a provider that there is none of. Asks nobody, so that it is true everywhere.
    pub fn check(self) -> Result<()> {
        Request { provider: self.provider(), ..Request::default() }.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_shared_memory_a_provider_or_both() {
        assert_eq!(Wanted::of(None), Wanted::Best);
        assert_eq!(Wanted::of(Some("shm")), Wanted::Shm);
        assert_eq!(Wanted::of(Some("tcp;ofi_rxm")), Wanted::Fabric("tcp;ofi_rxm".into()));
        assert_eq!(Wanted::of(Some("shm+tcp")), Wanted::Mixed("tcp".into()));
        assert_eq!(Wanted::of(Some("tcp+shm")), Wanted::Fabric("tcp+shm".into()));
    }
}
