"""Shows measurements side by side: python table.py FILE…

A file is the output of `apfl bench --json` (one document) or of a peer (one line per
measurement). Rates are steps per second on one thread; a ratio is apfl's rate over the peer's. For
a benchmark that was measured several times, the table shows the median and, in brackets, the range;
ratios are computed turn by turn.
"""

import json
import statistics
import sys

OURS = "apfl"


def read(path):
    """Measurements, each with its peer."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            sys.exit(f"{path}: expected a JSON document or lines of JSON: {error}")
    if "measurements" in document:
        return [{"peer": OURS} | m for m in document["measurements"] if m.get("threads", 1) == 1]
    return [document]


def number(value):
    """Three digits, or all digits of a large number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def shown(values, text=number):
    """The median, and the range of several values."""
    middle = text(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({text(min(values))}–{text(max(values))})"


def table(measurements):
    """Rows of text: the benchmark, the rate and the memory of each peer, the ratios."""
    turns, benchmarks, peers = {}, [], []
    for m in measurements:
        key = m["work"], m.get("batch", 20)
        if m["peer"] not in peers:
            peers.append(m["peer"])
        if key not in benchmarks:
            benchmarks.append(key)
        turns.setdefault((key, m["peer"]), []).append(m)
    others = [peer for peer in peers if peer != OURS]
    head = ["benchmark", "batch", *peers, *(f"× {peer}" for peer in others if OURS in peers)]
    rows = [head, ["", "", *["steps/s · MB"] * len(peers), *[""] * (len(head) - 2 - len(peers))]]
    for key in sorted(benchmarks, key=lambda key: (key[0].split("-")[0], benchmarks.index(key))):
        row = [key[0], str(key[1])]
        rates = {}
        for peer in peers:
            own = turns.get((key, peer), [])
            rates[peer] = [m["steps_per_second"] for m in own]
            memory = [m["peak_rss_mb"] for m in own if m.get("peak_rss_mb")]
            memory = number(max(memory)) if memory else "–"
            row.append(f"{shown(rates[peer])} · {memory}" if own else "–")
        for peer in others if OURS in peers else []:
            ratios = [ours / other for ours, other in zip(rates[OURS], rates[peer])]
            row.append(shown(ratios, "{:.2f}".format) if ratios else "–")
        rows.append(row)
    return rows


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    measurements = [m for path in sys.argv[1:] for m in read(path)]
    if not measurements:
        sys.exit("the files have no measurements")
    rows = table(measurements)
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        cells = [c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
    if OURS not in rows[0]:
        print("\napfl was not measured, so there are no ratios.")
    busy = dict.fromkeys(
        f"{m['peer']} {m['work']} {m['batch']}"
        for m in measurements
        if m.get("steps_per_cpu_second", 0) > 1.1 * m["steps_per_second"]
    )
    if busy:
        print("\nThis table is not reliable: the core was busy with other processes for more than a tenth")
        print("of the time in " + ", ".join(busy))


if __name__ == "__main__":
    main()
