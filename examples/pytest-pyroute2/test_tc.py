# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Traffic control: queueing disciplines, filters, actions."""

import errno

import pytest
from pyroute2 import protocols
from pyroute2.netlink.exceptions import NetlinkError

INGRESS = 0xFFFFFFF2
EGRESS = 0xFFFFFFF3


SHOT = 2
EGRESS_MIRROR = 2


def action_of(filter_):
    """Returns the kind and parameters of the only action of a matchall filter."""
    action = filter_.get("TCA_OPTIONS").get("TCA_MATCHALL_ACT").get("TCA_ACT_PRIO_1")
    kind = action.get("TCA_ACT_KIND")
    return kind, action.get("TCA_ACT_OPTIONS").get(f"TCA_{kind.upper()}_PARMS")


def filters(ipr, index, parent):
    """Returns the filters, without the entry that represents their priority."""
    return [f for f in ipr.get_filters(index=index, parent=parent) if f["handle"]]


def kinds(ipr, index):
    return [qdisc.get("kind") for qdisc in ipr.get_qdiscs(index=index)]


def test_pfifo(ipr, dummy):
    index = dummy("d0")
    ipr.tc("add", "pfifo", index, "1:", limit=77)
    (qdisc,) = [q for q in ipr.get_qdiscs(index=index) if q.get("kind") == "pfifo"]
    assert qdisc["handle"] == 0x10000
    assert qdisc.get("options") is not None
    ipr.tc("del", index=index, handle="1:", root=True)
    assert "pfifo" not in kinds(ipr, index)


def test_clsact_is_added_and_removed(ipr, dummy):
    index = dummy("d0")
    ipr.tc("add", "clsact", index)
    assert "clsact" in kinds(ipr, index)
    with pytest.raises(NetlinkError) as error:
        ipr.tc("add", "clsact", index)
    assert error.value.code == errno.EEXIST
    ipr.tc("del", "clsact", index)
    assert "clsact" not in kinds(ipr, index)


def test_matchall_drops(ipr, dummy):
    index = dummy("d0")
    ipr.tc("add", "clsact", index)
    ipr.tc(
        "add-filter", "matchall", index, parent=INGRESS, prio=7, protocol=protocols.ETH_P_ALL,
        action={"kind": "gact", "action": "drop"},
    )  # fmt: skip
    (found,) = filters(ipr, index, INGRESS)
    assert (found.get("kind"), found["info"] >> 16) == ("matchall", 7)
    kind, parameters = action_of(found)
    assert (kind, parameters["action"]) == ("gact", SHOT)
    assert not list(ipr.get_filters(index=index, parent=EGRESS))


def test_mirred_names_its_target(ipr, dummy):
    source, target = dummy("d0"), dummy("d1")
    ipr.tc("add", "clsact", source)
    ipr.tc(
        "add-filter", "matchall", source, parent=INGRESS, prio=1, protocol=protocols.ETH_P_ALL,
        action={"kind": "mirred", "direction": "egress", "action": "mirror", "ifindex": target},
    )  # fmt: skip
    (found,) = filters(ipr, source, INGRESS)
    kind, parameters = action_of(found)
    assert (kind, parameters["eaction"], parameters["ifindex"]) == ("mirred", EGRESS_MIRROR, target)


def test_flower_by_tc_seen_by_pyroute2(ipr, dummy, sh):
    index = dummy("d0")
    sh("tc qdisc add dev d0 clsact")
    sh("tc filter add dev d0 ingress pref 3 protocol ip flower dst_ip 192.0.2.0/24 ip_proto udp dst_port 53 action drop")
    found = list(ipr.get_filters(index=index, parent=INGRESS))
    assert {f.get("kind") for f in found} == {"flower"}
    assert {f["info"] >> 16 for f in found} == {3}
    shown = sh("tc filter show dev d0 ingress")
    assert "dst_ip 192.0.2.0/24" in shown
    assert "gact action drop" in shown
    sh("tc filter del dev d0 ingress pref 3")
    assert not list(ipr.get_filters(index=index, parent=INGRESS))


def test_a_wrong_filter_changes_nothing(ipr, dummy, sh):
    index = dummy("d0")
    sh("tc qdisc add dev d0 clsact")
    done = sh("tc filter add dev d0 ingress pref 3 protocol ip flower action mirred egress redirect dev nope", check=False)
    assert done.returncode != 0
    assert not list(ipr.get_filters(index=index, parent=INGRESS))
