#!/usr/bin/env python3
"""Causal attention in PyTorch (scaled_dot_product_attention), timed in turns with benchmark_attention.

    python3 tests/benchmarks/peer_attention.py build/tests/benchmark_attention [--threads 2] [--rounds 3] [--bf16]

One sequence of 4,096 tokens, 8 heads of 64. The best time of each is compared, forward and backward.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import time

import torch
from torch.nn import functional as F

SHAPE = (1, 8, 4096, 64)


def theirs(dtype, repetitions=8):
    """Seconds of the forward pass and of the backward pass."""
    query, key, value = (torch.randn(SHAPE, dtype=dtype, requires_grad=True) for _ in range(3))
    upstream = torch.randn(SHAPE, dtype=dtype)
    best = [float("inf"), float("inf")]
    for _ in range(repetitions):
        begin = time.perf_counter()
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        middle = time.perf_counter()
        out.backward(upstream)
        end = time.perf_counter()
        best = [min(best[0], middle - begin), min(best[1], end - middle)]
    return best


def ours(program, dtype, threads):
    words = [program, f"--benchmark_filter=causal_4096/{dtype}/", "--benchmark_format=json", "--benchmark_min_time=1"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    text = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    pairs, operations = SHAPE[2] * (SHAPE[2] + 1) / 2, 4 * SHAPE[1] * SHAPE[3]
    forward = pairs * operations
    found = {row["name"].split("/")[2]: row["gflops"] * 1e9 for row in json.loads(text)["benchmarks"]}
    return [forward / found["forward"], 2 * forward / found["backward"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    best = {"longspan": [float("inf")] * 2, "PyTorch": [float("inf")] * 2}
    for _ in range(arguments.rounds):
        mine = ours(arguments.program, "bf16" if arguments.bf16 else "f32", arguments.threads)
        other = theirs(torch.bfloat16 if arguments.bf16 else torch.float32)
        for name, times in (("longspan", mine), ("PyTorch", other)):
            best[name] = [min(pair) for pair in zip(best[name], times)]
    for i, direction in enumerate(("forward", "backward")):
        mine, other = best["longspan"][i], best["PyTorch"][i]
        print(f"{direction}: longspan {mine * 1e3:.1f} ms, PyTorch {torch.__version__} {other * 1e3:.1f} ms: "
              f"{other / mine:.2f} times as fast")


if __name__ == "__main__":
    main()
