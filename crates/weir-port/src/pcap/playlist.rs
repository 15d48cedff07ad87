// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sequence of capture files, once or repeatedly, at their own times or at a given rate.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::Reader;
use crate::generator::Rate;
use crate::{Error, Frame, Result, Source};

const SECOND: u128 = 1_000_000_000;

/// The files.
#[derive(Debug)]
pub(super) enum Files {
    /// One file.
    One(File),
    /// The files of a directory with these names, in this order.
    Folder(File, Vec<OsString>),
}

impl Files {
    /// Looks up what an open file is. Of a directory it takes the files whose names do not begin with a dot.
    pub(super) fn new(file: File) -> io::Result<Self> {
        if !file.metadata()?.is_dir() {
            return Ok(Self::One(file));
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path_of(&file))? {
            let name = entry?.file_name();
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            if !is_hidden && path_of(&file).join(&name).is_file() {
                names.push(name);
            }
        }
        names.sort();
        Ok(Self::Folder(file, names))
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Folder(_, names) => names.len(),
        }
    }

    /// Opens a file at its start. `name` is that of the file or the directory.
    fn open(&self, name: &str, index: usize) -> Result<Reader> {
        match self {
            Self::One(file) => {
                let failed = |cause| Error::io(name, "cannot be read", cause);
                let mut file = file.try_clone().map_err(failed)?;
                file.rewind().map_err(failed)?;
                Reader::new(name, file)
            }
            Self::Folder(folder, names) => {
                let file = names.get(index).cloned().unwrap_or_default();
                let name = format!("{}/{}", name.trim_end_matches('/'), file.display());
                let file = File::open(path_of(folder).join(file));
                let file = file.map_err(|cause| Error::io(&name, "cannot be opened", cause))?;
                Reader::new(&name, file)
            }
        }
    }
}

/// The path of an open directory, whatever its name is now.
pub(super) fn path_of(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}", folder.as_raw_fd()).into()
}

/// The source.
pub(super) struct Playlist {
    name: String,
    files: Files,
    /// The next file.
    index: usize,
    reader: Option<Reader>,
    /// How often all files are still to be played, `None` for ever.
    left: Option<u64>,
    rate: Option<Rate>,
    /// The cost of the frames so far, in nanoseconds times the rate.
    spent: u128,
    /// Added to the time stamps of the current file, modulo 2^64.
    shift: u64,
    first: Option<u64>,
    last: u64,
    frames: u64,
    /// The number of frames when the current repetition began.
    before: u64,
}

impl Playlist {
    /// Plays files `times` times, 0 for ever. With a rate the time stamps of the files do not matter.
    pub(super) fn new(name: &str, files: Files, times: u64, rate: Option<Rate>) -> Self {
        Self {
            name: name.to_owned(),
            files,
            index: 0,
            reader: None,
            left: (times > 0).then_some(times),
            rate,
            spent: 0,
            shift: 0,
            first: None,
            last: 0,
            frames: 0,
            before: 0,
        }
    }

    /// Opens the next file. Returns false after the last one.
    fn advance(&mut self) -> Result<bool> {
        if self.index == self.files.len() {
            let over = self.left.is_some_and(|left| left <= 1);
            if over || self.frames == self.before {
                return Ok(false);
            }
            self.left = self.left.map(|left| left - 1);
            (self.index, self.before) = (0, self.frames);
        }
        self.reader = Some(self.files.open(&self.name, self.index)?);
        self.index += 1;
        Ok(true)
    }

    /// Gives the first frame of a file a place after those before it, one mean gap away if it would be earlier.
    fn join(&mut self, stamp: u64) {
        let Some(first) = self.first else {
            self.first = Some(stamp);
            return;
        };
        let stamp = stamp.wrapping_add(self.shift);
        if stamp <= self.last {
            let gap = match (self.last.saturating_sub(first), self.frames) {
                (0, _) | (_, 0 | 1) => SECOND as u64,
                (length, frames) => (length / (frames - 1)).max(1),
            };
            let wanted = self.last.saturating_add(gap);
            self.shift = self.shift.wrapping_add(wanted.wrapping_sub(stamp));
        }
    }

    /// Gives a frame its time stamp.
    fn stamp(&mut self, frame: &mut Frame) {
        match self.rate {
            None => {
                frame.time_ns = frame.time_ns.wrapping_add(self.shift);
                self.last = self.last.max(frame.time_ns);
            }
            Some(Rate::Frames(rate)) => {
                frame.time_ns = u64::try_from(self.spent / u128::from(rate)).unwrap_or(u64::MAX);
                self.spent += SECOND;
            }
            Some(Rate::Bits(rate)) => {
                frame.time_ns = u64::try_from(self.spent / u128::from(rate)).unwrap_or(u64::MAX);
                self.spent += frame.data.len() as u128 * 8 * SECOND;
            }
        }
    }
}

impl Source for Playlist {
    fn read(&mut self, frame: &mut Frame) -> Result<bool> {
        loop {
            let Some(reader) = &mut self.reader else {
                match self.advance()? {
                    true => continue,
                    false => return Ok(false),
                }
            };
            let begins = reader.frames() == 0;
            if !reader.read(frame)? {
                self.reader = None;
                continue;
            }
            if begins {
                self.join(frame.time_ns);
            }
            self.stamp(frame);
            self.frames += 1;
            return Ok(true);
        }
    }

    fn frames(&self) -> u64 {
        self.frames
    }
}
