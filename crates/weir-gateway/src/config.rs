// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user chooses: addresses, limits, and what of the host may be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use weir_port::keys::Keys;

/// The keys of a description.
pub const KEYS: &[&str] = &[
    "dev", "address", "gateway", "dns", "address6", "gateway6", "dns6", "ipv4", "ipv6", "mtu",
    "host", "flows",
];

/// The addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses<A> {
    /// The address of the device in the namespace.
    pub device: A,
    /// The length of the prefix, in bits.
    pub prefix: u8,
    /// The gateway's own address.
    pub gateway: A,
    /// The address whose port 53 leads to the host's resolvers.
    pub dns: A,
}

/// The description of a gateway.
#[derive(Debug, Clone)]
pub struct Config {
    /// The name of the device.
    pub device: String,
    /// The addresses of IPv4, unless it is off.
    pub v4: Option<Addresses<Ipv4Addr>>,
    /// The addresses of IPv6, unless it is off.
    pub v6: Option<Addresses<Ipv6Addr>>,
    /// The device's MTU, in bytes.
    pub mtu: u32,
    /// The gateway's own address leads to the host's loopback.
    pub host: bool,
    /// The most TCP connections at a time, and the most flows of UDP and echo requests.
    pub flows: usize,
    /// The files with the host's resolvers, as `resolv.conf`.
    pub resolvers: std::path::PathBuf,
    /// Replaces destinations, for tests.
    #[doc(hidden)]
    pub translate: Option<fn(SocketAddr) -> SocketAddr>,
    /// Stands for the host's sockets and clock, for fuzzing.
    #[doc(hidden)]
    pub outside: Option<Outside>,
}

/// A model of the host.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Outside {
    /// Opens a socket for a protocol of IP and a destination, and says whether it is connected. Each packet of other protocols
    /// than TCP is one message of the socket.
    pub open: fn(u8, SocketAddr) -> Result<(OwnedFd, bool), Errno>,
    /// The time in ns; not 0.
    pub now: fn() -> u64,
}

impl Default for Config {
    fn default() -> Self {
        let v6 = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        Self {
            device: "gw0".into(),
            v4: Some(Addresses {
                device: Ipv4Addr::new(10, 0, 2, 15),
                prefix: 24,
                gateway: Ipv4Addr::new(10, 0, 2, 2),
                dns: Ipv4Addr::new(10, 0, 2, 3),
            }),
            v6: Some(Addresses {
                device: v6(0x15),
                prefix: 64,
                gateway: v6(2),
                dns: v6(3),
            }),
            mtu: 1500,
            host: false,
            flows: 4096,
            resolvers: "/etc/resolv.conf".into(),
            translate: None,
            outside: None,
        }
    }
}

/// The smallest MTU: that of IPv6.
const MTU_MIN: u32 = 1280;
/// The largest MTU: the longest packet of IPv4, rounded down as passt and slirp4netns do.
const MTU_MAX: u32 = 65_520;
/// The most flows that may be asked for.
const FLOWS_MAX: usize = 65_536;

/// Splits `ADDRESS/PREFIX`.
fn cidr<A: std::str::FromStr>(key: &str, text: &str, longest: u8) -> Result<(A, u8), String> {
    let wrong = || {
        format!(
            "{key}={text} is not an address with a prefix length, such as {}",
            example(key)
        )
    };
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address = address.parse().map_err(|_| wrong())?;
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..longest - 1).contains(prefix));
    Ok((address, prefix.ok_or_else(wrong)?))
}

fn example(key: &str) -> &'static str {
    match key {
        "address" => "10.0.2.15/24",
        _ => "fd00::15/64",
    }
}

/// Addresses as numbers, so that both families share the arithmetic.
trait Number: Copy + PartialEq + std::fmt::Display + std::str::FromStr {
    const BITS: u8;
    fn number(self) -> u128;
    fn of(number: u128) -> Self;
}

impl Number for Ipv4Addr {
    const BITS: u8 = 32;
    fn number(self) -> u128 {
        u32::from(self).into()
    }
    fn of(number: u128) -> Self {
        Self::from(number as u32)
    }
}

