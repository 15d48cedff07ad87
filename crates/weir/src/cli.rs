// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command and flag, declared once. Help, man pages and completions derive from it.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::ArgValueCompleter;
use weir_sync::rcu::CallbackMode;

use crate::command::completions;

mod balance;
mod gateway;
mod names;
mod netns;

pub use balance::{Backend, BalanceAdd, BalanceCommand, BalanceDel, BalanceSet, Balanced, Service};
pub use gateway::{Gateway, Publish};
pub use names::{ANY, DeviceFile, DeviceGenerator, DeviceName, DevicePort, DeviceTrace, Time};
pub use netns::{NetnsAdd, NetnsCommand, NetnsDel, NetnsList};

/// The Linux network stack's control language and fast path as an ordinary program.
///
/// Unmodified ip, tc and sysctl configure namespaces, links, routes, qdiscs and filters that live
/// in Weir, not in the kernel. No privilege is needed.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a script against a private stack in virtual time, play captures, print a report.
    Run(Run),
    /// Keep a stack running in real time until SIGINT or SIGTERM.
    Up(Up),
    /// Run a command against the stack of a running `weir up`.
    Exec(Exec),
    /// Inside `weir run`: advance virtual time and play captures, timers and queues.
    Play(Play),
    /// Show counters of devices, filters and actions, drops, or the cost of stages.
    Stat(Stat),
    /// Show or change the threads that run a stack's RCU callbacks.
    Rcu(Rcu),
    /// Add, list and delete namespaces by the thousand.
    #[command(subcommand)]
    Netns(NetnsCommand),
    /// Balance services over backends, change the backends, and stop.
    #[command(subcommand)]
    Balance(BalanceCommand),
    /// Show rates, drops, queues, stages and CPUs of a running stack on one screen.
    Top(Top),
    /// Draw reports of `weir run --json` as an HTML page.
    Report(Report),
    /// Write the frames of devices, or dropped packets, to standard output as pcapng.
    Capture(Capture),
    /// Print the journeys of chosen packets through the stack.
    Trace(Trace),
    /// Inject the frames of a capture into a device.
    Inject(Inject),
    /// Attach devices of a running stack to the host's network, to other programs or to nothing.
    #[command(subcommand)]
    Port(PortCommand),
    /// Run a program with the kernel's sockets behind a device of a running stack.
    Join(Join),
    /// Check a topology file, and print the ip and tc commands that it expands to.
    Topology(TopologyArgs),
    /// Run a benchmark of Weir and its peers.
    Bench(Bench),
    /// List and capture from the stack's devices for Wireshark.
    Extcap(Extcap),
    /// Print a shell's completion script.
    Completions(Completions),
    /// Write the man pages to a directory.
    Man(Man),
}

