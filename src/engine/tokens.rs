//! Names for the puts whose source is still needed, as many as the transport can keep.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::transport::{Posted, Put, Token, Transport};

/// What a put is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A message in a slot or a credit: nobody waits for it.
    Slot,
    /// A block of this operation.
    Block(usize),
}

/// The tokens of one transport.
pub struct Tokens {
    free: Vec<Token>,
    uses: Vec<Use>,
}

impl Tokens {
    /// `count` of them.
    pub fn new(count: usize) -> Self {
        Tokens { free: (0..count as Token).rev().collect(), uses: vec![Use::Slot; count] }
    }

    /// Hands a put over under a free token, which replaces its own; busy too where no token is left.
    pub fn put(&mut self, transport: &mut dyn Transport, used: Use, mut put: Put<'_>) -> Result<Posted> {
        let Some(token) = self.take(used) else { return Ok(Posted::Busy) };
        put.token = token;
        let posted = transport.put(&put);
        if !matches!(posted, Ok(Posted::Pending)) {
            self.give_back(token);
        }
        posted
    }

    fn take(&mut self, used: Use) -> Option<Token> {
        let token = self.free.pop()?;
        self.uses[token as usize] = used;
        Some(token)
    }

    /// The put is sent (or was not taken); what it was part of.
    pub fn give_back(&mut self, token: Token) -> Use {
        self.free.push(token);
        self.uses[token as usize]
    }
}
