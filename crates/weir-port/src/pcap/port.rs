// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pcap` as a live port: the frames of captures arrive at their times, and the frames that the port is sent are written
//! to a capture.
//!
//! | key | meaning | unit | default |
//! |---|---|---|---|
//! | `file` | the capture to play: a file (pcap or pcapng, also with gzip), a FIFO, `-` for standard input, or a directory, whose files are played in the order of their names | | none |
//! | `loop` | how often it is played, 0 for no limit | | 1 |
//! | `rate` | frames per second or, with `bit`, `kbit`, `mbit`, `gbit`, bits per second, in place of the capture's times | 1/s | the capture's times |
//! | `out` | the capture to write: a file, whose name selects the format as in [`Format`], a FIFO, `-` for standard output, or a directory, which gets a file per device | | none |
//! | `rotate` | bytes of frames after which the next file in the directory `out` begins; also with `K`, `M`, `G` | bytes | none |
//!
//! The first frame arrives when the port is attached; a pipe begins with its first frame. A file of a directory, or a
//! repetition, whose first frame would not be later than the frames before it begins one mean gap after them (a second
//! after frames that all have one time). A frame that the capture truncated counts in `rx_errors`. A file in a directory
//! is called `DEV.pcapng`, or `DEV-00001.pcapng` and so on with `rotate`, with `-` in place of `/`.
//!
//! Written frames have the time of the stack's clock. A full disk, or a reader of a FIFO that has exited, ends the port. A
//! reader that does not read stops the stack. Not implemented: file names with a comma.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::playlist::{Files, Playlist, path_of};
use super::{Format, Reader, Writer};
use crate::generator::Rate;
use crate::keys::Keys;
use crate::paced::{Feed, Paced};
use crate::port::{Kind, Port, Site};
use crate::{Error, Frame, Result, Sink, Summary};

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &["file", "loop", "rate", "out", "rotate"],
    open,
    adopt,
    virtual_time: Some(|keys| keys.get("file").is_some() && keys.get("loop") == Some("0")),
};

const NAME: &str = "pcap";

/// Returns whether a file has neither a length nor an end that can be known.
fn is_stream(file: &File) -> io::Result<bool> {
    let kind = file.metadata()?.file_type();
    Ok(!kind.is_file() && !kind.is_dir())
}

