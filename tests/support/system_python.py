"""Debian's Python, for which launch/test installs packages; another Python may come first on PATH."""

import importlib.util
import os
import sys
from pathlib import Path

DEBIANS = Path("/usr/bin/python3")


def needs(*modules):
    """Restarts the test with Debian's Python if this one lacks a module."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if Path(sys.executable).resolve() == DEBIANS.resolve():
        sys.exit(f"{sys.argv[0]}: no Python module {', '.join(missing)}; run launch/test, which installs it")
    os.execv(DEBIANS, [str(DEBIANS), *sys.argv])
