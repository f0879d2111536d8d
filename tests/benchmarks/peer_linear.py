#!/usr/bin/env python3
"""Causal linear attention in PyTorch as in common modules, alternating with benchmark_length.

    python3 tests/benchmarks/peer_linear.py build/tests/benchmark_length [--kind linear] [--tokens 4096] [--threads 2] [--rounds 3]

One sequence, 2 heads of 64, f32, forward and backward. PyTorch has no kernel for running sums of keys and values.
Modules therefore store all sums (a cumulative sum over tokens), store those of chunks of 128 tokens, or loop over the
tokens. The fastest variant is compared. Features of `linear`: elu(x) + 1; of `performer`: 266 positive random features.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import math
import os
import re

import torch
from torch.nn import functional as F

from peer_timing import output_of, seconds_of

HEADS, DIM, FEATURES = 2, 64, 266  # 64 ln(64)


def elu_features(x):
    return F.elu(x) + 1


def random_features(projection):
    def features(x):
        x = x / x.shape[-1] ** 0.25
        scores = x @ projection.T - x.square().sum(-1, keepdim=True) / 2
        return torch.exp(scores - scores.amax(dim=(-1, -2), keepdim=True)) / math.sqrt(FEATURES) + 1e-4
    return features


def all_prefixes(query, key, value):
    sums = torch.einsum("htf,htd->htfd", key, value).cumsum(1)
    total = torch.einsum("htf,htf->ht", query, key.cumsum(1))
    return torch.einsum("htf,htfd->htd", query, sums) / total[..., None]


def by_chunks(query, key, value, chunk=128):
    sums = key.new_zeros(key.shape[0], 1, key.shape[2], value.shape[2])
    totals = key.new_zeros(key.shape[0], 1, key.shape[2])
    outputs = []
    for q, k, v in zip(*(x.split(chunk, dim=1) for x in (query, key, value))):
        here = sums + torch.einsum("htf,htd->htfd", k, v).cumsum(1)
        count = totals + k.cumsum(1)
        outputs.append(torch.einsum("htf,htfd->htd", q, here) / torch.einsum("htf,htf->ht", q, count)[..., None])
        sums, totals = here[:, -1:], count[:, -1:]
    return torch.cat(outputs, dim=1)


def by_tokens(query, key, value):
    sums, totals, outputs = 0, 0, []
    for q, k, v in zip(query.unbind(1), key.unbind(1), value.unbind(1)):
        sums = sums + k[:, :, None] * v[:, None, :]
        totals = totals + k
        outputs.append(torch.einsum("hf,hfd->hd", q, sums) / (q * totals).sum(-1, keepdim=True))
    return torch.stack(outputs, dim=1)


def seconds(attend, features, tokens, repetitions=3):
    query, key, value, upstream = (torch.rand(HEADS, tokens, DIM) - 0.5 for _ in range(4))
    for x in query, key, value:
        x.requires_grad_()

    def step():
        out = attend(features(query), features(key), value)
        torch.autograd.grad(out, (query, key, value), upstream)

    step()
    return min(seconds_of(step, "cpu") for _ in range(repetitions))


def ours(arguments):
    text = output_of([arguments.program, arguments.kind, str(arguments.tokens), str(arguments.tokens)], arguments.threads)
    return float(re.search(r"tokens: ([0-9.]+) microseconds", text)[1]) * 1e-6 * arguments.tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kind", choices=["linear", "performer"], default="linear")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    features = elu_features if arguments.kind == "linear" else random_features(torch.randn(FEATURES, DIM))
    ways = {"all prefixes": all_prefixes, "chunks of 128": by_chunks, "token by token": by_tokens}
    mine, theirs = math.inf, dict.fromkeys(ways, math.inf)
    for _ in range(arguments.rounds):
        mine = min(mine, ours(arguments))
        for name, attend in ways.items():
            theirs[name] = min(theirs[name], seconds(attend, features, arguments.tokens))
    print(f"longspan, {arguments.kind}: {mine * 1e3:.1f} ms for {arguments.tokens} tokens, forward and backward")
    for name, found in theirs.items():
        print(f"PyTorch {torch.__version__}, {name}: {found * 1e3:.1f} ms, {found / mine:.2f} times as long")
    print(f"beside the fastest of them: {min(theirs.values()) / mine:.2f} times as fast")


if __name__ == "__main__":
    main()
