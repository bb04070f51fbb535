//! Operators for who knows type and operator at run time only: the program, and callers from C.

use half::{bf16, f16};
use num_complex::Complex;

use super::classes::{Bits, Logical, Number, Ordered, Placed};
use super::kinds::{Op, Type};
use super::typed::of;
use super::*;
use crate::error::{Error, Result};

/// `op` on elements of type `ty`, or an error that names the types which it fits.
///
/// ```
/// use circulant::fold::{self, Op, Type};
///
/// assert_eq!(fold::builtin(Op::Sum, Type::F64)?.unit(), 8);
/// let error = fold::builtin(Op::BitOr, Type::F64).err().unwrap().to_string();
/// assert!(error.starts_with("operator: bitwise or does not fit f64; it fits i8, i16,"), "{error}");
/// # Ok::<(), circulant::error::Error>(())
/// ```
pub fn builtin(op: Op, ty: Type) -> Result<AnyFold> {
    find(op, ty).ok_or_else(|| Error::argument("operator", format!("{op} does not fit {ty}"), cure(op)))
}

fn cure(op: Op) -> String {
    let fits = Type::ALL.iter().filter(|ty| find(op, **ty).is_some());
    let fits: Vec<_> = fits.map(|ty| ty.name()).collect();
    if fits.is_empty() {
        "give the operator itself".to_owned()
    } else {
        format!("it fits {}", fits.join(", "))
    }
}

fn find(op: Op, ty: Type) -> Option<AnyFold> {
    match ty {
        Type::I8 => integer::<i8>(op),
        Type::I16 => integer::<i16>(op),
        Type::I32 => integer::<i32>(op),
        Type::I64 => integer::<i64>(op),
        Type::I128 => integer::<i128>(op),
        Type::Isize => integer::<isize>(op),
        Type::U8 => integer::<u8>(op),
        Type::U16 => integer::<u16>(op),
        Type::U32 => integer::<u32>(op),
        Type::U64 => integer::<u64>(op),
        Type::U128 => integer::<u128>(op),
        Type::Usize => integer::<usize>(op),
        Type::F16 => real::<f16>(op),
        Type::Bf16 => real::<bf16>(op),
        Type::F32 => real::<f32>(op),
        Type::F64 => real::<f64>(op),
        Type::ComplexF32 => number::<Complex<f32>>(op),
        Type::ComplexF64 => number::<Complex<f64>>(op),
        Type::Bool => truth::<bool>(op),
        Type::F32I32 => placed::<Located<f32, i32>>(op),
        Type::F32U32 => placed::<Located<f32, u32>>(op),
        Type::F64I64 => placed::<Located<f64, i64>>(op),
        Type::F64U64 => placed::<Located<f64, u64>>(op),
        Type::I32I32 => placed::<Located<i32, i32>>(op),
        Type::I64I64 => placed::<Located<i64, i64>>(op),
        Type::U32U32 => placed::<Located<u32, u32>>(op),
        Type::U64U64 => placed::<Located<u64, u64>>(op),
        Type::Users => None,
    }
}

fn integer<T: Number + Ordered + Logical + Bits>(op: Op) -> Option<AnyFold> {
    real::<T>(op).or_else(|| truth::<T>(op))
}

fn real<T: Number + Ordered>(op: Op) -> Option<AnyFold> {
    match op {
        Op::Min => Some(of::<T, _>(Min)),
        Op::Max => Some(of::<T, _>(Max)),
        _ => number::<T>(op),
    }
}

fn number<T: Number>(op: Op) -> Option<AnyFold> {
    match op {
        Op::Sum => Some(of::<T, _>(Sum)),
        Op::Product => Some(of::<T, _>(Product)),
        _ => None,
    }
}

fn truth<T: Logical + Bits>(op: Op) -> Option<AnyFold> {
    match op {
        Op::LogicalAnd => Some(of::<T, _>(LogicalAnd)),
        Op::LogicalOr => Some(of::<T, _>(LogicalOr)),
        Op::LogicalXor => Some(of::<T, _>(LogicalXor)),
        Op::BitAnd => Some(of::<T, _>(BitAnd)),
        Op::BitOr => Some(of::<T, _>(BitOr)),
        Op::BitXor => Some(of::<T, _>(BitXor)),
        _ => None,
    }
}

fn placed<T: Placed>(op: Op) -> Option<AnyFold> {
    match op {
        Op::MinLoc => Some(of::<T, _>(MinLoc)),
        Op::MaxLoc => Some(of::<T, _>(MaxLoc)),
        _ => None,
    }
}
