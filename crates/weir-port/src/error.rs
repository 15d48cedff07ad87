// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The error type of sources and sinks: the file, the position in it, and the cause.

use std::borrow::Cow;
use std::{error, fmt, io};

/// The result of sources and sinks.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a source or a sink.
///
/// It is displayed as `FILE: offset N: WHAT (M frames before it are kept)`, in one line, without
/// the parts that do not apply.
#[derive(Debug)]
pub struct Error {
    /// The name that the user gave; `standard input` or `standard output` for `-`.
    pub file: String,
    /// The offset of the offending byte, from 0; in a gzipped file, among the uncompressed bytes.
    /// `None` if the error is not about a byte.
    pub offset: Option<u64>,
    /// A description for the user.
    pub what: Cow<'static, str>,
    /// The number of frames read before the error, which the source has yielded.
    pub frames: Option<u64>,
    /// The error of the operating system or the decompressor.
    pub cause: Option<io::Error>,
}

impl Error {
    /// Creates an error about `file` as a whole.
    pub fn new(file: &str, what: impl Into<Cow<'static, str>>) -> Error {
        Error {
            file: file.to_owned(),
            offset: None,
            what: what.into(),
            frames: None,
            cause: None,
        }
    }

    /// Creates an error about `file` with the operating system's error.
    pub fn io(file: &str, what: impl Into<Cow<'static, str>>, cause: io::Error) -> Error {
        Error {
            cause: Some(cause),
            ..Error::new(file, what)
        }
    }

    /// Returns true if the reader of a pipe has exited, which is the usual end of a live capture.
    pub fn is_broken_pipe(&self) -> bool {
        self.cause
            .as_ref()
            .is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}: ")?;
        }
        f.write_str(&self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        match self.frames {
            None | Some(0) => Ok(()),
            Some(1) => f.write_str(" (the 1 frame before it is kept)"),
            Some(frames) => write!(f, " (the {frames} frames before it are kept)"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
