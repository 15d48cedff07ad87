// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command and flag, declared once: help, man pages and completions are made from this.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueHint};
use weir_port::generator::{Generator, Parameters};

/// The Linux network stack's control language and fast path as an ordinary program.
///
/// Unmodified ip, tc and sysctl configure namespaces, links, routes, qdiscs and filters that live in
/// Weir, not in the kernel. No privilege is needed.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a script against a private stack under virtual time, play captures, report.
    Run(Run),
    /// Keep a stack in real time until SIGINT or SIGTERM.
    Up(Up),
    /// Run a command against a stack kept by `weir up`.
    Exec(Exec),
    /// Inside `weir run`: advance virtual time, playing captures, timers and queues.
    Play(Play),
    /// Show counters: devices, filters, actions, drops, stages.
    Stat(Stat),
    /// Draw reports as a page of HTML.
    Report(Report),
    /// Write the frames of a device to standard output as pcapng.
    Capture(Capture),
    /// Put the frames of a capture into a device.
    Inject(Inject),
    /// Measure, side by side with a peer.
    Bench(Bench),
    /// Print the completion script of a shell.
    Completions(Completions),
    /// Write the man pages to a directory.
    Man(Man),
}

/// `weir run`
#[derive(Debug, Args)]
#[command(
    after_help = "DEV is `dev` (in the initial namespace) or `netns/dev`. FILE is pcap or pcapng, \
gzip too; `-` is standard input or output. A script is any program; a file that is not executable is \
run by `sh`, and `-` is a script on standard input, run by `sh -s`. It finds `weir` without a PATH to it. \
When all its programs wait, the clock moves to where the first wait ends: `sleep 5` plays five seconds and takes no \
time. Programs still read the machine's clock. What it leaves in the background acts while the rest is played, \
and up to five seconds of the clock longer. \
What it prints goes to standard error where a capture or the JSON goes to standard output.\n\nSPEC is key=value pairs parted by commas, all optional: proto (udp, tcp), rate (frames a second, or \
bits with bit, kbit, mbit, gbit), gaps (constant, poisson), on and off (mean lengths of times with frames \
and of silences), burst, count, start, stop (of the stack's clock), size (N or A-B), flows, seed (default: \
of the run and DEV), eth_src, eth_dst (default: DEV's own), src, dst, sport, dport, ttl. Times are in ns, \
or with us, ms, s.\n\nThe exit status is the script's, or 128 plus the signal that ended it; 126 when it cannot be \
executed, 127 when it is not found; 130 when Ctrl-C interrupted the run, which then reports what there is; 125 when \
Weir itself failed, 2 when the command line is wrong."
)]
pub struct Run {
    /// Frames that arrive at DEV, at the times of the capture.
    #[arg(long = "in", value_name = "DEV=FILE")]
    pub inputs: Vec<DeviceFile>,
    /// Frames that are made and arrive at DEV: `rate=2mbit,size=60-1514,gaps=poisson,stop=5s`; see below.
    #[arg(long = "gen", value_name = "DEV=SPEC")]
    pub generators: Vec<DeviceGenerator>,
    /// Where to write what leaves DEV, with virtual time stamps.
    #[arg(long = "out", value_name = "DEV=FILE")]
    pub outputs: Vec<DeviceFile>,
    /// Where to write the dropped packets, each with place and reason (pcapng).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub drops: Option<PathBuf>,
    /// Seeds all randomness of the stack.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Stop the clock here (`5s`, `300ms`, `2m`) instead of when all packets have left.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Time>,
    /// Move the clock by `weir play` and after the script alone. Else what the script's programs sleep, and
    /// the time-outs they wait for, pass on this clock, as soon as nothing else can happen.
    #[arg(long)]
    pub frozen_clock: bool,
    /// Write the report as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Do not print the report.
    #[arg(long, short)]
    pub quiet: bool,
    /// Show devices, qdiscs, classes and actions without traffic in the report too.
    #[arg(long)]
    pub all: bool,
    /// Its limits.
    #[command(flatten)]
    pub budget: Budget,
    /// How the client is run.
    #[command(flatten)]
    pub client: Client,
    /// A program, or a file that `sh` is to run; `-` is standard input.
    #[arg(required_unless_present = "command", conflicts_with = "command", value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub script: Option<std::ffi::OsString>,
    /// A command and its arguments, in the place of a script.
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<std::ffi::OsString>,
}

/// What filters and actions may take, in all namespaces of the stack.
#[derive(Debug, Args, Clone, Copy)]
pub struct Budget {
    /// Refuse more filters than N with ENOSPC.
    #[arg(long, value_name = "N")]
    pub max_rules: Option<u64>,
    /// Refuse filters and actions that would take more than SIZE (`64M`, `2G`) with ENOMEM; reckoned at
    /// 256 octets a filter and some 150 an action.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<Size>,
}

