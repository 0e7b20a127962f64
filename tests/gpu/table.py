"""The rows of run_suite.py as a table for people."""

import json
import pathlib
import sys

COLUMNS = {
    "workload": "name", "dtype": "dtype", "eager ms": "eager_ms", "Inductor ms": "inductor_ms",
    "Preheat ms": "preheat_ms", "right": "right", "kernels": "kernels", "compile s": "seconds",
    "Inductor's first call s": "inductor_first_s",
}  # fmt: skip

print("| " + " | ".join(COLUMNS) + " |")
print("| " + " | ".join("---" for _ in COLUMNS) + " |")
for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    row = json.loads(line)
    if "failed" in row:
        print(f"| {row['name']} | failed: {row['failed'][:120]} | | | | | | | |")
        continue
    print("| " + " | ".join(str(row.get(field, "")) for field in COLUMNS.values()) + " |")
