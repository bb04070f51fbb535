//! What travels between ranks that meet: frames, and lists within frames.
//!
//! It never waits and never trusts a length. Little-endian: a frame is kind (1), length (4), payload; a payload of
//! several parts is each part's length (4) and bytes.
#![forbid(unsafe_code)]

use super::pmi1::line::quoted;
use super::socket::Socket;

pub(super) const HEAD_BYTES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Welcome = 1,
    Cards = 2,
    Error = 3,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Welcome, Kind::Cards, Kind::Error].into_iter().find(|&kind| kind as u8 == byte)
    }
}

pub(super) fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&[kind as u8], &length(payload)[..], payload].concat()
}

/// Kind and length; the error is a phrase.
pub(super) fn read_head(head: &[u8], most: usize) -> std::result::Result<(Kind, usize), String> {
    let length = number(&head[1..]) as usize;
    match Kind::of(head[0]) {
        Some(kind) if length <= most => Ok((kind, length)),
        _ => Err(quoted(head)),
    }
}

/// A frame of which everything has come.
pub(super) fn take_frame(
    socket: &mut Socket,
    most: usize,
) -> std::result::Result<Option<(Kind, Vec<u8>)>, String> {
    let Some(head) = socket.received().get(..HEAD_BYTES) else { return Ok(None) };
    let (kind, length) = read_head(head, most)?;
    if socket.received().len() < HEAD_BYTES + length {
        return Ok(None);
    }
    socket.take(HEAD_BYTES);
    Ok(Some((kind, socket.take(length))))
}

/// The payload of the first whole frame of this kind, whatever came before it.
pub(super) fn find_frame(wanted: Kind, mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (kind, length) = read_head(head, usize::MAX).ok()?;
        let (payload, rest) = rest.split_at_checked(length)?;
        if kind == wanted {
            return Some(payload);
        }
        bytes = rest;
    }
}

pub(super) fn join(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&length(part.as_ref()), part.as_ref()].concat()).collect()
}

pub(super) fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(4)?;
        let (part, rest) = rest.split_at_checked(number(head) as usize)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Some(parts)
}

/// The length of a part, all of which are far below 4 GiB.
pub(super) fn length(part: &[u8]) -> [u8; 4] {
    (part.len() as u32).to_le_bytes()
}

/// The number that the first four bytes are.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_add_up_are_refused() {
        let parts = [b"a".to_vec(), vec![], b"bc".to_vec()];
        let bytes = join(&parts);
        assert_eq!(split(&bytes).unwrap(), parts);
        assert_eq!(split(&bytes[..bytes.len() - 1]), None);
        assert_eq!(split(&[1, 0]), None);
    }
}
