//! What is chosen, rule by rule.

use super::*;
use crate::engine::notice::MAX_BLOCKS;
use crate::engine::staging::STAGES;

const FREE: u64 = u64::MAX;

fn whole(bytes: u64, p: u32) -> Problem {
    Problem {
        collective: Collective::Broadcast,
        p,
        unit: 1,
        bytes,
        largest: bytes,
        around: Around::uncut(bytes),
        commutes: true,
        all_wide: true,
        apart: true,
        of_nodes: false,
        nodes: None,
        domains: None,
        leaders: 1,
    }
}

fn parts(p: u32, counts: &[usize]) -> Problem {
    let bytes = counts.iter().sum::<usize>() as u64;
    let largest = *counts.iter().max().unwrap() as u64;
    Problem {
        collective: Collective::Allgatherv,
        bytes,
        largest,
        around: Around::parts(counts, 1),
        ..whole(0, p)
    }
}

#[test]
fn no_block_is_larger_than_a_put_may_be() {
    for p in [2, 3, 16, 1000] {
        let blocks = whole(10 << 30, p).blocks_of_whole(&Costs::default(), 1 << 20);
        assert!((10u64 << 30).div_ceil(blocks.into()) <= 1 << 20, "{p}: {blocks}");
    }
}

#[test]
fn blocks_grow_with_the_root_of_the_size() {
    let costs = Costs { latency: 1e-5, byte: 1e-9, block: 1e-5, crowd: 1.0, shared: false };
    let blocks = |bytes| whole(bytes, 16).blocks_of_whole(&costs, FREE);
    assert_eq!(blocks(4096), 1);
    let (one, four) = (blocks(1 << 24), blocks(1 << 26));
    assert!(one > 10 && four > 2 * one - 4, "{one} {four}");
}

