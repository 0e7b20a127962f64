"""Generates the message classes before the package is built; everything else stands in pyproject.toml."""

from __future__ import annotations

import pathlib
import sys

from setuptools import setup

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generate_protos  # noqa: E402

# Before setup(): setuptools looks for the packages as soon as it is asked anything, long before it builds.
generate_protos.main()
setup()
