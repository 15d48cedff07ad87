# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Connections in zones, made, found, changed and deleted by `conntrack`. Its output on Linux 6.1 is zones.txt
# beside it; record makes it, with a Linux of examples/make-linux.sh, as Debian's has no zones.
exec 2>&1
c() { echo "+ $*"; "$@" || echo "= $?"; }
made() { conntrack -I -t 1000 -u SEEN_REPLY "$@" >/dev/null || echo "= $?"; }
udp="-p udp --sport 1000 --dport 53"
list() { echo "+ list $*"; conntrack -L "$@" 2>&1 | sed -E 's/ (1000|9[0-9][0-9]) (src|EST)/ TIME \2/; s,<timeout>[0-9]*,<timeout>TIME,' | sort; }
c made -s 10.0.0.1 -d 10.0.0.2 $udp
c made -s 10.0.0.1 -d 10.0.0.2 $udp
c made -s 10.0.0.1 -d 10.0.0.2 $udp -w 1
c made -s 10.0.0.1 -d 10.0.0.2 $udp -w 1
c made -s 10.0.0.1 -d 10.0.0.2 $udp -w 65535
c made -s 10.0.0.1 -d 10.0.0.3 $udp --orig-zone 7
c made -s 10.0.0.1 -d 10.0.0.3 $udp --reply-zone 7
c made -s 10.0.0.1 -d 10.0.0.3 $udp --orig-zone 8 --reply-zone 9
c made -s 10.0.0.1 -d 10.0.0.3 $udp -w 7
c made -s 10.0.0.3 -d 10.0.0.1 -p udp --sport 53 --dport 1000 -w 7
c made -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 --state ESTABLISHED -w 1 -m 5
c made -s fd00::1 -d fd00::2 $udp -w 1
c made -s fd00::1 -d fd00::2 $udp -w 2
c made -s 10.0.0.1 -d 10.0.0.2 -p icmp --icmp-type 8 --icmp-code 0 --icmp-id 7 -w 2
c made -s 10.0.0.1 -d 10.0.0.4 $udp -n 192.0.2.1 -w 3
list
list -o extended
list -o xml | sed "s,<id>[0-9]*,<id>ID,"
list -w 0
list -w 1
list -w 2
list -w 7
list -w 99
list --orig-zone 7
list --reply-zone 7
list --orig-zone 8
list --orig-zone 9
list -f ipv6
list -f ipv6 -w 1
list -p tcp -w 1
list -m 5 -w 1
c conntrack -C
got() { echo "+ get $*"; conntrack -G "$@" 2>&1 | sed -E 's/ (1000|9[0-9][0-9]) (src|EST)/ TIME \2/; s,<timeout>[0-9]*,<timeout>TIME,'; }
got -s 10.0.0.1 -d 10.0.0.2 $udp
got -s 10.0.0.1 -d 10.0.0.2 $udp -w 1
got -s 10.0.0.1 -d 10.0.0.2 $udp -w 2
got -s 10.0.0.1 -d 10.0.0.3 $udp -w 7
got -s 10.0.0.1 -d 10.0.0.3 $udp -w 8
got -s 10.0.0.1 -d 10.0.0.3 $udp --orig-zone 8
got -s 10.0.0.1 -d 10.0.0.2 -p tcp --sport 1000 --dport 80 -w 1
deleted() { echo "+ delete $*"; conntrack -D "$@" 2>&1 | sed -E 's/ (1000|9[0-9][0-9]) (src|EST)/ TIME \2/; s,<timeout>[0-9]*,<timeout>TIME,' | sort; }
deleted -s 10.0.0.1 -d 10.0.0.2 -p udp -w 1
deleted --orig-zone 8
deleted --reply-zone 7
deleted -w 99
list
deleted -w 7
deleted -f ipv6 -w 2
deleted -p udp
list
c conntrack -F
list
