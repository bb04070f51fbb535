//! A figure as an SVG. Both axes are logarithmic: they carry the logarithms, and their labels say what these stand for.

use std::ops::Range;

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::{Circle, Cross, DynElement, IntoDynElement, PathElement, Text, TriangleMarker};
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, TRANSPARENT, WHITE};

use super::figure::{Curve, Figure, Panel, Quantity};
use crate::Failure;
use crate::output::size;

/// Okabe and Ito's colours, without yellow: people tell them apart, whatever colours they see.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
/// More than that there is no colour and marker for.
pub const MOST_CURVES: usize = 4 * COLOURS.len();
const FONT: &str = "sans-serif";
/// In pixels: panels in a row, their extent, a line of the legend, and what a character of it takes about.
const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (340, 260);
const LINE: u32 = 22;
const CHARACTER: u32 = 8;
/// What stands before a name in the legend.
const SAMPLE: u32 = 44;
/// Labels of sizes that fit below a panel.
const LABELS: usize = 6;
/// Labels of values that fit beside one.
const MOST_LABELS: usize = 12;
const MARKER: i32 = 3;

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    BytesASecond,
    /// Of another value.
    Multiple,
}

impl From<Quantity> for Unit {
    fn from(quantity: Quantity) -> Unit {
        match quantity {
            Quantity::Time => Unit::Microseconds,
            Quantity::Bandwidth => Unit::BytesASecond,
        }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Failure>;

/// These have the same colours in all figures; others take what is left.
const LIBRARIES: [&str; 5] = ["circulant", "mpich", "openmpi", "openmpi-ofi", "impi"];

/// Which colour and marker each name has: those that a library has, or the first that nobody has.
fn styles(names: &[String]) -> Vec<usize> {
    let of_library = |name: &String| LIBRARIES.iter().position(|library| library == name);
    let mut free = (0..).filter(|style| names.iter().filter_map(of_library).all(|taken| taken != *style));
    names.iter().map(|name| of_library(name).or_else(|| free.next()).unwrap_or_default()).collect()
}

/// The whole figure as the text of a file; it may have [`MOST_CURVES`].
pub fn draw(figure: &Figure, unit: Unit, title: &str) -> Result<String, Failure> {
    let columns = figure.panels.len().clamp(1, COLUMNS);
    let rows = figure.panels.len().div_ceil(columns);
    let longest = figure.names.iter().map(|name| SAMPLE + written(name)).max().unwrap_or(0);
    let width = (columns as u32 * PANEL.0).max(longest).max(written(title));
    let (legend, styles) = (legend(&figure.names, width), styles(&figure.names));
    let above = if title.is_empty() { 0 } else { LINE + LINE / 2 };
    let below = rows as u32 * PANEL.1 + above;
    let extent = (width, below + (legend.last().map_or(0, |last| last.1) + 2) * LINE);
    let mut svg = String::new();
    paint(&mut svg, extent, |root| {
        root.fill(&WHITE)?;
        let style = (FONT, 16).into_font().color(&BLACK);
        let title = title.replace(is_no_text, " ");
        root.draw(&Text::new(title, (12, 10), style))?;
        let (panels, names) = root.split_vertically(below);
        let (_, panels) = panels.split_vertically(above);
        for (panel, area) in figure.panels.iter().zip(panels.split_evenly((rows, columns))) {
            draw_panel(panel, unit, &styles, &area)?;
        }
        draw_legend(&figure.names, &legend, &styles, &names)
    })?;
    Ok(svg)
}

/// What no XML may have.
pub fn is_no_text(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

fn paint(svg: &mut String, extent: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn {
    let root = SVGBackend::with_string(svg, extent).into_drawing_area();
    draw(&root)?;
    Ok(root.present()?)
}

/// How long a text is, about, with some room behind it.
fn written(text: &str) -> u32 {
    CHARACTER * (text.chars().count().min(1000) as u32 + 1)
}

/// Where each name stands: how far to the right, and on which line.
fn legend(names: &[String], width: u32) -> Vec<(u32, u32)> {
    let (mut right, mut line) = (0, 0);
    let mut place = |name: &String| {
        let length = SAMPLE + written(name);
        if right > 0 && right + length > width {
            (right, line) = (0, line + 1);
        }
        let place = (right, line);
        right += length;
        place
    };
    names.iter().map(&mut place).collect()
}

fn draw_legend(names: &[String], places: &[(u32, u32)], styles: &[usize], area: &Area<'_>) -> Drawn {
    for ((name, &(right, line)), &style) in names.iter().zip(places).zip(styles) {
        let (x, y) = (right as i32 + 12, (line * LINE + LINE / 2) as i32);
        area.draw(&PathElement::new([(x, y), (x + 24, y)], stroke(style)))?;
        area.draw(&marker(style, (x + 12, y)))?;
        area.draw(&Text::new(name.as_str(), (x + 30, y - 7), (FONT, 14)))?;
    }
    Ok(())
}

fn draw_panel(panel: &Panel, unit: Unit, styles: &[usize], area: &Area<'_>) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(&panel.title, (FONT, 15))
        .x_label_area_size(28)
        .y_label_area_size(62)
        .build_cartesian_2d(sizes(&panel.curves), values(&panel.curves, unit))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style((FONT, 12))
        .draw()?;
    for curve in &panel.curves {
        let points = || curve.points.iter().map(|&(bytes, value)| (position(bytes), value.log10()));
        let style = styles[curve.name];
        match round(style) {
            0 => drop(chart.draw_series(LineSeries::new(points(), stroke(style)))?),
            _ => drop(chart.draw_series(DashedLineSeries::new(points(), 6, 3, stroke(style)))?),
        }
        chart.draw_series(points().map(|at| marker(style, at)))?;
    }
    Ok(())
}

/// How often all colours have been taken before this style: then markers and dashes tell it apart.
fn round(style: usize) -> usize {
    style / COLOURS.len()
}

fn colour(style: usize) -> RGBColor {
    COLOURS[style % COLOURS.len()]
}

fn stroke(style: usize) -> ShapeStyle {
    colour(style).stroke_width(2)
}

fn marker<'a, At: Clone + 'static>(style: usize, at: At) -> DynElement<'static, SVGBackend<'a>, At> {
    let colour = colour(style);
    match round(style) {
        0 => Circle::new(at, MARKER, colour.filled()).into_dyn(),
        1 => Circle::new(at, MARKER, colour).into_dyn(),
        2 => TriangleMarker::new(at, MARKER + 1, colour.filled()).into_dyn(),
        _ => Cross::new(at, MARKER, colour).into_dyn(),
    }
}

/// A logarithmic axis: what there is along it, which of its points have labels, and what is written there.
struct Axis {
    range: Range<f64>,
    labelled: Vec<f64>,
    label: Box<dyn Fn(f64) -> String>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        from + (f64::from(to - from) * (value - start) / (end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.labelled.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    // Never called where the other one is there, which knows the unit.
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        (self.label)(*value)
    }
}

/// Where a size stands: of no bytes a step before one byte.
fn position(bytes: u64) -> f64 {
    if bytes == 0 { -1.0 } else { (bytes as f64).log2() }
}

fn bytes(position: f64) -> u64 {
    if position < 0.0 { 0 } else { position.exp2().round() as u64 }
}

/// From the least size to the largest; at some of those that were measured stands a label, not too near to another.
fn sizes(curves: &[Curve]) -> Axis {
    let mut all: Vec<_> = points(curves).map(|(bytes, _)| bytes).collect();
    all.sort_unstable();
    all.dedup();
    let ends = all.first().zip(all.last()).map_or((0.0, 0.0), |(&a, &b)| (position(a), position(b)));
    let least_gap = (ends.1 - ends.0 + 1.0) / LABELS as f64;
    let mut labelled: Vec<f64> = Vec::new();
    for at in all.into_iter().map(position) {
        if labelled.last().is_none_or(|last| at - last > least_gap) {
            labelled.push(at);
        }
    }
    Axis { range: ends.0 - 0.5..ends.1 + 0.5, labelled, label: Box::new(|position| size(bytes(position))) }
}

/// From below the least value to above the largest, with labels at powers of ten, or also between where there are few.
fn values(curves: &[Curve], unit: Unit) -> Axis {
    let all = || points(curves).map(|(_, value)| value.log10());
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let range = least - 0.12..most + 0.12;
    let at = |steps: &[f64]| -> Vec<f64> {
        let powers = range.start.floor() as i32..=range.end.ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| f64::from(power) + step.log10()));
        all.filter(|label| range.contains(label)).collect()
    };
    let labels = STEPS
        .iter()
        .map(|&(steps, enough)| (at(steps), enough))
        .find(|(labels, enough)| labels.len() >= *enough);
    let labels = labels.map(|(labels, _)| labels).unwrap_or_default();
    let labelled = labels.iter().copied().step_by(labels.len().div_ceil(MOST_LABELS).max(1)).collect();
    Axis { range, labelled, label: Box::new(move |value| shown(unit, 10_f64.powf(value))) }
}

/// Of ever more between two powers of ten, those are taken of which at least so many are on the axis.
const STEPS: [(&[f64], usize); 3] =
    [(&[1.0], 3), (&[1.0, 2.0, 5.0], 2), (&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], 0)];

fn points(curves: &[Curve]) -> impl Iterator<Item = (u64, f64)> {
    curves.iter().flat_map(|curve| curve.points.iter().copied())
}

/// A value as people write it.
fn shown(unit: Unit, value: f64) -> String {
    // Steps of a thousand, from below one on.
    let (first, names): (f64, &[&str]) = match unit {
        Unit::Microseconds => (1e-3, &[" ns", " \u{b5}s", " ms", " s"]),
        Unit::BytesASecond => (1.0, &[" B/s", " kB/s", " MB/s", " GB/s", " TB/s"]),
        Unit::Multiple => (1.0, &[""]),
    };
    let (mut number, mut name) = (value / first, 0);
    while number >= 999.5 && name + 1 < names.len() {
        (number, name) = (number / 1000.0, name + 1);
    }
    // Of its digits the first, and the second if that is one.
    let power = (number.log10() + 1e-6).floor().min(0.0);
    let leading = number / 10_f64.powf(power);
    let has_second = leading < 9.5 && (leading - leading.round()).abs() > 0.04;
    let digits = (-power) as usize + usize::from(has_second);
    format!("{number:.digits$}{}", names[name])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: usize, points: &[(u64, f64)]) -> Curve {
        Curve { name, points: points.to_vec() }
    }

    #[test]
    fn every_curve_panel_and_label_is_in_the_file() {
        let names: Vec<_> = (0..MOST_CURVES).map(|i| format!("<library {i}>")).collect();
        let curves = |collective: &str| Panel {
            title: collective.to_owned(),
            curves: (0..MOST_CURVES).map(|i| curve(i, &[(8, 1.0), (4096, 20.0 + i as f64)])).collect(),
        };
        let panels = ["broadcast", "reduce", "alltoall", "barrier"].map(curves).into();
        let svg =
            draw(&Figure { names, panels, mixes_algorithms: false }, Unit::Microseconds, "2 ranks").unwrap();
        for text in ["broadcast", "barrier", "2 ranks", "4 KiB", "8 B", "10 \u{b5}s", "&lt;library 27&gt;"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text} is missing");
        }
        assert!(svg.starts_with("<svg width=\"1020\"") && svg.ends_with("</svg>\n"), "{svg:.60}");
    }

