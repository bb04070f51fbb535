//! What the program refuses, once and before anything starts; what its rows hold; what it tells where something is amiss.

use std::fs::File;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_circulant");

/// As whoever has set none of its variables, and has no launcher.
fn program(arguments: &str) -> Command {
    let mut program = unset(Command::new(PROGRAM));
    program.args(arguments.split_whitespace()).stdin(Stdio::null());
    program
}

fn unset(mut program: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if ["CIRCULANT_", "PMI", "FI_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            program.env_remove(name);
        }
    }
    program
}

fn run(arguments: &str) -> Output {
    program(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// That it is refused with these words, by one line, and nothing else is printed.
fn assert_refused_once(output: &Output, words: &str) {
    let (out, err) = (out(output), err(output));
    assert_eq!(output.status.code(), Some(2), "{out}{err}");
    assert!(err.contains(words), "{words}: {err}");
    assert!(out.is_empty() && err.matches("error:").count() == 1, "{out}{err}");
}

/// From the costs that are set follow the same numbers of blocks in every job, and from others others.
#[test]
fn costs_that_are_set_are_what_choices_follow_from() {
    let bench = |costs, format: &str| {
        let arguments = format!("bench reduce -n 3 --provider tcp -m 8M:8M -t 0 --format {format}");
        let output = program(&arguments).env("CIRCULANT_COSTS", costs).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    let blocks = |costs| -> u32 {
        let rows = bench(costs, "csv");
        let row = rows.lines().find(|row| row.starts_with("circulant,")).unwrap();
        row.split(',').nth(7).unwrap().parse().unwrap()
    };
    let [dear, again, cheap] = ["100,0.5", "100, 0.5", "1,0.5"].map(blocks);
    assert!(dear == again && 1 < dear && 5 * dear < cheap, "{dear}, {again}, {cheap}");
    let head = bench("100,0.5", "osu");
    assert!(head.contains("# a put costs 100.0 us, a byte 0.500 ns"), "{head}");
}

#[test]
fn what_ranks_cannot_do_is_refused_once_and_before_they_start() {
    for (arguments, words) in [
        ("bench broadcast -n 2 -m 17000000G", "bytes left, and the data of 2 ranks on this node are"),
        ("bench broadcast -n 2 -m 17000000G --tense prepared", "the data of 2 ranks"),
        ("bench broadcast -n 4 --algorithm leader", "and not for 4 ranks on 1 node of 1 domain"),
        ("bench broadcast -n 2 --blocks 65537", "65537 is not in 1..=65536"),
        ("plan broadcast -p 2 -n 65537", "65537 is not in 1..=65536"),
        ("bench alltoall -n 2 --blocks 4", "alltoall takes no number of blocks"),
        ("bench barrier -n 2 -m 8", "-m: a barrier moves no data; leave -m out"),
        ("bench barrier -n 2 --tense window", "--tense: a barrier moves no data"),
        ("bench reduce -n 2 -m 99999999999999999999", "is too large"),
        ("bench reduce -n 2 -t -1", "'-1' is no number of seconds"),
        ("bench reduce -n 2 --rest -1", "'-1' is no number of seconds"),
        ("bench allgatherv -n 4294967295 -m 8", "ask for at most 4194304"),
        ("bench broadcast -n 4294967295 --algorithm leader", "ask for at most 4194304"),
        ("bench broadcast -n 4 --provider shm+tpc", "`tpc` is not known; use one of"),
        ("bench put -n 3", "3 in place of 2 ranks"),
        ("bench put -n 2 -t -1", "'-1' is no number of seconds"),
    ] {
        assert_refused_once(&run(arguments), words);
    }
}

#[test]
fn a_variable_is_the_users_word_as_an_option_is() {
    for arguments in ["bench allreduce -n 2", "bench allreduce", "bench put -n 2"] {
        let refused = program(arguments).env("CIRCULANT_LEADERS", "0").output().unwrap();
        assert_refused_once(&refused, "CIRCULANT_LEADERS=0 is no number of leaders");
        let refused = program(arguments).env("CIRCULANT_PROVIDER", "tpc").output().unwrap();
        assert_refused_once(&refused, "`tpc` is not known");
    }
}

#[test]
fn what_all_ranks_find_out_is_told_by_one() {
    let output = run("bench copy -n 4 --nodes 2");
    if err(&output).contains("dlopen") {
        eprintln!("skipped: no libfabric, which carries puts between nodes");
        return;
    }
    assert_refused_once(&output, "ranks on 2 nodes, which share no memory");
    // Domains are known to ranks that have met.
    assert_refused_once(
        &run("bench broadcast -n 4 --nodes 2 --algorithm leader-domains --domains 1"),
        "`leader-domains` does not serve",
    );
}

#[test]
fn one_rank_without_memory_is_what_is_told() {
    let script = format!(
        "test $PMI_RANK = 0 || ulimit -v 200000; exec '{PROGRAM}' bench broadcast -m 200M -t 0 --provider shm"
    );
    let output = program("run -n 2 -- sh -c").arg(&script).output().unwrap();
    let text = err(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("no memory for 52428800 elements"), "{text}");
    assert!(!text.contains("disagree") && text.matches("error:").count() == 1, "{text}");
}

#[test]
fn empty_calls_are_timed_as_such() {
    for collective in ["broadcast", "allreduce", "allgatherv", "reduce_scatter", "gather", "alltoall"] {
        let output = run(&format!("bench {collective} -n 2 -m 0 -t 0 --check --format csv"));
        let text = out(&output);
        let row: Vec<_> = text.lines().nth(1).unwrap_or_default().split(',').collect();
        assert_eq!(row.get(6), Some(&"0"), "{text}{}", err(&output));
    }
}

#[test]
fn rows_for_programs_say_all_that_was_asked_for_and_end_with_it() {
    let text =
        out(&run("bench reduce -n 2 -m 8 -t 0 --tense window --root 1 --rest 0.001 --check --format csv"));
    let lines: Vec<Vec<_>> = text.lines().map(|line| line.split(',').collect()).collect();
    let [head, row] = &lines[..] else { panic!("{text}") };
    assert_eq!(head[..2], ["library", "collective"]);
    assert_eq!(head[9..16], ["median_us", "max_us", "tense", "root", "rest_s", "transport", "fresh"]);
    assert_eq!(head[16..], ["call_us", "compute_us", "overlap_percent"]);
    assert_eq!(row[11..14], ["window", "1", "0.001"]);
    assert!(row[14].starts_with("shm") && row[15..] == ["false", "", "", ""], "{text}");
    for collective in ["broadcast", "gather", "alltoall"] {
        for tense in ["slice", "window", "prepared", "kept"] {
            let turn = format!(
                "bench {collective} -n 2 -m 64K:64K -t 0 --tense {tense} --fresh --check --format csv"
            );
            assert!(out(&run(&turn)).trim_end().ends_with(",true,,,"), "{turn}");
        }
    }
    let json = out(&run("bench allreduce -n 2 -m 8 -t 0 --check --format json"));
    assert!(json.contains(r#""tense":"slice","root":null,"rest_s":0.0,"transport":"shm"#), "{json}");
    assert_eq!(json.lines().count(), 1, "{json}");
    for tense in ["started", "prepared"] {
        let beside =
            format!("bench allreduce -n 2 -m 64K:64K -t 0 --tense {tense} --overlap --check --format csv");
        let text = out(&run(&beside));
        let numbers: Vec<f64> =
            text.trim_end().rsplit(',').take(3).map(|number| number.parse().unwrap()).collect();
        assert!(numbers[0] <= 100.0, "{text}");
        assert!(numbers[1..].iter().all(|&number| number > 0.0), "{text}");
    }
    let put = out(&run("bench put -n 2 -m 8 -t 0 --provider shm --format csv"));
    let mut lines = put.lines();
    assert!(lines.next().unwrap().ends_with(",messages_per_s,transport"), "{put}");
    assert!(lines.all(|line| line.contains(",shm")), "{put}");
}

#[test]
fn what_was_verified_is_said_to_people() {
    let text = out(&run("bench allreduce -n 2 -m 8 -t 0 --check"));
    assert!(text.ends_with("# every element verified, on 2 ranks\n"), "{text}");
    let text = out(&run("bench barrier -n 2 -t 0 --check"));
    assert!(text.starts_with("# circulant") && !text.contains("of i32"), "{text}");
    assert!(text.ends_with("# no rank left early, on 2 ranks\n"), "{text}");
    assert!(!out(&run("bench allreduce -n 2 -m 8 -t 0")).contains("verified"));
}

#[test]
fn two_ranks_on_one_core_get_no_verdict() {
    let script = format!("exec taskset -c $0 '{PROGRAM}' bench put -n 2 -m 8 -t 0 --provider tcp --baseline");
    let cpu = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&at| cpu.is_set(at)).unwrap().to_string();
    let output = unset(Command::new("sh")).args(["-c", &script, &first]).output().unwrap();
    if err(&output).contains("dlopen") {
        return; // There is no libfabric here.
    }
    let text = out(&output);
    assert!(text.contains("# both ranks share a core"), "{text}{}", err(&output));
    assert!(text.ends_with("# no verdict, as both ranks share a core\n"), "{text}");
}

#[test]
fn info_tells_a_bad_value_and_goes_on() {
    for (name, value) in [("CIRCULANT_DOMAINS", "foo"), ("CIRCULANT_SHM_COPY", "foo")] {
        let output = program("info").env(name, value).output().unwrap();
        let text = out(&output);
        assert!(output.status.success(), "{}", err(&output));
        assert!(text.contains(&format!("\nvariables  {name}={value} is no ")), "{text}");
        assert!(text.contains("\nvariables that are read"), "{text}");
    }
    let two = program("info").env("CIRCULANT_STALL", "bar").env("CIRCULANT_LEADERS", "0").output().unwrap();
    assert_eq!(out(&two).matches("\nvariables  CIRCULANT_").count(), 2, "{}", out(&two));
    let output = program("info").env("CIRCULANT_BOOT", "rendezvous").output().unwrap();
    assert!(out(&output).contains("\nboot       MASTER_ADDR"), "{}", out(&output));
}

#[test]
fn info_ends_with_1_where_the_provider_that_it_is_to_consider_cannot_be_used() {
    let output = run("info --provider psm2");
    let (text, words) = (out(&output), err(&output));
    // Where there is such a device it is usable.
    if !text.contains("-> psm2") {
        assert_eq!(output.status.code(), Some(1), "{text}{words}");
        assert!(
            text.contains("variables that are read") && words.contains("psm2 cannot be used here"),
            "{words}"
        );
    }
    assert!(run("info --provider shm").status.success());
}

#[test]
fn what_cannot_be_written_is_named() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = program("plan --list").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("error: the standard output cannot be written: "), "{}", err(&output));
}

#[test]
fn what_was_measured_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, figure) = (folder.path().join("rows.csv"), folder.path().join("figure.svg"));
    let plot = |rows: &std::path::Path, more: &str| {
        let mut plot = program("plot");
        plot.arg(rows).arg("-o").arg(&figure).args(more.split_whitespace()).output().unwrap()
    };
    let measured = run("bench reduce -n 2 -m 8:32 -t 0 --algorithm all --format csv");
    std::fs::write(&rows, &measured.stdout).unwrap();
    assert!(plot(&rows, "--of lower-quartile").status.success());
    let svg = std::fs::read_to_string(&figure).unwrap();
    assert!(svg.contains(": lower quartile of median times, over bytes in all"), "{svg}");
    assert!(plot(&rows, "").status.success());
    let svg = std::fs::read_to_string(&figure).unwrap();
    for text in ["reduce", "2 ranks on 1 node: median time, over bytes in all", "linear", "mst", "32 B"] {
        assert!(svg.contains(&format!(">\n{text}\n<")), "{text} is missing: {svg}");
    }
    assert_refused_once(
        &plot(&rows, "--relative-to impi"),
        "there is no curve `impi`; there are: circulant, ",
    );
    assert_refused_once(&plot(&folder.path().join("none"), ""), "none cannot be read: ");
    let onto_itself = program("plot").arg(&rows).arg("-o").arg(&rows).output().unwrap();
    assert_refused_once(&onto_itself, "is to be read, and to be written; give -o another file");
    assert_eq!(std::fs::read(&rows).unwrap(), measured.stdout, "a measurement is not lost");
    let by_another_name = folder.path().join("linked.csv");
    std::fs::hard_link(&rows, &by_another_name).unwrap();
    let through =
        program("plot -o").arg(&by_another_name).stdin(File::open(&rows).unwrap()).output().unwrap();
    assert_refused_once(&through, "the standard input is to be read, and to be written");
    std::fs::remove_file(&by_another_name).unwrap();
    let streamed = program("plot -o -").stdin(File::open(&rows).unwrap()).output().unwrap();
    assert_eq!(out(&streamed), svg);
    let full = program("plot -o /dev/full").arg(&rows).output().unwrap();
    assert_eq!((full.status.code(), err(&full).contains("/dev/full cannot be written")), (Some(1), true));
    assert_refused_once(
        &program("plot -o /nowhere/x.svg").output().unwrap(),
        "/nowhere/x.svg cannot be written: ",
    );
    std::fs::write(&rows, "# 2 ranks on 1 node\n").unwrap();
    assert_refused_once(&plot(&rows, ""), "line 1 of ");
    assert_eq!(std::fs::read_to_string(&figure).unwrap(), svg, "what was drawn before stays");
    std::fs::remove_file(&figure).unwrap();
    assert_refused_once(&program("plot -o").arg(&figure).output().unwrap(), "there are no rows");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left of what could not be drawn"
    );
}

/// Times of a call, and of a call with a computation beside it, are not of one curve; nor are forms of a call.
#[test]
fn what_differs_is_drawn_by_itself() {
    let bench = |more: &str| run(&format!("bench allreduce -n 2 -m 8:8 -t 0 {more}")).stdout;
    let rows =
        [bench("--format csv --tense window"), bench("--format json --tense started --overlap")].concat();
    let mut plot = program("plot -o - --y bandwidth --title anything");
    let mut plot = plot.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut plot.stdin.take().unwrap(), &rows).unwrap();
    let svg = out(&plot.wait_with_output().unwrap());
    for text in ["anything", "allreduce", "window", "started overlapped"] {
        assert!(svg.contains(&format!(">\n{text}\n<")), "{text} is missing: {svg}");
    }
}
