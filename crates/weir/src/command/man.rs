// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir man DIR`: a manual page per command, from the declarations in [`crate::cli`] and the
//! examples below.

use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man as Page;
use roff::{Inline, Roff, bold, italic, roman};

use crate::cli::{Cli, Man};

/// The start of a paragraph of a command's help that belongs to EXIT STATUS.
const STATUS: &str = "The exit status is";
/// The exit status of commands whose help does not tell it.
const USUAL_STATUS: &str =
    "The exit status is 0; 125 if the command failed; 2 if the command line is wrong.";

/// Examples: the page's name, a sentence and a shell command. A test runs their words through the
/// command line's parser.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "weir",
        "Run a script with ip and tc, and generate traffic for five seconds:",
        "weir run --gen lan0=rate=2mbit,stop=5s script.sh",
    ),
    (
        "weir",
        "Keep a stack running, and configure it from another terminal:",
        "weir up\nweir exec ip link add d0 type dummy",
    ),
    (
        "weir-run",
        "Play a capture into lan0, keep what leaves wan0 and what is dropped, and draw the report:",
        "weir run --in lan0=in.pcap --out wan0=out.pcapng --drops drops.pcapng --json run.json script.sh\n\
         weir report --html run.html run.json",
    ),
    (
        "weir-run",
        "Run one command for two seconds of virtual time:",
        "weir run --until 2s -- ip -s link show",
    ),
    (
        "weir-up",
        "Keep a stack with four CPUs running, and generate traffic once edge/lan0 is up:",
        "weir up --cpus 4 --gen edge/lan0=rate=1000,size=60-1514",
    ),
    (
        "weir-up",
        "Let programs inside reach the network of the host, and the host's port 8080 a server in the namespace web:",
        "weir up --gateway --publish 8080:web:80",
    ),
    (
        "weir-run",
        "Load a page of a server on the host's loopback, by a program inside:",
        "weir run --real-time --gateway=host=on -- curl http://10.0.2.2:8080/",
    ),
    (
        "weir-rcu",
        "Have a thread of its own run the callbacks, and look at what waits:",
        "weir rcu offload-all\nweir stat rcu",
    ),
    (
        "weir-netns",
        "Add a thousand namespaces, count them, and delete them:",
        "weir netns add --count 1000 r%d\nweir netns list | wc -l\nweir netns del --all",
    ),
    (
        "weir-netns-add",
        "Add ten thousand routers, each with its loopback device up and forwarding on:",
        "printf 'ip link set lo up\\nsysctl -qw net.ipv4.ip_forward=1\\n' > router.sh\n\
         weir netns add --count 10000 --template router.sh r%d",
    ),
    (
        "weir-netns-list",
        "Count the namespaces of the user's own stack:",
        "weir netns list | wc -l",
    ),
    (
        "weir-netns-del",
        "Delete two namespaces, then all that are left:",
        "weir netns del r0 r1\nweir netns del --all",
    ),
    (
        "weir-balance",
        "Spread connections to port 80 of an address over two backends, then take one of them out:",
        "weir balance add edge/lan0 --replies edge/dmz0 tcp:192.0.2.80:80 10.9.0.1:8080 10.9.0.2:8080\n\
         weir balance set --netns edge tcp:192.0.2.80:80 10.9.0.2:8080\nweir stat balance",
    ),
    (
        "weir-balance-add",
        "Give the second of two backends three quarters of the new flows:",
        "weir balance add --replies dmz0 lan0 udp:192.0.2.53:53 10.9.0.1 10.9.0.2=3",
    ),
    (
        "weir-balance-set",
        "Drain a backend: it keeps its flows and gets no new ones:",
        "weir balance set udp:192.0.2.53:53 10.9.0.1=0 10.9.0.2",
    ),
    (
        "weir-balance-del",
        "Stop balancing a service, and see that none is left:",
        "weir balance del udp:192.0.2.53:53\nweir stat balance",
    ),
    (
        "weir-topology",
        "Make a topology in virtual time, and look at the commands that it expands to:",
        "weir topology --print ring.toml\nweir run --gen r1/eth0=rate=100,stop=1s ring.toml",
    ),
    (
        "weir-exec",
        "Create a namespace, and start a shell in it:",
        "weir exec ip netns add edge\nweir exec --netns edge bash",
    ),
    (
        "weir-play",
        "In a script: play one second of traffic, then change the rate:",
        "weir play --until 1s\ntc qdisc change dev wan0 root tbf rate 1mbit burst 4k limit 30k",
    ),
    (
        "weir-stat",
        "Show all counters of the user's own stack, idle ones too:",
        "weir stat --all",
    ),
    (
        "weir-stat",
        "Measure the durations of transmits, then show them:",
        "weir stat qdisc --measure on\nweir stat qdisc --histogram",
    ),
    (
        "weir-stat",
        "Show the cost of a packet by stage group, every second:",
        "weir stat stages --groups --watch",
    ),
    (
        "weir-stat",
        "Show what passes the gateway of the user's own stack:",
        "weir stat gateway",
    ),
    (
        "weir-top",
        "Watch the user's own stack on one screen, or print one sample for a log:",
        "weir top --interval 500ms\nweir top --once",
    ),
    (
        "weir-report",
        "Compare two runs on one page:",
        "weir report --html both.html --title Queues before.json after.json",
    ),
    (
        "weir-capture",
        "Show ten frames of wan0 in the namespace edge:",
        "weir capture --count 10 edge/wan0 | tcpdump -n -r -",
    ),
    (
        "weir-capture",
        "Write the frames of all devices, then every dropped packet of the namespace edge:",
        "weir capture --all > all.pcapng\nweir capture --drops --netns edge | tcpdump -n -r -",
    ),
    (
        "weir-run",
        "Print the journey of the third UDP packet that lan0 receives:",
        "weir run --trace lan0,nth=3,udp --in lan0=in.pcap script.sh",
    ),
    (
        "weir-trace",
        "Print the journeys of the next two UDP packets at edge/lan0, then of the next packet anywhere:",
        "weir trace --count 2 edge/lan0 udp port 53\nweir trace --nth 1",
    ),
    (
        "weir-port",
        "Lead the device d0 to a TAP device of the machine, and show the port:",
        "weir port add d0 tap name=weir0\nweir port show",
    ),
    (
        "weir-port-add",
        "Lead the device d0 to a TAP device of the machine:",
        "weir port add d0 tap name=weir0",
    ),
    (
        "weir-port-del",
        "Take the port of d0 away:",
        "weir port del d0",
    ),
    (
        "weir-port-show",
        "Show the ports and their counters:",
        "weir port show",
    ),
    (
        "weir-join",
        "Run a program whose only network is the namespace behind the veth device v0:",
        "weir join v0 ping -c 1 10.0.0.1",
    ),
    (
        "weir-inject",
        "Let lan0 receive the frames of a capture at once:",
        "weir inject --receive --topspeed lan0 in.pcap",
    ),
    (
        "weir-bench",
        "List the benchmarks, and draw the result of one:",
        "weir bench\nweir bench transmit --short --chart transmit.svg",
    ),
    (
        "weir-extcap",
        "Show Weir's devices among Wireshark's interfaces:",
        "weir extcap --install",
    ),
    (
        "weir-completions",
        "Complete commands, devices and namespaces in this bash:",
        "source <(weir completions bash)",
    ),
    (
        "weir-man",
        "Write the pages and read one:",
        "weir man pages\nman pages/weir-run.1",
    ),
];

