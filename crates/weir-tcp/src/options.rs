// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of the TCP header, in the order and with the padding of Linux (`tcp_options_write`, `tcp_parse_options`).

/// The most SACK blocks that fit in a header.
pub const SACK_BLOCKS: usize = 4;
/// The length of the option of a signature with padding, in bytes. It comes first; the digest is at its end.
pub const MD5: usize = 20;
/// The longest options of a header, in bytes.
pub const LONGEST: usize = 40;
/// The longest Fast Open cookie, in bytes.
pub const COOKIE_MAX: usize = 16;

/// The cookie of TCP Fast Open (RFC 7413); an empty one requests a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpen {
    /// The bytes of the cookie; only the first `length` count.
    pub cookie: [u8; COOKIE_MAX],
    /// The length of the cookie: 0, or 4 to 16.
    pub length: u8,
    /// The experimental option with Fast Open's magic number carries it.
    pub experimental: bool,
}

/// The options of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The largest segment the sender receives, in bytes of data (kind 2).
    pub mss: Option<u16>,
    /// By how many bits windows are shifted, 0 to 14 (kind 3).
    pub window_scale: Option<u8>,
    /// The sender understands SACK (kind 4).
    pub sack_permitted: bool,
    /// Timestamp value and echo (kind 8).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks (kind 5): first sequence number and the one after the last.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// How many of the blocks count.
    pub sack_count: u8,
    /// The Fast Open option (kind 34).
    pub fast_open: Option<FastOpen>,
    /// The MD5 signature (kind 19). The owner fills it in and checks it: it depends on addresses and data.
    pub md5: Option<[u8; 16]>,
}

impl Options {
    /// Returns the SACK blocks.
    pub fn sack_blocks(&self) -> &[(u32, u32)] {
        self.sack
            .get(..usize::from(self.sack_count))
            .unwrap_or(&self.sack)
    }

    /// Reads the options of a header. Options whose length is wrong end the list, as in Linux; those of a SYN
    /// (MSS, scale, SACK permitted) count only if `syn`.
    pub fn parse(mut bytes: &[u8], syn: bool) -> Self {
        let mut options = Self::default();
        // Nearly every segment of a connection has exactly these (RFC 7323, appendix A).
        if let [1, 1, 8, 10, rest @ ..] = bytes
            && let Some((stamps, [])) = rest.split_at_checked(8)
        {
            options.timestamps = Some((be32(stamps, 0), be32(stamps, 4)));
            return options;
        }
        loop {
            let (kind, body) = match bytes {
                [] | [0, ..] => break,
                [1, rest @ ..] => {
                    bytes = rest;
                    continue;
                }
                [kind, length, rest @ ..] if *length >= 2 => {
                    let Some((body, rest)) = rest.split_at_checked(usize::from(*length) - 2) else {
                        break;
                    };
                    bytes = rest;
                    (*kind, body)
                }
                _ => break,
            };
            options.take(kind, body, syn);
        }
        options
    }

    fn take(&mut self, kind: u8, body: &[u8], syn: bool) {
        match (kind, body) {
            (2, [high, low]) if syn => {
                let mss = u16::from_be_bytes([*high, *low]);
                self.mss = (mss != 0).then_some(mss);
            }
            (3, [shift]) if syn => self.window_scale = Some((*shift).min(14)),
            (4, []) if syn => self.sack_permitted = true,
            (5, blocks) if !blocks.is_empty() && blocks.len().is_multiple_of(8) && !syn => {
                self.sack_count = 0;
                for (place, block) in self.sack.iter_mut().zip(blocks.chunks_exact(8)) {
                    *place = (be32(block, 0), be32(block, 4));
                    self.sack_count += 1;
                }
            }
            (8, stamps) if stamps.len() == 8 => {
                self.timestamps = Some((be32(stamps, 0), be32(stamps, 4)));
            }
            (19, digest) if digest.len() == 16 => self.md5 = digest.try_into().ok(),
            (34, cookie) => self.fast_open = FastOpen::parse(cookie, syn, false),
            // The experimental option with Fast Open's magic number.
            (254, [0xf9, 0x89, cookie @ ..]) => {
                self.fast_open = FastOpen::parse(cookie, syn, true);
            }
            _ => {}
        }
    }

