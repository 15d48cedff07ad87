# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small network test suite, such as a project that uses pyroute2 might have.

    weir run -- pytest examples/pytest-pyroute2              # root is not needed
    unshare --map-root-user --net --mount sh -c \\
        'mount -t tmpfs tmpfs /run && pytest examples/pytest-pyroute2'   # the same on real Linux

Nothing in it depends on Weir. Packages: see requirements.txt; two tests also need `tc` and `ip`.
"""

import itertools
import subprocess

import pytest
from pyroute2 import IPRoute, netns

numbers = itertools.count(1)

# Links that some kernels create in every new namespace.
FALLBACK = {"lo", "sit0", "ip6tnl0", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}


def pytest_sessionstart(session):
    """Refuses to run in the host's own network, because the tests create and remove links."""
    with IPRoute() as ipr:
        links = {link.get("ifname") for link in ipr.get_links()} - FALLBACK
    if links:
        pytest.exit(f"not an empty network namespace, it has {', '.join(sorted(links))}", returncode=2)


@pytest.fixture
def ipr():
    """Provides an IPRoute, and removes the links that a test created, with everything attached to them."""
    with IPRoute() as ipr:
        yield ipr
        for link in ipr.get_links():
            if link.get("ifname") not in FALLBACK and ipr.link_lookup(index=link["index"]):
                ipr.link("del", index=link["index"])
        ipr.flush_rules(priority=lambda priority: 0 < (priority or 0) < 32766)


@pytest.fixture
def dummy(ipr):
    """Creates a dummy link, sets it up, and returns its index."""

    def make(name, **how):
        ipr.link("add", ifname=name, kind="dummy", **how)
        (index,) = ipr.link_lookup(ifname=name)
        ipr.link("set", index=index, state="up")
        return index

    return make


@pytest.fixture
def namespace():
    """Creates network namespaces and removes them after the test."""
    made = []

    def make():
        name = f"pytest{next(numbers)}"
        netns.create(name)
        made.append(name)
        return name

    yield make
    for name in made:
        if name in netns.listnetns():
            netns.remove(name)


@pytest.fixture
def sh():
    """Runs a command and returns its output."""

    def run(command, check=True):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if check and done.returncode:
            pytest.fail(f"{command}: exit status {done.returncode}: {done.stderr}")
        return done.stdout if check else done

    return run
