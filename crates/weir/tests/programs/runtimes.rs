// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of languages with a runtime of their own talk through a router: Go (a static program, which makes its system
//! calls itself), Node.js and Java, each as server and client.

use crate::chain::{Time, have, ordinarily};
use crate::common::{Folder, go_program};

#[test]
fn node_serves_node() {
    if !have(&[("node", "nodejs")]) {
        return;
    }
    let script = r#"cat > server.js <<'END'
const http = require('http'), dgram = require('dgram');
http.createServer((q, s) => { let n = 0; q.on('data', c => n += c.length); q.on('end', () => s.end(`${q.method} ${q.url} ${n}\n`)); })
    .listen(8000, '::');
const u = dgram.createSocket('udp4'); u.on('message', (m, r) => u.send(m.toString().toUpperCase(), r.port, r.address)); u.bind(8001);
END
cat > client.js <<'END'
const http = require('http'), dgram = require('dgram');
const ask = host => new Promise(done => {
    const q = http.request({host, port: 8000, path: '/x', method: 'POST'}, s => { let t = ''; s.on('data', c => t += c); s.on('end', () => done(t)); });
    q.end(Buffer.alloc(1000000)); });
(async () => {
    for (const host of ['10.0.1.2', 'fd01::2']) process.stdout.write(await ask(host));
    process.stdout.write((await Promise.all(Array(50).fill('10.0.1.2').map(ask))).join('') === 'POST /x 1000000\n'.repeat(50) ? 'fifty\n' : 'none\n');
    http.get('http://10.0.1.2:8002/').on('error', e => {
        console.log(e.code);
        const u = dgram.createSocket('udp4'); u.on('message', m => { console.log(m.toString()); u.close(); process.exit(0); }); u.send('datagram', 8001, '10.0.1.2');
    });
})();
END
b node server.js &
ready 8000 8001
a node client.js
finish"#;
    assert_eq!(
        ordinarily(Time::Real, script),
        "POST /x 1000000\nPOST /x 1000000\nfifty\nECONNREFUSED\nDATAGRAM\n"
    );
}

#[test]
fn java_serves_java() {
    if !have(&[
        ("java", "default-jdk-headless"),
        ("javac", "default-jdk-headless"),
    ]) {
        return;
    }
    let script = r#"cat > Pair.java <<'END'
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
class Pair {
    public static void main(String[] hosts) throws Exception {
        if (hosts.length == 0) {
            var s = HttpServer.create(new InetSocketAddress(8000), 0);
            s.createContext("/", e -> {
                var n = e.getRequestBody().readAllBytes().length;
                var r = (e.getRequestMethod() + " " + n + "\n").getBytes();
                e.sendResponseHeaders(200, r.length); e.getResponseBody().write(r); e.close(); });
            s.start();
            return;
        }
        for (var h : hosts) {
            var q = HttpRequest.newBuilder(URI.create("http://" + h + "/")).version(HttpClient.Version.HTTP_1_1)
                .POST(HttpRequest.BodyPublishers.ofByteArray(new byte[1000000])).build();
            try { System.out.print(HttpClient.newHttpClient().send(q, HttpResponse.BodyHandlers.ofString()).body()); }
            catch (ConnectException e) { System.out.println("refused"); }
        }
        System.exit(0);
    }
}
END
javac Pair.java
b java Pair &
ready 8000
a java Pair 10.0.1.2:8000 '[fd01::2]:8000' 10.0.1.2:8001
finish"#;
    assert_eq!(
        ordinarily(Time::Real, script),
        "POST 1000000\nPOST 1000000\nrefused\n"
    );
}

#[test]
fn go_serves_go() {
    let Some(program) = go_program("go-http", "go-http") else {
        return;
    };
    let folder = Folder::new();
    // Not everybody can read the tree.
    let own = folder.file("go-http");
    std::fs::copy(&program, &own).unwrap();
    let script = format!(
        "b {own} &
ready 8000
a {own} http://10.0.1.2:8000/ 'http://[fd01::2]:8000/' http://10.0.1.2:8001/
finish"
    );
    assert_eq!(
        ordinarily(Time::Real, &script),
        "POST 1000000, a hundred at once\nPOST 1000000, a hundred at once\nconnection refused\n"
    );
}
