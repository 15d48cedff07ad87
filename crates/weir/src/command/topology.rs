// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir topology`: shows what a topology file expands to.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::TopologyArgs;
use crate::topology::{self, Role, Topology, script};

/// Checks a file and prints its script, or a summary.
pub fn run(args: &TopologyArgs) -> Result<ExitCode, String> {
    let topology = read(&args.file)?;
    let text = match args.print {
        true => script::write(&topology, &args.file.display().to_string()),
        false => summary(&topology),
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a topology. Its notes go to standard error.
pub fn read(file: &Path) -> Result<Topology, String> {
    let topology = topology::read(file)?;
    for note in &topology.notes {
        eprintln!("weir: {}: {note}", file.display());
    }
    Ok(topology)
}

fn summary(topology: &Topology) -> String {
    let count = |role| {
        topology
            .nodes
            .iter()
            .filter(|node| node.role == role)
            .count()
    };
    let routes: usize = topology.nodes.iter().map(|node| node.routes.len()).sum();
    format!(
        "{} routers, {} hosts, {} switches, {} links, {routes} routes\n",
        count(Role::Router),
        count(Role::Host),
        count(Role::Switch),
        topology.links.len(),
    )
}
