// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a capture file: opens it by name, decompresses it and counts the bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;

use flate2::bufread::MultiGzDecoder;

use crate::{Error, Result};

/// The number of bytes read at once.
const BUFFER: usize = 64 * 1024;

/// A stream of bytes that tracks its position.
pub(super) struct Input {
    inner: BufReader<Box<dyn Read + Send>>,
    file: String,
    offset: u64,
    gzip: bool,
}

impl Input {
    /// Opens `name`; `-` is standard input.
    pub(super) fn open(name: &str) -> Result<Input> {
        if name == "-" {
            let file = "standard input";
            // Duplicates the descriptor, so that no data remains in the buffer of `std::io::stdin`.
            let input = io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|cause| Error::io(file, "cannot be opened", cause))?;
            return Input::new(file, File::from(input));
        }
        let input = File::open(name).map_err(|cause| Error::io(name, "cannot be opened", cause))?;
        Input::new(name, input)
    }

    /// Reads `input`, named `file` in errors, and decompresses it if it is gzipped.
    pub(super) fn new(file: &str, mut input: impl Read + Send + 'static) -> Result<Input> {
        let mut head = Vec::new();
        input
            .by_ref()
            .take(4)
            .read_to_end(&mut head)
            .map_err(|cause| Error::io(file, "cannot be read", cause))?;
        let compression = match head[..] {
            [0x1f, 0x8b, ..] => Some("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd] => Some("zstd"),
            [0x04, 0x22, 0x4d, 0x18] => Some("lz4"),
            [0xfd, b'7', b'z', b'X'] => Some("xz"),
            [b'B', b'Z', b'h', _] => Some("bzip2"),
            _ => None,
        };
        let whole = io::Cursor::new(head).chain(input);
        let (gzip, inner): (bool, Box<dyn Read + Send>) = match compression {
            None => (false, Box::new(whole)),
            Some("gzip") => (
                true,
                Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, whole))),
            ),
            Some(other) => {
                let what = format!("is compressed with {other}; only gzip is supported");
                return Err(Error::new(file, what));
            }
        };
        let inner = BufReader::with_capacity(BUFFER, inner);
        Ok(Input {
            inner,
            file: file.to_owned(),
            offset: 0,
            gzip,
        })
    }

    /// Returns the name in error messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Returns the number of bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Creates an error about the byte at `offset`.
    pub(super) fn error(&self, offset: u64, what: impl Into<String>) -> Error {
        Error {
            offset: Some(offset),
            ..Error::new(&self.file, what.into())
        }
    }

    /// Returns true at the end of the input.
    pub(super) fn at_end(&mut self) -> Result<bool> {
        Ok(self.fill()? == 0)
    }

    /// Fills `buffer` with the field named `what`.
    pub(super) fn exact(&mut self, buffer: &mut [u8], what: &str) -> Result<()> {
        let start = self.offset;
        let mut done = 0;
        while done < buffer.len() {
            if self.fill()? == 0 {
                return Err(self.truncated(start, what, done as u64, buffer.len() as u64));
            }
            let ready = self.inner.buffer();
            let part = ready.len().min(buffer.len() - done);
            buffer[done..done + part].copy_from_slice(&ready[..part]);
            self.advance(part);
            done += part;
        }
        Ok(())
    }

    /// Reads the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.exact(&mut bytes, what)?;
        Ok(bytes)
    }

    /// Replaces the content of `bytes` by the next `len` bytes.
    pub(super) fn replace(&mut self, bytes: &mut Vec<u8>, len: usize, what: &str) -> Result<()> {
        bytes.clear();
        let start = self.offset;
        while bytes.len() < len {
            if self.fill()? == 0 {
                return Err(self.truncated(start, what, bytes.len() as u64, len as u64));
            }
            let ready = self.inner.buffer();
            let part = ready.len().min(len - bytes.len());
            bytes.extend_from_slice(&ready[..part]);
            self.advance(part);
        }
        Ok(())
    }

    /// Skips the next `len` bytes.
    pub(super) fn skip(&mut self, len: u64, what: &str) -> Result<()> {
        let start = self.offset;
        while self.offset - start < len {
            let ready = self.fill()?;
            if ready == 0 {
                return Err(self.truncated(start, what, self.offset - start, len));
            }
            let rest = len - (self.offset - start);
            self.advance(ready.min(usize::try_from(rest).unwrap_or(usize::MAX)));
        }
        Ok(())
    }

    fn truncated(&self, start: u64, what: &str, done: u64, len: u64) -> Error {
        self.error(
            start,
            format!("{what} is truncated: {done} of {len} bytes are present"),
        )
    }

    /// Fills the buffer if it is empty. Returns the number of bytes buffered.
    fn fill(&mut self) -> Result<usize> {
        loop {
            match self.inner.fill_buf() {
                Ok(ready) => return Ok(ready.len()),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    let what = match (self.gzip, cause.kind()) {
                        (true, io::ErrorKind::UnexpectedEof) => "the gzip stream is truncated",
                        (true, io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
                            "the gzip stream is corrupt"
                        }
                        _ => "cannot be read",
                    };
                    let error = Error::io(&self.file, what, cause);
                    return Err(Error {
                        offset: Some(self.offset),
                        ..error
                    });
                }
            }
        }
    }

    fn advance(&mut self, len: usize) {
        self.inner.consume(len);
        self.offset += len as u64;
    }
}
