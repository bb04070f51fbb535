//! Which provider carries the puts, and why: discovery, what is missing, choice of an address.
//!
//! Never opens anything. Each known provider is asked by its exact name, so that every one that is not
//! taken has a reason that can be printed; a single question for all would be silent about those.

use std::ffi::c_int;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

use circulant_libfabric_sys as sys;
use sys::Functions;

use super::info::{Info, Wanted, bit_names, meaning};
use super::quirks::{Offer, QUIRKS, Quirk, ROOM, Reach, meant_by, room_for};
use crate::addresses::Hosts;
use crate::error::{Error, Result};

/// What is known before a provider is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The user's word: `tcp`, `net`, `rxm`, `ofi-shm`, `psm2`, `psm3`, `opx`, `verbs`, `efa`, `cxi`, or a full name.
    pub provider: Option<String>,
    /// All ranks are on this machine: loopback addresses will do, and are preferred.
    pub one_machine: bool,
    /// The interface (`eth0`) or the address to use, where there are several.
    pub interface: Option<String>,
    /// The hosts of the ranks, as far as they are known.
    pub hosts: Hosts,
}

impl Request {
    /// Fails where it names a provider that there is none of. Asks nobody.
    pub fn check(&self) -> Result<()> {
        candidates(self).map(drop)
    }
}

/// One provider that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Its name.
    pub provider: String,
    /// Whether it is the one.
    pub taken: bool,
    /// Why, or why not.
    pub reason: String,
}

/// The provider that was chosen, and the reasons.
pub struct Choice {
    pub(super) info: Info,
    pub(super) quirk: &'static Quirk,
    considered: Vec<Considered>,
}

impl Choice {
    /// The provider's name, as libfabric writes it: `tcp;ofi_rxm`.
    pub fn provider(&self) -> String {
        self.info.provider()
    }

    /// The interface or device.
    pub fn interface(&self) -> String {
        self.info.interface()
    }

    /// The address, where it is one of the internet.
    pub fn ip(&self) -> Option<IpAddr> {
        self.info.ip()
    }

    /// All that were considered, in the order of preference.
    pub fn considered(&self) -> &[Considered] {
        &self.considered
    }
}

/// The version of the libfabric that is there: `1.17`.
pub fn version() -> Result<String> {
    library().map(|library| sys::version_text(number(library)))
}

fn number(library: &Functions) -> u32 {
    // SAFETY: - takes nothing and reads a constant
    unsafe { library.fi_version() }
}

/// Chooses a provider. Fails with each that was considered and what it lacks.
///
/// The first call in a process takes about 0.3 s, in which the providers look for their devices.
pub fn choose(request: &Request) -> Result<Choice> {
    match survey(request)? {
        (Some((info, quirk)), considered) => Ok(Choice { info, quirk, considered }),
        (None, considered) => Err(none_of(&considered)),
    }
}

/// Every provider that [`choose`] looks at with its reason, whether or not one of them is taken.
pub fn considered(request: &Request) -> Result<Vec<Considered>> {
    survey(request).map(|(_, considered)| considered)
}

/// The first that is usable, and what is to be said of all.
type Survey = (Option<(Info, &'static Quirk)>, Vec<Considered>);

fn survey(request: &Request) -> Result<Survey> {
    // One thread at a time: fi_tostr has one buffer for all.
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);

    let library = library()?;
    let mut taken: Option<(Info, &'static Quirk)> = None;
    let mut considered = Vec::new();
    for quirk in candidates(request)? {
        let reason = match usable(library, quirk, request) {
            Err(reason) => reason,
            Ok(info) => match &taken {
                Some((first, _)) => {
                    let reason = format!("usable, but {} comes first", first.provider());
                    considered.push(Considered { provider: info.provider(), taken: false, reason });
                    continue;
                }
                None => {
                    let reason = whereabouts(&info);
                    considered.push(Considered { provider: info.provider(), taken: true, reason });
                    taken = Some((info, quirk));
                    continue;
                }
            },
        };
        considered.push(Considered { provider: quirk.title().to_owned(), taken: false, reason });
    }
    Ok((taken, considered))
}

fn library() -> Result<&'static Functions> {
    sys::libfabric().map_err(|missing| Error::transport("dlopen", missing.what, missing.cure))
}

/// Those to ask: the one that the user named, else all.
fn candidates(request: &Request) -> Result<Vec<&'static Quirk>> {
    match &request.provider {
        None => Ok(QUIRKS.iter().collect()),
        Some(word) => meant_by(word).map(|quirk| vec![quirk]).ok_or_else(|| unknown(word)),
    }
}

