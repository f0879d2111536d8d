#!/usr/bin/env python3
"""Damaged checkpoints: every change to their files is detected, or the checkpoint has the same values.

    tests/reliability/damage_test.py build/launch/longspan [--full] [--shard K/N] [--cases N] [--only NUMBER]

Runs of several families save steps. Files get flipped bits, other bytes, other lengths or swapped blocks, are removed
or swapped, or become links, pipes and directories. Half of the damaged rank files match the hashes of their manifest.
tests/checkpoints/damage.cpp reads most of them in one process. `longspan` reads some of them and must exit with code 3,
or resume from the previous step.
"""

import collections
import json
import os
import random
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "launch"))
import jobs
import tasks_test
from counted import Counted
from saving import folder_for_tests

MOST_MILLISECONDS = 1000  # CPU time to read a damaged step; one minute of wall time is a hang
SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4}

# Families by the content that only their steps have.
FAMILIES = {
    "memory": {"model": {**SMALL, "family": "transformer_xl", "mem_len": 8, "dropout": 0.1}},
    "two ranks, ZeRO": {"model": {**SMALL, "family": "decoder"}, "parallel": {"data_parallel_size": 2, "zero_stage": 2}},
    "spans": {"model": {**SMALL, "family": "decoder", "adaptive_span": {"type": "adaptive"}}},
    "centroids": {"model": {**SMALL, "family": "decoder", "attention": {"layer_types": "routing"}}},
    "float16 by muon": {"model": {**SMALL, "family": "decoder"}, "precision": {"compute_dtype": "float16"},
                        "training": {"optimizer": {"type": "muon"}}},
    "subwords of pairs": {"model": {**SMALL, "family": "encoder_decoder"}, "run": {"task": "translation"},
                          "data": {"train": "source.txt", "train_target": "target.txt", "global_batch_tokens": 256, "max_length": 64}},
    "tags": {"model": {**SMALL, "family": "encoder"}, "run": {"task": "tagging"},
             "data": {"train": "tags.txt", "global_batch_tokens": 256, "max_length": 64}},
    "actions": {"model": {**SMALL, "family": "transformer_xl", "residual": {"type": "gated"},
                          "norm": {"position": "pre"}, "mem_len": 8, "dropout": 0},
                "run": {"task": "reinforcement_learning"}, "data": {"train": "t-maze.txt", "global_batch_size": 8, "seq_length": 8},
                "training": {"lr_scheduler": {"type": "constant"}}},
    "adapters": {"model": {**SMALL, "family": "transformer_xl", "mem_len": 8},
                 "training": {"init_from": {"path": "0"}, "lora": {"rank": 2, "target_modules": ["layers"]}}},
}


class Steps(jobs.TestCase):
    """One run per family, with two steps each."""

    def runTest(self):
        pass

    def make(self):
        tasks_test.write_tags(self.directory / "tags.txt", 60, 1)
        shutil.copy(jobs.SOURCE / "configs" / "t-maze-40.txt", self.directory / "t-maze.txt")
        jobs.write_text(self.directory / "line.txt", words=4, seed=5)
        line = (self.directory / "line.txt").read_text()
        for name in "source.txt", "target.txt":
            (self.directory / name).write_text(line * 60)
        return [self.made(str(number), sections) for number, sections in enumerate(FAMILIES.values())]

    def made(self, directory, sections):
        whole = {"run": {"num_threads": 1, "output_dir": directory}, "training": {"max_steps": 2, "lr_scheduler": {"warmup_steps": 1}},
                 "checkpoint": {"save_interval": 1, "keep_latest": 3}, "metrics": {"log_timing": False}}
        if "data" not in sections:
            whole["data"] = {"train": "text.txt", "global_batch_size": 4, "seq_length": 8}
        whole = jobs.merged(whole, sections)
        path = self.directory / f"{directory}.yaml"
        path.write_text(json.dumps(whole))
        self.longspan("train", path, ranks=whole.get("parallel", {}).get("data_parallel_size", 1))
        return self.run_at(directory)


