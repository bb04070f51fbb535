//! Types of elements: those that operators come with, by number, and structs of the caller's, by size.

use std::fmt::{self, Display, Formatter};

use circulant::fold;

use crate::status::{CIRCULANT_ERR_TYPE, Failure, Result, guard};

/// A type of elements: one of those below, or `CIRCULANT_STRUCT(sizeof(struct s))`.
pub type TypeNumber = u64;

/// int8_t
pub const CIRCULANT_INT8: TypeNumber = 1;
/// int16_t
pub const CIRCULANT_INT16: TypeNumber = 2;
/// int32_t
pub const CIRCULANT_INT32: TypeNumber = 3;
/// int64_t
pub const CIRCULANT_INT64: TypeNumber = 4;
/// __int128
pub const CIRCULANT_INT128: TypeNumber = 5;
/// ptrdiff_t
pub const CIRCULANT_PTRDIFF: TypeNumber = 6;
/// uint8_t, and bytes that nobody looks into
pub const CIRCULANT_UINT8: TypeNumber = 7;
/// uint16_t
pub const CIRCULANT_UINT16: TypeNumber = 8;
/// uint32_t
pub const CIRCULANT_UINT32: TypeNumber = 9;
/// uint64_t
pub const CIRCULANT_UINT64: TypeNumber = 10;
/// unsigned __int128
pub const CIRCULANT_UINT128: TypeNumber = 11;
/// size_t
pub const CIRCULANT_SIZE: TypeNumber = 12;
/// IEEE half precision: _Float16
pub const CIRCULANT_FLOAT16: TypeNumber = 13;
/// The upper half of a float: __bf16
pub const CIRCULANT_BFLOAT16: TypeNumber = 14;
/// float
pub const CIRCULANT_FLOAT: TypeNumber = 15;
/// double
pub const CIRCULANT_DOUBLE: TypeNumber = 16;
/// float _Complex
pub const CIRCULANT_COMPLEX_FLOAT: TypeNumber = 17;
/// double _Complex
pub const CIRCULANT_COMPLEX_DOUBLE: TypeNumber = 18;
/// _Bool
pub const CIRCULANT_BOOL: TypeNumber = 19;
/// struct { float value; int32_t place; }
pub const CIRCULANT_FLOAT_INT32: TypeNumber = 20;
/// struct { float value; uint32_t place; }
pub const CIRCULANT_FLOAT_UINT32: TypeNumber = 21;
/// struct { double value; int64_t place; }
pub const CIRCULANT_DOUBLE_INT64: TypeNumber = 22;
/// struct { double value; uint64_t place; }
pub const CIRCULANT_DOUBLE_UINT64: TypeNumber = 23;
/// struct { int32_t value; int32_t place; }
pub const CIRCULANT_INT32_INT32: TypeNumber = 24;
/// struct { int64_t value; int64_t place; }
pub const CIRCULANT_INT64_INT64: TypeNumber = 25;
/// struct { uint32_t value; uint32_t place; }
pub const CIRCULANT_UINT32_UINT32: TypeNumber = 26;
/// struct { uint64_t value; uint64_t place; }
pub const CIRCULANT_UINT64_UINT64: TypeNumber = 27;
/// The type of structs of n bytes is this and n; `CIRCULANT_STRUCT(n)` adds them up.
pub const CIRCULANT_STRUCTS: TypeNumber = 0x1_0000_0000;

/// Types by number, and by the names that callers know them by.
macro_rules! known {
    ($($number:ident: $known:expr,)*) => { [$(($number, $known, stringify!($number)),)*] };
}

