# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Addresses and the routes they create; routes, rules, neighbours."""

import errno

import pytest
from pyroute2.netlink.exceptions import NetlinkError

RTN_LOCAL, RTN_BROADCAST, RTN_BLACKHOLE, RTN_UNREACHABLE = 2, 3, 6, 7
NUD_REACHABLE, NUD_PERMANENT = 0x02, 0x80


def routes_to(ipr, destination):
    """Returns the routes of the main table with this destination (pyroute2's own `dst` does a route look-up)."""
    family = 10 if ":" in destination else 2
    return [route for route in ipr.get_routes(family=family, table=254) if route.get("dst") == destination]


def test_address(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.1.2.3", prefixlen=24, broadcast="10.1.2.255")
    (address,) = ipr.get_addr(index=index, family=2)
    assert address.get("address") == "10.1.2.3"
    assert address.get("label") == "d0"
    assert address.get("broadcast") == "10.1.2.255"
    assert address["prefixlen"] == 24
    ipr.addr("del", index=index, address="10.1.2.3", prefixlen=24)
    assert not list(ipr.get_addr(index=index, family=2))


def test_address_twice(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.1.2.3", prefixlen=24)
    with pytest.raises(NetlinkError) as error:
        ipr.addr("add", index=index, address="10.1.2.3", prefixlen=24)
    assert error.value.code == errno.EEXIST
    ipr.addr("replace", index=index, address="10.1.2.3", prefixlen=24)


def test_an_address_creates_its_routes(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.1.2.3", prefixlen=24, broadcast="10.1.2.255")
    (connected,) = ipr.get_routes(oif=index, table=254, family=2)
    assert (connected.get("dst"), connected["dst_len"]) == ("10.1.2.0", 24)
    assert connected.get("prefsrc") == "10.1.2.3"
    local = {(route.get("dst"), route["type"]) for route in ipr.get_routes(oif=index, table=255, family=2)}
    assert {("10.1.2.3", RTN_LOCAL), ("10.1.2.255", RTN_BROADCAST)} <= local


def test_address_v6(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="2001:db8::1", prefixlen=64)
    addresses = {address.get("address") for address in ipr.get_addr(index=index, family=10)}
    assert "2001:db8::1" in addresses
    assert any(address.startswith("fe80::") for address in addresses)
    (connected,) = routes_to(ipr, "2001:db8::")
    assert connected["dst_len"] == 64


def test_longest_prefix_wins(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.route("add", dst="192.0.2.0/24", gateway="10.0.0.2")
    ipr.route("add", dst="192.0.2.128/25", gateway="10.0.0.3")
    for destination, gateway in [("192.0.2.5", "10.0.0.2"), ("192.0.2.200", "10.0.0.3")]:
        (route,) = ipr.route("get", dst=destination)
        assert route.get("gateway") == gateway
        assert route.get("prefsrc") == "10.0.0.1"


def test_multipath(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.route("add", dst="198.51.100.0/24", multipath=[{"gateway": "10.0.0.2"}, {"gateway": "10.0.0.3", "hops": 4}])
    (route,) = routes_to(ipr, "198.51.100.0")
    paths = [(path.get("gateway"), path["hops"]) for path in route.get("multipath")]
    assert paths == [("10.0.0.2", 0), ("10.0.0.3", 4)]


@pytest.mark.parametrize(
    ("kind", "number", "code"),
    [("blackhole", RTN_BLACKHOLE, errno.EINVAL), ("unreachable", RTN_UNREACHABLE, errno.EHOSTUNREACH)],
)
def test_refusing_routes(ipr, kind, number, code):
    ipr.route("add", dst="203.0.113.0/24", type=kind)
    try:
        (route,) = routes_to(ipr, "203.0.113.0")
        assert route["type"] == number
        with pytest.raises(NetlinkError) as error:
            ipr.route("get", dst="203.0.113.1")
        assert error.value.code == code
    finally:
        ipr.route("del", dst="203.0.113.0/24", type=kind)


def test_gateway_out_of_reach(ipr, dummy):
    dummy("d0")
    with pytest.raises(NetlinkError) as error:
        ipr.route("add", dst="192.0.2.0/24", gateway="172.16.0.1")
    assert error.value.code == errno.ENETUNREACH


def test_routes_are_removed_with_their_link(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.route("add", dst="192.0.2.0/24", gateway="10.0.0.2")
    ipr.link("del", index=index)
    assert not routes_to(ipr, "192.0.2.0")


def test_rule_picks_the_table(ipr, dummy):
    index = dummy("d0")
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.addr("add", index=index, address="10.0.1.1", prefixlen=24)
    ipr.route("add", dst="192.0.2.0/24", gateway="10.0.0.2")
    ipr.route("add", dst="192.0.2.0/24", gateway="10.0.1.2", table=100)
    ipr.rule("add", src="10.0.1.1", src_len=32, table=100, priority=50)
    assert [rule.get("table") for rule in ipr.get_rules(family=2, priority=50)] == [100]
    (route,) = ipr.route("get", dst="192.0.2.1", src="10.0.0.1")
    assert route.get("gateway") == "10.0.0.2"
    (route,) = ipr.route("get", dst="192.0.2.1", src="10.0.1.1")
    assert route.get("gateway") == "10.0.1.2"


def test_neighbour(ipr, dummy):
    index = dummy("d0")
    ipr.neigh("add", dst="10.0.0.9", lladdr="02:00:00:00:00:09", ifindex=index, state="permanent")
    (neighbour,) = ipr.get_neighbours(ifindex=index, dst="10.0.0.9")
    assert neighbour.get("lladdr") == "02:00:00:00:00:09"
    assert neighbour["state"] == NUD_PERMANENT
    ipr.neigh("replace", dst="10.0.0.9", lladdr="02:00:00:00:00:0a", ifindex=index, state="reachable")
    (neighbour,) = ipr.get_neighbours(ifindex=index, dst="10.0.0.9")
    assert (neighbour.get("lladdr"), neighbour["state"]) == ("02:00:00:00:00:0a", NUD_REACHABLE)
    ipr.neigh("del", dst="10.0.0.9", ifindex=index)
