#!/usr/bin/env python3
"""Attention in PyTorch, alternating with benchmark_attention.

    python3 tests/benchmarks/peer_attention.py build/tests/benchmark_attention [--threads 2] [--rounds 3] [--bf16]
    python3 tests/benchmarks/peer_attention.py build/tests/benchmark_attention --device cuda [--rounds 3]

On a CPU: one causal sequence of 4,096 tokens, 8 heads of 64, against scaled_dot_product_attention. On a GPU, in bf16,
timed by events after a warm-up: causal attention of 2 x 8,192 tokens, 16 heads of 128, against the fastest fused kernel
of PyTorch, and local, strided and image masks of this shape against compiled FlexAttention. On Hopper also with WGMMA
kernels. Compares the best times, forward and backward.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys

import torch
from torch.nn import functional as F

from peer_timing import figure, output_of, paths, seconds_of

CPU_SHAPE = (1, 8, 4096, 64)
GPU_SHAPE = (2, 16, 8192, 128)


def best_times(attend, shape, dtype, device, repetitions, warm_up):
    """Returns the seconds of the forward and of the backward pass of attend(query, key, value)."""
    query, key, value = (torch.randn(shape, dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    upstream = torch.randn(shape, dtype=dtype, device=device)
    best = [float("inf"), float("inf")]
    for repetition in range(warm_up + repetitions):
        out = None

        def forward():
            nonlocal out
            out = attend(query, key, value)

        forward_time = seconds_of(forward, device)
        backward_time = seconds_of(lambda: torch.autograd.grad(out, (query, key, value), upstream), device)
        if repetition >= warm_up:
            best = [min(best[0], forward_time), min(best[1], backward_time)]
    return best


def causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def fused():
    """The fastest fused kernel of PyTorch. On Hopper the two fast ones must be available."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    best = [float("inf")] * 2
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                found = best_times(causal, GPU_SHAPE, torch.bfloat16, "cuda", 30, 5)
        except RuntimeError as error:
            print(f"{backend.name}: {error!r}", flush=True)
            if len(paths()) > 1 and backend != SDPBackend.EFFICIENT_ATTENTION:
                raise
            continue
        print(f"{backend.name}: forward {found[0] * 1e3:.3f} ms, backward {found[1] * 1e3:.3f} ms", flush=True)
        best = least(best, found)
    return best


def flex(pattern):
    """Compiled FlexAttention with the mask of this name in benchmark_attention."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    tokens = GPU_SHAPE[2]

    def local(b, h, q, k):
        return (k <= q) & (q - k <= 255)

    def strided(b, h, q, k):
        return (k <= q) & ((q - k <= 127) | ((q - k) % 128 == 0))

    def image(b, h, q, k):  # 64 x 128 pixels in blocks of 8 x 8, numbered block by block
        row, column = [(i // 1024 * 8 + i % 64 // 8, i % 1024 // 64 * 8 + i % 8) for i in (q, k)]
        (qr, qc), (kr, kc) = row, column
        top, left = qr // 8 * 8, qc // 8 * 8
        inside = (kr >= top) & (kr < top + 8) & (kc >= left) & (kc < left + 8)
        near = (kc >= left - 8) & (kc < left + 16)
        above = (kr < top) & (kr >= top - 8) & near
        beside = (kr >= top) & (kr < top + 8) & (kc < left) & near
        return (inside & ((kr < qr) | ((kr == qr) & (kc <= qc)))) | above | beside

    rule = {"local": local, "strided": strided, "image": image}[pattern]
    mask = create_block_mask(rule, None, None, tokens, tokens, device="cuda")
    run = torch.compile(flex_attention, dynamic=False)
    return best_times(lambda q, k, v: run(q, k, v, block_mask=mask), GPU_SHAPE, torch.bfloat16, "cuda", 30, 5)


def ours(name, arguments, environment={}):
    """Returns [seconds forward, seconds backward], the best of the repetitions of the program."""
    words = [arguments.program, f"--benchmark_filter=^{name}/", "--benchmark_format=json", "--device", arguments.device]
    times = [float("inf")] * 2
    for row in json.loads(output_of(words, arguments.threads, environment))["benchmarks"]:
        direction = row["name"].split("/")[2]
        times[direction == "backward"] = row["best_ms"] * 1e-3
        print(f"longspan, {name}, {direction}: {row['of_peak']:.3f} of a peak of {row['peak_gflops']:.0f} GFLOP/s", flush=True)
    return times


def compare(what, mine, theirs, other):
    for i, direction in enumerate(("forward", "backward")):
        print(f"{what}, {direction}: longspan {mine[i] * 1e3:.3f} ms, {other} {theirs[i] * 1e3:.3f} ms: "
              f"{theirs[i] / mine[i]:.2f} times as fast", flush=True)
    print(f"{what}, both: {sum(theirs) / sum(mine):.2f} times as fast", flush=True)


def least(a, b):
    return [min(pair) for pair in zip(a, b)]


def on_cpu(arguments):
    torch.set_num_threads(arguments.threads)
    name = "causal_4096/" + ("bf16" if arguments.bf16 else "f32")
    dtype = torch.bfloat16 if arguments.bf16 else torch.float32
    mine, theirs = [float("inf")] * 2, [float("inf")] * 2
    for _ in range(arguments.rounds):
        mine = least(mine, ours(name, arguments))
        theirs = least(theirs, best_times(causal, CPU_SHAPE, dtype, "cpu", 8, 0))
    compare("causal, 4,096 tokens, 8 heads of 64", mine, theirs, f"PyTorch {torch.__version__}")


def beside(pattern, path, environment, theirs, arguments):
    name, mine = f"{pattern}_8192_128", [float("inf")] * 2
    for _ in range(arguments.rounds):
        mine = least(mine, ours(f"{name}/bf16", arguments, environment))
    other = "pytorch" if pattern == "causal" else "flex-attention"
    compare(path + name, mine, theirs, other)
    for i, direction in enumerate(("forward", "backward")):
        figure(f"{path}{name}/{direction}/vs-{other}", theirs[i] / mine[i])


def on_gpu(arguments):
    """Returns whether all comparisons succeeded. A failed one does not prevent the others."""
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    well = True
    for pattern in "causal", "local", "strided", "image":
        try:
            theirs = fused() if pattern == "causal" else flex(pattern)
        except Exception as error:  # any exception of the PyTorch compiler
            print(f"{pattern}: PyTorch could not be timed: {error!r}", flush=True)
            well = False
            continue
        for path, environment in paths().items():
            try:
                beside(pattern, path, environment, theirs, arguments)
            except subprocess.CalledProcessError as error:
                print(f"{path}{pattern}: {error!r}", flush=True)
                well = False
    return well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        on_cpu(arguments)
    elif not on_gpu(arguments):
        sys.exit(1)


if __name__ == "__main__":
    main()
