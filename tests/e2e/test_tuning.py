"""Mode tuned: the next generation, with its evidence, through a real server and worker."""

from __future__ import annotations

import pathlib
import urllib.request

from service import Server


def metric(server: Server, name: str) -> float:
    page = urllib.request.urlopen(f"http://127.0.0.1:{server.started['http_port']}/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))


def test_tuned_is_the_next_generation(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    model = models / "mlp.pt2"
    fast = cli.ok("compile", model, "--mode", "fast")
    assert (fast["generation"], fast["tuned"]) == (1, False)

    tuned = cli.ok("compile", model, "--mode", "tuned")
    assert (tuned["result"], tuned["generation"], tuned["tuned"]) == ("compiled", 2, True)
    assert tuned["key"] == fast["key"]
    again = cli.ok("compile", model, "--mode", "tuned")
    assert (again["result"], again["generation"]) == ("hit", 2)
    assert cli.ok("compile", model, "--mode", "background")["generation"] == 2
    assert cli.ok("compile", model, "--mode", "fast")["generation"] == 1

    report = cli.ok("explain", tuned["key"])
    assert report["stage_seconds"]["tune"] > 0
    tuning = report["tuning"]
    assert tuning["sites"]
    turned = 0
    for site in tuning["sites"]:
        assert 1 <= site["candidates"] <= 8
        assert site["best_us"] <= site["default_us"]
        if site["schedule"] != "default":
            turned += 1
            assert site["interval"][1] < 1
    if turned:
        assert tuning["interval"][1] < 1
    assert cli.ok("verify", tuned["key"])["ok"]
    assert cli.ok("run", model, "--mode", "tuned", "--repeat", "3")["ms"]["p50"] > 0
    entry = next(entry for entry in cli.ok("ls")["entries"] if entry["key"] == tuned["key"])
    assert (entry["generation"], entry["tuned"]) == (2, True)
    assert metric(fresh, "preheat_tune_seconds_total") > 0
    assert metric(fresh, "preheat_tune_speedup_count") == 1


def test_check_judges_by_its_mode(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(f"version: 1\ndefaults: {{target: cpu}}\nmodels: [{{source: {models}/mlp.pt2}}]\n")
    assert cli.ok("warm", "--shapes", shapes, "--mode", "fast")["compiled"] == 1
    assert cli.ok("warm", "--shapes", shapes, "--mode", "fast", "--check")["hit"] == 1
    checked = cli.run("warm", "--shapes", shapes, "--check")  # tuned is what warm asks for
    assert (checked.status, checked.document["missing"]) == (1, 1)
    assert cli.ok("warm", "--shapes", shapes)["compiled"] == 1
    assert cli.ok("warm", "--shapes", shapes, "--check")["hit"] == 1


def test_another_machines_target_is_served_by_default(
    fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cli = fresh.cli(tmp_path / "cache")
    model = models / "mlp.pt2"
    compiled = cli.ok("compile", model, "--mode", "tuned", "--target", "cpu:x86-64-v2")
    assert (compiled["generation"], compiled["tuned"]) == (1, False)
