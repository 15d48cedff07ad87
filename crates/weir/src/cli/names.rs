// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of flags that name a device, and times of the stack's clock.

use std::path::PathBuf;
use std::str::FromStr;

use weir_port::generator::{Generator, Parameters};
use weir_port::keys::Keys;
use weir_port::port::Kind;

/// A device: `dev` or `netns/dev`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName {
    /// The namespace's name; `None` for the initial one.
    pub netns: Option<String>,
    /// The device's name.
    pub device: String,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (netns, device) = match text.split_once('/') {
            Some((netns, device)) => (Some(netns), device),
            None => (None, text),
        };
        if netns == Some("") || device.is_empty() || device.contains('/') {
            return Err(format!("`{text}` is not `dev` or `netns/dev`"));
        }
        Ok(Self {
            netns: netns.map(str::to_owned),
            device: device.to_owned(),
        })
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.netns {
            Some(netns) => write!(f, "{netns}/{}", self.device),
            None => f.write_str(&self.device),
        }
    }
}

/// `DEV=FILE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFile {
    /// The device.
    pub device: DeviceName,
    /// The file; `-` is standard input or output.
    pub file: PathBuf,
}

impl FromStr for DeviceFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, file) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not DEV=FILE"))?;
        if file.is_empty() {
            return Err(format!("`{text}` has no file name"));
        }
        Ok(Self {
            device: device.parse()?,
            file: file.into(),
        })
    }
}

/// `DEV=SPEC`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceGenerator {
    /// The device.
    pub device: DeviceName,
    /// The specification as written.
    pub spec: String,
    /// The parsed specification.
    pub parameters: Parameters,
}

impl FromStr for DeviceGenerator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, spec) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not DEV=SPEC"))?;
        let parameters = spec.parse::<Parameters>();
        let parameters = parameters.map_err(|error| error.to_string())?;
        Generator::new(parameters.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            device: device.parse()?,
            spec: spec.to_owned(),
            parameters,
        })
    }
}

/// `DEV=KIND[,KEY=VALUE...]`
#[derive(Debug, Clone)]
pub struct DevicePort {
    /// The device.
    pub device: DeviceName,
    /// The kind of port.
    pub kind: &'static Kind,
    /// Its description.
    pub keys: Keys,
}

impl FromStr for DevicePort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, port) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not DEV=KIND[,KEY=VALUE...]"))?;
        let (kind, keys) = port.split_once(',').unwrap_or((port, ""));
        let kind = weir_port::kinds::kind(kind).map_err(|error| error.to_string())?;
        let keys = Keys::parse(kind.name, kind.keys, keys).map_err(|error| error.to_string())?;
        Ok(Self {
            device: device.parse()?,
            kind,
            keys,
        })
    }
}

/// The name that stands for all devices.
pub const ANY: &str = "any";

/// `DEV[,nth=N|,count=N][,EXPR]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTrace {
    /// The text as written.
    pub spec: String,
    /// The device; `None` for all.
    pub device: Option<DeviceName>,
    /// Only this packet.
    pub nth: Option<u64>,
    /// The number of packets.
    pub count: Option<u64>,
    /// The pcap-filter expression.
    pub expression: Option<String>,
}

impl FromStr for DeviceTrace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, mut rest) = text.split_once(',').unwrap_or((text, ""));
        let mut trace = Self {
            spec: text.to_owned(),
            device: (device != ANY).then(|| device.parse()).transpose()?,
            nth: None,
            count: None,
            expression: None,
        };
        while !rest.is_empty() {
            let (part, after) = rest.split_once(',').unwrap_or((rest, ""));
            let slot = match part.split_once('=') {
                Some(("nth", number)) => (&mut trace.nth, number),
                Some(("count", number)) => (&mut trace.count, number),
                _ => {
                    trace.expression = Some(rest.to_owned());
                    break;
                }
            };
            let (slot, number) = slot;
            let number = number.parse().ok().filter(|number| *number > 0);
            *slot = Some(number.ok_or_else(|| format!("`{part}` is no number from 1"))?);
            rest = after;
        }
        if trace.nth.is_some() && trace.count.is_some() {
            return Err("nth and count exclude each other".into());
        }
        Ok(trace)
    }
}

/// A time of the stack's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a time such as 5s, 300ms, 1.5s or 2m (a plain number is seconds)"
            )
        };
        let end = text
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit_ns: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(wrong());
        }
        let digits = |s: &str| {
            if s.is_empty() {
                Ok(0)
            } else {
                s.parse::<u64>().map_err(|_| wrong())
            }
        };
        if !fraction.bytes().all(|b| b.is_ascii_digit()) || fraction.len() > 18 {
            return Err(wrong());
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let ns = u128::from(digits(whole)?) * u128::from(unit_ns)
            + u128::from(digits(fraction)?) * u128::from(unit_ns) / scale;
        u64::try_from(ns).map(Self).map_err(|_| wrong())
    }
}
