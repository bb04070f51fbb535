//! From a call to the engine's task: which algorithm, how many blocks, where they lie.

use std::borrow::Cow;
use std::sync::Arc;

use super::Communicator;
use super::call::{Counts, RawCall};
use crate::algorithm::groups::Groups;
use crate::algorithm::stopovers::Stopovers;
use crate::algorithm::{self, Entry, Nesting, Shape};
use crate::collective::{Collective, Numbering};
use crate::digest;
use crate::engine::call::Signature;
use crate::engine::{OwnPart, Source, Task};
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::compose::InStep;
use crate::plan::layout::{HandedOn, Layout, Pairs, Part, Parts, Relay, adjacent};
use crate::plan::partition::Partition;
use crate::rank::Rank;
use crate::select::{Around, Divided, Nodes, Problem, RELAY, SMALL, last_block};

/// What has been decided about a call: all ranks decide alike.
pub(super) struct Decision {
    pub problem: Problem,
    pub entry: &'static Entry,
    pub blocks: u32,
}

/// The memory of a call.
pub(super) struct Ends<'e> {
    pub from: Cow<'e, Source>,
    /// Where it lands, if not there.
    pub to: Option<Cow<'e, Source>>,
    /// Where the parts of pairs lie in them.
    pub places: Places,
}

/// Where parts for each rank, and from each, begin, in elements; `None` where they lie one after the other.
#[derive(Default)]
pub(super) struct Places {
    pub sent: Option<Arc<[usize]>>,
    pub received: Option<Arc<[usize]>>,
}

impl<'e> Ends<'e> {
    pub(super) fn one(memory: Cow<'e, Source>) -> Self {
        Ends { from: memory, to: None, places: Places::default() }
    }
}

impl Communicator {
    /// Which algorithm, and how many blocks, for `elements` elements.
    pub(super) fn decide(&self, call: &RawCall, elements: usize) -> Result<Decision> {
        let problem = self.problem(call, elements);
        let entry = match &call.algorithm {
            Some(name) => self.asked_for(call, &problem, name)?,
            None => self.own_choice(call, &problem).ok_or_else(|| {
                call.bad("no algorithm serves it", "see `circulant plan --list` for what there is")
            })?,
        };
        if call.blocks.is_some_and(|blocks| blocks > 1) && !entry.pipelined {
            let what = format!("{} blocks, where {} takes one", call.blocks.unwrap_or(1), entry.name);
            return Err(call.bad(what, "name an algorithm that takes several"));
        }
        let most = problem.most_blocks();
        if let Some(blocks) = call.blocks.filter(|&blocks| blocks > most) {
            let what = format!("{blocks} blocks for each of {} ranks", self.size());
            return Err(call.bad(what, format!("take 1 to {most}")));
        }
        let blocks = call.blocks.unwrap_or_else(|| problem.blocks(entry, &self.costs, self.max_put));
        Ok(Decision { problem, entry, blocks })
    }

