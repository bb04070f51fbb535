//! From a process to a rank of the world: an engine over a connected transport, a lifeline, what a put costs.
//!
//! The ranks [meet](super::meeting) first; what follows goes over the transport and the lifeline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::carrier::{Carrier, Sharing};
use super::channels::{self, Banks};
use super::meeting::Meeting;
use super::settings::Settings;
use super::window::Window;
use super::world::{Farewell, Hierarchy, World};
use super::{Communicator, JOINING, WORLD, barrier_task};
use crate::addresses::Scope;
use crate::collective::Collective;
use crate::engine::Engine;
use crate::engine::vigil::{Limits, Vigil};
use crate::error::Result;
use crate::lifeline::listening::Listening;
use crate::lifeline::status::Status;
use crate::locality::layout::Layout;
use crate::rank::{Place, Rank};
use crate::schedule::Skips;
use crate::select::{Costs, PutCosts};
use crate::transport::RemoteKeys;
use crate::transport::loopback::Loopback;

/// What is known of the world after boot, for people to read.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// How the ranks found each other.
    pub boot: String,
    /// Distinct nodes.
    pub nodes: u32,
    /// More ranks on this machine than cores, so that a rank that waits soon gives up its core.
    pub crowded: bool,
    /// Why ranks of one node do not share memory, though nobody has named another way.
    pub without_shm: Option<String>,
    /// How long it took this rank from the call until it had joined; others that were started later among it.
    pub joined: Duration,
}

/// What a rank tells the others beside its address.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Word {
    inboxes: [(RemoteKeys, u32); 2],
    max_put: usize,
    lifeline: Vec<u8>,
}

/// Joins the world of the ranks that have met.
pub fn world(mut meeting: Meeting, settings: &Settings) -> Result<Communicator> {
    let place = meeting.place();
    let limits = settings.limits();
    let Joined { engine, without_shm, memory } = match place.size {
        1 => Joined { engine: alone(limits)?, without_shm: None, memory: Some(Sharing::All) },
        _ => among_others(&mut meeting, settings, limits)?,
    };
    let (boot, nodes, crowded) = (meeting.boot(), meeting.nodes(), meeting.ranks_per_core() > 1.0);
    let begin = meeting.begin();
    let crowd = meeting.ranks_per_core_of_most();
    let task = |engine: &Engine| Ok(barrier_task(engine.place(), WORLD, None, Collective::Finalize));
    let layout = Some(meeting.layout().clone());
    let farewell = Farewell { task, exchange: meeting.into_exchange() };
    let hierarchy = Hierarchy { domains: settings.domains, leaders: settings.leaders.unwrap_or(1) };
    let world = World::new(engine, layout, hierarchy, settings.progress, Some(farewell))?;
    let mut comm = Communicator::new(world, place);
    comm.number = JOINING;
    // Others wait in what this rank leaves with an error.
    let give_up = |error| comm.give_up(error);
    let costs = costs(&comm, settings.costs, crowd, memory == Some(Sharing::All)).map_err(give_up)?;
    let costs_within = costs_within(&comm, settings.costs, &costs, memory).map_err(give_up)?;
    (comm.costs, comm.costs_within) = (costs, costs_within);
    comm.number = WORLD;
    comm.world.engine().has_joined(JOINING);
    comm.about = About { boot, nodes, crowded, without_shm, joined: begin.elapsed() };
    Ok(comm)
}

fn alone(limits: Limits) -> Result<Engine> {
    let mut transport = Loopback::world(1, 0)?.remove(0);
    let slots = Banks::new(&mut transport)?.connect(&transport, &[])?;
    Engine::new(Box::new(transport), slots, Vigil::new(None, Arc::default(), limits), 1.0)
}

/// What puts, and how.
struct Joined {
    engine: Engine,
    /// Why it does without shared memory, if so.
    without_shm: Option<String>,
    /// Who shares memory; all say the same.
    memory: Option<Sharing>,
}

