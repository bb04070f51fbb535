//! Who has made this processor: what was found out about one maker's need not hold for another's, and is not told by any of its
//! numbers.

use std::sync::LazyLock;

/// Who has made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(dead_code, reason = "others are not told apart")
)]
pub enum Maker {
    /// Of EPYC processors.
    Amd,
    /// Of Xeon processors.
    Intel,
    /// Nothing is known.
    Other,
}

/// Who has made this one.
pub fn maker() -> Maker {
    static MAKER: LazyLock<Maker> = LazyLock::new(asked);
    *MAKER
}

fn asked() -> Maker {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[allow(unused_unsafe, reason = "compilers before 1.94 want it")]
        // SAFETY: - every processor of this kind has the instruction, which only tells
        let told = unsafe { std::arch::x86_64::__cpuid(0) };
        match [told.ebx, told.edx, told.ecx].map(u32::to_le_bytes).as_flattened() {
            b"AuthenticAMD" => Maker::Amd,
            b"GenuineIntel" => Maker::Intel,
            _ => Maker::Other,
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    Maker::Other
}
