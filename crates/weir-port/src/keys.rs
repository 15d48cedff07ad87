// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `key=value` pairs separated by commas: how generators and live ports are described.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The least similarity for a suggestion: clap's threshold for flags.
const SIMILAR: f64 = 0.7;

/// Returns the message for an unknown key: it suggests the most similar key, or lists all of them.
pub(crate) fn unknown(key: &str, known: &[&str]) -> String {
    let similar = known
        .iter()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match similar {
        Some((_, known)) => format!("{key} is not a parameter; did you mean {known}?"),
        None if known.is_empty() => format!("{key} is not a parameter; there are none"),
        None => {
            let known = known.join(", ");
            format!("{key} is not a parameter; the parameters are {known}")
        }
    }
}

/// The keys that every kind of live port has: the role at the device, and whether the CPU polls the port all the
/// time. Without `as` the device decides. The first value of `busy` is the default.
pub const COMMON: &[&str] = &["as", "busy"];
const ROLES: &[&str] = &["wire", "host"];
const BUSY: &[&str] = &["off", "on"];

/// The parsed description of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The port's kind, for errors.
    kind: String,
    pairs: Vec<(String, String)>,
}

impl Keys {
    /// Parses `text`, whose keys must be among `known` or [`COMMON`], each at most once.
    ///
    /// # Errors
    /// A pair without `=`, an unknown key (with a suggestion) or a repeated one, or a wrong value of a common key.
    pub fn parse(kind: &str, known: &[&str], text: &str) -> Result<Keys> {
        let known = [known, COMMON].concat();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Error::new(kind, format!("{pair} has no value")))?;
            if !known.contains(&key) {
                return Err(Error::new(kind, unknown(key, &known)));
            }
            if pairs.iter().any(|(other, _)| other == key) {
                return Err(Error::new(kind, format!("{key} is given twice")));
            }
            pairs.push((key.to_owned(), value.to_owned()));
        }
        let keys = Keys {
            kind: kind.to_owned(),
            pairs,
        };
        keys.choice("as", ROLES)?;
        keys.choice("busy", BUSY)?;
        Ok(keys)
    }

    /// Returns whether the CPU is to poll the port all the time.
    pub fn is_busy(&self) -> bool {
        self.get("busy") == Some("on")
    }

    /// The text without the common keys.
    pub fn own(&self) -> String {
        let own = self
            .pairs
            .iter()
            .filter(|(key, _)| !COMMON.contains(&key.as_str()));
        let own: Vec<_> = own.map(|(key, value)| format!("{key}={value}")).collect();
        own.join(",")
    }

    /// The value of a key, as written.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    /// The key is missing.
    pub fn require(&self, key: &str) -> Result<&str> {
        self.get(key)
            .ok_or_else(|| Error::new(&self.kind, format!("{key}= is required")))
    }

    /// The value of a key as a number, or `default` without the key.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn number<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                Error::new(
                    &self.kind,
                    format!("{key}={text} is not a valid value for {key}"),
                )
            }),
        }
    }

    /// The place of a key's value among `choices`; 0 without the key.
    ///
    /// # Errors
    /// The value is none of them.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<usize> {
        let Some(text) = self.get(key) else {
            return Ok(0);
        };
        choices
            .iter()
            .position(|choice| *choice == text)
            .ok_or_else(|| {
                let what = format!("{key}={text} is none of {}", choices.join(", "));
                Error::new(&self.kind, what)
            })
    }
}

/// The pairs as they were given.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.pairs.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let keys = Keys::parse("tap", &["name", "queues"], text);
        keys.unwrap_err().to_string()
    }

    #[test]
    fn keys_are_known_and_given_once() {
        let keys = Keys::parse("tap", &["name", "queues"], "name=t0,queues=4").unwrap();
        assert_eq!(keys.get("name"), Some("t0"));
        assert_eq!(keys.number("queues", 1).unwrap(), 4);
        assert_eq!(keys.require("name").unwrap(), "t0");
        assert_eq!(
            error("nam=t0"),
            "tap: nam is not a parameter; did you mean name?"
        );
        assert_eq!(
            error("x=1"),
            "tap: x is not a parameter; the parameters are name, queues, as, busy"
        );
        assert_eq!(error("name"), "tap: name has no value");
        assert_eq!(error("name=a,name=b"), "tap: name is given twice");
        assert_eq!(error("busy=yes"), "tap: busy=yes is none of off, on");
        assert_eq!(error("as=cable"), "tap: as=cable is none of wire, host");
        assert_eq!(
            error("bussy=on"),
            "tap: bussy is not a parameter; did you mean busy?"
        );
        let keys = Keys::parse("tap", &["name", "queues"], "busy=on,name=t0,as=host").unwrap();
        assert!(keys.is_busy());
        assert_eq!(
            (keys.get("as"), keys.own()),
            (Some("host"), "name=t0".into())
        );
        let keys = Keys::parse("tap", &["name", "queues"], "queues=-1").unwrap();
        assert_eq!(
            keys.number("queues", 1_u16).unwrap_err().to_string(),
            "tap: queues=-1 is not a valid value for queues"
        );
        assert_eq!(
            keys.require("name").unwrap_err().to_string(),
            "tap: name= is required"
        );
        assert_eq!(
            keys.choice("queues", &["a", "b"]).unwrap_err().to_string(),
            "tap: queues=-1 is none of a, b"
        );
    }
}
