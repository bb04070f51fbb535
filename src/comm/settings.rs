//! What a user may set from outside a program.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::engine::vigil::Limits;
use crate::error::{Error, Result};
use crate::locality::layout::Domains;
use crate::select::PutCosts;
use crate::transport::shm::Way;

/// What a user may set, in the environment (all ranks alike).
#[derive(Debug, Clone)]
pub struct Settings {
    /// `CIRCULANT_PROVIDER`: which provider, by name; `shm`; or both, as `shm+tcp`.
    pub provider: Option<String>,
    /// `CIRCULANT_INTERFACE`: which interface or address.
    pub interface: Option<String>,
    /// `CIRCULANT_SHM_COPY`: how long slices go through shared memory, `joint`, `writev` or `ring`; else whichever is likely to
    /// be faster, if it works on all ranks.
    pub shm_copy: Option<Way>,
    /// `CIRCULANT_DOMAINS`: what is in several domains of a node goes by their leaders, where there is a choice:
    /// `numa`, `cache`, or so many pretended ones. If not set, only where an algorithm is named that does.
    pub domains: Option<Domains>,
    /// `CIRCULANT_LEADERS`: how many leaders a node has; 1 if not set.
    pub leaders: Option<u32>,
    /// `CIRCULANT_COSTS`: what a put and a byte cost, in place of what would be measured, from which algorithms and numbers of
    /// blocks follow; measured at the start if not set.
    pub costs: Option<PutCosts>,
    /// `CIRCULANT_PROGRESS`: what carries on calls that were started, while the program computes; calls alone if not set.
    pub progress: Progress,
    /// `CIRCULANT_STALL`: seconds after which a wait is told on the standard error; 0 or none for never. Default 10.
    pub stall: Option<Duration>,
    /// `CIRCULANT_TIMEOUT`: seconds after which a wait is an error; 0 or none for never.
    pub timeout: Option<Duration>,
}

/// What carries on calls that were started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Progress {
    /// `calls`: the program's calls, tests and waits among them.
    #[default]
    Calls,
    /// `thread`: between them a thread, too, which sleeps but for what comes.
    Thread,
}

/// When a wait is told, unless the user says otherwise.
const STALL: Duration = Duration::from_secs(10);

impl Default for Settings {
    /// As in an environment without any of the variables.
    fn default() -> Settings {
        Settings {
            provider: None,
            interface: None,
            shm_copy: None,
            domains: None,
            leaders: None,
            costs: None,
            progress: Progress::default(),
            stall: Some(STALL),
            timeout: None,
        }
    }
}

impl Settings {
    /// When waits are told, and when they end.
    pub(super) fn limits(&self) -> Limits {
        let set = |limit: Option<Duration>| limit.filter(|limit| !limit.is_zero());
        Limits { tell: set(self.stall), end: set(self.timeout) }
    }

    /// From the environment; fails where a value is none.
    pub fn from_environment() -> Result<Settings> {
        let (settings, refused) = Settings::read();
        refused.into_iter().next().map_or(Ok(settings), Err)
    }

    /// The same, where values that are none are told, and taken as not set.
    pub fn read() -> (Settings, Vec<Error>) {
        let word = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut refused = Vec::new();
        let settings = Settings {
            provider: word("CIRCULANT_PROVIDER"),
            interface: word("CIRCULANT_INTERFACE"),
            shm_copy: taken(way(word("CIRCULANT_SHM_COPY")), None, &mut refused),
            domains: taken(domains(word("CIRCULANT_DOMAINS")), None, &mut refused),
            leaders: taken(leaders(word("CIRCULANT_LEADERS")), None, &mut refused),
            costs: taken(costs(word("CIRCULANT_COSTS")), None, &mut refused),
            progress: taken(progress(word("CIRCULANT_PROGRESS")), None, &mut refused).unwrap_or_default(),
            stall: taken(
                seconds("CIRCULANT_STALL", word("CIRCULANT_STALL"), Some(STALL)),
                Some(STALL),
                &mut refused,
            ),
            timeout: taken(seconds("CIRCULANT_TIMEOUT", word("CIRCULANT_TIMEOUT"), None), None, &mut refused),
        };
        (settings, refused)
    }
}

fn taken<T>(read: Result<T>, default: T, refused: &mut Vec<Error>) -> T {
    read.unwrap_or_else(|error| {
        refused.push(error);
        default
    })
}

fn way(value: Option<String>) -> Result<Option<Way>> {
    let named = |word: &str| Way::ALL.into_iter().find(|way| way.word() == word);
    meant("CIRCULANT_SHM_COPY", value, named, "is no way to copy", "joint, writev or ring")
}

