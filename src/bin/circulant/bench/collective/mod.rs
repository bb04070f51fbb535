//! `circulant bench COLLECTIVE`: one loop for every collective, algorithm, kind and tense.
//!
//! It knows a collective only as a [`Subject`]: what goes in where, and what must come out.

mod caller;
mod check;
mod overlap;
mod report;
mod subject;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use circulant::algorithm::groups::Groups;
use circulant::algorithm::{self, Entry, Nesting};
use circulant::boot::launcher::MOST;
use circulant::collective::Collective;
use circulant::comm::settings::Settings;
use circulant::comm::{Call, Choice, Communicator};
use circulant::engine::notice::MAX_BLOCKS;
use circulant::error::{Error, Result};
use circulant::locality::layout::Domains;
use circulant::rank::{Place, Rank};
use circulant::transport::room;

use super::World;
use super::agreement::agreed;
use super::rows::{self, Format, Row};
use super::sizes::Sizes;
use super::timing::Timing;
use crate::fit::{self, counted};
use crate::{Failure, Outcome};
use caller::{Caller, Memory, Tense};
use overlap::{NOTHING, Overlap};
use report::{Cell, Report};
use subject::{Kind, Subject};

/// What errors in arguments begin with.
const CALL: &str = "bench";

/// What stands in place of an algorithm's name for all of them.
const ALL: &str = "all";

/// What is measured unless something else is asked for.
const SIZES: Sizes = Sizes::new(4, 4 << 20);
const FACTOR: u32 = 4;
/// Counts that are looked at before ranks start, of all ranks' data together: those of a million take a moment.
const LOOKS: usize = 1 << 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    world: World,

    /// Sizes in bytes, from MIN to MAX (K, M, G for powers of 1024); one number: that size only [default: 4:4M]
    #[arg(short = 'm', long, value_name = "MIN:MAX")]
    sizes: Option<Sizes>,

    /// Each size is this many times the one before [default: 4]
    #[arg(short = 'x', long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(2..))]
    factor: Option<u32>,

    /// How a total is divided, for allgatherv and reduce_scatter [default: regular]
    #[arg(long, value_enum)]
    kind: Option<Kind>,

    /// The algorithm by its name in `circulant plan --list`, or `all`: a column for each
    /// [default: the library's choice]
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,

    /// Go by the domains of nodes, by default too: numa, cache, or so many pretended ones, runs of a node's ranks
    /// [default: only where the algorithm says so, by what hwloc knows]
    #[arg(long, value_name = "DOMAINS", value_parser = domains)]
    domains: Option<Domains>,

    /// How many leaders a node has, for broadcast, reduce and allreduce [default: 1]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..))]
    leaders: Option<u32>,

    /// The number of blocks, for algorithms that take several [default: from size, ranks and what a put costs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BLOCKS)))]
    blocks: Option<u32>,

    /// The rank that sends or receives, for broadcast, reduce, scatter and gather [default: 0]
    #[arg(long, value_name = "RANK")]
    root: Option<Rank>,

    /// The form of the call, and with it the memory
    #[arg(long, value_enum, default_value_t = Tense::Slice)]
    tense: Tense,

    /// Aim at this many seconds a measurement (5 to 10000 iterations), after a warm-up of as long, some 0.1 s at most, but two calls at least
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 0.5, allow_negative_numbers = true, value_parser = super::duration)]
    seconds: f64,

    /// Start each call by the clock, so many seconds after the barrier: links have rested, and no rank starts as early as
    /// it leaves the barrier; only for ranks of one machine, as on an emulated cluster
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = super::rest)]
    rest: Option<Duration>,

    /// Time what a program does around a call, too: each rank writes its input anew before it and reads what has come out
    /// after it. Without, inputs stay as they are, which some ways between caches gain by
    #[arg(long)]
    fresh: bool,

    /// Compute between the start of a call and the wait for it, for about as long as it takes: how much of the shorter of
    /// the two is saved; with --tense started or prepared
    #[arg(long)]
    overlap: bool,

    /// After the timed loop, verify every element on every rank, with new data in each of three iterations
    #[arg(long)]
    check: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Osu)]
    format: Format,
}

