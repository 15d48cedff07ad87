#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""table.py DIRECTORY FEED...: prints a row for each run with the figures of its bottleneck queue.

The figures come from the runs' reports, FEED-fifo.json and FEED-fair.json, for core/to-edge: packets
sent and dropped, the largest backlog at the end of an interval, and how long packets waited.
"""
import json
import sys

COLUMNS = ["traffic", "queue", "left", "dropped", "most waiting", "median wait", "95% below", "longest"]
WIDTHS = ["<11", "<4", ">8", ">9", ">14", ">13", ">12", ">12"]


def row(directory, feed, queue):
    """Returns the cells of a run."""
    with open(f"{directory}/{feed}-{queue}.json", encoding="utf-8") as file:
        report = json.load(file)
    device = next(device for device in report["devices"] if device["name"] == "core/to-edge")
    dropped = sum(drop["packets"] for drop in device["drops"] if drop["place"] == "qdisc")
    waits = [f"{device['sojourn'][name] / 1e6:.1f} ms" for name in ("p50_ns", "p95_ns", "max_ns")]
    return [feed, queue, device["sojourn"]["packets"], dropped, max(device["series"]["waiting"])] + waits


def main():
    directory, *feeds = sys.argv[1:]
    for cells in [COLUMNS] + [row(directory, feed, queue) for feed in feeds for queue in ("fifo", "fair")]:
        print("".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS)).rstrip())


main()