    fn own_choice(&self, call: &RawCall, problem: &Problem) -> Option<&'static Entry> {
        match call.blocks {
            Some(blocks) => problem.algorithm_in_blocks(blocks, &self.costs),
            None => problem.algorithm(&self.costs),
        }
    }

    fn problem(&self, call: &RawCall, elements: usize) -> Problem {
        let (unit, p) = (call.unit as u64, self.size());
        let bytes = elements as u64 * unit;
        let (bytes, largest, around) = match &call.counts {
            Counts::Each(counts) => {
                let most = counts.iter().max().map_or(0, |&most| most as u64);
                (bytes, most * unit, Around::parts(counts, unit))
            }
            // What the others send is not known here.
            Counts::Pairs(..) => (0, 0, Around::uncut(0)),
            Counts::Equal => match call.collective {
                Collective::Alltoall => (bytes / 2, bytes / 2 / u64::from(p), Around::uncut(bytes / 4)),
                other if other.numbering() == Numbering::Parts => {
                    let part = bytes / u64::from(p);
                    (bytes, part, Around::uncut(part * u64::from(p / 2)))
                }
                _ => (bytes, bytes, Around::uncut(bytes)),
            },
        };
        let (collective, all_wide) = (call.collective, self.all_wide);
        let commutes = call.fold.as_ref().is_none_or(|fold| fold.commutes());
        let nodes = self.groups.is_nested().then(|| self.nodes(&self.groups, call, unit, bytes));
        let by_domains = self.groups.by_domains().map(|groups| self.nodes(groups, call, unit, bytes));
        let wanted = self.hierarchy.domains.is_some();
        let domains = by_domains.map(|nodes| Divided { nodes, wanted });
        let leaders = self.hierarchy.leaders;
        let apart = self.are_apart();
        Problem {
            collective,
            p,
            unit,
            bytes,
            largest,
            around,
            commutes,
            all_wide,
            apart,
            of_nodes: false,
            nodes,
            domains,
            leaders,
        }
    }

    /// What each node, or domain, has of a call. O(p).
    fn nodes(&self, groups: &Groups, call: &RawCall, unit: u64, bytes: u64) -> Nodes {
        let (count, equal) = (groups.count(), groups.are_equal());
        let most = groups.largest();
        let parts = match &call.counts {
            _ if call.collective.numbering() == Numbering::Whole => {
                return Nodes { count, most, largest: bytes, around: Around::uncut(bytes), equal };
            }
            _ if call.collective == Collective::Alltoall => {
                let largest = bytes / u64::from(self.size()) * u64::from(most).pow(2);
                return Nodes { count, most, largest, around: Around::uncut(largest), equal };
            }
            Counts::Each(counts) => groups.sums(|rank| counts[rank as usize] * unit as usize),
            _ => groups.sums(|_| (bytes / u64::from(self.size())) as usize),
        };
        let largest = parts.iter().max().map_or(0, |&most| most as u64);
        Nodes { count, most, largest, around: Around::parts(&parts, 1), equal }
    }

    fn asked_for(&self, call: &RawCall, problem: &Problem, name: &str) -> Result<&'static Entry> {
        let Some(entry) = algorithm::named(call.collective, name) else {
            let names: Vec<_> = algorithm::of(call.collective).map(|entry| entry.name).collect();
            return Err(
                call.bad(format!("no algorithm `{name}`"), format!("take one of: {}", names.join(", ")))
            );
        };
        if problem.candidates().any(|one| one.name == entry.name) {
            return Ok(entry);
        }
        let fit_for = match entry {
            _ if !entry.suits(&self.groups) && entry.nesting == Nesting::Domains => {
                let restriction = entry.restriction;
                format!(
                    "it is for {restriction}; ranks of a node have to be bound to several of its domains, some of them to one (see CIRCULANT_DOMAINS)"
                )
            }
            _ if !entry.suits(&self.groups) => {
                let (nodes, ranks) = (self.groups.count(), self.groups.largest());
                let nodes = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
                format!(
                    "it is for {}; here {} ranks are on {nodes}, at most {ranks} on one",
                    entry.restriction,
                    self.size()
                )
            }
            _ if entry.exchanges => format!("it takes {SMALL} bytes at most, on up to 48 ranks"),
            _ if entry.relays() && entry.fits(self.size()) => {
                format!("its blocks would take more than {RELAY} bytes on their way")
            }
            _ => entry.restriction.to_owned(),
        };
        let what = format!("algorithm `{name}` does not serve this call: {fit_for}");
        Err(call.bad(what, "leave the choice to the library, or name another"))
    }

    /// The task of a call as it was decided; `received` is where, in elements, what comes in begins in its
    /// memory (of an all-to-all).
    pub(super) fn task(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        received: u64,
        ends: Ends<'_>,
        prepared: bool,
    ) -> Task {
        let Decision { problem, entry, blocks } = *decision;
        let parts = self.parts(call, elements);
        let plan = self.plan(call, decision, present(&parts));
        let unit = problem.unit;
        let layout: Box<dyn Layout> = match call.collective.numbering() {
            Numbering::Whole => {
                let last = problem.last_block(entry, blocks, call.blocks.is_some(), &self.costs);
                let blocks = if entry.pipelined { blocks } else { plan.blocks() };
                Box::new(Partition::short_last(elements as u64, blocks, last).in_units_of(unit))
            }
            Numbering::Parts => {
                Box::new(Parts { parts: parts.into(), blocks, unit, last: last_block(entry) })
            }
            Numbering::Pairs if entry.relays() => self.handed_on(&problem, entry),
            Numbering::Pairs => Box::new(self.pairs(call, &problem, received, &ends.places)),
        };
        let piece = problem.piece(entry, &self.costs);
        Task {
            communicator: self.number,
            group: self.group.clone(),
            signature: self.signature(call, decision, prepared),
            plan,
            layout,
            pace: problem.pace(entry, blocks, piece, &self.costs),
            piece,
            longest: problem.longest(entry, &self.costs).unwrap_or(usize::MAX),
            fold: call.fold.clone(),
            small: problem.is_small(entry, blocks, &self.costs),
            touched: touched(call, elements),
            from: ends.from.into_owned(),
            to: ends.to.map(Cow::into_owned),
        }
    }

    /// The plan of a call as it was decided; `present` are the ranks that have parts, where some have none.
    pub(super) fn plan(
        &self,
        call: &RawCall,
        decision: &Decision,
        present: Option<Arc<[Rank]>>,
    ) -> Box<dyn Plan> {
        let Decision { problem, entry, blocks } = *decision;
        let chunk = problem.chunk(entry, blocks, &self.costs);
        let leaders = problem.leaders(entry);
        let plan = entry.plan(&Shape { chunk, leaders, ..self.shape(call.root, blocks, present) });
        match problem.is_in_step(entry, blocks, &self.costs) {
            true => Box::new(InStep(plan)),
            false => plan,
        }
    }

    fn signature(&self, call: &RawCall, decision: &Decision, prepared: bool) -> Signature {
        let counts = match &call.counts {
            Counts::Each(counts) => digest(counts),
            Counts::Equal | Counts::Pairs(..) => 0,
        };
        Signature {
            collective: call.collective,
            algorithm: decision.entry.number(),
            fold: call.fold.as_ref().map(|fold| fold.numbers()),
            root: call.root,
            bytes: decision.problem.bytes,
            blocks: decision.blocks,
            counts,
            prepared,
        }
    }

    /// Each rank's part, where there are such.
    fn parts(&self, call: &RawCall, elements: usize) -> Vec<Part> {
        let p = self.size();
        match &call.counts {
            _ if call.collective.numbering() != Numbering::Parts => Vec::new(),
            Counts::Each(counts) => adjacent(counts.iter().map(|&count| count as u64)),
            _ => adjacent((0..p).map(|_| elements as u64 / u64::from(p))),
        }
    }

    fn pairs(&self, call: &RawCall, problem: &Problem, received: u64, places: &Places) -> Pairs {
        let equal = || adjacent((0..self.size()).map(|_| equal_part(problem)));
        let (sent, mut incoming) = match &call.counts {
            Counts::Pairs(sent, received) => (placed(sent, &places.sent), placed(received, &places.received)),
            _ => (equal(), equal()),
        };
        incoming.iter_mut().for_each(|part| part.offset += received);
        Pairs { place: self.place, sent, received: incoming, unit: problem.unit }
    }

    /// What a rank sends to itself in an all-to-all.
    #[inline]
    pub(super) fn own_part(&self, call: &RawCall, elements: usize, ends: &Ends<'_>) -> Option<OwnPart> {
        let has_one = call.collective.numbering() == Numbering::Pairs;
        has_one.then(|| self.own_part_of_pairs(call, elements, ends))
    }

    fn own_part_of_pairs(&self, call: &RawCall, elements: usize, ends: &Ends<'_>) -> OwnPart {
        let received = received(call, elements, ends);
        let (me, unit) = (self.rank() as usize, call.unit);
        let begin = |counts: &[usize], places: &Option<Arc<[usize]>>| {
            places.as_ref().map_or_else(|| counts[..me].iter().sum(), |places| places[me])
        };
        let (from, to, count) = match &call.counts {
            Counts::Pairs(sent, received) => {
                let count = sent[me].min(received[me]);
                (begin(sent, &ends.places.sent), begin(received, &ends.places.received), count)
            }
            _ => {
                let count = elements / 2 / self.size() as usize;
                (me * count, me * count, count)
            }
        };
        let (from, to) = if count == 0 { (0, 0) } else { (from, received as usize + to) };
        let touched = touched(call, elements);
        OwnPart { from: from * unit, to: to * unit, bytes: count * unit, touched }
    }

    /// Where blocks that are handed on lie, in a workspace of their own.
    pub(super) fn handed_on(&self, problem: &Problem, entry: &Entry) -> Box<dyn HandedOn> {
        match entry.digits {
            Some(digits) => Box::new(Relay::new(self.place, digits(self.size()), problem.largest)),
            None => Box::new(Stopovers::new(self.place, &self.groups, problem.largest)),
        }
    }
}

