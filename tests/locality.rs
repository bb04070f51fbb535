//! Where ranks run: what the program draws, how the launcher binds, and what ranks know of each other.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use circulant::comm::meeting::Meeting;
use circulant::comm::settings::Settings;
use rustix::thread::{CpuSet, sched_getaffinity};

fn program(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_circulant"));
    program.args(arguments).stdin(Stdio::null());
    program
}

/// What it prints, without an error.
fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Where this thread, and what it starts, may run.
fn own_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The CPUs that each rank may use, by the kernel's word, and what the launcher says of it.
fn ranks_cpus(ranks: usize, to: &str) -> (Vec<BTreeSet<usize>>, String) {
    let script = "echo $PMI_RANK $(sed -n 's/^Cpus_allowed_list://p' /proc/self/status)";
    let arguments = ["run", "-n", &ranks.to_string(), "--bind", to, "--", "sh", "-c", script];
    let output = program(&arguments).output().unwrap();
    let mut cpus = vec![BTreeSet::new(); ranks];
    for line in out(&output).lines() {
        let (rank, list) = line.split_once(' ').unwrap();
        cpus[rank.parse::<usize>().unwrap()] = list.trim().split(',').flat_map(range).collect();
    }
    (cpus, err(&output))
}

fn range(text: &str) -> std::ops::RangeInclusive<usize> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    first.parse().unwrap()..=last.parse().unwrap()
}

#[test]
#[cfg(not(feature = "hwloc"))]
fn without_hwloc_nothing_is_known_and_nothing_bound() {
    let text = out(&program(&["info"]).output().unwrap());
    assert!(text.contains("unknown: this program was built without hwloc"), "{text}");
    let (cpus, words) = ranks_cpus(2, "core");
    assert!(cpus.iter().all(|cpus| cpus.iter().copied().eq(own_cpus())));
    assert_eq!(words, "circulant: ranks not bound: this program was built without hwloc\n");
}

#[test]
fn ranks_are_not_bound_unasked() {
    let (cpus, words) = ranks_cpus(2, "none");
    assert!(cpus.iter().all(|cpus| cpus.iter().copied().eq(own_cpus())));
    assert_eq!(words, "");
}

/// What a rank of the tests below does. As a test of its own it is a single process.
#[test]
#[ignore = "a rank that other tests start"]
fn a_rank() {
    let meeting = Meeting::attend(&Settings::default()).unwrap();
    let (layout, size) = (meeting.layout(), meeting.place().size);
    let nodes: Vec<_> = (0..layout.nodes()).map(|node| layout.ranks_of(node)).collect();
    let cpus: Vec<_> = (0..size).map(|rank| layout.seat(rank).cpus.unwrap()).collect();
    println!("nodes {nodes:?} cpus {cpus:?} crowd {}", meeting.ranks_per_core());
    meeting.into_exchange().finish().unwrap();
}

/// What each rank of a job says of all.
fn meet(options: &[&str]) -> Vec<String> {
    let this = std::env::current_exe().unwrap();
    let rank = ["--", this.to_str().unwrap(), "--exact", "a_rank", "--ignored", "--nocapture"];
    let output = program(&[&["run"], options, &rank].concat()).output().unwrap();
    let text = out(&output);
    text.lines().filter_map(|line| line.find("nodes [").map(|start| line[start..].to_owned())).collect()
}

#[test]
fn ranks_know_who_is_on_which_node() {
    for (options, ranks, nodes) in [
        (&["-n", "5", "--nodes", "2"][..], 5, "nodes [[0, 1, 2], [3, 4]] "),
        (&["-n", "3"], 3, "nodes [[0, 1, 2]] "),
    ] {
        let words = meet(options);
        assert_eq!(words.len(), ranks);
        assert!(words.iter().all(|words| words.starts_with(nodes)), "{words:?}");
    }
}

/// What there is only where hwloc knows the machine.
#[cfg(feature = "hwloc")]
mod with_hwloc {
    use std::ffi::OsStr;
    use std::io::Write;
    use std::path::Path;
    use std::thread;

    use rustix::thread::sched_setaffinity;
    use tempfile::NamedTempFile;

    use super::*;

