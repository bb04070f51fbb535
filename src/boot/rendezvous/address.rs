//! Where the ranks meet, and how they get there.
//!
//! It never gives up before the deadline because rank 0 is not there yet: ranks start in any order.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use crate::boot::socket::{Deadline, Socket};
use crate::error::{Error, Result};

/// The pauses between two attempts to reach rank 0, which may start later: doubled up to the second.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// A host and a port, as the user wrote them; the name is looked up when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or a numeric address, without brackets.
    pub host: String,
    /// The TCP port, not 0.
    pub port: u16,
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port @ 1..) if !host.is_empty() => Ok(Address { host: host.into(), port }),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

pub(super) fn listen(address: &Address) -> Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port)).map_err(|error| {
        Error::boot(
            format!("rank 0 cannot listen at the rendezvous {address}: {error}"),
            "give an address of rank 0's host and a free port",
        )
    })
}

/// A connection to rank 0, which may start later than this rank.
pub(super) fn reach(address: &Address, limit: Duration) -> Result<Socket> {
    let deadline = Deadline::after(limit);
    let mut pause = PAUSES.0;
    let mut last = String::from("no attempt was made");
    while let Some(left) = deadline.remaining() {
        match connect(address, left) {
            Ok(stream) => {
                prepare(&stream);
                return Ok(Socket::new(stream));
            }
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES.1);
    }
    Err(Error::boot(
        format!(
            "rank 0 could not be reached at the rendezvous {address} within {} s ({last})",
            limit.as_secs()
        ),
        "start rank 0 on that host; CIRCULANT_BOOT_TIMEOUT gives it more seconds",
    ))
}

pub(super) fn connect(address: &Address, limit: Duration) -> std::io::Result<TcpStream> {
    let mut last = ErrorKind::NotFound.into();
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Frames are small and awaited. If the option cannot be set they are only later.
pub(super) fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}