fn domains(value: Option<String>) -> Result<Option<Domains>> {
    let is_none = "is no kind of domain, and no number of them";
    meant("CIRCULANT_DOMAINS", value, Domains::named, is_none, "numa, cache or a number from 1 on")
}

fn leaders(value: Option<String>) -> Result<Option<u32>> {
    let count = |word: &str| word.parse().ok().filter(|&count| count > 0);
    meant("CIRCULANT_LEADERS", value, count, "is no number of leaders", "one from 1 on")
}

fn costs(value: Option<String>) -> Result<Option<PutCosts>> {
    let cure = "microseconds a put (0.1 to 1000000) and nanoseconds a byte (0.001 to 1000000), as 2.0,0.1";
    meant("CIRCULANT_COSTS", value, PutCosts::named, "is not what a put and a byte cost", cure)
}

fn progress(value: Option<String>) -> Result<Option<Progress>> {
    let named = |word: &str| match word {
        "calls" => Some(Progress::Calls),
        "thread" => Some(Progress::Thread),
        _ => None,
    };
    meant("CIRCULANT_PROGRESS", value, named, "is no kind of progress", "calls or thread")
}

fn seconds(name: &str, value: Option<String>, default: Option<Duration>) -> Result<Option<Duration>> {
    let of = |word: &str| word.parse().ok().filter(|s| (0.0..1e9).contains(s)).map(Duration::from_secs_f64);
    let limit = meant(name, value, of, "is no number of seconds", "one from 0 (never) on")?;
    Ok(limit.or(default).filter(|limit| !limit.is_zero()))
}

/// What a variable's value means, where it is set; it `is_none` where it means nothing, and one had better take another.
fn meant<T>(
    name: &str,
    value: Option<String>,
    meaning: impl FnOnce(&str) -> Option<T>,
    is_none: &str,
    take: &str,
) -> Result<Option<T>> {
    let Some(word) = value else { return Ok(None) };
    let refused = || Error::boot(format!("{name}={word} {is_none}"), format!("take {take}, or unset it"));
    meaning(&word).map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_none_is_named() {
        assert_eq!(way(None), Ok(None));
        assert_eq!(way(Some("ring".into())), Ok(Some(Way::Ring)));
        assert!(way(Some("mmap".into())).unwrap_err().to_string().contains("CIRCULANT_SHM_COPY=mmap"));
    }

    #[test]
    fn domains_and_leaders_that_are_none_are_named() {
        assert_eq!((domains(None), leaders(None)), (Ok(None), Ok(None)));
        assert_eq!(domains(Some("4".into())), Ok(Some(Domains::Runs(4))));
        assert_eq!(leaders(Some("4".into())), Ok(Some(4)));
        assert!(domains(Some("L2".into())).unwrap_err().to_string().contains("CIRCULANT_DOMAINS=L2"));
        assert!(leaders(Some("0".into())).unwrap_err().to_string().contains("CIRCULANT_LEADERS=0"));
    }

    #[test]
    fn costs_that_are_none_are_named() {
        let of = |word: &str| costs(Some(word.into()));
        let given = of("30,0.1").unwrap().unwrap();
        assert_eq!((Some(given), given.to_string().as_str()), (PutCosts::new(30.0, 0.1), "30,0.1"));
        assert_eq!((costs(None), of("30, 0.1")), (Ok(None), Ok(Some(given))));
        for word in
            ["30", "30,", ",1", "30,0", "-1,1", "inf,1", "nan,1", "1,2,3", "2 us,1", "0.09,1", "1,2e6"]
        {
            assert!(of(word).unwrap_err().to_string().contains(&format!("CIRCULANT_COSTS={word} is not")));
        }
    }

    #[test]
    fn progress_that_is_none_is_named() {
        assert_eq!([None, Some("thread".into())].map(progress), [Ok(None), Ok(Some(Progress::Thread))]);
        assert!(progress(Some("async".into())).unwrap_err().to_string().contains("CIRCULANT_PROGRESS=async"));
    }

    #[test]
    fn limits_of_no_time_are_none() {
        let zero = Some(Duration::ZERO);
        let limits = Settings { stall: zero, timeout: zero, ..Settings::default() }.limits();
        assert_eq!(limits, Limits { tell: None, end: None });
        assert_eq!(Settings::default().limits(), Limits { tell: Some(STALL), end: None });
    }

    #[test]
    fn seconds_that_are_none_are_named() {
        let three = Some(Duration::from_secs(3));
        assert_eq!(seconds("X", Some("0".into()), three), Ok(None));
        assert_eq!(seconds("X", None, three), Ok(three));
        assert!(seconds("X", Some("-1".into()), None).unwrap_err().to_string().contains("X=-1"));
    }
}
