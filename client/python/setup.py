"""Generates the message classes before the package is built; everything else stands in pyproject.toml."""

from __future__ import annotations

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generate_protos  # noqa: E402


class BuildWithProtos(build_py):
    def run(self) -> None:
        generate_protos.main()
        super().run()


setup(cmdclass={"build_py": BuildWithProtos})