    /// Returns the length of the options in a header, in bytes: a multiple of 4.
    pub fn length(&self) -> usize {
        let mut length = if self.md5.is_some() { MD5 } else { 0 };
        if self.mss.is_some() {
            length += 4;
        }
        if self.timestamps.is_some() {
            length += 12;
        } else if self.sack_permitted {
            length += 4;
        }
        if self.window_scale.is_some() {
            length += 4;
        }
        if self.sack_count > 0 {
            length += 4 + 8 * usize::from(self.sack_count);
        }
        if let Some(cookie) = &self.fast_open {
            length += cookie.written().next_multiple_of(4);
        }
        length
    }

    /// Writes the options as Linux lays them out. `to` has [`Options::length`] bytes.
    pub fn write(&self, to: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(place) = to.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            at += bytes.len();
        };
        if let Some(digest) = &self.md5 {
            put(&[1, 1, 19, 18]);
            put(digest);
        }
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[2, 4, high, low]);
        }
        if let Some((value, echo)) = self.timestamps {
            put(if self.sack_permitted {
                &[4, 2, 8, 10]
            } else {
                &[1, 1, 8, 10]
            });
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&[1, 1, 4, 2]);
        }
        if let Some(shift) = self.window_scale {
            put(&[1, 3, 3, shift]);
        }
        if self.sack_count > 0 {
            put(&[1, 1, 5, 2 + 8 * self.sack_count]);
            for (start, end) in self.sack_blocks() {
                put(&start.to_be_bytes());
                put(&end.to_be_bytes());
            }
        }
        if let Some(open) = &self.fast_open {
            let length = open.written();
            if open.experimental {
                put(&[254, length as u8, 0xf9, 0x89]);
            } else {
                put(&[34, length as u8]);
            }
            put(open.bytes());
            for _ in length..length.next_multiple_of(4) {
                put(&[1]);
            }
        }
    }
}

impl FastOpen {
    fn parse(cookie: &[u8], syn: bool, experimental: bool) -> Option<Self> {
        let valid = cookie.is_empty() || (4..=COOKIE_MAX).contains(&cookie.len());
        if !syn || !valid || !cookie.len().is_multiple_of(2) {
            return None;
        }
        let mut open = Self {
            length: cookie.len() as u8,
            experimental,
            ..Self::default()
        };
        open.cookie[..cookie.len()].copy_from_slice(cookie);
        Some(open)
    }

    /// The length of the option without padding, in bytes.
    fn written(&self) -> usize {
        usize::from(self.length) + if self.experimental { 4 } else { 2 }
    }

    /// The cookie's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.cookie
            .get(..usize::from(self.length))
            .unwrap_or(&self.cookie)
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(options: &Options) -> Vec<u8> {
        let mut bytes = vec![0xee; options.length()];
        options.write(&mut bytes);
        bytes
    }

    /// The SYN of Linux: `mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7`.
    #[test]
    fn a_syn_has_the_layout_of_linux() {
        let options = Options {
            mss: Some(1460),
            sack_permitted: true,
            timestamps: Some((1, 0)),
            window_scale: Some(7),
            ..Options::default()
        };
        let bytes = written(&options);
        assert_eq!(
            bytes,
            [
                2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7
            ]
        );
        assert_eq!(Options::parse(&bytes, true), options);
    }

    #[test]
    fn three_blocks_fit_beside_timestamps() {
        let mut options = Options {
            timestamps: Some((7, 9)),
            sack_count: 3,
            ..Options::default()
        };
        options.sack[..3].copy_from_slice(&[(1, 2), (5, 9), (20, 30)]);
        let bytes = written(&options);
        assert_eq!(bytes.len(), 40);
        assert_eq!(Options::parse(&bytes, false), options);
    }

    #[test]
    fn a_cookie_is_padded() {
        let mut open = FastOpen {
            length: 8,
            ..FastOpen::default()
        };
        open.cookie[..8].copy_from_slice(b"cookies!");
        let options = Options {
            fast_open: Some(open),
            ..Options::default()
        };
        let bytes = written(&options);
        assert_eq!(bytes.len(), 12);
        assert_eq!(Options::parse(&bytes, true), options);
    }

    #[test]
    fn malformed_options_end_the_list() {
        for bytes in [
            &[2u8, 0][..],
            &[2, 1, 5],
            &[8, 10, 0],
            &[5, 9, 1, 2, 3, 4, 5, 6, 7],
            &[2, 40, 1],
            &[3],
        ] {
            assert_eq!(Options::parse(bytes, true), Options::default(), "{bytes:?}");
        }
        // Options of a SYN count in a SYN only.
        assert_eq!(Options::parse(&[2, 4, 5, 0xb4], false), Options::default());
        assert_eq!(Options::parse(&[3, 3, 200], true).window_scale, Some(14));
    }
}