fn among_others(meeting: &mut Meeting, settings: &Settings, limits: Limits) -> Result<Joined> {
    let place = meeting.place();
    let mut carrier = Carrier::open(meeting, settings)?;
    let banks = Banks::new(carrier.transport())?;
    let listening = Listening::bind(if meeting.is_local() { Scope::Loopback } else { Scope::Network })?;
    let max_put = carrier.transport().limits().max_put;
    let own = Word { inboxes: banks.inboxes(), max_put, lifeline: listening.card() };
    let words = meeting.connect(&mut carrier, own)?;

    let inboxes: Vec<_> = words.iter().map(|other| other.inboxes).collect();
    let slots = banks.connect(carrier.transport(), &inboxes)?;
    // Devices of one provider may differ.
    let max_put = words.iter().map(|other| other.max_put).min().unwrap_or(max_put);
    let cards: Vec<_> = words.into_iter().map(|other| other.lifeline).collect();
    let status = Arc::<Status>::default();
    let lifeline = listening.connect(place, &followers(place), &cards, meeting.job(), Arc::clone(&status))?;
    let vigil = Vigil::new(Some(lifeline), status, limits);
    let (without_shm, memory) = (carrier.without_shm().map(str::to_owned), carrier.sharing(meeting));
    let mut engine = Engine::new(carrier.into_transport(), slots, vigil, meeting.ranks_per_core())?;
    engine.limit_puts(max_put);
    Ok(Joined { engine, without_shm, memory })
}

