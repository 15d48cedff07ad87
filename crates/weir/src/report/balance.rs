// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load balancers of a stack (action `balance`): their backends, and what became of flows when those changed.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use weir_conntrack::Family;
use weir_tc::action::balance::{Ends, Listed, reports};

use crate::cli::{Backend, Service};
use crate::engine::Engine;

fn socket(ends: &Ends) -> SocketAddr {
    let [a, b, c, d, ..] = ends.address;
    let address: IpAddr = match ends.family {
        Family::V4 => Ipv4Addr::new(a, b, c, d).into(),
        Family::V6 => ends.address.into(),
    };
    SocketAddr::new(address, ends.port)
}

fn text_of(backend: &Listed) -> String {
    let backend = Backend {
        ends: socket(&backend.ends),
        weight: backend.weight,
    };
    backend.to_string()
}

/// Describes the load balancers of all namespaces as JSON and as text.
pub fn stat(engine: &Engine) -> Value {
    let (mut data, mut text) = (Vec::new(), String::new());
    let guard = engine.stack.domain.pin();
    for ns in engine.stack.all_namespaces() {
        let prefix = super::prefix(engine, ns.id);
        let name = prefix.trim_end_matches('/');
        for report in reports(&ns.tc, &guard) {
            let service = Service {
                protocol: report.service.protocol,
                ends: socket(&report.service),
            };
            let [packets, dropped] = report.packets;
            let backends: Vec<String> = report.backends.iter().map(text_of).collect();
            let moves = report.moves;
            let _ = writeln!(
                text,
                "{}{service}: {} backends, index {}, {packets} packets, {dropped} dropped",
                if name.is_empty() {
                    String::new()
                } else {
                    format!("{name}: ")
                },
                backends.len(),
                report.index,
            );
            for backend in &backends {
                let _ = writeln!(text, "  {backend}");
            }
            let _ = writeln!(
                text,
                "  flows: {} new; after changes of the backends {} kept, {} moved; the table alone would have moved {}",
                moves.new, moves.kept, moves.moved, moves.table_moved
            );
            data.push(json!({
                "netns": name,
                "service": service.to_string(),
                "index": report.index,
                "backends": backends,
                "flows": report.flows,
                "packets": packets,
                "dropped": dropped,
                "new": moves.new,
                "kept": moves.kept,
                "moved": moves.moved,
                "table_moved": moves.table_moved,
            }));
        }
    }
    if text.is_empty() {
        text.push_str("no namespace balances a service\n");
    }
    json!({ "data": data, "text": text })
}
