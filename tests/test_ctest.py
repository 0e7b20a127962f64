"""Runs ctest once and passes on each of its tests as a test of pytest, so that one summary counts all.

PREHEAT_BUILD names the build folder (default build/release). With -k or a node id only the chosen tests run.
"""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("PREHEAT_BUILD", ROOT / "build" / "release"))
# The regular expression of chosen names goes over the command line, which Linux bounds; beyond this many, run all.
MOST_CHOSEN = 500


@cache
def known_tests() -> list[str]:
    """Names that ctest knows. Asking it makes it list the cases of each GoogleTest program."""
    if not (BUILD / "CTestTestfile.cmake").exists():
        return []
    listing = subprocess.run(
        ["ctest", "--show-only=json-v1"], cwd=BUILD, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return [test["name"] for test in json.loads(listing)["tests"]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ctest_name" in metafunc.fixturenames:
        metafunc.parametrize("ctest_name", known_tests())


@pytest.fixture(scope="session")
def ctest_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ElementTree.Element]:
    """Runs all the chosen tests side by side; their results by name."""
    chosen = [item.callspec.params["ctest_name"] for item in request.session.items if is_ctest(item)]
    report = tmp_path_factory.mktemp("ctest") / "junit.xml"
    command = ["ctest", "--parallel", str(os.cpu_count() or 1), "--output-junit", str(report), "--timeout", "600"]
    if len(chosen) < min(len(known_tests()), MOST_CHOSEN):
        # ctest's own regular expressions know no \-escape for harmless characters, so escape those with a meaning.
        command += ["-R", "^(" + "|".join(re.sub(r"([.^$*+?()\[\]|\\])", r"\\\1", name) for name in chosen) + ")$"]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # progress of many minutes, shown while it happens
        print(flush=True)
        subprocess.run(command, cwd=BUILD, check=False)  # failures are read from the report, each by its name
    return {case.get("name", ""): case for case in ElementTree.parse(report).getroot().iter("testcase")}


def is_ctest(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "ctest_name" in getattr(item, "fixturenames", ())


def test_build_is_there() -> None:
    """Without this a missing build would look like a run without failures."""
    assert known_tests(), f"no tests in {BUILD}: run deploy/build.sh"


def test_ctest(ctest_name: str, ctest_results: dict[str, ElementTree.Element]) -> None:
    assert ctest_name in ctest_results, "ctest did not run it (did a fixture of it fail?)"
    case = ctest_results[ctest_name]
    output = case.findtext("system-out") or ""
    skipped = case.find("skipped")
    if skipped is not None and (skipped.get("message") or "").startswith("SKIP_"):  # the program itself asked for it
        reason = re.search(r"Skipped\n(.*)", output)
        pytest.skip(reason.group(1) if reason else "skipped")
    print(output[-20000:])
    # Not built, disabled, failed: all of these have another status.
    assert case.get("status") == "run", f"{case.get('status')}: {ctest_name}"
