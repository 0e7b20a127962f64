#!/usr/bin/env python3
"""Writes dashboards/preheat.json, which Grafana (9 or newer) reads. Edit the panels here, never the JSON.

Usage: make_dashboard.py [--check]. --check writes nothing and fails if the file is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent / "dashboards" / "preheat.json"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24

# What the variables of the dashboard choose. $__rate_interval and $__range are Grafana's own.
OF = 'instance=~"$instance"'
REQUESTS = f'{OF}, namespace=~"$namespace"'
ANSWERED = 'result=~"hit|compiled|coalesced"'
RATE = "[$__rate_interval]"

COLORS = {
    "hit": "green",
    "coalesced": "blue",
    "compiled": "orange",
    "negative": "purple",
    "refused": "dark-red",
    "failed": "red",
    "idle": "green",
    "busy": "orange",
    "lost": "red",
}


def hit_rate(window: str, by: str = "") -> str:
    group = f"sum by ({by})" if by else "sum"
    hits = f'{group} (increase(preheat_requests_total{{{REQUESTS}, result="hit"}}{window}))'
    return f"{hits} / {group} (increase(preheat_requests_total{{{REQUESTS}, {ANSWERED}}}{window}))"


def quantile(q: float, metric: str, by: str, selector: str = OF) -> str:
    group = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({group}) (rate({metric}_bucket{{{selector}}}{RATE})))"


# A query, and what its lines are called.
Query = tuple[str, str]


def panel(
    kind: str, title: str, about: str, unit: str, queries: list[Query], width: int, height: int
) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + i),
            "datasource": DATASOURCE,
            "expr": expr,
            "legendFormat": legend or "__auto",
            "editorMode": "code",
            "range": kind != "stat",
            "instant": kind == "stat",
        }
        for i, (expr, legend) in enumerate(queries)
    ]
    overrides = [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in COLORS.items()
    ]
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": DATASOURCE,
        "targets": targets,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": overrides if kind == "timeseries" else []},
    }


def stat(title: str, about: str, unit: str, expr: str) -> dict[str, Any]:
    made = panel("stat", title, about, unit, [(expr, "")], 4, 4)
    made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "colorMode": "none"}
    return made


def graph(
    title: str, about: str, unit: str, *queries: Query, stack: bool = False, width: int = 8, most: float | None = None
) -> dict[str, Any]:
    made = panel("timeseries", title, about, unit, list(queries), width, 8)
    defaults = made["fieldConfig"]["defaults"]
    defaults["custom"] = {
        "lineWidth": 1,
        "fillOpacity": 40 if stack else 8,
        "stacking": {"mode": "normal" if stack else "none"},
        "showPoints": "never",
    }
    if most is not None:
        defaults["max"] = most
    made["options"] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    return made


def row(title: str) -> dict[str, Any]:
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"w": COLUMNS, "h": 1}}


def panels() -> list[dict[str, Any]]:
    by_result = f"sum by (result) (rate(preheat_requests_total{{{REQUESTS}}}{RATE}))"
    by_source = f'sum by (source) (rate(preheat_requests_total{{{REQUESTS}, result="hit"}}{RATE}))'
    stages = f"sum by (stage) (rate(preheat_compile_seconds_sum{{{OF}}}{RATE}))"
    externs = f"topk(10, sum by (op) (increase(preheat_extern_calls_total{{{OF}}}[$__range])))"
    speedups, measured = (f"sum(increase(preheat_tune_speedup_{part}{{{OF}}}[$__range]))" for part in ("sum", "count"))
    return [
        stat(
            "Hit rate",
            "Of what was asked and answered in this range, the share for which nothing was compiled.",
            "percentunit",
            hit_rate("[$__range]"),
        ),
        stat(
            "Requests",
            "In this range, hits in clients' local caches included.",
            "short",
            f"sum(increase(preheat_requests_total{{{REQUESTS}}}[$__range]))",
        ),
        stat(
            "Seconds saved",
            "Compilation that hits did not repeat, once for each job and key.",
            "s",
            f"sum(increase(preheat_compile_seconds_saved_total{{{REQUESTS}}}[$__range]))",
        ),
        stat("Waiting tasks", "Tasks in the queue now.", "short", f"sum(preheat_queue_depth{{{OF}}})"),
        stat("Workers", "Idle or busy, now.", "short", f'sum(preheat_workers{{{OF}, state=~"idle|busy"}})'),
        stat("Cache", "Bytes of all blobs, before compression.", "bytes", f"sum(preheat_cache_bytes{{{OF}}})"),
        row("Requests"),
        graph(
            "Hit rate by namespace",
            "Gaps: nobody asked.",
            "percentunit",
            (hit_rate(RATE, "namespace"), "{{namespace}}"),
            most=1,
        ),
        graph("Requests by result", "A second.", "reqps", (by_result, "{{result}}"), stack=True),
        graph(
            "Time of a request",
            "Until it is answered, on the server; by result.",
            "s",
            (quantile(0.5, "preheat_request_seconds", "result"), "{{result}} p50"),
            (quantile(0.99, "preheat_request_seconds", "result"), "{{result}} p99"),
        ),
        graph(
            "Hits by source",
            "local: answered by clients' own caches, reported in batches.",
            "reqps",
            (by_source, "{{source}}"),
            stack=True,
        ),
        graph(
            "Seconds saved",
            "Of compilation, a second: above 1, the cache works harder than a core would.",
            "short",
            (
                f"sum by (namespace) (rate(preheat_compile_seconds_saved_total{{{REQUESTS}}}{RATE}))",
                "{{namespace}}",
            ),
            stack=True,
        ),
        graph(
            "In flight",
            "Distinct requests that are worked on, and tasks that wait for a worker.",
            "short",
            (f"sum(preheat_inflight{{{OF}}})", "in flight"),
            (f"sum(preheat_queue_depth{{{OF}}})", "waiting tasks"),
        ),
        row("Compiling"),
        graph(
            "Compile seconds by stage",
            "Seconds of work, a second: 1 is one busy worker.",
            "short",
            (stages, "{{stage}}"),
            stack=True,
        ),
        graph(
            "Time of a stage",
            "p90 of a compile's.",
            "s",
            (quantile(0.9, "preheat_compile_seconds", "stage"), "{{stage}}"),
        ),
        graph(
            "Waiting for a worker",
            "How long tasks wait.",
            "s",
            (quantile(0.5, "preheat_queue_seconds", ""), "p50"),
            (quantile(0.9, "preheat_queue_seconds", ""), "p90"),
        ),
        graph("Workers", "By state.", "short", (f"sum by (state) (preheat_workers{{{OF}}})", "{{state}}"), stack=True),
        graph(
            "Worker crashes",
            "Workers that ended unasked.",
            "short",
            (f"sum(increase(preheat_worker_crashes_total{{{OF}}}{RATE}))", "crashes"),
        ),
        graph(
            "Verification",
            "Artifacts held against the float64 reference.",
            "short",
            (f"sum by (result) (increase(preheat_verified_total{{{OF}}}{RATE}))", "{{result}}"),
            stack=True,
        ),
        graph(
            "Kernels",
            "Launches of what was compiled in this range: eager's, and ours.",
            "short",
            (f"sum(increase(preheat_kernels_before_total{{{OF}}}[$__range]))", "before"),
            (f"sum(increase(preheat_kernels_after_total{{{OF}}}[$__range]))", "after"),
        ),
        graph(
            "Extern calls",
            "Operators left to the client's torch, by what was compiled in this range.",
            "short",
            (f'{externs} or label_replace(vector(0), "op", "none", "", "")', "{{op}}"),
        ),
        graph(
            "Tuning",
            "Device seconds a second, and the mean speed-up of tuned over default generations (0: none).",
            "short",
            (f"sum by (device) (rate(preheat_tune_seconds_total{{{OF}}}{RATE}))", "{{device}} seconds"),
            (f"({speedups} / ({measured} > 0)) or vector(0)", "speed-up"),
        ),
        row("Cache"),
        graph(
            "Bytes",
            "Of all blobs, before compression.",
            "bytes",
            (f"sum by (instance) (preheat_cache_bytes{{{OF}}})", "{{instance}}"),
        ),
        graph(
            "Artifacts",
            "Keys that can be served.",
            "short",
            (f"sum by (instance) (preheat_cache_entries{{{OF}}})", "{{instance}}"),
        ),
        graph(
            "Evictions",
            "Bytes of evicted and removed artifacts, a second.",
            "Bps",
            (f"sum by (instance) (rate(preheat_cache_evicted_bytes_total{{{OF}}}{RATE}))", "{{instance}}"),
        ),
        graph(
            "Corrupt blobs",
            "Blobs whose bytes did not match their digest: quarantined, never served.",
            "short",
            (f"sum by (instance) (increase(preheat_cache_corrupt_total{{{OF}}}{RATE}))", "{{instance}}"),
        ),
        graph(
            "Blob traffic",
            "Read from and written to the store.",
            "Bps",
            (f"sum by (direction) (rate(preheat_blob_bytes_total{{{OF}}}{RATE}))", "{{direction}}"),
        ),
        graph(
            "Server process",
            "Resident memory.",
            "bytes",
            (f'process_resident_memory_bytes{{{OF}, job="preheat"}}', "{{instance}}"),
        ),
    ]


def place(made: list[dict[str, Any]]) -> None:
    """Left to right, top to bottom; numbers them as well."""
    x = y = height = 0
    for number, one in enumerate(made, start=1):
        position = one["gridPos"]
        if x + position["w"] > COLUMNS:
            x, y, height = 0, y + height, 0
        position.update(x=x, y=y)
        x, height = x + position["w"], max(height, position["h"])
        one["id"] = number


def query_variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "variable"},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard() -> dict[str, Any]:
    made = panels()
    place(made)
    return {
        "uid": "preheat",
        "title": "Preheat",
        "description": "Preheat, a compilation service for tensor programs",
        "tags": ["preheat"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "source", "type": "datasource", "query": "prometheus", "current": {}},
                query_variable("instance", "server", "label_values(preheat_build_info, instance)"),
                query_variable("namespace", "namespace", "label_values(preheat_requests_total, namespace)"),
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Restarts",
                    "datasource": DATASOURCE,
                    "enable": True,
                    "iconColor": "red",
                    "expr": 'changes(process_start_time_seconds{job="preheat"}[2m]) > 0',
                    "titleFormat": "{{instance}} started",
                },
            ]
        },
        "panels": made,
    }


def main() -> int:
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        same = OUT.exists() and OUT.read_text() == text
        if not same:
            print(f"{OUT} is not what make_dashboard.py writes: run it", file=sys.stderr)
        return 0 if same else 1
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
