//! Rows of measurements, as `circulant bench` prints them.

use std::fmt::Display;
use std::io::BufRead;

use circulant::error::{Error, Result};
use circulant::rank::Rank;
use csv::{ReaderBuilder, StringRecord};
use serde::Deserialize;

use super::svg::is_no_text;
use crate::bench::rows::Row;

/// What of a row is drawn, or tells curves apart. Rows may end before the tense, as those of MPI libraries once did.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Measured {
    pub library: String,
    pub collective: String,
    pub kind: String,
    pub algorithm: String,
    pub ranks: u32,
    pub nodes: u32,
    pub bytes: u64,
    pub blocks: u32,
    pub median_us: f64,
    #[serde(default)]
    pub tense: String,
    pub root: Option<Rank>,
    pub rest_s: Option<f64>,
    #[serde(default)]
    pub transport: String,
    pub fresh: Option<bool>,
    pub overlap_percent: Option<f64>,
}

/// More microseconds than any call takes: thirty years.
const MOST_US: f64 = 1e15;

pub fn unreadable(name: &str, why: &dyn Display) -> Error {
    Error::argument("plot", format!("{name} cannot be read: {why}"), "give files of text that you may read")
}

/// Reads csv, with its head or without, and JSON lines; `name` is what errors call the input.
pub fn read(input: impl BufRead, name: &str) -> Result<Vec<Measured>> {
    let head: StringRecord = Row::HEAD.split(',').collect();
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(input.lines()) {
        let refusal = |why: String| {
            let what = format!("line {number} of {name} is no row of a collective: {why}");
            Error::argument("plot", what, super::ROWS)
        };
        let line = line.map_err(|e| unreadable(name, &e))?;
        // Some programs write a mark of the encoding before everything.
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with("library,") && Row::HEAD.starts_with(line) {
            continue;
        }
        rows.push(row(line, &head).map_err(refusal)?);
    }
    Ok(rows)
}

fn row(line: &str, head: &StringRecord) -> std::result::Result<Measured, String> {
    let row = if line.starts_with('{') {
        serde_json::from_str(line).map_err(|e| e.to_string())
    } else {
        of_csv(line, head)
    }?;
    let words = [&row.library, &row.collective, &row.kind, &row.algorithm, &row.tense, &row.transport];
    if !(0.0..=MOST_US).contains(&row.median_us) {
        return Err(format!("{} microseconds are no time", row.median_us));
    }
    if words.iter().any(|word| word.contains(is_no_text))
        || row.library.is_empty()
        || row.collective.is_empty()
    {
        return Err("its words are none".to_owned());
    }
    Ok(row)
}

fn of_csv(line: &str, head: &StringRecord) -> std::result::Result<Measured, String> {
    if line.starts_with("library,") {
        return Err("its head has other columns".to_owned());
    }
    let mut record = StringRecord::new();
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    reader.read_record(&mut record).map_err(|e| e.to_string())?;
    let least = head.iter().position(|column| column == "tense").unwrap_or(head.len());
    if record.len() < least {
        return Err(format!("it has {} of at least {least} fields", record.len()));
    }
    while record.len() < head.len() {
        record.push_field("");
    }
    record.deserialize(Some(head)).map_err(|e| match e.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| head.get(field as usize)).unwrap_or("a column");
            format!("{column}: {}", err.kind())
        }
        _ => e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_in_every_form_and_at_every_length() {
        let text = format!(
            "\u{feff}{}\r\ncirculant,allreduce,-,ring,8,1,1024,1,1.0,2.5,9.0,slice,,0.0,\"shm, far\",false,,,\n\n\
             impi,allreduce,-,default,8,8,1024,0,3.00,4.00,5.00\n\
             {{\"library\":\"circulant\",\"collective\":\"barrier\",\"kind\":\"-\",\"algorithm\":\"ring\",\"ranks\":2,\
             \"nodes\":1,\"bytes\":0,\"blocks\":1,\"median_us\":0.25,\"root\":null}}\n",
            Row::HEAD
        );
        let rows = read(text.as_bytes(), "a text").unwrap();
        let of = |row: &Measured| (row.library.clone(), row.bytes, row.median_us, row.transport.clone());
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            [
                ("circulant".into(), 1024, 2.5, "shm, far".into()),
                ("impi".into(), 1024, 4.0, String::new()),
                ("circulant".into(), 0, 0.25, String::new())
            ]
        );
    }

    #[test]
    fn what_is_no_row_is_named_by_its_line() {
        let of =
            |ranks: &str, median: &str| format!("circulant,reduce,-,mst,{ranks},1,1024,1,1.0,{median},9.0");
        let said = |line: &str| {
            let text = format!("{}\n{line}\n", Row::HEAD);
            let said = read(text.as_bytes(), "x.csv").unwrap_err().to_string();
            assert!(said.contains("line 2 of x.csv is no row"), "{said}");
            said
        };
        for median in ["NaN", "-1", "inf", "", "1e16"] {
            said(&of("8", median));
        }
        assert!(said(&of("eight", "1")).contains("ranks: invalid digit"), "{}", said(&of("eight", "1")));
        for other in ["# 2 ranks on 1 node", "library,kind,bytes", "{}", "\u{0}", "a,b"] {
            said(other);
        }
        assert!(said("a,b").contains("it has 2 of at least 11 fields"), "{}", said("a,b"));
        said(&of("8", "1").replace("mst", "m\u{1}"));
        assert!(read(&b"\xff\xfe\n"[..], "x.csv").unwrap_err().to_string().contains("x.csv cannot be read"));
    }
}