/// Octets, with a suffix K, M or G (of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shift = match text.as_bytes().last() {
            Some(b'K' | b'k') => 10,
            Some(b'M' | b'm') => 20,
            Some(b'G' | b'g') => 30,
            _ => 0,
        };
        let digits = if shift == 0 {
            text
        } else {
            &text[..text.len() - 1]
        };
        let number = digits
            .parse::<u64>()
            .ok()
            .filter(|_| !digits.starts_with('+'));
        let octets = number.and_then(|n| n.checked_mul(1 << shift));
        octets
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a size as `500000`, `64M` or `2G`"))
    }
}

/// How a client is run.
#[derive(Debug, Args, Clone)]
pub struct Client {
    /// Let the client use the host's internet and packet sockets; by default it has no network but Weir's.
    #[arg(long)]
    pub host_network: bool,
    /// How the client's namespace calls are served.
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub mode: Mode,
}

/// How namespace calls are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// `user` where user namespaces are allowed, else `paths`.
    Auto,
    /// With a user and mount namespace for the launch.
    User,
    /// By trapping the calls that name paths.
    Paths,
}

/// `weir up`
#[derive(Debug, Args)]
#[command(
    after_help = "DEV, FILE and SPEC are as for `weir run`. What leaves DEV is written from when a client has made it; captures \
and generators begin when all their devices are up. A capture on standard input, or in a pipe, is played from when its \
first frame is there."
)]
pub struct Up {
    /// Frames that arrive at DEV, at the times of the capture.
    #[arg(long = "in", value_name = "DEV=FILE")]
    pub inputs: Vec<DeviceFile>,
    /// Frames that are made and arrive at DEV.
    #[arg(long = "gen", value_name = "DEV=SPEC")]
    pub generators: Vec<DeviceGenerator>,
    /// Where to write what leaves DEV.
    #[arg(long = "out", value_name = "DEV=FILE")]
    pub outputs: Vec<DeviceFile>,
    /// The control socket.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Stack CPUs, 1 to 64: threads that take timers and posted work, each piece whole. Frames go on
    /// where they came up; they are not spread by flow.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cpus: usize,
    /// Seeds all randomness of the stack.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Its limits.
    #[command(flatten)]
    pub budget: Budget,
}

/// `weir exec`
#[derive(Debug, Args)]
#[command(
    after_help = "The exit status is the command's, or 128 plus the signal that ended it; 126 when it cannot be \
executed, 127 when it is not found; 125 when Weir itself failed, 2 when the command line is wrong."
)]
pub struct Exec {
    /// The control socket of the stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Start in this namespace (as named by `ip netns add`).
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// How the client is run.
    #[command(flatten)]
    pub client: Client,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<std::ffi::OsString>,
}

/// `weir play`
#[derive(Debug, Args)]
pub struct Play {
    /// Up to this time of the stack's clock (`5s`, `300ms`); without it, until all packets have left.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Time>,
}

/// `weir stat`
#[derive(Debug, Args)]
pub struct Stat {
    /// The control socket; without it, the stack this command runs in.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Show what has no traffic too.
    #[arg(long)]
    pub all: bool,
    /// With `qdisc`: how often the lock of each root was taken and waited for.
    #[arg(long)]
    pub locks: bool,
    /// With `qdisc`: how long calls to transmit took, and how many packets left together, at each root.
    #[arg(long)]
    pub histogram: bool,
    /// With `qdisc`: from now on, measure what --histogram shows, or do not.
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub measure: Option<Switch>,
    /// What to show.
    #[arg(value_enum)]
    pub what: Option<StatWhat>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// What `weir stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StatWhat {
    /// Devices, filters, actions and drops.
    All,
    /// The cost of each stage.
    Stages,
    /// Locks and transmit at the root qdiscs.
    Qdisc,
}

/// `weir report`
#[derive(Debug, Args)]
pub struct Report {
    /// Where to write the page: one file that needs no network; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: PathBuf,
    /// Its heading; by default the names of the runs.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// A sentence below the heading: what a reader should know of the runs.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// What `weir run --json` wrote; several are shown side by side, in this order. Without any, standard
    /// input.
    #[arg(value_name = "REPORT.json", value_hint = ValueHint::FilePath)]
    pub reports: Vec<PathBuf>,
}

/// `weir capture`
#[derive(Debug, Args)]
pub struct Capture {
    /// The control socket; without it, the stack this command runs in.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Stop after so many frames.
    #[arg(long, short = 'c', value_name = "N")]
    pub count: Option<u64>,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV")]
    pub device: DeviceName,
}