/// What stands below the options in a collective's help.
pub fn after_help(collective: Collective) -> String {
    let name = collective.name();
    let mut examples = vec![
        ("-n 8", "eight ranks on this machine"),
        ("-n 8 -m 1K:4M -x 2 --check", "every element verified"),
        ("-n 8 --algorithm all -t 0.1", "all in one table"),
        ("-n 8 --tense kept", "keeping the input, as MPI does"),
        ("-n 2 --tense started --overlap", "beside a computation"),
    ];
    if collective.has_counts() {
        examples.insert(2, ("-n 9 --kind all", "equal, unequal, all at one"));
    }
    if collective == Collective::Barrier {
        examples.truncate(1);
    }
    let mut text = "Examples:\n".to_owned();
    for (options, what) in examples {
        let command = format!("circulant bench {name} {options}");
        text += &format!("  {command:<58} {what}\n");
    }
    let command = format!("mpiexec -n 16 circulant bench {name} --format csv");
    text += &format!("  {command:<58} any launcher with PMI-1\n\n");
    text + &format!(
        "Algorithms: {}\n\n\
         Elements are i32, sums wrap around. An iteration is: barrier, start, call, stop; its time is the\n\
         largest over the ranks, and a row gives least, median and largest over the iterations. The bytes of\n\
         a row are those that are really moved, a whole number of elements (and of parts, where they are\n\
         equal).",
        fit::names(collective, |_| true)
    )
}

/// What nodes are divided by, as users write it.
fn domains(text: &str) -> std::result::Result<Domains, String> {
    Domains::named(text)
        .ok_or_else(|| format!("'{text}' is no kind of domain; write numa, cache or a number"))
}

/// What errors in the arguments of a collective begin with.
fn call(collective: Collective) -> String {
    format!("{CALL} {}", collective.name())
}

