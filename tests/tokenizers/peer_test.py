#!/usr/bin/env python3
"""Compares ids and decoded texts of tokenizer.json files with the package `tokenizers`. Skipped without the package.

    tests/tokenizers/peer_test.py build/tests/tokenizer_ids [TEXT]

TEXT: a further large file. Without it, launch/test --all compares 40 MB of installed dictionaries (Debian: dict-gcide)
and documentation. launch/setup --reference-implementations installs the package.
"""
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # SKIP_RETURN_CODE in tests/CMakeLists.txt
DICTIONARY_BYTES = 40_000_000
DICTIONARIES = ("dictd/*.dict.dz", "wordnet/data.*", "dict/*", "perl/**/*.pod", "doc/**/*.gz", "doc/**/copyright")


def dictionary_text(folder):
    """Writes up to 40 MB of installed dictionaries and documentation, and returns the path."""
    path = folder / "dictionaries.txt"
    left = DICTIONARY_BYTES
    with path.open("wb") as file:
        for pattern in DICTIONARIES:
            for source in sorted(Path("/usr/share").glob(pattern)):
                if left <= 0 or not source.is_file():
                    continue
                data = gzip.open(source).read() if source.suffix in (".dz", ".gz") else source.read_bytes()
                left -= file.write(data[:left])
    print(f"{path.stat().st_size / 1e6:.1f} MB of dictionaries", flush=True)
    return path


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers")
    python = peers / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import tokenizers"], capture_output=True).returncode:
        print(f"skipped: {python} has no package tokenizers; launch/setup --reference-implementations installs it")
        return SKIPPED
    script = Path(__file__).resolve().parents[1] / "peers" / "tokenizers_peer.py"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as texts:
        large = sys.argv[2:] or ([dictionary_text(Path(texts))] if os.environ.get("LONGSPAN_ALL") else [])
        return subprocess.run([python, script, Path(sys.argv[1]).resolve(), folder, *large]).returncode


if __name__ == "__main__":
    sys.exit(main())