/// `weir inject`
#[derive(Debug, Args)]
#[command(
    after_help = "FILE is pcap or pcapng, gzip too. Frames keep the distances in time that they have in the capture, and \
the command ends when the last one has entered; in a script of `weir run` they do so by the stack's clock.\n\nThe exit \
status is 125 when a frame was not taken; those before it were. 2 when the command line is wrong."
)]
pub struct Inject {
    /// The control socket; without it, the stack this command runs in, else the user's own.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The device receives the frames, as if its driver had brought them. By default it sends them, as if a packet
    /// socket had: they meet egress filters and the qdisc.
    #[arg(long)]
    pub receive: bool,
    /// Stop after so many frames.
    #[arg(long, short = 'c', value_name = "N")]
    pub count: Option<u64>,
    /// All frames at once, whatever their times.
    #[arg(long)]
    pub topspeed: bool,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV")]
    pub device: DeviceName,
    /// The capture; `-`, and by default, standard input.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `weir bench`
#[derive(Debug, Args)]
pub struct Bench {
    /// The benchmark; without it, the list.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Under 30 seconds, not to be quoted.
    #[arg(long)]
    pub short: bool,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write the result as an SVG chart.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub chart: Option<PathBuf>,
    /// What a benchmark runs in a process of its own.
    #[arg(long, hide = true)]
    pub part: Option<String>,
}

/// `weir completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `weir man`
#[derive(Debug, Args)]
pub struct Man {
    /// The directory.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

/// A device: `dev` or `netns/dev`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName {
    /// The namespace's name; `None` for the initial one.
    pub netns: Option<String>,
    /// The device's name.
    pub device: String,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (netns, device) = match text.split_once('/') {
            Some((netns, device)) => (Some(netns), device),
            None => (None, text),
        };
        if netns == Some("") || device.is_empty() || device.contains('/') {
            return Err(format!("`{text}` is not `dev` or `netns/dev`"));
        }
        Ok(Self {
            netns: netns.map(str::to_owned),
            device: device.to_owned(),
        })
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.netns {
            Some(netns) => write!(f, "{netns}/{}", self.device),
            None => f.write_str(&self.device),
        }
    }
}

/// `DEV=FILE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFile {
    /// The device.
    pub device: DeviceName,
    /// The file; `-` is standard input or output.
    pub file: PathBuf,
}

impl FromStr for DeviceFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, file) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not DEV=FILE"))?;
        if file.is_empty() {
            return Err(format!("`{text}` names no file"));
        }
        Ok(Self {
            device: device.parse()?,
            file: file.into(),
        })
    }
}

/// `DEV=SPEC`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceGenerator {
    /// The device.
    pub device: DeviceName,
    /// What arrives there, as written.
    pub spec: String,
    /// The same.
    pub parameters: Parameters,
}

impl FromStr for DeviceGenerator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, spec) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not DEV=SPEC"))?;
        let parameters = spec.parse::<Parameters>();
        let parameters = parameters.map_err(|error| error.to_string())?;
        Generator::new(parameters.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            device: device.parse()?,
            spec: spec.to_owned(),
            parameters,
        })
    }
}

/// A time of the stack's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a time such as 5s, 300ms, 1.5s, 2m (a plain number is seconds)"
            )
        };
        let end = text
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit_ns: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(wrong());
        }
        let digits = |s: &str| {
            if s.is_empty() {
                Ok(0)
            } else {
                s.parse::<u64>().map_err(|_| wrong())
            }
        };
        if !fraction.bytes().all(|b| b.is_ascii_digit()) || fraction.len() > 18 {
            return Err(wrong());
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let ns = u128::from(digits(whole)?) * u128::from(unit_ns)
            + u128::from(digits(fraction)?) * u128::from(unit_ns) / scale;
        u64::try_from(ns).map(Self).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("5", 5_000_000_000),
            ("5s", 5_000_000_000),
            ("1.5ms", 1_500_000),
            ("2m", 120_000_000_000),
            (".5s", 500_000_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Time(ns)), "{text}");
        }
        for text in [
            "",
            "s",
            ".",
            "-1s",
            "5 s",
            "5x",
            "1e3",
            "99999999999999999999h",
            "1.-5s",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        for (text, octets) in [("0", 0), ("64M", 64 << 20), ("2g", 2 << 30), ("3K", 3072)] {
            assert_eq!(text.parse(), Ok(Size(octets)), "{text}");
        }
        for text in ["", "M", "-1", "+1", "1T", "1.5M", "99999999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn devices_have_a_namespace_or_not() {
        let parsed: DeviceFile = "edge/lan0=a=b.pcap".parse().unwrap();
        assert_eq!(parsed.device.to_string(), "edge/lan0");
        assert_eq!(parsed.file, PathBuf::from("a=b.pcap"));
        let made: DeviceGenerator = "edge/lan0=rate=5,count=2".parse().unwrap();
        assert_eq!(made.device.to_string(), "edge/lan0");
        assert_eq!(
            (made.spec.as_str(), made.parameters.count),
            ("rate=5,count=2", 2)
        );
        for text in ["lan0", "lan0=rate", "lan0=rate=0", "a/b/c=rate=5"] {
            assert!(text.parse::<DeviceGenerator>().is_err(), "{text}");
        }
        for text in ["", "a/b/c=f", "/b=f", "a/=f", "lan0", "lan0="] {
            assert!(text.parse::<DeviceFile>().is_err(), "{text}");
        }
    }
}
