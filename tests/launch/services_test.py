#!/usr/bin/env python3
"""Imports the files of `metrics.export` into Weights & Biases and MLflow, with the code in launch/README.md.

    tests/launch/services_test.py build/launch/longspan

Both write to local files. launch/setup --reference-implementations installs them; without them the exit code is 77.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs

SKIPPED = 77  # SKIP_RETURN_CODE in tests/CMakeLists.txt
NAMES = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}  # non-finite numbers, as Python prints them


def peers():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers").absolute()


def code_of_page(service):
    """Returns the Python block of launch/README.md that imports the service."""
    page = (jobs.SOURCE / "launch" / "README.md").read_text()
    blocks = re.findall(r"(?ms)^ *```python\n(.*?)^ *```$", page)
    found, = [block for block in blocks if re.search(rf"\bimport .*\b{service}\b", block)]
    return textwrap.dedent(found)


class Services(jobs.TestCase):
    settings = {"metrics.export": "[wandb, mlflow]", "metrics.log_interval": 1, "data.validation": "text.txt",
                "training.validation.interval": 4, "training.validation.max_batches": 2}

    def python(self, *arguments):
        environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
                       "DO_NOT_TRACK": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(self.directory)}
        result = subprocess.run([peers() / "bin" / "python", *map(str, arguments)], cwd=self.directory, capture_output=True,
                                text=True, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def imported(self, service, *directories):
        """Runs the code of the page for each of these runs; returns the data of the service."""
        (self.directory / "runs").mkdir(exist_ok=True)
        text = code_of_page(service)
        self.assertIn("runs/my-run/", text)
        self.assertIn('"my-run"', text)
        each = [text.replace("runs/my-run/", f"{name}/").replace('"my-run"', f'"{name}"') for name in directories]
        (self.directory / "take.py").write_text("\n".join(each))
        self.python("take.py")
        location = {"wandb": ".", "mlflow": "sqlite:///runs/mlflow.db"}[service]
        return json.loads(self.python(jobs.SOURCE / "tests" / "peers" / "services_read.py", service, location))

    def exported(self, name, service):
        return [json.loads(line) for line in (self.run_at(name).path / "export" / f"{service}.jsonl").read_text().splitlines()]

    def train_both(self):
        """Trains a run with a file whose path is no valid MLflow key, and a run with non-finite numbers."""
        folder = self.directory / "texts – é"
        folder.mkdir()
        jobs.write_text(folder / "a.txt", words=600, seed=3)
        several = f"[text.txt, '{folder.name}/../{folder.name}//a.txt']"
        self.train("good", settings={**self.settings, "data.validation": several})
        self.train("bad", settings={**self.settings, **jobs.DIVERGING, "training.validation.interval": 1}, code=4)

    def test_wandb_matches_metrics(self):
        self.train_both()
        found = self.imported("wandb", "good", "bad")
        for name in "good", "bad":
            rows = [{key: value for key, value in row.items() if key != "_runtime"} for row in found[name]]
            expected = [{key: NAMES.get(value, value) for key, value in line.items()} for line in self.exported(name, "wandb")]
            self.assertEqual(rows, expected)
            self.assertEqual([row["_step"] for row in rows], [line["step"] for line in self.run_at(name).metrics()])
            for row, line in zip(rows, self.run_at(name).metrics()):
                self.assertEqual(row["training/loss"], "nan" if line["loss"] is None else line["loss"])
        self.assertIn("nan", found["bad"][-1].values())

    def test_mlflow_matches_metrics(self):
        self.train_both()
        found = self.imported("mlflow", "good", "bad")
        for name in "good", "bad":
            expected = {}
            for line in self.exported(name, "mlflow"):
                value = line["value"]
                if value in ("Infinity", "-Infinity"):  # MLflow stores these as the largest finite numbers
                    value = sys.float_info.max * (1 if value == "Infinity" else -1)
                expected.setdefault(line["key"], []).append([line["step"], "nan" if value == "NaN" else value, line["timestamp"]])
            self.assertEqual(found[name], expected)
            logged = [[line["step"], "nan" if line["loss"] is None else line["loss"]] for line in self.run_at(name).metrics()]
            self.assertEqual([one[:2] for one in found[name]["training/loss"]], logged)
        self.assertIn("nan", [one[1] for of in found["bad"].values() for one in of])
        files = [key for key in found["good"] if key.startswith("validation/loss_") and key.endswith("/a.txt")]
        self.assertEqual(len(files), 1, found["good"].keys())


if __name__ == "__main__":
    if not all(list(peers().glob(f"lib/python3*/site-packages/{package}")) for package in ("wandb", "mlflow")):
        print(f"skipped: {peers()} lacks wandb or mlflow; launch/setup --reference-implementations installs them")
        sys.exit(SKIPPED)
    jobs.main()
