//! A plan as a table that people read: a row a round, a column a rank.

use super::{Blocks, Landing, Leg, Plan};

/// Renders all ranks' plans. A cell says what the rank puts and to whom, and what arrives from whom:
/// `3>5 0<2` is "puts block 3 to rank 5; block 0 arrives from rank 2". A folded arrival has a `+`.
pub fn render<P: Plan>(plans: &[P]) -> String {
    let Some(first) = plans.first() else { return String::new() };
    let mut rows = vec![
        std::iter::once("round".to_owned())
            .chain((0..plans.len()).map(|r| format!("rank {r}")))
            .collect::<Vec<_>>(),
    ];
    for i in 0..first.rounds() {
        rows.push(std::iter::once(i.to_string()).chain(plans.iter().map(|plan| cell(plan, i))).collect());
    }
    align(&rows)
}

fn cell<P: Plan>(plan: &P, i: u32) -> String {
    let round = plan.round(i);
    let mark = if round.landing == Landing::Fold { "+" } else { "" };
    let put = round.put.map(|leg| format!("{}>{}", blocks(leg), leg.peer));
    let arrival = round.arrival.map(|leg| format!("{mark}{}<{}", blocks(leg), leg.peer));
    match (put, arrival) {
        (None, None) => "-".to_owned(),
        (put, arrival) => put.into_iter().chain(arrival).collect::<Vec<_>>().join(" "),
    }
}

fn blocks(leg: Leg) -> String {
    match leg.blocks {
        Blocks::Nothing => "()".to_owned(),
        Blocks::One(block) => block.to_string(),
    }
}

fn align(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}
