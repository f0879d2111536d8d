"""Debian's Python, for which launch/test installs packages: it need not be the first one on PATH."""

import importlib.util
import os
import sys
from pathlib import Path

DEBIANS = Path("/usr/bin/python3")


def needs(*modules):
    """Starts the test again by Debian's Python where this one lacks a module."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if Path(sys.executable).resolve() == DEBIANS.resolve():
        sys.exit(f"{sys.argv[0]}: Python lacks {', '.join(missing)}; launch/test installs it")
    os.execv(DEBIANS, [str(DEBIANS), *sys.argv])