/// The first of some options that is given.
fn given<const N: usize>(options: [(&'static str, bool); N]) -> Option<&'static str> {
    options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

impl Arguments {
    pub fn run(self, collective: Collective) -> Outcome {
        self.check_fit(collective)?;
        self.check_start(collective)?;
        if let Some(code) = self.world.start()? {
            return Ok(code);
        }
        let comm = Communicator::world_with(&self.settings()?)?;
        agreed(&comm, self.check_world(&comm, collective))?;
        self.measure_all(&comm, collective)?;
        Ok(ExitCode::SUCCESS)
    }

    fn settings(&self) -> Result<Settings> {
        let settings = self.world.settings()?;
        let (domains, leaders) = (self.domains.or(settings.domains), self.leaders.or(settings.leaders));
        Ok(Settings { domains, leaders, ..settings })
    }

    /// Options that the collective, or another option, has no use for.
    fn check_fit(&self, collective: Collective) -> Result<()> {
        let call = call(collective);
        let refused = |what: &str, why: &str| {
            Err(Error::argument(&*call, format!("{what}: {why}"), format!("leave {what} out")))
        };
        if self.kind.is_some() && !collective.has_counts() {
            return refused("--kind", "only allgatherv and reduce_scatter have parts of unequal sizes");
        }
        fit::check_root(&call, collective, self.root)?;
        let by_hand = [("--algorithm", self.algorithm.is_some()), ("--blocks", self.blocks.is_some())];
        if let (Tense::Kept, Some(option)) = (self.tense, given(by_hand)) {
            return refused(option, "a call that keeps its input takes the library's choice");
        }
        let in_background = matches!(self.tense, Tense::Started | Tense::Prepared);
        if self.overlap && !in_background {
            let what = format!("--overlap with --tense {}", self.tense.name());
            return Err(Error::argument(&*call, what, "take --tense started or prepared"));
        }
        let beside = [("--fresh", self.fresh), ("--algorithm all", self.compares())];
        if let (true, Some(option)) = (self.overlap, given(beside)) {
            return refused(option, "--overlap has columns and times of its own");
        }
        if self.domains.is_some() {
            fit::check_use(&call, collective, None, &fit::DOMAINS)?;
        }
        if self.leaders.is_some() {
            fit::check_use(&call, collective, None, &fit::LEADERS)?;
        }
        let of_data = [
            ("-m", self.sizes.is_some()),
            ("-x", self.factor.is_some()),
            ("--tense", self.tense != Tense::Slice),
            ("--overlap", self.overlap),
            ("--fresh", self.fresh),
            ("--blocks", self.blocks.is_some()),
        ];
        if let (Collective::Barrier, Some(option)) = (collective, given(of_data)) {
            return refused(option, "a barrier moves no data");
        }
        let entry = match self.algorithm.as_deref() {
            Some(name) if name != ALL => Some(fit::named(&call, collective, name, &format!(", or `{ALL}`"))?),
            _ => None,
        };
        if self.blocks > Some(1) {
            fit::check_use(&call, collective, entry, &fit::BLOCKS)?;
        }
        Ok(())
    }

    /// What ranks that are to be started here cannot do: said once, before they start, rather than by each.
    fn check_start(&self, collective: Collective) -> Result<()> {
        // A job of none, or of more than there can be, is the launcher's to refuse.
        let Some(ranks) = self.world.ranks.filter(|ranks| (1..=MOST).contains(ranks)) else { return Ok(()) };
        self.check_ranks(collective, ranks)?;
        let nodes = self.world.nodes.unwrap_or(1);
        let known = (1..=ranks).contains(&nodes);
        // Domains are known to ranks that have met.
        let entry = self.entry(collective).filter(|entry| known && entry.nesting != Nesting::Domains);
        if let Some(entry) = entry {
            fit::check_groups(&call(collective), entry, &Groups::runs(ranks, nodes), 1)?;
        }
        self.check_room(collective, ranks, &(0..ranks).collect::<Vec<_>>())
    }

    /// What ranks that have met cannot do.
    fn check_world(&self, comm: &Communicator, collective: Collective) -> Result<()> {
        self.check_ranks(collective, comm.size())?;
        if self.check && collective == Collective::Barrier && comm.about().nodes > 1 {
            let what = "--check of a barrier over several nodes, which have no clock in common";
            return Err(Error::argument(call(collective), what, "leave it out"));
        }
        if let Some(layout) = comm.layout() {
            self.check_room(collective, comm.size(), layout.ranks_of(layout.node(comm.rank())))?;
        }
        match self.subjects(comm, collective, self.kinds()[0]).first() {
            Some(subject) if !self.compares() => {
                self.choice(comm, subject, self.algorithm.as_deref()).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    fn check_ranks(&self, collective: Collective, p: u32) -> Result<()> {
        fit::check_ranks(&call(collective), self.entry(collective), self.root(), p)
    }

    /// Whether there is memory for these ranks of so many, which are on one node: the kernel gives each as much as it asks
    /// for, and ends somebody when they use it.
    fn check_room(&self, collective: Collective, size: u32, neighbours: &[Rank]) -> Result<()> {
        let (Some(room), Some(&most)) = (room::left(), self.totals().last()) else { return Ok(()) };
        let of_kind = |kind, rank| {
            let subject = Subject::new(collective, kind, Place { rank, size }, self.root(), most);
            Memory::bytes(self.tense, &subject)
        };
        let of_rank = |rank| self.kinds().into_iter().map(|kind| of_kind(kind, rank)).max().unwrap_or(0);
        // Each rank's data take a look at all counts: of many ranks some are looked at.
        let some = neighbours.iter().take((LOOKS / size as usize).max(1));
        let bytes = some.fold(0_u64, |bytes, &rank| bytes.saturating_add(of_rank(rank)));
        if bytes <= room.bytes {
            return Ok(());
        }
        let what = format!(
            "{} has {} bytes left, and the data of {} on this node are {bytes} or more",
            room.of,
            room.bytes,
            counted(neighbours.len() as u32, "rank")
        );
        Err(Error::argument(call(collective), what, room.of.cure()))
    }

    fn kinds(&self) -> Vec<Kind> {
        self.kind.unwrap_or(Kind::Regular).each()
    }

    /// Every size that was asked for, as it was written.
    fn totals(&self) -> Vec<usize> {
        self.sizes.unwrap_or(SIZES).each(self.factor.unwrap_or(FACTOR) as usize)
    }

    /// The one algorithm that was asked for.
    fn entry(&self, collective: Collective) -> Option<&'static Entry> {
        self.algorithm.as_ref().and_then(|name| algorithm::named(collective, name))
    }

    fn root(&self) -> Rank {
        self.root.unwrap_or(0)
    }

    fn compares(&self) -> bool {
        self.algorithm.as_deref() == Some(ALL)
    }

    /// Every kind, size and algorithm that was asked for; rank 0 reports.
    fn measure_all(&self, comm: &Communicator, collective: Collective) -> std::result::Result<(), Failure> {
        let algorithms = self.algorithms(comm, collective);
        let columns = self.compares().then(|| algorithms.iter().flatten().map(String::as_str).collect());
        let mut report = (comm.rank() == 0).then(|| Report::new(self.format, columns, self.overlap));
        let subjects: Vec<_> =
            self.kinds().into_iter().map(|kind| self.subjects(comm, collective, kind)).collect();
        let mut written = Ok(());
        if let Some(report) = &mut report {
            let sizes: usize = subjects.iter().map(Vec::len).sum();
            written = report.head(comm, collective, sizes * algorithms.len());
        }
        for subjects in &subjects {
            if !goes_on(comm, report.as_ref(), &written)? {
                return Ok(written?);
            }
            written = self.measure_kind(comm, subjects, &algorithms, report.as_mut())?;
        }
        written?;
        match report.filter(|_| self.check) {
            Some(report) => Ok(report.verified(comm, collective)?),
            None => Ok(()),
        }
    }

    /// Names of algorithms; `None` is the library's choice.
    fn algorithms(&self, comm: &Communicator, collective: Collective) -> Vec<Option<String>> {
        if !self.compares() {
            return vec![self.algorithm.clone()];
        }
        comm.algorithms(collective).map(|entry| Some(entry.name.to_owned())).collect()
    }

    /// One for each size; sizes that come to the same number of elements are one.
    fn subjects(&self, comm: &Communicator, collective: Collective, kind: Kind) -> Vec<Subject> {
        let place = Place { rank: comm.rank(), size: comm.size() };
        let subject = |bytes| Subject::new(collective, kind, place, self.root(), bytes);
        let mut subjects: Vec<_> = self.totals().into_iter().map(subject).collect();
        subjects.dedup_by_key(|subject| subject.bytes());
        subjects
    }

    fn measure_kind(
        &self,
        comm: &Communicator,
        subjects: &[Subject],
        algorithms: &[Option<String>],
        mut report: Option<&mut Report>,
    ) -> std::result::Result<io::Result<()>, Failure> {
        let mut written = Ok(());
        if let (Some(report), Some(first)) = (&report, subjects.first()) {
            written = report.open(first);
        }
        for subject in subjects {
            let mut cells = Vec::with_capacity(algorithms.len());
            for algorithm in algorithms {
                if let Some(report) = &report {
                    report.progress(subject, algorithm.as_deref());
                }
                cells.push(self.cell(comm, subject, algorithm.as_deref())?);
            }
            if let Some(report) = &mut report {
                written = written.and(report.row(subject, self.own_choice(comm, subject), cells));
            }
            if !goes_on(comm, report.as_deref(), &written)? {
                return Ok(written);
            }
        }
        Ok(written.and(report.map_or(Ok(()), Report::close)))
    }

    /// One measurement. Where algorithms are compared, one that does not serve this call, about which all
    /// ranks agree, is no error.
    fn cell(
        &self,
        comm: &Communicator,
        subject: &Subject,
        algorithm: Option<&str>,
    ) -> std::result::Result<Cell, Failure> {
        match self.choice(comm, subject, algorithm) {
            Err(Error::Argument { what, .. }) if self.compares() => Ok(Cell::Refused(what)),
            choice => {
                let choice = agreed(comm, choice)?;
                self.measure(comm, subject, algorithm, choice).map(Cell::Measured)
            }
        }
    }

    fn measure(
        &self,
        comm: &Communicator,
        subject: &Subject,
        algorithm: Option<&str>,
        choice: Choice,
    ) -> std::result::Result<Row, Failure> {
        let memory = agreed(comm, Memory::new(comm, self.tense, subject))?;
        let mut caller = match subject.call() {
            Some(call) => Caller::new(comm, self.tense, memory, self.arranged(call, algorithm))?,
            None => Caller::Barrier(choice.algorithm),
        };
        let timing = Timing { seconds: self.seconds, rest: self.rest.unwrap_or_default() };
        let mut value = 0_i32;
        // What is to be compared is started and waited for, too.
        let nothing = self.overlap.then_some(NOTHING);
        let times = timing.iterate(comm, &mut || {
            if !self.fresh {
                return caller.call(comm, subject, nothing);
            }
            value = value.wrapping_add(1);
            caller.renew(subject, value)?;
            caller.call(comm, subject, nothing)?;
            caller.look(subject)
        })?;
        let (times, overlap) = match self.overlap {
            true => overlap::measure(comm, timing, times, &mut |meanwhile| {
                caller.call(comm, subject, Some(meanwhile))
            })?,
            false => (times, None),
        };
        if self.check {
            check::check(comm, subject, &mut caller)?;
        }
        let (min_us, median_us, max_us) = rows::summary(times);
        let collective = subject.collective;
        let kind = if collective.has_counts() { subject.kind.name() } else { "-" };
        Ok(Row {
            library: "circulant",
            collective: collective.name(),
            kind,
            algorithm: choice.algorithm,
            ranks: comm.size(),
            nodes: comm.about().nodes,
            bytes: subject.bytes(),
            blocks: choice.blocks,
            min_us,
            median_us,
            max_us,
            tense: if collective == Collective::Barrier { "-".into() } else { self.tense.name() },
            root: collective.has_root().then_some(subject.root),
            rest_s: self.rest.unwrap_or_default().as_secs_f64(),
            fresh: self.fresh,
            transport: comm.transport(),
            call_us: overlap.map(|overlap| overlap.call_us),
            compute_us: overlap.map(|overlap| overlap.compute_us),
            overlap_percent: overlap.map(Overlap::percent),
        })
    }

    /// What a call comes to in its tense.
    fn choice(&self, comm: &Communicator, subject: &Subject, algorithm: Option<&str>) -> Result<Choice> {
        let Some(call) = subject.call() else { return comm.barrier_choice(algorithm) };
        let call = &self.arranged(call, algorithm);
        match self.tense {
            Tense::Started | Tense::Prepared => comm.choice_in_background(call, subject.len()),
            // Counts are of the whole, and of parts the library's own affair.
            Tense::Kept if !subject.collective.has_counts() => comm.choice_by_name(call, subject.len()),
            _ => comm.choice(call, subject.len()),
        }
    }

    /// The library's own.
    fn own_choice(&self, comm: &Communicator, subject: &Subject) -> Option<&'static str> {
        self.choice(comm, subject, None).ok().map(|choice| choice.algorithm)
    }

    /// The call with the algorithm and the blocks that were asked for.
    fn arranged(&self, mut call: Call<i32>, algorithm: Option<&str>) -> Call<i32> {
        if let Some(name) = algorithm {
            call = call.algorithm(name);
        }
        if let Some(blocks) = self.blocks {
            call = call.blocks(blocks);
        }
        call
    }
}

/// Whether rank 0 could tell all so far, and still has a reader: the others hear it, so that all end together.
fn goes_on(comm: &Communicator, report: Option<&Report>, written: &io::Result<()>) -> Result<bool> {
    let mut goes_on = [u8::from(written.is_ok() && report.is_none_or(Report::is_read))];
    comm.run(&mut goes_on, Call::broadcast(0))?;
    Ok(goes_on == [1])
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        bench: Arguments,
    }

    fn said(collective: Collective, p: u32, options: &str) -> String {
        let words = std::iter::once("bench").chain(options.split_whitespace());
        let bench = Program::try_parse_from(words).unwrap().bench;
        let done = bench.check_fit(collective).and_then(|()| bench.check_ranks(collective, p));
        done.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn options_that_have_no_use_are_refused_in_a_sentence() {
        use Collective::*;
        assert!(said(Reduce, 4, "--kind regular").contains("only allgatherv and reduce_scatter"));
        assert!(said(Allreduce, 4, "--root 0").contains("allreduce has no root; leave --root out"));
        assert!(said(Gather, 4, "--tense kept --blocks 2").contains("takes the library's choice"));
        assert!(
            said(Reduce, 4, "--algorithm mst --blocks 2").contains("reduce by mst takes no number of blocks")
        );
        for option in ["--tense window", "--blocks 2", "-m 8", "-x 2"] {
            let (first, _) = option.split_once(' ').unwrap();
            assert!(said(Barrier, 4, option).contains(&format!("{first}: a barrier moves no data")));
        }
        assert!(said(Alltoall, 4, "--domains 2").contains("alltoall knows no domains"));
        assert!(said(Allgather, 4, "--leaders 2").contains("allgather takes no number of leaders"));
        assert_eq!(said(Allreduce, 4, "--domains numa --leaders 2"), "");
        assert!(said(Allreduce, 4, "--overlap").contains("take --tense started or prepared"));
        assert!(
            said(Allreduce, 4, "--tense started --overlap --fresh")
                .contains("--fresh: --overlap has columns and times of its own")
        );
        assert_eq!(said(Allreduce, 4, "--tense prepared --overlap --blocks 3"), "");
        for fine in
            ["--kind all --algorithm ring", "--kind degenerate", "--tense kept", "--algorithm all --blocks 2"]
        {
            assert_eq!(said(Allgatherv, 4, fine), "");
        }
    }

    #[test]
    fn an_unknown_algorithm_is_answered_with_those_there_are() {
        let said = said(Collective::Scatter, 4, "--algorithm ring");
        assert!(
            said.contains("no algorithm `ring` for scatter; there are: mst, linear, leader, or `all`"),
            "{said}"
        );
    }

    #[test]
    fn what_does_not_fit_the_ranks_is_named() {
        assert!(said(Collective::Gather, 4, "--root 4").contains("root 4 of 4 ranks"));
        let hypercube = "--algorithm hypercube";
        assert!(said(Collective::Allgather, 6, hypercube).contains("p is a power of two"));
        assert_eq!(said(Collective::Allgather, 8, hypercube), "");
    }

    #[test]
    fn sizes_that_come_to_the_same_are_measured_once() {
        let bench = Program::try_parse_from(["bench", "-m", "1:64"]).unwrap().bench;
        let comm = &Communicator::loopback(1, 0).unwrap()[0];
        let bytes = |collective| -> Vec<_> {
            let subjects = bench.subjects(comm, collective, Kind::Regular);
            subjects.iter().map(Subject::bytes).collect()
        };
        assert_eq!(bytes(Collective::Reduce), [4, 16, 64]);
        assert_eq!(bytes(Collective::Barrier), [0]);
    }

    #[test]
    fn options_are_well_formed() {
        Program::command().debug_assert();
    }
}
