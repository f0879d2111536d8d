"""Fixtures of the tests of the Python package, which tests/launch/python_test.py starts.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests" / "support"))
import jobs

MODEL = {"family": "transformer_xl", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "mem_len": 8, "dropout": 0.1}


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Runs each test in its own directory, with tiny.yaml, a small model that trains on text.txt."""
    monkeypatch.chdir(tmp_path)
    jobs.write_text(tmp_path / "text.txt")
    (tmp_path / "tiny.yaml").write_text(json.dumps(jobs.TestCase.sections))
    return tmp_path


@pytest.fixture
def longspan(directory):
    """Returns a function that runs the program and returns its output: longspan("evaluate", "run")."""
    def run(*words, ranks=1, code=0):
        job = jobs.Job(os.environ["LONGSPAN_PROGRAM"], words, ranks, directory)
        try:
            result = job.wait()
        finally:
            job.close()
        assert result.code == code, result.output + result.errors
        return result.output

    return run


@pytest.fixture
def trained(longspan, directory):
    """Returns the directory of a run that the program has trained."""
    longspan("train", "tiny.yaml", "--set", "data.validation=text.txt", "--set", "training.validation.interval=4")
    return directory / "run"


# Each rank prints to its own file, because mpirun would interleave the outputs.
PRELUDE = """import os, sys
sys.stdout = open("told." + os.environ.get("OMPI_COMM_WORLD_RANK", "0"), "w")
import longspan
"""


@pytest.fixture
def ranks(directory):
    """Returns a function that runs a script on ranks, as in ranks(2, "print(longspan.rank())").

    The function returns the exit code, the output of each rank, and the errors.
    """
    def run(count, script, *words):
        (directory / "script.py").write_text(PRELUDE + script)
        job = jobs.Job(sys.executable, ["script.py", *words], count, directory)
        try:
            result = job.wait()
        finally:
            job.close()
        files = [directory / f"told.{rank}" for rank in range(count)]
        return result.code, [file.read_text() if file.exists() else "" for file in files], result.errors

    return run
