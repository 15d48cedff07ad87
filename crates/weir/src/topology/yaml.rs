// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A walk through YAML whose errors know their line. JSON is YAML too.

use marked_yaml::{LoadError, Node};

use super::Error;

/// A value, with the path of keys to it for messages.
#[derive(Clone)]
pub struct Value<'a> {
    node: &'a Node,
    path: String,
}

/// Parses a document.
pub fn load(text: &str) -> Result<Node, Error> {
    marked_yaml::parse_yaml(0, text).map_err(|error| {
        let line = match &error {
            LoadError::TopLevelMustBeMapping(at)
            | LoadError::TopLevelMustBeSequence(at)
            | LoadError::UnexpectedAnchor(at)
            | LoadError::MappingKeyMustBeScalar(at)
            | LoadError::UnexpectedTag(at)
            | LoadError::ScanError(at, _) => at.line(),
            LoadError::DuplicateKey(key) => key.key.span().start().map_or(0, |at| at.line()),
        };
        let text = error.to_string();
        // The message repeats the place, in columns of a source that has no name.
        let text = text
            .split_once(": ")
            .map_or(text.as_str(), |(_, text)| text);
        Error::new(line, text)
    })
}

impl<'a> Value<'a> {
    pub fn root(node: &'a Node) -> Self {
        let path = String::new();
        Self { node, path }
    }

    /// Returns the line, from 1.
    pub fn line(&self) -> usize {
        self.node.span().start().map_or(0, |at| at.line())
    }

    pub fn error(&self, text: &str) -> Error {
        let path = self.path.trim_start_matches('.');
        match path {
            "" => Error::new(self.line(), text),
            path => Error::new(self.line(), format!("{path}: {text}")),
        }
    }

    /// Returns whether a key has no value, as in `node:` alone.
    fn is_nothing(&self) -> bool {
        self.node
            .as_scalar()
            .is_some_and(|text| text.may_coerce() && matches!(text.as_str(), "" | "~" | "null"))
    }

    pub fn is_mapping(&self) -> bool {
        self.node.as_mapping().is_some()
    }

    /// Returns the pairs of a mapping; nothing at all is an empty one.
    pub fn pairs(&self) -> Result<Vec<(&'a str, Value<'a>)>, Error> {
        if self.is_nothing() {
            return Ok(Vec::new());
        }
        let Some(mapping) = self.node.as_mapping() else {
            return Err(self.error("this is not a mapping"));
        };
        let pair = |(key, node): (&'a marked_yaml::types::MarkedScalarNode, &'a Node)| {
            let key = key.as_str();
            let path = format!("{}.{key}", self.path);
            (key, Value { node, path })
        };
        Ok(mapping.iter().map(pair).collect())
    }

    pub fn get(&self, key: &str) -> Result<Option<Value<'a>>, Error> {
        let pairs = self.pairs()?.into_iter();
        Ok(pairs
            .into_iter()
            .find(|pair| pair.0 == key)
            .map(|pair| pair.1))
    }

    /// Returns the items of a list; nothing at all is an empty one.
    pub fn items(&self) -> Result<Vec<Value<'a>>, Error> {
        if self.is_nothing() {
            return Ok(Vec::new());
        }
        let Some(list) = self.node.as_sequence() else {
            return Err(self.error("this is not a list"));
        };
        let item = |(index, node): (usize, &'a Node)| {
            let path = format!("{}[{index}]", self.path);
            Value { node, path }
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    pub fn text(&self) -> Result<&'a str, Error> {
        let scalar = self.node.as_scalar();
        scalar
            .map(|text| text.as_str())
            .ok_or_else(|| self.error("this is not a single value"))
    }

    /// Returns the text of a key; `None` if it is missing or empty.
    pub fn text_of(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        Ok((!value.is_nothing())
            .then(|| value.text())
            .transpose()?
            .filter(|text| !text.is_empty()))
    }
}
