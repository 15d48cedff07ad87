// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of a device in two words.
#![allow(unsafe_code)] // a text in place is read without looking at each of its bytes again

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The longest name that lies in place (`IFNAMSIZ` without the end).
const SHORT: usize = 15;

/// A text without NUL. The names of devices lie in place; the longer alternative names are in a box.
///
/// It compares, sorts and hashes as the text does.
#[derive(Clone)]
pub struct Name(Form);

#[derive(Clone)]
#[allow(clippy::box_collection, reason = "a long name takes one word in place")]
enum Form {
    /// Filled up with NUL.
    Short([u8; SHORT]),
    Long(Box<String>),
}

const _: () = assert!(size_of::<Name>() == 16);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut short = [0; SHORT];
        Self(match short.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Form::Short(short)
            }
            None => Form::Long(Box::new(text.into())),
        })
    }
}

/// Returns the length of a text that is filled up with NUL.
#[inline]
fn len(bytes: &[u8; SHORT]) -> usize {
    let mut all = [0; SHORT + 1];
    all[..SHORT].copy_from_slice(bytes);
    (u128::BITS - u128::from_le_bytes(all).leading_zeros()).div_ceil(8) as usize
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        match &self.0 {
            Form::Short(bytes) => {
                let text = &bytes[..len(bytes)];
                // SAFETY: `from` has put a text there and filled it up with NUL, without which it is a text again.
                unsafe { str::from_utf8_unchecked(text) }
            }
            Form::Long(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::from("")
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Short(one), Form::Short(other)) => one == other,
            _ => **self == **other,
        }
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (Form::Short(one), Form::Short(other)) => one.cmp(other),
            _ => str::cmp(self, other),
        }
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_name_is_its_text() {
        let texts = [
            "",
            "lo",
            "eth0",
            "fifteen-letters",
            "sixteen--letters",
            "äöü",
            "a.b",
        ];
        let long = "l".repeat(127);
        let texts = texts.into_iter().chain([long.as_str()]);
        let texts: Vec<&str> = texts.collect();
        let mut names: Vec<Name> = texts.iter().map(|text| Name::from(*text)).collect();
        assert!(names.iter().map(|name| &**name).eq(texts.iter().copied()));
        let table: HashSet<Name> = names.iter().cloned().collect();
        assert!(texts.iter().all(|text| table.contains(*text)));
        let mut sorted = texts;
        sorted.sort_unstable();
        names.sort();
        assert!(names.iter().map(|name| &**name).eq(sorted));
    }
}