/// `weir run`
#[derive(Debug, Args)]
#[command(after_help = "\
DEV is `dev` for a device in the initial namespace, or `netns/dev`. FILE is pcap or pcapng, also with gzip; `-` is \
standard input or output.\n\n\
SCRIPT is any program. A file that is not executable is run by `sh`, and `-` runs standard input with `sh -s`. A topology \
(.toml, .clab.yml, .mn) is expanded and run by `sh`; see `weir topology --help`. Scripts \
find `weir` without a PATH to it. When all programs of the script wait, the clock moves to the end of the first wait: \
`sleep 5` takes no real time and plays five seconds. Programs with the C library read the stack's clock, too; static \
ones and those in Go read the machine's. Programs left in the \
background keep running while the remaining packets are played, and for up to five seconds of the clock after that. \
If a capture or the JSON goes to standard output, the script's output goes to standard error.\n\n\
SPEC is a list of key=value pairs separated by commas. All are optional: proto (udp, tcp), rate (frames per second, or \
bits per second with bit, kbit, mbit, gbit), gaps (constant, poisson), on and off (mean durations of bursts and of \
silences), burst, count, start, stop (of the stack's clock), size (N, A-B or imix), flows, zipf (exponent of the flows' \
shares), seed (default: from the run's seed and DEV), eth_src, eth_dst (default: DEV's own), src, dst, sport, dport, \
ttl, vlan (ID or ID:PRIO), qinq (the outer tag). Times are in ns, or have a unit us, ms or s.\n\n\
--trace prints each device, filter, rewritten field, next hop, wait and drop of a packet with its time. It chooses \
packets where DEV (or any device, for `any`) receives or is to send them: the first 10, or the first N with count=N, \
or the n-th with nth=N, of those that match the pcap-filter expression EXPR.\n\n\
The exit status is the script's, or 128 plus the signal that ended it; 126 if it cannot be executed and 127 if it is \
not found; 130 if Ctrl-C interrupted the run, which then reports the results so far; 125 if Weir itself failed; 2 if \
the command line is wrong.")]
pub struct Run {
    /// Play a capture into DEV, each frame at its time.
    #[arg(long = "in", value_name = "DEV=FILE")]
    pub inputs: Vec<DeviceFile>,
    /// Generate frames that arrive at DEV: `rate=2mbit,size=60-1514,gaps=poisson,stop=5s`; see
    /// below.
    #[arg(long = "gen", value_name = "DEV=SPEC")]
    pub generators: Vec<DeviceGenerator>,
    /// Write the frames that leave DEV to FILE, with virtual time stamps.
    #[arg(long = "out", value_name = "DEV=FILE")]
    pub outputs: Vec<DeviceFile>,
    /// Attach a port to DEV when the device exists: `lan0=pcap,file=in.pcap,loop=3,rate=10mbit`; see
    /// `weir port add --help` for the kinds and their keys. Virtual time serves `pcap`, `generator`
    /// and `null`.
    #[arg(long = "port", value_name = "DEV=KIND[,KEY=VALUE...]")]
    pub ports: Vec<DevicePort>,
    /// Write the frames that devices receive and send, of all namespaces, to FILE (pcapng), with
    /// virtual time stamps. Each device is an interface `netns/dev`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub capture_all: Option<PathBuf>,
    /// Write dropped packets to FILE (pcapng), each with the comment `netns/dev: place: REASON` and
    /// a sentence.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub drops: Option<PathBuf>,
    /// Print the journey of packets that reach DEV: `lan0`, `lan0,nth=3`, `any,count=5,udp port 53`;
    /// see below.
    #[arg(long = "trace", value_name = "DEV[,EXPR]")]
    pub traces: Vec<DeviceTrace>,
    /// Seed of all randomness in the stack.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Stop the clock at this time (`5s`, `300ms`, `2m`) instead of when all packets have left.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Time>,
    /// Move the clock only by `weir play` and after the script. By default it also moves while all
    /// programs of the script sleep or wait for a time-out and nothing else can happen.
    #[arg(long)]
    pub frozen_clock: bool,
    /// Run by the machine's clock instead of virtual time, with live ports, until the script ends. Processes that it left in
    /// the background end with it.
    #[arg(long, conflicts_with_all = ["until", "frozen_clock", "capture_all", "drops", "traces"])]
    pub real_time: bool,
    /// Send what hosts send without being asked when a link comes up and when they join or leave a
    /// group: router solicitations, MLD and IGMP reports. By default captures contain only the traffic
    /// of the script. `weir up` always sends them.
    #[arg(long)]
    pub link_chatter: bool,
    /// Write the report as JSON to FILE; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Do not print the report.
    #[arg(long, short)]
    pub quiet: bool,
    /// Include devices, qdiscs, classes and actions without traffic in the report.
    #[arg(long)]
    pub all: bool,
    /// The way out, and the way in.
    #[command(flatten)]
    pub gateway: Gateway,
    /// The limits of the stack.
    #[command(flatten)]
    pub budget: Budget,
    /// The options of the client.
    #[command(flatten)]
    pub client: Client,
    /// The program to run, or a file for `sh`, or a topology; `-` is standard input.
    #[arg(required_unless_present = "command", conflicts_with = "command", value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub script: Option<std::ffi::OsString>,
    /// The command and its arguments, instead of a script.
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<std::ffi::OsString>,
}

/// `weir topology`
#[derive(Debug, Args)]
#[command(after_help = "\
FILE is a topology in Weir's short form (.toml; see docs/topologies.md), of containerlab (.clab.yml, .clab.yaml) or of \
Mininet's editor (.mn). `weir run FILE` makes the topology and plays traffic through it. The script that --print prints \
makes it with any `ip` and `tc`: in `weir exec`, or as root on Linux.")]
pub struct TopologyArgs {
    /// Print the commands as a shell script.
    #[arg(long)]
    pub print: bool,
    /// The topology.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Limits on filters and actions in all namespaces of the stack.
#[derive(Debug, Args, Clone, Copy)]
pub struct Budget {
    /// Refuse filters beyond N with ENOSPC.
    #[arg(long, value_name = "N")]
    pub max_rules: Option<u64>,
    /// Refuse filters and actions that would exceed SIZE (`64M`, `2G`) with ENOMEM; a filter counts
    /// as 256 bytes and an action as about 150.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<Size>,
}

/// A number of bytes, with an optional suffix K, M or G (powers of 1024).
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
            .ok_or_else(|| format!("`{text}` is not a size such as `500000`, `64M` or `2G`"))
    }
}

