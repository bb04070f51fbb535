//! The collectives' functions, as the program calls them: in C and in Fortran, with counts of both widths.
//!
//! One list says of each its names and arguments; all the functions are made of it. Those of large counts (`_c`) are
//! there for every library, as a program that finds them will call them: where the library has none of its own, a
//! call is passed on to the usual one if its numbers fit.

use std::ffi::{c_int, c_void};

use circulant::boot::mpi::abi::Handle;
use circulant::collective::Collective;

use super::background;
use super::call::{Args, PassedOn, Taken, Tense, Why, decide};
use super::fortran::{self, Fortran};
use super::narrow::{self, Narrow};
use super::own::Own;
use super::report;
use super::sides::{Side, Values};
use super::world;

/// Makes a call at once, or has it passed on. It is timed only where the library `has_it`: with numbers that only a function of large
/// counts takes it could not be passed on.
fn at_once(args: Args, has_it: impl FnOnce() -> bool, own: impl FnOnce() -> c_int) -> c_int {
    let Some(world) = world::joined() else { return own() };
    let mut since = report::clock(world);
    let pass_on = || world.pass_on(args.collective, own);
    let (code, bytes, why) = match decide(world, &args, Tense::AtOnce) {
        Ok(taken)
            if report::is_sample(world, args.collective, &taken) && taken.well().is_ok() && has_it() =>
        {
            // What was decided, for which counts may have had to be asked for, is ours.
            since = report::clock(world);
            (pass_on(), taken.bytes, Some(Why::Sample))
        }
        Ok(taken) => {
            let bytes = taken.bytes;
            (make(taken), bytes, None)
        }
        Err(PassedOn { why, bytes }) => (pass_on(), bytes, Some(why)),
    };
    report::count(&args, Tense::AtOnce, (code, bytes), why, since);
    code
}

fn make(mut taken: Taken) -> c_int {
    let made = taken.pack().and_then(|()| {
        let (input, output) = taken.spans();
        // SAFETY: - the program lends its buffers for as long as the call, as MPI has it
        unsafe { taken.found.comm.run_raw(&taken.call, input, output)? };
        taken.unpack()
    });
    made.map_or_else(|error| world::fail(taken.found.handle, &error), |()| 0)
}

/// Starts or prepares a call, or has it passed on.
///
/// # Safety
/// - `request` has room for a handle, and the program keeps to MPI's rules for buffers.
unsafe fn later(args: Args, tense: Tense, request: *mut c_void, own: impl FnOnce() -> c_int) -> c_int {
    let Some(world) = world::joined() else { return own() };
    let since = report::clock(world);
    let (code, bytes, why) = match decide(world, &args, tense) {
        Ok(taken) => {
            let (bytes, comm) = (taken.bytes, taken.found.handle);
            // SAFETY: - as MPI has it (the caller)
            let begun = unsafe { background::begin(taken, tense, request) };
            (begun.map_or_else(|error| world::fail(comm, &error), |()| 0), bytes, None)
        }
        Err(PassedOn { why, bytes }) => (own(), bytes, Some(why)),
    };
    report::count(&args, tense, (code, bytes), why, since);
    code
}

fn whole(buffer: *mut c_void, values: impl Into<i64>, datatype: Handle) -> Side {
    Side { buffer, values: Values::Whole(values.into()), datatype }
}

fn equal(buffer: *mut c_void, values: impl Into<i64>, datatype: Handle) -> Side {
    Side { buffer, values: Values::Equal(values.into()), datatype }
}

fn each<T: Narrow>(buffer: *mut c_void, counts: *const T, places: *const T, datatype: Handle) -> Side {
    Side { buffer, values: Values::Each(T::numbers(counts), T::numbers(places)), datatype }
}

fn args(collective: Collective, comm: Handle, send: Side, recv: Side) -> Args {
    Args { collective, comm, root: 0, operator: 0, send, recv }
}

/// The type of an argument in C, where counts are of type `$int`.
macro_rules! c_type {
    (buffer, $int:ty) => { *mut c_void };
    (count, $int:ty) => { $int };
    (counts, $int:ty) => { *const $int };
    (shares, $int:ty) => { *const $int };
    (roots, $int:ty) => { *const $int };
    (sent, $int:ty) => { *const $int };
    (rank, $int:ty) => { c_int };
    ($handle:ident, $int:ty) => { Handle };
}

