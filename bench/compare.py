# SPDX-License-Identifier: Apache-2.0
"""python3 bench/compare.py FOLDER PERCENT: what bench/compare.sh measured, as a table of ratios.

FOLDER has PROGRAM.old.N.json and PROGRAM.new.N.json. Exit code 1 when a row got slower by more than
PERCENT in its medians and in its best rounds.
"""
import json
import pathlib
import statistics
import sys

OURS = ("manta", "threads")  # how the names of our contestants begin


def samples(folder, side):
    """Values of all warm rounds (of the cold ones where there are no others) by row and name."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob(f"*.{side}.*.json")):
        for row in json.loads(path.read_text())["rows"]:
            if not row["who"].startswith(OURS) or row["failure"]:
                continue
            warm = [s["value"] for s in row["samples"] if not s["cold"]]
            values = warm or [s["value"] for s in row["samples"]]
            key = (path.name.split(".")[0], row["key"], row["who"], row["unit"])
            found.setdefault(key, []).extend(v for v in values if v is not None)
    return found


def main():
    folder, limit = sys.argv[1], 1 + float(sys.argv[2]) / 100
    old, new = samples(folder, "old"), samples(folder, "new")
    print("| row | who | old | new | medians, new / old | best rounds | rounds | |")
    print("|---|---|--:|--:|--:|--:|--:|---|")
    slower = 0
    for key in new:
        if not old.get(key) or not new[key]:
            continue
        is_rate = key[3] == "per s"
        best = max if is_rate else min
        medians = [statistics.median(side[key]) for side in (old, new)]
        bests = [best(side[key]) for side in (old, new)]
        ratios = [a / b if is_rate else b / a for a, b in (medians, bests) if a and b]
        if len(ratios) < 2:
            continue
        is_slower = min(ratios) > limit
        slower += is_slower
        print(f"| {key[1]} | {key[2]} | {medians[0]:.4g} | {medians[1]:.4g} {key[3]} "
              f"| {ratios[0]:.3f} | {ratios[1]:.3f} | {len(new[key])} "
              f"| {'SLOWER' if is_slower else ''} |")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
