#!/usr/bin/env python3
"""Cost of --profile: processor time of the training thread per step, during recording and before and after.

    tests/benchmarks/profile_cost.py build/launch/longspan [TURNS]

A small decoder with short spans: the worst case. Processor time, which other processes hardly affect, without writing
of the files.
"""
# SPDX-License-Identifier: Apache-2.0

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = 100  # steps
SETTINGS = {"model.family": "decoder", "model.num_hidden_layers": 4, "model.hidden_size": 64,
            "model.num_attention_heads": 4, "data.train": "text.txt",
            "data.seq_length": 64, "data.global_batch_size": 8, "training.max_steps": 5 * BLOCK,
            "checkpoint.save_interval": 0, "run.num_threads": 1,
            "run.output_dir": "run", "metrics.log_interval": 1, "metrics.console": "plain"}


def milliseconds(process):
    """Returns the processor time of the first thread so far."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0]) / 1e6


def turn(program):
    """Returns the time of a step before, during and after recording."""
    with tempfile.TemporaryDirectory() as folder:
        source = random.Random(1)
        (Path(folder) / "text.txt").write_text(" ".join(source.choice("in the beginning was a word".split()) for _ in range(60000)))
        (Path(folder) / "empty.yaml").write_text("{}\n")
        settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        command = [program, "train", "empty.yaml", *settings, "--profile-steps", f"{2 * BLOCK + 1}:{3 * BLOCK}"]
        at = {}
        with subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True) as job:
            for line in job.stdout:
                if step := re.match(r"step (\d+)/", line):
                    at[int(step[1])] = milliseconds(job.pid)
        if job.returncode != 0:
            sys.exit(f"{' '.join(command)} returned {job.returncode}")
    return [(at[end - 1] - at[end - BLOCK + 1]) / (BLOCK - 2) for end in (2 * BLOCK, 3 * BLOCK, 5 * BLOCK)]


def main():
    program = os.path.abspath(sys.argv[1])
    ratios = []
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
        before, recorded, after = turn(program)
        ratios.append(2 * recorded / (before + after))
        print(f"{before:.2f} ms before, {recorded:.2f} ms recorded, {after:.2f} ms after: {ratios[-1]:.3f}", flush=True)
    print(f"recorded steps take {statistics.median(ratios):.3f} of the time (median)")


if __name__ == "__main__":
    main()
