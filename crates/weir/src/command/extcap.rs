// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir extcap`: Weir's devices among the interfaces of Wireshark.
//!
//! Wireshark runs every program in its extcap folder and reads a list of interfaces, of link types
//! and of options from its standard output (Wireshark's `doc/extcap.adoc`). It then runs the program
//! again to write an interface's frames to a pipe. A link named `weir` in that folder is enough: a
//! first argument such as `--extcap-interfaces` stands for `weir extcap`.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::completions::names;
use crate::cli::{Capture, Extcap};

/// The start of an interface's name. Wireshark has one list for the interfaces of all programs.
const PREFIX: &str = "weir-";

/// Inserts the command `extcap` if Wireshark's arguments follow the program's name.
pub fn arguments(mut words: Vec<OsString>) -> Vec<OsString> {
    let first = words.get(1).and_then(|word| word.to_str());
    if first.is_some_and(|first| first == "--capture" || first.starts_with("--extcap-")) {
        words.insert(1, "extcap".into());
    }
    words
}

/// Does what Wireshark asks for.
pub fn run(args: &Extcap) -> Result<ExitCode, String> {
    if let Some(folder) = &args.install {
        return install(folder.as_deref());
    }
    if args.extcap_interfaces {
        return list(args);
    }
    let Some(interface) = &args.extcap_interface else {
        return Err("Wireshark runs this command; `weir extcap --install` makes it known".into());
    };
    let device = interface.strip_prefix(PREFIX).unwrap_or(interface);
    let device: crate::cli::DeviceName = device.parse()?;
    let filter = args.extcap_capture_filter.as_deref();
    let filter = filter.filter(|filter| !filter.is_empty());
    if args.extcap_dlts {
        super::print("dlt {number=1}{name=EN10MB}{display=Ethernet}\n")?;
    } else if args.extcap_config {
        super::print(
            "arg {number=0}{call=--socket}{display=Control socket}{type=string}\
             {tooltip=The stack's control socket; empty for your own stack}\n\
             arg {number=1}{call=--count}{display=Frames}{type=unsigned}\
             {tooltip=Stop after this number of frames}\n",
        )?;
    } else if args.capture {
        let fifo = args
            .fifo
            .as_deref()
            .ok_or("--capture needs the pipe: --fifo FILE")?;
        let failed = |error: std::io::Error| format!("{}: {error}", fifo.display());
        let pipe = OpenOptions::new().write(true).open(fifo).map_err(failed)?;
        // A stack takes the standard output of a process that runs inside it.
        rustix::stdio::dup2_stdout(&pipe).map_err(|error| failed(error.into()))?;
        drop(pipe);
        return super::capture::run(&Capture {
            socket: socket_of(args).map(Path::to_owned),
            count: args.count,
            all: false,
            drops: false,
            netns: None,
            snaplen: None,
            buffer: None,
            // Wireshark takes what a program prints for an error.
            quiet: true,
            device: Some(device.to_string()),
            expression: filter.map(str::to_owned).into_iter().collect(),
        });
    } else if let Some(filter) = filter {
        // Wireshark takes any output for the reason why the expression is wrong.
        if let Err(error) = super::bpf::compile(filter) {
            super::print(&format!("{error}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the control socket. Wireshark passes an empty option as an empty word.
fn socket_of(args: &Extcap) -> Option<&Path> {
    let socket = args.socket.as_deref();
    socket.filter(|path| !path.as_os_str().is_empty())
}

/// Lists the devices. A stack that does not run has none, which is no error: Wireshark asks at every
/// start.
fn list(args: &Extcap) -> Result<ExitCode, String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("extcap {{version={version}}}{{display=Weir}}\n");
    for device in names(socket_of(args)).unwrap_or_default().devices {
        text += &format!("interface {{value={PREFIX}{device}}}{{display=Weir {device}}}\n");
    }
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Creates the link in a folder, or in Wireshark's own.
fn install(folder: Option<&Path>) -> Result<ExitCode, String> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => wireshark_folder()?,
    };
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let program = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    let link = folder.join("weir");
    match std::fs::read_link(&link) {
        Ok(before) if before == program => {}
        Ok(_) => std::fs::remove_file(&link).map_err(failed)?,
        // A file that is not a link is not replaced: the next call reports it.
        Err(_) => {}
    }
    if std::fs::read_link(&link).is_err() {
        std::os::unix::fs::symlink(&program, &link)
            .map_err(|error| format!("{}: {error}", link.display()))?;
    }
    super::print(&format!("{} -> {}\n", link.display(), program.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the extcap folder of this user if this Wireshark has one (since 4.2), otherwise that of
/// the machine, as tshark tells them. Without tshark it is that of the user.
fn wireshark_folder() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("WIRESHARK_EXTCAP_DIR") {
        return Ok(folder.into());
    }
    let told = match Command::new("tshark").args(["-G", "folders"]).output() {
        Ok(told) => told,
        // Wireshark may be installed without tshark. `get_extcap_pers_dir` of its `wsutil` does not
        // ask XDG's variables either.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
            return home
                .map(|home| Path::new(&home).join(".local/lib/wireshark/extcap"))
                .ok_or_else(|| {
                    "HOME is not set; name the folder: weir extcap --install DIR".into()
                });
        }
        Err(error) => {
            return Err(format!(
                "tshark -G folders: {error}; name Wireshark's extcap folder: weir extcap --install DIR"
            ));
        }
    };
    let told = String::from_utf8_lossy(&told.stdout);
    let find = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        line.map(|path| PathBuf::from(path.trim()))
    };
    find("Personal Extcap path:")
        .or_else(|| find("Extcap path:"))
        .ok_or_else(|| {
            "tshark -G folders names no extcap folder; name it: weir extcap --install DIR".into()
        })
}
