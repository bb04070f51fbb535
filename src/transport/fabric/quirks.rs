//! What each provider does that its `fi_info` does not tell: one line each, with the reason.
//!
//! In order of preference. What a provider says of itself (sizes, mr_mode, mode bits) is never repeated
//! here; only what it says wrongly or not at all, as measured or read in its source.

/// When a provider is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    /// Where it is there, and none before it is.
    ByDefault,
    /// Only when the user names it, for this reason.
    OnRequest(&'static str),
    /// Not even then, for this reason.
    Never(&'static str),
}

/// Whom it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Whoever is on its fabric.
    Fabric,
    /// Whoever an interface's address is good for.
    Internet,
    /// This machine.
    Machine,
}

/// How to wait for its completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// It has a file descriptor that works.
    Descriptor,
    /// By the descriptor of a second queue, to which nothing is bound: that is readable while there is something to do at
    /// a socket, and for nothing else.
    Bell,
    /// It must be polled, with naps between.
    Naps,
}

/// What becomes of its endpoint at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is closed.
    Closed,
    /// It is left to the end of the process, which nothing but a poll could give work until then.
    LeftOpen,
}

/// One provider.
#[derive(Debug)]
pub(super) struct Quirk {
    /// What users may call it.
    pub words: &'static [&'static str],
    /// What libraries call it; the first that is there.
    pub names: &'static [&'static str],
    pub offer: Offer,
    pub reach: Reach,
    pub waits: Waits,
    pub end: End,
    /// Whether it makes one put, with one notice, of the segments it is given.
    pub gathers: bool,
}

impl Quirk {
    /// What lists call it: libfabric's first name, where nothing of ours has that.
    pub fn title(&self) -> &'static str {
        if self.reach == Reach::Machine { self.words[0] } else { self.names[0] }
    }
}

/// All that are known. Every one is taken to progress by hand only, whatever it says: native tcp says
/// "auto", and lands nothing until its target polls.
#[rustfmt::skip]
pub(super) const QUIRKS: [Quirk; 12] = [
    // Orders no writes at all; a descriptor of its own is not known to work. By its source, fi_writemsg writes each
    // segment by itself with the same data and flags, so that each would bring a notice.
    Quirk { words: &["opx"], names: &["opx"], offer: Offer::ByDefault, reach: Reach::Fabric, waits: Waits::Naps, end: End::Closed, gathers: false },
    // Drops the data of fi_inject_writedata, orders writes up to 4096 bytes, gives notices out of order, spins in sread;
    // psm2_ep_close frees the table of handlers and then polls, so whatever arrives meanwhile is jumped at.
    Quirk { words: &["psm2"], names: &["psm2"], offer: Offer::ByDefault, reach: Reach::Fabric, waits: Waits::Naps, end: End::LeftOpen, gathers: true },
    // As psm2, and ENOSYS at sread.
    Quirk { words: &["psm3"], names: &["psm3"], offer: Offer::ByDefault, reach: Reach::Fabric, waits: Waits::Naps, end: End::LeftOpen, gathers: true },
    // Cuts notices to 32 bits; a small device cannot hold rxm's queue for 256 peers (see ENVIRONMENT).
    // One close in some thirty crashes in rxm, while the peer closes too; what is deregistered is safe without it.
    Quirk { words: &["verbs", "verbs;ofi_rxm"], names: &["verbs;ofi_rxm"], offer: Offer::ByDefault, reach: Reach::Fabric, waits: Waits::Descriptor, end: End::LeftOpen, gathers: true },
    // Without hardware here nobody has seen its descriptor work.
    Quirk { words: &["efa"], names: &["efa"], offer: Offer::ByDefault, reach: Reach::Fabric, waits: Waits::Naps, end: End::Closed, gathers: true },
    // `net` until 1.x, `tcp` from 2.0 on; 1.17 gives tcp;ofi_rxm to who asks for `tcp`, so names are compared. A queue's
    // descriptor is rung for each of its entries, which takes two system calls; on 1.17 fi_trywait leaves it readable then.
    Quirk { words: &["net", "tcp"], names: &["net", "tcp"], offer: Offer::ByDefault, reach: Reach::Internet, waits: Waits::Bell, end: End::Closed, gathers: true },
    // Half again the latency of native tcp.
    Quirk { words: &["rxm", "tcp;ofi_rxm"], names: &["tcp;ofi_rxm"], offer: Offer::ByDefault, reach: Reach::Internet, waits: Waits::Descriptor, end: End::Closed, gathers: true },
    // Has no descriptor, and spins in sread. `shm` is circulant's own.
    Quirk { words: &["ofi-shm"], names: &["shm"], offer: Offer::OnRequest("it reaches this machine only"), reach: Reach::Machine, waits: Waits::Naps, end: End::Closed, gathers: true },
    Quirk { words: &["sm2"], names: &["sm2"], offer: Offer::Never("it has no RMA"), reach: Reach::Machine, waits: Waits::Naps, end: End::Closed, gathers: true },
    Quirk { words: &["sockets"], names: &["sockets"], offer: Offer::Never("it spins at 2 ms a put, and is no longer kept"), reach: Reach::Internet, waits: Waits::Naps, end: End::Closed, gathers: true },
    Quirk { words: &["rxd", "udp;ofi_rxd"], names: &["udp;ofi_rxd"], offer: Offer::Never("large puts never finish"), reach: Reach::Internet, waits: Waits::Naps, end: End::Closed, gathers: true },
    Quirk { words: &["udp"], names: &["udp"], offer: Offer::Never("it has no RMA"), reach: Reach::Internet, waits: Waits::Naps, end: End::Closed, gathers: true },
];

/// Variables that must be in the environment before the first call, where the user has not set them.
///
/// rxm asks its device for a completion queue with 128 entries for each of so many peers, 256 unless
/// told; Soft-RoCE has 32767, and refuses. A peer beyond the number costs nothing but this room.
pub const ENVIRONMENT: [(&str, &str); 1] = [("FI_UNIVERSE_SIZE", "64")];

/// The provider that a user's word means.
pub(super) fn meant_by(word: &str) -> Option<&'static Quirk> {
    QUIRKS.iter().find(|quirk| quirk.words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_one_provider() {
        for quirk in &QUIRKS {
            for word in quirk.words {
                assert_eq!(meant_by(word).unwrap().names, quirk.names, "{word}");
            }
        }
        assert!(meant_by("ethernet").is_none());
    }
}
