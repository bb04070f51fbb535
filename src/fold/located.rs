//! A value and where it is: the elements of [`MinLoc`](super::MinLoc) and [`MaxLoc`](super::MaxLoc).

use bytemuck::{Pod, Zeroable};

/// A value with its place: the index of the row, the rank, or whatever the user numbers.
///
/// It is an element for `(f32, i32 | u32)`, `(f64, i64 | u64)`, `(i32, i32)`, `(i64, i64)`, `(u32, u32)` and
/// `(u64, u64)`: pairs without padding, unlike MPI's `double` with `int`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Located<V, I> {
    /// The value that is compared.
    pub value: V,
    /// Its place.
    pub index: I,
}

// SAFETY: - all zeros is a value of both fields (V: Zeroable, I: Zeroable), and there is nothing else
unsafe impl<V: Zeroable, I: Zeroable> Zeroable for Located<V, I> {}

macro_rules! plain {
    ($($value:ty, $index:ty;)*) => {$(
        const _: () = assert!(size_of::<Located<$value, $index>>() == size_of::<$value>() + size_of::<$index>());
        // SAFETY: - both fields are numbers, of which every pattern of bits is a value
        //         - `repr(C)` lays them out in order, without padding (the assertion above)
        //         - nothing is borrowed or shared: numbers are Copy + 'static
        unsafe impl Pod for Located<$value, $index> {}
    )*};
}

plain! {
    f32, i32; f32, u32; f64, i64; f64, u64;
    i32, i32; i64, i64; u32, u32; u64, u64;
}
