// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of the gateway.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use weir_gateway::Config;

/// The way out of a stack, and the way in.
#[derive(Debug, Args, Clone)]
pub struct Gateway {
    /// Give the initial namespace a way out by the host's sockets, as slirp and passt do: a device gw0
    /// with 10.0.2.15/24 and fd00::15/64, and default routes. Keys: dev, address, gateway, dns,
    /// address6, gateway6, dns6, ipv4 and ipv6 (on, off), mtu, host (on: the gateway's address leads
    /// to the host's loopback), flows.
    #[arg(long, value_name = "KEY=VALUE,...", num_args = 0..=1, require_equals = true, default_missing_value = "",
          value_parser = parse)]
    pub gateway: Option<Config>,
    /// Forward a port of the host (by default of its loopback) to a port in a namespace:
    /// `8080:web:80`, `0.0.0.0:5353:dns:53/udp`. The initial namespace has the empty name
    /// (`8080::80`).
    #[arg(long = "publish", value_name = "[HOST:]PORT:NETNS:PORT[/udp]")]
    pub published: Vec<Publish>,
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text)
}

impl Gateway {
    /// The first flag that was given, if there is one.
    pub fn flag(&self) -> Option<&'static str> {
        match (&self.gateway, self.published.first()) {
            (Some(_), _) => Some("--gateway"),
            (None, Some(_)) => Some("--publish"),
            (None, None) => None,
        }
    }
}

/// `[HOST:]PORT:NETNS:PORT[/udp]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The address and the port on the host.
    pub host: SocketAddr,
    /// The namespace; `None` for the initial one.
    pub netns: Option<String>,
    /// The port in the namespace.
    pub port: u16,
    /// UDP in place of TCP.
    pub udp: bool,
}

impl FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not [HOST:]PORT:NETNS:PORT, with /udp behind it for UDP");
        let (rest, udp) = match text.rsplit_once('/') {
            None => (text, false),
            Some((rest, "udp")) => (rest, true),
            Some((rest, "tcp")) => (rest, false),
            Some(_) => return Err(wrong()),
        };
        let port = |text: &str| {
            let number = text.parse::<u16>().ok().filter(|number| *number != 0);
            number.ok_or_else(|| format!("`{text}` is not a port, 1 to 65535"))
        };
        let (rest, inside) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let (rest, netns) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let (address, outside) = match rest.rsplit_once(':') {
            None => (Ipv4Addr::LOCALHOST.into(), rest),
            Some((address, outside)) => {
                let bare = address
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'));
                let parsed: Result<IpAddr, _> = bare.unwrap_or(address).parse();
                let parsed =
                    parsed.map_err(|_| format!("`{address}` is not an address of the host"))?;
                if parsed.is_ipv6() && bare.is_none() {
                    return Err(format!("`{address}` has to be in brackets: [{address}]"));
                }
                (parsed, outside)
            }
        };
        Ok(Self {
            host: (address, port(outside)?).into(),
            netns: Some(netns)
                .filter(|netns| !netns.is_empty())
                .map(str::to_owned),
            port: port(inside)?,
            udp,
        })
    }
}

impl std::fmt::Display for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let netns = self.netns.as_deref().unwrap_or_default();
        let protocol = if self.udp { "/udp" } else { "" };
        write!(f, "{}:{netns}:{}{protocol}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ports_are_read_and_shown() {
        for (text, shown) in [
            ("8080:web:80", "127.0.0.1:8080:web:80"),
            ("0.0.0.0:53:dns:5353/udp", "0.0.0.0:53:dns:5353/udp"),
            ("[::1]:80::8080", "[::1]:80::8080"),
            ("80:a:80/tcp", "127.0.0.1:80:a:80"),
        ] {
            assert_eq!(text.parse::<Publish>().unwrap().to_string(), shown);
        }
        let error = |text: &str| text.parse::<Publish>().unwrap_err();
        assert_eq!(
            error("80"),
            "`80` is not [HOST:]PORT:NETNS:PORT, with /udp behind it for UDP"
        );
        assert_eq!(
            error("80:80"),
            "`80:80` is not [HOST:]PORT:NETNS:PORT, with /udp behind it for UDP"
        );
        assert_eq!(error("0:a:80"), "`0` is not a port, 1 to 65535");
        assert_eq!(error("80:a:x"), "`x` is not a port, 1 to 65535");
        assert_eq!(
            error("host:80:a:80"),
            "`host` is not an address of the host"
        );
        assert_eq!(error("::1:80:a:80"), "`::1` has to be in brackets: [::1]");
        assert_eq!(
            error("80:a:80/sctp"),
            "`80:a:80/sctp` is not [HOST:]PORT:NETNS:PORT, with /udp behind it for UDP"
        );
    }
}
