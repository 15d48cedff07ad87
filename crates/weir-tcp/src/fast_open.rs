// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fast Open (RFC 7413): cookies of the server, and what a client knows of a server (`net/ipv4/tcp_fastopen.c`).

use crate::cookie::siphash;
use crate::options::FastOpen;

/// Bits of `net.ipv4.tcp_fastopen`.
pub mod enable {
    /// Clients send data in their SYN.
    pub const CLIENT: u32 = 1;
    /// Listeners take them.
    pub const SERVER: u32 = 2;
    /// Clients send data without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// Listeners take data without a cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// All listeners take part, without `TCP_FASTOPEN`.
    pub const SERVER_WITHOUT_OPTION: u32 = 0x400;
}

/// The length of a key, in bytes.
pub const KEY: usize = 16;
/// The length of the cookies that are made, in bytes.
const COOKIE: usize = 8;

/// The keys of cookies: one to make them, and one that is still accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    first: [u8; KEY],
    backup: Option<[u8; KEY]>,
}

impl Keys {
    /// Reads `TCP_FASTOPEN_KEY`: 16 bytes, or 32 with the key that was used before.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let first = bytes.first_chunk::<KEY>()?;
        let backup = match bytes.get(KEY..)? {
            [] => None,
            rest => Some(rest.try_into().ok()?),
        };
        Some(Self {
            first: *first,
            backup,
        })
    }

    /// Reads `net.ipv4.tcp_fastopen_key`: four hexadecimal words with dashes, or two such keys with a comma.
    pub fn parse(text: &str) -> Option<Self> {
        let key = |text: &str| {
            let mut key = [0; KEY];
            let mut words = text.trim().split('-');
            for place in key.chunks_exact_mut(4) {
                let word = words.next().filter(|word| word.len() <= 8)?;
                place.copy_from_slice(&u32::from_str_radix(word, 16).ok()?.to_le_bytes());
            }
            words.next().is_none().then_some(key)
        };
        match text.split_once(',') {
            None => Some(Self {
                first: key(text)?,
                backup: None,
            }),
            Some((first, backup)) => Some(Self {
                first: key(first)?,
                backup: Some(key(backup)?),
            }),
        }
    }

    /// The bytes as `TCP_FASTOPEN_KEY` returns them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.first.to_vec();
        bytes.extend(self.backup.iter().flatten());
        bytes
    }

    /// The keys as the sysctl shows them.
    pub fn text(&self) -> String {
        let key = |key: &[u8; KEY]| {
            let words = key.chunks_exact(4).map(|word| {
                let word = word.try_into().map_or(0, u32::from_le_bytes);
                format!("{word:08x}")
            });
            words.collect::<Vec<_>>().join("-")
        };
        match &self.backup {
            None => key(&self.first),
            Some(backup) => format!("{},{}", key(&self.first), key(backup)),
        }
    }

    /// Makes the cookie of a client. `addresses` are the bytes of its address and of the server's.
    pub fn cookie(&self, addresses: &[u8]) -> FastOpen {
        cookie(&self.first, addresses)
    }

    /// Judges the cookie of a client.
    pub fn check(&self, addresses: &[u8], open: &FastOpen) -> Judgement {
        if open.bytes() == self.cookie(addresses).bytes() {
            return Judgement::Right;
        }
        let old = self.backup.as_ref().map(|key| cookie(key, addresses));
        match old {
            Some(old) if old.bytes() == open.bytes() => Judgement::Old,
            _ => Judgement::Wrong,
        }
    }
}

/// What a cookie is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The client has shown its address.
    Right,
    /// It has, by the key that was used before: it gets a new one.
    Old,
    /// It has not.
    Wrong,
}

fn cookie(key: &[u8; KEY], addresses: &[u8]) -> FastOpen {
    let (low, high) = key.split_at(8);
    let half = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let mut open = FastOpen {
        length: COOKIE as u8,
        ..FastOpen::default()
    };
    let hash = siphash(half(low), half(high), addresses);
    open.cookie[..COOKIE].copy_from_slice(&hash.to_le_bytes());
    open
}

/// How a client opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The option in the SYN: a cookie, or none of it to ask for one. Nothing to send data without either.
    pub option: Option<FastOpen>,
    /// The MSS of the server, if it is known; 0 otherwise.
    pub mss: u16,
}

impl Client {
    /// Whether the SYN may carry data.
    pub fn carries_data(&self) -> bool {
        self.option.is_none_or(|open| open.length > 0)
    }
}

/// What a SYN-ACK told about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The new cookie.
    pub cookie: Option<FastOpen>,
    /// The server's MSS.
    pub mss: u16,
    /// The SYN with data was probably dropped: only the one without was answered.
    pub dropped: bool,
    /// The server did not answer the request for a cookie; whether that used the experimental option.
    pub ignored: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and cookies of packetdrill's scripts (`server/simple1.pkt`, `server/sockopt-fastopen-key.pkt`).
    #[test]
    fn cookies_are_those_of_linux() {
        let addresses = [10, 248, 0, 2, 192, 168, 0, 2];
        let keys = Keys::parse("a0bf63f7-ed803d81-cd641d30-cebc4a90\n").expect("a key");
        assert_eq!(keys.text(), "a0bf63f7-ed803d81-cd641d30-cebc4a90");
        let made = keys.cookie(&addresses);
        assert_eq!(
            made.bytes(),
            [0x00, 0xab, 0xaa, 0xab, 0xe8, 0xe9, 0x54, 0xc2]
        );
        let zero = Keys::of(&[0; 16]).expect("a key").cookie(&addresses);
        assert_eq!(
            zero.bytes(),
            [0x93, 0xb7, 0xaa, 0x4f, 0x55, 0x0f, 0x8a, 0x1a]
        );
        let both = [keys.bytes(), vec![0; 16]].concat();
        let both = Keys::of(&both).expect("two keys");
        assert_eq!(both.check(&addresses, &made), Judgement::Right);
        assert_eq!(both.check(&addresses, &zero), Judgement::Old);
        assert_eq!(keys.check(&addresses, &zero), Judgement::Wrong);
        assert_eq!(Keys::parse(&both.text()), Some(both));
    }

    #[test]
    fn keys_have_16_or_32_bytes() {
        for length in [0, 3, 15, 17, 31, 33] {
            assert_eq!(Keys::of(&vec![0; length]), None, "{length}");
        }
        for text in ["", "1-2-3", "1-2-3-4-5", "1-2-3-x", "1-2-3-4,5"] {
            assert_eq!(Keys::parse(text), None, "{text}");
        }
        assert!(Keys::parse("1-2-3-4").is_some());
    }
}
