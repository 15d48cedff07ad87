# SPDX-License-Identifier: Apache-2.0 OR MIT
"""node_exporter.py SOCKET: prints the metrics of Prometheus's node_exporter. It serves them at the UNIX socket that it gets as
systemd passes one, since programs cannot listen on the network yet."""
import os
import signal
import socket
import sys

COLLECTORS = "arp netclass netdev netstat sockstat softnet"
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
pid = os.fork()
if pid == 0:
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    options = ["--web.systemd-socket", "--web.disable-exporter-metrics", "--collector.disable-defaults"]
    options += ["--collector." + name for name in COLLECTORS.split()]
    os.execvp("prometheus-node-exporter", ["prometheus-node-exporter", *options])
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
# If the exporter ends early, this ends too.
listener.close()
client.sendall(b"GET /metrics HTTP/1.0\r\nHost: weir\r\n\r\n")
with client.makefile() as answer:
    for line in answer:
        if not line.startswith("#"):
            print(line.rstrip())
os.kill(pid, signal.SIGTERM)
os.wait()
