// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified routing daemons run the routers of a stack: BIRD and FRR with OSPF and BGP, FRR with PIM, keepalived with VRRP. They
//! install what they have learned, and other routes after a link has been cut.

use crate::chain::{Time, have, holds, ordinarily_in};

/// Three routers in a triangle, each with a network of its own behind it.
const TRIANGLE: &str = r#"
for i in 1 2 3; do
    ip netns add r$i; ip -n r$i link set lo up
    ip netns exec r$i sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    ip -n r$i link add lan type dummy; ip -n r$i link set lan up
    ip -n r$i addr add 10.$i.0.1/24 dev lan; ip -n r$i addr add fd00:$i::1/64 dev lan nodad
done
join() {
    ip link add e$2 netns r$1 type veth peer name e$1 netns r$2
    ip -n r$1 addr add 10.0.$1$2.$1/24 dev e$2; ip -n r$2 addr add 10.0.$1$2.$2/24 dev e$1
    ip -n r$1 addr add fd00:$1$2::$1/64 dev e$2 nodad; ip -n r$2 addr add fd00:$1$2::$2/64 dev e$1 nodad
    ip -n r$1 link set e$2 up; ip -n r$2 link set e$1 up
}
join 1 2; join 2 3; join 1 3
# Whether router 1 reaches network 3 through a neighbour.
learned() { ip -n r1 route show 10.3.0.0/24 | grep "via 10.0.1$1.$1 "; }
learned6() { ip -n r1 -6 route show fd00:3::/64 | grep "dev e$1 "; }
crosses() { ip netns exec r1 ping -n -c 1 -W 5 -I 10.1.0.1 10.3.0.1 | grep -o ttl=..; }
crosses6() { ip netns exec r1 ping -n -c 1 -W 5 -I fd00:1::1 fd00:3::1 | grep -o ttl=..; }
"#;

/// Starts daemons of FRR.
const FRR: &str = r#"
printf 'root:x:0:\nfrrvty:x:0:root\n' > group
# Starts a daemon in a namespace with the configuration on standard input. Its user must be in a group.
frr() {
    mkdir -p $1; cat > $1/$2.conf
    ip netns exec $1 sh -c 'mount --bind group /etc/group; exec "$@"' - /usr/lib/frr/$2 -u root -g root -z $D/$1/zserv \
        -i $D/$1/$2.pid --vty_socket $D/$1 -f $D/$1/$2.conf -A 127.0.0.1 --log file:$D/$1/$2.log > $1/$2.out 2>&1 &
}
"#;

#[test]
fn bird_finds_another_way_by_ospf() {
    if !have(&[("bird", "bird2")]) {
        return;
    }
    let script = r#"for i in 1 2 3; do
cat > r$i.conf <<END
log "$D/r$i.log" all;
router id 10.$i.0.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { export where source ~ [ RTS_OSPF, RTS_OSPF_IA ]; }; }
protocol kernel { ipv6 { export where source ~ [ RTS_OSPF, RTS_OSPF_IA ]; }; }
protocol ospf v2 { ipv4 { import all; export none; };
    area 0 { interface "e*" { hello 1; dead 4; type ptp; }; interface "lan" { stub; }; }; }
protocol ospf v3 { ipv6 { import all; export none; };
    area 0 { interface "e*" { hello 1; dead 4; type ptp; }; interface "lan" { stub; }; }; }
END
ip netns exec r$i bird -f -c r$i.conf -s $D/r$i.ctl -P $D/r$i.pid &
done
await learned 3; await learned6 3
birdc -s $D/r1.ctl show ospf neighbors | grep -c Full
ip -n r1 route show proto bird | grep -A2 10.0.23; crosses; crosses6
ip -n r1 link set e3 down
await learned 2; await learned6 2; crosses; crosses6
finish"#;
    let parts = [
        "4\n10.0.23.0/24 metric 32 \n\tnexthop via 10.0.12.2 dev e2 weight 1 \n\tnexthop via 10.0.13.3 dev e3 weight 1",
        "ttl=64\nttl=64\nttl=63\nttl=63\n",
    ];
    holds(&ordinarily_in(TRIANGLE, Time::Virtual, script), &parts);
}