#[test]
fn short_vectors_are_cut_smaller_than_a_packet_s_worth_where_processors_keep_up() {
    let link = |crowd| Costs { latency: 2.2e-5, byte: 7e-8, block: 4.4e-6, crowd, shared: false };
    let blocks = |p, kib: u64, costs| whole(kib << 10, p).blocks_of_whole(&costs, FREE);
    let sizes = [4, 8, 16, 32, 64, 256];
    assert_eq!(sizes.map(|kib| blocks(8, kib, link(4.0))), [1, 4, 7, 10, 13, 49]);
    assert_eq!(sizes.map(|kib| blocks(16, kib, link(8.0))), [1, 5, 5, 9, 13, 49]);
    let one_has_all = parts(8, &[8 << 10, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(one_has_all.blocks_of_parts(&link(4.0)), 4, "it is its broadcast");
    let of_nodes = |kib: u64| Problem { of_nodes: true, ..whole(kib << 10, 8) };
    assert_eq!(
        [8, 16, 32].map(|kib| of_nodes(kib).blocks_of_whole(&link(16.0), FREE)),
        [1, 4, 7],
        "leaders are fewer"
    );
    let slower = |crowd| Costs { byte: 1.4e-7, ..link(crowd) };
    assert_eq!(sizes.map(|kib| blocks(36, kib, slower(18.0))), [1, 7, 7, 7, 13, 37], "many pay for each");
    assert_eq!([8, 12].map(|kib| blocks(8, kib, link(1.0))), [1, 19], "a slot's worth is not cut");
    assert_eq!([12, 32].map(|kib| blocks(8, kib, link(100.0))), [1, 4], "a block costs more than it saves");
    assert_eq!([12, 32].map(|kib| blocks(8, kib, Costs::default())), [1, 4], "links that are quick");
    let large = Problem { unit: 8 << 10, ..whole(8 << 10, 8) };
    assert_eq!(large.blocks_of_whole(&link(4.0), FREE), 1, "one element");
}

#[test]
fn short_parts_that_differ_are_cut_where_processors_keep_up() {
    let link = |crowd| Costs { latency: 5e-5, byte: 7e-8, block: 1e-5, crowd, shared: false };
    let name = |p: u32, unit: usize, costs| {
        let counts: Vec<_> = (0..p as usize).map(|rank| rank % 3 * unit).collect();
        let problem = parts(p, &counts);
        let entry = problem.algorithm(&costs).unwrap();
        (entry.name, problem.blocks(entry, &costs, FREE))
    };
    assert_eq!((name(7, 2340, link(4.0)), name(7, 1200, link(4.0))), (("circulant-n", 4), ("circulant", 1)));
    assert_eq!(name(17, 2340, link(8.0)), ("circulant", 1), "processors are what a round waits for");
    assert_eq!(name(7, 2340, Costs::default()), ("circulant", 1));
}

#[test]
fn whole_parts_that_differ_go_in_aligned_halves_where_there_are_such() {
    let link = Costs { latency: 5e-5, byte: 7e-8, block: 1e-5, crowd: 8.0, shared: false };
    let name = |p: usize, bytes: usize| {
        let counts: Vec<_> = (0..p).map(|rank| rank % 3 * (bytes / p)).collect();
        parts(p as u32, &counts).algorithm(&link).unwrap().name
    };
    assert_eq!([8, 16, 32].map(|p| name(p, 12 << 10)), ["hypercube"; 3]);
    assert_eq!([12, 17, 33].map(|p| name(p, 12 << 10)), ["circulant"; 3]);
}

#[test]
fn who_asks_for_blocks_of_parts_gets_an_algorithm_that_has_some_whatever_a_put_costs() {
    let memory = Costs { latency: 1e-6, byte: 5e-11, block: 2e-7, crowd: 4.0, shared: true };
    let link = Costs { latency: 5e-5, byte: 7e-8, block: 1e-5, crowd: 8.0, shared: false };
    for collective in [Collective::ReduceScatter, Collective::Allgatherv] {
        for costs in [memory, link, Costs::default()] {
            for counts in [[0, 9000, 20, 9000], [0, 1 << 20, 20, 9], [5; 4]] {
                let problem = Problem { collective, ..parts(4, &counts) };
                let chosen = |blocks| problem.algorithm_in_blocks(blocks, &costs).unwrap();
                assert!(chosen(2).pipelined, "{collective:?} of {counts:?}");
                assert_eq!(chosen(1).name, problem.flat(&costs).unwrap().name, "one block is a whole part");
            }
        }
    }
}

#[test]
fn parts_stay_whole_where_ranks_share_few_cores_and_memory() {
    let memory = |crowd| Costs { latency: 1e-6, byte: 5e-11, block: 2e-7, crowd, shared: true };
    let name = |collective, p: usize, bytes: usize, costs| {
        // One rank has all but a byte of each other: so many have a part that none are left out.
        let counts = (0..p).map(|rank| if rank == 1 { bytes - (p - 1) } else { 1 });
        let problem = Problem { collective, ..parts(p as u32, &counts.collect::<Vec<_>>()) };
        let entry = problem.algorithm(&costs).unwrap();
        (entry.name, problem.blocks(entry, &costs, FREE) > 1)
    };
    let scatter = |p, bytes, costs| name(Collective::ReduceScatter, p, bytes, costs);
    let gather = |p, bytes, costs| name(Collective::Allgatherv, p, bytes, costs);
    let (whole, cut) = (("circulant", false), ("circulant-n", true));
    assert_eq!(
        [16 << 10, (16 << 10) + 1].map(|m| scatter(6, m, memory(3.0))),
        [cut, whole],
        "a slot's worth"
    );
    assert_eq!([4 << 20, (4 << 20) + 1].map(|m| scatter(6, m, memory(3.0))), [whole, cut], "as measured");
    assert_eq!([64 << 10, (64 << 10) + 1].map(|m| gather(6, m, memory(3.0))), [whole, cut], "as measured");
    assert_eq!([64 << 10, (64 << 10) + 1].map(|m| scatter(8, m, memory(4.0)).0), ["circulant", "hypercube"]);
    assert_eq!([6, 7].map(|p| scatter(p, 1 << 20, memory(3.0))), [whole, cut], "on two cores, and more");
    assert_eq!(
        [2.0, 1.9].map(|crowd| scatter(4, 1 << 20, memory(crowd)).1),
        [false, true],
        "two ranks a core"
    );
    assert_eq!([3, 8].map(|p| scatter(p, 1 << 20, memory(1.0)).1), [true; 2], "every rank has a core");
    assert!(scatter(3, 1 << 20, memory(3.0)).1, "three ranks");
}

#[test]
fn whole_parts_that_differ_go_in_slots_where_the_heaviest_half_fits_one() {
    let costs = Costs { latency: 1e-4, byte: 8e-8, block: 1e-5, crowd: 1.0, shared: false };
    let entry = catalogue::named(Collective::Allgatherv, "circulant").unwrap();
    let in_slots = |counts: &[usize]| parts(4, counts).is_small(entry, 1, &costs);
    assert!(in_slots(&[9000, 7000, 9000, 7000]), "two of 9000 never travel together");
    assert!(!in_slots(&[9000, 9000, 7000, 7000]));
}

/// By where a block ends sums differ in rounding; so who says how many blocks there are has the same ones in every job.
#[test]
fn blocks_that_are_asked_for_end_where_no_cost_decides() {
    let entry = catalogue::named(Collective::Broadcast, "circulant").unwrap();
    let ends = |given| {
        let costs = [1e-5, 1.5e-4, 1.7e-4, 1e-3].map(|latency| Costs {
            latency,
            byte: 8e-8,
            block: 0.2 * latency,
            crowd: 1.0,
            shared: false,
        });
        let lasts = |blocks| costs.map(|costs| whole(16 << 10, 4).last_block(entry, blocks, given, &costs));
        (1..9).map(lasts).collect::<Vec<_>>()
    };
    assert!(ends(true).into_iter().flatten().all(|last| last == last_block(entry)));
    assert!(ends(false).into_iter().any(|lasts| lasts[0] != lasts[3]), "costs decide else");
}

#[test]
fn two_ranks_need_one_block() {
    assert_eq!(whole(1 << 30, 2).blocks_of_whole(&Costs::default(), FREE), 1);
    assert_eq!(whole(1 << 30, 1).blocks_of_whole(&Costs::default(), FREE), 1);
}

#[test]
fn equal_parts_are_not_cut_and_one_rank_with_all_is_a_broadcast() {
    let costs = Costs { latency: 1e-5, byte: 1e-8, block: 1e-6, crowd: 1.0, shared: false };
    assert_eq!(parts(16, &[1 << 20; 16]).blocks_of_parts(&costs), 1);
    let mut one = [0; 16];
    one[3] = 16 << 20;
    let (part, vector) = (parts(16, &one).blocks_of_parts(&costs), whole(16 << 20, 16));
    let broadcast = vector.blocks_of_whole(&costs, FREE);
    assert!(part > broadcast * 9 / 10 && part <= broadcast, "{part} {broadcast}");
}

#[test]
fn the_ring_is_for_crowds_and_for_parts_that_differ() {
    let alone = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0, shared: false };
    let crowd = Costs { crowd: 18.0, ..alone };
    let name = |counts: &[usize], costs| parts(36, counts).algorithm(costs).unwrap().name;
    let even = [30_000; 36];
    assert_eq!((name(&even, &alone), name(&even, &crowd)), ("circulant", "ring"));
    assert_eq!((name(&[1000; 36], &crowd), name(&[10; 36], &alone)), ("circulant", "circulant"));
    let irregular: Vec<usize> = (0..36).map(|rank| rank % 3 * 30_000).collect();
    assert_eq!((name(&irregular, &alone), name(&irregular, &crowd)), ("ring-n", "ring-n"));
    let mut one = [0; 36];
    one[7] = 1 << 20;
    assert_eq!((name(&one, &alone), name(&one, &crowd)), ("circulant-n", "circulant-n"));
    let neighbours: Vec<usize> = (0..36).map(|rank| if rank < 6 { 180_000 } else { 0 }).collect();
    assert_eq!(name(&neighbours, &alone), "circulant-n");
    let problem = parts(36, &irregular);
    let (entry, blocks) = (problem.algorithm(&alone).unwrap(), problem.blocks_on_ring(&alone));
    assert_eq!((problem.blocks(entry, &alone, FREE), blocks, last_block(entry)), (2, 2, 256));
}

#[test]
fn short_calls_of_ranks_that_share_cores_go_by_a_tree() {
    use Collective::{
        Allgather, Allreduce, Broadcast, Gather, Reduce, ReduceScatter, ReduceScatterBlock, Scatter,
    };
    let crowd = Costs { latency: 5e-5, byte: 8e-8, block: 1e-5, crowd: 4.0, shared: false };
    let name = |collective, bytes: u64, costs: Costs| {
        Problem { collective, largest: bytes / 8, ..whole(bytes, 8) }.algorithm(&costs).unwrap().name
    };
    for collective in [Broadcast, Allreduce, Allgather, ReduceScatter, ReduceScatterBlock] {
        assert_eq!([0, 1024, 2048].map(|bytes| name(collective, bytes, crowd)), ["mst"; 3]);
        let others =
            [(4096, crowd), (1024, Costs { crowd: 1.5, ..crowd }), (4104, Costs { byte: 1e-9, ..crowd })];
        assert!(others.iter().all(|&(bytes, costs)| name(collective, bytes, costs) != "mst"));
        assert_eq!(name(collective, 4096, Costs { byte: 1e-9, ..crowd }), "mst");
    }
    assert_eq!(name(Reduce, 1024, crowd), "circulant", "it has as few messages");
    assert_eq!(
        [Scatter, Gather].map(|collective| name(collective, 1024, crowd)),
        ["mst", "linear"],
        "few are collected straight"
    );
    assert_eq!(parts(8, &[0, 900, 0, 100, 0, 0, 0, 0]).algorithm(&crowd).unwrap().name, "circulant-n");
    assert_eq!(parts(8, &[10, 90, 0, 100, 10, 9, 0, 50]).algorithm(&crowd).unwrap().name, "mst");

    let together = Problem { apart: false, ..whole(64, 8) };
    assert_eq!(together.algorithm(&crowd).unwrap().name, "circulant");
    assert_eq!(whole(64, 8).algorithm_in_blocks(1, &crowd).unwrap().name, "circulant", "a tree takes one");

    let of = |apart, shared, ranks| barrier(false, apart, &Costs { shared, crowd: ranks, ..crowd });
    assert_eq!([1.0, 2.0, 4.0].map(|ranks| of(true, false, ranks)), ["circulant", "circulant", "mst"]);
    assert_eq!([1.0, 8.0, 16.5].map(|ranks| of(false, true, ranks)), ["circulant", "circulant", "mst"]);
    assert_eq!(of(false, false, 16.5), "circulant", "some share a node of several, or nobody knows");
    assert_eq!(barrier(true, false, &crowd), "leader");
}

#[test]
fn the_ring_is_taken_where_being_out_of_step_costs_more_than_its_further_rounds() {
    let link = |crowd| Costs { latency: 3e-5, byte: 7e-8, block: 6e-6, crowd, shared: false };
    let name = |p: usize, kib: usize, costs: Costs| {
        parts(p as u32, &vec![(kib << 10) / p; p]).algorithm(&costs).unwrap().name
    };
    assert_eq!([16, 32, 128].map(|kib| name(7, kib, link(4.0))), ["circulant", "circulant", "ring"]);
    assert_eq!([32, 64].map(|kib| name(17, kib, link(8.0))), ["circulant", "ring"]);
    let slow = Costs { latency: 3.5e-5, ..link(4.0) };
    assert_eq!([32, 64].map(|kib| name(8, kib, slow)), ["hypercube", "ring"]);
    assert_eq!(name(17, 64, link(3.0)), "circulant", "though a part is on the link for longer than a hop");
    let memory = Costs { latency: 2e-6, byte: 1e-10, block: 4e-7, crowd: 8.0, shared: true };
    assert_eq!(name(17, 1 << 20, memory), "circulant", "all wait for processors");
}

#[test]
fn parts_of_one_size_are_exchanged_where_ranks_share_cores_and_have_partners() {
    let link = |crowd| Costs { latency: 3e-5, byte: 7e-8, block: 6e-6, crowd, shared: false };
    let even = |p: usize, kib: usize| parts(p as u32, &vec![(kib << 10) / p; p]);
    let name = |p, kib, crowd| even(p, kib).algorithm(&link(crowd)).unwrap().name;
    assert_eq!([8, 16, 128].map(|kib| name(8, kib, 4.0)), ["hypercube", "hypercube", "ring"]);
    assert_eq!([(8, 2.0), (7, 4.0), (12, 8.0)].map(|(p, crowd)| name(p, 16, crowd)), ["circulant"; 3]);
    let together = Problem { apart: false, ..even(8, 16) };
    assert_eq!(together.algorithm(&link(4.0)).unwrap().name, "circulant");
    let in_order = Problem { collective: Collective::ReduceScatterBlock, commutes: false, ..even(8, 16) };
    assert!(in_order.algorithm(&link(4.0)).unwrap().ordered);
}

#[test]
fn parts_that_few_have_leave_the_others_out_however_short_they_are() {
    let name = |counts: &[usize]| {
        let problem = parts(counts.len() as u32, counts);
        let entry = problem.algorithm(&Costs::default()).unwrap();
        (entry.name, problem.blocks(entry, &Costs::default(), FREE))
    };
    assert_eq!((name(&[8, 0]), name(&[0, 0, 8])), (("circulant-n", 1), ("circulant-n", 1)));
    assert_eq!(name(&[0, 8, 0, 8, 0, 0, 8, 0]), ("circulant-n", 1));
    assert_eq!(name(&[8, 8, 0, 8, 0, 0, 8]), ("circulant", 1), "each rank makes as many puts either way");
    assert_eq!((name(&[8, 8]), name(&[0; 8])), (("circulant", 1), ("circulant", 1)));
    assert_eq!(name(&[1 << 20, 0]), ("circulant-n", 1), "of two always");
}

#[test]
fn parts_that_differ_are_cut_on_the_ring_until_empty_neighbours_no_longer_count() {
    let link = |crowd| Costs { latency: 4e-5, byte: 7e-8, block: 8e-6, crowd, shared: false };
    let name = |p: usize, bytes: usize, costs| {
        let counts: Vec<_> = (0..p).map(|rank| rank % 3 * (bytes / p)).collect();
        let problem = parts(p as u32, &counts);
        let entry = problem.algorithm(&costs).unwrap();
        (entry.name, problem.blocks(entry, &costs, FREE))
    };
    // Of 7 and 16 ranks the first and the last have nothing, of 8 no two neighbours.
    assert_eq!([80_000, 350_000, 4 << 20].map(|m| name(7, m, link(3.5)).1), [3, 12, 48]);
    assert_eq!([80_000, 350_000, 4 << 20].map(|m| name(8, m, link(4.0)).1), [3, 6, 6]);
    assert_eq!(
        [250_000, 1 << 20, 4 << 20].map(|m| name(16, m, link(8.0)).1),
        [3, 6, 12],
        "messages cost more"
    );
    assert_eq!([7, 8, 16].map(|p| name(p, 1 << 20, link(4.0)).0), ["ring-n"; 3]);
    let shared = |crowd| Costs { latency: 1e-6, byte: 5e-11, block: 2e-7, crowd, shared: false };
    assert_eq!([1.0, 4.0].map(|crowd| name(8, 4 << 20, shared(crowd))), [("ring-n", 6), ("ring-n", 3)]);
    assert_eq!(name(4, 16 << 20, shared(2.0)).0, "circulant-n", "no link waits where processors copy");
}

#[test]
fn where_ranks_share_nodes_leaders_do_what_the_nodes_would() {
    let alone = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0, shared: false };
    let crowd = Costs { crowd: 16.0, ..alone };
    let on_nodes = |problem: Problem| {
        let (largest, around) = (problem.bytes / 8, Around::uncut(problem.bytes / 2));
        let nodes = Nodes { count: 8, most: 4, largest, around, equal: true };
        Problem { nodes: Some(nodes), ..problem }
    };
    let allreduce = |bytes| on_nodes(Problem { collective: Collective::Allreduce, ..whole(bytes, 32) });
    let name = |problem: Problem, costs| problem.algorithm(costs).unwrap().name;
    assert_eq!(name(allreduce(8), &alone), "leader-doubling");
    assert_eq!(name(allreduce(4 << 20), &alone), "leader");
    assert_eq!(name(allreduce(4 << 20), &crowd), "leader-ring");
    assert_eq!(name(on_nodes(parts(32, &[100_000; 32])), &crowd), "leader-ring");
    let ordered = Problem { commutes: false, ..allreduce(4 << 20) };
    assert_eq!(name(ordered, &alone), "mst", "its order is the ranks'");

    let broadcast = on_nodes(whole(4 << 20, 32));
    let entry = broadcast.algorithm(&crowd).unwrap();
    let blocks = broadcast.blocks(entry, &crowd, FREE);
    assert_eq!((entry.name, blocks), ("leader", whole(4 << 20, 8).blocks_of_whole(&crowd, FREE)));
    assert_eq!(broadcast.chunk(entry, blocks, &alone), 1);
    let parcels = |problem: Problem| {
        let entry = problem.algorithm(&crowd).unwrap();
        let blocks = problem.blocks(entry, &crowd, FREE);
        let rounds = if entry.name == "leader-ring" { 8 * blocks } else { blocks };
        rounds.div_ceil(problem.chunk(entry, blocks, &crowd))
    };
    let vectors = [192 << 10, 512 << 10].map(|bytes| parcels(on_nodes(whole(bytes, 32))));
    assert_eq!((vectors, parcels(broadcast)), ([7, 19], 46), "of 24 KiB or more, of whole blocks");
    assert_eq!(parcels(on_nodes(parts(32, &[100_000; 32]))), 8);
    let by_four = Problem { leaders: 4, ..on_nodes(whole(1 << 20, 32)) };
    let entry = by_four.algorithm(&crowd).unwrap();
    let blocks = by_four.blocks(entry, &crowd, FREE);
    assert_eq!((blocks / 4).div_ceil(by_four.chunk(entry, blocks, &crowd)), 10, "of a quarter each");
}

