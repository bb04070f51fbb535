//! From a process to a rank of the world: an engine over a connected transport, a lifeline, what a put costs.
//!
//! The ranks [meet](super::meeting) first; what follows goes over the transport and the lifeline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::carrier::Carrier;
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
    let Joined { engine, without_shm, shared } = match place.size {
        1 => Joined { engine: alone(limits)?, without_shm: None, shared: true },
        _ => among_others(&mut meeting, settings, limits)?,
    };
    let (boot, nodes, crowded) = (meeting.boot(), meeting.nodes(), meeting.ranks_per_core() > 1.0);
    let begin = meeting.begin();
    let crowd = meeting.ranks_per_core();
    let task = |engine: &Engine| Ok(barrier_task(engine.place(), WORLD, None, Collective::Finalize));
    let layout = Some(meeting.layout().clone());
    let farewell = Farewell { task, exchange: meeting.into_exchange() };
    let hierarchy = Hierarchy { domains: settings.domains, leaders: settings.leaders.unwrap_or(1) };
    let world = World::new(engine, layout, hierarchy, settings.progress, Some(farewell))?;
    let mut comm = Communicator::new(world, place);
    comm.number = JOINING;
    comm.costs = costs(&comm, settings.costs, crowd, shared)?;
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
    /// Whether all ranks share memory; all say the same.
    shared: bool,
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
    let (without_shm, shared) = (carrier.without_shm().map(str::to_owned), carrier.is_shared_by_all());
    let mut engine = Engine::new(carrier.into_transport(), slots, vigil, meeting.ranks_per_core())?;
    engine.limit_puts(max_put);
    Ok(Joined { engine, without_shm, shared })
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

/// What puts cost, as it is `given`, or else measured; of what was measured, and of the crowd, all take rank 0's word.
fn costs(comm: &Communicator, given: Option<PutCosts>, crowd: f64, shared: bool) -> Result<Costs> {
    let mut word = [crowd.clamp(1.0, 1e6)];
    comm.run(&mut word, Call::broadcast(0))?;
    let [crowd] = word;
    let own = match given {
        Some(given) => given,
        None if comm.size() == 1 => PutCosts::default(),
        None => measure(comm, if crowd > 1.0 { SEVERAL } else { 1 })?,
    };
    let mut word = [own.put(), own.byte()];
    comm.run(&mut word, Call::broadcast(0))?;
    let [put, byte] = word;
    Ok(Costs { crowd, shared, ..Costs::of(PutCosts::measured(put, byte)) })
}

/// What a put and a byte cost; rank 0 measures the one with up to so many ranks, the other with the first of them.
fn measure(comm: &Communicator, peers: usize) -> Result<PutCosts> {
    let peers = measured_with(comm.layout(), comm.size(), peers);
    let room = match comm.rank() {
        rank if [0, peers[0]].contains(&rank) => LONGEST_PROBE,
        rank => usize::from(peers.contains(&rank)),
    };
    let window = comm.window::<u8>(room)?;
    let shorts = peers.iter().map(|&peer| one_way(comm, &window, peer, 1, 20)).collect::<Result<Vec<_>>>()?;
    let mut bytes = PROBE;
    let byte = loop {
        let long = one_way(comm, &window, peers[0], bytes, 5)?;
        let mut verdict = [long - shorts[0], f64::from(u8::from(long > 5.0 * shorts[0]))];
        comm.run(&mut verdict, Call::broadcast(0))?;
        if verdict[1] != 0.0 || bytes == LONGEST_PROBE {
            break verdict[0] / bytes as f64;
        }
        bytes = (bytes * 8).min(LONGEST_PROBE);
    };
    let short = shorts.iter().sum::<f64>() / shorts.len() as f64;
    Ok(PutCosts::measured(short * 1e6, byte * 1e9))
}

/// With whom rank 0 measures, `most` of them at most: the first of other nodes among those that it has wide channels to, or, where
/// none of these is on another, of its own.
fn measured_with(layout: Option<&Layout>, size: u32, most: usize) -> Vec<Rank> {
    let mut peers = channels::wide(Place { rank: 0, size });
    let is_far = |rank: Rank| layout.is_some_and(|layout| layout.node(rank) != layout.node(0));
    if peers.iter().any(|&rank| is_far(rank)) {
        peers.retain(|&rank| is_far(rank));
    }
    peers.truncate(most);
    peers
}

/// Half the least time of some ping-pongs, in seconds. Others only add to it; the first, which makes
/// connections, does not count.
fn one_way(comm: &Communicator, window: &Window<u8>, peer: Rank, bytes: usize, times: u32) -> Result<f64> {
    let mut least = f64::INFINITY;
    for round in 0..=times {
        let start = Instant::now();
        comm.probe(window, peer, bytes)?;
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
    }
}
