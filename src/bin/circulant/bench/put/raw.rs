//! The same over a TCP socket and nothing else: what puts are compared with.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use circulant::error::{Error, Result};
use circulant::rank::{Place, Rank};

use super::Ends;
use super::puts::window;

/// A socket that is not yet connected: rank 0 listens.
pub struct Door {
    me: Rank,
    listener: Option<TcpListener>,
}

impl Door {
    /// `ip` is that of the provider, so that both go over one interface; without, this machine's own.
    pub fn open(place: Place, ip: Option<IpAddr>) -> Result<Door> {
        let ip = ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let listener = if place.rank == 0 { Some(TcpListener::bind((ip, 0)).map_err(failed)?) } else { None };
        Ok(Door { me: place.rank, listener })
    }

    /// Where rank 0 listens; `None` on rank 1.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Connects to rank 0's address, or is connected to.
    pub fn connect(self, address: Option<SocketAddr>, bytes: usize) -> Result<Raw> {
        let socket = match (self.listener, address) {
            (Some(listener), _) => listener.accept().map(|(socket, _)| socket),
            (None, Some(address)) => TcpStream::connect(address),
            (None, None) => Err(io::Error::from(ErrorKind::AddrNotAvailable)),
        };
        let socket = socket.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        Ok(Raw { me: self.me, socket, buffer: vec![self.me as u8 + 1; bytes.max(ANSWER)] })
    }
}

/// Bytes of an answer in a stream.
const ANSWER: usize = 8;

/// One of the two ends of a socket.
pub struct Raw {
    me: Rank,
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    fn write(&mut self, bytes: usize) -> io::Result<()> {
        let mut left = &self.buffer[..bytes];
        while !left.is_empty() {
            match self.socket.write(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => left = &left[written..],
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn read(&mut self, bytes: usize) -> io::Result<()> {
        let mut read = 0;
        while read < bytes {
            match self.socket.read(&mut self.buffer[read..bytes]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => read += more,
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn there_and_back(&mut self, bytes: usize, rounds: u32) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        for _ in 0..rounds {
            if self.me == 0 {
                self.write(bytes)?;
                self.read(bytes)?;
            } else {
                self.read(bytes)?;
                self.write(bytes)?;
            }
        }
        self.socket.set_nonblocking(false)
    }

    fn send_stream(&mut self, bytes: usize, messages: u32) -> io::Result<()> {
        let (window, every) = window(bytes);
        let (mut sent, mut answered) = (0, 0);
        while answered < messages {
            if sent < messages && sent - answered < window {
                self.write(bytes)?;
                sent += 1;
            } else {
                self.read(ANSWER)?;
                answered = (answered + every).min(messages);
            }
        }
        Ok(())
    }

    fn receive_stream(&mut self, bytes: usize, messages: u32) -> io::Result<()> {
        let (_, every) = window(bytes);
        for received in 1..=messages {
            self.read(bytes)?;
            if received % every == 0 || received == messages {
                self.write(ANSWER)?;
            }
        }
        Ok(())
    }
}

impl Ends for Raw {
    fn ping_pong(&mut self, bytes: usize, rounds: u32) -> Result<f64> {
        let start = Instant::now();
        // No bytes would be no message.
        self.there_and_back(bytes.max(1), rounds).map_err(failed)?;
        Ok(start.elapsed().as_secs_f64() / f64::from(2 * rounds))
    }

    fn stream(&mut self, bytes: usize, messages: u32) -> Result<f64> {
        let start = Instant::now();
        let bytes = bytes.max(1);
        let done = if self.me == 0 {
            self.send_stream(bytes, messages)
        } else {
            self.receive_stream(bytes, messages)
        };
        done.map_err(failed)?;
        Ok(start.elapsed().as_secs_f64() / f64::from(messages))
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn failed(error: io::Error) -> Error {
    Error::transport("raw TCP", error.to_string(), "leave out --baseline, or see why the other rank is gone")
}
