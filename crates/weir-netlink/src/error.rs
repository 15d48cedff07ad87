// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The error type of all control code: an errno with the additions of an extended acknowledgement.
//!
//! Mirrors `struct netlink_ext_ack` and the `NL_SET_ERR_MSG*` macros of `linux/netlink.h`. The
//! errno is positive here and negated on the wire. An [`Error`] with `errno` 0 is a warning: with a
//! success, Linux sends only a message and a cookie.

use std::borrow::Cow;
use std::fmt;
use std::panic::RefUnwindSafe;

use crate::consts::errno;
use crate::writer::{Full, Writer};

/// A rule for attributes that can describe itself to the client that violated it.
pub trait Describe: fmt::Debug + Send + Sync + RefUnwindSafe {
    /// Writes the description as an attribute of type `ty` (`netlink_policy_dump_write_attr`).
    fn describe(&self, w: &mut Writer, ty: u16);
}

/// The reason why a request was refused, as a client sees it.
#[derive(Clone, Default)]
pub struct Error {
    /// The positive error number ([`crate::errno`]); 0 makes this a warning.
    pub errno: i32,
    /// `NLMSGERR_ATTR_MSG`: the sentence.
    pub message: Option<Cow<'static, str>>,
    /// `NLMSGERR_ATTR_OFFS`: the offset of the bad attribute from the start of its message, in
    /// bytes.
    pub offset: Option<u32>,
    /// `NLMSGERR_ATTR_POLICY`: the rule that the bad attribute violated.
    pub policy: Option<&'static dyn Describe>,
    /// `NLMSGERR_ATTR_MISS_TYPE`: the type of the missing attribute.
    pub miss_type: Option<u32>,
    /// `NLMSGERR_ATTR_MISS_NEST`: the offset of the nest that lacks it; `None` for the message
    /// itself.
    pub miss_nest: Option<u32>,
    /// `NLMSGERR_ATTR_COOKIE`: up to 20 bytes.
    pub cookie: Option<Box<[u8]>>,
}

impl Error {
    /// Creates an error without a sentence.
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

    /// Keeps only the error number, as where Linux has no extended acknowledgement available.
    pub fn quiet(self) -> Self {
        Self::new(self.errno)
    }

    /// Creates an error with a sentence (`NL_SET_ERR_MSG`).
    pub fn msg(errno: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Error {
            message: Some(text.into()),
            ..Error::new(errno)
        }
    }

    /// Creates the refusal of something that Weir does not support: EOPNOTSUPP and a sentence.
    pub fn unsupported(text: impl Into<Cow<'static, str>>) -> Self {
        Error::msg(errno::EOPNOTSUPP, text)
    }

    /// Creates a warning for a request that succeeds.
    pub fn warning(text: impl Into<Cow<'static, str>>) -> Self {
        Error::msg(0, text)
    }

    /// Creates EINVAL for an attribute missing from the message (`NL_SET_ERR_ATTR_MISS` with no
    /// nest).
    pub fn missing(ty: u16) -> Self {
        Error {
            miss_type: Some(u32::from(ty)),
            ..Error::new(errno::EINVAL)
        }
    }

    /// Reports the bad attribute by its offset in the message.
    #[must_use]
    pub fn at_offset(mut self, offset: u32) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Adds a sentence unless there is one already.
    #[must_use]
    pub fn or_msg(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        if self.message.is_none() {
            self.message = Some(text.into());
        }
        self
    }

    /// Adds a cookie, truncated to Linux's limit of 20 bytes.
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

impl From<Full> for Error {
    fn from(_: Full) -> Self {
        Error::new(errno::EMSGSIZE)
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
