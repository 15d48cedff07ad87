// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP MD5 signatures of sockets (RFC 2385; `tcp_v4_parse_md5_keys`, `tcp_inbound_md5_hash`): keys by the peer's address,
//! with a prefix length for `TCP_MD5SIG_EXT`.
//!
//! Not served: keys of a VRF (`TCP_MD5SIG_FLAG_IFINDEX`); resets that answer segments without a socket are not signed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_inet::mib::Ext;
use weir_netlink::errno;
use weir_packet::DropReason;
use weir_tcp::Header;
use weir_tcp::md5;

use crate::abi::{AF_INET, AF_INET6};

/// The length of `struct tcp_md5sig`, in bytes.
const LENGTH: usize = 216;
/// Where its fields begin: flags, prefix length, key length, device, key.
const FLAGS: usize = 128;
const PREFIX: usize = 129;
const KEY_LENGTH: usize = 130;
const DEVICE: usize = 132;
const KEY: usize = 136;
/// `TCP_MD5SIG_FLAG_PREFIX`, `TCP_MD5SIG_FLAG_IFINDEX`
const FLAG_PREFIX: u8 = 1;
const FLAG_DEVICE: u8 = 2;
/// `TCP_MD5SIG_MAXKEYLEN`
const LONGEST: usize = 80;

/// A key for the peers of a prefix.
#[derive(Debug)]
pub struct Key {
    address: IpAddr,
    prefix: u8,
    bytes: Vec<u8>,
}

impl Key {
    fn covers(&self, peer: IpAddr) -> bool {
        let masked = |bits: u128, width: u32| match u32::from(self.prefix) {
            0 => 0,
            prefix => bits >> width.saturating_sub(prefix),
        };
        match (self.address, peer) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => {
                masked(u32::from(own).into(), 32) == masked(u32::from(peer).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(peer)) => {
                masked(own.into(), 128) == masked(peer.into(), 128)
            }
            _ => false,
        }
    }

    /// Signs a segment in place: its options begin with room for the signature.
    pub fn sign(&self, from: IpAddr, to: IpAddr, header: usize, segment: &mut [u8]) {
        let Some((head, data)) = segment.split_at_checked(header) else {
            return;
        };
        let digest = md5::sign(&self.bytes, from, to, head, data);
        if let Some(place) = segment.get_mut(24..24 + md5::DIGEST) {
            place.copy_from_slice(&digest);
        }
    }
}

/// The keys of a socket.
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Arc<Key>>);

impl Keys {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key of a peer: that of the longest prefix.
    pub fn find(&self, peer: IpAddr) -> Option<&Arc<Key>> {
        let covering = self.0.iter().filter(|key| key.covers(peer));
        covering.max_by_key(|key| key.prefix)
    }

    /// The keys of a connection that a listener has got: only its peer's.
    pub fn of_child(&self, peer: IpAddr) -> Self {
        Self(self.find(peer).cloned().into_iter().collect())
    }

    /// Adds, replaces or, with an empty key, removes a key: `TCP_MD5SIG`, or `TCP_MD5SIG_EXT` if `extended`.
    ///
    /// # Errors
    /// EINVAL, ENOENT for a key that is not there.
    pub fn set(&mut self, v6: bool, extended: bool, value: &[u8]) -> Result<(), i32> {
        let value: &[u8; LENGTH] = value.first_chunk().ok_or(errno::EINVAL)?;
        let family = u16::from_ne_bytes([value[0], value[1]]);
        let (address, mut prefix) = match (v6, i32::from(family)) {
            (false, family) if family == i32::from(AF_INET) => {
                let bytes: [u8; 4] = value[4..8].try_into().unwrap_or_default();
                (IpAddr::from(Ipv4Addr::from(bytes)), 32)
            }
            (true, family) if family == i32::from(AF_INET6) => {
                let bytes: [u8; 16] = value[8..24].try_into().unwrap_or_default();
                let ip = Ipv6Addr::from(bytes);
                match ip.to_ipv4_mapped() {
                    Some(ip) => (ip.into(), 32),
                    None => (ip.into(), 128),
                }
            }
            _ => return Err(errno::EINVAL),
        };
        let flags = if extended { value[FLAGS] } else { 0 };
        if flags & FLAG_PREFIX != 0 {
            if value[PREFIX] > prefix {
                return Err(errno::EINVAL);
            }
            prefix = value[PREFIX];
        }
        let device = u32::from_ne_bytes([
            value[DEVICE],
            value[DEVICE + 1],
            value[DEVICE + 2],
            value[DEVICE + 3],
        ]);
        if flags & FLAG_DEVICE != 0 && device != 0 {
            return Err(errno::EINVAL);
        }
        let length = usize::from(u16::from_ne_bytes([
            value[KEY_LENGTH],
            value[KEY_LENGTH + 1],
        ]));
        if length > LONGEST {
            return Err(errno::EINVAL);
        }
        let before = self.0.len();
        self.0
            .retain(|key| (key.address, key.prefix) != (address, prefix));
        if length == 0 {
            return match self.0.len() == before {
                true => Err(errno::ENOENT),
                false => Ok(()),
            };
        }
        let bytes = value.get(KEY..KEY + length).unwrap_or_default().to_vec();
        self.0.push(Arc::new(Key {
            address,
            prefix,
            bytes,
        }));
        Ok(())
    }
}