/// The types that operators come with.
const KNOWN: [(TypeNumber, fold::Type, &str); 27] = known! {
    CIRCULANT_INT8: fold::Type::I8,
    CIRCULANT_INT16: fold::Type::I16,
    CIRCULANT_INT32: fold::Type::I32,
    CIRCULANT_INT64: fold::Type::I64,
    CIRCULANT_INT128: fold::Type::I128,
    CIRCULANT_PTRDIFF: fold::Type::Isize,
    CIRCULANT_UINT8: fold::Type::U8,
    CIRCULANT_UINT16: fold::Type::U16,
    CIRCULANT_UINT32: fold::Type::U32,
    CIRCULANT_UINT64: fold::Type::U64,
    CIRCULANT_UINT128: fold::Type::U128,
    CIRCULANT_SIZE: fold::Type::Usize,
    CIRCULANT_FLOAT16: fold::Type::F16,
    CIRCULANT_BFLOAT16: fold::Type::Bf16,
    CIRCULANT_FLOAT: fold::Type::F32,
    CIRCULANT_DOUBLE: fold::Type::F64,
    CIRCULANT_COMPLEX_FLOAT: fold::Type::ComplexF32,
    CIRCULANT_COMPLEX_DOUBLE: fold::Type::ComplexF64,
    CIRCULANT_BOOL: fold::Type::Bool,
    CIRCULANT_FLOAT_INT32: fold::Type::F32I32,
    CIRCULANT_FLOAT_UINT32: fold::Type::F32U32,
    CIRCULANT_DOUBLE_INT64: fold::Type::F64I64,
    CIRCULANT_DOUBLE_UINT64: fold::Type::F64U64,
    CIRCULANT_INT32_INT32: fold::Type::I32I32,
    CIRCULANT_INT64_INT64: fold::Type::I64I64,
    CIRCULANT_UINT32_UINT32: fold::Type::U32U32,
    CIRCULANT_UINT64_UINT64: fold::Type::U64U64,
};

/// A struct's bytes, at most: no more fit into memory.
const MOST: u64 = 1 << 46;

/// What is known of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    pub number: TypeNumber,
    /// Bytes of an element, 1 at least.
    pub unit: usize,
    /// What operators know it as.
    pub known: fold::Type,
}

impl Element {
    pub fn numbered(number: TypeNumber) -> Result<Element> {
        let (known, unit) = match number.checked_sub(CIRCULANT_STRUCTS) {
            Some(bytes) => (Some(fold::Type::Users), (1..=MOST).contains(&bytes).then_some(bytes as usize)),
            None => {
                let known = KNOWN.iter().find(|(one, ..)| *one == number).map(|(_, known, _)| *known);
                (known, known.and_then(fold::Type::size))
            }
        };
        let both = known.zip(unit);
        both.map(|(known, unit)| Element { number, unit, known }).ok_or_else(|| {
            let what = format!("{number} is no type of elements");
            Failure::new(
                CIRCULANT_ERR_TYPE,
                what,
                "take CIRCULANT_DOUBLE or its like, or CIRCULANT_STRUCT(sizeof ...)",
            )
        })
    }
}

/// As callers write it.
impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|(one, ..)| *one == self.number) {
            Some((.., name)) => f.write_str(name),
            None => write!(f, "CIRCULANT_STRUCT({})", self.unit),
        }
    }
}

/// The names of the types that an operator of the library's fits.
pub fn that_fit(op: fold::Op) -> String {
    let fits = KNOWN.iter().filter(|(_, known, _)| fold::builtin(op, *known).is_ok());
    fits.map(|(.., name)| *name).collect::<Vec<_>>().join(", ")
}

/// How many bytes an element of a type has.
///
/// Errors: CIRCULANT_ERR_TYPE, CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_type_size(r#type: TypeNumber, bytes: *mut usize) -> std::ffi::c_int {
    guard("circulant_type_size", || {
        let element = Element::numbered(r#type)?;
        // SAFETY: the caller's `bytes` may be written, where it is not null
        unsafe { crate::memory::give(bytes, "bytes", element.unit) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_operators_know_has_a_number() {
        assert_eq!(KNOWN.map(|(_, known, _)| known), fold::Type::ALL);
        for (number, known, _) in KNOWN {
            let element = Element::numbered(number).unwrap();
            assert_eq!((element.known, Some(element.unit)), (known, known.size()));
        }
    }

    #[test]
    fn structs_have_any_size_but_none() {
        assert_eq!(Element::numbered(CIRCULANT_STRUCTS + 24).unwrap().unit, 24);
        for number in [0, 28, 255, 256 + 16, CIRCULANT_STRUCTS - 1, CIRCULANT_STRUCTS, u64::MAX] {
            assert_eq!(Element::numbered(number).unwrap_err().code, CIRCULANT_ERR_TYPE, "{number}");
        }
    }
}
