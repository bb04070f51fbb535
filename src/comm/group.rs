//! Communicators out of communicators: split by colour and key, duplicated, freed.

use std::sync::Arc;

use super::channels::neighbours;
use super::world::World;
use super::{Call, Communicator};
use crate::engine::slots::Card;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
use crate::schedule::Graph;
use crate::transport::{RemoteKey, RemoteKeys};

/// No new communicator for this rank.
const NONE: u64 = u64::MAX;
/// The number of a rank that has none left.
const SPENT: u32 = 0;
/// The most new channels of a rank: two for each of the at most 32 rounds of a phase.
const MOST: usize = 64;
/// Words of a card of slots.
const WORDS: usize = HEAD + MOST;
/// Of which so many come before the channels' peers.
const HEAD: usize = 6;

impl Communicator {
    /// Splits the communicator: the ranks with one colour make a new one, in the order of their keys (and
    /// of their ranks here, where keys are equal). A rank without colour gets `None`. All ranks must
    /// call it. An allgather of a few words; and two more, about new slots, where there
    /// are more than 48 ranks in the world.
    ///
    /// ```
    /// # use circulant::comm::{Communicator, Call};
    /// # use circulant::fold::Sum;
    /// # fn main() -> circulant::error::Result<()> {
    /// # let comm = &Communicator::loopback(1, 0)?[0];
    /// let parity = comm.split(Some(comm.rank() % 2), 0)?.expect("it has a colour");
    /// parity.run(&mut [1], Call::allreduce(Sum))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Communicator>> {
        let reserved = self.world.reserve_number();
        let own = [colour.map_or(NONE, u64::from), key as u64, u64::from(reserved.unwrap_or(SPENT))];
        let mut all = vec![[0u64; 3]; self.size() as usize];
        all[self.rank() as usize] = own;
        self.run(&mut all, Call::allgather())?;
        self.check_numbers(all.iter().map(|word| word[2]), reserved)?;

