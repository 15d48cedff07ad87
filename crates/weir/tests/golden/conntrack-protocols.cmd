# Connections of SCTP, DCCP, GRE, UDP-Lite and others that requests make.
conntrack -E -o id >$tmp/events 2>&1 & sleep 0.5; echo $! >$tmp/monitor
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1000 --dport 36412 --state ESTABLISHED --orig-vtag 11 --reply-vtag 12 -t 1999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1001 --dport 36412 --state COOKIE_WAIT --orig-vtag 0 --reply-vtag 4294967295 -t 1999 -u ASSURED,SEEN_REPLY
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1003 --dport 36412 --state NONE --orig-vtag 1 --reply-vtag 2 -t 1999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p dccp --sport 1000 --dport 5001 --state OPEN --role client -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p dccp --sport 1001 --dport 5001 --state TIMEWAIT --role server -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udplite --sport 1000 --dport 5002 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p gre --srckey 0 --dstkey 0x11 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p gre --srckey 7 --dstkey 0x12 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p 50 -t 3999
conntrack -L 2>&1 | connections
conntrack -L -o extended 2>&1 | connections
conntrack -L -o xml 2>/dev/null | sed 's/<flow>/\n&/g' | connections
conntrack -L -p sctp 2>&1 | connections
conntrack -L -p sctp --state ESTABLISHED 2>&1 | connections
conntrack -L -p sctp --orig-port-src 1001 2>&1 | connections
conntrack -L -p dccp 2>&1 | connections
conntrack -L -p udplite 2>&1 | connections
conntrack -L -p gre 2>&1 | connections
conntrack -L -f ipv6 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1000 --dport 36412 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p gre --srckey 0 --dstkey 0x11 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p gre --srckey 0 --dstkey 0x13 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1000 --dport 36412 --state SHUTDOWN_SENT --orig-vtag 21 --reply-vtag 22 2>&1 | connections
conntrack -D -s 10.0.0.1 -d 10.0.0.2 -p sctp --sport 1000 --dport 36412 2>&1 | connections
conntrack -D -p dccp 2>&1 | connections
conntrack -D -p gre 2>&1 | connections
sleep 0.5; kill $(cat $tmp/monitor); connections <$tmp/events
conntrack -L 2>&1 | connections
sysctl net.netfilter | grep -e sctp -e dccp -e gre
sysctl -w net.netfilter.nf_conntrack_sctp_timeout_established=77
sysctl -w net.netfilter.nf_conntrack_dccp_loose=2
sysctl -n net.netfilter.nf_conntrack_sctp_timeout_established
