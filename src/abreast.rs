//! Going through memory two pages abreast.
//!
//! What a processor fetches ahead of a copy or a fold ends with a page, and to begin with the next one takes a while: that is
//! hidden where one page goes on while another begins. It matters where what is touched is about as large as a core's own
//! cache: less is there already, and more comes from farther away, and has other limits. Two cores at once, each with bytes
//! of the other, EPYC 9004 with 1 MiB a core, beside the same one page after the other: copies of 256 KiB to as many 0.97, of
//! 384 KiB 0.93, of 512 KiB 0.88 to 0.92, of 640 KiB 0.93, of 704 KiB 0.97, of 768 KiB 0.92 to 1.03, of 1 MiB 1.05; sums 0.98,
//! 0.93, 0.89 to 0.92, 0.93, 0.97, 1.03, 1.04; an alltoall of 1 MiB, which touches 2, 1.07. On a Xeon guest sums gain as much, and
//! copies lose, so that these go so on AMD's processors only; others have not been measured.
#![forbid(unsafe_code)]

/// Bytes of what a processor fetches ahead within, however large the system's pages are.
pub const PAGE: usize = 4096;
/// Bytes of a core's own cache where they are not told, and for folds, which ask nobody.
pub const CACHE: u64 = 1 << 20;

/// Whether a core that touches so many bytes, those that it reads and those that it writes, had better go so, with a cache of so
/// many for itself.
pub fn suits(touched: u64, cache: u64) -> bool {
    touched >= cache / 2 && touched <= cache / 8 * 11
}

/// Whether a fold of so many bytes into as many had better go so.
pub fn suits_fold(bytes: usize) -> bool {
    suits(2 * bytes as u64, CACHE)
}