impl Number for Ipv6Addr {
    const BITS: u8 = 128;
    fn number(self) -> u128 {
        self.into()
    }
    fn of(number: u128) -> Self {
        Self::from(number)
    }
}

fn parse<A: Number>(
    keys: &Keys,
    suffix: &str,
    default: Addresses<A>,
) -> Result<Addresses<A>, String> {
    let key = |name: &str| format!("{name}{suffix}");
    let mut own = default;
    let name = key("address");
    if let Some(text) = keys.get(&name) {
        (own.device, own.prefix) = cidr(&name, text, A::BITS)?;
        let host = A::BITS - own.prefix;
        let network = own.device.number() >> host << host;
        own.gateway = A::of(network + 2);
        own.dns = A::of(network + 3);
    }
    for (name, place) in [
        (key("gateway"), &mut own.gateway),
        (key("dns"), &mut own.dns),
    ] {
        if let Some(text) = keys.get(&name) {
            *place = text
                .parse()
                .map_err(|_| format!("{name}={text} is not an address"))?;
        }
    }
    let all = [
        ("address", own.device),
        ("gateway", own.gateway),
        ("dns", own.dns),
    ];
    for (at, (one, address)) in all.iter().enumerate() {
        if !contains(&own, *address) {
            return Err(format!(
                "{}={address} is not in the prefix of {}",
                key(one),
                key("address")
            ));
        }
        if let Some((other, _)) = all.iter().skip(at + 1).find(|(_, other)| other == address) {
            return Err(format!(
                "{} and {} are both {address}; set one of them",
                key(one),
                key(other)
            ));
        }
    }
    Ok(own)
}

fn contains<A: Number>(all: &Addresses<A>, address: A) -> bool {
    let host = A::BITS - all.prefix;
    address.number() >> host == all.device.number() >> host
}

impl Config {
    /// Parses `KEY=VALUE` pairs separated by commas. An empty text stands for the defaults.
    ///
    /// # Errors
    /// A sentence about an unknown key, a wrong value, or addresses that contradict each other.
    pub fn parse(text: &str) -> Result<Self, String> {
        let said = |error: weir_port::Error| error.to_string();
        let keys = Keys::parse("gateway", KEYS, text).map_err(said)?;
        for common in weir_port::keys::COMMON {
            if keys.get(common).is_some() {
                return Err(format!(
                    "gateway: {common} is a parameter of ports, not of the gateway"
                ));
            }
        }
        Self::from_keys(&keys)
            .map_err(|what| format!("gateway: {}", what.trim_start_matches("gateway: ")))
    }

    fn from_keys(keys: &Keys) -> Result<Self, String> {
        let said = |error: weir_port::Error| error.to_string();
        let mut config = Self::default();
        if let Some(device) = keys.get("dev") {
            let valid = (1..16).contains(&device.len())
                && !matches!(device, "." | "..")
                && !device.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
            if !valid {
                return Err(format!("dev={device} is not a name for a device"));
            }
            config.device = device.to_owned();
        }
        let on_off = |key| Ok::<_, String>(keys.choice(key, &["on", "off"]).map_err(said)? == 0);
        let (v4, v6) = (on_off("ipv4")?, on_off("ipv6")?);
        if !v4 && !v6 {
            return Err("ipv4=off and ipv6=off leave nothing".into());
        }
        let parsed = config
            .v4
            .map(|default| parse(keys, "", default))
            .transpose()?;
        config.v4 = parsed.filter(|_| v4);
        let parsed = config
            .v6
            .map(|default| parse(keys, "6", default))
            .transpose()?;
        config.v6 = parsed.filter(|_| v6);
        if let Some(v4) = config.v4 {
            let bad = |ip: Ipv4Addr| {
                ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast()
            };
            if let Some(bad) = [v4.device, v4.gateway, v4.dns]
                .into_iter()
                .find(|ip| bad(*ip))
            {
                return Err(format!("{bad} cannot be the address of a device"));
            }
        }
        if let Some(v6) = config.v6 {
            let bad = |ip: Ipv6Addr| ip.is_loopback() || ip.is_multicast() || ip.is_unspecified();
            if let Some(bad) = [v6.device, v6.gateway, v6.dns]
                .into_iter()
                .find(|ip| bad(*ip))
            {
                return Err(format!("{bad} cannot be the address of a device"));
            }
        }
        config.mtu = keys.number("mtu", config.mtu).map_err(said)?;
        if !(MTU_MIN..=MTU_MAX).contains(&config.mtu) {
            return Err(format!(
                "mtu={} is not between {MTU_MIN} and {MTU_MAX}",
                config.mtu
            ));
        }
        config.host = keys.choice("host", &["off", "on"]).map_err(said)? == 1;
        config.flows = keys.number("flows", config.flows).map_err(said)?;
        if !(1..=FLOWS_MAX).contains(&config.flows) {
            return Err(format!(
                "flows={} is not between 1 and {FLOWS_MAX}",
                config.flows
            ));
        }
        Ok(config)
    }

