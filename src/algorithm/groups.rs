//! Ranks in groups, as a machine has them on nodes: what an algorithm that goes group by group must know.
//!
//! A group's ranks may be in groups again, its domains: those of a node that share a memory or a cache.
//!
//! It knows no machine: whoever makes it says which ranks belong together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::rank::{Place, Rank};
use crate::schedule::{Graph, Skips};

/// A partition of ranks into groups, none of them empty. O(p) memory; all plans of a communicator share one.
#[derive(Debug, Clone)]
pub struct Groups {
    group_of: Vec<u32>,
    /// The ranks of each group, rising.
    members: Vec<Arc<[Rank]>>,
    /// The ranks of the largest group, and the rounds of its circulant graph.
    largest: u32,
    rounds_within: u32,
    among: Arc<Graph>,
    within: Vec<OnceLock<Arc<Graph>>>,
    lanes: OnceLock<Arc<Groups>>,
    /// On which side of its group's machine each rank is, where that is known; empty where nothing is.
    sides: Arc<[Option<u32>]>,
    /// Of each group the domains, whose ranks are places in it; empty where groups are not gone through by domains.
    divided: Vec<Arc<Groups>>,
    by_domains: Option<Arc<Groups>>,
}

impl Groups {
    /// From any number for each rank, in rank order: the same for those that belong together. Groups are
    /// numbered by their first ranks. O(p log p).
    pub fn new<N: Ord>(numbers: impl IntoIterator<Item = N>) -> Groups {
        let mut found = BTreeMap::new();
        let mut members: Vec<Vec<Rank>> = Vec::new();
        let mut group_of = Vec::new();
        for (rank, number) in (0..).zip(numbers) {
            let group = *found.entry(number).or_insert(members.len());
            if group == members.len() {
                members.push(Vec::new());
            }
            members[group].push(rank);
            group_of.push(group as u32);
        }
        let largest = members.iter().map(Vec::len).max().unwrap_or(1) as u32;
        Groups {
            group_of,
            largest,
            rounds_within: Skips::new(largest).rounds(),
            among: Arc::new(Graph::new(members.len().max(1) as u32)),
            within: members.iter().map(|_| OnceLock::new()).collect(),
            lanes: OnceLock::new(),
            sides: Arc::default(),
            divided: Vec::new(),
            by_domains: None,
            members: members.into_iter().map(Arc::from).collect(),
        }
    }

    /// Every rank by itself.
    pub fn alone(p: u32) -> Groups {
        Groups::new(0..p)
    }

    /// At most so many groups, runs of nearly equal length.
    pub fn runs(p: u32, count: u32) -> Groups {
        Groups::new((0..p).map(|rank| u64::from(rank) * u64::from(count.max(1)) / u64::from(p)))
    }

    /// As unlike runs as groups can be: of unequal sizes, their ranks scattered.
    pub fn scattered(p: u32) -> Groups {
        let count = p.isqrt().max(1);
        Groups::new((0..p).map(|rank| if rank < count { rank } else { (rank * rank / 3) % count }))
    }

    /// The same groups, where ranks of a group with the same number are on one side of their machine, near to other cards than
    /// those of another. Comes before domains.
    pub fn with_sides(self, side: impl Fn(Rank) -> Option<u32>) -> Groups {
        debug_assert!(self.by_domains.is_none(), "what goes by domains would not know of them");
        let sides: Vec<_> = (0..self.ranks()).map(side).collect();
        let known = sides.iter().any(Option::is_some);
        Groups { sides: if known { sides.into() } else { Arc::default() }, ..self }
    }

    /// The same groups, where ranks with the same number, any, are in one domain of their group. A group is one
    /// domain where a rank of it has none. O(p log p).
    pub fn with_domains<N: Ord>(self, domain: impl Fn(Rank) -> Option<N>) -> Groups {
        let divide = |members: &Arc<[Rank]>| {
            let numbers: Option<Vec<N>> = members.iter().map(|&rank| domain(rank)).collect();
            numbers.map_or_else(|| Groups::runs(members.len() as u32, 1), Groups::new)
        };
        let mut divided: Vec<_> = self.members.iter().map(|members| Arc::new(divide(members))).collect();
        let by_domains = match divided.iter().any(|domains| domains.is_nested()) {
            false => None,
            true if divided.len() == 1 => divided.pop(),
            true => Some(Arc::new(Groups { divided, ..self.clone() })),
        };
        Groups { by_domains, ..self }
    }

    /// The same groups, each in at most so many domains: runs of its ranks of nearly equal length.
    pub fn with_runs_of_domains(self, count: u32) -> Groups {
        let of_size = |size: usize| Groups::runs(size as u32, count);
        let runs: Vec<_> = self.members.iter().map(|members| of_size(members.len())).collect();
        let groups = self.clone();
        let domain = |rank| runs[groups.of(rank) as usize].of(groups.place_within(rank).rank);
        self.with_sides(|rank| Some(domain(rank))).with_domains(|rank| Some(domain(rank)))
    }

