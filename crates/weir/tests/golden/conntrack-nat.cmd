# Connections with address translation that requests make.
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state ESTABLISHED -t 1999 --src-nat 192.0.2.1
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1001 --dport 80 --state ESTABLISHED -t 1999 --dst-nat 192.0.2.2
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1002 --dport 80 --state ESTABLISHED -t 1999 --src-nat 192.0.2.1:5000
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1003 --dport 53 -t 1999 --dst-nat 192.0.2.2:5353
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1004 --dport 53 -t 1999 --src-nat 192.0.2.1 --dst-nat 192.0.2.2
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1005 --dport 53 -t 1999 --src-nat 10.0.0.1
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p icmp --icmp-type 8 --icmp-code 0 --icmp-id 77 -t 1999 --src-nat 192.0.2.1
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1006 --dport 36412 --state ESTABLISHED --orig-vtag 1 --reply-vtag 2 -t 1999 --src-nat 192.0.2.1:6000
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p 50 -t 1999 --dst-nat 192.0.2.2
conntrack -I -s 2001:db8::1 -d 2001:db8::2 -p tcp --sport 1000 --dport 443 --state ESTABLISHED -t 1999 --src-nat 2001:db8:1::1
conntrack -L 2>&1 | connections
conntrack -L -n 2>&1 | connections
conntrack -L -g 2>&1 | connections
conntrack -L -j 2>&1 | connections
conntrack -L -n 192.0.2.1 2>&1 | connections
conntrack -L -g 192.0.2.2 2>&1 | connections
conntrack -L -n 192.0.2.1:5000 2>&1 | connections
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state ESTABLISHED -t 1999 --src-nat 192.0.2.1
conntrack -I -s 10.0.0.9 -d 10.0.0.2 -p tcp --sport 1002 --dport 80 --state ESTABLISHED -t 1999 --src-nat 192.0.2.1:5000
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --src-nat 192.0.2.9 2>&1 | connections
conntrack -G -r 10.0.0.2 -q 192.0.2.1 -p tcp --reply-port-src 80 --reply-port-dst 1000 2>&1 | connections
conntrack -F
conntrack -E -o id >$tmp/events 2>&1 & sleep 0.5; echo $! >$tmp/monitor
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 2000 --dport 80 --state SYN_SENT -t 1999 --src-nat 192.0.2.1:7000
conntrack -D -n 2>&1 | connections
sleep 0.5; kill $(cat $tmp/monitor); connections <$tmp/events
conntrack -L 2>&1 | connections