/// The options of a client.
#[derive(Debug, Args, Clone)]
pub struct Client {
    /// Allow the client to use the host's internet and packet sockets; by default Weir is its only
    /// network.
    #[arg(long)]
    pub host_network: bool,
    /// How to serve the client's namespace calls.
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub mode: Mode,
}

/// The way in which namespace calls are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// `user` if user namespaces are allowed, otherwise `paths`.
    Auto,
    /// Run the client in a user and mount namespace.
    User,
    /// Trap the calls that name paths.
    Paths,
}

/// `weir up`
#[derive(Debug, Args)]
#[command(after_help = "\
DEV, FILE and SPEC are as for `weir run`. The output of DEV is written from the time a client creates the device. \
Captures and generators begin when all their devices are up. A capture from standard input or a pipe begins with its \
first frame.")]
pub struct Up {
    /// Play a capture into DEV, each frame at its time.
    #[arg(long = "in", value_name = "DEV=FILE")]
    pub inputs: Vec<DeviceFile>,
    /// Generate frames that arrive at DEV.
    #[arg(long = "gen", value_name = "DEV=SPEC")]
    pub generators: Vec<DeviceGenerator>,
    /// Write the frames that leave DEV to FILE.
    #[arg(long = "out", value_name = "DEV=FILE")]
    pub outputs: Vec<DeviceFile>,
    /// Attach a port to DEV when the device exists: `lan0=pcap,file=in.pcap,loop=3,rate=10mbit`; see
    /// `weir port add --help` for the kinds and their keys.
    #[arg(long = "port", value_name = "DEV=KIND[,KEY=VALUE...]")]
    pub ports: Vec<DevicePort>,
    /// The path of the control socket; by default `weir.sock` in XDG_RUNTIME_DIR, /run/user/UID, or for
    /// root /run.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Number of stack CPUs, 1 to 64. Each is a thread. Frames that a device receives from a port, a
    /// capture or a generator are spread over all of them by flow, unless the port has a queue for each
    /// CPU; see `rps_cpus` in /sys/class/net/DEV/queues/rx-0.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cpus: usize,
    /// Pin each stack CPU to a processor: those of LIST in its order (`0-3,6`), or by default those
    /// the process may use.
    #[arg(long, value_name = "LIST", num_args = 0..=1)]
    pub pin: Option<Option<String>>,
    /// The threads that run RCU callbacks, which free what packets may still use: `in-place` (those
    /// that deferred them), `offload-all` (a thread of their own), or `offload=LIST` (that thread, for
    /// the stack CPUs of LIST). `weir rcu` changes it.
    #[arg(long, value_name = "MODE", default_value = "in-place")]
    pub rcu: CallbackMode,
    /// Seed of all randomness in the stack.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The way out, and the way in.
    #[command(flatten)]
    pub gateway: Gateway,
    /// The limits of the stack.
    #[command(flatten)]
    pub budget: Budget,
}