#[test]
fn domains_are_gone_by_where_the_user_says_so_and_a_vector_is_longer_than_a_slot() {
    let costs = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0, shared: false };
    let nodes =
        |count| Nodes { count, most: 4, largest: 4 << 20, around: Around::uncut(4 << 20), equal: true };
    let problem = |wanted, bytes, collective| Problem {
        collective,
        nodes: Some(nodes(8)),
        domains: Some(Divided { nodes: nodes(8), wanted }),
        ..whole(bytes, 32)
    };
    let name = |problem: Problem| problem.algorithm(&costs).unwrap().name;
    for collective in [Collective::Broadcast, Collective::Allreduce, Collective::Allgather] {
        assert!(!name(problem(false, 4 << 20, collective)).contains("domains"), "nobody has measured it");
        assert_eq!(name(problem(true, 4 << 20, collective)), "leader-domains");
        assert!(!name(problem(true, SMALL, collective)).contains("domains"));
    }
    let ordered = Problem { commutes: false, ..problem(true, 4 << 20, Collective::Allreduce) };
    assert_eq!(name(ordered), "mst");

    let one_node = Problem {
        nodes: None,
        domains: Some(Divided { nodes: nodes(2), wanted: true }),
        ..problem(true, 4 << 20, Collective::Broadcast)
    };
    let entry = one_node.algorithm(&costs).unwrap();
    let among_domains = whole(4 << 20, 2).blocks_of_whole(&costs, FREE);
    assert_eq!((entry.name, one_node.blocks(entry, &costs, FREE)), ("leader-domains", among_domains));
}

