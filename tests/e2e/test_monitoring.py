"""Debian's Prometheus on a live server under load: every panel's query and every rule is evaluated."""

from __future__ import annotations

import json
import math
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from service import PATIENCE, ROOT, Server

RULES = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
# What Grafana would put in place of its variables. The range covers the whole test.
VARIABLES = {"$__rate_interval": "30s", "$__range": "10m", "$instance": ".*", "$namespace": ".*"}
# Panels of what has not happened here are to show 0; of ratios that are 0/0, NaN, which draws as a gap.
MAY_BE_NAN = {"Time of a stage", "Time of a request", "Waiting for a worker"}


class Prometheus:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=30) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series."""
        data = self.get("/api/v1/query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With the configuration of deploy/prometheus, but for where the server is and how often it is asked."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    text = (RULES / "prometheus.yml").read_text()
    assert "localhost:9433" in text and "15s" in text
    text = text.replace("localhost:9433", f"127.0.0.1:{server.started['http_port']}").replace("15s", "1s")
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(RULES / "preheat.rules.yml", folder)
    port = free_port()
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def load(
    prometheus: Prometheus, server: Server, models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Prometheus:
    """Compiles, hits, failures and removals, seen by several scrapes."""
    end = time.monotonic() + PATIENCE
    while not prometheus.query('up{job="preheat"} == 1'):
        assert time.monotonic() < end, "the server was not scraped"
        time.sleep(0.2)
    cli = server.cli(tmp_path_factory.mktemp("cache"))
    archive = models / "mlp_dynamic.pt2"
    for size in range(20, 24):
        cli.ok("compile", archive, "--dim", f"x.0={size}")
        cli.ok("run", archive, "--dim", f"x.0={size}", "--no-eager", "--repeat", "1")
        time.sleep(1.5)
    cli.fails(2, "compile", archive, "--target", "cpu:x86-64-v1")
    key = cli.ok("compile", archive, "--dim", "x.0=20")["key"]
    cli.ok("verify", key)
    cli.ok("rm", key)
    time.sleep(2.5)  # scraped, and the rules evaluated over it
    return prometheus


def dashboard() -> dict[str, Any]:
    return json.loads((GRAFANA / "dashboards" / "preheat.json").read_text())


def panel_queries() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def test_dashboard_is_what_its_script_writes() -> None:
    done = subprocess.run([sys.executable, GRAFANA / "make_dashboard.py", "--check"], check=False, timeout=60)
    assert done.returncode == 0


def test_every_panel_shows_something(load: Prometheus) -> None:
    queries = panel_queries()
    assert len(queries) > 25
    for title, expression in queries:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        found = load.query(expression)
        assert found, f"{title} is empty: {expression}"
        numbers = [value for _, value in found if not math.isnan(value)]
        assert numbers, f"{title} is NaN only: {expression}"
        assert len(numbers) == len(found) or title in MAY_BE_NAN, f"{title}: {found}"


def test_every_variable_has_values(load: Prometheus) -> None:
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
            assert [labels[label] for labels, _ in load.query(f"group by ({label}) ({metric})")]


def test_every_rule_is_evaluated(load: Prometheus) -> None:
    rules = [rule for group in load.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert {rule["type"] for rule in rules} == {"recording", "alerting"}
    for rule in rules:
        assert rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}"
        if rule["type"] == "recording":
            assert load.query(rule["name"]), f"{rule['name']} recorded nothing: {rule['query']}"
        else:  # an alert without cause is empty; what it looks at must be there
            looked_at = re.findall(r"\b(?:up|preheat[\w:]+)(?:\{[^}]*\})?", rule["query"])
            assert looked_at
            for selector in looked_at:
                assert load.query(selector), f"{rule['name']} looks at {selector}, which is not there"


def test_rules_fire_when_they_must() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    for command in (("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")):
        done = subprocess.run(
            ["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr


# By the page of the interface: the labels of each metric. Histograms have "le" beside them.
METRICS = {
    "preheat_requests_total": {"namespace", "result", "source"},
    "preheat_request_seconds_bucket": {"result", "le"},
    "preheat_compile_seconds_bucket": {"target", "stage", "le"},
    "preheat_compile_seconds_saved_total": {"namespace"},
    "preheat_cache_bytes": set(),
    "preheat_cache_entries": set(),
    "preheat_cache_evicted_bytes_total": set(),
    "preheat_cache_corrupt_total": set(),
    "preheat_blob_bytes_total": {"direction"},
    "preheat_inflight": set(),
    "preheat_queue_depth": set(),
    "preheat_queue_seconds_bucket": {"le"},
    "preheat_workers": {"device", "state"},
    "preheat_worker_crashes_total": set(),
    "preheat_tune_seconds_total": {"device"},
    "preheat_tune_speedup_bucket": {"le"},
    "preheat_verified_total": {"result"},
    "preheat_kernels_before_total": set(),
    "preheat_kernels_after_total": set(),
}


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_its_labels(load: Prometheus, metric: str) -> None:
    found = load.query(metric)
    assert found
    for labels, value in found:
        assert set(labels) - {"__name__", "instance", "job"} == METRICS[metric]
        assert value >= 0


def test_metrics_mean_what_they_say(load: Prometheus) -> None:
    """Numbers of the same events agree with each other."""
    (_, before), (_, after) = (load.query(f"preheat_kernels_{when}_total")[0] for when in ("before", "after"))
    assert before > after > 0  # linear layers and activations were fused
    compiled = load.query('sum(preheat_requests_total{result="compiled"})')[0][1]
    stages = {labels["stage"]: value for labels, value in load.query("sum by (stage) (preheat_compile_seconds_count)")}
    assert compiled >= 4
    assert stages["import"] == stages["passes"] == stages["codegen"] == stages["compile"] == compiled
    assert stages["verify"] == sum(value for _, value in load.query("preheat_verified_total"))
    hits = load.query('preheat_request_seconds_count{result="hit"}')[0][1]
    assert hits == load.query('sum(preheat_requests_total{result="hit", source="server"})')[0][1] > 0
    assert load.query("sum(preheat_compile_seconds_saved_total)")[0][1] > 0
    assert load.query("preheat_cache_evicted_bytes_total")[0][1] > 0  # what was removed
    assert load.query('preheat_requests_total{result="failed"}')[0][1] > 0
