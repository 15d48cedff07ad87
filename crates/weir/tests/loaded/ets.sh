# SPDX-License-Identifier: Apache-2.0 OR MIT
# ets with packets in its bands: the order in which they leave; bands that become strict or sharing,
# are added and removed; bands whose queue is replaced, limited and removed. Its output on Linux 6.1
# is ets.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
E="tc qdisc change dev d0 parent 1:1 handle 10: ets"
all() {
    show
    show class
}
for how in "strict 4" "quanta 1000 1000 1000 1000" "quanta 256 3000 1500 600" "bands 4 strict 1 quanta 500" "bands 4 strict 2 quanta 2000 1000"; do
    behind 2000 ets $how priomap 3 2 1 0
    ports
    serve
    tc qdisc del dev d0 root
done

# Without filters, all packets take the band of priority 0.
behind 2000 ets strict 2 quanta 1000 500 priomap 2 1
serve
c $E bands 2 priomap 1
all
burst
all
c $E bands 1
all
burst
all
tc qdisc del dev d0 root

# Strict bands become sharing ones and sharing bands strict, with packets in them.
behind 2000 ets strict 2 quanta 400 800
ports
serve
c $E quanta 700 500 300 1000
all
serve
c $E strict 3 quanta 600
all
serve
c $E strict 1 quanta 300 300 900
serve
c $E bands 3 strict 1
all
serve
c $E bands 6 strict 2 quanta 2000
all
serve
c $E bands 2 strict 2
all
serve
tc qdisc del dev d0 root

# Quanta of classes.
behind 2000 ets strict 1 quanta 400 800 1200
ports
burst
c tc class change dev d0 classid 10:2 ets quantum 3000
c tc class change dev d0 classid 10:4 ets quantum 256
c tc class change dev d0 classid 10:1 ets quantum 3000
c tc class change dev d0 classid 10:5 ets quantum 3000
c tc class add dev d0 parent 10: classid 10:5 ets quantum 3000
c tc class del dev d0 classid 10:4
serve
c tc -s -j class show dev d0 classid 10:2
c tc qdisc show dev d0
tc qdisc del dev d0 root

# Queues of bands.
behind 2000 ets strict 1 quanta 400 800 1200
ports
burst
c tc qdisc add dev d0 parent 10:2 handle 20: pfifo limit 3
all
c tc qdisc add dev d0 parent 10:1 handle 21: codel limit 2
serve
c tc qdisc change dev d0 parent 10:2 handle 20: pfifo limit 1
all
c tc qdisc replace dev d0 parent 10:3 handle 30: tbf rate 8bit burst 2000 limit 100000
serve
c tc qdisc del dev d0 parent 10:2
all
c tc qdisc add dev d0 parent 10:4 handle 40: ets bands 2 strict 1
serve
c tc qdisc change dev d0 parent 10:4 handle 40: ets bands 1
all
c tc qdisc del dev d0 parent 10:4
all
c $E bands 2
all
c tc qdisc replace dev d0 parent 1:1 handle 50: pfifo limit 3
show
burst
show
tc qdisc del dev d0 root

# Down and up again.
behind 2000 ets strict 1 quanta 400 800 1200
ports
down_and_up
true
