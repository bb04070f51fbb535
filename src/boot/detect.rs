//! What started this process? Decided from environment variables alone.
//!
//! It never opens a socket and never guesses: a launcher whose protocol is not spoken is an error
//! with the cure, because N ranks that each believe to be alone are worse than none. Variables come
//! from a lookup, so that every case can be tested without touching the process's own environment.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::pmix;
use super::rendezvous::Address;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

/// How long a rank waits for the others unless `CIRCULANT_BOOT_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What to do to run one process where a launcher's variables say more.
const ALONE: &str = "CIRCULANT_BOOT=single runs this process alone";

/// What started this process, and how it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Nothing did: one process alone.
    Single,
    /// A launcher that speaks PMI-1 over an inherited socket.
    Pmi1Socket {
        /// The socket's number in this process.
        fd: i32,
        /// Who and how many we are.
        place: Place,
    },
    /// A launcher that speaks PMI-1 over TCP and gives the place there.
    Pmi1Port {
        /// Where it listens.
        address: Address,
        /// What it calls this process.
        id: u32,
    },
    /// A launcher that speaks PMIx, and gives the place there.
    Pmix {
        /// The library's file, where the user names it.
        library: Option<String>,
    },
    /// The user's own: all ranks meet at rank 0's address.
    Rendezvous {
        /// Where rank 0 listens.
        address: Address,
        /// Who and how many we are.
        place: Place,
    },
}

type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The environment variables of a process, or a test's.
pub struct Variables<'a>(Box<Lookup<'a>>);

