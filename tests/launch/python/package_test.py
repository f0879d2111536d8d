"""Types, version and documented examples of the Python package.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jobs
import longspan as package
from conftest import SOURCE

TYPED = """
import longspan
import numpy
from numpy.typing import NDArray

run: longspan.Run = longspan.train({"training.max_steps": 1}, data=[[1, 2]], on_step=lambda figures: print(figures["loss"]))
losses: NDArray[numpy.float64] = run.metrics["loss"]
weights = longspan.Checkpoint(run, "best")["decoder/0/weight"]
figures: dict[str, object] = longspan.evaluate(run, max_tokens=100)
code: int = longspan.DataError.exit_code
"""


def mypy(*arguments):
    pytest.importorskip("mypy", reason="mypy is not installed; launch/setup --reference-implementations installs it")
    folder = Path(package.__file__).resolve().parent.parent
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], capture_output=True, text=True,
                          env={"MYPYPATH": str(folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)})


def test_package_is_typed(directory):
    assert (Path(package.__file__).parent / "py.typed").exists()
    found = mypy("-p", "longspan")
    assert found.returncode == 0, found.stdout + found.stderr
    (directory / "typed.py").write_text(TYPED)
    found = mypy("typed.py")
    assert found.returncode == 0, found.stdout
    (directory / "wrong.py").write_text('import longspan\nlongspan.evaluate("run", max_tokens="many")\n')
    assert 'incompatible type "str"' in mypy("wrong.py").stdout


def test_version_matches_program(longspan):
    assert package.__version__ == re.match(r"longspan ([\d.]+)", longspan("--version"))[1]


@pytest.mark.parametrize("page", ["README.md", "launch/python/README.md"])
def test_examples_of_page_run(page, trained, directory):
    """Runs the Python blocks of a page in order, in a folder with a small configuration and a run."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", (SOURCE / page).read_text(encoding="utf-8"))
    assert blocks
    (directory / "configs").mkdir()
    sections = {**jobs.TestCase.sections, "data": {**jobs.TestCase.sections["data"], "validation": "text.txt"}}
    (directory / "configs" / "quickstart.yaml").write_text(json.dumps(sections))
    (directory / "runs").mkdir()
    (directory / "run").rename(directory / "runs" / "quickstart")
    jobs.write_text(directory / "my-text.txt")
    result = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
