//! What is drawn where: panels, their curves, and what these are called.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use super::measured::Measured;
use crate::bench::rows::median;
use crate::fit::counted;

/// What curves may be told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Column {
    /// circulant, or an MPI library
    Library,
    Algorithm,
    /// How many ranks
    Ranks,
    /// On how many nodes
    Nodes,
    /// Into how many blocks the data are divided
    Blocks,
    /// The form of the call
    Tense,
    Root,
    /// How long links have rested before a call
    Rest,
    Transport,
    /// A call, or a program's whole turn
    Fresh,
    /// A call, or one with a computation beside it
    Overlap,
}

/// Those that tell curves apart wherever rows of a library differ in them. A number of blocks hangs on the size.
const WHERE_THEY_DIFFER: [Column; 7] = [
    Column::Nodes,
    Column::Tense,
    Column::Root,
    Column::Rest,
    Column::Transport,
    Column::Fresh,
    Column::Overlap,
];

/// What is drawn over the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Quantity {
    /// The time of a call, of which each row has the median
    Time,
    /// The size divided by that
    Bandwidth,
}

/// What of the rows of one size is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Their median
    Median,
    /// Their lower quartile, which a quarter of them do not exceed: of many short rounds what takes no longer because somebody
    /// disturbs, if nobody does for a quarter of the time
    LowerQuartile,
}

impl Level {
    /// Of values in their order, at least one.
    fn of(self, sorted: &[f64]) -> f64 {
        match self {
            Level::Median => median(sorted),
            Level::LowerQuartile => sorted[(sorted.len() - 1) / 4],
        }
    }
}

/// All panels, and the names of the curves in them.
#[derive(Debug, PartialEq)]
pub struct Figure {
    pub names: Vec<String>,
    pub panels: Vec<Panel>,
    /// Whether some point is of several algorithms, unasked.
    pub mixes_algorithms: bool,
}

/// A collective, and a kind of it.
#[derive(Debug, PartialEq)]
pub struct Panel {
    pub title: String,
    pub curves: Vec<Curve>,
}

/// Points of growing size: bytes, and microseconds or bytes a second.
#[derive(Debug, PartialEq)]
pub struct Curve {
    /// Which of the figure's names is its.
    pub name: usize,
    pub points: Vec<(u64, f64)>,
}

/// What a row belongs to that is there for all kinds.
const NO_KIND: &str = "-";

impl Figure {
    /// Curves told apart by some columns; if none are given, by those in which rows differ.
    pub fn new(rows: &[Measured], by: Option<&[Column]>, quantity: Quantity, level: Level) -> Figure {
        let naming = Naming::new(rows, by);
        let named: Vec<_> = rows.iter().map(|row| (naming.name(row), row)).collect();
        let names = distinct(named.iter().map(|(name, _)| &**name));
        let panels = distinct(rows.iter().map(|row| (&*row.collective, &*row.kind)))
            .into_iter()
            .filter(|&(collective, kind)| kind != NO_KIND || !has_kinds(rows, collective))
            .map(|(collective, kind)| {
                let of_it = |row: &Measured| {
                    row.collective == collective && (row.kind == kind || row.kind == NO_KIND)
                };
                let curves = names.iter().enumerate().map(|(index, &name)| {
                    let own = named.iter().filter(|(other, row)| other == name && of_it(row));
                    Curve { name: index, points: points(own.map(|&(_, row)| row), quantity, level) }
                });
                Panel { title: title(collective, kind), curves: curves.collect() }
            })
            .collect();
        let names = names.into_iter().map(str::to_owned).collect();
        Figure { names, panels, mixes_algorithms: naming.mixes }.without_empty()
    }

    /// What its panels are called.
    pub fn titles(&self) -> Vec<String> {
        self.panels.iter().map(|panel| panel.title.clone()).collect()
    }