fn unknown(word: &str) -> Error {
    let words: Vec<_> =
        QUIRKS.iter().filter(|q| !matches!(q.offer, Offer::Never(_))).map(|q| q.words[0]).collect();
    let cure = format!(
        "use one of {}; or shm for shared memory, alone on one node or as shm+tcp beside one of these",
        words.join(", ")
    );
    Error::argument("provider", format!("`{word}` is not known"), cure)
}

fn none_of(considered: &[Considered]) -> Error {
    let lines: Vec<_> = considered.iter().map(|c| format!("{} ({})", c.provider, c.reason)).collect();
    Error::NoTransport(lines.join(", "))
}

fn whereabouts(info: &Info) -> String {
    match info.ip() {
        Some(ip) => format!("on {}, {ip}", info.interface()),
        None => format!("on {}", info.interface()),
    }
}

/// The provider's best offer, or why it cannot be used.
fn usable(
    library: &'static Functions,
    quirk: &Quirk,
    request: &Request,
) -> std::result::Result<Info, String> {
    match quirk.offer {
        Offer::Never(why) => return Err(format!("never: {why}")),
        Offer::OnRequest(why) if request.provider.is_none() => return Err(format!("only by request: {why}")),
        _ => {}
    }
    let version = number(library);
    if version < quirk.since {
        let [there, first] = [version, quirk.since].map(sys::version_text);
        return Err(format!("its puts carry no notices in libfabric {there}, before {first}"));
    }
    if quirk.reach == Reach::Machine && !request.one_machine {
        return Err("it reaches this machine only, and ranks are on others".to_owned());
    }
    let offers = quirk.names.iter().find_map(|name| offered(library, name, &wanted()).ok());
    let offers = offers.ok_or_else(|| missing(library, quirk))?;
    let best = best_address(offers, quirk, request)?;
    match best.ip().filter(|_| quirk.reach == Reach::Internet) {
        Some(ip) => answers(ip).map(|()| best),
        None => Ok(best),
    }
}

/// What a transport of ours needs; each mode and mr_mode bit that is allowed here is honoured.
fn wanted() -> Wanted {
    Wanted {
        ep_type: sys::FI_EP_RDM,
        caps: sys::FI_RMA | sys::FI_WRITE | sys::FI_REMOTE_WRITE,
        mode: HONOURED_MODE,
        mr_mode: HONOURED_MR_MODE,
        cq_data_size: NOTICE_BYTES,
        threading: sys::FI_THREAD_DOMAIN,
    }
}

const NOTICE_BYTES: usize = size_of::<crate::transport::Notice>();
const HONOURED_MODE: u64 = sys::FI_CONTEXT | sys::FI_CONTEXT2;
const HONOURED_MR_MODE: c_int = sys::FI_MR_LOCAL
    | sys::FI_MR_VIRT_ADDR
    | sys::FI_MR_ALLOCATED
    | sys::FI_MR_PROV_KEY
    | sys::FI_MR_ENDPOINT;

/// Fabrics of which puts are not taken as they must be: `efa-direct` comes before `efa`'s own and has no inlined puts but
/// of nothing, whatever it says of their size.
const REFUSED: [&str; 1] = ["efa-direct"];

/// What exactly this provider offers; a name that libfabric takes for another provider offers nothing.
fn offered(
    library: &'static Functions,
    name: &str,
    wanted: &Wanted,
) -> std::result::Result<Vec<Info>, c_int> {
    let fits = |info: &Info| info.provider() == name && !REFUSED.contains(&info.fabric_name().as_str());
    let offers: Vec<_> = Info::query(library, name, wanted)?.into_iter().filter(fits).collect();
    if offers.is_empty() { Err(-sys::FI_ENODATA) } else { Ok(offers) }
}

/// Why a provider offers nothing: what it would need of us, or that it is not there.
fn missing(library: &'static Functions, quirk: &Quirk) -> String {
    let anything = Wanted {
        ep_type: sys::FI_EP_UNSPEC,
        caps: 0,
        mode: !0,
        mr_mode: ANY_MR_MODE,
        cq_data_size: 0,
        threading: sys::FI_THREAD_UNSPEC,
    };
    let mut error = -sys::FI_ENODATA;
    for name in quirk.names {
        match offered(library, name, &anything) {
            Ok(offers) => return lacks(library, &offers),
            Err(code) => error = code,
        }
    }
    absent(library, quirk, error)
}

/// All bits but the two lowest, which are modes from before there were bits.
const ANY_MR_MODE: c_int = !0b11;

fn absent(library: &Functions, quirk: &Quirk, error: c_int) -> String {
    let error = meaning(library, error as isize);
    let filter = std::env::var("FI_PROVIDER").unwrap_or_default();
    let forbidden: Vec<_> = quirk.names.iter().copied().filter(|name| forbids(&filter, name)).collect();
    if !forbidden.is_empty() {
        let names = forbidden.join(" and ");
        return format!("FI_PROVIDER={filter} forbids {names}; unset it, or let it name this too");
    }
    match quirk.reach {
        Reach::Internet => format!("fi_getinfo: {error}; {NO_INTERFACE}"),
        _ => format!("no device here, or not in this libfabric (fi_getinfo: {error})"),
    }
}