/// `weir exec`
#[derive(Debug, Args)]
#[command(after_help = "\
The exit status is the command's, or 128 plus the signal that ended it; 126 if it cannot be executed and 127 if it is \
not found; 125 if Weir itself failed; 2 if the command line is wrong.")]
pub struct Exec {
    /// The control socket of the stack; by default, that of the user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Start in this namespace (a name given to `ip netns add`).
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completions::namespaces))]
    pub netns: Option<String>,
    /// The options of the client.
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
    /// Play up to this time of the stack's clock (`5s`, `300ms`); by default, until all packets
    /// have left.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Time>,
}

/// `weir stat`
#[derive(Debug, Args)]
pub struct Stat {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Include objects without traffic.
    #[arg(long)]
    pub all: bool,
    /// With `qdisc`: show how often each root's lock was taken and waited for.
    #[arg(long)]
    pub locks: bool,
    /// With `qdisc`: show histograms of transmit durations and of batch sizes at each root.
    #[arg(long)]
    pub histogram: bool,
    /// With `qdisc`: switch the measurement for --histogram on or off. With `stages`: switch the machine's counters
    /// of cycles, instructions and cache misses on or off.
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub measure: Option<Switch>,
    /// With `stages`: sum the stages up in groups: port, buffers, dissect, classify, route, qdisc,
    /// transmit, rcu.
    #[arg(long)]
    pub groups: bool,
    /// With `stages`: show the last second, and again every second, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
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

/// The views of `weir stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StatWhat {
    /// Devices, filters, actions and drops.
    All,
    /// The cost of each stage.
    Stages,
    /// Locks and transmits of the root qdiscs.
    Qdisc,
    /// Connections and their counters, by namespace.
    Conntrack,
    /// Load balancers (`weir balance`): backends, and what became of flows when those changed.
    Balance,
    /// RCU: callbacks that wait, the threads that run them, grace periods, the slowest reader.
    Rcu,
    /// Connections and flows that pass the gateway (`weir up --gateway`).
    Gateway,
}

/// `weir rcu`
#[derive(Debug, Args)]
#[command(after_help = "\
The modes are `in-place`, `offload-all` and `offload=LIST` (`offload=0,2-3`). A callback frees an object that has been \
replaced or deleted, once no packet and no request can use it any more. In place, the stack CPU or control thread that \
deferred it runs it; offloaded, the thread `weir-rcu` does. Callbacks that wait during the change are run all the same.\n\n\
`weir stat rcu` shows the counters.")]
pub struct Rcu {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The mode from now on; without it, print the present one.
    #[arg(value_name = "MODE")]
    pub mode: Option<CallbackMode>,
}

/// `weir top`
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: q, Esc or Ctrl-C quit; tab and the arrows left and right choose a table; up and down scroll it; s sorts it by the \
next column; p stops and continues the figures.\n\n\
The sojourn time of a queue is the number of packets that wait, divided by the rate at which they leave. The time of a \
packet in a stage group, and the load of a CPU, are of turns in which a stage ran.")]
pub struct Top {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The time between two samples (`500ms`, `2s`).
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Time,
    /// Print the tables once, after one interval, as plain text.
    #[arg(long)]
    pub once: bool,
}

/// `weir report`
#[derive(Debug, Args)]
pub struct Report {
    /// Write the page to FILE: a single file that needs no network; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: PathBuf,
    /// The heading; by default the names of the runs.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// A sentence below the heading that explains the runs.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Reports written by `weir run --json`; several are shown side by side in this order. By
    /// default, one from standard input.
    #[arg(value_name = "REPORT.json", value_hint = ValueHint::FilePath)]
    pub reports: Vec<PathBuf>,
}

