#!/usr/bin/env python3
"""Ids and texts of tokenizer.json against those of the package `tokenizers`, where its environment is there.

    tests/tokenizers/peer_test.py build/tests/tokenizer_ids [TEXT]

TEXT: a large file to compare too. launch/setup --peers makes the environment.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # as CTest is told


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers")
    python = peers / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import tokenizers"], capture_output=True).returncode:
        print(f"skipped: {python} has no package tokenizers; launch/setup --peers installs it")
        return SKIPPED
    script = Path(__file__).resolve().parents[1] / "peers" / "tokenizers_peer.py"
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([python, script, Path(sys.argv[1]).resolve(), folder, *sys.argv[2:]],
                              env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