    /// Every value as a multiple of a curve's at the same size; what that curve lacks is left out. None if there is no such
    /// curve.
    pub fn relative_to(mut self, name: &str) -> Option<Figure> {
        let base = self.names.iter().position(|known| known == name)?;
        for panel in &mut self.panels {
            let of_base = panel.curves.iter().find(|curve| curve.name == base);
            let of_base: HashMap<_, _> =
                of_base.into_iter().flat_map(|curve| curve.points.iter().copied()).collect();
            for curve in &mut panel.curves {
                curve.points.retain_mut(|(bytes, value)| {
                    *value /= of_base.get(bytes).unwrap_or(&f64::NAN);
                    value.is_finite() && *value > 0.0
                });
            }
        }
        Some(self.without_empty())
    }

    /// What has no point is not there, and has no name.
    fn without_empty(mut self) -> Figure {
        self.panels.iter_mut().for_each(|panel| panel.curves.retain(|curve| !curve.points.is_empty()));
        self.panels.retain(|panel| !panel.curves.is_empty());
        let used: HashSet<_> =
            self.panels.iter().flat_map(|panel| &panel.curves).map(|curve| curve.name).collect();
        let left: Vec<_> = (0..self.names.len()).filter(|name| used.contains(name)).collect();
        for curve in self.panels.iter_mut().flat_map(|panel| &mut panel.curves) {
            curve.name = left.partition_point(|&name| name < curve.name);
        }
        self.names = left.into_iter().map(|name| std::mem::take(&mut self.names[name])).collect();
        self
    }
}

/// How many ranks all rows have, and on how many nodes, as far as that is the same for all.
pub fn in_common(rows: &[Measured]) -> String {
    let of = |count: fn(&Measured) -> u32| match &distinct(rows.iter().map(count))[..] {
        &[count] => Some(count),
        _ => None,
    };
    match (of(|row| row.ranks), of(|row| row.nodes.max(1))) {
        (Some(ranks), Some(nodes)) => format!("{} on {}", counted(ranks, "rank"), counted(nodes, "node")),
        (Some(ranks), None) => counted(ranks, "rank"),
        _ => String::new(),
    }
}

fn has_kinds(rows: &[Measured], collective: &str) -> bool {
    rows.iter().any(|row| row.collective == collective && row.kind != NO_KIND)
}

fn title(collective: &str, kind: &str) -> String {
    if kind == NO_KIND { collective.to_owned() } else { format!("{collective}, {kind}") }
}

/// What curves are called.
struct Naming<'m> {
    columns: Vec<Column>,
    /// Where columns were not given: whose algorithms are compared.
    compared: Option<HashSet<Measurement<'m>>>,
    mixes: bool,
}

/// All that a curve of a panel has in common, but for the algorithm.
type Measurement<'m> = (&'m str, &'m str, &'m str, Vec<Option<String>>);

fn measurement<'m>(row: &'m Measured, columns: &[Column]) -> Measurement<'m> {
    let values =
        columns.iter().filter(|&&column| column != Column::Algorithm).map(|&column| value(row, column));
    (&row.library, &row.collective, &row.kind, values.collect())
}

impl<'m> Naming<'m> {
    fn new(rows: &'m [Measured], given: Option<&[Column]>) -> Self {
        let are_several = distinct(rows.iter().map(|row| &*row.library)).len() > 1;
        let mut columns = distinct(given.unwrap_or_default().iter().copied());
        // Nobody wants the median of two libraries.
        if are_several && !columns.contains(&Column::Library) {
            columns.insert(0, Column::Library);
        }
        if given.is_some() {
            return Naming { columns, compared: None, mixes: false };
        }
        if distinct(rows.iter().map(|row| row.ranks)).len() > 1 {
            columns.push(Column::Ranks);
        }
        columns.extend(WHERE_THEY_DIFFER.into_iter().filter(|&column| differs(rows, column)));
        let (compared, mixed) = compared(rows, &columns);
        columns.insert(usize::from(are_several), Column::Algorithm);
        Naming { columns, compared: Some(compared), mixes: mixed }
    }