/// `weir capture`
#[derive(Debug, Args)]
#[command(after_help = "\
EXPR is a pcap-filter expression, which libpcap compiles. The stack applies it before it copies a frame.\n\n\
A stack in real time copies frames into memory that it shares with this command, and never waits for it. Frames that \
find no room there are lost. The number of captured and lost frames is printed at the end, and written as interface \
statistics. Under virtual time, in a script of `weir run`, no frame is lost: the clock waits.\n\n\
With --all, each device is an interface `netns/dev` of the output. With --drops, each dropped packet has the comment \
`netns/dev: place: REASON`. Both may be given together.")]
pub struct Capture {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Stop after N frames.
    #[arg(long, short = 'c', value_name = "N")]
    pub count: Option<u64>,
    /// Capture from all devices of all namespaces, those that are still to come included.
    #[arg(long)]
    pub all: bool,
    /// Capture the packets that are dropped, at all devices.
    #[arg(long)]
    pub drops: bool,
    /// With --all and --drops: only in this namespace (a name given to `ip netns add`).
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completions::namespaces))]
    pub netns: Option<String>,
    /// Capture at most N bytes of each frame.
    #[arg(long, short = 's', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub snaplen: Option<u32>,
    /// The shared memory of each stack CPU, 64K to 1G; by default 16M for all of them together.
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<Size>,
    /// Do not print the number of frames at the end.
    #[arg(long, short)]
    pub quiet: bool,
    /// The device: `dev` or `netns/dev`. With --all or --drops, the words are the expression.
    #[arg(value_name = "DEV", required_unless_present_any = ["all", "drops"], add = ArgValueCompleter::new(completions::devices))]
    pub device: Option<String>,
    /// Only the frames that match this pcap-filter expression.
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
}

/// `weir trace`
#[derive(Debug, Args)]
#[command(after_help = "\
A packet is chosen where DEV receives it, is to send it, or gets it from a redirecting filter. Its journey is printed \
when it leaves the stack: each device, filter with its verdict, rewritten field, next hop, wait in a qdisc, and drop, with \
the stack's time. A mirrored copy has a journey of its own. Without --nth and --count, Ctrl-C ends the command. In a script of `weir run`, use `weir run --trace`.\n\n\
EXPR is a pcap-filter expression, which libpcap compiles.")]
pub struct Trace {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Follow only the N-th packet that matches, from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "count")]
    pub nth: Option<u64>,
    /// End after N packets.
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub json: bool,
    /// The device: `dev` or `netns/dev`; `any`, the default, is all devices.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: Option<DeviceName>,
    /// The packets.
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
}