#[test]
fn each_leader_s_share_is_cut_as_a_vector_of_its_own() {
    let costs = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0, shared: false };
    let nodes = Nodes { count: 8, most: 4, largest: 4 << 20, around: Around::uncut(4 << 20), equal: true };
    let led_by = |leaders, bytes| Problem { nodes: Some(nodes), leaders, ..whole(bytes, 32) };
    let entry = catalogue::named(Collective::Broadcast, "leader").unwrap();
    let blocks = |leaders, bytes| led_by(leaders, bytes).blocks(entry, &costs, FREE);
    assert_eq!(blocks(4, 4 << 20), 4 * whole(1 << 20, 8).blocks_of_whole(&costs, FREE));
    assert_eq!((blocks(4, SMALL), led_by(4, SMALL).leaders(entry)), (1, 1));
    let lanes = catalogue::named(Collective::Allreduce, "lanes").unwrap();
    assert_eq!(led_by(4, 4 << 20).leaders(lanes), 1, "it has its own");
    assert_eq!(blocks(u32::MAX, 4 << 20), blocks(4, 4 << 20), "a node has four ranks");
    let domains = Some(Divided { nodes: Nodes { most: 2, ..nodes }, wanted: true });
    let one_node = Problem { nodes: None, domains, ..led_by(4, 4 << 20) };
    let by_domains = catalogue::named(Collective::Broadcast, "leader-domains").unwrap();
    assert_eq!(one_node.leaders(by_domains), 2, "a domain has two");
}

