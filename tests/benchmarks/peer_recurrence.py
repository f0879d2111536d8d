#!/usr/bin/env python3
"""The gated delta rule in PyTorch as in transformers, alternating with benchmark_recurrence.

    python3 tests/benchmarks/peer_recurrence.py build/tests/benchmark_recurrence [--threads 2] [--rounds 3]

One sequence of 4,096 tokens, 4 heads of 128, f32, forward and backward, with a decay of each head: the functions that
Qwen3-Next and Qwen 3.5 use where Triton is missing, in chunks of 64 tokens and token by token.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import math
import os
import re

import torch
import transformers
from transformers.models.qwen3_next import modeling_qwen3_next as peer

from peer_timing import output_of, seconds_of

TOKENS, HEADS, DIM = 4096, 4, 128
LINE = r"K = V = 128, delta rule, decay of each head: .* ([0-9.]+) ms"


def seconds(rule, repetitions=3):
    query, key, value, upstream = (torch.rand(1, TOKENS, HEADS, DIM) - 0.5 for _ in range(4))
    decay, beta = torch.full((1, TOKENS, HEADS), -0.02), torch.full((1, TOKENS, HEADS), 0.5)
    leaves = [x.requires_grad_() for x in (query, key, value, decay, beta)]

    def step():
        out, _ = rule(query, key, value, g=decay, beta=beta, initial_state=None, output_final_state=False,
                      use_qk_l2norm_in_kernel=False)
        torch.autograd.grad(out, leaves, upstream)

    step()
    return min(seconds_of(step, "cpu") for _ in range(repetitions))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    ways = {"chunks of 64": peer.torch_chunk_gated_delta_rule, "token by token": peer.torch_recurrent_gated_delta_rule}
    mine, theirs = math.inf, dict.fromkeys(ways, math.inf)
    for _ in range(arguments.rounds):
        mine = min(mine, 1e-3 * float(re.search(LINE, output_of([arguments.program], arguments.threads))[1]))
        for name, rule in ways.items():
            theirs[name] = min(theirs[name], seconds(rule, 1))
    print(f"longspan: {mine * 1e3:.1f} ms for {TOKENS} tokens, forward and backward")
    for name, found in theirs.items():
        print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {name}: {found * 1e3:.1f} ms, "
              f"{found / mine:.2f} times as long")
    print(f"compared with the fastest of them: {min(theirs.values()) / mine:.2f} times as fast")


if __name__ == "__main__":
    main()