/// `weir inject`
#[derive(Debug, Args)]
#[command(after_help = "\
FILE is pcap or pcapng, also with gzip. Frames keep the time between them that they have in the capture: by the stack's \
clock in a script of `weir run`, in real time otherwise. The command ends after the last frame.\n\n\
The exit status is 125 if a frame was refused, in which case the frames before it stay injected, and 2 if the command line \
is wrong.")]
pub struct Inject {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Let the device receive the frames, as from its driver. By default it sends them, as from a
    /// packet socket, through egress filters and the qdisc.
    #[arg(long)]
    pub receive: bool,
    /// Stop after N frames.
    #[arg(long, short = 'c', value_name = "N")]
    pub count: Option<u64>,
    /// Inject all frames at once, regardless of their times.
    #[arg(long)]
    pub topspeed: bool,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: DeviceName,
    /// The capture; `-`, the default, is standard input.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `weir port`
#[derive(Debug, Subcommand)]
pub enum PortCommand {
    /// Attach a port to a device.
    #[command(after_help = port_kinds())]
    Add(PortAdd),
    /// Detach the port of a device.
    Del(PortDel),
    /// Show the ports and their counters.
    Show(PortShow),
}

/// `weir port add`
#[derive(Debug, Args)]
pub struct PortAdd {
    /// The control socket of the stack; by default, the user's own.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The role of the port: the cable behind the device, or the host that uses it. By default `host` at
    /// devices that lead somewhere by themselves (veth, vlan, vxlan), else `wire`.
    #[arg(long = "as", value_enum, value_name = "ROLE")]
    pub role: Option<Role>,
    /// The same as the key busy=on.
    #[arg(long)]
    pub busy_poll: bool,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: DeviceName,
    /// The kind of port.
    #[arg(value_name = "KIND", add = ArgValueCompleter::new(completions::port_kinds))]
    pub kind: String,
    /// Its description: `key=value,...`.
    #[arg(value_name = "KEYS", default_value = "")]
    pub keys: String,
}

/// Lists the kinds of ports and their keys.
fn port_kinds() -> String {
    let kinds = weir_port::kinds::KINDS.iter().map(|kind| match kind.keys {
        [] => format!("  {}", kind.name),
        keys => format!("  {}: {}", kind.name, keys.join(", ")),
    });
    let kinds = kinds.collect::<Vec<_>>().join("\n");
    format!(
        "A device behind which a port is the cable gets ARP, and the address and MTU of the host's device if there \
is one. The kinds and their keys:\n{kinds}\n\nEvery kind has the keys as (wire or host, as --as) and busy (off: the \
processor sleeps until the port has frames; on: it polls the port all the time, for the lowest latency). \
A key of a kind is explained in its file in crates/weir-port/src.\n\nThis command opens the port's files with its own privileges and in its \
own network namespace, and passes them to the stack."
    )
}

/// The role of a port at its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// The cable behind the device.
    Wire,
    /// The host that uses the device.
    Host,
}

impl Role {
    /// The name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Host => "host",
        }
    }
}

/// `weir port del`
#[derive(Debug, Args)]
pub struct PortDel {
    /// The control socket of the stack; by default, the one this command runs in, else the user's own.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: DeviceName,
}

/// `weir port show`
#[derive(Debug, Args)]
pub struct PortShow {
    /// The control socket of the stack; by default, the one this command runs in, else the user's own.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Show the port of this device only.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: Option<DeviceName>,
}

/// `weir join`
#[derive(Debug, Args)]
#[command(
    after_help = "The program runs in a new network namespace of the kernel (and a new user namespace, unless you \
are root) whose only device leads to DEV. At a veth or VLAN device the program takes the place of the namespace that DEV \
is in, with DEV's addresses and routes unless --address is given. At a dummy device it is at the other end of the \
cable and needs an --address.\n\nThe exit status is the program's; 126 if it cannot be executed and 127 if it is not found; 125 \
if Weir itself failed; 2 if the command line is wrong."
)]
pub struct Join {
    /// The control socket of the stack; by default, the user's own.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The role of the program at the device; see `weir port add`.
    #[arg(long = "as", value_enum, value_name = "ROLE")]
    pub role: Option<Role>,
    /// An address of the program: `10.0.0.2/24`. May be given several times.
    #[arg(long = "address", value_name = "ADDR/LEN")]
    pub addresses: Vec<Prefix>,
    /// A route of the program: `default via 10.0.0.1`, `10.1.0.0/16 via 10.0.0.1` or `10.1.0.0/16`. May be given
    /// several times.
    #[arg(long = "route", value_name = "ROUTE")]
    pub routes: Vec<Route>,
    /// The device: `dev` or `netns/dev`.
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(completions::devices))]
    pub device: DeviceName,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<std::ffi::OsString>,
}

/// An address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: std::net::IpAddr,
    /// The length in bits.
    pub length: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an address with a length such as 10.0.0.2/24");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv6() { 128 } else { 32 };
        let length = length.parse().ok().filter(|length| *length <= most);
        let length = length.ok_or_else(wrong)?;
        Ok(Self { address, length })
    }
}

