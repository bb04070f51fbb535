//! Notified puts between two ranks, straight on the transport.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use circulant::comm::carrier::Carrier;
use circulant::comm::meeting::Meeting;
use circulant::error::Result;
use circulant::rank::Rank;
use circulant::transport::{
    Event, Gait, Notice, Posted, Put, Region, RemoteKey, RemoteKeys, Report, Segment, Token, Transport,
};
use serde::{Deserialize, Serialize};

use super::Ends;

/// One of the two ranks.
pub struct Puts {
    me: Rank,
    transport: Box<dyn Transport>,
    region: Region,
    target: RemoteKey,
    free: Vec<Token>,
    notices: VecDeque<Notice>,
    events: Vec<Event>,
}

/// What the ranks tell each other at the start.
#[derive(Serialize, Deserialize)]
struct Word {
    keys: RemoteKeys,
    address: Option<SocketAddr>,
}

/// Bytes that a stream keeps in flight, and the most messages.
const IN_FLIGHT: usize = 4 << 20;
const MOST_IN_FLIGHT: usize = 64;
/// A sleep that nothing ends is a missed wake-up: look again.
const NAP: Duration = Duration::from_millis(100);

/// How many messages a stream has in flight, and after how many the receiver answers.
pub fn window(bytes: usize) -> (u32, u32) {
    let window = (IN_FLIGHT / bytes.max(1)).clamp(4, MOST_IN_FLIGHT) as u32;
    (window, window / 4)
}

impl Puts {
    /// Connects the ranks of the meeting, who tell each other `address` besides; gives that of rank 0.
    pub fn connect(
        meeting: &mut Meeting,
        mut carrier: Carrier,
        bytes: usize,
        address: Option<SocketAddr>,
    ) -> Result<(Puts, Option<SocketAddr>)> {
        let place = meeting.place();
        let transport = carrier.transport();
        let mut memory = transport.allocate(bytes.max(1))?;
        // Pages never written are all the same page of zeros, which a cache holds.
        let _is_new = memory.fill(place.rank as u8 + 1);
        let region = transport.register(memory)?;
        let word = Word { keys: region.remote, address };
        let words = meeting.connect(&mut carrier, word)?;
        let transport = carrier.into_transport();
        let peer = 1 - place.rank;
        let target = transport.key(words[peer as usize].keys, peer);
        let free = (0..transport.limits().in_flight as Token).rev().collect();
        let puts = Puts {
            me: place.rank,
            transport,
            region,
            target,
            free,
            notices: VecDeque::new(),
            events: Vec::new(),
        };
        Ok((puts, words[0].address))
    }

    /// The transport's name.
    pub fn name(&self) -> String {
        self.transport.name()
    }

    /// Rank 0's number, on both ranks.
    pub fn agree(&mut self, number: u32) -> Result<u32> {
        if self.me == 0 {
            self.put(0, number)?;
            return Ok(number);
        }
        self.hear()
    }

    fn put(&mut self, len: usize, notice: Notice) -> Result<()> {
        let token = loop {
            match self.free.pop() {
                Some(token) => break token,
                None => self.poll()?,
            };
        };
        let put = Put {
            peer: 1 - self.me,
            from: &self.region,
            segments: &[Segment { offset: 0, len }],
            to: self.target,
            to_offset: 0,
            notice,
            report: Report::Sent,
            token,
            attended: true,
            for_user: true,
            gait: Gait::Straight,
        };
        loop {
            match self.transport.put(&put)? {
                Posted::Pending => return Ok(()),
                Posted::Done => break self.free.push(token),
                Posted::Busy => {
                    poll(&mut *self.transport, &mut self.events, &mut self.free, &mut self.notices)?
                }
            };
        }
        Ok(())
    }

    /// Whether anything has happened.
    fn poll(&mut self) -> Result<bool> {
        poll(&mut *self.transport, &mut self.events, &mut self.free, &mut self.notices)
    }

    /// Spins until there is a notice.
    fn hear(&mut self) -> Result<Notice> {
        loop {
            match self.notices.pop_front() {
                Some(notice) => return Ok(notice),
                None => self.poll()?,
            };
        }
    }

    /// Sleeps until there is a notice.
    fn await_notice(&mut self) -> Result<Notice> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Ok(notice);
            }
            if !self.poll()? {
                self.transport.sleep(&[], NAP)?;
            }
        }
    }

    /// Sends what is under way: the rank is about to wait for something else, and would not poll.
    fn settle(&mut self) -> Result<()> {
        while self.free.len() < self.transport.limits().in_flight {
            self.poll()?;
        }
        Ok(())
    }

    fn send_stream(&mut self, bytes: usize, messages: u32) -> Result<()> {
        let (window, every) = window(bytes);
        let (mut sent, mut answered) = (0, 0);
        while answered < messages {
            if sent < messages && sent - answered < window {
                self.put(bytes, 0)?;
                sent += 1;
            } else {
                self.await_notice()?;
                answered = (answered + every).min(messages);
            }
        }
        Ok(())
    }

    fn receive_stream(&mut self, bytes: usize, messages: u32) -> Result<()> {
        let (_, every) = window(bytes);
        for received in 1..=messages {
            self.await_notice()?;
            if received % every == 0 || received == messages {
                self.put(0, 0)?;
            }
        }
        Ok(())
    }
}

fn poll(
    transport: &mut dyn Transport,
    events: &mut Vec<Event>,
    free: &mut Vec<Token>,
    notices: &mut VecDeque<Notice>,
) -> Result<bool> {
    transport.poll(events)?;
    let happened = !events.is_empty();
    for event in events.drain(..) {
        match event {
            Event::Sent(token) => free.push(token),
            Event::Notice(notice) => notices.push_back(notice),
            Event::Moved => {}
        }
    }
    Ok(happened)
}

impl Ends for Puts {
    fn ping_pong(&mut self, bytes: usize, rounds: u32) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..rounds {
            if self.me == 0 {
                self.put(bytes, 0)?;
                self.hear()?;
            } else {
                self.hear()?;
                self.put(bytes, 0)?;
            }
        }
        let half = start.elapsed().as_secs_f64() / f64::from(2 * rounds);
        self.settle()?;
        Ok(half)
    }

    fn stream(&mut self, bytes: usize, messages: u32) -> Result<f64> {
        let start = Instant::now();
        if self.me == 0 {
            self.send_stream(bytes, messages)?
        } else {
            self.receive_stream(bytes, messages)?
        }
        let each = start.elapsed().as_secs_f64() / f64::from(messages);
        self.settle()?;
        Ok(each)
    }
}