/// An argument of a Fortran program as one of C's.
macro_rules! of_fortran {
    (buffer, $from:expr) => {
        fortran::buffer($from.cast())
    };
    (count, $from:expr) => {
        *$from.cast::<c_int>()
    };
    (counts, $from:expr) => {
        $from.cast::<c_int>().cast_const()
    };
    (shares, $from:expr) => {
        of_fortran!(counts, $from)
    };
    (roots, $from:expr) => {
        of_fortran!(counts, $from)
    };
    (sent, $from:expr) => {
        of_fortran!(counts, $from)
    };
    (rank, $from:expr) => {
        *$from.cast::<c_int>()
    };
    (datatype, $from:expr) => {
        fortran::datatype(*$from.cast())
    };
    (operator, $from:expr) => {
        fortran::operator(*$from.cast())
    };
    (comm, $from:expr) => {
        fortran::comm(*$from.cast())
    };
}

/// An argument of the functions with large counts as one of the usual ones, among all; `$kept` keeps arrays alive.
macro_rules! narrowed {
    (count, $from:expr, $all:tt, $kept:expr) => {
        narrow::count($from)?
    };
    (counts, $from:expr, $all:tt, $kept:expr) => {
        narrow::array($from, comm_of!($all), $kept)?
    };
    (shares, $from:expr, $all:tt, $kept:expr) => {
        narrow::shares($from, comm_of!($all), $kept)?
    };
    (roots, $from:expr, $all:tt, $kept:expr) => {
        narrow::of_root($from, root_of!($all), comm_of!($all), $kept)?
    };
    (sent, $from:expr, $all:tt, $kept:expr) => {
        narrow::sent($from, first_of!($all), comm_of!($all), $kept)?
    };
    ($other:ident, $from:expr, $all:tt, $kept:expr) => {
        $from
    };
}

/// The one of the arguments that is the communicator.
macro_rules! comm_of {
    (($arg:ident: comm)) => { $arg };
    (($arg:ident: $kind:ident, $($rest:tt)*)) => { comm_of!(($($rest)*)) };
}

/// The one that is the root.
macro_rules! root_of {
    (($arg:ident: rank, $($rest:tt)*)) => { $arg };
    (($arg:ident: $kind:ident, $($rest:tt)*)) => { root_of!(($($rest)*)) };
}

/// The first one, which is where values are sent from.
macro_rules! first_of {
    (($arg:ident: $kind:ident, $($rest:tt)*)) => {
        $arg
    };
}

/// The type of any argument in Fortran.
macro_rules! address {
    ($arg:ident) => { *mut c_void };
}

/// A function in C and the library's own, made of its name, the type of counts, its arguments and further ones, how it
/// is taken, and what is done where the library has none.
macro_rules! in_c {
    (
        $fn:ident, $own:ident, [$($name:literal),*], $int:ty, ($($arg:ident: $kind:ident),*),
        ($($more:ident: $type:ty),*), $taken:expr, $else:expr
    ) => {
        /// # Safety
        /// - As MPI has it.
        pub unsafe extern "C" fn $own($($arg: c_type!($kind, $int),)* $($more: $type),*) -> c_int {
            static OWN: Own = Own::new(concat!("PMPI_", $($name),*));
            // SAFETY: - this is its type in MPI, with handles as words
            let own = unsafe {
                OWN.get::<unsafe extern "C" fn($(c_type!($kind, $int),)* $($type),*) -> c_int>()
            };
            match own {
                // SAFETY: - the program's own call, as it made it
                Some(own) => unsafe { own($($arg,)* $($more),*) },
                None => $else,
            }
        }

        #[unsafe(export_name = concat!("MPI_", $($name),*))]
        pub unsafe extern "C" fn $fn($($arg: c_type!($kind, $int),)* $($more: $type),*) -> c_int {
            // SAFETY: - the program's own call, as it made it
            let own = || unsafe { $own($($arg,)* $($more),*) };
            $taken(own)
        }
    };
}

/// The three functions in C of a collective, with counts of one width.
macro_rules! three_in_c {
    (
        $int:ty, [$big:literal, $small:literal, $end:literal], ($($arg:ident: $kind:ident),*),
        ($info:ident, $request:ident), $made:expr, $has_it:expr,
        $else_at_once:expr, $else_started:expr, $else_prepared:expr
    ) => {
        in_c!(
            at_once, own_at_once, [$big, $end], $int, ($($arg: $kind),*), (),
            |own| super::super::at_once($made, $has_it, own), $else_at_once
        );
        in_c!(
            started, own_started, ["I", $small, $end], $int, ($($arg: $kind),*), ($request: *mut c_void),
            // SAFETY: - the program gives a request to be written
            |own| unsafe { later($made, Tense::Started, $request, own) }, $else_started
        );
        in_c!(
            prepared, own_prepared, [$big, "_init", $end], $int, ($($arg: $kind),*),
            ($info: Handle, $request: *mut c_void),
            // SAFETY: - the program gives a request to be written
            |own| unsafe { later($made, Tense::Prepared, $request, own) }, $else_prepared
        );
    };
}

