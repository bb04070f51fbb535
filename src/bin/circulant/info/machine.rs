//! The machine that ranks run on, a line for each group of cores that share all there is to share.

use std::io::{self, Write};

use circulant::locality::cpus::{Cpus, ranges};
use circulant::locality::machine::{Core, Machine, Seat, survey};

use super::line;
use crate::output::size;

/// Draws it, or says why it is not known.
pub(super) fn draw(out: &mut dyn Write) -> io::Result<()> {
    let machine = match survey(true) {
        Ok(machine) => machine,
        Err(unknown) => return line(out, "topology", &format!("unknown: {unknown}")),
    };
    let elsewhere = if machine.here { "" } else { ", told of another machine" };
    let memory = "; beside a NUMA domain the memory that is counted as its own";
    writeln!(out, "\nwhere ranks can run (by {}{elsewhere}{memory})", machine.source)?;
    table(out, &machine)?;
    nics(out, &machine)?;
    if machine.here { own_seat(out, &machine) } else { Ok(()) }
}

const HEADS: [&str; 5] = ["package", "NUMA domain", "last-level cache", "cores", "CPUs"];

fn table(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let rows = rows(machine);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([HEADS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..HEADS.len()).map(width).collect();
    for row in [HEADS.map(str::to_owned)].iter().chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// What the cores of a line share.
type Share = (Option<u32>, Option<u32>, Option<u32>);

/// The cells of each line; what is as in the line above is left out.
fn rows(machine: &Machine) -> Vec<[String; 5]> {
    let mut above = None;
    let mut first = 0;
    let mut rows = Vec::new();
    for cores in machine.cores.chunk_by(|one, next| belong_together(machine, one, next)) {
        let share = (cores[0].package, cores[0].domain, cores[0].cache);
        let new = |part: fn(Share) -> Share| above.map(part) != Some(part(share));
        let cell = |is_new: bool, text: String| if is_new { text } else { String::new() };
        let numbers = first..first + cores.len() as u32;
        rows.push([
            cell(new(|(package, ..)| (package, None, None)), number(share.0)),
            cell(new(|(package, domain, _)| (package, domain, None)), domain(machine, share.1)),
            cell(new(|share| share), cache(machine, cores)),
            ranges(numbers.clone()),
            cores.iter().map(|core| &core.cpus).collect::<Cpus>().numbers(),
        ]);
        (first, above) = (numbers.end, Some(share));
    }
    rows
}

/// Cores that share all; or those of a domain that have caches of their own, which are many.
fn belong_together(machine: &Machine, one: &Core, next: &Core) -> bool {
    (one.package, one.domain) == (next.package, next.domain)
        && (one.cache == next.cache || [one, next].iter().all(|core| has_its_own_cache(machine, core)))
}

fn has_its_own_cache(machine: &Machine, core: &Core) -> bool {
    core.cache.is_some() && machine.cores.iter().filter(|other| other.cache == core.cache).count() == 1
}

fn number(number: Option<u32>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

fn domain(machine: &Machine, index: Option<u32>) -> String {
    let Some(domain) = index.and_then(|index| machine.domains.get(index as usize)) else {
        return "?".to_owned();
    };
    format!("{}{}", number(domain.number.or(index)), bytes(domain.memory))
}

fn cache(machine: &Machine, cores: &[Core]) -> String {
    let index = |core: &Core| core.cache.filter(|&index| (index as usize) < machine.caches.len());
    let Some(first) = index(&cores[0]) else { return "?".to_owned() };
    let cache = machine.caches[first as usize];
    let last = cores.last().and_then(index).unwrap_or(first);
    let each = if last == first { "" } else { " each" };
    format!("L{} {}{}{each}", cache.level, ranges(first..=last), bytes(cache.bytes))
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or(String::new(), |bytes| format!("  {}", size(bytes)))
}

fn nics(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let width = machine.nics.iter().map(|nic| nic.name.len()).max().unwrap_or(0);
    for nic in &machine.nics {
        let seat = machine.seat(&nic.near);
        let near = domain_of(machine, &seat).or(package_of(machine, &seat));
        let near = near.unwrap_or_else(|| "all cores".to_owned());
        writeln!(out, "  NIC {:<width$}  near {near}", nic.name)?;
    }
    if machine.nics.is_empty() { writeln!(out, "  no NIC is known") } else { Ok(()) }
}

fn own_seat(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let Some(cpus) = Cpus::of_this_thread() else { return Ok(()) };
    let seat = machine.seat(&cpus);
    let parts = [
        package_of(machine, &seat),
        domain_of(machine, &seat),
        cache_of(machine, &seat),
        seat.core.filter(|_| machine.cores.len() > 1).map(|core| format!("core {core}")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let within = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    writeln!(out, "  this process may run on {cpus}{within}")
}

/// The package that all of a seat is in, if there are others.
fn package_of(machine: &Machine, seat: &Seat) -> Option<String> {
    let package = seat.package?;
    let others = machine.cores.iter().any(|core| core.package != Some(package));
    others.then(|| format!("package {package}"))
}

fn domain_of(machine: &Machine, seat: &Seat) -> Option<String> {
    let index = seat.domain?;
    let known = machine.domains.get(index as usize).filter(|_| machine.domains.len() > 1)?;
    Some(format!("NUMA domain {}", known.number.unwrap_or(index)))
}

fn cache_of(machine: &Machine, seat: &Seat) -> Option<String> {
    let index = seat.cache?;
    let known = machine.caches.get(index as usize).filter(|_| machine.caches.len() > 1)?;
    Some(format!("L{} {index}", known.level))
}
