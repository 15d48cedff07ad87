// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients and servers. They use the system's sockets, which are Weir's or the kernel's.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The port of all servers.
const PORT: u16 = 5000;
/// The clients of the HTTP server, and its threads.
const CLIENTS: usize = 4;
const REQUEST: &[u8] = b"GET / HTTP/1.0\r\nHost: b\r\n\r\n";
const ANSWER: &[u8] =
    b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world\n";
/// How long a client waits for a lost datagram.
const LOST: Duration = Duration::from_millis(500);

/// Runs a client or a server.
pub fn here(what: &str, args: &[&str]) -> Result<Vec<f64>, String> {
    let seconds = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(1.0);
    let length = Duration::from_secs_f64(seconds);
    let address = args.get(1).copied().unwrap_or("127.0.0.1");
    let found = match what {
        "serve-http" => serve_http(),
        "serve-tcp" => serve_tcp(),
        "serve-udp" => serve_udp(),
        "http" => http(address, length),
        "tcp" => ping_tcp(address, length),
        "udp" => ping_udp(address, length),
        "hold" => hold(seconds as usize, address),
        _ => return Err(format!("there is no part {what}")),
    };
    found
        .map(|figure| vec![figure])
        .map_err(|error| format!("{what}: {error}"))
}

/// Connects; the server may need a moment.
fn connect(address: &str) -> std::io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect((address, PORT)) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused
                    && start.elapsed().as_secs() < 5 =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

/// Answers requests, one on each connection, until it is killed.
fn serve_http() -> std::io::Result<f64> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    let serve = || -> std::io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept()?;
            let mut got = [0; 1024];
            let mut length = 0;
            while !got[..length].ends_with(b"\r\n\r\n") {
                match stream.read(&mut got[length..])? {
                    0 => break,
                    n => length += n,
                }
            }
            stream.write_all(ANSWER)?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(serve)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(0.0)
}

/// Makes requests, each on a connection of its own. Returns thousands a second.
fn http(address: &str, length: Duration) -> std::io::Result<f64> {
    connect(address)?.write_all(REQUEST)?;
    let start = Instant::now();
    let ask = || -> std::io::Result<u64> {
        let mut count = 0u64;
        let mut got = Vec::with_capacity(ANSWER.len());
        while start.elapsed() < length {
            let mut stream = TcpStream::connect((address, PORT))?;
            stream.write_all(REQUEST)?;
            got.clear();
            stream.read_to_end(&mut got)?;
            if got != ANSWER {
                return Err(std::io::Error::other("a wrong answer"));
            }
            count += 1;
        }
        Ok(count)
    };
    let count: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Ok(0)))
            .sum::<std::io::Result<u64>>()
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64() / 1e3)
}

/// Returns each byte of one connection.
fn serve_tcp() -> std::io::Result<f64> {
    let (mut stream, _) = TcpListener::bind(("0.0.0.0", PORT))?.accept()?;
    stream.set_nodelay(true)?;
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(0.0)
}

/// Returns the median round trip in µs.
fn median(length: Duration, mut trip: impl FnMut() -> std::io::Result<()>) -> std::io::Result<f64> {
    let start = Instant::now();
    let mut trips = Vec::with_capacity(1 << 16);
    while start.elapsed() < length {
        let before = Instant::now();
        trip()?;
        trips.push(before.elapsed().as_secs_f64() * 1e6);
    }
    trips.sort_by(f64::total_cmp);
    let middle = trips.get(trips.len() / 2);
    middle
        .copied()
        .ok_or_else(|| std::io::Error::other("no round trip"))
}

fn ping_tcp(address: &str, length: Duration) -> std::io::Result<f64> {
    let mut stream = connect(address)?;
    stream.set_nodelay(true)?;
    let mut byte = [7];
    median(length, || {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)
    })
}

/// Returns each datagram until it is killed.
fn serve_udp() -> std::io::Result<f64> {
    let socket = UdpSocket::bind(("0.0.0.0", PORT))?;
    let mut buffer = [0; 64];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..length], from)?;
    }
}

fn ping_udp(address: &str, length: Duration) -> std::io::Result<f64> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect((address, PORT))?;
    socket.set_read_timeout(Some(LOST))?;
    let mut byte = [7];
    // The server may need a moment: until it is there, datagrams are lost or refused.
    for _ in 0..50 {
        let answered = socket.send(&byte).and_then(|_| socket.recv(&mut byte));
        if answered.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    median(length, || {
        socket.send(&byte)?;
        socket.recv(&mut byte).map(drop)
    })
}

/// Holds so many sockets, half of them clients and half of them servers, until it is killed. Makes the file when all
/// are open.
fn hold(count: usize, file: &str) -> std::io::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", PORT))?;
    let mut held = Vec::with_capacity(count);
    while held.len() < count {
        held.push(TcpStream::connect(("127.0.0.1", PORT))?);
        held.push(listener.accept()?.0);
    }
    std::fs::write(file, "")?;
    loop {
        std::thread::park();
    }
}