    /// Never nothing.
    fn name(&self, row: &Measured) -> String {
        let shown = |all: &HashSet<_>| all.contains(&measurement(row, &self.columns));
        let shows_algorithm = self.compared.as_ref().is_none_or(shown);
        let values = self.columns.iter().filter_map(|&column| match column {
            Column::Algorithm if !shows_algorithm => None,
            _ => value(row, column),
        });
        let name = values.collect::<Vec<_>>().join(" ");
        if name.is_empty() { row.library.clone() } else { name }
    }
}

/// Whether rows of one library differ in a column. A barrier has no tense, and what MPI libraries' rows do not say is no
/// difference.
fn differs(rows: &[Measured], column: Column) -> bool {
    let only_said = matches!(column, Column::Tense | Column::Root | Column::Transport);
    let all = distinct(rows.iter().map(|row| (&*row.library, value(row, column))));
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|(_, value)| !only_said || value.is_some())
        .any(|(library, _)| !seen.insert(library))
}

/// What was measured by several algorithms at most sizes: those of one size may also be the library's choices of two days. And
/// whether there are such.
fn compared<'m>(rows: &'m [Measured], columns: &[Column]) -> (HashSet<Measurement<'m>>, bool) {
    let mut all: HashMap<_, HashMap<u64, HashSet<&str>>> = HashMap::new();
    for row in rows {
        let sizes = all.entry(measurement(row, columns)).or_default();
        sizes.entry(row.bytes).or_default().insert(&row.algorithm);
    }
    let of_several = |sizes: &HashMap<u64, HashSet<&str>>| {
        sizes.values().filter(|algorithms| algorithms.len() > 1).count()
    };
    let (compared, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, sizes)| 2 * of_several(sizes) > sizes.len());
    let mixed = others.iter().any(|(_, sizes)| of_several(sizes) > 0);
    (compared.into_iter().map(|(measurement, _)| measurement).collect(), mixed)
}

fn value(row: &Measured, column: Column) -> Option<String> {
    let said = |text: &str| Some(text.to_owned()).filter(|text| !["", "-"].contains(&&**text));
    match column {
        Column::Library => said(&row.library),
        // An MPI library's own choice.
        Column::Algorithm => said(&row.algorithm).filter(|name| name != "default"),
        Column::Ranks => Some(counted(row.ranks, "rank")),
        Column::Nodes => Some(counted(row.nodes, "node")),
        Column::Blocks => Some(counted(row.blocks, "block")),
        Column::Tense => said(&row.tense),
        Column::Root => row.root.map(|root| format!("root {root}")),
        Column::Rest => row.rest_s.filter(|&rest| rest > 0.0).map(|rest| format!("after {rest} s")),
        Column::Transport => said(&row.transport),
        Column::Fresh => row.fresh.filter(|&fresh| fresh).map(|_| "whole turn".to_owned()),
        Column::Overlap => row.overlap_percent.map(|_| "overlapped".to_owned()),
    }
}

/// What the times of each size come to. What is nothing, or takes no time, has no place on such axes.
fn points<'m>(rows: impl Iterator<Item = &'m Measured>, quantity: Quantity, level: Level) -> Vec<(u64, f64)> {
    let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for row in rows {
        sizes.entry(row.bytes).or_default().push(row.median_us);
    }
    let values = sizes.into_iter().map(|(bytes, mut times)| {
        times.sort_by(f64::total_cmp);
        let us = level.of(&times);
        match quantity {
            Quantity::Time => (bytes, us),
            Quantity::Bandwidth => (bytes, bytes as f64 / us * 1e6),
        }
    });
    values.filter(|(_, value)| value.is_finite() && *value > 0.0).collect()
}