    #[test]
    fn libraries_have_the_same_colours_whoever_stands_beside_them() {
        let of = |names: &[&str]| styles(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["circulant", "mpich", "openmpi", "openmpi-ofi", "impi"]), [0, 1, 2, 3, 4]);
        assert_eq!(of(&["a", "circulant-window", "mpich", "impi", "b"]), [0, 2, 1, 4, 3]);
    }

    #[test]
    fn a_panel_of_one_point_has_axes() {
        let panel = Panel { title: "barrier".into(), curves: vec![curve(0, &[(0, 0.25)])] };
        let svg = draw(
            &Figure { names: vec!["circulant".into()], panels: vec![panel], mixes_algorithms: false },
            Unit::Microseconds,
            "",
        )
        .unwrap();
        assert!(svg.contains("\n0 B\n") && svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn labels_are_few_and_where_something_was_measured() {
        let sixteen: Vec<_> = (0..16).map(|i| (8 << i, 1.0)).collect();
        let labels = |axis: Axis| axis.labelled.iter().map(|&at| axis.format_ext(&at)).collect::<Vec<_>>();
        assert_eq!(
            labels(sizes(&[curve(0, &sixteen)])),
            ["8 B", "64 B", "512 B", "4 KiB", "32 KiB", "256 KiB"]
        );
        let values = |points: &[(u64, f64)]| labels(values(&[curve(0, points)], Unit::Microseconds));
        assert_eq!(values(&[(8, 1.0), (16, 1000.0)]), ["1 \u{b5}s", "10 \u{b5}s", "100 \u{b5}s", "1 ms"]);
        assert_eq!(values(&[(8, 1.5), (16, 6.0)]), ["2 \u{b5}s", "5 \u{b5}s"]);
        assert_eq!(values(&[(8, 1e-6), (16, 1e15)]).len(), 11, "every second power");
        for tenths in 10..100 {
            let alone = values(&[(8, f64::from(tenths) / 10.0)]);
            assert!(alone.len() >= 2, "{alone:?} of {tenths}");
        }
        let uneven = [1_048_572, 1_048_576, 1_048_600, 4_194_304].map(|bytes| (bytes, 1.0));
        assert_eq!(labels(sizes(&[curve(0, &uneven)])), ["1 MiB", "4 MiB"]);
        assert_eq!((bytes(position(0)), bytes(position(1)), bytes(position(12_345_678))), (0, 1, 12_345_678));
    }

    #[test]
    fn values_are_written_in_the_largest_unit_that_fits() {
        let times =
            [0.2, 0.05, 1.0, 999.999_999_9, 1000.0, 2e6, 1e12].map(|us| shown(Unit::Microseconds, us));
        assert_eq!(times, ["200 ns", "50 ns", "1 \u{b5}s", "1 ms", "1 ms", "2 s", "1000000 s"]);
        let rates = [0.5, 1e3, 2e10].map(|rate| shown(Unit::BytesASecond, rate));
        assert_eq!(rates, ["0.5 B/s", "1 kB/s", "20 GB/s"]);
        assert_eq!(
            [0.02, 0.5, 1.0, 20.0].map(|times| shown(Unit::Multiple, times)),
            ["0.02", "0.5", "1", "20"]
        );
    }
}