/// A function in Fortran in one spelling.
macro_rules! spelled {
    ($fn:ident, [$($spelling:literal),*], [$($lower:literal),*], ($($arg:ident),*), $made:expr) => {
        #[unsafe(export_name = concat!($($spelling),*))]
        unsafe extern "C" fn $fn($($arg: *mut c_void,)* error: *mut c_int) {
            static NEXT: Fortran = Fortran::new(concat!("mpi_", $($lower,)* "_\0"));
            // SAFETY: - in Fortran all arguments are addresses
            let next = unsafe { NEXT.next::<unsafe extern "C" fn($(address!($arg),)* *mut c_int)>() };
            match next {
                // SAFETY: - the program's own call, as it made it
                Some(next) => unsafe { next($($arg,)* error) },
                None => {
                    let code = $made;
                    // SAFETY: - the last argument is where the code goes, or null where Fortran 2008 leaves it out
                    unsafe { fortran::give(error, code) }
                }
            }
        }
    };
}

/// A function in Fortran in all spellings.
macro_rules! in_fortran {
    ([$($lower:literal),*], [$($upper:literal),*], $args:tt, $made:expr) => {
        spelled!(usual, ["mpi_", $($lower,)* "_"], [$($lower),*], $args, $made);
        spelled!(bare, ["mpi_", $($lower),*], [$($lower),*], $args, $made);
        spelled!(twice, ["mpi_", $($lower,)* "__"], [$($lower),*], $args, $made);
        spelled!(upper, ["MPI_", $($upper),*], [$($lower),*], $args, $made);
        spelled!(typed, ["mpi_", $($lower,)* "_f08_"], [$($lower,)* "_f08"], $args, $made);
    };
}

/// The functions of a collective with usual counts, and in Fortran.
macro_rules! usual {
    ([$big:literal, $small:literal, $upper:literal], ($($arg:ident: $kind:ident),*), $made:expr) => {
        /// In C.
        mod usual {
            use super::super::*;
            three_in_c!(
                c_int, [$big, $small, ""], ($($arg: $kind),*), (info, request), $made, || true,
                world::absent(comm_of!(($($arg: $kind),*)), concat!("MPI_", $big)),
                world::absent(comm_of!(($($arg: $kind),*)), concat!("MPI_I", $small)),
                world::absent(comm_of!(($($arg: $kind),*)), concat!("MPI_", $big, "_init"))
            );
        }

        mod fortran_at_once {
            use super::super::*;
            in_fortran!([$small], [$upper], ($($arg),*), {
                // SAFETY: - in Fortran an argument is the address of what it is in C
                unsafe { super::usual::at_once($(of_fortran!($kind, $arg)),*) }
            });
        }

        mod fortran_started {
            use super::super::*;
            in_fortran!(["i", $small], ["I", $upper], ($($arg,)* request), {
                // SAFETY: - in Fortran an argument is the address of what it is in C
                unsafe {
                    fortran::with_request(request, |request| {
                        super::usual::started($(of_fortran!($kind, $arg),)* request)
                    })
                }
            });
        }

        mod fortran_prepared {
            use super::super::*;
            in_fortran!([$small, "_init"], [$upper, "_INIT"], ($($arg,)* info, request), {
                // SAFETY: - in Fortran an argument is the address of what it is in C
                unsafe {
                    fortran::with_request(request, |request| {
                        let info = fortran::info(*info.cast());
                        super::usual::prepared($(of_fortran!($kind, $arg),)* info, request)
                    })
                }
            });
        }
    };
}

/// The functions of a collective with large counts.
macro_rules! large {
    ([$big:literal, $small:literal], ($($arg:ident: $kind:ident),*), $all:tt, $made:expr) => {
        mod large {
            use super::super::*;
            use super::usual;
            three_in_c!(
                i64, [$big, $small, "_c"], ($($arg: $kind),*), (info, request), $made, || {
                    static OWN: Own = Own::new(concat!("PMPI_", $big, "_c"));
                    // SAFETY: - it is not called
                    unsafe { OWN.get::<unsafe extern "C" fn()>() }.is_some()
                },
                narrow::call(concat!("MPI_", $big, "_c"), comm_of!($all), None, |_kept| {
                    $(let $arg = narrowed!($kind, $arg, $all, _kept);)*
                    // SAFETY: - the program's own call, with numbers that fit
                    Some(unsafe { usual::own_at_once($($arg),*) })
                }),
                narrow::call(concat!("MPI_I", $small, "_c"), comm_of!($all), Some(request), |_kept| {
                    $(let $arg = narrowed!($kind, $arg, $all, _kept);)*
                    // SAFETY: - the program's own call, with numbers that fit
                    Some(unsafe { usual::own_started($($arg,)* request) })
                }),
                narrow::call(concat!("MPI_", $big, "_init_c"), comm_of!($all), Some(request), |_kept| {
                    $(let $arg = narrowed!($kind, $arg, $all, _kept);)*
                    // SAFETY: - the program's own call, with numbers that fit
                    Some(unsafe { usual::own_prepared($($arg,)* info, request) })
                })
            );
        }
    };
}

