//! Who shares a cache, and what room there is in it.

use crate::abreast;
use crate::transport::Caches;
#[cfg(doc)]
use crate::transport::Transport;

/// Where ranks are crowded each has chunks for the n-th part of its share of the cache that cores share, a power of two of
/// bytes, and at most so many.
const CROWDED_SHARE: u64 = 8;
const MOST_CROWDED: usize = 1 << 20;
/// The cache of a core whose size is not told, and the largest one that memory is used for.
const OWN_CACHE: usize = if cfg!(miri) { 0 } else { abreast::CACHE as usize };
#[cfg(all(target_env = "gnu", not(miri)))]
const LARGEST_OWN_CACHE: usize = 4 << 20;

/// Where a rank's peers are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vicinity {
    /// More ranks than cores.
    pub crowded: bool,
    /// Of each rank of the group, whether its core is known to share a cache with this one's; none for nothing known.
    pub near: Box<[bool]>,
    /// How many ranks of the machine share that cache, those of other groups with them.
    pub sharing: usize,
    /// How many bytes this cache has, if that is known.
    pub cache: Option<u64>,
    /// Whether memory had better go round on this processor, where there is room.
    pub rounds: bool,
    /// See [`Caches::abreast`].
    pub abreast: bool,
}

impl Vicinity {
    /// The [span](Transport::span) of one of so many ranks: twice what a core's own cache has, if it is to go round and the cache
    /// that they share has room for that of each.
    pub(super) fn span(&self, ranks: u32) -> usize {
        let own = 2 * own_cache();
        let fits = self.share().is_some_and(|bytes| own as u64 <= bytes);
        if self.rounds && ranks > 1 && !self.crowded && fits { own } else { 0 }
    }

    /// Bytes of the chunks of one of so many ranks; 0 for the fewest. In a crowd who empties them may not run when they are
    /// full, and has to be waited for the less often the more there are; but what all have together must leave room in the cache.
    /// Over 3, 4 and 8 ranks on two cores with an L3 of 32 MiB, 1 and 4 MiB, collectives took with 64 chunks 0.53 to
    /// 1.06 of the time that they took with 16, over 16 ranks 0.89 to 1.34 (alltoall), and with 128 up to three times as long.
    pub(super) fn chunks(&self, ranks: u32) -> usize {
        if !self.crowded {
            return self.span(ranks);
        }
        let part = self.share().unwrap_or(0) / CROWDED_SHARE;
        let bytes = usize::try_from(part).unwrap_or(MOST_CROWDED).min(MOST_CROWDED);
        bytes.checked_ilog2().map_or(0, |power| 1 << power)
    }

    /// What a rank's bytes go through. A core's own cache that is not told of is taken for one of 1 MiB, and one of more than 4
    /// for one of 4.
    pub(super) fn caches(&self) -> Caches {
        let own = (!self.crowded).then(own_cache).filter(|&bytes| bytes > 0);
        Caches { own: own.map(|bytes| bytes as u64), share: self.share(), abreast: self.abreast }
    }

    /// One rank's share of the cache.
    fn share(&self) -> Option<u64> {
        self.cache.map(|bytes| bytes / self.sharing.max(1) as u64)
    }
}

/// Bytes of the largest cache that a core has for itself, as far as is known.
fn own_cache() -> usize {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        // SAFETY: - it only tells a number
        let told = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        usize::try_from(told).ok().filter(|&bytes| bytes > 0).unwrap_or(OWN_CACHE).min(LARGEST_OWN_CACHE)
    }
    #[cfg(not(all(target_env = "gnu", not(miri))))]
    OWN_CACHE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "its cores have no caches")]
    fn memory_goes_round_where_the_cache_that_cores_share_has_room_for_all() {
        let own = 2 * own_cache();
        let of = |rounds, ranks, crowded, sharing: usize, cache| {
            Vicinity { crowded, sharing, cache, rounds, ..Vicinity::default() }.span(ranks)
        };
        let span = |ranks, crowded, sharing, cache| of(true, ranks, crowded, sharing, cache);
        assert_eq!(span(2, false, 2, Some(2 * own as u64)), own);
        assert_eq!(span(9, false, 9, Some(9 * own as u64)), own);
        let share =
            |sharing: usize, cache| Vicinity { sharing, cache, crowded: true, ..Vicinity::default() }.share();
        assert_eq!([share(0, Some(6)), share(3, Some(6)), share(3, None)], [Some(6), Some(2), None]);
        for none in [
            of(false, 2, false, 2, Some(2 * own as u64)),
            span(1, false, 1, Some(u64::MAX)),
            span(2, true, 2, Some(u64::MAX)),
            span(2, false, 2, None),
            span(2, false, 2, Some(2 * own as u64 - 1)),
        ] {
            assert_eq!(none, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "its cores have no caches")]
    fn who_shares_a_core_has_no_cache_of_its_own() {
        let own = |crowded| Vicinity { crowded, ..Vicinity::default() }.caches().own;
        assert_eq!([false, true].map(own), [Some(own_cache() as u64), None]);
    }

    #[test]
    fn a_crowd_has_as_many_chunks_as_leave_room_in_the_cache_that_cores_share() {
        let chunks =
            |sharing, cache| Vicinity { sharing, cache, crowded: true, ..Vicinity::default() }.chunks(4);
        let kib = |sharing| chunks(sharing, Some(32 << 20)) >> 10;
        assert_eq!([3, 4, 5, 8, 12, 16].map(kib), [1024, 1024, 512, 512, 256, 256]);
        assert_eq!([chunks(8, None), chunks(8, Some(0)), chunks(0, Some(u64::MAX))], [0, 0, MOST_CROWDED]);
    }
}
