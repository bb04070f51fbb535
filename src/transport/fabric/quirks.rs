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
#[derive(Debug, Clone)]
pub(super) struct Quirk {
    /// What users may call it.
    pub words: &'static [&'static str],
    /// What libraries call it; the first that is there.
    pub names: &'static [&'static str],
    pub offer: Offer,
    pub reach: Reach,
    pub waits: Waits,
    pub end: End,
    /// The first libfabric, `major << 16 | minor`, whose puts of it have notices.
    pub since: u32,
    /// Whether it makes one put, with one notice, of the segments it is given.
    pub gathers: bool,
    /// Whether a put of no bytes brings its notice.
    pub bare: bool,
    /// Whether what it reports of this rank's own puts may look like a notice.
    pub echoes: bool,
}

impl Quirk {
    /// What lists call it: libfabric's first name, where nothing of ours has that.
    pub fn title(&self) -> &'static str {
        if self.reach == Reach::Machine { self.words[0] } else { self.names[0] }
    }
}

/// One whose puts are as libfabric's manual has them.
const PLAIN: Quirk = Quirk {
    words: &[],
    names: &[],
    offer: Offer::ByDefault,
    reach: Reach::Fabric,
    waits: Waits::Naps,
    end: End::Closed,
    since: 0,
    gathers: true,
    bare: true,
    echoes: false,
};

/// All that are known. Every one is taken to progress by hand only, whatever it says: native tcp says
/// "auto", and lands nothing until its target polls.
#[rustfmt::skip]
pub(super) const QUIRKS: [Quirk; 13] = [
    // Drops the data of fi_inject_writedata, orders writes up to 4096 bytes, gives notices out of order, spins in sread;
    // psm2_ep_close frees the table of handlers and then polls, so whatever arrives meanwhile is jumped at.
    Quirk { words: &["psm2"], names: &["psm2"], end: End::LeftOpen, ..PLAIN },
    // As psm2, and ENOSYS at sread.
    Quirk { words: &["psm3"], names: &["psm3"], end: End::LeftOpen, ..PLAIN },
    // Reaches the cards that psm2 does, which has been seen to work. Orders no writes at all; a descriptor of its own is not
    // known to work. By its source: messages carry no notice before 2.1; each segment is written by itself with the same
    // data, so that each would bring one; nothing is sent of no bytes; and a put that brings one is reported here as if it were.
    Quirk { words: &["opx"], names: &["opx"], since: 2 << 16 | 1, gathers: false, bare: false, echoes: true, ..PLAIN },
    // Cuts notices to 32 bits; a small device cannot hold rxm's queue for 256 peers (see ROOM).
    // One close in some thirty crashes in rxm, while the peer closes too; what is deregistered is safe without it, but for what
    // libfabric's cache keeps registered.
    Quirk { words: &["verbs", "verbs;ofi_rxm"], names: &["verbs;ofi_rxm"], waits: Waits::Descriptor, end: End::LeftOpen, ..PLAIN },
    // Without hardware here nobody has seen its descriptor work.
    Quirk { words: &["efa"], names: &["efa"], ..PLAIN },
    // By its pull requests 11684 and 12740; without the setting it offers no remote CQ data. By its source its endpoint is
    // busy as long as memory is registered with it, which users may have for longer.
    Quirk { words: &["cxi"], names: &["cxi"], end: End::LeftOpen, offer: Offer::OnRequest("its puts carry notices with FI_CXI_ENABLE_WRITEDATA=1 only, in a libfabric of September 2026 or later; never tried"), ..PLAIN },
    // `net` until 1.x, `tcp` from 2.0 on; 1.17 gives tcp;ofi_rxm to who asks for `tcp`, so names are compared. A queue's
    // descriptor is rung for each of its entries, which takes two system calls; on 1.17 fi_trywait leaves it readable then.
    Quirk { words: &["net", "tcp"], names: &["net", "tcp"], reach: Reach::Internet, waits: Waits::Bell, ..PLAIN },
    // Half again the latency of native tcp.
    Quirk { words: &["rxm", "tcp;ofi_rxm"], names: &["tcp;ofi_rxm"], reach: Reach::Internet, waits: Waits::Descriptor, ..PLAIN },
    // Has no descriptor, and spins in sread. `shm` is circulant's own.
    Quirk { words: &["ofi-shm"], names: &["shm"], offer: Offer::OnRequest("it reaches this machine only"), reach: Reach::Machine, ..PLAIN },
    Quirk { words: &["sm2"], names: &["sm2"], offer: Offer::Never("it has no RMA"), reach: Reach::Machine, ..PLAIN },
    Quirk { words: &["sockets"], names: &["sockets"], offer: Offer::Never("it spins at 2 ms a put, and is no longer kept"), reach: Reach::Internet, ..PLAIN },
    Quirk { words: &["rxd", "udp;ofi_rxd"], names: &["udp;ofi_rxd"], offer: Offer::Never("large puts never finish"), reach: Reach::Internet, ..PLAIN },
    Quirk { words: &["udp"], names: &["udp"], offer: Offer::Never("it has no RMA"), reach: Reach::Internet, ..PLAIN },
];

/// For how many peers rxm makes room in its device's completion queue.
///
/// It asks for 128 entries for each of them; Soft-RoCE has 32767, and refuses the usual number. Each connection takes its share
/// for good: where there are more than twice so many, nothing is sent any more, to nobody (6 ranks with room for 2, in a virtual
/// machine; by the source of libfabric's verbs provider each endpoint reserves its receives in the queue).
pub const ROOM: &str = "FI_UNIVERSE_SIZE";
/// How many there are if nothing is set.
const USUAL_ROOM: u32 = 256;
/// Smaller jobs have room for so many: what Soft-RoCE can hold.
const LEAST_ROOM: u32 = 64;

/// What [`ROOM`] should be in a job of so many ranks.
pub fn room_for(ranks: u32) -> u32 {
    ranks.max(LEAST_ROOM)
}

/// Where a rank that may reach so many needs more connections than rxm has room for: a sentence. By what the user has set it is a
/// warning, as a program may speak with few; else an error.
pub(super) fn lacks_room(provider: &str, reached: u32, set: Option<&str>) -> Option<String> {
    let room = set.and_then(|set| set.parse().ok()).unwrap_or(USUAL_ROOM);
    let lacks = provider == "verbs;ofi_rxm" && reached > room.saturating_mul(2);
    let most = room.saturating_mul(2);
    lacks.then(|| {
        format!(
            "{provider} stops where a rank has more than {most} connections, of {reached} that it may need"
        )
    })
}

/// The provider that a user's word means.
pub(super) fn meant_by(word: &str) -> Option<&'static Quirk> {
    QUIRKS.iter().find(|quirk| quirk.words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_has_more_connections_than_there_is_room_for_is_known() {
        let lacks = |reached, set| lacks_room("verbs;ofi_rxm", reached, set).is_some();
        assert!(!lacks(512, None) && lacks(513, None));
        assert!(!lacks(513, Some("300")) && lacks(5, Some("2")) && !lacks(4, Some("2")));
        assert!(lacks(513, Some("x")));
        assert_eq!(lacks_room("tcp", 10_000, None), None);
        assert_eq!([1, 64, 1000].map(room_for), [64, 64, 1000]);
    }

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