const NO_INTERFACE: &str =
    "no usable network interface: bring one up (`ip link set NAME up`) and give it an address";

/// Whether a value of libfabric's own variable `FI_PROVIDER` hides a provider: it lists the cores that
/// there are to be, in names with commas between; after a `^`, all that there are not to be.
fn forbids(filter: &str, provider: &str) -> bool {
    let (excludes, list) = match filter.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, filter),
    };
    let listed = |part: &str| list.split([',', ';']).any(|name| name.trim().eq_ignore_ascii_case(part));
    let mut parts = provider.split(';');
    if excludes { parts.any(listed) } else { !filter.is_empty() && !parts.next().is_some_and(listed) }
}

/// By which launchers tell how many ranks there are.
const RANKS: [&str; 6] = [
    "CIRCULANT_SIZE",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "WORLD_SIZE",
];

/// What the environment should hold before the first call into libfabric, where it holds it not yet:
/// names and values for whoever owns the process to set, as a library should not.
///
/// Where it is known how many ranks there are, [room](ROOM) for as many. And `FI_PROVIDER=tcp`, which may have been set for an
/// MPI library, means native TCP, which was called `net` until 1.x and would be hidden there; a name that is of no use does no harm.
pub fn lacking(variable: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let mut told = RANKS.iter().filter_map(|name| variable(name)?.parse().ok());
    let ranks: Option<u32> = told.next().filter(|_| variable(ROOM).is_none_or(|set| set.is_empty()));
    let mut lacking: Vec<_> = ranks.map(|ranks| (ROOM, room_for(ranks).to_string())).into_iter().collect();
    if variable("FI_PROVIDER").as_deref() == Some("tcp") {
        lacking.push(("FI_PROVIDER", "tcp,net".to_owned()));
    }
    lacking
}

/// What the offer that comes nearest lacks.
fn lacks(library: &Functions, offers: &[Info]) -> String {
    let nearest = offers.iter().map(|info| lacked_by(library, info)).min_by_key(Vec::len).unwrap_or_default();
    if nearest.is_empty() { "it refuses FI_THREAD_DOMAIN".to_owned() } else { nearest.join(", ") }
}

fn lacked_by(library: &Functions, info: &Info) -> Vec<String> {
    let mut lacks = Vec::new();
    if info.endpoint().type_ != sys::FI_EP_RDM {
        lacks.push("no FI_EP_RDM".to_owned());
    }
    if info.root().caps & sys::FI_RMA == 0 {
        lacks.push("no FI_RMA".to_owned());
    }
    let notice = info.domain().cq_data_size;
    if notice < NOTICE_BYTES {
        lacks.push(format!("{notice} bytes of remote CQ data, where {NOTICE_BYTES} are needed"));
    }
    let mode = info.root().mode & !HONOURED_MODE;
    if mode != 0 {
        lacks.push(format!("it demands {}", bit_names(library, mode, sys::FI_TYPE_MODE)));
    }
    let mr_mode = info.domain().mr_mode & !HONOURED_MR_MODE;
    if mr_mode != 0 {
        lacks.push(format!("it demands {}", bit_names(library, mr_mode, sys::FI_TYPE_MR_MODE)));
    }
    lacks
}

/// The offer with the address that suits the request best: by the networks that most hosts share.
fn best_address(offers: Vec<Info>, quirk: &Quirk, request: &Request) -> std::result::Result<Info, String> {
    let there = join_all(&offers);
    let (zoned, offers): (Vec<_>, Vec<_>) =
        offers.into_iter().partition(|info| info.ip().is_some_and(needs_zone));
    if offers.is_empty() {
        return Err(format!("{there}, which mean nothing without this machine's zone; {NO_INTERFACE}"));
    }
    let left_out = if zoned.is_empty() { "" } else { " (of which those of one link mean nothing elsewhere)" };
    let there = format!("{there}{left_out}");
    if let Some(wanted) = &request.interface {
        let called = offers.into_iter().filter(|info| is_called(info, wanted));
        let best = called.min_by_key(|info| distance(info.ip(), request.one_machine));
        return best.ok_or_else(|| format!("nothing on `{wanted}`; it is {there}"));
    }
    let leads_on =
        |info: &Info| quirk.reach != Reach::Internet || info.ip().is_none_or(|ip| leads_on(ip, request));
    let best = offers.into_iter().filter(leads_on).min_by_key(|info| {
        let beyond = info.ip().map_or(usize::MAX, |ip| request.hosts.beyond(ip));
        let (unlike, kind) = distance(info.ip(), request.one_machine);
        (unlike, beyond, kind)
    });
    best.ok_or_else(|| {
        format!("ranks are on other machines, and it is only {there}, which lead to none; {NO_INTERFACE}")
    })
}