/// Where, in elements, what comes in begins: in one memory, behind what goes out.
pub(super) fn received(call: &RawCall, elements: usize, ends: &Ends<'_>) -> u64 {
    if ends.to.is_some() { 0 } else { call.sent(elements) as u64 }
}

/// Bytes of all elements that a call is about.
pub(super) fn touched(call: &RawCall, elements: usize) -> u64 {
    (elements * call.unit) as u64
}

/// Parts of these lengths, where they are said to lie.
fn placed(counts: &[usize], places: &Option<Arc<[usize]>>) -> Vec<Part> {
    let Some(places) = places else { return adjacent(counts.iter().map(|&count| count as u64)) };
    let part = |(&count, &place): (&usize, &usize)| match count {
        0 => Part::default(),
        _ => Part { offset: place as u64, count: count as u64 },
    };
    counts.iter().zip(&**places).map(part).collect()
}

/// How many elements go from any rank to any other, where they are as many.
fn equal_part(problem: &Problem) -> u64 {
    problem.largest / problem.unit.max(1)
}

/// The ranks whose parts are not empty; `None` where none is.
fn present(parts: &[Part]) -> Option<Arc<[Rank]>> {
    let filled = || (0..).zip(parts).filter(|(_, part)| part.count > 0).map(|(rank, _)| rank);
    (filled().count() < parts.len()).then(|| filled().collect())
}

/// A number that differs, but for one case in four thousand million, where counts do; never 0.
fn digest(counts: &[usize]) -> u32 {
    let hash = digest::of_words(counts.iter().map(|&count| count as u64));
    ((hash ^ hash >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Call;

    #[test]
    fn parts_of_one_size_are_the_same_problem_with_counts_and_without() {
        for p in 1..=9 {
            let comm = &Communicator::loopback(p, 0).unwrap()[0];
            let counts = vec![1500; p as usize];
            let (equal, each) = (Call::<u32>::allgather().raw, Call::<u32>::allgatherv(&counts).raw);
            let sizes = |call| {
                let Problem { bytes, largest, around, .. } = comm.problem(call, 1500 * p as usize);
                (bytes, largest, around.half)
            };
            assert_eq!(sizes(&equal), sizes(&each), "{p} ranks");
        }
    }
}
