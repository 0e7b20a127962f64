"""The wheel of deploy/wheel.sh: what it needs of a machine, and that it runs a model where nothing else of ours is."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from service import BUILD, PATIENCE, ROOT, Server

FLOOR = "GLIBC 2.34"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    env = {**os.environ, "PREHEAT_LIBRARIES": str(BUILD / "lib")}
    made = subprocess.run([ROOT / "deploy" / "wheel.sh", folder], env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"needs {FLOOR}," in made.stdout
    (path,) = folder.glob("*.whl")
    return path


def test_one_wheel_for_every_python_and_torch(wheel: pathlib.Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {"libpreheat_runtime.so", "libpreheat_onednn.so", "libdnnl.so.2"} <= names
    assert not [n for n in names if n.startswith(("libtorch", "libc10", "libpreheat_torch"))]
    assert FLOOR in (ROOT / "README.md").read_text()


def test_a_file_that_needs_more_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib.c").write_text("int leaked(void) { return 1; }")
    library = tmp_path / "libpreheat_bad.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "lib.c"], check=True)
    checked = subprocess.run([ROOT / "deploy" / "check_floor.py", library], capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "exports leaked" in checked.stderr


def test_it_runs_a_model_in_an_environment_of_its_own(
    wheel: pathlib.Path, fresh: Server, tmp_path: pathlib.Path
) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    # Torch and gRPC of the environment that runs this test; its editable install of ours does not come along.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PREHEAT_RUNTIME")}
    env |= {"PREHEAT_SERVER": fresh.address, "PREHEAT_REQUIRED": "1", "PREHEAT_CACHE_DIR": str(tmp_path / "cache")}
    command = [environment / "bin" / "python", ROOT / "deploy" / "try_torch.py"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"preheat from {site}" in done.stdout
