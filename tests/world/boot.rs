//! What keeps ranks from joining is a sentence with its cure, on every rank.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use circulant::boot::Exchange;
use circulant::boot::rendezvous::{Address, Rendezvous};
use circulant::rank::Place;

use crate::job::{Job, Program};

/// All of two ranks with this variable end with these words.
#[track_caller]
fn both_say(words: &[&str], name: &str, value: &str) {
    for end in Job::new(2, "world").set("CIRCULANT_PROVIDER", "tcp").set(name, value).meet().end() {
        end.assert_error(words);
    }
}

/// What the program itself says, with these variables.
#[track_caller]
fn program_says(words: &str, variables: &[(&str, &str)], arguments: &str) {
    let end = Program::new(arguments).envs(variables).end();
    end.assert_error(&[words]);
}

#[test]
fn a_provider_that_cannot_be_had() {
    both_say(
        &["no transport: psm3 (no device here, or not in this libfabric (fi_getinfo: "],
        "CIRCULANT_PROVIDER",
        "psm3",
    );
    both_say(&["no transport: udp (never: it has no RMA)"], "CIRCULANT_PROVIDER", "udp");
    both_say(&["provider: `tpc` is not known; use one of psm2, psm3, opx, "], "CIRCULANT_PROVIDER", "tpc");
}

#[test]
fn providers_that_differ() {
    let job = Job::new(3, "world").set("CIRCULANT_PROVIDER", "tcp");
    for end in job.set_of(2, "CIRCULANT_PROVIDER", "rxm").meet().end() {
        let words = "rank 0 asks for provider tcp, rank 2 for rxm; set CIRCULANT_PROVIDER alike on all ranks";
        end.assert_error(&[words]);
    }
}

#[test]
fn settings_that_differ() {
    for (name, value, words) in [
        (
            "CIRCULANT_DOMAINS",
            "cache",
            "rank 0 asks for domains none, rank 1 for cache; set CIRCULANT_DOMAINS alike",
        ),
        (
            "CIRCULANT_LEADERS",
            "2",
            "rank 0 asks for leaders a node: 1, rank 1 for 2; set CIRCULANT_LEADERS alike",
        ),
        (
            "CIRCULANT_COSTS",
            "2.0,0.1",
            "rank 0 asks for costs none, rank 1 for 2,0.1; set CIRCULANT_COSTS alike",
        ),
    ] {
        for end in Job::new(2, "world").set("CIRCULANT_PROVIDER", "tcp").set_of(1, name, value).meet().end() {
            end.assert_error(&[words]);
        }
    }
}

#[test]
fn a_libfabric_that_is_not_there_or_none() {
    let cure = "let CIRCULANT_LIBFABRIC name a libfabric.so.1, or unset it";
    both_say(&["/no/such/file: cannot open", cure], "CIRCULANT_LIBFABRIC", "/no/such/file");
    both_say(&["/etc/passwd: ", cure], "CIRCULANT_LIBFABRIC", "/etc/passwd");
}

#[test]
fn an_interface_that_is_not_there() {
    both_say(&["nothing on `none77`; it is on ", "127.0.0.1"], "CIRCULANT_INTERFACE", "none77");
}