/// The ranks at a skip's distance after this one.
fn followers(place: Place) -> Vec<Rank> {
    let skips = Skips::new(place.size);
    (0..skips.rounds()).map(|k| place.after(skips.skip(k))).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Bytes of the long ping-pong, at first: on a slow link enough to show the bandwidth.
const PROBE: usize = 1 << 16;
/// On a fast one it grows to this, until it takes clearly longer than a short one.
const LONGEST_PROBE: usize = 1 << 22;

/// With how many ranks a put is measured where ranks share cores, and its mean taken: on the emulated cluster it takes 15 µs with
/// one and 40 with another, probably as they lie on one core or on two.
const SEVERAL: usize = 8;

/// What puts cost, as it is `given`, or else measured. The crowd all know alike.
fn costs(comm: &Communicator, given: Option<PutCosts>, crowd: f64, shared: bool) -> Result<Costs> {
    let crowd = crowd.clamp(1.0, 1e6);
    let costs = match given {
        Some(given) => given,
        None if comm.size() == 1 => PutCosts::default(),
        None => {
            let several = if crowd > 1.0 { SEVERAL } else { 1 };
            measure(comm, 0, &measured_with(comm.layout(), comm.size(), several))?
        }
    };
    Ok(Costs { crowd, shared, ..Costs::of(costs) })
}

/// What they cost within nodes, as it is given, or else measured, where ranks share memory there and not elsewhere.
fn costs_within(
    comm: &Communicator,
    given: Option<PutCosts>,
    between: &Costs,
    memory: Option<Sharing>,
) -> Result<Option<Costs>> {
    let pair = comm.layout().and_then(|layout| pair_of_a_node(layout, comm.size()));
    let Some([one, other]) = pair.filter(|_| memory == Some(Sharing::OfNodes)) else { return Ok(None) };
    let costs = given.map_or_else(|| measure(comm, one, &[other]), Ok)?;
    Ok(Some(Costs { crowd: between.crowd, shared: true, ..Costs::of(costs) }))
}

/// What a put and a byte cost; one rank measures the one with some others, the other with the first of them, and all take
/// its word.
fn measure(comm: &Communicator, one: Rank, peers: &[Rank]) -> Result<PutCosts> {
    let room = match comm.rank() {
        rank if [one, peers[0]].contains(&rank) => LONGEST_PROBE,
        rank => usize::from(peers.contains(&rank)),
    };
    let window = comm.window::<u8>(room)?;
    let one_way = |peer, bytes, times| one_way(comm, &window, (one, peer), bytes, times);
    let shorts = peers.iter().map(|&peer| one_way(peer, 1, 20)).collect::<Result<Vec<_>>>()?;
    let mut bytes = PROBE;
    let byte = loop {
        let long = one_way(peers[0], bytes, 5)?;
        let mut verdict = [long - shorts[0], f64::from(u8::from(long > 5.0 * shorts[0]))];
        comm.run(&mut verdict, Call::broadcast(one))?;
        if verdict[1] != 0.0 || bytes == LONGEST_PROBE {
            break verdict[0] / bytes as f64;
        }
        bytes = (bytes * 8).min(LONGEST_PROBE);
    };
    let short = shorts.iter().sum::<f64>() / shorts.len() as f64;
    let own = PutCosts::measured(short * 1e6, byte * 1e9);
    let mut word = [own.put(), own.byte()];
    comm.run(&mut word, Call::broadcast(one))?;
    let [put, byte] = word;
    Ok(PutCosts::measured(put, byte))
}

/// With whom rank 0 measures, `most` of them at most: the first of other nodes among those that it has wide channels to, or, where
/// none of these is on another, the first of another at all; where there is one node, the first.
fn measured_with(layout: Option<&Layout>, size: u32, most: usize) -> Vec<Rank> {
    let wide = channels::wide(Place { rank: 0, size });
    let is_far = |&rank: &Rank| layout.is_some_and(|layout| layout.node(rank) != layout.node(0));
    let far = wide.iter().copied().filter(is_far).take(most).collect::<Vec<_>>();
    let any_far = || (0..size).find(is_far).map(|rank| vec![rank]);
    Some(far)
        .filter(|far| !far.is_empty())
        .or_else(any_far)
        .unwrap_or_else(|| wide.into_iter().take(most).collect())
}

/// The first rank that has another on its node, and the first of these, if possible of those that it has a wide channel to.
fn pair_of_a_node(layout: &Layout, size: u32) -> Option<[Rank; 2]> {
    let one = (0..size).find(|&rank| layout.ranks_of(layout.node(rank)).len() > 1)?;
    let others = || layout.ranks_of(layout.node(one)).iter().copied().filter(|&rank| rank != one);
    let wide = channels::wide(Place { rank: one, size });
    others().find(|other| wide.contains(other)).or_else(|| others().next()).map(|other| [one, other])
}

/// Half the least time of some ping-pongs, in seconds. Others only add to it; the first, which makes
/// connections, does not count.
fn one_way(
    comm: &Communicator,
    window: &Window<u8>,
    pair: (Rank, Rank),
    bytes: usize,
    times: u32,
) -> Result<f64> {
    let mut least = f64::INFINITY;
    for round in 0..=times {
        let start = Instant::now();
        comm.probe(window, pair, bytes)?;
        if round > 0 {
            least = least.min(start.elapsed().as_secs_f64() / 2.0);
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locality::machine::Seat;

    #[test]
    fn costs_are_measured_between_nodes_where_there_are_several() {
        let with = |nodes: &[&str], most| {
            let layout = Layout::new(nodes.iter().map(|&node| (node, Seat::default())));
            measured_with(Some(&layout), nodes.len() as u32, most)
        };
        let one = [["a", "a", "a"], ["a", "b", "a"], ["a", "a", "b"]].map(|nodes| with(&nodes, 1));
        assert_eq!(one, [[1], [1], [2]]);
        assert_eq!(
            [with(&["a", "b", "a", "c"], 8), with(&["a"; 4], 8), with(&["a"; 4], 2)],
            [vec![1, 3], vec![1, 2, 3], vec![1, 2]]
        );
        let halves: Vec<_> = (0..100).map(|rank| if rank < 50 { "a" } else { "b" }).collect();
        let peer = with(&halves, 1)[0];
        assert!(peer >= 50 && channels::wide(Place { rank: 0, size: 100 }).contains(&peer));
        assert_eq!(measured_with(None, 4, 1), [1]);
        let one_apart: Vec<_> = (0..49).map(|rank| if rank == 20 { "b" } else { "a" }).collect();
        assert_eq!(with(&one_apart, 8), [20], "over a narrow channel rather than in memory");
    }

    #[test]
    fn costs_within_nodes_are_measured_on_the_first_that_several_ranks_share() {
        let pair = |nodes: &[&str]| {
            let layout = Layout::new(nodes.iter().map(|&node| (node, Seat::default())));
            pair_of_a_node(&layout, nodes.len() as u32)
        };
        assert_eq!(pair(&["a", "b", "c"]), None);
        assert_eq!(pair(&["a", "b", "c", "b"]), Some([1, 3]));
        let dealt: Vec<_> = (0..100).map(|rank| if rank % 2 == 0 { "a" } else { "b" }).collect();
        let [one, other] = pair(&dealt).unwrap();
        assert!(one == 0 && other % 2 == 0 && channels::wide(Place { rank: 0, size: 100 }).contains(&other));
    }
}
