// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of a device in two words.

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

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        match &self.0 {
            Form::Short(bytes) => {
                let end = bytes.iter().position(|byte| *byte == 0);
                let text = &bytes[..end.unwrap_or(SHORT)];
                str::from_utf8(text).expect("a name is made from a text")
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
        **self == **other
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
        str::cmp(self, other)
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
