// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one error of sources and sinks: which file, where in it, what was wrong.

use std::borrow::Cow;
use std::{error, fmt, io};

/// The result of sources and sinks.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong with a source or a sink.
///
/// It prints as `FILE: offset N: WHAT (M frames before it are kept)`, in one line, without the
/// parts that do not apply.
#[derive(Debug)]
pub struct Error {
    /// The name the user gave; `standard input` or `standard output` for `-`.
    pub file: String,
    /// The byte the complaint is about, counted from 0; in a gzipped file it counts the
    /// uncompressed bytes. `None` where no byte is to blame.
    pub offset: Option<u64>,
    /// What was wrong, for people.
    pub what: Cow<'static, str>,
    /// Frames read before it, which the source has yielded.
    pub frames: Option<u64>,
    /// What the operating system or the decompressor said.
    pub cause: Option<io::Error>,
}

impl Error {
    /// An error about `file` as a whole.
    pub fn new(file: &str, what: impl Into<Cow<'static, str>>) -> Error {
        Error {
            file: file.to_owned(),
            offset: None,
            what: what.into(),
            frames: None,
            cause: None,
        }
    }

    /// The same with what the operating system said.
    pub fn io(file: &str, what: impl Into<Cow<'static, str>>, cause: io::Error) -> Error {
        Error {
            cause: Some(cause),
            ..Error::new(file, what)
        }
    }

    /// Whether the reader of a pipe has gone: for a live capture that is the usual end.
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
