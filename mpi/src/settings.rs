//! What a user may set, in the environment, alike on all ranks.
#![forbid(unsafe_code)]

use circulant::collective::Collective;

/// Which calls are taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether any is (`CIRCULANT_MPI=off`).
    pub on: bool,
    /// Whether a table is printed at the end (`CIRCULANT_MPI=report`).
    pub report: bool,
    /// A bit for each collective, by its number.
    collectives: u32,
    /// The least and the most bytes of a call.
    pub least: usize,
    pub most: usize,
}

/// The collectives as MPI calls them.
pub const NAMES: [(&str, Collective); 14] = [
    ("bcast", Collective::Broadcast),
    ("reduce", Collective::Reduce),
    ("allreduce", Collective::Allreduce),
    ("allgather", Collective::Allgather),
    ("allgatherv", Collective::Allgatherv),
    ("reduce_scatter", Collective::ReduceScatter),
    ("reduce_scatter_block", Collective::ReduceScatterBlock),
    ("scatter", Collective::Scatter),
    ("scatterv", Collective::Scatterv),
    ("gather", Collective::Gather),
    ("gatherv", Collective::Gatherv),
    ("alltoall", Collective::Alltoall),
    ("alltoallv", Collective::Alltoallv),
    ("barrier", Collective::Barrier),
];

/// A collective's name in MPI.
pub fn name(collective: Collective) -> &'static str {
    NAMES.iter().find(|(_, one)| *one == collective).map_or("", |(name, _)| name)
}

impl Settings {
    /// From variables, which `lookup` looks up.
    ///
    /// # Errors
    /// A sentence that names the variable, its value and the cure.
    pub fn from(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let mode = lookup("CIRCULANT_MPI").unwrap_or_else(|| "on".into());
        if !["on", "off", "report"].contains(&mode.as_str()) {
            return Err(format!("CIRCULANT_MPI is '{mode}'; it is one of on, off, report"));
        }
        let collectives = match lookup("CIRCULANT_MPI_COLLECTIVES") {
            None => u32::MAX,
            Some(list) => {
                list.split(',').try_fold(0, |all, word| Ok::<_, String>(all | bit_of(word.trim())?))?
            }
        };
        let bytes = |name: &str, default| match lookup(name) {
            None => Ok(default),
            Some(value) => bytes(&value).ok_or_else(|| {
                format!("{name} is '{value}'; write a number of bytes, such as 4096, 64K or 1M")
            }),
        };
        let (least, most) = (bytes("CIRCULANT_MPI_LEAST", 0)?, bytes("CIRCULANT_MPI_MOST", usize::MAX)?);
        if least > most {
            return Err(format!(
                "CIRCULANT_MPI_LEAST is {least}, above CIRCULANT_MPI_MOST, {most}; let it be less"
            ));
        }
        Ok(Settings { on: mode != "off", report: mode == "report", collectives, least, most })
    }

    /// Whether calls of this collective are taken.
    pub fn takes(&self, collective: Collective) -> bool {
        self.collectives & bit(collective) != 0
    }
}

fn bit(collective: Collective) -> u32 {
    1 << collective as u8
}

fn bit_of(word: &str) -> Result<u32, String> {
    let found = NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, collective)| bit(*collective)).ok_or_else(|| {
        let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("CIRCULANT_MPI_COLLECTIVES has '{word}'; it is a list of: {}", names.join(","))
    })
}

fn bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::from(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into()))
    }

    #[test]
    fn without_variables_everything_is_taken() {
        let settings = from(&[]).unwrap();
        assert!(settings.on && !settings.report);
        assert!(NAMES.iter().all(|(_, collective)| settings.takes(*collective)));
        assert_eq!((settings.least, settings.most), (0, usize::MAX));
    }

    #[test]
    fn collectives_and_sizes_are_chosen() {
        let settings = from(&[
            ("CIRCULANT_MPI", "report"),
            ("CIRCULANT_MPI_COLLECTIVES", "bcast, allreduce"),
            ("CIRCULANT_MPI_LEAST", "64K"),
            ("CIRCULANT_MPI_MOST", "1m"),
        ]);
        let settings = settings.unwrap();
        assert!(
            settings.report && settings.takes(Collective::Broadcast) && settings.takes(Collective::Allreduce)
        );
        assert!(!settings.takes(Collective::Barrier));
        assert_eq!((settings.least, settings.most), (1 << 16, 1 << 20));
    }

    #[test]
    fn what_is_malformed_is_named_with_its_value() {
        for (name, value) in [
            ("CIRCULANT_MPI", "yes"),
            ("CIRCULANT_MPI_COLLECTIVES", "bcast,ring"),
            ("CIRCULANT_MPI_LEAST", "many"),
            ("CIRCULANT_MPI_MOST", "-1"),
            ("CIRCULANT_MPI_MOST", "99999999999G"),
        ] {
            let sentence = from(&[(name, value)]).unwrap_err();
            let word = value.rsplit(',').next().unwrap();
            assert!(sentence.starts_with(name) && sentence.contains(&format!("'{word}'")), "{sentence}");
        }
        assert!(from(&[("CIRCULANT_MPI_LEAST", "2"), ("CIRCULANT_MPI_MOST", "1")]).is_err());
    }
}
