//! Every operator on every type that it fits gives what a serial loop gives; what does not commute is
//! combined in rank order; and sums are the same bit for bit.

use circulant::fold::{self, Op, Type};

use crate::collectives::verified;
use crate::job::{Job, usual};

fn word(name: &str) -> String {
    name.replace(' ', "_")
}

#[test]
fn every_operator_on_every_type_that_it_fits() {
    let mut script = String::new();
    let mut pairs = 0;
    for op in Op::ALL {
        for ty in Type::ALL.iter().filter(|ty| fold::builtin(*op, **ty).is_ok()) {
            let of = format!("op={}:type={}", word(op.name()), word(ty.name()));
            script += &format!(" allreduce:count=33:{of} allreduce:count=2999:tense=named:{of}");
            script += &format!(" reduce_scatter:count=401:kind=irregular:{of} reduce:count=5001:root=3:{of}");
            pairs += 1;
        }
    }
    assert_eq!(pairs, 12 * 10 + 4 * 4 + 2 * 2 + 6 + 8 * 2);
    verified(5, &usual(), &script);
}

#[test]
fn bools_and_a_users_struct_travel() {
    let mut script = String::new();
    for ty in ["bool", "extent", "matrix"] {
        for call in [
            "broadcast:root=2",
            "allgatherv:kind=ragged",
            "scatterv:kind=ragged:root=1",
            "gather",
            "alltoall",
        ] {
            for tense in ["slice", "named", "window", "started", "prepared"] {
                script += &format!(
                    " {call}:count=3001:tense={tense}:type={ty} {call}:count=7:tense={tense}:type={ty}"
                );
            }
        }
    }
    verified(4, &usual(), &script);
}

/// The calls that combine data, on these ranks.
fn reducing(ranks: u32, of: &str, count: usize) -> String {
    let mut script = String::new();
    for tense in ["slice", "named", "window", "started", "prepared"] {
        for root in 0..ranks {
            script += &format!(" reduce:root={root}:count={count}:tense={tense}:{of}");
        }
        script += &format!(" allreduce:count={count}:tense={tense}:{of}");
        for kind in ["irregular", "degenerate", "ragged"] {
            script += &format!(" reduce_scatter:kind={kind}:count={count}:tense={tense}:{of}");
        }
        script += &format!(" reduce_scatter_block:count={count}:tense={tense}:{of}");
    }
    script
}

#[test]
fn a_product_of_matrices_keeps_the_order_of_the_ranks() {
    for ranks in [2, 3, 5, 8] {
        let script: String =
            [0, 1, 100, 3000].map(|count| reducing(ranks, "type=matrix:op=product", count)).concat();
        verified(ranks, &usual(), &script);
    }
    verified(7, &usual(), &reducing(7, "type=matrix:op=product", 20_001));
    verified(
        16,
        &usual(),
        " allreduce:type=matrix:op=product:count=777 reduce_scatter_block:type=matrix:op=product:count=99",
    );
}

#[test]
fn a_users_operator_on_a_users_struct() {
    let script: String = [1, 3000].map(|count| reducing(5, "type=extent:op=join", count)).concat();
    verified(5, &usual(), &script);
    verified(6, &usual(), &reducing(6, "op=last", 2500));
}

#[test]
fn sums_have_the_same_bits_on_all_ranks_and_in_every_run() {
    for ranks in [3, 8] {
        let algorithms = ["circulant 1", "circulant-n 9", "mst 1", "ring 1", "torus 1"];
        let calls = algorithms.map(|of| format!(" bits 40000 {of} bits 9 {of}")).concat();
        let script = format!("world{calls} bits 2000 recursive-doubling 1");
        let run = || {
            let outcome = Job::new(ranks, &script).launch().end();
            assert_eq!(outcome.code, Some(0), "{outcome:#?}");
            let bits = |said: &String| -> Vec<String> {
                said.lines().filter(|line| line.starts_with("bits ")).map(String::from).collect()
            };
            let of_each: Vec<Vec<String>> = outcome.ranks.iter().map(bits).collect();
            assert_eq!(of_each[0].len(), 11);
            assert!(of_each.iter().all(|bits| *bits == of_each[0]), "{outcome:#?}");
            of_each[0].clone()
        };
        assert_eq!(run(), run());
    }
}
