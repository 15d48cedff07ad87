# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Network namespaces: creation, entering, moving links between them."""

import errno
import time

import pytest
from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError


def test_create_list_remove(namespace):
    name = namespace()
    assert name in netns.listnetns()
    netns.remove(name)
    assert name not in netns.listnetns()


def test_a_new_namespace_has_only_a_loopback(namespace):
    with IPRoute(netns=namespace()) as inside:
        names = [link.get("ifname") for link in inside.get_links()]
    assert names[0] == "lo"
    assert not any(name.startswith(("d", "v")) for name in names)


def test_links_are_private_to_a_namespace(ipr, namespace):
    with IPRoute(netns=namespace()) as one, IPRoute(netns=namespace()) as other:
        one.link("add", ifname="d0", kind="dummy")
        assert one.link_lookup(ifname="d0")
        assert not other.link_lookup(ifname="d0")
        assert not ipr.link_lookup(ifname="d0")


def test_veth_between_two(ipr, namespace):
    name = namespace()
    ipr.link("add", ifname="v0", kind="veth", peer={"ifname": "v1", "net_ns_fd": name})
    assert ipr.link_lookup(ifname="v0")
    assert not ipr.link_lookup(ifname="v1")
    with IPRoute(netns=name) as inside:
        (index,) = inside.link_lookup(ifname="v1")
        inside.link("set", index=index, state="up")
        inside.addr("add", index=index, address="10.9.0.2", prefixlen=24)
        (route,) = inside.route("get", dst="10.9.0.77")
        assert route.get("oif") == index
    with pytest.raises(NetlinkError) as error:
        ipr.route("get", dst="10.9.0.77")
    assert error.value.code == errno.ENETUNREACH


def test_a_link_moves(ipr, dummy, namespace):
    name = namespace()
    index = dummy("d0", address="02:00:00:00:00:33")
    ipr.addr("add", index=index, address="10.0.0.1", prefixlen=24)
    ipr.link("set", index=index, net_ns_fd=name)
    assert not ipr.link_lookup(ifname="d0")
    with IPRoute(netns=name) as inside:
        (link,) = inside.get_links(ifname="d0")
        assert link.get("address") == "02:00:00:00:00:33"
        # The addresses are not moved.
        assert not list(inside.get_addr(index=link["index"], family=2))


def test_removal_removes_the_links(ipr, namespace):
    name = namespace()
    ipr.link("add", ifname="v0", kind="veth", peer={"ifname": "v1", "net_ns_fd": name})
    netns.remove(name)
    for _ in range(100):
        if not ipr.link_lookup(ifname="v0"):
            return
        time.sleep(0.05)
    pytest.fail("v0 outlived the namespace of its peer")


def test_ip_netns_lists_namespaces(namespace, sh):
    name = namespace()
    assert name in sh("ip netns list")
    sh(f"ip -n {name} link add d0 type dummy")
    with IPRoute(netns=name) as inside:
        assert inside.link_lookup(ifname="d0")