/// Each once, in the order in which they come first.
fn distinct<T: Clone + Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = HashSet::new();
    all.filter(|one| known.insert(one.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(library: &str, collective: &str, algorithm: &str, bytes: u64, median_us: f64) -> Measured {
        Measured {
            library: library.into(),
            collective: collective.into(),
            kind: NO_KIND.into(),
            algorithm: algorithm.into(),
            ranks: 8,
            nodes: 1,
            bytes,
            median_us,
            ..Default::default()
        }
    }

    fn drawn(rows: &[Measured]) -> Figure {
        Figure::new(rows, None, Quantity::Time, Level::Median)
    }

    #[test]
    fn a_point_is_the_median_of_its_rows_and_points_are_in_the_order_of_sizes() {
        let times = [(64, 7.0), (8, 1.0), (64, 5.0), (8, 4.0), (64, 100.0)];
        let rows = times.map(|(bytes, us)| row("circulant", "allreduce", "ring", bytes, us));
        let curves = vec![Curve { name: 0, points: vec![(8, 2.5), (64, 7.0)] }];
        let panels = vec![Panel { title: "allreduce".into(), curves }];
        assert_eq!(drawn(&rows), Figure { names: vec!["circulant".into()], panels, mixes_algorithms: false });
        let rates = Figure::new(&rows, None, Quantity::Bandwidth, Level::Median);
        assert_eq!(rates.panels[0].curves[0].points[0], (8, 3.2e6));
    }

    #[test]
    fn a_lower_quartile_is_not_exceeded_by_a_quarter_and_of_few_it_is_the_least() {
        let of = |count: u32| Level::LowerQuartile.of(&(1..=count).map(f64::from).collect::<Vec<_>>());
        assert_eq!([1, 4, 5, 8, 9, 12, 13].map(of), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]);
        let rows = [7.0, 5.0, 100.0, 9.0, 6.0].map(|us| row("circulant", "allreduce", "ring", 64, us));
        let drawn = Figure::new(&rows, None, Quantity::Time, Level::LowerQuartile);
        assert_eq!(drawn.panels[0].curves[0].points, [(64, 6.0)]);
    }

    #[test]
    fn curves_are_told_apart_by_what_differs_within_a_library() {
        let chosen =
            [row("circulant", "reduce", "mst", 8, 1.0), row("circulant", "reduce", "circulant", 64, 2.0)];
        assert_eq!(drawn(&chosen).names, ["circulant"], "the library's choice");
        let other =
            [chosen.clone(), [8, 64].map(|bytes| row("circulant", "reduce", "mst", bytes, 3.0))].concat();
        assert_eq!(drawn(&other).names, ["circulant"], "which differed at one size of two");
        assert!(drawn(&other).mixes_algorithms && !drawn(&chosen).mixes_algorithms);
        let mut rows =
            [row("circulant", "reduce", "mst", 8, 1.0), row("circulant", "reduce", "linear", 8, 2.0)]
                .to_vec();
        assert_eq!(drawn(&rows).names, ["mst", "linear"]);
        let rested = Measured { rest_s: Some(0.001), ..row("circulant", "reduce", "mst", 64, 2.0) };
        let all = [rows.clone(), vec![rested]].concat();
        assert_eq!(drawn(&all).names, ["mst", "linear", "after 0.001 s"], "one compares, the other does not");
        for algorithm in ["default", "binomial"] {
            rows.push(row("impi", "reduce", algorithm, 8, 1.0));
        }
        rows.push(row("impi", "gather", "default", 8, 1.0));
        assert_eq!(drawn(&rows).names, ["circulant mst", "circulant linear", "impi", "impi binomial"]);
        let by = |columns: &[Column]| Figure::new(&rows, Some(columns), Quantity::Time, Level::Median).names;
        assert_eq!(by(&[Column::Library]), ["circulant", "impi"]);
        assert_eq!(by(&[Column::Tense]), ["circulant", "impi"], "libraries are never of one curve");
    }

    #[test]
    fn rows_that_measure_something_else_are_another_curve() {
        let call =
            Measured { tense: "slice".into(), root: Some(0), ..row("circulant", "reduce", "mst", 8, 1.0) };
        let others = [
            (Measured { ranks: 16, ..call.clone() }, ["circulant 8 ranks", "circulant 16 ranks"]),
            (Measured { nodes: 2, ..call.clone() }, ["circulant 1 node", "circulant 2 nodes"]),
            (Measured { tense: "window".into(), ..call.clone() }, ["circulant slice", "circulant window"]),
            (Measured { root: Some(5), ..call.clone() }, ["circulant root 0", "circulant root 5"]),
            (Measured { rest_s: Some(0.003), ..call.clone() }, ["circulant", "circulant after 0.003 s"]),
            (Measured { transport: "shm".into(), ..call.clone() }, ["circulant", "circulant"]),
            (Measured { fresh: Some(true), ..call.clone() }, ["circulant", "circulant whole turn"]),
            (Measured { overlap_percent: Some(9.0), ..call.clone() }, ["circulant", "circulant overlapped"]),
        ];
        for (other, names) in others {
            let peer = Measured { ranks: other.ranks, ..row("impi", "reduce", "default", 8, 1.0) };
            let barrier =
                Measured { tense: "-".into(), root: None, ..row("circulant", "reduce", "mst", 0, 1.0) };
            let barrier = Measured { ranks: other.ranks, nodes: other.nodes, ..barrier };
            let all = drawn(&[call.clone(), other, barrier, peer]).names;
            let own: Vec<_> = all.iter().filter(|name| name.starts_with("circulant")).collect();
            assert!(names.iter().all(|name| own.iter().any(|own| *own == name)), "{own:?} for {names:?}");
        }
    }

    #[test]
    fn values_can_be_multiples_of_a_curves() {
        let rows = [("a", 8, 2.0), ("b", 8, 3.0), ("a", 64, 8.0), ("b", 64, 4.0), ("b", 512, 1.0)];
        let mut rows = rows.map(|(library, bytes, us)| row(library, "reduce", "mst", bytes, us)).to_vec();
        rows.push(row("b", "barrier", "mst", 0, 1.0));
        let figure = drawn(&rows).relative_to("a").unwrap();
        let points: Vec<_> =
            figure.panels.iter().flat_map(|panel| &panel.curves).map(|curve| &*curve.points).collect();
        assert_eq!(points, [[(8, 1.0), (64, 1.0)], [(8, 1.5), (64, 0.5)]], "and no barrier");
        let third = row("c", "reduce", "mst", 4096, 1.0);
        rows.insert(0, third);
        let relative = drawn(&rows).relative_to("b").unwrap();
        assert_eq!(relative.names, ["a", "b"], "what is not drawn has no name");
        assert_eq!(relative.panels[0].curves[0], Curve { name: 0, points: vec![(8, 2.0 / 3.0), (64, 2.0)] });
        rows.remove(0);
        assert_eq!(drawn(&rows).relative_to("c"), None);
    }

    #[test]
    fn what_has_no_kind_stands_beside_every_kind() {
        let of = |kind: &str, library| Measured {
            kind: kind.into(),
            ..row(library, "allgatherv", "ring", 8, 1.0)
        };
        let rows = [of(NO_KIND, "memory"), of("regular", "circulant"), of("degenerate", "circulant")];
        let figure = drawn(&rows);
        let titles: Vec<_> = figure.panels.iter().map(|panel| (&*panel.title, panel.curves.len())).collect();
        assert_eq!(titles, [("allgatherv, regular", 2), ("allgatherv, degenerate", 2)]);
    }

    #[test]
    fn what_has_no_place_on_the_axes_is_left_out() {
        let rows = [row("circulant", "barrier", "mst", 0, 0.5), row("circulant", "reduce", "mst", 8, 0.0)];
        assert_eq!(drawn(&rows).panels.len(), 1);
        assert_eq!(Figure::new(&rows, None, Quantity::Bandwidth, Level::Median).panels, []);
        assert_eq!(in_common(&rows), "8 ranks on 1 node");
        let peer = Measured { nodes: 8, ..rows[0].clone() };
        assert_eq!(in_common(&[peer, rows[0].clone()]), "8 ranks");
        assert_eq!(in_common(&[]), "");
    }
}
