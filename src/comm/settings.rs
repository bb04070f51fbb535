//! What a user may set from outside a program.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::error::{Error, Result};

/// What a user may set, in the environment (all ranks alike).
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `CIRCULANT_PROVIDER`: which provider, by name.
    pub provider: Option<String>,
    /// `CIRCULANT_INTERFACE`: which interface or address.
    pub interface: Option<String>,
    /// `CIRCULANT_STALL`: seconds after which a wait is told on the standard error; 0 for never. Default 10.
    pub stall: Option<Duration>,
    /// `CIRCULANT_TIMEOUT`: seconds after which a wait is an error; 0 or none for never.
    pub timeout: Option<Duration>,
}

impl Settings {
    /// From the environment; fails where a number is none.
    pub fn from_environment() -> Result<Settings> {
        let word = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(Settings {
            provider: word("CIRCULANT_PROVIDER"),
            interface: word("CIRCULANT_INTERFACE"),
            stall: seconds("CIRCULANT_STALL", word("CIRCULANT_STALL"), Some(10.0))?,
            timeout: seconds("CIRCULANT_TIMEOUT", word("CIRCULANT_TIMEOUT"), None)?,
        })
    }
}

fn seconds(name: &str, value: Option<String>, default: Option<f64>) -> Result<Option<Duration>> {
    let number = match value {
        None => default,
        Some(value) => {
            Some(value.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s)).ok_or_else(|| {
                Error::boot(
                    format!("{name}={value} is no number of seconds"),
                    "take one from 0 (never) on, or unset it",
                )
            })?)
        }
    };
    Ok(number.filter(|&seconds| seconds > 0.0).map(Duration::from_secs_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_are_none_are_named() {
        assert_eq!(seconds("X", Some("0".into()), Some(3.0)), Ok(None));
        assert_eq!(seconds("X", None, Some(3.0)), Ok(Some(Duration::from_secs(3))));
        assert!(seconds("X", Some("-1".into()), None).unwrap_err().to_string().contains("X=-1"));
    }
}
