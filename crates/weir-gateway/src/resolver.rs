// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's resolvers: the lines `nameserver` of `/etc/resolv.conf` (resolv.conf(5)).

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::time::SystemTime;

/// The port of DNS.
pub(crate) const PORT: u16 = 53;
/// The C library asks no more than three (`MAXNS`).
const MOST: usize = 3;
/// Bytes of the file that are read.
const LONGEST: usize = 64 << 10;

/// The resolvers, read again when the file changes.
#[derive(Debug)]
pub(crate) struct Resolvers {
    file: PathBuf,
    changed: Option<SystemTime>,
    all: Vec<SocketAddr>,
}

impl Resolvers {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            changed: None,
            all: Vec::new(),
        }
    }

    /// The resolvers as they are now.
    pub(crate) fn all(&mut self) -> &[SocketAddr] {
        let changed = std::fs::metadata(&self.file).and_then(|data| data.modified());
        match changed {
            Ok(changed) if self.changed == Some(changed) => {}
            Ok(changed) => {
                let text = std::fs::read(&self.file).unwrap_or_default();
                let text = text.get(..LONGEST).unwrap_or(&text);
                self.all = parse(&String::from_utf8_lossy(text));
                self.changed = Some(changed);
            }
            Err(_) => {
                self.all.clear();
                self.changed = None;
            }
        }
        &self.all
    }
}

/// Reads the lines `nameserver`.
fn parse(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next())?
    });
    servers.filter_map(address).take(MOST).collect()
}

/// Reads an address, which may have a zone (`fe80::1%eth0`).
fn address(text: &str) -> Option<SocketAddr> {
    if let Some((address, zone)) = text.split_once('%') {
        let address: Ipv6Addr = address.parse().ok()?;
        let scope = zone.parse().ok().or_else(|| index_of(zone))?;
        return Some(SocketAddrV6::new(address, PORT, 0, scope).into());
    }
    let address: IpAddr = text.parse().ok()?;
    Some((address, PORT).into())
}

/// The index of a device of the host.
fn index_of(name: &str) -> Option<u32> {
    if name.contains('/') {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_among_other_lines() {
        let text = "# a comment\nsearch example\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 x\nnameserver\n\
            nameserver bad\nnameserver fe80::1%3\nnameserver 192.0.2.9\noptions edns0\n";
        let expected: Vec<SocketAddr> = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%3]:53"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(parse(text), expected);
    }
}