#[test]
fn an_all_to_all_goes_by_leaders_where_blocks_are_short_and_nodes_are_shared() {
    let costs = Costs { latency: 2e-5, byte: 1e-9, block: 4e-6, crowd: 1.0, shared: false };
    let name = |g: u32, k: u32, part: u64, costs| {
        let (p, largest) = (g * k, part * u64::from(k * k));
        let nodes = Nodes { count: g, most: k, largest, around: Around::uncut(largest), equal: true };
        let bytes = part * u64::from(p);
        let nodes = (k > 1).then_some(nodes);
        let problem = Problem {
            collective: Collective::Alltoall,
            largest: part,
            nodes,
            apart: k == 1,
            ..whole(bytes, p)
        };
        problem.algorithm(costs).unwrap().name
    };
    assert_eq!((name(8, 8, 64, &costs), name(16, 4, 8, &costs)), ("leader", "leader"));
    assert_eq!(name(48, 1, 64, &costs), "two-phase", "no node is shared");
    assert_eq!(
        name(8, 8, 16 << 10, &costs),
        "ring",
        "16 KiB are on the link as long either way, and copied besides"
    );
    assert_eq!(name(2, 2, 8, &costs), "ring", "there are few messages to save");
    assert_eq!(
        name(3, 32, 1000, &costs),
        "ring",
        "there are few nodes, and what crosses is on the link as long either way"
    );
    let slow_copies = Costs { crowd: 8.0, latency: 5e-8, byte: 1e-12, block: 1e-8, shared: false };
    assert_eq!(name(8, 8, 2048, &slow_copies), "ring", "messages cost less than copies");
}

#[test]
fn ranks_that_share_cores_and_memory_go_where_few_have_to_be_woken() {
    use Collective::{Allgather, Allreduce, Alltoall, Broadcast, Gather, Reduce, Scatter};
    let name = |collective, bytes: u64, crowd| {
        let costs = Costs { latency: 2e-6, byte: 2e-10, block: 5e-7, crowd, shared: true };
        let problem = Problem { collective, largest: bytes / 8, apart: false, ..whole(bytes, 8) };
        problem.algorithm(&costs).unwrap().name
    };
    let names =
        |collective, crowd| [256, 16 << 10, 64 << 10, 1 << 20].map(|bytes| name(collective, bytes, crowd));
    for collective in [Broadcast, Allreduce] {
        assert_eq!(names(collective, 4.0).map(|name| name == "mst"), [false, false, true, false]);
        assert_eq!(names(collective, 16.0), ["mst"; 4]);
        assert!(!names(collective, 1.0).contains(&"mst"));
    }
    let longest_by_tree = |collective, crowd| {
        (10..25).map(|i| 1 << i).filter(|&bytes| name(collective, bytes, crowd) == "mst").max().unwrap_or(0)
    };
    // Eight ranks have a tree of three steps, for which two ranks to a core have not enough to do.
    for (collective, longest) in [
        (Broadcast, [0, 64 << 10, 256 << 10, 256 << 10, 1 << 20]),
        (Reduce, [0, 64 << 10, 4 << 20, 4 << 20, 4 << 20]),
        (Allreduce, [0, 64 << 10, 64 << 10, 128 << 10, 1 << 20]),
        (Allgather, [0, 0, 0, 0, 256 << 10]),
    ] {
        assert_eq!([1.0, 2.0, 4.0, 8.0, 16.0].map(|crowd| longest_by_tree(collective, crowd)), longest);
    }
    for collective in [Broadcast, Reduce] {
        let short = |crowd| [0, 256, 16 << 10].map(|bytes| name(collective, bytes, crowd));
        assert_eq!((short(1.0), short(2.0), short(8.0)), (["circulant"; 3], ["linear"; 3], ["linear"; 3]));
    }
    assert_eq!((names(Broadcast, 16.0)[0], names(Reduce, 16.0)[0]), ("mst", "linear"));
    assert!(!names(Allgather, 4.0).contains(&"mst"));
    assert_eq!(names(Alltoall, 4.0), ["ring"; 4]);
    assert_eq!(names(Gather, 4.0), ["linear"; 4]);
    assert_eq!(names(Gather, 16.0), ["linear"; 4]);
    assert_eq!(names(Scatter, 16.0), ["mst", "linear", "linear", "linear"]);
    assert_eq!([Gather, Scatter].map(|collective| name(collective, 256, 1.0)), ["mst"; 2]);
}

#[test]
fn how_many_ranks_that_share_cores_and_memory_go_straight_and_what_else_hangs_on_more_than_the_crowd() {
    use Collective::{
        Allgather, Allgatherv, Allreduce, Broadcast, Reduce, ReduceScatter, ReduceScatterBlock,
    };
    let memory = |crowd| Costs { latency: 2e-6, byte: 2e-10, block: 5e-7, crowd, shared: true };
    let call = |collective, bytes, p| Problem { collective, apart: false, ..whole(bytes, p) };
    let name = |problem: Problem, crowd| problem.algorithm(&memory(crowd)).unwrap().name;
    let straight = |collective, crowd| -> Vec<u32> {
        (1..64).filter(|&p| name(call(collective, 256, p), crowd) == "linear").collect()
    };
    assert_eq!(straight(Broadcast, 10.0), (4..=16).collect::<Vec<_>>());
    assert_eq!(straight(Reduce, 10.1), (5..=32).collect::<Vec<_>>());
    assert_eq!((straight(Broadcast, 10.1), straight(Reduce, 1.0)), (vec![], vec![]));
    let narrow = Problem { all_wide: false, ..call(Reduce, 256, 8) };
    assert_eq!(name(narrow, 4.0), "circulant", "there are no slots between root and all");
    let in_order = Problem { commutes: false, ..call(Reduce, 256, 8) };
    assert!(in_order.algorithm(&memory(4.0)).unwrap().ordered);
    for collective in [Broadcast, Reduce] {
        let in_blocks = call(collective, 256, 8).algorithm_in_blocks(2, &memory(4.0)).unwrap();
        assert!(in_blocks.pipelined, "who asks for blocks gets an algorithm that has some");
    }
    assert_eq!([1.4, 1.5].map(|crowd| name(call(Reduce, 4 << 20, 3), crowd)), ["circulant", "mst"]);
    assert_eq!([4.0, 4.1].map(|crowd| name(call(Allreduce, 128 << 10, 8), crowd)), ["circulant", "mst"]);
    for collective in [Allgather, Allgatherv, ReduceScatter, ReduceScatterBlock] {
        let longest = call(collective, 256 << 10, 8);
        assert_eq!(([10.0, 10.1].map(|crowd| name(longest, crowd) == "mst")), [false, true]);
    }
    assert_eq!(name(parts(8, &[0, 900, 0, 100, 0, 0, 0, 0]), 16.0), "circulant-n", "few have a part");
}

