#!/usr/bin/env python3
"""Attention in PyTorch, timed in turns with benchmark_attention.

    python3 tests/benchmarks/peer_attention.py build/tests/benchmark_attention [--threads 2] [--rounds 3] [--bf16]
    python3 tests/benchmarks/peer_attention.py build/tests/benchmark_attention --device cuda [--rounds 3]

On a CPU: one causal sequence of 4,096 tokens, 8 heads of 64, beside scaled_dot_product_attention. On a GPU, in bf16 and
timed by events after warm-up: causal attention of 2 x 8,192 tokens, 16 heads of 128, beside the best of PyTorch's fused
kernels, and local, strided and image masks of that shape beside compiled FlexAttention where it is installed. The best
time of each is compared, forward and backward.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess

import torch
from torch.nn import functional as F

from peer_timing import seconds_of

CPU_SHAPE = (1, 8, 4096, 64)
GPU_SHAPE = (2, 16, 8192, 128)


def best_times(attend, shape, dtype, device, repetitions, warm_up):
    """Seconds of the forward pass and of the backward pass of attend(query, key, value)."""
    query, key, value = (torch.randn(shape, dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    upstream = torch.randn(shape, dtype=dtype, device=device)
    best = [float("inf"), float("inf")]
    for repetition in range(warm_up + repetitions):
        out = None

        def forward():
            nonlocal out
            out = attend(query, key, value)

        forward_time = seconds_of(forward, device)
        backward_time = seconds_of(lambda: out.backward(upstream), device)
        query.grad = key.grad = value.grad = None
        if repetition >= warm_up:
            best = [min(best[0], forward_time), min(best[1], backward_time)]
    return best


def causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def fused(shape, dtype):
    """The best of each of PyTorch's fused kernels that takes the shape, and which ones those are."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    best, names = [float("inf")] * 2, ["none"] * 2
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                found = best_times(causal, shape, dtype, "cuda", 30, 5)
        except RuntimeError:
            continue
        for i in range(2):
            if found[i] < best[i]:
                best[i], names[i] = found[i], backend.name.lower()
    return best, names


def flex(pattern, shape, dtype):
    """Compiled FlexAttention under the mask of benchmark_attention of that name."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    tokens = shape[2]

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
    return best_times(lambda q, k, v: run(q, k, v, block_mask=mask), shape, dtype, "cuda", 30, 5)


def ours(program, names, arguments):
    """{name: [seconds forward, seconds backward]}; the best of the program's repetitions."""
    words = [program, f"--benchmark_filter=^({'|'.join(names)})/", "--benchmark_format=json", "--device", arguments.device]
    if arguments.device == "cpu":
        words.append("--benchmark_min_time=1")
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    text = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    found = {}
    for row in json.loads(text)["benchmarks"]:
        name, dtype, direction = row["name"].split("/")[:3]
        times = found.setdefault(f"{name}/{dtype}", [float("inf")] * 2)
        times[direction == "backward"] = row["best_ms"] * 1e-3
    return found


def compare(what, mine, theirs, other, wanted=None):
    for i, direction in enumerate(("forward", "backward")):
        ratio = theirs[i] / mine[i]
        goal = f" (wanted: at least {wanted})" if wanted else ""
        print(f"{what}, {direction}: longspan {mine[i] * 1e3:.3f} ms, {other} {theirs[i] * 1e3:.3f} ms: "
              f"{ratio:.2f} times as fast{goal}", flush=True)
    total = sum(theirs) / sum(mine)
    print(f"{what}, both: {total:.2f} times as fast", flush=True)


def least(a, b):
    return [min(pair) for pair in zip(a, b)]


def on_cpu(arguments):
    torch.set_num_threads(arguments.threads)
    name = "causal_4096/" + ("bf16" if arguments.bf16 else "f32")
    dtype = torch.bfloat16 if arguments.bf16 else torch.float32
    mine, theirs = [float("inf")] * 2, [float("inf")] * 2
    for _ in range(arguments.rounds):
        mine = least(mine, ours(arguments.program, [name], arguments)[name])
        theirs = least(theirs, best_times(causal, CPU_SHAPE, dtype, "cpu", 8, 0))
    compare("causal, 4,096 tokens, 8 heads of 64", mine, theirs, f"PyTorch {torch.__version__}")


def on_gpu(arguments):
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    patterns = ["causal", "local", "strided", "image"]
    names = [f"{pattern}_8192_128/bf16" for pattern in patterns]
    mine = {}
    best, kernels = [float("inf")] * 2, []
    for _ in range(arguments.rounds):
        for name, times in ours(arguments.program, names, arguments).items():
            mine[name] = least(mine.get(name, times), times)
        found, kernels = fused(GPU_SHAPE, torch.bfloat16)
        best = least(best, found)
    compare("causal, 2 x 8,192 tokens, 16 heads of 128", mine[names[0]], best, f"PyTorch's {'/'.join(kernels)}", 0.5)
    for pattern, name in zip(patterns[1:], names[1:]):
        try:
            compare(pattern, mine[name], flex(pattern, GPU_SHAPE, torch.bfloat16), "FlexAttention", 1)
        except Exception as error:  # whatever its compiler throws: the others are still compared
            print(f"{pattern}: FlexAttention could not be timed: {str(error).splitlines()[0]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    on_gpu(arguments) if arguments.device == "cuda" else on_cpu(arguments)


if __name__ == "__main__":
    main()
