// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one error of all control code: an errno and what an extended acknowledgement adds to it.
//!
//! Mirrors `struct netlink_ext_ack` and the `NL_SET_ERR_MSG*` macros of `linux/netlink.h`. The
//! errno is positive here and negated on the wire. With `errno` 0 an [`Error`] is a warning: Linux
//! sends a message and a cookie beside a success, nothing else.

use std::borrow::Cow;
use std::fmt;

use crate::attr::Attr;
use crate::consts::errno;
use crate::policy::Rule;

/// Why a request was refused, as a client will see it.
#[derive(Clone, Default)]
pub struct Error {
    /// Positive error number ([`crate::errno`]); 0 makes a warning.
    pub errno: i32,
    /// `NLMSGERR_ATTR_MSG`: the sentence.
    pub message: Option<Cow<'static, str>>,
    /// `NLMSGERR_ATTR_OFFS`: offset of the bad attribute from the start of its message, in bytes.
    pub offset: Option<u32>,
    /// `NLMSGERR_ATTR_POLICY`: the rule the bad attribute broke.
    pub policy: Option<&'static Rule>,
    /// `NLMSGERR_ATTR_MISS_TYPE`: type of the attribute that is missing.
    pub miss_type: Option<u32>,
    /// `NLMSGERR_ATTR_MISS_NEST`: offset of the nest it is missing from; `None` is the message.
    pub miss_nest: Option<u32>,
    /// `NLMSGERR_ATTR_COOKIE`: up to 20 bytes.
    pub cookie: Option<Box<[u8]>>,
}

impl Error {
    /// An errno without a sentence.
    pub const fn new(errno: i32) -> Self {
        Error {
            errno,
            message: None,
            offset: None,
            policy: None,
            miss_type: None,
            miss_nest: None,
            cookie: None,
        }
    }

    /// Its number alone: as where Linux has no extended acknowledgement at hand.
    pub fn quiet(self) -> Self {
        Self::new(self.errno)
    }

    /// An errno with a sentence (`NL_SET_ERR_MSG`).
    pub fn msg(errno: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Error {
            message: Some(text.into()),
            ..Error::new(errno)
        }
    }

    /// A refusal of something Weir does not serve: EOPNOTSUPP and a sentence.
    pub fn unsupported(text: impl Into<Cow<'static, str>>) -> Self {
        Error::msg(errno::EOPNOTSUPP, text)
    }

    /// A sentence for a request that succeeds.
    pub fn warning(text: impl Into<Cow<'static, str>>) -> Self {
        Error::msg(0, text)
    }

    /// A missing attribute of the message (`NL_SET_ERR_ATTR_MISS` with no nest): EINVAL.
    pub fn missing(ty: u16) -> Self {
        Error {
            miss_type: Some(u32::from(ty)),
            ..Error::new(errno::EINVAL)
        }
    }

    /// A missing attribute of a nest (`NL_SET_ERR_ATTR_MISS`): EINVAL.
    pub fn missing_in(nest: &Attr<'_>, ty: u16) -> Self {
        Error {
            miss_nest: Some(nest.offset),
            ..Error::missing(ty)
        }
    }

    /// Names the bad attribute (`NL_SET_BAD_ATTR`).
    #[must_use]
    pub fn at(self, attr: &Attr<'_>) -> Self {
        self.at_offset(attr.offset)
    }

    /// Names the bad attribute by its offset in the message.
    #[must_use]
    pub fn at_offset(mut self, offset: u32) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Adds the broken rule (`NL_SET_ERR_MSG_ATTR_POL`).
    #[must_use]
    pub fn by(mut self, rule: &'static Rule) -> Self {
        self.policy = Some(rule);
        self
    }

    /// Puts a sentence where there is none yet.
    #[must_use]
    pub fn or_msg(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        if self.message.is_none() {
            self.message = Some(text.into());
        }
        self
    }

    /// Adds a cookie; Linux's bound of 20 bytes is kept by cutting.
    #[must_use]
    pub fn with_cookie(mut self, cookie: &[u8]) -> Self {
        self.cookie = Some(cookie[..cookie.len().min(20)].into());
        self
    }
}

impl From<i32> for Error {
    fn from(errno: i32) -> Self {
        Error::new(errno)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.errno == other.errno
            && self.message == other.message
            && self.offset == other.offset
            && self.miss_type == other.miss_type
            && self.miss_nest == other.miss_nest
            && self.cookie == other.cookie
    }
}

impl Eq for Error {}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self}")?;
        if let Some(offset) = self.offset {
            write!(f, ", at {offset}")?;
        }
        if let Some(ty) = self.miss_type {
            write!(f, ", missing {ty}")?;
            if let Some(nest) = self.miss_nest {
                write!(f, " in the nest at {nest}")?;
            }
        }
        f.write_str(")")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => f.write_str("warning")?,
            errno => match errno::name(errno) {
                "E?" => write!(f, "errno {errno}")?,
                name => f.write_str(name)?,
            },
        }
        match &self.message {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