#[test]
fn parts_go_straight_that_are_long_on_the_link_and_where_ranks_share_cores_longer_ones() {
    let straight_of = |collective, p: u64, part: u64, crowd| {
        // As on the emulated cluster, where a hop takes as long as 460 B, and among four ranks of a core as 1850.
        let costs = Costs { latency: 31e-6, byte: 67e-9, crowd, ..Costs::default() };
        let problem = Problem { collective, largest: part, ..whole(p * part, p as u32) };
        problem.algorithm(&costs).unwrap().name == "linear"
    };
    let straight = |collective, part, crowd| straight_of(collective, 9, part, crowd);
    for collective in [Collective::Scatter, Collective::Gather] {
        assert_eq!([400, 500].map(|part| straight(collective, part, 1.0)), [false, true]);
        assert_eq!([2048, 5400, 5700].map(|part| straight(collective, part, 4.0)), [false, false, true]);
    }
    let short = |collective, crowd| straight_of(collective, 8, 128, crowd);
    assert!(short(Collective::Gather, 4.0) && short(Collective::Gatherv, 4.0), "few are collected");
    assert!(!short(Collective::Gather, 2.0) && !short(Collective::Scatter, 4.0));
    let costs = Costs { latency: 31e-6, byte: 67e-9, crowd: 4.0, ..Costs::default() };
    let gather = Problem { collective: Collective::Gather, largest: 128, ..whole(1024, 8) };
    for problem in [Problem { all_wide: false, ..gather }, Problem { apart: false, ..gather }] {
        assert_eq!(
            problem.algorithm(&costs).unwrap().name,
            "mst",
            "each part would need a handshake; nodes are shared"
        );
    }
}

#[test]
fn parts_are_handed_out_by_leaders_unless_only_these_need_handshakes_or_they_are_long() {
    let name = |collective, bytes: u64, all_wide, crowd| {
        let costs = Costs { crowd, ..Costs::default() };
        let (largest, around) = (bytes / 64, Around::uncut(bytes / 2));
        let nodes = Nodes { count: 8, most: 8, largest: bytes / 8, around, equal: true };
        let problem =
            Problem { collective, largest, around, all_wide, nodes: Some(nodes), ..whole(bytes, 64) };
        problem.algorithm(&costs).unwrap().name
    };
    for collective in [Collective::Scatter, Collective::Scatterv, Collective::Gather, Collective::Gatherv] {
        let names = |all_wide| [4096, 512 << 10, 4 << 20].map(|bytes| name(collective, bytes, all_wide, 1.0));
        assert_eq!(names(true), ["leader", "leader", "linear"]);
        assert_eq!(names(false), ["mst", "leader", "linear"]);
        // A hop among four ranks of a core takes as long as 80 kB.
        let parts = [64_000, 200_000, 280_000].map(|part| name(collective, 64 * part, true, 4.0));
        assert_eq!(parts, ["leader", "mst", "linear"]);
    }
}

/// 36 ranks' call with blocks so long, by the ring, where so many ranks share a core.
fn blocks_of_pairs(collective: Collective, largest: u64, crowd: f64) -> (Problem, &'static Entry, Costs) {
    let costs = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd, shared: false };
    let entry = catalogue::named(collective, "ring").unwrap();
    (Problem { collective, largest, ..whole(36 * largest, 36) }, entry, costs)
}

#[test]
fn an_all_to_all_keeps_in_step_but_for_short_blocks() {
    let in_step = |collective, largest, crowd| {
        let (problem, entry, costs) = blocks_of_pairs(collective, largest, crowd);
        problem.is_in_step(entry, 1, &costs)
    };
    for (crowd, short) in [(1.0, 90), (3.0, 290), (18.0, 390)] {
        assert!(
            in_step(Collective::Alltoall, 1 << 20, crowd) && in_step(Collective::Alltoall, short + 20, crowd)
        );
        assert!(
            !in_step(Collective::Alltoall, short, crowd) && !in_step(Collective::Alltoallv, 30_000, crowd)
        );
    }
}

#[test]
fn a_reduction_to_one_rank_block_by_block_keeps_in_step_in_a_crowd() {
    use Collective::{Allreduce, Broadcast, Reduce, ReduceScatter};
    let costs = |crowd| Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd, shared: false };
    let in_step = |problem: &Problem, name, blocks, crowd| {
        let entry = catalogue::named(problem.collective, name).unwrap();
        problem.is_in_step(entry, blocks, &costs(crowd))
    };
    let of = |collective| Problem { collective, ..whole(256 << 10, 36) };
    for (collective, name) in [(Reduce, "circulant"), (ReduceScatter, "circulant-n")] {
        let problem = of(collective);
        assert_eq!([4.0, 4.5, 18.0].map(|crowd| in_step(&problem, name, 37, crowd)), [false, true, true]);
        assert!(!in_step(&Problem { apart: false, ..problem }, name, 37, 18.0), "ranks share nodes");
        assert!(
            !in_step(&problem, name, 700, 18.0),
            "a block is on the link for less than two puts' latency"
        );
        assert!(
            !in_step(&Problem { bytes: 4 << 10, largest: 4 << 10, ..problem }, name, 1, 18.0),
            "in a slot"
        );
    }
    let parts = Problem { largest: 14 << 10, ..of(ReduceScatter) };
    assert!(!in_step(&parts, "circulant-n", 37, 18.0), "of several ranks");
    for (collective, name) in
        [(ReduceScatter, "ring-n"), (Allreduce, "circulant-n"), (Reduce, "mst"), (Broadcast, "circulant")]
    {
        assert!(!in_step(&of(collective), name, 37, 18.0), "{} {name}", collective.name());
    }
}

#[test]
fn one_source_at_a_time_is_welcome_in_a_crowd_whose_blocks_are_long() {
    let pace = |collective, largest, crowd| {
        let (problem, entry, costs) = blocks_of_pairs(collective, largest, crowd);
        let pace = problem.pace(entry, 1, 0, &costs);
        (pace.welcome, pace.turns)
    };
    assert_eq!(pace(Collective::Alltoall, 30_000, 18.0), (Some(1), None));
    assert_eq!(pace(Collective::Alltoall, 30_000, 4.0), (None, None));
    assert_eq!(pace(Collective::Alltoall, 3000, 18.0), (None, None), "a word would cost more than it brings");
    assert_eq!(pace(Collective::Alltoallv, 30_000, 18.0), (None, Some(1)));
}

#[test]
fn puts_in_step_are_longer_than_those_by_turns() {
    let longest = |collective| {
        let (problem, entry, costs) = blocks_of_pairs(collective, 64 << 10, 8.0);
        problem.longest(entry, &costs)
    };
    assert_eq!([Collective::Alltoall, Collective::Alltoallv].map(longest), [Some(32 << 10), Some(8 << 10)]);
}

