//! What is drawn where: panels, their curves, and what these are called.

use super::measured::Measured;
use crate::fit::counted;

/// What curves may be told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// circulant, or an MPI library
    Library,
    Algorithm,
    /// How many ranks
    Ranks,
    /// On how many nodes
    Nodes,
    /// The form of the call
    Tense,
    Transport,
}

/// What is drawn over the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Quantity {
    /// The median time of a call
    Time,
    /// The size divided by that
    Bandwidth,
}

/// All panels, and the names of the curves in them.
#[derive(Debug, PartialEq)]
pub struct Figure {
    pub names: Vec<String>,
    pub panels: Vec<Panel>,
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

/// What a row belongs to that is there for all kinds, such as the bound of a collective.
const NO_KIND: &str = "-";

impl Figure {
    /// Curves told apart by some columns; if none are given, by those in which rows differ.
    pub fn new(rows: &[Measured], by: Option<&[Column]>, quantity: Quantity) -> Figure {
        let chosen = differing(rows);
        let by = by.unwrap_or(&chosen);
        let named: Vec<_> = rows.iter().map(|row| (name(row, by), row)).collect();
        let names = distinct(named.iter().map(|(name, _)| name.clone()));
        let panels = distinct(rows.iter().map(|row| (&*row.collective, &*row.kind)))
            .into_iter()
            .filter(|&(collective, kind)| kind != NO_KIND || !has_kinds(rows, collective))
            .map(|(collective, kind)| {
                let of_it = |row: &Measured| {
                    row.collective == collective && (row.kind == kind || row.kind == NO_KIND)
                };
                let curves = names.iter().enumerate().map(|(index, name)| {
                    let own = named.iter().filter(|(other, row)| other == name && of_it(row));
                    Curve { name: index, points: points(own.map(|&(_, row)| row), quantity) }
                });
                let curves = curves.filter(|curve| !curve.points.is_empty()).collect();
                Panel { title: title(collective, kind), curves }
            })
            .filter(|panel| !panel.curves.is_empty())
            .collect();
        Figure { names, panels }
    }
}

impl Figure {
    /// Every value as a multiple of a curve's at the same size; what that curve lacks is left out. None if there is no such
    /// curve.
    pub fn relative_to(mut self, name: &str) -> Option<Figure> {
        let base = self.names.iter().position(|known| known == name)?;
        for panel in &mut self.panels {
            let of_base = panel.curves.iter().find(|curve| curve.name == base);
            let of_base = of_base.map(|curve| curve.points.clone()).unwrap_or_default();
            let at = |bytes| of_base.iter().find(|point| point.0 == bytes).map(|point| point.1);
            for curve in &mut panel.curves {
                curve.points.retain_mut(|(bytes, value)| {
                    let base = at(*bytes);
                    *value /= base.unwrap_or(1.0);
                    base.is_some()
                });
            }
            panel.curves.retain(|curve| !curve.points.is_empty());
        }
        self.panels.retain(|panel| !panel.curves.is_empty());
        Some(self)
    }
}

/// How many ranks and nodes all rows have, if all have as many.
pub fn in_common(rows: &[Measured]) -> String {
    match &distinct(rows.iter().map(|row| (row.ranks, row.nodes)))[..] {
        &[(ranks, nodes)] => format!("{} on {}", counted(ranks, "rank"), counted(nodes, "node")),
        _ => String::new(),
    }
}

fn has_kinds(rows: &[Measured], collective: &str) -> bool {
    rows.iter().any(|row| row.collective == collective && row.kind != NO_KIND)
}

fn title(collective: &str, kind: &str) -> String {
    if kind == NO_KIND { collective.to_owned() } else { format!("{collective}, {kind}") }
}

/// The columns in which rows of one library differ, and the library if there are several.
fn differing(rows: &[Measured]) -> Vec<Column> {
    let libraries = distinct(rows.iter().map(|row| &*row.library));
    let differs = |column: Column| {
        libraries.iter().any(|&library| {
            let own = rows.iter().filter(|row| row.library == library);
            distinct(own.filter_map(|row| value(row, column))).len() > 1
        })
    };
    let several =
        [Column::Ranks, Column::Nodes, Column::Tense, Column::Transport].into_iter().filter(|&c| differs(c));
    let mut columns: Vec<_> = several.collect();
    if libraries.len() > 1 {
        columns.insert(0, Column::Library);
    } else if compares_algorithms(rows, &columns) {
        columns.insert(0, Column::Algorithm);
    }
    if columns.is_empty() { vec![Column::Library] } else { columns }
}

/// Whether one and the same call was measured by several algorithms: of different sizes the library's choice differs, too.
fn compares_algorithms(rows: &[Measured], by: &[Column]) -> bool {
    let call = |row: &Measured| (row.collective.clone(), row.kind.clone(), row.bytes, name(row, by));
    let calls = distinct(rows.iter().map(call)).len();
    distinct(rows.iter().map(|row| (call(row), row.algorithm.clone()))).len() > calls
}

fn name(row: &Measured, by: &[Column]) -> String {
    by.iter().filter_map(|&column| value(row, column)).collect::<Vec<_>>().join(" ")
}

/// What a row has in a column; a barrier has no tense, and MPI libraries' rows say nothing of what is circulant's.
fn value(row: &Measured, column: Column) -> Option<String> {
    let value = match column {
        Column::Library => row.library.clone(),
        Column::Algorithm => row.algorithm.clone(),
        Column::Ranks => counted(row.ranks, "rank"),
        Column::Nodes => counted(row.nodes, "node"),
        Column::Tense => row.tense.clone(),
        Column::Transport => row.transport.clone(),
    };
    Some(value).filter(|value| !["", "-"].contains(&&**value))
}

/// The median of the rows of each size. What is nothing, or takes no time, has no place on such axes.
fn points<'m>(rows: impl Iterator<Item = &'m Measured>, quantity: Quantity) -> Vec<(u64, f64)> {
    let mut all: Vec<_> = rows.map(|row| (row.bytes, row.median_us)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let medians = all.chunk_by(|a, b| a.0 == b.0).map(|same| {
        let (bytes, us) = (same[0].0, same[(same.len() - 1) / 2].1.midpoint(same[same.len() / 2].1));
        match quantity {
            Quantity::Time => (bytes, us),
            Quantity::Bandwidth => (bytes, bytes as f64 / us * 1e6),
        }
    });
    medians.filter(|(_, value)| value.is_finite() && *value > 0.0).collect()
}

/// Each once, in the order in which they come first.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut known, one| {
        if !known.contains(&one) {
            known.push(one);
        }
        known
    })
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
            tense: String::new(),
            transport: String::new(),
        }
    }

    fn drawn(rows: &[Measured]) -> Figure {
        Figure::new(rows, None, Quantity::Time)
    }

    #[test]
    fn a_point_is_the_median_of_its_rows_and_points_are_in_the_order_of_sizes() {
        let times = [(64, 7.0), (8, 1.0), (64, 5.0), (8, 4.0), (64, 100.0)];
        let rows = times.map(|(bytes, us)| row("circulant", "allreduce", "ring", bytes, us));
        let curves = vec![Curve { name: 0, points: vec![(8, 2.5), (64, 7.0)] }];
        let panels = vec![Panel { title: "allreduce".into(), curves }];
        assert_eq!(drawn(&rows), Figure { names: vec!["circulant".into()], panels });
        let rates = Figure::new(&rows, None, Quantity::Bandwidth);
        assert_eq!(rates.panels[0].curves[0].points[0], (8, 3.2e6));
    }

    #[test]
    fn curves_are_told_apart_by_what_differs_within_a_library() {
        let chosen =
            [row("circulant", "reduce", "mst", 8, 1.0), row("circulant", "reduce", "circulant", 64, 2.0)];
        assert_eq!(drawn(&chosen).names, ["circulant"], "the library's choice");
        let compared =
            [row("circulant", "reduce", "mst", 8, 1.0), row("circulant", "reduce", "linear", 8, 2.0)];
        assert_eq!(drawn(&compared).names, ["mst", "linear"]);
        let mut peers = vec![row("impi", "reduce", "default", 8, 1.0)];
        peers.extend(compared);
        assert_eq!(drawn(&peers).names, ["impi", "circulant"]);
        let by = [Column::Library, Column::Algorithm];
        assert_eq!(
            Figure::new(&peers, Some(&by), Quantity::Time).names,
            ["impi default", "circulant mst", "circulant linear"]
        );
        peers.push(Measured { ranks: 16, tense: "slice".into(), ..peers[2].clone() });
        peers.push(Measured { collective: "barrier".into(), tense: "-".into(), ..peers[3].clone() });
        assert_eq!(drawn(&peers).names, ["impi 8 ranks", "circulant 8 ranks", "circulant 16 ranks"]);
        peers.push(Measured { tense: "window".into(), ..peers[3].clone() });
        let of_tenses = ["circulant 16 ranks slice", "circulant 16 ranks", "circulant 16 ranks window"];
        assert_eq!(drawn(&peers).names[2..], of_tenses);
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
        assert_eq!(Figure::new(&rows, None, Quantity::Bandwidth).panels, []);
        assert_eq!(in_common(&rows), "8 ranks on 1 node");
        assert_eq!(in_common(&[]), "");
    }
}