        let mut members: Vec<Rank> =
            (0..).zip(&all).filter(|(_, word)| word[0] == own[0]).map(|(rank, _)| rank).collect();
        members.sort_by_key(|&rank| (all[rank as usize][1] as i64, rank));
        let number = all[members[0] as usize][2] as u32;
        let everybody = (0..self.size()).map(|rank| self.world_rank(rank)).collect::<Vec<_>>();
        let group: Arc<[Rank]> = members.into_iter().map(|rank| self.world_rank(rank)).collect();
        let made = self.make(group, colour.is_some(), (reserved, number), &everybody, |own| {
            let mut all = vec![0; own.len() * self.size() as usize];
            all[own.len() * self.rank() as usize..][..own.len()].copy_from_slice(own);
            // The others are amid the split.
            self.run(&mut all, Call::allgather()).map_err(|error| self.give_up(error))?;
            Ok(all.chunks(own.len()).map(<[u64]>::to_vec).collect())
        })?;
        Ok(colour.map(|_| made))
    }

    /// A communicator of some of this one's ranks, in the given order, made by a call of these alone. `agree` is a
    /// means that they have among them: an allgather of as many bytes from each, in that order, which is
    /// called once or (in a world of more than 48 ranks) three times.
    ///
    /// # Errors
    /// Ranks that this communicator does not have, or that come twice; this rank not among them; whatever
    /// `agree` fails with.
    pub fn of_group(
        &self,
        members: &[Rank],
        mut agree: impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>>,
    ) -> Result<Communicator> {
        self.check_members(members)?;
        let mut words = |own: &[u64]| {
            let all = agree(bytemuck::cast_slice(own))?;
            let fits = all.len() == members.len() && all.iter().all(|bytes| bytes.len() == size_of_val(own));
            let read = |bytes: Vec<u8>| bytes.chunks(8).map(bytemuck::pod_read_unaligned).collect();
            match fits {
                true => Ok(all.into_iter().map(read).collect::<Vec<Vec<u64>>>()),
                false => {
                    let what =
                        "the allgather that was given brought something else than a word from each member";
                    Err(Error::argument("communicator", what, "gather from the members, in their order"))
                }
            }
        };
        let reserved = self.world.reserve_number();
        let numbers = words(&[u64::from(reserved.unwrap_or(SPENT))])?;
        self.check_numbers(numbers.iter().map(|word| word[0]), reserved)?;
        let number = numbers[0][0] as u32;
        let group: Arc<[Rank]> = members.iter().map(|&rank| self.world_rank(rank)).collect();
        self.make(Arc::clone(&group), true, (reserved, number), &group, words)
    }

    /// That every rank has had one for a new communicator: all find the same.
    fn check_numbers(&self, mut numbers: impl Iterator<Item = u64>, reserved: Option<u32>) -> Result<()> {
        let Some(rank) = numbers.position(|number| number == u64::from(SPENT)) else { return Ok(()) };
        reserved.into_iter().for_each(|number| self.world.return_number(number));
        let what = format!(
            "the rank at place {rank} of those that call has made as many communicators as it can number"
        );
        Err(Error::argument("split", what, "duplicate communicators once, and use them again"))
    }

    fn check_members(&self, members: &[Rank]) -> Result<()> {
        let bad = |what: String| {
            let cure = "give each member's rank in this communicator once, this rank's among them";
            Err(Error::argument("communicator", what, cure))
        };
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if let Some(rank) = sorted.iter().find(|&&rank| rank >= self.size()) {
            return bad(format!("rank {rank} of {} ranks", self.size()));
        }
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return bad(format!("rank {} comes twice", twice[0]));
        }
        match sorted.binary_search(&self.rank()) {
            Ok(_) => Ok(()),
            Err(_) => bad(format!("rank {} is no member, and makes it", self.rank())),
        }
    }

    /// Makes a communicator of a group, once its number is known. Everybody takes part who `exchange`s; a rank that
    /// `takes_part` in nothing else gets one of itself.
    fn make(
        &self,
        group: Arc<[Rank]>,
        takes_part: bool,
        (reserved, number): (Option<u32>, u32),
        everybody: &[Rank],
        exchange: impl FnMut(&[u64]) -> Result<Vec<Vec<u64>>>,
    ) -> Result<Communicator> {
        if let Some(reserved) = reserved.filter(|&reserved| reserved != number) {
            self.world.return_number(reserved);
        }
        let me = self.world_rank(self.rank());
        let rank = group.iter().position(|&rank| rank == me).unwrap_or_default() as Rank;
        let place = match takes_part {
            true => Place { rank, size: group.len() as u32 },
            false => Place { rank: 0, size: 1 },
        };
        if !self.all_wide {
            self.connect(place, &group, everybody, exchange)?;
        }
        let groups = Arc::new(self.world.groups(&group));
        let within = self.costs_within.filter(|_| groups.count() == 1);
        Ok(Communicator {
            world: Arc::clone(&self.world),
            place,
            number,
            groups,
            hierarchy: self.hierarchy,
            group: Some(group),
            graph: Arc::new(Graph::new(place.size)),
            all_wide: self.all_wide,
            costs: within.unwrap_or(self.costs),
            costs_within: self.costs_within,
            max_put: self.max_put,
            about: self.about.clone(),
        })
    }

    /// The same ranks once more: calls on one do not mix with calls on the other. All ranks must call it.
    pub fn duplicate(&self) -> Result<Communicator> {
        let same = self.split(Some(0), 0)?;
        same.ok_or_else(|| Error::argument("duplicate", "no communicator came of it", "call it on all ranks"))
    }

    /// Gives the communicator up, once all its ranks do: whatever was started on it should be done. To drop it
    /// does the same without waiting for the others.
    ///
    /// A freed communicator cannot be used, which the compiler sees to:
    /// ```compile_fail,E0382
    /// # use circulant::comm::Communicator;
    /// # fn main() -> circulant::error::Result<()> {
    /// let comm = Communicator::loopback(1, 0)?.remove(0);
    /// let other = comm.duplicate()?;
    /// other.free()?;
    /// other.barrier()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn free(self) -> Result<()> {
        self.barrier()
    }

    /// Gives the communicator up and, if nothing else holds its world any more (no other communicator, window or request),
    /// leaves that, and says what goes wrong then. To drop it does the same, and can but print that.
    ///
    /// All ranks must come as far; it waits for them, as long as a barrier takes.
    ///
    /// # Errors
    /// A rank that is lost before it has come as far, or is in another call; a launcher that does not take this process's leave; not what
    /// a call has given before.
    ///
    /// ```
    /// # use circulant::comm::Communicator;
    /// # fn main() -> circulant::error::Result<()> {
    /// let comm = Communicator::loopback(1, 0)?.remove(0);
    /// comm.barrier()?;
    /// comm.leave()
    /// # }
    /// ```
    pub fn leave(self) -> Result<()> {
        let world = Arc::clone(&self.world);
        drop(self);
        Arc::into_inner(world).map_or(Ok(()), World::leave)
    }

    /// The rank in the world of one of this communicator's ranks.
    fn world_rank(&self, rank: Rank) -> Rank {
        self.group.as_ref().map_or(rank, |group| group[rank as usize])
    }

    /// Ends all traffic for an error, of which all ranks hear, and gives it back: where others are amid what this rank cannot take up
    /// again, also of an argument, by which else nothing would have been sent.
    pub(super) fn give_up(&self, error: Error) -> Error {
        let error = match error {
            Error::Argument { call, what, cure } => {
                Error::Transport { call, what: format!("amid a call, {what}"), cure }
            }
            error => error,
        };
        self.world.engine().give_up(error.clone());
        error
    }

    /// Gives the new group's ranks channels to their neighbours, where they have none. `everybody` who exchanges, by
    /// ranks of the world, takes part.
    fn connect(
        &self,
        place: Place,
        group: &[Rank],
        everybody: &[Rank],
        mut exchange: impl FnMut(&[u64]) -> Result<Vec<Vec<u64>>>,
    ) -> Result<()> {
        let peers: Vec<Rank> = match place.size {
            1 => Vec::new(),
            _ => neighbours(place).into_iter().map(|rank| group[rank as usize]).collect(),
        };
        let me = self.world_rank(self.rank());
        let lacks = self.world.engine().without_channel(&peers);
        let all = exchange(&encode(&Card { peers: lacks.clone(), ..Card::default() }))?;
        // Both ends add a channel where either has none: while other threads make some, one may have it already.
        let is_lacked_by = |rank: &Rank| {
            let found = everybody.iter().position(|other| other == rank);
            found.is_some_and(|found| decode(&all[found]).peers.contains(&me))
        };
        let missing: Vec<Rank> =
            peers.into_iter().filter(|rank| lacks.contains(rank) || is_lacked_by(rank)).collect();
        let own = self.world.engine().add_channels(&missing)?;
        // Others may count on these channels as soon as they have heard of them.
        let told = exchange(&encode(&own));
        let all = if missing.is_empty() { told? } else { told.map_err(|error| self.give_up(error))? };
        let there = |rank: Rank| {
            let found = everybody.iter().position(|&other| other == rank)?;
            decode(&all[found]).there(me)
        };
        self.world.engine().connect_channels(&own, there)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.number != super::WORLD {
            self.world.engine_at_the_end().into_iter().for_each(|mut engine| engine.free(self.number));
        }
    }
}

/// A card as words: the inbox's two keys, a slot's area, the first channel, and the peers, each plus one.
fn encode(card: &Card) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let RemoteKeys { far, near } = card.inbox;
    let (area, first) = (u64::from(card.area), u64::from(card.first));
    words[..HEAD].copy_from_slice(&[far.base, far.key, near.base, near.key, area, first]);
    words[HEAD..].iter_mut().zip(&card.peers).for_each(|(word, &peer)| *word = u64::from(peer) + 1);
    words
}

fn decode(words: &[u64]) -> Card {
    let peers = words[HEAD..].iter().take_while(|&&word| word > 0).map(|&word| (word - 1) as Rank);
    let key = |at: usize| RemoteKey { base: words[at], key: words[at + 1] };
    Card {
        inbox: RemoteKeys { far: key(0), near: key(2) },
        area: words[HEAD - 2] as u32,
        first: words[HEAD - 1] as u32,
        peers: peers.collect(),
    }
}