#[test]
fn bird_finds_another_way_by_bgp() {
    if !have(&[("bird", "bird2")]) {
        return;
    }
    let script = r#"session() {
    echo "protocol bgp { local 10.0.$3.$1 as 6500$1; neighbor 10.0.$3.$2 as 6500$2; hold time 9; connect delay time 1;
        ipv4 { import all; export all; }; ipv6 { import all; export all; next hop address fd00:$3::$1; }; }"
}
config() {
    printf 'log "%s" all;\nrouter id 10.%s.0.1;\nprotocol device { scan time 1; }\n' $D/r$1.log $1
    echo 'protocol direct { ipv4; ipv6; interface "lan"; } protocol kernel { ipv4 { export where source = RTS_BGP; }; }
        protocol kernel { ipv6 { export where source = RTS_BGP; }; }'
}
{ config 1; session 1 2 12; session 1 3 13; } > r1.conf
{ config 2; session 2 1 12; session 2 3 23; } > r2.conf
{ config 3; session 3 1 13; session 3 2 23; } > r3.conf
for i in 1 2 3; do ip netns exec r$i bird -f -c r$i.conf -s $D/r$i.ctl -P $D/r$i.pid & done
await learned 3; await learned6 3
birdc -s $D/r1.ctl show route 10.3.0.0/24 primary all | grep as_path; crosses; crosses6
ip netns exec r1 ss -Htn state established '( sport = :179 or dport = :179 )' | wc -l
ip -n r1 link set e3 down
await learned 2; await learned6 2
birdc -s $D/r1.ctl show route 10.3.0.0/24 primary all | grep as_path; crosses; crosses6
finish"#;
    let parts = [
        "BGP.as_path: 65003\nttl=64\nttl=64\n2\n",
        "BGP.as_path: 65002 65003\nttl=63\nttl=63\n",
    ];
    holds(&ordinarily_in(TRIANGLE, Time::Virtual, script), &parts);
}

/// OSPF finds the loopback-like addresses between which the sessions of BGP run.
#[test]
fn frr_finds_another_way_by_ospf_and_bgp() {
    if !have(&[("/usr/lib/frr/zebra", "frr")]) {
        return;
    }
    let script = r#"ospf() {
    printf 'router ospf\n ospf router-id 10.%s.0.1\n network 10.0.0.0/16 area 0\n network 10.%s.0.0/24 area 0\n' $1 $1
    printf ' passive-interface lan\n timers throttle spf 0 50 100\n'
    for n in $2 $3; do
        printf 'interface e%s\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n' $n
    done
}
bgp() {
    printf 'router bgp 6500%s\n bgp router-id 10.%s.0.1\n no bgp ebgp-requires-policy\n no bgp network import-check\n' $1 $1
    for n in $2 $3; do
        p=" neighbor 10.$n.0.1"
        printf '%s\n' "$p remote-as 6500$n" "$p ebgp-multihop 4" "$p update-source lan" "$p timers 1 3" "$p timers connect 1"
    done
    printf ' address-family ipv4 unicast\n  network 172.16.%s.0/24\n' $1
}
start() {
    frr r$1 zebra < /dev/null; await test -S r$1/zserv
    ospf $* | frr r$1 ospfd; bgp $* | frr r$1 bgpd
}
start 1 2 3; start 2 1 3; start 3 1 2
far() { ip -n r1 route show 172.16.3.0/24 | grep "via 10.0.1$1.$1 dev e$1 proto bgp"; }
await learned 3; await far 3
ip -n r1 route show 10.3.0.0/24 | grep -o 'proto ospf'; crosses
ip -n r1 link set e3 down
await learned 2; await far 2; crosses
finish"#;
    holds(
        &ordinarily_in(&[TRIANGLE, FRR].concat(), Time::Virtual, script),
        &["proto ospf\nttl=64\nttl=63\n"],
    );
}

/// A sender, three routers of which the second is the rendezvous point, and a member of a group.
const GROUP: &str = r#"
link() {
    ip link add $2 netns $1 type veth peer name $5 netns $4
    ip -n $1 addr add $3/24 dev $2; ip -n $4 addr add $6/24 dev $5
    ip -n $1 link set $2 up; ip -n $4 link set $5 up
}
for n in s r1 r2 r3 h; do ip netns add $n; ip -n $n link set lo up; done
for n in r1 r2 r3; do ip netns exec $n sysctl -qw net.ipv4.ip_forward=1; done
link s eth0 10.1.0.2 r1 lan 10.1.0.1; link r3 lan 10.3.0.1 h eth0 10.3.0.2
link r1 e2 10.0.12.1 r2 e1 10.0.12.2; link r2 e3 10.0.23.2 r3 e2 10.0.23.3
ip -n r2 link add lan type dummy; ip -n r2 addr add 10.2.0.1/24 dev lan; ip -n r2 link set lan up
for to in 10.2.0.0/15 10.0.23.0/24; do ip -n r1 route add $to via 10.0.12.2; done
ip -n r2 route add 10.1.0.0/24 via 10.0.12.1; ip -n r2 route add 10.3.0.0/24 via 10.0.23.3
for to in 10.2.0.0/24 10.1.0.0/24 10.0.12.0/24; do ip -n r3 route add $to via 10.0.23.2; done
ip -n s route add default via 10.1.0.1; ip -n h route add default via 10.3.0.1
sleep 3
"#;