/// Writes `weir.1` and one page per command.
pub fn run(args: &Man) -> Result<ExitCode, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", args.directory.display());
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write(&args.directory, &command, "weir").map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write(directory: &Path, command: &Command, name: &str) -> std::io::Result<()> {
    std::fs::write(directory.join(format!("{name}.1")), page(command, name)?)?;
    for subcommand in command.get_subcommands() {
        let name = format!("{name}-{}", subcommand.get_name());
        write(directory, subcommand, &name)?;
    }
    Ok(())
}

/// Returns a page.
fn page(command: &Command, name: &str) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let words = name.replace('-', " ");
    // The name of the page, as `man` looks for it.
    let page = Page::new(
        command
            .clone()
            .name(name.to_owned())
            .display_name(name.to_owned()),
    );
    page.render_title(&mut out)?;
    page.render_name_section(&mut out)?;
    synopsis(command, &words).to_writer(&mut out)?;
    page.render_description_section(&mut out)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        page.render_options_section(&mut out)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut out)?;
    }
    let help = command.get_after_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let (status, notes): (Vec<_>, Vec<_>) = help
        .split("\n\n")
        .filter(|text| !text.is_empty())
        .partition(|text| text.starts_with(STATUS));
    paragraphs("NOTES", &notes).to_writer(&mut out)?;
    let status = if status.is_empty() {
        vec![USUAL_STATUS]
    } else {
        status
    };
    paragraphs("EXIT STATUS", &status).to_writer(&mut out)?;
    examples(name).to_writer(&mut out)?;
    page.render_version_section(&mut out)?;
    Ok(out)
}

/// Returns a section of paragraphs; nothing without paragraphs.
fn paragraphs(heading: &str, paragraphs: &[&str]) -> Roff {
    let mut roff = Roff::new();
    for (n, text) in paragraphs.iter().enumerate() {
        match n {
            0 => roff.control("SH", [heading]),
            _ => roff.control("PP", []),
        };
        roff.text([roman(*text)]);
    }
    roff
}

