// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two connections joined in memory, on one CPU, as `weir bench sockets` measures them.
//!
//! `cargo run --release -p weir-tcp --example joined [GIB [CONNECTIONS]]`

mod pair;

use weir_tcp::Connection;

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let [rate, size, resent] = pair::data(args.next().unwrap_or(4));
    println!("data: {rate:.1} Gbit/s, {size:.0} bytes a segment, {resent} sent again");
    let count = args.next().unwrap_or(300_000);
    println!(
        "connections: {:.0} a second",
        pair::connections(count as u32)
    );
    println!("size of a connection: {} bytes", size_of::<Connection>());
}