class Reader:
    """build/tests/checkpoint_damage, which reads damaged steps."""

    def __init__(self, program, steps):
        self._command = [Path(program).parents[1] / "tests" / "checkpoint_damage", *steps]
        self._process = None

    def read(self, number):
        """Returns ("refused" or "same", milliseconds), or ("failed", why)."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], 60)
        words = self._process.stdout.readline().decode().split(maxsplit=2) if ready else []
        if len(words) == 3 and words[0] == str(number):
            return words[1:] if words[1] == "failed" else (words[1], float(words[2].split()[0]))
        how = f"ends with {self._process.wait()}" if ready else "hangs"
        self.close()
        return "failed", f"the reading process {how}"

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
        self._process = None


def try_reading(counted, folder, runs):
    # Copies are recreated after a crash of the reading process.
    def copied():
        shutil.rmtree(folder, ignore_errors=True)
        steps = []
        for number, run in enumerate(runs):
            for step in run.steps():
                steps.append(folder / str(number) / f"step-{step:09}")
                shutil.copytree(run.checkpoint(step), steps[-1])
        return steps
    reader = Reader(counted.program, copied())
    ends, times = collections.Counter(), []
    kind = counted.kind(f"a damaged step of {len(runs)} kinds of runs is refused, or the same", 500, 50000)
    for number in kind:
        found, more = reader.read(number)
        if found == "failed":
            kind.fails(number, more)
            reader.close()
            copied()
        elif more > MOST_MILLISECONDS:
            kind.fails(number, f"it took {more:.0f} ms")
        else:
            ends[found] += 1
            times.append(more)
            kind.passed()
    reader.close()
    if times:
        times.sort()
        print(f"  {ends['refused']} refused, {ends['same']} the same; median {times[len(times) // 2]:.1f} ms, "
              f"longest {times[-1]:.0f} ms", flush=True)


def damage(path, source):
    """Flips a bit, truncates or removes a file, or replaces it by something else."""
    file = source.choice([file for file in sorted(path.iterdir()) if file.name != "view.h5"])
    content = bytearray(file.read_bytes())
    way = source.choice(("flip", "cut", "remove", "pipe", "link", "folder", "zero"))
    file.unlink()
    if way == "flip":
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    elif way == "cut":
        del content[source.randrange(len(content)):]
    elif way == "zero":
        at = source.randrange(len(content))
        content[at:at + 1] = bytes([content[at] ^ 255])
    if way == "pipe":
        os.mkfifo(file)
    elif way == "link":
        file.symlink_to("/dev/zero")
    elif way == "folder":
        file.mkdir()
    elif way != "remove":
        file.write_bytes(content)
    return f"{way} of {file.name}"


def try_program(counted, steps, runs):
    """Checks `longspan` itself: exit code 3 and one message; a run resumes from the previous step."""
    kind = counted.kind("`longspan` reports a damaged step and resumes from the one before", 6, 300)
    for number in kind:
        source = random.Random(number)
        run = source.choice(runs)
        ranks = 2 if "rank-00001.h5" in os.listdir(run.checkpoint(2)) else 1
        kept = run.path.parent / "kept"
        shutil.copytree(run.path, kept)
        change = damage(run.checkpoint(2), source)
        try:
            begin = time.monotonic()
            verified = steps.longspan("verify", run.path.name, code=3)
            steps.assertIn("step-000000002: corrupt", verified.output)
            steps.assertIn("1 of 2 checkpoints corrupt", verified.errors)
            steps.assertLess(time.monotonic() - begin, 10)
            yaml = f"{run.path.name}.yaml"
            named = ["--set", f"run.output_dir=other-{number}", "--set", f"checkpoint.resume_from={run.checkpoint(2)}"]
            refused = steps.longspan("train", yaml, *named, ranks=ranks, code=3)
            steps.assert_one_sentence(refused, "step-000000002")
            result = steps.longspan("train", yaml, ranks=ranks)
            steps.assertIn("Rolling back to step 1", result.output)
            steps.longspan("verify", run.path.name)
            kind.passed()
        except AssertionError as failure:
            kind.fails(number, f"{run.path.name}, {change}: {failure}")
        shutil.rmtree(run.path)
        kept.rename(run.path)


def main():
    counted = Counted(__doc__)
    jobs.TestCase.program = counted.program
    steps = Steps()
    steps.setUp()
    folder = folder_for_tests()
    try:
        runs = steps.make()
        try_reading(counted, folder / "steps", runs)
        try_program(counted, steps, runs)
    finally:
        shutil.rmtree(folder)
        steps.doCleanups()
    counted.end()


if __name__ == "__main__":
    main()