fn examples(name: &str) -> Roff {
    let mut roff = Roff::new();
    let of = EXAMPLES.iter().filter(|(page, ..)| *page == name);
    for (n, (_, sentence, commands)) in of.enumerate() {
        match n {
            0 => roff.control("SH", ["EXAMPLES"]),
            _ => roff.control("PP", []),
        };
        roff.text([roman(*sentence)]);
        roff.control("PP", [])
            .control("RS", ["4"])
            .control("nf", []);
        for command in commands.lines() {
            roff.text([bold(command)]);
        }
        roff.control("fi", []).control("RE", []);
    }
    roff
}

/// Returns the synopsis: every option with the names of its values, then the arguments.
fn synopsis(command: &Command, words: &str) -> Roff {
    let mut line = vec![bold(words)];
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    for arg in shown().filter(|arg| !arg.is_positional()) {
        line.push(roman(if arg.is_required_set() { " " } else { " [" }));
        line.extend(option(arg));
        if !arg.is_required_set() {
            line.push(roman("]"));
        }
        if is_repeated(arg) {
            line.push(roman("..."));
        }
    }
    for arg in shown().filter(|arg| arg.is_positional()) {
        let dashes = if arg.is_last_set() { "-- " } else { "" };
        line.push(roman(if arg.is_required_set() {
            format!(" {dashes}")
        } else {
            format!(" [{dashes}")
        }));
        line.push(italic(value_names(arg)));
        if is_repeated(arg) {
            line.push(roman("..."));
        }
        if !arg.is_required_set() {
            line.push(roman("]"));
        }
    }
    if command.has_subcommands() {
        line.push(roman(" "));
        line.push(italic("COMMAND"));
        line.push(roman(" ..."));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

/// Returns `-c|--count N`.
fn option(arg: &Arg) -> Vec<Inline> {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    let mut shown = vec![bold(names.join("|"))];
    if arg.get_action().takes_values() {
        let optional = arg
            .get_num_args()
            .is_some_and(|range| range.min_values() == 0);
        shown.push(roman(if optional { " [" } else { " " }));
        shown.push(italic(value_names(arg)));
        if optional {
            shown.push(roman("]"));
        }
    }
    shown
}

fn is_repeated(arg: &Arg) -> bool {
    let many = arg
        .get_num_args()
        .is_some_and(|range| range.max_values() > 1);
    many || matches!(arg.get_action(), clap::ArgAction::Append)
}

/// Returns the names of a value; its possible values if there are few of them.
fn value_names(arg: &Arg) -> String {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let names: Vec<_> = possible.iter().map(|value| value.get_name()).collect();
        return names.join("|");
    }
    match arg.get_value_names() {
        Some(names) => names
            .iter()
            .map(|name| name.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn examples_are_commands_of_this_version() {
        let mut tried = 0;
        for (_, _, commands) in EXAMPLES {
            for line in commands.lines() {
                let line = line.split(['|', '>']).next().unwrap().trim_end();
                let line = line.trim_start_matches("source <(").trim_end_matches(')');
                if line.starts_with("weir") {
                    Cli::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"));
                    tried += 1;
                }
            }
        }
        assert!(tried > EXAMPLES.len());
    }

    #[test]
    fn every_page_has_its_sections_and_names_of_values() {
        fn look(command: &Command, name: &str) {
            let text = String::from_utf8(page(command, name).unwrap()).unwrap();
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES"] {
                let (plain, quoted) = (format!(".SH {heading}\n"), format!(".SH \"{heading}\"\n"));
                assert!(
                    text.contains(&plain) || text.contains(&quoted),
                    "{name}: {heading}\n{text}"
                );
            }
            for arg in command.get_arguments() {
                let hidden = arg.get_long().filter(|_| arg.is_hide_set());
                assert!(
                    hidden.is_none_or(|long| !text.contains(long)),
                    "{name}: {hidden:?}"
                );
            }
            for subcommand in command.get_subcommands() {
                look(subcommand, &format!("{name}-{}", subcommand.get_name()));
            }
        }
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        look(&command, "weir");
        let run = command.find_subcommand("run").unwrap();
        let text = String::from_utf8(page(run, "weir-run").unwrap()).unwrap();
        assert!(text.contains(r"[\fB\-\-in\fR \fIDEV=FILE\fR]..."), "{text}");
        assert!(text.contains(r"[\fB\-q|\-\-quiet\fR]"), "{text}");
        assert!(
            text.contains(r"[\fB\-\-mode\fR \fIauto|user|paths\fR]"),
            "{text}"
        );
    }
}
