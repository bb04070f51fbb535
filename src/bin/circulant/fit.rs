//! What does not go together in what a user asks: the same questions, in the same words, of `plan` and of `bench`.

use circulant::algorithm::groups::Groups;
use circulant::algorithm::{self, Entry, Nesting};
use circulant::collective::Collective;
use circulant::error::{Error, Result};
use circulant::rank::Rank;

/// The algorithm of that name; `besides` is what may be asked for in place of one.
pub fn named(call: &str, collective: Collective, name: &str, besides: &str) -> Result<&'static Entry> {
    algorithm::named(collective, name).ok_or_else(|| {
        let what = format!("no algorithm `{name}` for {}", collective.name());
        Error::argument(call, what, format!("there are: {}{besides}", names(collective, |_| true)))
    })
}

/// A collective's algorithms, those of a kind, one after the other.
pub fn names(collective: Collective, of_a_kind: impl Fn(&Entry) -> bool) -> String {
    let names = algorithm::of(collective).filter(|entry| of_a_kind(entry)).map(|entry| entry.name);
    names.collect::<Vec<_>>().join(", ")
}

/// A root is for collectives that have one.
pub fn check_root(call: &str, collective: Collective, root: Option<Rank>) -> Result<()> {
    match root {
        Some(_) if !collective.has_root() => {
            Err(Error::argument(call, format!("{} has no root", collective.name()), "leave --root out"))
        }
        _ => Ok(()),
    }
}

/// A root is one of the ranks, and an algorithm has a plan for so many.
pub fn check_ranks(call: &str, entry: Option<&Entry>, root: Rank, p: u32) -> Result<()> {
    if root >= p {
        let cure = format!("give --root a number from 0 to {}", p.saturating_sub(1));
        return Err(Error::argument(call, format!("root {root} of {}", counted(p, "rank")), cure));
    }
    match entry.filter(|entry| !entry.fits(p)) {
        Some(entry) => {
            let (by, ranks) = (title(entry), counted(p, "rank"));
            let what = format!("{by} is no algorithm for {ranks} ({})", entry.restriction);
            let others = names(entry.collective, |entry| entry.fits(p));
            Err(Error::argument(call, what, format!("of {ranks} there are: {others}")))
        }
        None => Ok(()),
    }
}

/// An algorithm that goes node by node has a use for these.
pub fn check_groups(call: &str, entry: &Entry, groups: &Groups, domains: u32) -> Result<()> {
    if entry.suits(groups) {
        return Ok(());
    }
    let (ranks, nodes) = (counted(groups.ranks(), "rank"), counted(groups.count(), "node"));
    let what = format!(
        "{} is for {}, and not for {ranks} on {nodes} of {}",
        title(entry),
        entry.restriction,
        counted(domains, "domain")
    );
    Err(Error::argument(call, what, "give --nodes, and for domains --domains, so that they are"))
}

/// What an option gives, and which algorithms have a use for it.
pub struct Use {
    pub option: &'static str,
    /// What is to be said of an algorithm that has none.
    pub lacks: &'static str,
    pub wants: fn(&Entry) -> bool,
}

pub const DOMAINS: Use =
    Use { option: "--domains", lacks: "knows no domains", wants: |entry| entry.nesting == Nesting::Domains };

/// The same where a node has several leaders, which are of different domains, if they can.
pub const DOMAINS_OF_LEADERS: Use =
    Use { wants: |entry| entry.nesting == Nesting::Domains || entry.several_leaders, ..DOMAINS };

pub const LEADERS: Use =
    Use { option: "--leaders", lacks: "takes no number of leaders", wants: |entry| entry.several_leaders };

pub const BLOCKS: Use =
    Use { option: "--blocks", lacks: "takes no number of blocks", wants: |entry| entry.pipelined };

/// An option is given to an algorithm that has a use for it; where none is named, to a collective of which some have.
pub fn check_use(call: &str, collective: Collective, entry: Option<&Entry>, given: &Use) -> Result<()> {
    let wants = given.wants;
    if entry.map_or_else(|| algorithm::of(collective).any(wants), wants) {
        return Ok(());
    }
    let option = given.option;
    let others: Vec<_> =
        algorithm::of(collective).filter(|entry| wants(entry)).map(|entry| entry.name).collect();
    let cure = match others.is_empty() {
        true => format!("leave {option} out"),
        false => format!("leave {option} out, or take --algorithm {}", others.join(" or ")),
    };
    let who = entry.map_or_else(|| collective.name().to_owned(), title);
    Err(Error::argument(call, format!("{who} {}", given.lacks), cure))
}

fn title(entry: &Entry) -> String {
    format!("{} by {}", entry.collective.name(), entry.name)
}

/// So many of them: `1 rank`, `2 ranks`.
pub fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
