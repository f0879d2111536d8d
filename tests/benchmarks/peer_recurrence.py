#!/usr/bin/env python3
"""Gated linear recurrences in PyTorch, as in transformers and flash-linear-attention, alternating with Longspan.

    python3 tests/benchmarks/peer_recurrence.py build/tests/benchmark_recurrence build/tests/benchmark_length [--threads 2] [--rounds 3]

One sequence of 4,096 tokens, f32, forward and backward: recurrences with 4 heads of 128, and the Mamba-2 layer of
width 128 without its projections of x and of the output. Of transformers: the functions that it uses without Triton; of
flash-linear-attention: its reference functions (naive.py). Requires both packages, of flash-linear-attention only the
files (`pip install --no-deps fla-core`).
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib.util
import math
import os
import pathlib
import re

import torch
import transformers
from transformers.models.mamba2 import modeling_mamba2 as mamba2
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from peer_timing import output_of, seconds_of

TOKENS, HEADS, DIM = 4096, 4, 128


def fla(name):
    """Loads fla/ops/NAME/naive.py alone: the package imports Triton."""
    root = pathlib.Path(importlib.util.find_spec("fla").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), root / "ops" / name / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_heads_first(rule):
    """[batch, time, heads, ...] for a function of [batch, heads, time, ...]."""
    def call(*inputs):
        out, _ = rule(*(x.transpose(1, 2) for x in inputs))
        return out.transpose(1, 2)
    return call


def qwen_rule(rule):
    return lambda q, k, v, g, beta: rule(q, k, v, g=g, beta=beta, initial_state=None, output_final_state=False,
                                         use_qk_l2norm_in_kernel=False)


def inputs(by_channel, corrections):
    shape = (1, TOKENS, HEADS, DIM)
    query, value = torch.rand(shape) - 0.5, torch.rand(shape) - 0.5
    key = (torch.rand(shape) - 0.5) * (12 / DIM) ** 0.5
    decay = torch.full(shape if by_channel else shape[:3], -0.02)
    if corrections == "beta":
        return query, key, value, decay, torch.full(shape[:3], 0.5)
    if corrections == "given":
        return query, key, value, -key, 0.5 * key, decay
    return query, key, value, decay


def least_seconds(step, repetitions=5, limit=3):
    """Returns the least time of several steps, or of those until the limit in seconds."""
    step()
    found = []
    while not found or (len(found) < repetitions and sum(found) < limit):
        found.append(seconds_of(step, "cpu"))
    return min(found)


def seconds_of_rule(rule, leaves):
    leaves = [x.detach().requires_grad_() for x in leaves]
    upstream = torch.rand(1, TOKENS, HEADS, DIM) - 0.5

    def step():
        found = rule(*leaves)
        torch.autograd.grad(found[0] if isinstance(found, tuple) else found, leaves, upstream)

    return least_seconds(step)


def seconds_of_layer(layer, width):
    x = (torch.rand(1, TOKENS, width) - 0.5).requires_grad_()
    leaves = [x, *layer.parameters()]
    upstream = torch.rand(layer(x).shape) - 0.5

    def step():
        torch.autograd.grad(layer(x), leaves, upstream)

    return least_seconds(step)


def seconds_of_mamba2():
    width = 128
    config = transformers.Mamba2Config(hidden_size=width, num_heads=4, head_dim=64, state_size=128, n_groups=1, expand=2)
    layer = mamba2.Mamba2Mixer(config, layer_idx=0)
    projections = [torch.nn.Linear(width, 2 * width, bias=False), torch.nn.Linear(2 * width, width, bias=False)]
    return seconds_of_layer(layer, width) - sum(seconds_of_layer(x, x.in_features) for x in projections)


# The line of benchmark_recurrence; the functions of the peers.
RECURRENCES = {
    "decay of each head": ((False, ""), {"fla, chunks of 64": lambda: fla("simple_gla").naive_chunk_simple_gla}),
    "decay of each channel": ((True, ""), {"fla, token by token": lambda: fla("gla").naive_recurrent_gla}),
    "delta rule, decay of each head": ((False, "beta"), {
        "transformers, chunks of 64": lambda: qwen_rule(qwen.torch_chunk_gated_delta_rule),
        "fla, chunks of 64": lambda: fla("gated_delta_rule").naive_chunk_gated_delta_rule}),
    "delta rule, decay of each channel": ((True, "beta"), {"fla, chunks of 64": lambda: fla("kda").naive_chunk_kda}),
    "a and b, decay of each channel": ((True, "given"), {
        "fla, chunks of 32": lambda: with_heads_first(fla("generalized_delta_rule/dplr").dplr_chunkwise)}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recurrence", help="benchmark_recurrence")
    parser.add_argument("length", help="benchmark_length")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    mine, theirs = {}, {}

    def least(table, name, found):
        table[name] = min(table.get(name, math.inf), found)

    for _ in range(arguments.rounds):
        output = output_of([arguments.recurrence], arguments.threads)
        for name, (kinds, ways) in RECURRENCES.items():
            line = rf"^K = V = {DIM}, {name}: .* ([0-9.]+) ms$"
            least(mine, name, 1e-3 * float(re.search(line, output, re.MULTILINE)[1]))
            for way, rule in ways.items():
                least(theirs, (name, way), seconds_of_rule(rule(), inputs(*kinds)))
        output = output_of([arguments.length, "mamba2", str(TOKENS), str(TOKENS)], arguments.threads)
        least(mine, "mamba2", 1e-6 * TOKENS * float(re.search(r"tokens: ([0-9.]+)", output)[1]))
        least(theirs, ("mamba2", "transformers, chunks of 256"), seconds_of_mamba2())
    print(f"{TOKENS} tokens, forward and backward; transformers {transformers.__version__}, PyTorch {torch.__version__}")
    for (name, way), found in theirs.items():
        print(f"{name}: {mine[name] * 1e3:.1f} ms; {way}: {found * 1e3:.1f} ms, {found / mine[name]:.1f} times as long")


if __name__ == "__main__":
    main()