    /// What `info` draws of a machine that hwloc is told of.
    fn drawing(description: &str) -> Vec<String> {
        lines_by("HWLOC_SYNTHETIC", description)
    }

    /// The same of one in hwloc's own format.
    fn drawing_of(xml: &str) -> Vec<String> {
        lines_by("HWLOC_XMLFILE", file(xml).path())
    }

    fn file(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn lines_by(variable: &str, value: impl AsRef<OsStr>) -> Vec<String> {
        let output = program(&["info"]).env(variable, value).output().unwrap();
        let text = out(&output);
        let lines = text.lines().skip_while(|line| !line.starts_with("where ranks can run (by hwloc"));
        lines.skip(1).take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_machine_is_drawn_by_what_its_cores_share() {
        assert_eq!(
            drawing("package:2 numa:2(memory=64GiB) l3:2(size=32MiB) core:4 pu:2"),
            [
                "  package  NUMA domain  last-level cache  cores  CPUs",
                "  0        0  64 GiB    L3 0  32 MiB      0-3    0-7",
                "                        L3 1  32 MiB      4-7    8-15",
                "           1  64 GiB    L3 2  32 MiB      8-11   16-23",
                "                        L3 3  32 MiB      12-15  24-31",
                "  1        2  64 GiB    L3 4  32 MiB      16-19  32-39",
                "                        L3 5  32 MiB      20-23  40-47",
                "           3  64 GiB    L3 6  32 MiB      24-27  48-55",
                "                        L3 7  32 MiB      28-31  56-63",
                "  no NIC is known",
            ]
        );
    }

    /// A package with memory, a core and these devices, in hwloc's format.
    fn package(number: u32, devices: &str) -> String {
        let sets = ["cpuset", "complete_cpuset", "nodeset", "complete_nodeset"];
        let sets = sets.map(|name| format!(r#"{name}="{:#x}""#, 1 << number)).join(" ");
        let object = |kind, place: u32, rest: &str| {
            let id = 10 * number + place;
            format!(r#"<object type="{kind}" os_index="{number}" {sets} gp_index="{id}" {rest}"#)
        };
        let memory = object("NUMANode", 12, r#"local_memory="1073741824"/>"#);
        let core = object("Core", 13, &format!(">{}</object>", object("PU", 14, "/>")));
        object("Package", 11, &format!(">{memory}{core}{devices}</object>"))
    }

    /// A bus with a card of this kind (2: Ethernet, 3: InfiniBand).
    fn card(number: u32, name: &str, kind: u32) -> String {
        format!(
            r#"<object type="Bridge" gp_index="{number}0" bridge_type="0-1" depth="0" bridge_pci="000{number}:[00-00]">
            <object type="PCIDev" gp_index="{number}1" pci_busid="000{number}:00:03.0" pci_type="0200 [1af4:1041] [1af4:1041] 01" pci_link_speed="0.0">
            <object type="OSDev" gp_index="{number}2" name="{name}" osdev_type="{kind}"/></object></object>"#
        )
    }

    #[test]
    fn cards_are_drawn_with_what_is_near() {
        let sets = ["cpuset", "complete_cpuset", "allowed_cpuset"].map(|name| format!(r#"{name}="0x3""#));
        let memories = sets.clone().map(|set| set.replace("cpuset", "nodeset"));
        // hwloc's own parser wants these two lines, and each at its line's beginning.
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
        let text = format!(
            r#"{head}<topology version="2.0"><object type="Machine" os_index="0" gp_index="1" {} {}>
            {}{}{}</object></topology>"#,
            sets.join(" "),
            memories.join(" "),
            package(0, ""),
            package(1, &card(5, "mlx5_0", 3)),
            card(6, "eth0", 2)
        );
        assert_eq!(
            drawing_of(&text),
            [
                "  package  NUMA domain  last-level cache  cores  CPUs",
                "  0        0  1 GiB     ?                 0      0",
                "  1        1  1 GiB     ?                 1      1",
                "  NIC mlx5_0  near NUMA domain 1",
                "  NIC eth0    near all cores",
            ]
        );
    }

    #[test]
    fn a_machine_that_hwloc_cannot_tell_is_unknown_and_no_error() {
        let file = file("no machine");
        // hwloc's own reader of XML gives up; a plugin's, where one is installed, goes on with the machine.
        let unknown = [("HWLOC_XMLFILE", file.path()), ("HWLOC_PLUGINS_PATH", Path::new("/nonexistent"))];
        let mut info = program(&["info"]);
        let text = out(&info.envs(unknown).output().unwrap());
        assert!(text.contains("\ntopology   unknown: hwloc: "), "{text}");
        let mut run = program(&["run", "-n", "2", "--bind", "core", "--", "true"]);
        let output = run.envs(unknown).output().unwrap();
        out(&output);
        assert!(err(&output).contains("circulant: ranks not bound: hwloc: "), "{}", err(&output));
    }

    #[test]
    fn caches_of_single_cores_are_drawn_together() {
        assert_eq!(
            drawing("package:2 [numa(memory=1GiB)] core:20 l2:1(size=1MiB) pu:1")[1..3],
            [
                "  0        0  1 GiB     L2 0-19  1 MiB each   0-19   0-19",
                "  1        1  1 GiB     L2 20-39  1 MiB each  20-39  20-39",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_drawn_as_a_question() {
        assert_eq!(
            drawing("[numa(memory=1GiB)] pu:3")[1],
            "  ?        0  1 GiB     ?                 0-2    0-2"
        );
    }

    #[test]
    fn a_rank_is_bound_within_what_the_launcher_may_use() {
        let bound = thread::spawn(|| {
            let last = *own_cpus().last().unwrap();
            let mut only = CpuSet::new();
            only.set(last);
            sched_setaffinity(None, &only).unwrap();
            ["core", "numa"].map(|to| (last, ranks_cpus(1, to)))
        });
        for (cpu, (ranks, words)) in bound.join().unwrap() {
            assert_eq!(ranks, [BTreeSet::from([cpu])]);
            assert!(words.starts_with("circulant: ranks bound to "), "{words}");
            assert!(words.ends_with(&format!(": 0 on CPU {cpu}\n")), "{words}");
        }
    }

    #[test]
    fn ranks_have_cores_of_their_own_or_hear_why_not() {
        let (ranks, words) = ranks_cpus(2, "core");
        let all: BTreeSet<_> = own_cpus().into_iter().collect();
        if words.starts_with("circulant: ranks bound to cores: 0 on CPU") {
            assert!(ranks[0].is_disjoint(&ranks[1]) && ranks.iter().all(|cpus| cpus.is_subset(&all)));
        } else {
            assert!(words.contains("2 ranks are more than there are cores (1)"), "{words}");
        }
    }

    #[test]
    fn more_ranks_than_cores_run_unbound_with_a_sentence() {
        let ranks = own_cpus().len() + 1;
        let (cpus, words) = ranks_cpus(ranks, "core");
        assert!(cpus.iter().all(|cpus| cpus.iter().copied().eq(own_cpus())));
        assert!(
            words.starts_with(&format!("circulant: ranks not bound: {ranks} ranks are more than")),
            "{words}"
        );
    }

    #[test]
    fn nobody_is_bound_to_a_machine_that_is_not_here() {
        let arguments = ["run", "-n", "2", "--bind", "core", "--", "true"];
        let output = program(&arguments).env("HWLOC_SYNTHETIC", "core:8 pu:1").output().unwrap();
        out(&output);
        assert!(err(&output).contains(" was told of another machine\n"), "{}", err(&output));
    }

    #[test]
    fn ranks_with_cores_of_their_own_are_no_crowd() {
        let (cpus, _) = ranks_cpus(2, "core");
        if cpus[0].is_disjoint(&cpus[1]) {
            let said = meet(&["-n", "2", "--bind", "core"]);
            let crowd = format!("] crowd {}", 1.0 / cpus[0].len() as f64);
            let digests =
                said[0].strip_prefix("nodes [[0, 1]] cpus [").and_then(|rest| rest.strip_suffix(&crowd));
            let (one, other) = digests.and_then(|digests| digests.split_once(", ")).unwrap();
            assert!(one != other && said[0] == said[1], "{said:?}");
        }
    }
}