    /// The gateway's own address in the family of `like`.
    pub(crate) fn own(&self, like: IpAddr) -> Option<IpAddr> {
        match like {
            IpAddr::V4(_) => self.v4.map(|v4| v4.gateway.into()),
            IpAddr::V6(_) => self.v6.map(|v6| v6.gateway.into()),
        }
    }

    /// The address of the resolver in the family of `like`.
    pub(crate) fn dns(&self, like: IpAddr) -> Option<IpAddr> {
        match like {
            IpAddr::V4(_) => self.v4.map(|v4| v4.dns.into()),
            IpAddr::V6(_) => self.v6.map(|v6| v6.dns.into()),
        }
    }

    /// Returns whether an address is in the prefix of the device.
    pub(crate) fn is_on_link(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(ip) => self.v4.is_some_and(|v4| contains(&v4, ip)),
            IpAddr::V6(ip) => self.v6.is_some_and(|v6| contains(&v6, ip)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text).expect_err("the description is wrong")
    }

    #[test]
    fn nothing_stands_for_the_defaults() {
        assert_eq!(
            format!("{:?}", Config::parse("").unwrap()),
            format!("{:?}", Config::default())
        );
    }

    #[test]
    fn the_gateway_and_the_resolver_follow_the_address() {
        let config =
            Config::parse("address=192.168.7.9/24,address6=fd12::9/48,dev=out0,mtu=9000,host=on")
                .unwrap();
        let v4 = config.v4.unwrap();
        assert_eq!(v4.gateway, Ipv4Addr::new(192, 168, 7, 2));
        assert_eq!(v4.dns, Ipv4Addr::new(192, 168, 7, 3));
        let v6 = config.v6.unwrap();
        assert_eq!(v6.gateway, "fd12::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(
            (config.device.as_str(), config.mtu, config.host),
            ("out0", 9000, true)
        );
        assert_eq!(Config::parse("ipv6=off").unwrap().v6, None);
    }

    #[test]
    fn wrong_descriptions_are_explained() {
        assert_eq!(
            error("addres=1"),
            "gateway: addres is not a parameter; did you mean address?"
        );
        assert_eq!(
            error("address=10.0.0.1"),
            "gateway: address=10.0.0.1 is not an address with a prefix length, such as 10.0.2.15/24"
        );
        assert_eq!(
            error("address=10.0.0.2/24"),
            "gateway: address and gateway are both 10.0.0.2; set one of them"
        );
        assert_eq!(
            error("gateway=10.0.3.2"),
            "gateway: gateway=10.0.3.2 is not in the prefix of address"
        );
        assert_eq!(
            error("mtu=100"),
            "gateway: mtu=100 is not between 1280 and 65520"
        );
        assert_eq!(
            error("flows=0"),
            "gateway: flows=0 is not between 1 and 65536"
        );
        assert_eq!(
            error("dev=a/b"),
            "gateway: dev=a/b is not a name for a device"
        );
        assert_eq!(
            error("ipv4=off,ipv6=off"),
            "gateway: ipv4=off and ipv6=off leave nothing"
        );
        assert_eq!(error("host=yes"), "gateway: host=yes is none of off, on");
        assert_eq!(
            error("busy=on"),
            "gateway: busy is a parameter of ports, not of the gateway"
        );
        assert_eq!(
            error("address=127.0.0.9/8"),
            "gateway: 127.0.0.9 cannot be the address of a device"
        );
    }
}