#[test]
fn a_block_of_one_rank_is_one_piece_as_in_a_reduction() {
    let costs = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0, shared: false };
    let piece = |collective, name, largest| {
        let entry = catalogue::named(collective, name).unwrap();
        Problem { collective, largest, ..whole(1 << 20, 8) }.piece(entry, &costs)
    };
    let scattered = |largest| piece(Collective::ReduceScatter, "circulant-n", largest);
    assert_eq!(scattered(1 << 20), piece(Collective::Reduce, "circulant", 1 << 20));
    assert!(scattered(1 << 18) < scattered(1 << 20));
    // It goes ahead by blocks then; what is not scattered by pieces, as long ones do not fit a put's latency.
    let near = Costs { latency: 5e-5, byte: 1e-10, ..costs };
    let in_flight = |collective, name, blocks, piece| {
        let entry = catalogue::named(collective, name).unwrap();
        Problem { collective, ..whole(64 << 20, 8) }.pace(entry, blocks, piece, &near).in_flight
    };
    let one_ranks = |blocks| in_flight(Collective::ReduceScatter, "circulant-n", blocks, 1 << 20);
    assert!(one_ranks(1000) > one_ranks(100) && one_ranks(100) == one_ranks(10));
    assert!(
        in_flight(Collective::Allreduce, "ring", 1, 1 << 16)
            > in_flight(Collective::Allreduce, "ring", 1, 1 << 20)
    );
}

/// Of p ranks on two cores, as the emulated cluster's jobs measure them.
fn crowded(p: u32, latency: f64, byte: f64) -> Costs {
    Costs { latency, byte, block: 0.2 * latency, crowd: f64::from(p) / 2.0, shared: false }
}

/// As on the emulated cluster: of what was measured the fastest, bit by bit, in two phases, straight.
#[test]
fn in_a_crowd_blocks_are_handed_on_for_longer() {
    let name = |p: u32, bytes: u64, costs: &Costs| {
        let largest = bytes / u64::from(p);
        let problem = Problem { collective: Collective::Alltoall, largest, ..whole(bytes, p) };
        problem.algorithm(costs).unwrap().name
    };
    let measured = [
        (8, crowded(8, 2.3e-5, 6.8e-8), [1 << 10, 4 << 10, 12 << 10]),
        (16, crowded(16, 2.8e-5, 6.8e-8), [4 << 10, 12 << 10, 32 << 10]),
        (36, crowded(36, 2.25e-5, 1.38e-7), [4 << 10, 32 << 10, 96 << 10]),
    ];
    for (p, costs, sizes) in measured {
        let names = sizes.map(|bytes| name(p, bytes, &costs));
        assert_eq!(names, ["store-and-forward", "two-phase", "ring"], "{p} ranks");
    }
    let four = crowded(4, 2.9e-5, 6.8e-8);
    assert_eq!([96, 768, 12 << 10].map(|bytes| name(4, bytes, &four)), ["ring"; 3], "two ranks a core");
}

/// Eight nodes of four ranks each on two cores, in which the four have one link: for each size the faster of what was measured.
#[test]
fn blocks_of_ranks_that_share_a_link_are_on_it_for_longer() {
    let costs = crowded(32, 2.5e-5, 6.8e-8);
    let name = |part: u64| {
        let largest = part * 16;
        let nodes = Nodes { count: 8, most: 4, largest, around: Around::uncut(largest), equal: true };
        let problem = Problem {
            collective: Collective::Alltoall,
            largest: part,
            nodes: Some(nodes),
            apart: false,
            ..whole(32 * part, 32)
        };
        problem.algorithm(&costs).unwrap().name
    };
    assert_eq!([32, 512, 2 << 10, 4 << 10].map(name), ["store-and-forward", "leader", "ring", "ring"]);
}

#[test]
fn blocks_are_handed_on_where_that_saves_messages_and_they_are_short() {
    let costs = Costs { latency: 2e-6, byte: 1e-10, block: 4e-7, crowd: 1.0, shared: false };
    let name = |p, largest| {
        let all = whole(largest * u64::from(p), p);
        let problem = Problem { collective: Collective::Alltoall, largest, all_wide: p <= 48, ..all };
        problem.algorithm(&costs).unwrap().name
    };
    assert_eq!([1, 2, 3].map(|p| name(p, 8)), ["ring"; 3]);
    assert_eq!(name(4096, 1), "store-and-forward");
    assert_eq!([8, 1 << 20].map(|block| name(48, block)), ["two-phase", "ring"]);
    assert_eq!(name(256, 8), "store-and-forward", "in two phases each leg would wait for a word");
}

#[test]
fn ranks_of_one_node_hand_no_blocks_on_in_two_phases() {
    let costs = Costs { latency: 6e-7, byte: 1e-10, block: 1.2e-7, crowd: 1.0, shared: true };
    let name = |apart| {
        let problem = Problem { collective: Collective::Alltoall, largest: 64, apart, ..whole(32 * 64, 32) };
        problem.algorithm(&costs).unwrap().name
    };
    assert_eq!([true, false].map(name), ["two-phase", "ring"]);
}

#[test]
fn what_is_handed_on_in_two_phases_by_many_ranks_is_not_cut_for_sources_that_there_are_not() {
    let costs = Costs { latency: 2e-6, byte: 1e-10, block: 4e-7, crowd: 1.0, shared: false };
    let piece = |p: u32| {
        let entry = catalogue::named(Collective::Alltoall, "two-phase").unwrap();
        let problem =
            Problem { collective: Collective::Alltoall, largest: 32, ..whole(32 * u64::from(p), p) };
        problem.piece(entry, &costs)
    };
    assert_eq!(
        [64, 4096, 65_535].map(piece),
        [8 * 32, 64 * 32, (STAGING / (510 * 16)) as usize],
        "a leg's bytes, or what there is room for"
    );
}