impl<'a> Variables<'a> {
    /// Variables that a function looks up.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Variables(Box::new(lookup))
    }

    /// This process's environment. A value that is not UTF-8 is shown with replacement characters, and
    /// is then refused as malformed.
    pub fn of_the_process() -> Self {
        Variables::new(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// How long a rank waits for the others: `CIRCULANT_BOOT_TIMEOUT` in seconds, 60 if not set.
    pub fn timeout(&self) -> Result<Duration> {
        match self.number::<u32>("CIRCULANT_BOOT_TIMEOUT")? {
            None => Ok(TIMEOUT),
            Some(0) => {
                Err(refused("CIRCULANT_BOOT_TIMEOUT", "0", "give at least one second, or unset it for 60"))
            }
            Some(seconds) => Ok(Duration::from_secs(seconds.into())),
        }
    }

    /// Which way of boot the variables ask for. The first of these that is there: `CIRCULANT_BOOT`,
    /// `CIRCULANT_RENDEZVOUS`, PMI-1, PMIx; else a launcher not spoken (an error); else a single process.
    pub fn choose(&self) -> Result<Choice> {
        match self.text("CIRCULANT_BOOT").as_deref() {
            Some("single") => Ok(Choice::Single),
            Some("pmi1") => self.pmi1()?.ok_or_else(|| self.no_pmi()),
            Some("pmix") => self.pmix()?.ok_or_else(|| self.no_pmix()),
            Some("rendezvous") => self.rendezvous_as_asked(),
            Some(other) => {
                Err(refused("CIRCULANT_BOOT", other, "it is one of single, pmi1, pmix, rendezvous"))
            }
            None => self.found(),
        }
    }

    /// Which rank of a job this process is, as far as the variables say.
    pub fn rank(&self) -> Option<Rank> {
        match self.choose().ok()? {
            Choice::Single => None,
            Choice::Pmi1Socket { place, .. } | Choice::Rendezvous { place, .. } => Some(place.rank),
            Choice::Pmi1Port { id, .. } => Some(id),
            Choice::Pmix { .. } => self.number("PMIX_RANK").ok()?,
        }
    }

    /// Whether neither a way of boot nor a place to meet is named, so that MPI goes first where it is.
    pub fn leave_it_to_mpi(&self) -> bool {
        ["CIRCULANT_BOOT", "CIRCULANT_RENDEZVOUS"].iter().all(|name| self.text(name).is_none())
    }

    fn found(&self) -> Result<Choice> {
        if let Some(choice) = self.rendezvous()? {
            return Ok(choice);
        }
        match self.pmi1()? {
            // It needs no word of the launcher's, who may have no more for a second program, as Slurm has.
            Some(Choice::Pmi1Socket { place: Place { size: 1, .. }, .. }) => return Ok(Choice::Single),
            Some(choice) => return Ok(choice),
            None => {}
        }
        self.refuse_pmi_without_socket()?;
        if let Some(choice) = self.pmix()? {
            return Ok(choice);
        }
        self.refuse_slurm()?;
        Ok(Choice::Single)
    }

    fn pmi1(&self) -> Result<Option<Choice>> {
        if let Some(fd) = self.number("PMI_FD")? {
            let place =
                self.place("PMI_RANK", "PMI_SIZE", "PMI_FD is set, so the launcher should set it too")?;
            return Ok(Some(Choice::Pmi1Socket { fd, place }));
        }
        let Some(address) = self.address("PMI_PORT")? else { return Ok(None) };
        let id = self.needed("PMI_ID", "PMI_PORT is set, so the launcher should set it too")?;
        Ok(Some(Choice::Pmi1Port { address, id }))
    }

    fn rendezvous(&self) -> Result<Option<Choice>> {
        let Some(address) = self.address("CIRCULANT_RENDEZVOUS")? else { return Ok(None) };
        let place = self.place("CIRCULANT_RANK", "CIRCULANT_SIZE", "CIRCULANT_RENDEZVOUS needs it")?;
        Ok(Some(Choice::Rendezvous { address, place }))
    }

    fn rendezvous_as_asked(&self) -> Result<Choice> {
        if let Some(choice) = self.rendezvous()? {
            return Ok(choice);
        }
        let why =
            "CIRCULANT_BOOT=rendezvous needs CIRCULANT_RENDEZVOUS=host:port, or torchrun's four variables";
        let (host, port) =
            (self.needed::<String>("MASTER_ADDR", why)?, self.needed::<u16>("MASTER_PORT", why)?);
        let together = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let no_address =
            |()| refused("MASTER_ADDR:MASTER_PORT", &together, "give a host and a port from 1 to 65535");
        let address = together.parse().map_err(no_address)?;
        let place = self.place("RANK", "WORLD_SIZE", why)?;
        Ok(Choice::Rendezvous { address, place })
    }

    fn refuse_pmi_without_socket(&self) -> Result<()> {
        match self.number::<u32>("PMI_SIZE")? {
            Some(size) if size > 1 => Err(self.no_pmi()),
            _ => Ok(()),
        }
    }

    fn no_pmi(&self) -> Error {
        let size = self.text("PMI_SIZE").map_or_else(|| "not set".into(), |size| format!("'{size}'"));
        Error::boot(
            format!("neither PMI_FD nor PMI_PORT is set (PMI_SIZE is {size})"),
            format!("start with `circulant run`, mpiexec or `srun --mpi=pmi2`; {ALONE}"),
        )
    }

    /// A launcher's only rank needs no word of the launcher's.
    fn pmix(&self) -> Result<Option<Choice>> {
        let is_there = self.text("PMIX_RANK").is_some() && self.text("PMIX_NAMESPACE").is_some();
        match (is_there, self.number::<u32>("OMPI_COMM_WORLD_SIZE")?) {
            (true, Some(1)) => Ok(Some(Choice::Single)),
            (true, _) => Ok(Some(Choice::Pmix { library: self.text(pmix::VARIABLE) })),
            (false, Some(2..)) => Err(self.no_pmix()),
            (false, _) => Ok(None),
        }
    }

    fn no_pmix(&self) -> Error {
        let size =
            self.text("OMPI_COMM_WORLD_SIZE").map_or_else(|| "not set".into(), |size| format!("'{size}'"));
        Error::boot(
            format!("PMIX_RANK and PMIX_NAMESPACE are not both set (OMPI_COMM_WORLD_SIZE is {size})"),
            format!("start with Open MPI's mpirun, prterun or `srun --mpi=pmix`; {ALONE}"),
        )
    }

    /// In a batch script itself, where no step has been started, a process is alone.
    fn refuse_slurm(&self) -> Result<()> {
        let (Some(task), Some(_)) = (self.text("SLURM_PROCID"), self.text("SLURM_STEP_ID")) else {
            return Ok(());
        };
        match self.number::<u32>("SLURM_STEP_NUM_TASKS")? {
            Some(tasks) if tasks > 1 => Err(Error::boot(
                format!("started by srun without PMI (SLURM_PROCID={task}, SLURM_STEP_NUM_TASKS={tasks})"),
                format!("use `srun --mpi=pmi2` or `srun --mpi=pmix`; {ALONE}"),
            )),
            _ => Ok(()),
        }
    }

    fn place(&self, rank_name: &str, size_name: &str, why: &str) -> Result<Place> {
        let rank = self.needed(rank_name, why)?;
        let size = self.needed(size_name, why)?;
        if size == 0 {
            return Err(refused(size_name, size, "a job has at least one rank"));
        }
        if rank >= size {
            return Err(refused(rank_name, rank, &format!("it must be below {size_name}={size}")));
        }
        Ok(Place { rank, size })
    }

    fn address(&self, name: &str) -> Result<Option<Address>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(address) => Ok(Some(address)),
            Err(()) => Err(refused(name, text, "write host:port with a port from 1 to 65535")),
        }
    }

    fn needed<T: FromStr>(&self, name: &str, why: &str) -> Result<T> {
        self.number(name)?.ok_or_else(|| Error::boot(format!("{name} is not set"), why))
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value = text
            .parse()
            .map_err(|_| refused(name, &text, "it should be a number; set it anew or unset it"))?;
        Ok(Some(value))
    }

    /// None also where it is empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

