# What is kept of TCP connections that have ended, and how it is shown and deleted.
shown() { sed -E -e 's/age [0-9.]+(sec)?/age N/' -e 's/(rtt|rttvar) [0-9.]+us/\1 N/g' -e 's/"(age|rtt|rttvar|rtt_us)": ?[0-9.]+/"\1":N/g' -e 's/ +$//' | sort; }
ip netns add far
ip link add v0 type veth peer name v1 netns far
ip addr add 10.0.0.1/24 dev v0; ip -n far addr add 10.0.0.2/24 dev v1; ip -n far addr add 10.0.0.3/24 dev v1
ip addr add fd00::1/64 dev v0 nodad; ip -n far addr add fd00::2/64 dev v1 nodad
ip link set lo up; ip link set v0 up; ip -n far link set v1 up; tc qdisc add dev v0 root netem delay 40ms; sleep 2
ip tcp_metrics | shown
ip tcp_metrics show 10.0.0.2
ip tcp_metrics delete 10.0.0.2
ip tcp_metrics show fd00::2
printf 'import socket\nl = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)\nwhile True:\n c = l.accept()[0]\n while c.recv(9999): pass\n c.close()\n' >$tmp/server.py
printf 'import socket, sys\nfor a in sys.argv[1:]:\n s = socket.create_connection((a, 80)); s.sendall(b"x" * 20000); s.shutdown(1); s.recv(9); s.close()\n' >$tmp/client.py
ip netns exec far python3 $tmp/server.py & server=$!; sleep 1
python3 $tmp/client.py 10.0.0.2 10.0.0.3 fd00::2
ip tcp_metrics | shown
ip tcp_metrics show 10.0.0.3 | shown
ip tcp_metrics show 10.0.0.9
ip tcp_metrics show 10.0.0.0/24 | shown
ip tcp_metrics show fd00::2 | shown
ip -4 tcp_metrics show | shown
ip -6 tcp_metrics show | shown
ip -j tcp_metrics show 10.0.0.2 | shown
ip tcp_metrics show source 10.0.0.1 | shown
ip tcp_metrics delete 10.0.0.2
ip tcp_metrics delete 10.0.0.2
ip tcp_metrics | shown
ip tcp_metrics delete fd00::2
ip tcp_metrics | shown
python3 $tmp/client.py 10.0.0.2 10.0.0.3 fd00::2
ip tcp_metrics flush 10.0.0.2
ip tcp_metrics | shown
ip -6 tcp_metrics flush
ip tcp_metrics | shown
ip tcp_metrics flush
ip tcp_metrics | shown
sysctl -qw net.ipv4.tcp_no_metrics_save=1
python3 $tmp/client.py 10.0.0.2
ip tcp_metrics | shown
kill $server
