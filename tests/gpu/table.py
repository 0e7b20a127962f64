"""The rows of run_suite.py as a table for people, and how much faster than eager and the better of Inductor's modes."""

import json
import math
import pathlib
import sys

COLUMNS = {
    "workload": "name", "eager ms": "eager_ms", "Inductor ms": "inductor_ms", "reduce-overhead ms": "inductor-ro_ms",
    "Preheat ms": "preheat_ms", "right": "right", "error": "preheat_error", "eager's": "eager_error",
    "first call s": "preheat_first_s", "Inductor's s": "inductor_first_s", "kernels": "preheat_kernels",
}  # fmt: skip


def mean(ratios: list[float]) -> str:
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} ({len(ratios)})" if ratios else "-"


rows = [json.loads(line) for path in sys.argv[1:] for line in pathlib.Path(path).read_text().splitlines()]
merged: dict[str, dict] = {}
for row in rows:  # backends may have been measured by several runs
    merged.setdefault(row["name"], {}).update({k: v for k, v in row.items() if k not in merged.get(row["name"], {})})
print("| " + " | ".join(COLUMNS) + " |")
print("| " + " | ".join("---" for _ in COLUMNS) + " |")
for row in merged.values():
    if why := row.get("failed") or row.get("preheat_failed"):
        print(f"| {row['name']} | failed: {why[:150]} |")
        continue
    cells = [row.get(field, "") for field in COLUMNS.values()]
    print("| " + " | ".join(f"{c:.2e}" if isinstance(c, float) and 0 < c < 1e-3 else str(c) for c in cells) + " |")
    for note in ("preheat_extern", "preheat_fallbacks"):
        if row.get(note):
            print(f"|   {note.removeprefix('preheat_')}: {row[note]}")
done = [r for r in merged.values() if "preheat_ms" in r]
print("faster than eager, geometric mean:", mean([r["eager_ms"] / r["preheat_ms"] for r in done]))
peers = [(r, [r[p] for p in ("inductor_ms", "inductor-ro_ms") if p in r]) for r in done]
print("faster than the better Inductor:", mean([min(p) / r["preheat_ms"] for r, p in peers if p]))