    /// As unlike each other as groups and their domains can be, some of one rank; the second group is one domain.
    pub fn scattered_in_domains(p: u32) -> Groups {
        let groups = Groups::scattered(p);
        let domains: Vec<_> =
            (0..p).map(|rank| (groups.of(rank) != 1).then_some(rank % 3 * rank % 4)).collect();
        groups.with_sides(|rank| domains[rank as usize]).with_domains(|rank| domains[rank as usize])
    }

    /// What goes by domains takes for groups: these, each divided; or, where all ranks are in one, its domains. None
    /// where there are no domains, or none of several ranks.
    pub fn by_domains(&self) -> Option<&Arc<Groups>> {
        self.by_domains.as_ref()
    }

    /// The domains of a group, where it is gone through by these.
    pub fn divided(&self, group: u32) -> Option<&Arc<Groups>> {
        self.divided.get(group as usize)
    }

    /// `⌈log₂ d⌉` and `⌈log₂ j⌉` of the d domains of the group that has most, and the j ranks of the largest domain,
    /// where groups are gone through by domains.
    pub fn rounds_of_domains(&self) -> Option<(u32, u32)> {
        let most = |rounds: fn(&Groups) -> u32| self.divided.iter().map(|domains| rounds(domains)).max();
        most(|domains| domains.graph_among().skips().rounds()).zip(most(Groups::rounds_within))
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.group_of.len() as u32
    }

    /// How many groups there are.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// Whether there are several groups, and one of several ranks.
    pub fn is_nested(&self) -> bool {
        self.count() > 1 && self.count() < self.ranks()
    }

    /// Whether they are nested, and all have as many ranks.
    pub fn are_equal(&self) -> bool {
        self.is_nested() && self.members.iter().all(|members| members.len() == self.members[0].len())
    }

    /// The ranks by their places in their groups: the first ones of all groups, the second ones, and so on.
    pub fn lanes(&self) -> &Arc<Groups> {
        let index = |rank| self.place_within(rank).rank;
        self.lanes.get_or_init(|| Arc::new(Groups::new((0..self.ranks()).map(index))))
    }

    /// The group of a rank. Panics beyond the last rank.
    pub fn of(&self, rank: Rank) -> u32 {
        self.group_of[rank as usize]
    }

    /// The ranks of a group, rising.
    pub fn members(&self, group: u32) -> &Arc<[Rank]> {
        &self.members[group as usize]
    }

    /// A rank's place in its group.
    pub fn place_within(&self, rank: Rank) -> Place {
        let members = self.members(self.of(rank));
        let index = members.partition_point(|&member| member < rank);
        Place { rank: index as Rank, size: members.len() as u32 }
    }

    /// Of `of` ranks that speak for a group, the place in it of number `which`: so many behind the rank at place `first`, on the
    /// circle of its ranks. Where their sides are known they are of as many of these as can be, and of fewer than there are far apart.
    /// O(1), with sides O(k log k) for k ranks.
    pub fn in_turn(&self, group: u32, first: Rank, which: u32, of: u32) -> Rank {
        let members = self.members(group);
        let size = members.len() as u32;
        let side = |place: Rank| self.sides.get(members[place as usize] as usize).copied().flatten();
        if self.sides.is_empty() || which == 0 {
            return (first + which) % size;
        }
        // The first rank of each side, side by side from the first rank's on; the second one of each, and so on.
        let mut heard = BTreeMap::new();
        let mut turn = |place: Rank| {
            let turn = heard.entry(side(place)).or_insert(0);
            *turn += 1;
            (*turn, side(place) < side(first), side(place), place)
        };
        let mut turns: Vec<_> = (0..size).map(|step| turn((first + step) % size)).collect();
        turns.sort_unstable();
        let sides = heard.len() as u32;
        let next =
            if of < sides { u64::from(which) * u64::from(sides) / u64::from(of) } else { which.into() };
        turns[(next % u64::from(size)) as usize].3
    }

    /// What each group's ranks have together.
    pub fn sums(&self, of: impl Fn(Rank) -> usize) -> Vec<usize> {
        self.members.iter().map(|members| members.iter().map(|&rank| of(rank)).sum()).collect()
    }

    /// How many ranks the largest group has.
    pub fn largest(&self) -> u32 {
        self.largest
    }

    /// `⌈log₂ k⌉` of the largest group's k ranks.
    pub fn rounds_within(&self) -> u32 {
        self.rounds_within
    }

    /// The circulant graph whose ranks are the groups.
    pub fn graph_among(&self) -> &Arc<Graph> {
        &self.among
    }

