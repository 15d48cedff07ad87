# Connections that requests make: lists, filters, changes, errors, events, expectations.
conntrack -L
conntrack -C
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state ESTABLISHED -t 1999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state ESTABLISHED -t 1999
conntrack -I -s 10.0.0.1 -d 10.0.0.3 -p tcp --sport 1001 --dport 80 --state SYN_SENT -t 6999 -u SEEN_REPLY,ASSURED -m 7
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1000 --dport 53 -t 3999 -u SEEN_REPLY
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p icmp --icmp-type 8 --icmp-code 0 --icmp-id 77 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p 47 -t 3999
conntrack -I -s 2001:db8::1 -d 2001:db8::2 -p tcp --sport 1000 --dport 443 --state ESTABLISHED -t 1999 -u ASSURED,SEEN_REPLY
conntrack -I -s 2001:db8::1 -d 2001:db8::2 -p icmpv6 --icmpv6-type 128 --icmpv6-code 0 --icmpv6-id 78 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 7 --dport 7 -t 3999 --zone 5
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 7 --dport 7 -t 3999 --zone 6 -m 0x10
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 8 --dport 8 -t 3999 --orig-zone 9
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 8 --dport 8 -t 3999 --reply-zone 9
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 9 --dport 9 -t 3999 -r 10.0.0.2 -q 10.0.0.9 --reply-port-src 9 --reply-port-dst 99
conntrack -L 2>&1 | connections
conntrack -L -o extended 2>&1 | connections
conntrack -L -o id,extended 2>&1 | connections
conntrack -L -o xml 2>/dev/null | sed 's/<flow>/\n&/g' | connections
conntrack -C
conntrack -L -f ipv6 2>&1 | connections
conntrack -L -f ipv4 2>&1 | connections
conntrack -L -p udp 2>&1 | connections
conntrack -L -p tcp --state ESTABLISHED 2>&1 | connections
conntrack -L -p tcp --orig-port-dst 80 2>&1 | connections
conntrack -L -s 10.0.0.1 2>&1 | connections
conntrack -L -d 10.0.0.3 2>&1 | connections
conntrack -L -r 10.0.0.2 -p udp 2>&1 | connections
conntrack -L -q 10.0.0.9 2>&1 | connections
conntrack -L -s 10.0.0.0/24 -p icmp 2>&1 | connections
conntrack -L --mark 7 2>&1 | connections
conntrack -L --mark 0x10/0xf0 2>&1 | connections
conntrack -L --zone 5 2>&1 | connections
conntrack -L -w 6 2>&1 | connections
conntrack -L --orig-zone 9 2>&1 | connections
conntrack -L --reply-zone 9 2>&1 | connections
conntrack -L -u ASSURED 2>&1 | connections
conntrack -L -u SEEN_REPLY 2>&1 | connections
conntrack -L -u UNSET 2>&1 | connections
conntrack -L -n 2>&1 | connections
conntrack -L -g 2>&1 | connections
conntrack -L -j 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 81 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 7 --dport 7 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 7 --dport 7 --zone 6 2>&1 | connections
conntrack -G -r 10.0.0.2 -q 10.0.0.1 -p tcp --reply-port-src 80 --reply-port-dst 1000 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --mark 5 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --mark 0x50/0xf0 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 -t 5999 -u ASSURED,SEEN_REPLY 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state CLOSE 2>&1 | connections
conntrack -G -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 81 --mark 5 2>&1 | connections
conntrack -U -p udp --mark 0x200/0xf00 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 -u FIXED_TIMEOUT 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 -t 7999 2>&1 | connections
conntrack -L -p udp 2>&1 | connections
conntrack -D -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1000 --dport 53 2>&1 | connections
conntrack -D -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 1000 --dport 53 2>&1 | connections
conntrack -D -p icmp 2>&1 | connections
conntrack -D --zone 5 2>&1 | connections
conntrack -D -f ipv6 2>&1 | connections
conntrack -D -p tcp --orig-port-dst 99 2>&1 | connections
conntrack -L 2>&1 | connections
conntrack -L -z 2>&1 | connections
conntrack -L expect
conntrack -C expect
conntrack -F expect
conntrack -I expect --orig-src 10.0.0.1 --orig-dst 10.0.0.2 --tuple-src 10.0.0.3 --tuple-dst 10.0.0.4 --mask-src 255.255.255.255 --mask-dst 255.255.255.255 -p tcp --orig-port-src 1000 --orig-port-dst 80 --tuple-port-src 5 --tuple-port-dst 6 --mask-port-src 0 --mask-port-dst 65535 -t 4999
conntrack -D expect --orig-src 10.0.0.1 --orig-dst 10.0.0.2 --tuple-src 10.0.0.3 --tuple-dst 10.0.0.4 --mask-src 255.255.255.255 --mask-dst 255.255.255.255 -p tcp --orig-port-src 1000 --orig-port-dst 80 --tuple-port-src 5 --tuple-port-dst 6 --mask-port-src 0 --mask-port-dst 65535 2>&1 | connections
conntrack -L dying
conntrack -L unconfirmed
conntrack -S | cut -f 1,2
conntrack -E -o id >$tmp/events 2>&1 & sleep 0.5; echo $! >$tmp/monitor
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 2000 --dport 80 --state SYN_SENT -t 1999
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 2000 --dport 80 --state ESTABLISHED -u ASSURED,SEEN_REPLY 2>&1 | connections
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 2000 --dport 80 --mark 9 2>&1 | connections
conntrack -D -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 2000 --dport 80 2>&1 | connections
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p udp --sport 2000 --dport 80 -t 1999 --zone 3
conntrack -D -p udp --zone 3 2>&1 | connections
sleep 0.5; kill $(cat $tmp/monitor); connections cat <$tmp/events
conntrack -F
conntrack -C
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1 --dport 2 --state NONE
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1 --dport 2 --state LISTEN -t 4999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1 --dport 2 --state SYN_SENT -t 4999 -n 10.0.0.9
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p icmp --icmp-type 3 --icmp-code 0 --icmp-id 77 -t 3999
conntrack -I -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1 --dport 2 --state SYN_SENT -t 4999 -u EXPECTED
conntrack -U -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1 --dport 2 --state SYN_RECV 2>&1 | connections