/// Judges the signature of a segment. Returns what to count and why to drop it.
pub fn judge(
    key: Option<&Key>,
    from: IpAddr,
    to: IpAddr,
    header: &Header,
    (length, segment): (usize, &[u8]),
) -> Result<(), (Ext, DropReason)> {
    match (key, header.options.md5) {
        (None, None) => Ok(()),
        (Some(_), None) => Err((Ext::TCPMD5NotFound, DropReason::TCP_MD5NOTFOUND)),
        (None, Some(_)) => Err((Ext::TCPMD5Unexpected, DropReason::TCP_MD5UNEXPECTED)),
        (Some(key), Some(digest)) => {
            let (head, data) = segment.split_at_checked(length).unwrap_or((segment, &[]));
            match md5::sign(&key.bytes, from, to, head, data) == digest {
                true => Ok(()),
                false => Err((Ext::TCPMD5Failure, DropReason::TCP_MD5FAILURE)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct tcp_md5sig` for an IPv4 address.
    fn request(ip: [u8; 4], prefix: Option<u8>, key: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[..2].copy_from_slice(&2u16.to_ne_bytes());
        bytes[4..8].copy_from_slice(&ip);
        if let Some(prefix) = prefix {
            bytes[FLAGS] = FLAG_PREFIX;
            bytes[PREFIX] = prefix;
        }
        bytes[KEY_LENGTH..DEVICE].copy_from_slice(&(key.len() as u16).to_ne_bytes());
        bytes[KEY..KEY + key.len().min(LONGEST)].copy_from_slice(&key[..key.len().min(LONGEST)]);
        bytes
    }

    #[test]
    fn the_longest_prefix_decides() {
        let mut keys = Keys::default();
        let mut set = |extended, value: &[u8]| keys.set(false, extended, value);
        assert_eq!(set(true, &request([10, 0, 0, 0], Some(8), b"net")), Ok(()));
        assert_eq!(set(true, &request([0; 4], Some(0), b"all")), Ok(()));
        assert_eq!(set(false, &request([10, 0, 0, 1], None, b"host")), Ok(()));
        assert_eq!(
            set(true, &request([1; 4], Some(33), b"x")),
            Err(errno::EINVAL)
        );
        assert_eq!(
            set(false, &request([1; 4], None, &[1; 81])),
            Err(errno::EINVAL)
        );
        assert_eq!(set(false, &request([9; 4], None, b"")), Err(errno::ENOENT));
        assert_eq!(set(false, &[0; 100]), Err(errno::EINVAL));
        let key = |keys: &Keys, ip: [u8; 4]| keys.find(ip.into()).map(|key| key.bytes.clone());
        assert_eq!(key(&keys, [10, 0, 0, 1]).as_deref(), Some(&b"host"[..]));
        assert_eq!(key(&keys, [10, 9, 0, 1]).as_deref(), Some(&b"net"[..]));
        assert_eq!(key(&keys, [11, 0, 0, 1]).as_deref(), Some(&b"all"[..]));
        assert!(keys.find(Ipv6Addr::LOCALHOST.into()).is_none());
        assert_eq!(keys.of_child([10, 9, 9, 9].into()).0.len(), 1);
        assert_eq!(
            keys.set(false, false, &request([10, 0, 0, 1], None, b"")),
            Ok(())
        );
        assert_eq!(key(&keys, [10, 0, 0, 1]).as_deref(), Some(&b"net"[..]));
    }
}