#[test]
fn malformed_variables() {
    for (name, value, words) in [
        (
            "CIRCULANT_PROGRESS",
            "async",
            "CIRCULANT_PROGRESS=async is no kind of progress; take calls or thread",
        ),
        ("CIRCULANT_STALL", "soon", "CIRCULANT_STALL=soon is no number of seconds"),
        ("CIRCULANT_DOMAINS", "L3", "CIRCULANT_DOMAINS=L3 is no kind of domain, and no number of them"),
        ("CIRCULANT_LEADERS", "none", "CIRCULANT_LEADERS=none is no number of leaders; take one from 1 on"),
        (
            "CIRCULANT_COSTS",
            "2us",
            "CIRCULANT_COSTS=2us is not what a put and a byte cost; take microseconds",
        ),
        (
            "CIRCULANT_SHM_COPY",
            "fast",
            "CIRCULANT_SHM_COPY=fast is no way to copy; take joint, writev or ring",
        ),
        ("CIRCULANT_TIMEOUT", "-1", "CIRCULANT_TIMEOUT=-1 is no number of seconds"),
        ("CIRCULANT_BOOT_TIMEOUT", "0", "CIRCULANT_BOOT_TIMEOUT is '0'; give at least one second"),
        ("CIRCULANT_BOOT", "mpi", "CIRCULANT_BOOT is 'mpi'; it is one of single, pmi1, pmix, rendezvous"),
    ] {
        both_say(&[words], name, value);
    }
    let program = |words, variables: &[_]| program_says(words, variables, "bench broadcast -m 8");
    let of_two = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
    program("neither PMI_FD nor PMI_PORT is set (PMI_SIZE is '2'); start with", &of_two);
    program("PMI_FD is 'x'; it should be a number", &[("PMI_FD", "x"), of_two[0], of_two[1]]);
    program(
        "PMI_FD is '99', but that is not open in this process",
        &[("PMI_FD", "99"), of_two[0], of_two[1]],
    );
    let pmix = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x"), ("CIRCULANT_LIBPMIX", "/no/such")];
    program("the launcher speaks PMIx, and no libpmix can be opened (/no/such: ", &pmix);
    program("let CIRCULANT_LIBPMIX name its file", &pmix);
    let srun = [("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
    program(
        "started by srun without PMI (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2); use `srun --mpi=pmi2`",
        &srun,
    );
    program("PMI_RANK is '2'; it must be below PMI_SIZE=2", &[("PMI_FD", "1"), ("PMI_RANK", "2"), of_two[1]]);
    program("CIRCULANT_RENDEZVOUS is 'here'; write host:port", &[("CIRCULANT_RENDEZVOUS", "here")]);
}

#[test]
fn malformed_arguments() {
    for (arguments, words) in [
        ("bench broadcast -n 0", "a job of 0 ranks; ask for at least one"),
        ("bench broadcast -n 2 -m 9:3", "9 is more than 3; write the smaller size first"),
        ("bench broadcast -n 2 -m 1T", "'1T' is no size"),
        ("bench broadcast -n 2 -t NaN", "'NaN' is no number of seconds"),
        ("bench broadcast -n 2 -m 8 --root 2", "root 2 of 2 ranks; give --root a number from 0 to 1"),
        ("bench broadcast -n 2 -m 8 --blocks 0", "0 is not in 1.."),
        ("bench allgatherv -n 2 --kind some", "possible values: regular, irregular, degenerate"),
        (
            "bench allreduce -n 2 --algorithm rign",
            "no algorithm `rign` for allreduce; there are: circulant, circulant-n, ",
        ),
        (
            "bench allreduce -n 3 --algorithm hypercube",
            "allreduce by hypercube is no algorithm for 3 ranks (p is a power",
        ),
        (
            "bench broadcast -n 2 -m 900000G",
            "the data of 2 ranks on this node are 1932735283200000 or more; ask for less",
        ),
        ("check 9..=3", "the range is empty"),
        ("schedule 5 --rank 9", "no rank 9 among 5"),
    ] {
        program_says(words, &[], arguments);
    }
}

#[test]
fn no_network_interface() {
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_circulant"));
        Program::of(command)
    };
    if !unshared("true").end().status.success() {
        println!("skipped: a network namespace needs root");
        return;
    }
    let end = unshared("$PROGRAM bench broadcast -n 2 -m 8 --provider tcp").end();
    end.assert_error(&["no transport: ", "net (127.0.0.1: Network is unreachable", "`ip link set NAME up`"]);
}

#[test]
fn another_version_of_the_rendezvous() {
    let job = Job::new(2, "world").without(1).meet();
    let mut stranger = knock(&job.address());
    stranger.write_all(b"circboot\x63\x00\x01\x00\x00\x00\x02\x00\x00\x00").unwrap();
    job.end()[0].assert_error(&["version 99", "start all ranks from the same build"]);
}

#[test]
fn another_version_of_the_wire_format() {
    let job = Job::new(2, "world").without(1).meet();
    let address: Address = job.address().parse().ok().unwrap();
    let place = Place { rank: 1, size: 2 };
    let mut other = Rendezvous::meet(&address, place, Duration::from_secs(60)).unwrap();
    // The cards' magic, and a version that is not ours.
    let _ = other.allgather(b"circulant\x63\x00{}");
    job.end()[0].assert_error(&[
        "rank 1 speaks version 99 of the wire format",
        "start the same version on all ranks",
    ]);
}

/// Connects as soon as somebody listens.
fn knock(address: &str) -> TcpStream {
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
