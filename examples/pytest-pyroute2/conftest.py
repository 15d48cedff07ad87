# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small network test suite, as a project that uses pyroute2 would have it.

    weir run -- pytest examples/pytest-pyroute2              # nobody needs to be root
    unshare --map-root-user --net --mount sh -c \\
        'mount -t tmpfs tmpfs /run && pytest examples/pytest-pyroute2'   # the same on real Linux

Nothing in it knows of Weir. Packages: see requirements.txt; `tc` and `ip` for two tests.
"""

import itertools
import subprocess

import pytest
from pyroute2 import IPRoute, netns

numbers = itertools.count(1)

# What some kernels put into every new namespace.
FALLBACK = {"lo", "sit0", "ip6tnl0", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}


def pytest_sessionstart(session):
    """Refuses to work on a machine's own network: the tests make and remove links."""
    with IPRoute() as ipr:
        links = {link.get("ifname") for link in ipr.get_links()} - FALLBACK
    if links:
        pytest.exit(f"not an empty network namespace, it has {', '.join(sorted(links))}", returncode=2)


@pytest.fixture
def ipr():
    """An IPRoute; the links a test made are gone after it, and so is what hung on them."""
    with IPRoute() as ipr:
        yield ipr
        for link in ipr.get_links():
            if link.get("ifname") not in FALLBACK and ipr.link_lookup(index=link["index"]):
                ipr.link("del", index=link["index"])
        ipr.flush_rules(priority=lambda priority: 0 < (priority or 0) < 32766)


@pytest.fixture
def dummy(ipr):
    """Makes a dummy link, up, and returns its index."""

    def make(name, **how):
        ipr.link("add", ifname=name, kind="dummy", **how)
        (index,) = ipr.link_lookup(ifname=name)
        ipr.link("set", index=index, state="up")
        return index

    return make


@pytest.fixture
def namespace():
    """Makes network namespaces and removes them after the test."""
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
    """Runs a command and returns what it prints."""

    def run(command, check=True):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if check and done.returncode:
            pytest.fail(f"{command}: exit status {done.returncode}: {done.stderr}")
        return done.stdout if check else done

    return run
