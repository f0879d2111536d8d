#!/usr/bin/env python3
"""Stored checkpoints of each released format: the program verifies and resumes them, and a reader written from
checkpoints/README.md reads the same values.

    tests/launch/kept_checkpoints_test.py build/launch/longspan
    tests/launch/kept_checkpoints_test.py build/launch/longspan --make tests/checkpoints/kept/NAME   (for a new format)
"""

import json
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import system_python

system_python.needs("h5py", "numpy")
import h5py
import numpy

import jobs
from manifest_text import END, xxh3
from jobs import Layout, flat

KEPT = jobs.SOURCE / "tests" / "checkpoints" / "kept"
SAVED, LAST = 4, 8

# Created for each released format: runs on two ranks, with the checkpoint of step 4 and the losses up to step 8.
MADE = {
    "memory": (Layout(2, 1), {"model.family": "transformer_xl", "model.mem_len": 8, "training.optimizer.type": "adamw"}),
    "reversible": (Layout(1, 2), {"model.family": "decoder", "model.residual.type": "reversible", "precision.compute_dtype": "bfloat16",
                                  "training.optimizer.type": "lion"}),
}


def read_documented_format(step):
    """Reads {name: array} of a step as in checkpoints/README.md, "The format byte by byte", and checks hashes."""
    text = (step / "manifest.json").read_bytes()
    body = text[:text.rindex(END)]
    manifest = json.loads(text)
    assert manifest["manifest_hash"].encode() == xxh3(body), "the manifest's hash"
    assert (manifest["format"], manifest["version"]) == ("longspan checkpoint", 1)
    kinds = {"f64": "<f8", "f32": "<f4", "bf16": "<u2", "f16": "<u2", "i64": "<i8", "i32": "<i4", "u8": "u1"}
    for file in [*manifest["files"], manifest["view"]]:
        content = (step / file.get("name", "view.h5")).read_bytes()
        assert len(content) == file["bytes"] and xxh3(content) == file["hash"].encode(), file
    files = [h5py.File(step / file["name"]) for file in manifest["files"]]
    found = {}
    for name, tensor in manifest["tensors"].items():
        array = numpy.empty(tensor["shape"] or [1], kinds[tensor["dtype"]])
        for piece in tensor["pieces"]:
            dataset = files[piece["file"]][piece["dataset"]]
            assert dataset.attrs["dtype"] in (tensor["dtype"], tensor["dtype"].encode()), name
            values = numpy.ascontiguousarray(dataset[()], array.dtype)
            assert xxh3(values.tobytes()) == piece["hash"].encode(), (name, piece)
            offset = piece["offset"] or [0]
            array[tuple(slice(begin, begin + length) for begin, length in zip(offset, piece["shape"]))] = values
        found[name] = array.reshape(tensor["shape"])
    return found


class StoredCheckpoints(jobs.TestCase):
    def kept(self):
        """Yields (name, folder, copy as a run directory) of each stored checkpoint."""
        folders = sorted(folder for folder in KEPT.iterdir() if folder.is_dir())
        self.assertTrue(folders)
        for folder in folders:
            with self.subTest(folder.name):
                run = self.directory / folder.name
                shutil.copytree(folder / "run", run)
                shutil.copy(folder / "text.txt", self.directory / "text.txt")
                yield folder.name, folder, run

    def test_verify_accepts_each_format(self):
        for _, _, run in self.kept():
            self.assertRegex(self.longspan("verify", run).output, rf"step-{SAVED:09}: valid")

    def test_resumed_losses_match_recorded_ones(self):
        for name, folder, run in self.kept():
            expected = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            resumed = self.longspan("train", run / "config.yaml",
                                    *flat({"run.output_dir": run, "parallel.data_parallel_size": 1, "parallel.tensor_parallel_size": 1}))
            self.assertIn(f"at step {SAVED}", resumed.output)
            found = jobs.Run(run).metrics()
            self.assertEqual([line["step"] for line in found], [line["step"] for line in expected])
            for mine, theirs in zip(found, expected):
                self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=1e-2 if name.endswith("reversible") else 1e-5)

    def test_documented_format_matches_view(self):
        for _, _, run in self.kept():
            step = jobs.Run(run).checkpoint(SAVED)
            found = read_documented_format(step)
            self.assertIn("embedding/weight", found)
            with h5py.File(step / "view.h5") as view:
                for name, values in found.items():
                    if values.size:
                        numpy.testing.assert_array_equal(view[name][()].reshape(values.shape), values, err_msg=name)


class Make(jobs.TestCase):
    sections = {**jobs.TestCase.sections, "model": {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "dropout": 0.1}}

    def make(self, folder, layout, settings):
        jobs.write_text(self.directory / "text.txt", words=200)
        self.train("run", layout, {**settings, "data.global_batch_size": 2, "training.max_steps": LAST, "checkpoint.keep_latest": 2})
        run = self.run_at()
        shutil.rmtree(run.checkpoint(LAST))
        shutil.copytree(run.path, folder / "run")
        shutil.copy(self.directory / "text.txt", folder)
        shutil.move(folder / "run" / "metrics.jsonl", folder)
        lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        (folder / "run" / "metrics.jsonl").write_text("".join(lines[:SAVED]))
        for path in (folder / "run").iterdir():
            if path.name not in ("checkpoints", "config.yaml", "metrics.jsonl"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def make(folder):
    maker = Make()
    for name, (layout, settings) in MADE.items():
        maker.setUp()
        maker.make(Path(f"{folder}-{name}"), layout, settings)
        maker.doCleanups()


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2] == "--make":
        jobs.TestCase.program = str(Path(sys.argv[1]).resolve())
        make(sys.argv[3])
    else:
        jobs.main()