    /// The circulant graph of one group's ranks.
    pub fn graph_within(&self, group: u32) -> &Arc<Graph> {
        let size = self.members(group).len() as u32;
        self.within[group as usize].get_or_init(|| Arc::new(Graph::new(size)))
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.members.iter().map(|members| members.len().to_string()).collect();
        write!(f, "groups of {}", sizes.join(", "))?;
        match self.by_domains() {
            None => Ok(()),
            Some(one) if one.divided.is_empty() => write!(f, " in domains, {one}"),
            Some(groups) => {
                groups.divided.iter().try_for_each(|domains| write!(f, "; in domains, {domains}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_found_where_it_belongs() {
        let groups = Groups::new(["b", "a", "b", "c", "a", "b"]);
        assert_eq!((groups.count(), groups.largest(), groups.rounds_within()), (3, 3, 2));
        assert_eq!((0..6).map(|rank| groups.of(rank)).collect::<Vec<_>>(), [0, 1, 0, 2, 1, 0]);
        assert_eq!(groups.place_within(5), Place { rank: 2, size: 3 });
        assert_eq!(**groups.members(1), [1, 4]);
        assert_eq!(
            (0..3).map(|lane| groups.lanes().members(lane).to_vec()).collect::<Vec<_>>(),
            [vec![0, 1, 3], vec![2, 4], vec![5]]
        );
    }

    #[test]
    fn groups_are_nested_where_some_ranks_share_one_and_others_do_not() {
        let nested = |groups: Groups| groups.is_nested();
        assert!(!nested(Groups::alone(5)) && !nested(Groups::runs(5, 1)) && !nested(Groups::alone(1)));
        assert!(nested(Groups::runs(5, 2)) && nested(Groups::scattered(5)));
        assert!(Groups::runs(6, 3).are_equal() && !Groups::runs(5, 3).are_equal());
    }

    #[test]
    fn domains_divide_their_groups_where_there_are_several_and_one_of_several_ranks() {
        let of = |nodes, domain: fn(Rank) -> Option<u32>| Groups::runs(8, nodes).with_domains(domain);
        let groups = of(2, |rank| Some(rank / 2));
        let by_domains = groups.by_domains().unwrap();
        assert_eq!((by_domains.count(), by_domains.rounds_of_domains()), (2, Some((1, 1))));
        let second = by_domains.divided(1).unwrap();
        assert_eq!(
            (0..2).map(|domain| second.members(domain).to_vec()).collect::<Vec<_>>(),
            [[0, 1], [2, 3]]
        );
        assert!(groups.divided(1).is_none(), "only what goes by domains sees them");
        assert_eq!(
            groups.to_string(),
            "groups of 4, 4; in domains, groups of 2, 2; in domains, groups of 2, 2"
        );
        let one = of(1, |rank| Some(rank / 4));
        assert_eq!(one.by_domains().unwrap().to_string(), "groups of 4, 4");
        assert_eq!(one.to_string(), "groups of 8 in domains, groups of 4, 4");
        assert!(of(2, Some).by_domains().is_none(), "each is alone in its domain");
        assert!(of(2, |_| Some(0)).by_domains().is_none() && of(2, |_| None).by_domains().is_none());
    }

    #[test]
    fn several_that_speak_for_a_group_are_on_different_sides() {
        let leaders = |groups: &Groups, first, of| {
            (0..of).map(|which| groups.in_turn(0, first, which, of)).collect::<Vec<_>>()
        };
        let nodes = || Groups::runs(12, 2);
        assert_eq!(leaders(&nodes(), 4, 4), [4, 5, 0, 1]);
        let packages = nodes().with_sides(|rank| Some(rank / 3)).with_domains(Some);
        assert_eq!((leaders(&packages, 0, 4), leaders(&packages, 4, 2)), (vec![0, 3, 1, 4], vec![4, 0]));
        let caches = nodes().with_sides(|rank| Some(rank / 3)).with_domains(|rank| Some(rank / 2));
        assert_eq!(leaders(caches.by_domains().unwrap(), 4, 4), [4, 0, 5, 1], "whatever its domains are");
        let by_turns = nodes().with_sides(|rank| Some(rank % 2));
        assert_eq!(leaders(&by_turns, 0, 4), [0, 1, 2, 3]);
        // Two packages of four sides each, ranks in their order and by turns.
        let sides: [fn(Rank) -> u32; 2] = [|rank| rank / 2, |rank| rank % 2 * 4 + rank / 2 % 4];
        let [runs, turns] = sides.map(|side| Groups::runs(16, 1).with_sides(|rank| Some(side(rank))));
        assert_eq!((leaders(&runs, 0, 2), leaders(&runs, 5, 2)), (vec![0, 8], vec![5, 12]));
        assert_eq!((leaders(&turns, 0, 2), leaders(&turns, 3, 2)), (vec![0, 1], vec![3, 10]));
        assert_eq!(leaders(&runs, 0, 8), [0, 2, 4, 6, 8, 10, 12, 14]);
        let half_known = nodes().with_sides(|rank| (rank > 2).then_some(0));
        assert_eq!(leaders(&half_known, 0, 4), [0, 3, 1, 4]);
        assert_eq!(leaders(&Groups::runs(3, 1), 1, 4), [1, 2, 0, 1], "there are no more");
    }

    #[test]
    fn a_group_of_which_a_rank_has_no_domain_is_one() {
        let groups = Groups::runs(8, 2).with_domains(|rank| (rank != 1).then_some(rank / 2));
        let by_domains = groups.by_domains().unwrap();
        assert_eq!([0, 1].map(|group| by_domains.divided(group).unwrap().count()), [1, 2]);
    }
}