/// `DESTINATION [via GATEWAY]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination; `None` is the default route.
    pub destination: Option<Prefix>,
    /// The next hop.
    pub gateway: Option<std::net::IpAddr>,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a route such as `default via 10.0.0.1`");
        let words: Vec<_> = text.split_whitespace().collect();
        let (destination, gateway) = match words[..] {
            [destination] => (destination, None),
            [destination, "via", gateway] => {
                (destination, Some(gateway.parse().map_err(|_| wrong())?))
            }
            _ => return Err(wrong()),
        };
        let destination = match destination {
            "default" => None,
            prefix => Some(prefix.parse()?),
        };
        Ok(Self {
            destination,
            gateway,
        })
    }
}

/// `weir bench`
#[derive(Debug, Args)]
pub struct Bench {
    /// The benchmark; by default, list them.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completions::benchmarks))]
    pub name: Option<String>,
    /// Run for less than 30 seconds; do not quote the numbers.
    #[arg(long)]
    pub short: bool,
    /// Write the result as JSON to FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write the result as an SVG chart to FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub chart: Option<PathBuf>,
    /// The part of a benchmark that runs in its own process.
    #[arg(long, hide = true)]
    pub part: Option<String>,
}

/// `weir extcap`
#[derive(Debug, Args)]
#[command(after_help = "\
Wireshark, tshark and dumpcap run this command from their extcap folder. They list the devices of the user's own stack \
as `weir-dev` and `weir-netns/dev`, and capture both directions.")]
pub struct Extcap {
    /// Create a link to this program in Wireshark's extcap folder, or in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub install: Option<Option<PathBuf>>,
    /// List the devices.
    #[arg(long)]
    pub extcap_interfaces: bool,
    /// Wireshark's version.
    #[arg(long, value_name = "VERSION")]
    pub extcap_version: Option<String>,
    /// The interface that the other options are about.
    #[arg(long, value_name = "INTERFACE")]
    pub extcap_interface: Option<String>,
    /// List the link types of the interface.
    #[arg(long)]
    pub extcap_dlts: bool,
    /// List the options of the interface.
    #[arg(long)]
    pub extcap_config: bool,
    /// Capture from the interface.
    #[arg(long)]
    pub capture: bool,
    /// The pipe for the frames, as pcapng.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub fifo: Option<PathBuf>,
    /// The control socket; by default, that of the user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Stop after N frames.
    #[arg(long, short = 'c', value_name = "N")]
    pub count: Option<u64>,
    /// Only the frames that match this pcap-filter expression; without --capture, check it.
    #[arg(long, value_name = "EXPR")]
    pub extcap_capture_filter: Option<String>,
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
    /// The directory for the pages.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The list of commands and the NAME of a manual page have room for one sentence.
    #[test]
    fn every_command_has_a_sentence_of_its_own() {
        fn look(command: &clap::Command, seen: &mut Vec<String>) {
            for command in command.get_subcommands() {
                let name = command.get_name();
                let about = command
                    .get_about()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    about.chars().next().is_some_and(char::is_uppercase),
                    "{name}: {about}"
                );
                assert!(!about.contains(". "), "{name}: {about}");
                assert!(!seen.contains(&about), "{name}: {about}");
                seen.push(about);
                look(command, seen);
            }
        }
        look(&Cli::command(), &mut Vec::new());
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
    fn traces_parse() {
        let trace: DeviceTrace = "edge/lan0,count=3,udp port 53 or ip[2]=4,5"
            .parse()
            .unwrap();
        assert_eq!(trace.device, Some("edge/lan0".parse().unwrap()));
        assert_eq!((trace.nth, trace.count), (None, Some(3)));
        assert_eq!(
            trace.expression.as_deref(),
            Some("udp port 53 or ip[2]=4,5")
        );
        let trace: DeviceTrace = "any,nth=2".parse().unwrap();
        assert_eq!((trace.device, trace.nth), (None, Some(2)));
        for text in [
            "",
            ",udp",
            "a/b/c",
            "lan0,nth=0",
            "lan0,count=x",
            "lan0,nth=1,count=1",
        ] {
            assert!(text.parse::<DeviceTrace>().is_err(), "{text}");
        }
    }

    #[test]
    fn device_names_parse_with_and_without_a_namespace() {
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
