#!/usr/bin/env python3
"""Builds the Python package as a wheel and runs the tests of tests/launch/python on it.

    tests/launch/python_test.py build/launch/longspan [ARGUMENT OF PYTEST ...]

Uses the Python of launch/setup --reference-implementations (LONGSPAN_PEERS). Builds in build-python/; a first build takes as
long as that of the program. ranks_test.py runs jobs of several ranks.
SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # SKIP_RETURN_CODE in tests/CMakeLists.txt
SOURCE = Path(__file__).resolve().parents[2]
NEEDED = ("nanobind", "scikit_build_core", "pytest", "numpy")


def python_that_builds():
    """Returns the Python, and the reason why it cannot build, or an empty string."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers").absolute()
    python = peers / "bin" / "python"
    if not python.exists():
        return python, f"there is no {python}"
    for name in NEEDED:
        if subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode:
            return python, f"{python} has no package {name}"
    return python, ""


def make(python, folder):
    """Builds the wheel, then installs the package without compiling again; returns the folder of the package."""
    printed = subprocess.run([SOURCE / "launch" / "package", "--wheel", "--python", python, "--output", folder / "wheels"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    print(printed)
    wheel, = (folder / "wheels").glob("longspan-*.whl")
    if f"{wheel}: {wheel.stat().st_size} bytes" not in printed:
        sys.exit("launch/package --wheel does not name its wheel")
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-build-isolation",
                    "--target", folder / "site", SOURCE / "launch" / "python"], check=True)
    return folder / "site"


def main():
    program, *arguments = sys.argv[1:]
    python, reason = python_that_builds()
    if reason:
        print(f"skipped: {reason}; launch/setup --reference-implementations installs it")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="longspan-wheel-") as name:
        folder = Path(name)
        site = make(python, folder)
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(site), "LONGSPAN_PROGRAM": os.path.abspath(program),
                       "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
        tests = SOURCE / "tests" / "launch" / "python"
        return subprocess.run([python, "-m", "pytest", "-p", "no:cacheprovider", "-o", "python_files=*_test.py", "--rootdir", tests, tests,
                               "--basetemp", folder / "tests", "-ra", *arguments], env=environment, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
