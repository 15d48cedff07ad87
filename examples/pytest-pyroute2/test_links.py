# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Links: creation, changes, look-up, removal, notifications."""

import errno

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

UP = 0x1


def test_loopback_exists(ipr):
    (lo,) = ipr.get_links(ifname="lo")
    assert lo["index"] == 1
    assert lo.get("address") == "00:00:00:00:00:00"


def test_dummy(ipr, dummy):
    index = dummy("d0", address="02:00:00:00:00:07", mtu=1400)
    (link,) = ipr.get_links(index)
    assert link.get("ifname") == "d0"
    assert link.get("address") == "02:00:00:00:00:07"
    assert link.get("mtu") == 1400
    assert link.get(("linkinfo", "kind")) == "dummy"
    assert link["flags"] & UP


def test_veth_ends_know_each_other(ipr):
    ipr.link("add", ifname="left", kind="veth", peer="right")
    (left,), (right,) = ipr.link_lookup(ifname="left"), ipr.link_lookup(ifname="right")
    assert ipr.get_links(left)[0].get("link") == right
    assert ipr.get_links(right)[0].get("link") == left
    # A veth has a carrier only while both ends are up.
    ipr.link("set", index=left, state="up")
    assert ipr.get_links(left)[0].get("carrier") == 0
    ipr.link("set", index=right, state="up")
    assert ipr.get_links(left)[0].get("carrier") == 1
    # Deleting one end deletes the other.
    ipr.link("del", index=right)
    assert not ipr.link_lookup(ifname="left")


def test_vlan(ipr, dummy):
    base = dummy("d0")
    ipr.link("add", ifname="d0.5", kind="vlan", link=base, vlan_id=5)
    (link,) = ipr.get_links(ifname="d0.5")
    assert link.get("link") == base
    assert link.get(("linkinfo", "data", "vlan_id")) == 5


def test_set(ipr, dummy):
    index = dummy("d0")
    ipr.link("set", index=index, state="down")
    ipr.link("set", index=index, ifname="renamed", mtu=9000, ifalias="a test link")
    (link,) = ipr.get_links(index)
    assert (link.get("ifname"), link.get("mtu")) == ("renamed", 9000)
    assert link.get("ifalias") == "a test link"
    assert not link["flags"] & UP


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"command": "add", "ifname": "lo", "kind": "dummy"}, errno.EEXIST),
        ({"command": "add", "ifname": "x0", "kind": "no-such-kind"}, errno.EOPNOTSUPP),
        ({"command": "set", "index": 4711, "state": "up"}, errno.ENODEV),
        ({"command": "del", "index": 4711}, errno.ENODEV),
    ],
)
def test_errors(ipr, request_, code):
    before = len(ipr.get_links())
    with pytest.raises(NetlinkError) as error:
        ipr.link(request_.pop("command"), **request_)
    assert error.value.code == code
    assert len(ipr.get_links()) == before


def test_a_watcher_is_notified(ipr):
    with IPRoute() as watcher:
        watcher.bind()
        ipr.link("add", ifname="watched", kind="dummy")
        for message in watcher.get():
            if message["event"] == "RTM_NEWLINK" and message.get("ifname") == "watched":
                return
    pytest.fail("no RTM_NEWLINK arrived")


def test_many(ipr):
    for n in range(100):
        ipr.link("add", ifname=f"d{n}", kind="dummy")
    names = {link.get("ifname") for link in ipr.get_links()}
    assert {f"d{n}" for n in range(100)} <= names
