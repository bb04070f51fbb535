//! Types and operators by number and by name: what goes over the wire, into messages and the C ABI.
//!
//! It knows no loops. The one decision: numbers never change, as ranks of one job may be built apart.

use std::any::TypeId;

use half::{bf16, f16};
use num_complex::Complex;

use super::Located;

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $type:ty, $words:literal;)*) => {
        /// The types of elements, by their number on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Type {
            $(#[doc = concat!("`", stringify!($type), "`")] $name = $number,)*
            /// A type that the user made; all of them have this number.
            Users = 255,
        }

        impl Type {
            /// All that operators come with, in the order of tables.
            pub const ALL: &[Type] = &[$(Type::$name,)*];

            /// That of `T`.
            pub fn of<T: 'static>() -> Type {
                let id = TypeId::of::<T>();
                $(if id == TypeId::of::<$type>() { return Type::$name; })*
                Type::Users
            }

            /// Its name, as the program and messages say it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Type::$name => $words,)*
                    Type::Users => "user's type",
                }
            }

            /// Bytes of an element; none where the user made the type.
            pub fn size(self) -> Option<usize> {
                match self {
                    $(Type::$name => Some(size_of::<$type>()),)*
                    Type::Users => None,
                }
            }
        }
    };
}

types! {
    I8 = 1, i8, "i8";
    I16 = 2, i16, "i16";
    I32 = 3, i32, "i32";
    I64 = 4, i64, "i64";
    I128 = 5, i128, "i128";
    Isize = 6, isize, "isize";
    U8 = 7, u8, "u8";
    U16 = 8, u16, "u16";
    U32 = 9, u32, "u32";
    U64 = 10, u64, "u64";
    U128 = 11, u128, "u128";
    Usize = 12, usize, "usize";
    F16 = 13, f16, "f16";
    Bf16 = 14, bf16, "bf16";
    F32 = 15, f32, "f32";
    F64 = 16, f64, "f64";
    ComplexF32 = 17, Complex<f32>, "complex f32";
    ComplexF64 = 18, Complex<f64>, "complex f64";
    Bool = 19, bool, "bool";
    F32I32 = 20, Located<f32, i32>, "f32 with i32 place";
    F32U32 = 21, Located<f32, u32>, "f32 with u32 place";
    F64I64 = 22, Located<f64, i64>, "f64 with i64 place";
    F64U64 = 23, Located<f64, u64>, "f64 with u64 place";
    I32I32 = 24, Located<i32, i32>, "i32 with i32 place";
    I64I64 = 25, Located<i64, i64>, "i64 with i64 place";
    U32U32 = 26, Located<u32, u32>, "u32 with u32 place";
    U64U64 = 27, Located<u64, u64>, "u64 with u64 place";
}

impl Type {
    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// By its number on the wire.
    pub fn numbered(number: u8) -> Option<Type> {
        let every = Type::ALL.iter().copied().chain([Type::Users]);
        every.into_iter().find(|one| one.number() == number)
    }

    /// The one that operators come with and that has this name.
    pub fn named(name: &str) -> Option<Type> {
        Type::ALL.iter().copied().find(|one| one.name() == name)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The operators, by their number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Op {
    /// [`Sum`](super::Sum)
    Sum = 1,
    /// [`Product`](super::Product)
    Product = 2,
    /// [`Min`](super::Min)
    Min = 3,
    /// [`Max`](super::Max)
    Max = 4,
    /// [`LogicalAnd`](super::LogicalAnd)
    LogicalAnd = 5,
    /// [`LogicalOr`](super::LogicalOr)
    LogicalOr = 6,
    /// [`LogicalXor`](super::LogicalXor)
    LogicalXor = 7,
    /// [`BitAnd`](super::BitAnd)
    BitAnd = 8,
    /// [`BitOr`](super::BitOr)
    BitOr = 9,
    /// [`BitXor`](super::BitXor)
    BitXor = 10,
    /// [`MinLoc`](super::MinLoc)
    MinLoc = 11,
    /// [`MaxLoc`](super::MaxLoc)
    MaxLoc = 12,
    /// One that the user made and that commutes; all of them have this number.
    Commutative = 254,
    /// One that the user made and that does not commute; all of them have this number.
    Ordered = 255,
}

impl Op {
    /// All that are built in, in the order of tables.
    pub const ALL: &[Op] = &[
        Op::Sum,
        Op::Product,
        Op::Min,
        Op::Max,
        Op::LogicalAnd,
        Op::LogicalOr,
        Op::LogicalXor,
        Op::BitAnd,
        Op::BitOr,
        Op::BitXor,
        Op::MinLoc,
        Op::MaxLoc,
    ];

    /// Its name, as the program and messages say it.
    pub fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Product => "product",
            Op::Min => "min",
            Op::Max => "max",
            Op::LogicalAnd => "logical and",
            Op::LogicalOr => "logical or",
            Op::LogicalXor => "logical xor",
            Op::BitAnd => "bitwise and",
            Op::BitOr => "bitwise or",
            Op::BitXor => "bitwise xor",
            Op::MinLoc => "minloc",
            Op::MaxLoc => "maxloc",
            Op::Commutative => "user's commutative operator",
            Op::Ordered => "user's ordered operator",
        }
    }

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// By its number on the wire.
    pub fn numbered(number: u8) -> Option<Op> {
        let every = Op::ALL.iter().copied().chain([Op::Commutative, Op::Ordered]);
        every.into_iter().find(|one| one.number() == number)
    }

    /// The one that is built in and has this name.
    pub fn named(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|one| one.name() == name)
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What the numbers of a [`Fold`](super::Fold) stand for, such as `sum of f64`, where ranks disagree.
pub fn words((op, ty): (u8, u8)) -> String {
    let op = Op::numbered(op).map_or(format!("operator {op}"), |op| op.to_string());
    let ty = Type::numbered(ty).map_or(format!("type {ty}"), |ty| ty.to_string());
    format!("{op} of {ty}")
}