/// All functions of the collectives: of each the beginnings of its names, its arguments, and what they are.
macro_rules! collectives {
    ($($module:ident [$big:literal, $small:literal, $upper:literal] $args:tt => $made:expr;)*) => {$(
        mod $module {
            usual!([$big, $small, $upper], $args, $made);
            large!([$big, $small], $args, $args, $made);
        }
    )*};
}

collectives! {
    bcast ["Bcast", "bcast", "BCAST"]
        (buffer: buffer, n: count, ty: datatype, root: rank, comm: comm)
        => Args { root, ..args(Collective::Broadcast, comm, Side::NONE, whole(buffer, n, ty)) };
    reduce ["Reduce", "reduce", "REDUCE"]
        (from: buffer, to: buffer, n: count, ty: datatype, op: operator, root: rank, comm: comm)
        => Args { root, operator: op, ..args(Collective::Reduce, comm, whole(from, n, ty), whole(to, n, ty)) };
    allreduce ["Allreduce", "allreduce", "ALLREDUCE"]
        (from: buffer, to: buffer, n: count, ty: datatype, op: operator, comm: comm)
        => Args { operator: op, ..args(Collective::Allreduce, comm, whole(from, n, ty), whole(to, n, ty)) };
    reduce_scatter ["Reduce_scatter", "reduce_scatter", "REDUCE_SCATTER"]
        (from: buffer, to: buffer, counts: shares, ty: datatype, op: operator, comm: comm)
        => Args {
            operator: op,
            ..args(Collective::ReduceScatter, comm, whole(from, 0, ty), each(to, counts, counts, ty))
        };
    reduce_scatter_block ["Reduce_scatter_block", "reduce_scatter_block", "REDUCE_SCATTER_BLOCK"]
        (from: buffer, to: buffer, n: count, ty: datatype, op: operator, comm: comm)
        => Args {
            operator: op,
            ..args(Collective::ReduceScatterBlock, comm, whole(from, 0, ty), whole(to, n, ty))
        };
    allgather ["Allgather", "allgather", "ALLGATHER"]
        (from: buffer, n: count, ty: datatype, to: buffer, m: count, of: datatype, comm: comm)
        => args(Collective::Allgather, comm, whole(from, n, ty), equal(to, m, of));
    allgatherv ["Allgatherv", "allgatherv", "ALLGATHERV"]
        (from: buffer, n: count, ty: datatype, to: buffer, counts: counts, places: counts, of: datatype, comm: comm)
        => args(Collective::Allgatherv, comm, whole(from, n, ty), each(to, counts, places, of));
    scatter ["Scatter", "scatter", "SCATTER"]
        (from: buffer, n: count, ty: datatype, to: buffer, m: count, of: datatype, root: rank, comm: comm)
        => Args { root, ..args(Collective::Scatter, comm, equal(from, n, ty), whole(to, m, of)) };
    scatterv ["Scatterv", "scatterv", "SCATTERV"]
        (
            from: buffer, counts: roots, places: roots, ty: datatype, to: buffer, m: count, of: datatype,
            root: rank, comm: comm
        )
        => Args { root, ..args(Collective::Scatterv, comm, each(from, counts, places, ty), whole(to, m, of)) };
    gather ["Gather", "gather", "GATHER"]
        (from: buffer, n: count, ty: datatype, to: buffer, m: count, of: datatype, root: rank, comm: comm)
        => Args { root, ..args(Collective::Gather, comm, whole(from, n, ty), equal(to, m, of)) };
    gatherv ["Gatherv", "gatherv", "GATHERV"]
        (
            from: buffer, n: count, ty: datatype, to: buffer, counts: roots, places: roots, of: datatype,
            root: rank, comm: comm
        )
        => Args { root, ..args(Collective::Gatherv, comm, whole(from, n, ty), each(to, counts, places, of)) };
    alltoall ["Alltoall", "alltoall", "ALLTOALL"]
        (from: buffer, n: count, ty: datatype, to: buffer, m: count, of: datatype, comm: comm)
        => args(Collective::Alltoall, comm, equal(from, n, ty), equal(to, m, of));
    alltoallv ["Alltoallv", "alltoallv", "ALLTOALLV"]
        (
            from: buffer, sent: sent, starts: sent, ty: datatype, to: buffer, received: counts,
            places: counts, of: datatype, comm: comm
        )
        => args(Collective::Alltoallv, comm, each(from, sent, starts, ty), each(to, received, places, of));
}

/// It has no counts.
mod barrier {
    usual!(["Barrier", "barrier", "BARRIER"], (comm: comm), {
        args(Collective::Barrier, comm, Side::NONE, Side::NONE)
    });
}
