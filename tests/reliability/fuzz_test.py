#!/usr/bin/env python3
"""Every parser accepts any input: it reads it, or rejects it with an error.

    tests/reliability/fuzz_test.py build-fuzz/fuzzers [--full] [--shard K/N] [--cases N] [--only NUMBER] [--kind PARSER]

launch/setup --preset fuzz builds the directory: a program for each file tests/fuzz/PARSER_fuzz.cpp, with libFuzzer and
the address and undefined-behavior sanitizers. A case is a step of 10,000 inputs, seeded by its number. --full runs
10,000 steps per parser, 10^8 inputs. Inputs that cover new code of a parser are stored next to the programs, in
corpus/PARSER. The next step starts from them and from tests/fuzz/corpus.tar.zst.

An input must be read, or rejected as bad data (exit code 3) or configuration (2). Findings are other exceptions,
reports of a sanitizer, and inputs that need more than 5 seconds or more than 256 MiB. They are stored in
findings/PARSER. `build-fuzz/fuzzers/PARSER_fuzz FILE` reproduces one.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from counted import Counted

INPUTS_OF_A_STEP = 10_000
STEPS = 10_000
SECONDS_OF_A_STEP = 900
TREE = Path(__file__).resolve().parents[2]
DICTIONARIES = TREE / "tests" / "fuzz" / "dictionaries"
# Maximum lengths of parsers whose usual inputs exceed the default of 4096 bytes.
LENGTHS = {"sentencepiece": 16384, "hdf5": 16384}


def sanitizer_options():
    """Returns the environment of the sanitizers. A small quarantine keeps the memory to that of the parser."""
    return {**os.environ,
            "ASAN_OPTIONS": "quarantine_size_mb=16:detect_leaks=1:strict_string_checks=1",
            "LSAN_OPTIONS": f"suppressions={TREE}/tests/support/leaks.txt:print_suppressions=0",
            "UBSAN_OPTIONS": "print_stacktrace=1", "OMP_NUM_THREADS": "1"}


def step(folder, name, number, full):
    """Runs one step. Returns why it failed, or None. Without `full` the timeout allows for a busy machine."""
    grown, findings = folder / "corpus" / name, folder / "findings" / name
    kept = folder.parent / "tests" / "fuzz" / "corpus" / name  # CMake extracts the archive
    for each in (grown, findings):
        each.mkdir(parents=True, exist_ok=True)
    command = [folder / f"{name}_fuzz", grown, kept, f"-runs={INPUTS_OF_A_STEP}", f"-seed={number + 1}",
               f"-timeout={5 if full else 60}", "-malloc_limit_mb=256", "-rss_limit_mb=1024", f"-max_len={LENGTHS.get(name, 4096)}",
               "-print_final_stats=1", f"-artifact_prefix={findings}/"]
    dictionary = DICTIONARIES / f"{name}.txt"
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    try:
        done = subprocess.run(command, env=sanitizer_options(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=SECONDS_OF_A_STEP, check=False)
    except subprocess.TimeoutExpired:
        return f"{name}_fuzz did not end within {SECONDS_OF_A_STEP} s"
    if done.returncode == 0:
        runs = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
        return None if runs and int(runs[1]) >= INPUTS_OF_A_STEP else "it ran fewer inputs than it was asked for"
    reports = re.findall(r"(?:FINDING|ERROR|SUMMARY|runtime error|what\(\)|terminate called)[^\n]*", done.stderr)
    written = re.findall(r"Test unit written to (\S+)", done.stderr)
    return (f"exit code {done.returncode}: {'; '.join(reports[:3]) or done.stderr[-500:]}; "
            f"the input is {' '.join(written) or 'not kept'}")


def main():
    counted = Counted(__doc__)
    folder = Path(counted.program)
    sources = sorted((TREE / "tests" / "fuzz").glob("*_fuzz.cpp"))
    names = [source.stem.removesuffix("_fuzz") for source in sources]
    missing = [name for name in names if not os.access(folder / f"{name}_fuzz", os.X_OK)]
    if len(missing) == len(names):
        print(f"fuzz_test: skipped: {folder} has no fuzzers; launch/setup --preset fuzz builds them, where Clang is")
        sys.exit(77)
    for name in names:
        kind = counted.kind(f"{name}: steps of {INPUTS_OF_A_STEP:,} inputs", usual=1, full=STEPS)
        for number in kind:
            if name in missing:
                kind.fails(number, f"{folder}/{name}_fuzz is not there")
            elif reason := step(folder, name, number, counted.arguments.full):
                kind.fails(number, reason)
            else:
                kind.passed()
    counted.end()


if __name__ == "__main__":
    main()