#[test]
fn a_vector_goes_in_slots_block_by_block_where_a_handshake_takes_longer() {
    let near = Costs { latency: 2e-6, byte: 1e-10, block: 3e-7, crowd: 1.0, shared: false };
    let far = Costs { latency: 1e-4, byte: 8e-7, ..near };
    let farther = Costs { block: 4e-7, ..near };
    let shared = Costs { shared: true, ..farther };
    let entry = catalogue::named(Collective::Broadcast, "circulant").unwrap();
    let way = |bytes, unit, costs| {
        let problem = Problem { unit, ..whole(bytes, 2) };
        let blocks = problem.blocks(entry, costs, FREE);
        (blocks, problem.is_small(entry, blocks, costs))
    };
    assert_eq!((way(SMALL, 1, &near), way(SMALL + 1, 1, &near)), ((1, true), (2, true)));
    assert_eq!((way(4 * SMALL, 1, &near), way(5 * SMALL, 1, &near)), ((4, true), (1, false)));
    assert_eq!(way(2 * SMALL + 1, 1, &far), (1, false), "its bytes take longer than a word");
    assert_eq!((way(4 * SMALL, 1, &farther), way(4 * SMALL, 1, &shared)), ((1, false), (4, true)));
    let copied = [2 * SMALL, 2 * SMALL + 1].map(|bytes| way(bytes, 1, &shared));
    assert_eq!(copied, [(1, true), (3, true)], "one slot takes it as it is");
    let reduce = catalogue::named(Collective::Reduce, "circulant").unwrap();
    let folded = Problem { collective: Collective::Reduce, ..whole(2 * SMALL, 2) };
    assert_eq!(folded.blocks(reduce, &shared, FREE), 2, "most of it is folding");
    for p in [3, 8] {
        let problem = whole(4 * SMALL, p);
        let blocks = problem.blocks(entry, &shared, FREE);
        assert!(!problem.is_small(entry, blocks, &shared), "{p} ranks");
    }
    assert_eq!(way(3 * 5000, 5000, &near), (1, false), "two elements do not fit a slot");
}

#[test]
fn where_a_handshake_takes_long_slots_carry_more() {
    let near = Costs { latency: 2e-6, byte: 1e-10, block: 3e-7, crowd: 1.0, shared: false };
    let far = Costs { latency: 1e-4, byte: 8e-8, block: 1e-5, ..near };
    let block_for_each = |block, costs| {
        let problem = Problem { collective: Collective::Alltoall, largest: block, ..whole(16 * block, 16) };
        problem.is_small(catalogue::named(Collective::Alltoall, "ring").unwrap(), 1, costs)
    };
    assert_eq!([SMALL, SMALL + 1].map(|block| block_for_each(block, &near)), [true, false]);
    assert_eq!([2 * SMALL, 2 * SMALL + 1].map(|block| block_for_each(block, &far)), [true, false]);
}

#[test]
fn where_all_share_memory_slots_carry_all_that_they_take() {
    let fits = |collective, bytes, shared| {
        let costs = Costs { shared, ..Costs::default() };
        let problem = Problem { collective, largest: bytes, ..whole(2 * bytes, 2) };
        let name = if collective.reduces() { "circulant" } else { "ring" };
        problem.is_small(catalogue::named(collective, name).unwrap(), 1, &costs)
    };
    for collective in [Collective::Allreduce, Collective::Alltoall] {
        assert_eq!([2 * SMALL, 2 * SMALL + 1].map(|bytes| fits(collective, bytes, true)), [true, false]);
        assert_eq!([SMALL, SMALL + 1].map(|bytes| fits(collective, bytes, false)), [true, false]);
    }
}

#[test]
fn blocks_of_all_parts_have_numbers_of_32_bits() {
    for p in [2, 1 << 14, 1 << 15, 100_000, 1 << 31] {
        let most = Problem { collective: Collective::Allgatherv, ..whole(1 << 60, p) }.most_blocks();
        assert!(most.checked_mul(p).is_some() && most > 0, "{p}: {most}");
    }
    assert_eq!(whole(1 << 60, 1 << 20).most_blocks(), MAX_BLOCKS);
}

#[test]
fn short_vectors_are_exchanged_whole_and_long_ones_in_parts() {
    let costs = Costs { latency: 1e-4, byte: 1e-7, block: 1e-5, crowd: 1.0, shared: false };
    let by = |bytes, commutes| {
        let problem = Problem { collective: Collective::Allreduce, commutes, ..whole(bytes, 8) };
        problem.algorithm(&costs).unwrap()
    };
    assert_eq!(by(64, true).name, "recursive-doubling");
    assert!(!by(1 << 20, true).exchanges && by(1 << 20, false).ordered);
}

#[test]
fn vectors_are_exchanged_whole_that_are_neither_long_nor_go_by_the_tree() {
    let longest = |(p, crowd): (u32, f64)| {
        let costs = Costs { latency: 4e-5, byte: 8e-8, block: 8e-6, crowd, shared: false };
        let doubles = |kib: &u64| {
            let problem = Problem { collective: Collective::Allreduce, ..whole(kib << 10, p) };
            problem.algorithm(&costs).unwrap().exchanges
        };
        [1, 2, 4, 8].into_iter().filter(doubles).max()
    };
    assert_eq!([(8, 1.0), (8, 1.06), (16, 2.0)].map(longest), [Some(1); 3]);
    let four = |bytes| {
        let costs = Costs { latency: 4e-5, byte: 8e-8, block: 8e-6, crowd: 4.0, shared: false };
        let problem = Problem { collective: Collective::Allreduce, ..whole(bytes, 8) };
        problem.algorithm(&costs).unwrap().name
    };
    assert_eq!([2900, 3100, 8000].map(four), ["mst", "recursive-doubling", "circulant"]);
}

#[test]
fn who_waits_for_what_is_shorter_than_a_hop_waits_shortly() {
    let link = |crowd| Costs { latency: 4e-5, byte: 8e-8, block: 8e-6, crowd, shared: false };
    let entry = catalogue::named(Collective::Broadcast, "circulant").unwrap();
    let soon = |kib: u64, crowd| whole(kib << 10, 8).pace(entry, 1, 0, &link(crowd)).soon;
    assert_eq!([0, 1, 4].map(|kib| soon(kib, 4.0)), [true, true, false]);
    assert!(!soon(1, 1.0) && soon(4, 18.0));
    let unknown = Problem { collective: Collective::Alltoallv, ..whole(0, 8) };
    let entry = catalogue::named(Collective::Alltoallv, "ring").unwrap();
    assert!(!unknown.pace(entry, 1, 0, &link(4.0)).soon);
    let nodes = Nodes { count: 2, most: 4, largest: 4, around: Around::uncut(4), equal: true };
    let among = Problem { nodes: Some(nodes), ..whole(0, 8) };
    let entry = catalogue::named(Collective::Broadcast, "leader").unwrap();
    assert!(!among.pace(entry, 1, 0, &link(4.0)).soon);
}

#[test]
fn staging_is_bounded_and_pieces_are_whole_elements() {
    for (collective, unit) in
        [(Collective::Reduce, 12), (Collective::Allreduce, 7), (Collective::ReduceScatter, 100_000)]
    {
        let problem = Problem { collective, unit, ..whole(unit << 20, 1000) };
        for entry in problem.candidates() {
            let piece = problem.piece(entry, &Costs::default()) as u64;
            assert!(piece > 0 && piece.is_multiple_of(unit));
            assert!(piece == unit || piece * STAGES as u64 * 20 <= STAGING);
        }
    }
}