fn join_all(offers: &[Info]) -> String {
    let there: Vec<_> = offers.iter().map(whereabouts).collect();
    there.join("; ")
}

/// Whether an address means something together with a zone only, which is another one on each machine.
fn needs_zone(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether an address may lead to the other ranks.
fn leads_on(ip: IpAddr, request: &Request) -> bool {
    request.one_machine || !(ip.is_loopback() || request.hosts.others_have(ip))
}

/// Whether an address answers itself: libfabric offers those of interfaces that are down too.
fn answers(ip: IpAddr) -> std::result::Result<(), String> {
    let connect = || {
        let listener = TcpListener::bind((ip, 0))?;
        TcpStream::connect(listener.local_addr()?).map(drop)
    };
    connect().map_err(|e: std::io::Error| format!("{ip}: {e}; {NO_INTERFACE}"))
}

fn is_called(info: &Info, wanted: &str) -> bool {
    info.interface() == wanted || info.ip().is_some_and(|ip| wanted.parse() == Ok(ip))
}

/// How ill an address suits: loopback comes first on one machine and last between machines, IPv4
/// before IPv6, and those of IPv4 that are good for one link only after both. Last come
/// those of another kind: verbs cannot use the InfiniBand form of an address that it offers beside the IP.
fn distance(ip: Option<IpAddr>, one_machine: bool) -> (bool, u8) {
    let Some(ip) = ip else { return (true, 3) };
    let kind = match ip {
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    };
    (ip.is_loopback() != one_machine, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_preferred_as_ranks_are_placed() {
        let order = |one_machine| {
            let mut ips = ["::1", "192.0.2.2", "fd00::2", "127.0.0.1", "169.254.0.1"];
            ips.sort_by_key(|ip| distance(ip.parse().ok(), one_machine));
            ips
        };
        let unlike = distance(None, true).max(distance(None, false));
        assert!(["169.254.0.1", "127.0.0.1"].iter().all(|ip| distance(ip.parse().ok(), true) < unlike));
        assert_eq!(order(true)[..3], ["127.0.0.1", "::1", "192.0.2.2"]);
        assert_eq!(order(false)[..3], ["192.0.2.2", "fd00::2", "169.254.0.1"]);
        assert!(needs_zone("fe80::1".parse().unwrap()) && !needs_zone("fd00::2".parse().unwrap()));
    }

    #[test]
    fn a_filter_forbids_cores_that_it_does_not_list_and_layers_that_it_excludes() {
        assert!(forbids("tcp", "net") && forbids("shm,psm3", "tcp;ofi_rxm"));
        assert!(!forbids("tcp", "tcp;ofi_rxm") && !forbids("TCP, net", "net") && !forbids("", "net"));
        assert!(forbids("^net,shm", "net") && forbids("^ofi_rxm", "tcp;ofi_rxm") && !forbids("^net", "tcp"));
    }

    #[test]
    fn only_what_is_not_set_is_lacking_and_a_filter_for_tcp_is_widened() {
        let with = |set: &[(&str, &str)]| {
            lacking(|name| set.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
        };
        assert_eq!(with(&[]), []);
        assert_eq!(with(&[("PMI_SIZE", "3")]), [("FI_UNIVERSE_SIZE", "64".to_owned())]);
        let several = [("SLURM_NTASKS", "9"), ("SLURM_STEP_NUM_TASKS", "500"), ("PMI_SIZE", "x")];
        assert_eq!(with(&several), [("FI_UNIVERSE_SIZE", "500".to_owned())]);
        assert_eq!(with(&[("FI_UNIVERSE_SIZE", "9"), ("FI_PROVIDER", "shm"), ("PMI_SIZE", "3")]), []);
        let widened = [("FI_PROVIDER", "tcp,net".to_owned())];
        assert_eq!(with(&[("FI_UNIVERSE_SIZE", "9"), ("FI_PROVIDER", "tcp")]), widened);
    }

    #[test]
    fn an_address_of_nobody_here_does_not_answer() {
        assert_eq!(answers("127.0.0.1".parse().unwrap()), Ok(()));
        let error = answers("203.0.113.1".parse().unwrap()).unwrap_err();
        assert!(error.contains("no usable network interface"), "{error}");
    }

    #[test]
    fn a_provider_nobody_knows_is_answered_with_those_there_are() {
        let error = candidates(&Request { provider: Some("tpc".into()), ..Request::default() }).unwrap_err();
        assert!(error.to_string().contains("`tpc` is not known; use one of psm2, psm3"), "{error}");
    }
}
