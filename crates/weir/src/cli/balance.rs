// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `weir balance`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::DeviceName;
use crate::command::completions;

/// `weir balance`
#[derive(Debug, Subcommand)]
pub enum BalanceCommand {
    /// Balance the packets of a service that a device receives over backends.
    Add(BalanceAdd),
    /// Replace the backends of a service.
    Set(BalanceSet),
    /// Stop balancing a service.
    Del(BalanceDel),
}

/// `weir balance add`
#[derive(Debug, Args)]
#[command(after_help = "\
SERVICE is `tcp:ADDRESS:PORT`, with `udp` or `sctp` alike; IPv6 addresses stand in brackets. BACKEND is `ADDRESS`, \
`ADDRESS:PORT`, or either with `=WEIGHT`. Without a port, backends get the service's port. A backend of weight 0 keeps its \
flows and gets no new ones.\n\n\
The packets of a flow get the address and port of one backend as their destination, and are routed there. What backends \
answer gets the service's address as its source, where the devices of --replies receive it.\n\n\
The command makes an action `balance` with the lowest free index, and filters with preference 1000 plus the index at the \
ingress of the devices, which get a clsact if they have none. `tc filter show` shows them, and `weir balance del` \
removes them. tc does not know the action and prints a gact with its index. `weir stat balance` shows what became of flows.")]
pub struct BalanceAdd {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// A device, in the same namespace, that receives what backends answer.
    #[arg(long, value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub replies: Vec<DeviceName>,
    /// The number of flows that are remembered.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub flows: Option<u32>,
    /// The device that receives the packets of clients: `dev` or `netns/dev`.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: DeviceName,
    /// The service.
    #[arg(value_name = "SERVICE")]
    pub service: Service,
    /// The backends.
    #[arg(value_name = "BACKEND")]
    pub backends: Vec<Backend>,
}

/// `weir balance set`
#[derive(Debug, Args)]
#[command(
    after_help = "Flows stay where they are, unless their backend leaves. Without backends, packets of the service are dropped."
)]
pub struct BalanceSet {
    /// Which service.
    #[command(flatten)]
    pub balanced: Balanced,
    /// All backends from now on.
    #[arg(value_name = "BACKEND")]
    pub backends: Vec<Backend>,
}

/// `weir balance del`
#[derive(Debug, Args)]
#[command(
    after_help = "Removes the filters of the namespace that balance the service, the action and its memory of flows. A clsact that \
`weir balance add` has made stays. If a filter has other actions, too, the command fails and removes nothing."
)]
pub struct BalanceDel {
    /// Which service.
    #[command(flatten)]
    pub balanced: Balanced,
}

/// A service that a namespace balances.
#[derive(Debug, Args)]
pub struct Balanced {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The namespace; by default the initial one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// The service.
    #[arg(value_name = "SERVICE")]
    pub service: Service,
}

/// The protocols of services, with their numbers.
const PROTOCOLS: [(&str, u8); 3] = [("tcp", 6), ("udp", 17), ("sctp", 132)];

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The protocol number.
    pub protocol: u8,
    /// The address and port.
    pub ends: SocketAddr,
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no service: it looks like tcp:192.0.2.80:80");
        let (name, ends) = text.split_once(':').ok_or_else(wrong)?;
        let protocol = PROTOCOLS.iter().find(|(known, _)| *known == name);
        let ends: SocketAddr = ends.parse().map_err(|_| wrong())?;
        match protocol {
            Some((_, protocol)) if ends.port() != 0 => Ok(Self {
                protocol: *protocol,
                ends,
            }),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = PROTOCOLS.iter().find(|(_, known)| *known == self.protocol);
        match name {
            Some((name, _)) => write!(f, "{name}:{}", self.ends),
            None => write!(f, "{}:{}", self.protocol, self.ends),
        }
    }
}

/// A backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend {
    /// The address and port; port 0 stands for that of the service.
    pub ends: SocketAddr,
    /// The weight.
    pub weight: u16,
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no backend: it looks like 10.9.0.1, 10.9.0.1:8080 or 10.9.0.1=3")
        };
        let (ends, weight) = text.split_once('=').unwrap_or((text, "1"));
        let weight = weight.parse().map_err(|_| wrong())?;
        let bare = ends.trim_start_matches('[').trim_end_matches(']');
        let ends = match (ends.parse::<SocketAddr>(), bare.parse::<IpAddr>()) {
            (Ok(ends), _) => ends,
            (_, Ok(address)) => SocketAddr::new(address, 0),
            _ => return Err(wrong()),
        };
        Ok(Self { ends, weight })
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ends.port() {
            0 => write!(f, "{}", self.ends.ip())?,
            _ => write!(f, "{}", self.ends)?,
        }
        match self.weight {
            1 => Ok(()),
            weight => write!(f, "={weight}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_backends_are_read_and_shown() {
        for text in [
            "tcp:192.0.2.80:80",
            "udp:[2001:db8::1]:53",
            "sctp:10.0.0.1:36412",
        ] {
            assert_eq!(text.parse::<Service>().unwrap().to_string(), text);
        }
        for text in [
            "tcp:192.0.2.80",
            "icmp:10.0.0.1:1",
            "tcp:10.0.0.1:0",
            "tcp",
            "10.0.0.1:80",
        ] {
            assert!(text.parse::<Service>().is_err(), "{text}");
        }
        for text in [
            "10.9.0.1",
            "10.9.0.1:8080",
            "10.9.0.1=3",
            "[fd00::1]:80=0",
            "fd00::1",
        ] {
            assert_eq!(text.parse::<Backend>().unwrap().to_string(), text);
        }
        assert_eq!("[fd00::1]".parse::<Backend>().unwrap().ends.port(), 0);
        for text in ["", "host", "10.9.0.1=", "10.9.0.1=70000", "10.9.0.1:99999"] {
            assert!(text.parse::<Backend>().is_err(), "{text}");
        }
    }
}