fn refused(name: &str, value: impl Display, cure: &str) -> Error {
    Error::boot(format!("{name} is '{value}'"), cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(pairs: &'a [(&str, &str)]) -> Variables<'a> {
        Variables::new(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into()))
    }

    fn choose(pairs: &[(&str, &str)]) -> Result<Choice> {
        variables(pairs).choose()
    }

    fn refusal(pairs: &[(&str, &str)]) -> String {
        choose(pairs).unwrap_err().to_string()
    }

    fn at(rank: u32, size: u32) -> Place {
        Place { rank, size }
    }

    fn here(port: u16) -> Address {
        Address { host: "here".into(), port }
    }

    #[test]
    fn a_rank_is_known_where_a_job_is() {
        let rank = |pairs: &[(&str, &str)]| variables(pairs).rank();
        assert_eq!(rank(&[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")]), Some(2));
        assert_eq!(rank(&[("PMI_PORT", "here:1"), ("PMI_ID", "4")]), Some(4));
        assert_eq!(rank(&[("PMIX_RANK", "5"), ("PMIX_NAMESPACE", "job")]), Some(5));
        assert_eq!((rank(&[("PMI_RANK", "2")]), rank(&[("PMIX_RANK", "2")])), (None, None));
        let alone = [("CIRCULANT_BOOT", "single"), ("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")];
        assert_eq!(rank(&alone), None);
        let by_hand = [("CIRCULANT_RENDEZVOUS", "here:1"), ("CIRCULANT_RANK", "1"), ("CIRCULANT_SIZE", "2")];
        assert_eq!((rank(&by_hand), rank(&by_hand[1..]), rank(&by_hand[..2])), (Some(1), None, None));
    }

    #[test]
    fn without_any_variable_a_process_is_alone() {
        assert_eq!(choose(&[]).unwrap(), Choice::Single);
    }

    #[test]
    fn a_launcher_of_one_process_that_is_not_spoken_leaves_it_alone() {
        let of_one = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert_eq!(choose(&of_one).unwrap(), Choice::Single);
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(choose(&[&slurm[..], &[("SLURM_STEP_ID", "3")]].concat()).unwrap(), Choice::Single);
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "9")];
        assert_eq!(choose(&batch).unwrap(), Choice::Single);
        assert_eq!(choose(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap(), Choice::Single);
    }

    #[test]
    fn mpi_goes_first_unless_a_way_is_named() {
        let left = |name: &'static str| {
            Variables::new(move |asked| (asked == name).then(|| "x".to_owned())).leave_it_to_mpi()
        };
        assert!(left("PMI_FD") && left("PMIX_RANK"));
        assert!(!left("CIRCULANT_BOOT") && !left("CIRCULANT_RENDEZVOUS"));
    }

    #[test]
    fn an_inherited_socket_comes_with_rank_and_size() {
        let choice = choose(&[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3"), ("PMIX_RANK", "2")]);
        assert_eq!(choice.unwrap(), Choice::Pmi1Socket { fd: 7, place: at(2, 3) });
        let alone = [("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        assert_eq!(choose(&alone).unwrap(), Choice::Single);
        let asked = [&alone[..], &[("CIRCULANT_BOOT", "pmi1")]].concat();
        assert_eq!(choose(&asked).unwrap(), Choice::Pmi1Socket { fd: 7, place: at(0, 1) });
    }

    #[test]
    fn a_port_comes_with_an_id() {
        let choice = choose(&[("PMI_PORT", "here:99"), ("PMI_ID", "4")]);
        assert_eq!(choice.unwrap(), Choice::Pmi1Port { address: here(99), id: 4 });
        assert!(refusal(&[("PMI_PORT", "here:99")]).contains("PMI_ID is not set"));
    }

    #[test]
    fn pmix_comes_after_pmi() {
        let pmix = [("PMIX_RANK", "2"), ("PMIX_NAMESPACE", "prterun-1@1")];
        assert_eq!(choose(&pmix).unwrap(), Choice::Pmix { library: None });
        let named = [&pmix[..], &[(pmix::VARIABLE, "/x/libpmix.so")]].concat();
        assert_eq!(choose(&named).unwrap(), Choice::Pmix { library: Some("/x/libpmix.so".into()) });
        let both = [&pmix[..], &[("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")]].concat();
        assert!(matches!(choose(&both).unwrap(), Choice::Pmi1Socket { .. }));
        let asked = [&both[..], &[("CIRCULANT_BOOT", "pmix")]].concat();
        assert_eq!(choose(&asked).unwrap(), Choice::Pmix { library: None });
        assert!(
            refusal(&[("CIRCULANT_BOOT", "pmix")]).contains("PMIX_RANK and PMIX_NAMESPACE are not both set")
        );
    }

    #[test]
    fn an_explicit_rendezvous_goes_before_a_launcher() {
        let choice = choose(&[
            ("CIRCULANT_RENDEZVOUS", "here:99"),
            ("CIRCULANT_RANK", "0"),
            ("CIRCULANT_SIZE", "2"),
            ("PMI_FD", "7"),
        ]);
        assert_eq!(choice.unwrap(), Choice::Rendezvous { address: here(99), place: at(0, 2) });
    }

    #[test]
    fn the_explicit_variable_goes_before_everything() {
        let single = [("CIRCULANT_BOOT", "single"), ("PMI_FD", "abc"), ("CIRCULANT_RENDEZVOUS", "x")];
        assert_eq!(choose(&single).unwrap(), Choice::Single);
        assert!(refusal(&[("CIRCULANT_BOOT", "pmi1")]).contains("neither PMI_FD nor PMI_PORT"));
        assert!(
            refusal(&[("CIRCULANT_BOOT", "pmi9")]).contains("CIRCULANT_BOOT is 'pmi9'; it is one of single")
        );
        // As not set.
        assert_eq!(choose(&[("CIRCULANT_BOOT", ""), ("CIRCULANT_RENDEZVOUS", "")]).unwrap(), Choice::Single);
    }

    #[test]
    fn torchruns_variables_count_only_when_asked_for() {
        let torch = [("MASTER_ADDR", "here"), ("MASTER_PORT", "99"), ("RANK", "1"), ("WORLD_SIZE", "2")];
        assert_eq!(choose(&torch).unwrap(), Choice::Single);
        let asked = [&torch[..], &[("CIRCULANT_BOOT", "rendezvous")]].concat();
        assert_eq!(choose(&asked).unwrap(), Choice::Rendezvous { address: here(99), place: at(1, 2) });
        assert!(refusal(&asked[1..]).contains("MASTER_ADDR is not set; CIRCULANT_BOOT=rendezvous needs"));
    }

    #[test]
    fn a_launcher_that_is_not_spoken_is_an_error_with_the_cure() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        assert!(refusal(&[("OMPI_COMM_WORLD_SIZE", "4")]).contains("(OMPI_COMM_WORLD_SIZE is '4')"));
        assert!(refusal(&slurm).contains("use `srun --mpi=pmi2` or `srun --mpi=pmix`"));
        assert!(refusal(&[("PMI_RANK", "1"), ("PMI_SIZE", "4")]).contains("(PMI_SIZE is '4')"));
    }

    #[test]
    fn a_malformed_variable_is_named_with_its_value() {
        for (name, value) in
            [("PMI_RANK", "abc"), ("PMI_RANK", "-1"), ("PMI_SIZE", "0"), ("PMI_RANK", "3"), ("PMI_FD", "x")]
        {
            let good = [("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "3")];
            let pairs = [&[(name, value)], &good[..]].concat();
            assert!(refusal(&pairs).contains(&format!("{name} is '{value}'")), "{}", refusal(&pairs));
        }
        assert!(refusal(&[("PMI_FD", "7"), ("PMI_SIZE", "2")]).contains("PMI_RANK is not set"));
        for bad in ["here", "here:", ":1", "here:0", "here:70000", "here:x"] {
            let text = refusal(&[("CIRCULANT_RENDEZVOUS", bad)]);
            assert!(text.contains(&format!("CIRCULANT_RENDEZVOUS is '{bad}'")), "{text}");
        }
    }

    #[test]
    fn the_timeout_is_in_whole_seconds_and_never_zero() {
        let timeout = |value: Option<&str>| Variables::new(move |_| value.map(String::from)).timeout();
        assert_eq!(timeout(None).unwrap(), TIMEOUT);
        assert_eq!(timeout(Some("5")).unwrap(), Duration::from_secs(5));
        assert!(timeout(Some("0")).is_err());
        assert!(timeout(Some("soon")).unwrap_err().to_string().contains("CIRCULANT_BOOT_TIMEOUT is 'soon'"));
    }
}
