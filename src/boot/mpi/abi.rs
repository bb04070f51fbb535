//! What the binary interfaces of MPI libraries differ in: constants, and how wide a handle is.
//!
//! There are three. MPICH's, which Intel MPI and MVAPICH have too: handles are numbers of 32 bits. The standard one
//! of MPI 5 (`libmpi_abi.so`): numbers as wide as pointers. Open MPI's: addresses of objects in the library, or of
//! their copies in the program.
#![forbid(unsafe_code)]

/// A handle of any library, as it travels in a register; see [`Flavour::handle`].
pub type Handle = usize;

/// A binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// MPICH's and Intel MPI's.
    Mpich,
    /// That of MPI 5.
    Standard,
    /// Open MPI's.
    OpenMpi,
}

impl Flavour {
    /// A handle as all compare it: of MPICH's 32 bits the rest of the register means nothing.
    pub fn handle(self, register: usize) -> Handle {
        match self {
            Flavour::Mpich => register & 0xffff_ffff,
            Flavour::Standard | Flavour::OpenMpi => register,
        }
    }

    /// How many bytes a handle takes in memory.
    pub fn handle_bytes(self) -> usize {
        match self {
            Flavour::Mpich => 4,
            Flavour::Standard | Flavour::OpenMpi => 8,
        }
    }
}

/// The constants of a library.
#[derive(Debug, Clone)]
pub struct Abi {
    /// Which interface it is.
    pub flavour: Flavour,
    /// `MPI_COMM_WORLD`
    pub comm_world: Handle,
    /// `MPI_COMM_NULL`
    pub comm_null: Handle,
    /// `MPI_BYTE`
    pub byte: Handle,
    /// `MPI_IN_PLACE`
    pub in_place: usize,
    /// `MPI_STATUS_IGNORE`, and `MPI_STATUSES_IGNORE`
    pub status_ignore: usize,
    /// `MPI_COMBINER_NAMED`: a type that comes with MPI.
    pub combiner_named: i32,
    /// `MPI_ERR_OTHER`
    pub err_other: i32,
    /// `MPI_ERR_COUNT`
    pub err_count: i32,
    /// The operators that come with MPI, in the order of [`OPERATORS`].
    pub operators: [Handle; OPERATORS.len()],
}

/// `MPI_UNDEFINED`, the same everywhere.
pub const UNDEFINED: i32 = -32766;

/// The operators that are known, by the end of their names in Open MPI.
pub const OPERATORS: [&str; 12] =
    ["sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor", "minloc", "maxloc"];

impl Abi {
    /// That of a library. `symbol` looks up the address of an object of the library, as the program sees it.
    pub fn of(flavour: Flavour, symbol: impl Fn(&str) -> Option<usize>) -> Option<Abi> {
        match flavour {
            Flavour::Mpich => Some(MPICH),
            Flavour::Standard => Some(STANDARD),
            Flavour::OpenMpi => open_mpi(symbol),
        }
    }
}

const MPICH: Abi = Abi {
    flavour: Flavour::Mpich,
    comm_world: 0x4400_0000,
    comm_null: 0x0400_0000,
    byte: 0x4c00_010d,
    in_place: usize::MAX,
    status_ignore: 1,
    combiner_named: 1,
    err_other: 15,
    err_count: 2,
    operators: [
        0x5800_0003,
        0x5800_0004,
        0x5800_0002,
        0x5800_0001,
        0x5800_0005,
        0x5800_0007,
        0x5800_0009,
        0x5800_0006,
        0x5800_0008,
        0x5800_000a,
        0x5800_000b,
        0x5800_000c,
    ],
};

const STANDARD: Abi = Abi {
    flavour: Flavour::Standard,
    comm_world: 0x101,
    comm_null: 0x100,
    byte: 0x247,
    in_place: 1,
    status_ignore: 0,
    combiner_named: 101,
    err_other: 16,
    err_count: 2,
    operators: [0x21, 0x24, 0x22, 0x23, 0x30, 0x31, 0x32, 0x28, 0x29, 0x2a, 0x38, 0x39],
};

fn open_mpi(symbol: impl Fn(&str) -> Option<usize>) -> Option<Abi> {
    let mut operators = [0; OPERATORS.len()];
    for (handle, name) in operators.iter_mut().zip(OPERATORS) {
        *handle = symbol(&format!("ompi_mpi_op_{name}"))?;
    }
    Some(Abi {
        flavour: Flavour::OpenMpi,
        comm_world: symbol("ompi_mpi_comm_world")?,
        comm_null: symbol("ompi_mpi_comm_null")?,
        byte: symbol("ompi_mpi_byte")?,
        in_place: 1,
        status_ignore: 0,
        combiner_named: 0,
        err_other: 16,
        err_count: 2,
        operators,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_narrow_handle_the_rest_of_the_register_is_not_read() {
        assert_eq!(Flavour::Mpich.handle(0xdead_beef_4400_0000), 0x4400_0000);
        assert_eq!(Flavour::OpenMpi.handle(0x7fff_dead_beef), 0x7fff_dead_beef);
    }

    #[test]
    fn open_mpis_handles_are_addresses_of_its_objects_and_none_may_be_missing() {
        let abi = Abi::of(Flavour::OpenMpi, |name| Some(name.len())).unwrap();
        assert_eq!((abi.byte, abi.operators[0]), ("ompi_mpi_byte".len(), "ompi_mpi_op_sum".len()));
        assert!(Abi::of(Flavour::OpenMpi, |name| (name != "ompi_mpi_byte").then_some(8)).is_none());
    }

    #[test]
    fn no_two_operators_have_one_handle() {
        for abi in [MPICH, STANDARD] {
            let mut handles = abi.operators.to_vec();
            handles.sort_unstable();
            handles.dedup();
            assert_eq!(handles.len(), OPERATORS.len());
        }
    }
}
