//! `circulant run` with real processes: exit codes, output, deaths, and that nothing stays behind.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Ends a hang; nothing here takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(60);

fn launcher(options: &[&str], command: &[&str]) -> Command {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_circulant"));
    launcher.arg("run").args(options).arg("--").args(command);
    launcher
}

fn run(options: &[&str], script: &str) -> Output {
    launcher(options, &["sh", "-c", script]).stdin(Stdio::null()).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Waits until a file has as many lines, which are process numbers, and gives them.
fn numbers(file: &Path, count: usize) -> Vec<i32> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') && text.lines().count() == count {
            return text.lines().map(|line| line.trim().parse().unwrap()).collect();
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("fewer than {count} processes have started");
}

fn is_alive(pid: i32) -> bool {
    // A dead process that nobody has reaped is listed still, in state Z.
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

fn assert_all_gone(pids: &[i32]) {
    let start = Instant::now();
    while pids.iter().any(|&pid| is_alive(pid)) {
        assert!(start.elapsed() < PATIENCE, "still there: {pids:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn every_rank_knows_its_place() {
    let output = run(&["-n", "3"], "echo $PMI_RANK of $PMI_SIZE $CIRCULANT_NODE");
    assert_eq!(sorted(&out(&output)), ["0 of 3", "1 of 3", "2 of 3"]);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
}

#[test]
fn nodes_are_contiguous_runs() {
    let output = run(&["-n", "5", "--nodes", "2", "--label"], "echo $CIRCULANT_NODE");
    assert_eq!(sorted(&out(&output)), ["[0] 0", "[1] 0", "[2] 0", "[3] 1", "[4] 1"]);
}

#[test]
fn labels_are_on_every_line_of_both_streams_and_the_last_needs_no_newline() {
    let output = run(&["-n", "2", "--label"], "printf 'one\\ntwo'; printf 'bad' >&2");
    assert_eq!(sorted(&out(&output)), ["[0] one", "[0] two", "[1] one", "[1] two"]);
    assert_eq!(sorted(&err(&output)), ["[0] bad", "[1] bad"]);
}

#[test]
fn no_output_is_lost_and_no_line_is_torn() {
    let output = run(&["-n", "3", "--label"], "seq 1 20000");
    assert_eq!(code(&output), 0);
    for rank in 0..3 {
        let label = format!("[{rank}] ");
        let text = out(&output);
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        assert!(lines.iter().map(|line| line.parse::<u32>().unwrap()).eq(1..=20000));
    }
}

#[test]
fn output_that_outlives_its_rank_is_waited_for() {
    let output = run(&["-n", "1", "--label"], "(sleep 0.05; echo late) & exit 0");
    assert_eq!((code(&output), out(&output).as_str()), (0, "[0] late\n"));
}

/// A job that writes more than anybody takes, and then loses a rank; with the reader of its output, which has read nothing.
fn untaken(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = launcher(&["-n", "2", "--label"], &["sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut sentence = String::new();
    errors.read_line(&mut sentence).unwrap();
    assert!(sentence.contains("rank 1 (pid ") && sentence.ends_with("exited with code 3\n"), "{sentence}");
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

#[test]
fn a_rank_that_fails_is_told_of_while_nobody_takes_the_output_and_that_is_not_lost() {
    let script = "if [ $PMI_RANK = 1 ]; then seq 1 8000; exit 3; fi; seq 1 100000; exec sleep 1000";
    let (mut child, out) = untaken(script);
    let lines: Vec<_> = out.lines().map(Result::unwrap).filter(|line| line.starts_with("[1] ")).collect();
    assert!(lines.iter().map(|line| &line[4..]).eq((1..=8000).map(|line| line.to_string())));
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn interrupts_end_a_job_whose_output_nobody_takes_and_one_does_after_a_while() {
    for again in [true, false] {
        let (mut child, out) = untaken("if [ $PMI_RANK = 1 ]; then exit 3; fi; seq 1 100000");
        signal(&child, Signal::INT);
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(50));
            if again {
                signal(&child, Signal::INT);
            }
        }
        assert_eq!(child.wait().unwrap().code(), Some(3));
        drop(out);
    }
}

#[test]
fn both_streams_into_one_pipe_keep_their_lines_whole() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = launcher(&["-n", "2", "--label"], &["sh", "-c", "seq 1 30000 >&2 & seq 1 30000; wait"])
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    let lines: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 4 * 30_000);
    let whole = |line: &String| {
        let number = line.strip_prefix("[0] ").or(line.strip_prefix("[1] "));
        number.is_some_and(|number| number.parse().is_ok_and(|number: u32| (1..=30_000).contains(&number)))
    };
    assert_eq!(lines.iter().find(|line| !whole(line)), None);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_last_line_is_not_lost_where_something_keeps_the_output_open() {
    let output = run(&["-n", "1", "--label"], "setsid sleep 1000 & printf last");
    assert_eq!((code(&output), out(&output).as_str()), (0, "[0] last\n"));
}

#[test]
fn a_terminal_that_hangs_up_ends_what_ranks_have_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!("sleep 1000 & echo $! >> {}; wait", file.display());
    let mut child = launcher(&["-n", "2"], &["sh", "-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
    let pids = numbers(&file, 2);
    signal(&child, Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 1));
    assert_all_gone(&pids);
}

#[test]
fn rank_zero_reads_the_input_and_the_others_none() {
    let mut child = launcher(&["-n", "2", "--label"], &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"words\n").unwrap();
    assert_eq!(out(&child.wait_with_output().unwrap()), "[0] words\n");
}

#[test]
fn of_many_ranks_one_says_all_about_arguments_and_the_others_what_is_wrong() {
    let said = |rank: &str, arguments: &[&str]| {
        let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
        circulant.args(arguments).env_remove("CIRCULANT_BOOT").env_remove("CIRCULANT_RENDEZVOUS");
        circulant.envs([("PMI_FD", "99"), ("PMI_RANK", rank), ("PMI_SIZE", "3")]).output().unwrap()
    };
    let unexpected = "error: unexpected argument '--nonsense' found\n";
    let missing = "error: the following required arguments were not provided:\n  <RANGE>\n";
    let no_subcommand = "error: a subcommand is missing\n";
    for (arguments, wrong) in [
        (&["bench", "barrier", "--nonsense"][..], unexpected),
        (&["check"], missing),
        (&[], no_subcommand),
        (&["bench"], no_subcommand),
    ] {
        let [first, other] = ["0", "2"].map(|rank| said(rank, arguments));
        assert_eq!((code(&first), code(&other)), (2, 2));
        let all = err(&first);
        assert!(all.contains("Usage:") && (all.starts_with(wrong) || wrong == no_subcommand), "{all}");
        assert_eq!(err(&other), format!("rank 2: {wrong}"));
    }
    for rank in ["0", "2"] {
        let help = said(rank, &["--help"]);
        assert!(code(&help) == 0 && out(&help).contains("Usage:"), "of any process, as it may be alone");
    }
}

#[test]
fn a_nonzero_exit_code_is_passed_on_and_the_rank_is_named() {
    let output = run(&["-n", "3"], "test $PMI_RANK = 1 && exit 7; exec sleep 1000");
    assert_eq!(code(&output), 7);
    let text = err(&output);
    assert!(
        text.starts_with("circulant: rank 1 (pid ") && text.ends_with(") exited with code 7\n"),
        "{text}"
    );
}

#[test]
fn the_others_may_say_their_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!(
        "test $PMI_RANK = 0 && {{ until test -e {0}; do sleep 0.01; done; exit 3; }}
         trap 'echo last words; exit 9' TERM; touch {0}; while :; do sleep 0.01; done",
        ready.display()
    );
    let output = run(&["-n", "2"], &script);
    assert_eq!((code(&output), out(&output).as_str()), (3, "last words\n"));
}

#[test]
fn a_rank_killed_by_a_signal_is_named() {
    let output = run(&["-n", "2"], "test $PMI_RANK = 1 && kill -9 $$; exec sleep 1000");
    assert_eq!(code(&output), 128 + 9);
    let text = err(&output);
    assert!(
        text.starts_with("circulant: rank 1 (pid ") && text.contains("killed by signal 9 (SIGKILL)"),
        "{text}"
    );
}

#[test]
fn of_several_that_have_ended_the_first_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first");
    // The launcher watches over three when it is stopped, so that it sees both ends at once.
    let script = format!(
        "has_ended() {{ test \"$(cut -d' ' -f3 /proc/$1/stat)\" = Z; }}
         case $PMI_RANK in
         0)  until test -s {0} && has_ended $(cat {0}); do sleep 0.01; done
             (until has_ended $$; do sleep 0.01; done; kill -CONT $PPID) & exit 5;;
         1)  exec sleep 1000;;
         2)  until test $(cat /proc/$PPID/fdinfo/* | grep -c ^tfd) = 3; do sleep 0.01; done
             kill -STOP $PPID; echo $$ > {0}; exit 3;;
         esac",
        file.display()
    );
    let output = run(&["-n", "3"], &script);
    assert_eq!(code(&output), 3, "{}", err(&output));
    assert!(err(&output).starts_with("circulant: rank 2 (pid "), "{}", err(&output));
}

#[test]
fn ranks_that_ignore_sigterm_are_ended_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!(
        "test $PMI_RANK = 0 && {{ until test -s {0}; do sleep 0.01; done; exit 5; }}
         trap '' TERM; echo $$ >> {0}; while :; do sleep 1; done",
        file.display()
    );
    let output = run(&["-n", "2"], &script);
    assert_eq!(code(&output), 5);
    assert_all_gone(&numbers(&file, 1));
}

#[test]
fn what_a_rank_has_started_is_ended_with_the_job() {
    let folder = tempfile::tempdir().unwrap();
    for (start, end) in
        [("sleep 1000", "exit 4"), ("setsid sleep 1000", "exit 0"), ("timeout 1000 sleep 1000", "kill -9 $$")]
    {
        let file = folder.path().join(start);
        let script = format!("{start} & echo $! >> '{}'; {end}", file.display());
        run(&["-n", "2"], &script);
        assert_all_gone(&numbers(&file, 2));
    }
}

#[test]
fn what_the_launchers_process_had_started_before_is_not_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("before");
    let script = format!(
        "sleep 1000 & echo $! > '{}'; exec '{}' run -n 2 -- true",
        file.display(),
        env!("CARGO_BIN_EXE_circulant")
    );
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    let before = numbers(&file, 1)[0];
    assert!(is_alive(before));
    kill_process(Pid::from_raw(before).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn an_interrupt_is_passed_on() {
    for (caught, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pids");
        let script = format!(
            "trap 'echo got {name}; exit 0' {name}; echo $$ >> {}; while :; do sleep 0.01; done",
            file.display()
        );
        let child = launcher(&["-n", "2"], &["sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pids = numbers(&file, 2);
        signal(&child, caught);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 128 + caught.as_raw());
        assert_eq!(out(&output), format!("got {name}\n").repeat(2));
        assert_all_gone(&pids);
    }
}

/// Two ranks of a script, once each has left its number in this file.
fn two_ranks(options: &[&str], file: &Path, script: &str) -> (Child, Vec<i32>) {
    let script =
        format!("{}; while :; do sleep 0.01; done", script.replace('@', &file.display().to_string()));
    let mut launcher = launcher(&[&["-n", "2"], options].concat(), &["sh", "-c", &script]);
    // As a shell does that controls jobs: one that nobody could let go on does not stop.
    launcher.process_group(0);
    let child = launcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pids = numbers(file, 2);
    (child, pids)
}

#[test]
fn a_signal_that_is_for_the_ranks_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo $$ >> @";
    let (mut child, _) = two_ranks(&[], &folder.path().join("pids"), script);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    signal(&child, Signal::USR1);
    assert_eq!([lines.next().unwrap(), lines.next().unwrap()], ["one", "one"]);
    signal(&child, Signal::USR2);
    assert_eq!([lines.next().unwrap(), lines.next().unwrap()], ["two", "two"]);
    let output = child.wait_with_output().unwrap();
    // A shell may say what has become of its own child.
    assert!(code(&output) == 0 && !err(&output).contains("circulant"), "{output:?}");
}

/// Waits until a process is in one of these states.
fn wait_for_state(pid: i32, states: &[char]) {
    let start = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat[stat.rfind(')').unwrap() + 2..].starts_with(states) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{stat}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_job_that_is_stopped_stops_with_its_ranks_and_goes_on_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let (child, pids) = two_ranks(&[], &folder.path().join("pids"), "trap 'exit 0' USR1; echo $$ >> @");
    let all: Vec<i32> = pids.into_iter().chain([child.id() as i32]).collect();
    signal(&child, Signal::TSTP);
    all.iter().for_each(|&pid| wait_for_state(pid, &['T']));
    signal(&child, Signal::CONT);
    all.iter().for_each(|&pid| wait_for_state(pid, &['R', 'S']));
    signal(&child, Signal::USR1);
    let output = child.wait_with_output().unwrap();
    // A shell may say what has become of its own child.
    assert!(code(&output) == 0 && !err(&output).contains("circulant"), "{output:?}");
}

#[test]
fn a_job_that_nobody_could_let_go_on_does_not_stop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!("trap 'exit 0' USR1; echo $$ >> {}; while :; do sleep 0.01; done", file.display());
    let launcher = env!("CARGO_BIN_EXE_circulant");
    // Of a session of its own.
    let mut child =
        Command::new("setsid").args([launcher, "run", "-n", "2", "--", "sh", "-c", &script]).spawn().unwrap();
    numbers(&file, 2);
    signal(&child, Signal::TSTP);
    signal(&child, Signal::USR1);
    assert!(child.wait().unwrap().success());
}

#[test]
fn ranks_have_as_long_to_end_as_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    for (grace, saves) in [("60", true), ("0", false)] {
        let script = "trap 'sleep 3; echo saved; exit 0' TERM; echo $$ >> @";
        let (child, pids) = two_ranks(&["--grace", grace], &folder.path().join(grace), script);
        signal(&child, Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(out(&output), if saves { "saved\n".repeat(2) } else { String::new() });
        assert_all_gone(&pids);
    }
}

#[test]
fn orphans_that_have_ended_are_no_processes_any_more() {
    let script = "(true & echo $! > /dev/fd/3) 3>&1 | { read orphan; i=0
                  while test -d /proc/$orphan; do sleep 0.05; i=$((i + 1)); test $i -lt 1000 || exit 9; done; }";
    assert_eq!(code(&run(&["-n", "2"], script)), 0);
}

#[test]
fn labelled_output_that_cannot_be_written_is_a_failure() {
    for script in ["echo one", "while :; do echo one; done"] {
        let mut launcher = launcher(&["-n", "2", "--label"], &["sh", "-c", script]);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = launcher.stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), 1);
        assert!(err(&output).contains("cannot be written: No space left"), "{}", err(&output));
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_no_rank() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!("echo $$ >> {}; exec sleep 1000", file.display());
    let mut child = launcher(&["-n", "3"], &["sh", "-c", &script]).spawn().unwrap();
    let pids = numbers(&file, 3);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_all_gone(&pids);
}

#[test]
fn a_missing_command_is_one_clear_error() {
    let output = launcher(&["-n", "4"], &["/no/such/command"]).output().unwrap();
    assert_eq!(code(&output), 127);
    assert_eq!(
        err(&output),
        "circulant: cannot start '/no/such/command': No such file or directory (os error 2)\n"
    );
    let output = launcher(&["-n", "4"], &["/etc/passwd"]).output().unwrap();
    assert_eq!((code(&output), err(&output).lines().count()), (126, 1));
}

#[test]
fn impossible_numbers_are_refused() {
    for (options, part) in
        [(&["-n", "0"][..], "0 ranks"), (&["-n", "2", "--nodes", "3"], "3 nodes for 2 ranks")]
    {
        let output = run(options, "echo started");
        assert_ne!(code(&output), 0);
        assert!(err(&output).contains(part) && out(&output).is_empty(), "{}", err(&output));
    }
}

/// What a rank of the tests below does. As a test of its own it is a single process.
#[test]
#[ignore = "a rank that other tests start"]
fn a_rank() {
    let mut boot = circulant::boot::detect().unwrap();
    let place = boot.place();
    if std::env::var("LEAVES_BEFORE").ok() == Some(place.rank.to_string()) {
        std::process::exit(0);
    }
    for round in 0..3 {
        let card =
            |rank: u32| format!("round {round} rank {rank} ").repeat(rank as usize % 5 * 40).into_bytes();
        let all = boot.allgather(&card(place.rank)).unwrap();
        assert!(all == (0..place.size).map(card).collect::<Vec<_>>());
    }
    println!("{} of {} by {}", place.rank, place.size, boot.name().split(' ').next().unwrap());
    if std::env::var("LEAVES_AFTER").ok() == Some(place.rank.to_string()) {
        std::process::exit(0);
    }
    boot.finish().unwrap();
}

fn run_ranks(options: &[&str], variable: Option<(&str, &str)>) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut launcher =
        launcher(options, &[this.to_str().unwrap(), "--exact", "a_rank", "--ignored", "--nocapture"]);
    launcher.envs(variable).output().unwrap()
}

#[test]
fn ranks_find_each_other_through_the_launcher() {
    for size in [1, 2, 5, 33] {
        let output = run_ranks(&["-n", &size.to_string()], None);
        assert_eq!(code(&output), 0, "{}", err(&output));
        // One alone has nobody to find.
        let how = if size == 1 { "a" } else { "PMI-1" };
        for rank in 0..size {
            assert!(out(&output).contains(&format!("{rank} of {size} by {how}")), "{}", out(&output));
        }
    }
}

#[test]
fn programs_one_after_the_other_in_the_shells_of_ranks_each_find_each_other() {
    let this = std::env::current_exe().unwrap();
    let program = format!("'{}' --exact a_rank --ignored --nocapture", this.display());
    let output = run(&["-n", "5"], &format!("{program} && {program} && {program}"));
    assert_eq!(code(&output), 0, "{}", err(&output));
    for rank in 0..5 {
        assert_eq!(out(&output).matches(&format!("{rank} of 5 by PMI-1")).count(), 3, "{}", out(&output));
    }
}

#[test]
fn a_rank_that_leaves_before_the_barrier_is_named() {
    let output = run_ranks(&["-n", "3"], Some(("LEAVES_BEFORE", "1")));
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("circulant: rank 1 (pid "), "{}", err(&output));
}

#[test]
fn a_rank_that_leaves_without_finalize_is_named() {
    let output = run_ranks(&["-n", "3"], Some(("LEAVES_AFTER", "2")));
    assert_eq!(code(&output), 1);
    assert!(
        err(&output).contains("exited with code 0, but joined PMI and did not finalize"),
        "{}",
        err(&output)
    );
}

/// Starts a shell whose rank 1 sends this to its PMI socket while the others wait.
fn when_rank_1_says(line: &str) -> Output {
    let script = format!("test $PMI_RANK = 1 && echo '{line}' >&$PMI_FD; exec sleep 1000");
    // Not every sh writes to a number of two digits.
    launcher(&["-n", "2"], &["bash", "-c", &script]).output().unwrap()
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let output = when_rank_1_says("cmd=abort exitcode=6 message=no more luck");
    assert_eq!(code(&output), 6);
    assert!(err(&output).contains(") called abort with code 6: no more luck\n"), "{}", err(&output));
}

#[test]
fn nonsense_on_the_pmi_socket_is_quoted_and_ends_the_job() {
    let output = when_rank_1_says("what is this");
    assert_eq!(code(&output), 1);
    let text = err(&output);
    assert!(
        text.contains("rank 1 (pid ") && text.contains("a line without a command: 'what is this'"),
        "{text}"
    );
}

#[test]
fn the_first_line_of_output_comes_while_the_job_runs() {
    let mut child = launcher(&["-n", "1", "--label"], &["sh", "-c", "echo first; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "[0] first\n");
    signal(&child, Signal::TERM);
    child.wait().unwrap();
}
