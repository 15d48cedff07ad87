// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files on a run's command line. No file is written twice, or both read and written, and the
//! report's file is opened before anything runs.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::cli::{DeviceFile, DevicePort, Run, Up};

/// Returns whether a file name on the command line means standard input or output.
pub fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The identity of a file. Devices (`/dev/null`, a terminal) have none, since several outputs may
/// share them.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Standard input or output, regardless of its kind.
    Standard,
    /// Device and inode of a regular file or a pipe.
    There(u64, u64),
    /// Device and inode of the directory, and the name, of a file that does not exist yet.
    New(u64, u64, OsString),
}

/// A file of the command line.
struct Use<'a> {
    /// The name for messages: `--out v0`.
    what: String,
    file: &'a Path,
    writes: bool,
}

impl Use<'_> {
    fn identities(&self) -> Vec<Identity> {
        if is_standard(self.file) {
            let number = u8::from(self.writes);
            let open = there(Path::new(&format!("/proc/self/fd/{number}")));
            return [Identity::Standard].into_iter().chain(open).collect();
        }
        if self.file.exists() {
            return there(self.file).into_iter().collect();
        }
        let Some(name) = self.file.file_name() else {
            return Vec::new();
        };
        let directory = match self.file.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let new = |data: std::fs::Metadata| Identity::New(data.dev(), data.ino(), name.into());
        directory.metadata().map(new).into_iter().collect()
    }

    fn name(&self) -> String {
        match (is_standard(self.file), self.writes) {
            (true, true) => "standard output".into(),
            (true, false) => "standard input".into(),
            _ => self.file.display().to_string(),
        }
    }
}

fn there(file: &Path) -> Option<Identity> {
    let data = file.metadata().ok()?;
    let identified = data.is_file() || data.file_type().is_fifo();
    identified.then(|| Identity::There(data.dev(), data.ino()))
}

/// The files that a command line names.
#[derive(Default)]
pub struct Files<'a> {
    inputs: &'a [DeviceFile],
    ports: &'a [DevicePort],
    script: Option<&'a Path>,
    outputs: &'a [DeviceFile],
    drops: Option<&'a Path>,
    all: Option<&'a Path>,
    json: Option<&'a Path>,
}

impl<'a> From<&'a Run> for Files<'a> {
    fn from(args: &'a Run) -> Self {
        Self {
            inputs: &args.inputs,
            ports: &args.ports,
            script: args.script.as_deref().map(Path::new),
            outputs: &args.outputs,
            drops: args.drops.as_deref(),
            all: args.capture_all.as_deref(),
            json: args.json.as_deref(),
        }
    }
}

impl<'a> From<&'a Up> for Files<'a> {
    fn from(args: &'a Up) -> Self {
        Self {
            inputs: &args.inputs,
            ports: &args.ports,
            outputs: &args.outputs,
            ..Self::default()
        }
    }
}

/// Refuses a command line that uses a file twice if one use would spoil the other.
pub fn check<'a>(args: impl Into<Files<'a>>) -> Result<(), String> {
    let args = args.into();
    let mut uses = Vec::new();
    for input in args.inputs {
        uses.push(Use {
            what: format!("--in {}", input.device),
            file: &input.file,
            writes: false,
        });
    }
    if let Some(file) = args.script {
        uses.push(Use {
            what: "the script".into(),
            file,
            writes: false,
        });
    }
    for output in args.outputs {
        uses.push(Use {
            what: format!("--out {}", output.device),
            file: &output.file,
            writes: true,
        });
    }
    for (what, file) in [
        ("--capture-all", args.all),
        ("--drops", args.drops),
        ("--json", args.json),
    ] {
        uses.extend(file.map(|file| Use {
            what: what.into(),
            file,
            writes: true,
        }));
    }
    for port in args.ports {
        for (key, writes) in [("file", false), ("out", true)] {
            let file = port.keys.get(key).map(Path::new);
            // A directory may be used more than once: each device has its own files there.
            uses.extend(file.filter(|file| !file.is_dir()).map(|file| Use {
                what: format!("--port {}", port.device),
                file,
                writes,
            }));
        }
    }
    for (number, one) in uses.iter().enumerate() {
        let ids = one.identities();
        for other in &uses[number + 1..] {
            // Standard input and standard output are different files, but each of them may be used
            // only once.
            let both_read = !one.writes && !other.writes;
            let shared = other.identities().iter().any(|id| match id {
                Identity::Standard => one.writes == other.writes && ids.contains(id),
                _ => !both_read && ids.contains(id),
            });
            if shared {
                let (first, second, name) = (&one.what, &other.what, other.name());
                return Err(match (one.writes, both_read) {
                    (true, _) => format!("{first} and {second}: both would write {name}"),
                    (_, true) => format!("{first} and {second}: both would read {name}"),
                    _ => format!("{first} reads what {second} would write: {name}"),
                });
            }
        }
    }
    Ok(())
}

/// Returns whether anything but the script writes to standard output.
pub fn writes_standard_output<'a>(args: impl Into<Files<'a>>) -> bool {
    let args = args.into();
    let captures = args.outputs.iter().map(|output| output.file.as_path());
    let ports = args.ports.iter().filter_map(|port| port.keys.get("out"));
    let ports = ports.map(Path::new);
    let mut files = captures
        .chain(args.all)
        .chain(args.drops)
        .chain(args.json)
        .chain(ports);
    files.any(is_standard)
}

/// A report's file, opened before the report exists. Its old content stays until then. A file
/// created in vain is removed.
pub struct ReportFile {
    path: PathBuf,
    file: Option<File>,
    made: bool,
}

impl ReportFile {
    /// Opens or creates the file; `-` is standard output.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        options.write(true);
        let (file, made) = if is_standard(path) {
            (None, false)
        } else {
            match options.clone().create_new(true).open(path) {
                Ok(file) => (Some(file), true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    // Opening a dangling symbolic link creates a file as well.
                    let made = !path.exists();
                    let file = options.create(true).truncate(false).open(path);
                    (Some(file.map_err(failed)?), made)
                }
                Err(error) => return Err(failed(error)),
            }
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            made,
        })
    }

    /// Writes the report in place of the old content.
    pub fn write(mut self, text: &str) -> Result<(), String> {
        self.made = false;
        let written = match &self.file {
            // `std::io::stdout` would report success on a closed descriptor.
            None => std::io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .and_then(|output| File::from(output).write_all(text.as_bytes())),
            Some(file) => {
                let mut file = file;
                let regular = file.metadata().is_ok_and(|data| data.is_file());
                let emptied = if regular { file.set_len(0) } else { Ok(()) };
                emptied.and_then(|()| file.write_all(text.as_bytes()))
            }
        };
        written.map_err(|error| match &self.file {
            None => format!("standard output: {error}"),
            Some(_) => format!("{}: {error}", self.path.display()),
        })
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.made {
            // If the file cannot be removed, it stays empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
