#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""plot.py DIRECTORY FEED...: what happened in front of the line: a table, FEED.svg, and index.html.

For each FEED and queue, `fifo` and `fair`: a packet comes when FEED-QUEUE-arrivals.pcapng has it, since
routing takes no time; it leaves when FEED-QUEUE-left.pcapng has it, or is dropped when
FEED-QUEUE-drops.pcapng has it. FEED-QUEUE.txt is the run's own report.
"""
import collections
import gzip
import html
import struct
import sys

SLOT = 50_000_000  # ns of one point of the plots
QUEUES = {"fifo": "htb and a pfifo of 1000 packets", "fair": "htb and fq_codel"}
TITLES = ["packets waiting", "longest sojourn, ms", "throughput, kbit/s"]
COLUMNS = ["traffic", "queue", "left", "dropped", "most waiting", "median wait", "95% below", "longest"]


def frames(path):
    """Time in ns and bytes of each frame of a pcapng file."""
    data = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
    at, units = 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 1:  # interface description: look for if_tsresol
            resolution, option = 6, at + 16
            while option < at + length - 4:
                code, size = struct.unpack_from("<HH", data, option)
                if code == 9:
                    resolution = data[option + 4]
                option += 4 + (size + 3 & ~3)
                if code == 0:
                    break
            units.append(10 ** (9 - resolution))
        elif kind == 6:  # enhanced packet
            port, high, low, size, _ = struct.unpack_from("<IIIII", data, at + 8)
            yield (high << 32 | low) * units[port], data[at + 28 : at + 28 + size]
        at += length


def key(frame):
    """What tells packets apart and no router changes; None for what is not routed IP."""
    kind, packet = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(packet) >= 20:
        return packet[2:8] + packet[9:10] + packet[12:60]
    if kind == b"\x86\xdd" and len(packet) >= 40:
        return packet[4:7] + packet[8:80]
    return None


def history(name):
    """(came, went, octets, dropped) of each packet that came to the queue of a run."""
    waiting = collections.defaultdict(collections.deque)
    for time, frame in frames(f"{name}-arrivals.pcapng"):
        waiting[key(frame)].append(time)
    packets = []
    ends = [(time, frame, False) for time, frame in frames(f"{name}-left.pcapng")]
    ends += [(time, frame, True) for time, frame in frames(f"{name}-drops.pcapng")]
    for time, frame, dropped in sorted(ends, key=lambda end: end[0]):
        if key(frame) is not None and waiting[key(frame)]:
            packets.append((waiting[key(frame)].popleft(), time, len(frame), dropped))
    return packets


def series(packets, start, slots):
    """By slot: most packets waiting, longest wait in ms, kbit/s that left."""
    length, wait, rate = [0] * slots, [0.0] * slots, [0.0] * slots
    changes = sorted([(a, 1) for a, *_ in packets] + [(left, -1) for _, left, *_ in packets])
    now, at = 0, 0
    for slot in range(slots):
        end = start + (slot + 1) * SLOT
        length[slot] = now
        while at < len(changes) and changes[at][0] < end:
            now += changes[at][1]
            at += 1
            length[slot] = max(length[slot], now)
    for arrived, left, octets, dropped in packets:
        slot = (left - start) // SLOT
        if 0 <= slot < slots and not dropped:
            wait[slot] = max(wait[slot], (left - arrived) / 1e6)
            rate[slot] += octets * 8 * 1e6 / SLOT
    return length, wait, rate


def svg(plots, names, seconds):
    """Three plots above each other, a line a queue."""
    colours = ["#c0392b", "#2471a3", "#1e8449"]
    width, height, pad = 720, 150, 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * pad} {3 * (height + pad) + pad}"'
        ' font-family="sans-serif" font-size="12">'
    ]
    for row, (title, lines) in enumerate(plots):
        top = pad + row * (height + pad)
        most = max(max(line) for line in lines) or 1
        out.append(f'<text x="{pad}" y="{top - 8}">{title}; at most {most:.0f}</text>')
        out.append(f'<rect x="{pad}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
        for colour, line in zip(colours, lines):
            step = width / max(len(line) - 1, 1)
            points = " ".join(
                f"{pad + i * step:.1f},{top + height - value / most * height:.1f}" for i, value in enumerate(line)
            )
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    for place, (colour, name) in enumerate(zip(colours, names)):
        out.append(f'<text x="{pad + place * 90}" y="20" fill="{colour}">{name}</text>')
    out.append(f'<text x="{pad}" y="{3 * (height + pad) + 30}">{seconds:.1f} s from left to right</text></svg>')
    return "\n".join(out) + "\n"


def summary(feed, queue, packets, most):
    """A row of the table."""
    waits = sorted((left - arrived) / 1e6 for arrived, left, _, dropped in packets if not dropped)
    dropped = sum(dropped for *_, dropped in packets)
    shares = (waits[len(waits) // 2], waits[len(waits) * 95 // 100], waits[-1])
    return [feed, queue, str(len(waits)), str(dropped), str(most)] + [f"{wait:.1f} ms" for wait in shares]


def page(rows, plots, reports):
    """The report in HTML, with nothing outside it."""

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    out = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>A bottleneck</title><style>',
        "body { font-family: sans-serif; max-width: 60em; margin: auto }",
        "td, th { padding: 0 0.8em; text-align: right }",
        "</style></head><body><h1>A bottleneck</h1><ul>",
    ]
    out += [f"<li>{name}: {html.escape(what)}</li>" for name, what in QUEUES.items()]
    out += ["</ul><table>", row(COLUMNS, "th")]
    out += [row(cells, "td") for cells in rows]
    out.append("</table>")
    for feed, plot in plots.items():
        out.append(f"<h2>{html.escape(feed)}</h2>\n{plot}")
    for name, text in reports.items():
        out.append(f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>")
    out.append("</body></html>")
    return "\n".join(out) + "\n"


def read(path):
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    """Makes a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    directory, *feeds = sys.argv[1:]
    rows, plots, reports = [], {}, {}
    for feed in feeds:
        runs = {queue: history(f"{directory}/{feed}-{queue}") for queue in QUEUES}
        start = min(arrived for packets in runs.values() for arrived, *_ in packets)
        end = max(left for packets in runs.values() for _, left, *_ in packets)
        slots = (end - start) // SLOT + 1
        lines = [series(packets, start, slots) for packets in runs.values()]
        for (queue, packets), (length, *_) in zip(runs.items(), lines):
            rows.append(summary(feed, queue, packets, max(length)))
            reports[f"{feed}, {queue}"] = read(f"{directory}/{feed}-{queue}.txt")
        plots[feed] = svg(list(zip(TITLES, zip(*lines))), list(QUEUES), (end - start) / 1e9)
        write(f"{directory}/{feed}.svg", plots[feed])
    write(f"{directory}/index.html", page(rows, plots, reports))
    for cells in [COLUMNS] + rows:
        print("".join(f"{cell:<11}" if at < 2 else f"{cell:>14}" for at, cell in enumerate(cells)).rstrip())


if __name__ == "__main__":
    main()