fn standard(stream: impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Opens the capture to play and reads the beginning of a file.
fn open_input(name: &str, keys: &Keys) -> Result<File> {
    let failed = |cause| Error::io(name, "cannot be opened", cause);
    if name == "-" {
        return standard(io::stdin()).map_err(failed);
    }
    let is_fifo = Path::new(name)
        .metadata()
        .map_err(failed)?
        .file_type()
        .is_fifo();
    let mut options = OpenOptions::new();
    options.read(true);
    if is_fifo {
        // Otherwise this call would wait for a writer.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(name).map_err(failed)?;
    if is_stream(&file).map_err(failed)? {
        if keys.number("loop", 1_u64)? != 1 {
            return Err(Error::new(name, "is a pipe, which is not played again"));
        }
        if keys.get("rate").is_some() {
            return Err(Error::new(name, "is a pipe, which keeps its times"));
        }
    } else if file.metadata().map_err(failed)?.is_file() {
        Reader::new(name, file.try_clone().map_err(failed)?)?;
    }
    Ok(file)
}

fn open_output(name: &str) -> Result<File> {
    let failed = |cause| Error::io(name, "cannot be created", cause);
    if name == "-" {
        return standard(io::stdout()).map_err(failed);
    }
    if Path::new(name).is_dir() {
        return File::open(name).map_err(failed);
    }
    File::create(name).map_err(failed)
}

/// Parses a number of bytes.
fn rotation(keys: &Keys) -> Result<Option<u64>> {
    let Some(text) = keys.get("rotate") else {
        return Ok(None);
    };
    let shift = match text.as_bytes().last() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let bytes = digits.parse::<u64>().ok();
    let bytes =
        bytes.filter(|bytes| *bytes > 0 && digits.len() + usize::from(shift > 0) == text.len());
    let bytes = bytes.and_then(|bytes| bytes.checked_mul(1 << shift));
    let wrong = || {
        Error::new(
            NAME,
            format!("rotate={text} is not a valid value for rotate"),
        )
    };
    bytes.ok_or_else(wrong).map(Some)
}

fn rate(keys: &Keys) -> Result<Option<Rate>> {
    let Some(text) = keys.get("rate") else {
        return Ok(None);
    };
    match crate::generator::rate("rate", text) {
        Ok(Rate::Frames(0) | Rate::Bits(0)) => Err(Error::new(NAME, "rate must be 1 or more")),
        Ok(rate) => Ok(Some(rate)),
        Err(_) => {
            let what = format!("rate={text} is not a valid value for rate");
            Err(Error::new(NAME, what))
        }
    }
}

/// Checks the keys that open no file.
fn check(keys: &Keys) -> Result<()> {
    let (file, out) = (keys.get("file"), keys.get("out"));
    if file.is_none() && out.is_none() {
        return Err(Error::new(NAME, "file= or out= is required"));
    }
    for (key, needed, there) in [
        ("loop", "file", file),
        ("rate", "file", file),
        ("rotate", "out", out),
    ] {
        if keys.get(key).is_some() && there.is_none() {
            return Err(Error::new(NAME, format!("{key}= needs {needed}=")));
        }
    }
    keys.number("loop", 1_u64)?;
    rate(keys)?;
    rotation(keys)?;
    Ok(())
}

/// Opens the capture to play, then the one to write.
fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    check(keys)?;
    let mut files = Vec::new();
    if let Some(name) = keys.get("file") {
        files.push(open_input(name, keys)?.into());
    }
    if let Some(name) = keys.get("out") {
        if keys.get("rotate").is_some() && !Path::new(name).is_dir() {
            return Err(Error::new(NAME, "rotate= needs a directory as out="));
        }
        files.push(open_output(name)?.into());
    }
    Ok(files)
}

fn adopt(keys: &Keys, files: Vec<OwnedFd>, site: &Site) -> Result<Arc<dyn Port>> {
    check(keys)?;
    let mut files = files.into_iter().map(File::from);
    let mut next = |name: &str| {
        let file = files.next();
        file.ok_or_else(|| Error::new(name, "has no descriptor"))
    };
    let mut names = Vec::new();
    let mut feed = None;
    if let Some(name) = keys.get("file") {
        let file = next(name)?;
        let failed = |cause| Error::io(name, "cannot be read", cause);
        feed = Some(if is_stream(&file).map_err(failed)? {
            Feed::pipe(name, file, |name, stream| {
                Ok(Box::new(Reader::new(name, stream)?))
            })
        } else {
            let files = Files::new(file).map_err(failed)?;
            let times = keys.number("loop", 1)?;
            let list = Playlist::new(name, files, times, rate(keys)?);
            Feed::from_first(Box::new(list))
        });
        names.push(name);
    }
    let mut sink: Option<Box<dyn Sink>> = None;
    if let Some(name) = keys.get("out") {
        let file = next(name)?;
        let is_folder = file.metadata().is_ok_and(|data| data.is_dir());
        sink = Some(match is_folder {
            true => Box::new(Folder::new(name, file, rotation(keys)?)),
            false => Box::new(Writer::new(name, Format::of(name), file)?),
        });
        names.push(name);
    }
    let paced = Paced::new(NAME, names.join(" "), feed, sink, site)?;
    Ok(Arc::new(paced))
}

/// Writes a file in a directory, or one after the other.
struct Folder {
    name: String,
    folder: File,
    device: String,
    rotate: Option<u64>,
    writer: Option<Writer>,
    /// Files so far.
    files: u32,
    summary: Summary,
}

impl Folder {
    fn new(name: &str, folder: File, rotate: Option<u64>) -> Self {
        Self {
            name: name.trim_end_matches('/').to_owned(),
            folder,
            device: String::new(),
            rotate,
            writer: None,
            files: 0,
            summary: Summary::default(),
        }
    }

    /// Begins the next file.
    fn begin(&mut self) -> Result<()> {
        self.end()?;
        self.files += 1;
        let stem = self.device.replace('/', "-");
        let file = match self.rotate {
            None => format!("{stem}.pcapng"),
            Some(_) => format!("{stem}-{:05}.pcapng", self.files),
        };
        let name = format!("{}/{file}", self.name);
        let made = File::create(path_of(&self.folder).join(file));
        let made = made.map_err(|cause| Error::io(&name, "cannot be created", cause))?;
        let mut writer = Writer::new(&name, Format::of(&name), made)?;
        writer.interface(&self.device)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            let done = writer.finish()?;
            self.summary.frames += done.frames;
            self.summary.bytes += done.bytes;
            self.summary.lost += done.lost;
        }
        Ok(())
    }
}

impl Sink for Folder {
    /// The directory serves one device.
    fn interface(&mut self, name: &str) -> Result<u32> {
        name.clone_into(&mut self.device);
        self.begin()?;
        Ok(0)
    }

    fn write(&mut self, frame: &Frame) -> Result<()> {
        let written = self
            .writer
            .as_ref()
            .map_or(0, |writer| writer.summary().bytes);
        if self.rotate.is_some_and(|most| written >= most) {
            self.begin()?;
        }
        match &mut self.writer {
            Some(writer) => writer.write(frame),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.writer.as_mut().map_or(Ok(()), Sink::flush)
    }

    fn finish(&mut self) -> Result<Summary> {
        self.end()?;
        Ok(self.summary)
    }
}