/// FRR routes a group in sparse mode: the first packet goes to the rendezvous point in a register, and the tree of the
/// sender follows. Linux 6.1 prints the same.
#[test]
fn frr_routes_a_group_by_pim() {
    if !have(&[("/usr/lib/frr/pimd", "frr"), ("socat", "socat")]) {
        return;
    }
    let script = r#"pim() {
    echo 'ip pim rp 10.2.0.1 239.0.0.0/8'
    for device; do printf 'interface %s\n ip pim\n ip pim hello 1\n' $device; done
    printf 'interface lan\n ip igmp\n'
}
start() { frr $1 zebra < /dev/null; await test -S $1/zserv; pim ${*:2} | frr $1 pimd; }
start r1 lan e2; start r2 lan e1 e3; start r3 lan e2
sleep 4
ip netns exec h socat -u UDP4-RECV:5000,ip-add-membership=239.1.1.1:eth0 OPEN:got,creat,append &
routes() { ip -n $1 -s mroute show | sed 's/, Age .*//'; }
await sh -c 'ip -n r2 mroute show | grep 239.1.1.1'
for n in {1..8}; do
    echo "packet $n" | ip netns exec s socat -u - UDP4-DATAGRAM:239.1.1.1:5000,ip-multicast-ttl=9
    sleep 1
done
cat got; routes r1; routes r2; routes r3; 
ip -n r1 -s link show pimreg | awk 'END { print ($2 ? "registered" : "not registered") }'
finish"#;
    let expected = "packet 2\npacket 3\npacket 4\npacket 5\npacket 6\npacket 7\npacket 8\n\
        (10.1.0.2,239.1.1.1)             Iif: lan        Oifs: e2  State: resolved\n  \
        8 packets, 296 bytes, 1 arrived on wrong iif.\n\
        (0.0.0.0,239.1.1.1)              Iif: lan        Oifs: e3 lan  State: resolved\n  \
        0 packets, 0 bytes\n\
        (10.1.0.2,239.1.1.1)             Iif: e1         Oifs: e3  State: resolved\n  \
        9 packets, 333 bytes, 1 arrived on wrong iif.\n\
        (0.0.0.0,239.1.1.1)              Iif: e2         Oifs: pimreg e2 lan  State: resolved\n  \
        1 packets, 37 bytes\n\
        (10.1.0.2,239.1.1.1)             Iif: e2         Oifs: lan  State: resolved\n  \
        6 packets, 222 bytes\n\
        registered\n";
    let printed = ordinarily_in(&[GROUP, FRR].concat(), Time::Virtual, script);
    holds(&printed, &[expected]);
}

#[test]
fn keepalived_moves_an_address() {
    if !have(&[("keepalived", "keepalived")]) {
        return;
    }
    let script = r#"ip netns add sw; ip -n sw link add br0 type bridge; ip -n sw link set br0 up
for i in 1 2 3; do
    ip netns add n$i; ip link add eth0 netns n$i type veth peer name p$i netns sw
    ip -n sw link set p$i master br0; ip -n sw link set p$i up
    ip -n n$i link set eth0 up; ip -n n$i addr add 10.0.0.$i/24 dev eth0
done
router() {
    cat > n$1.conf <<END
global_defs { router_id n$1 
    vrrp_garp_master_delay 1 }
vrrp_instance one {
    state BACKUP
    interface eth0
    virtual_router_id 7
    priority $2
    advert_int 1
    virtual_ipaddress { 10.0.0.9/24 }
}
END
    ip netns exec n$1 keepalived -n -l -f $D/n$1.conf -p $D/n$1.pid -r $D/n$1.vrrp -c $D/n$1.chk > n$1.log 2>&1 &
}
router 1 200; router 2 100
has() { ip -n n$1 addr show dev eth0 | grep 10.0.0.9/24; }
neighbour() { ip netns exec n3 ping -n -c 1 -W 2 10.0.0.9 > /dev/null; ip -n n3 neigh show 10.0.0.9 | grep $(ip -n n$1 -o link show eth0 | grep -o 'ether [0-9a-f:]*' | cut -d' ' -f2); }
await has 1; ! has 2; await neighbour 1; echo first
kill $(cat n1.pid)
await has 2; ! has 1; await neighbour 2; echo second; await test ! -e n1.pid
router 1 200
await has 1 || cat n1.log; await neighbour 1; echo first
finish"#;
    assert!(ordinarily_in("", Time::Virtual, script).ends_with("first\nsecond\nfirst\n"));
}
