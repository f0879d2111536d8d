#!/usr/bin/env python3
"""The workloads of benchmark_training_step in PyTorch, to be timed beside it in one run.

    python3 tests/benchmarks/peer_pytorch.py [xl|gpt2] [--threads 2] [--steps 5] [--bf16] [--compile]
    python3 tests/benchmarks/peer_pytorch.py xl --beside build/tests/benchmark_training_step
    python3 tests/benchmarks/peer_pytorch.py gpt2_1024 --device cuda --bf16 --compile --beside ...

With --beside the two programs take turns, and the ratio of their best tokens a second is printed. The Transformer-XL is
the published formulation: content and position scores as matrix products of whole segments, the second one shifted. On a
GPU steps are timed by events, and the one in the middle counts.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import re
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional as F

from peer_timing import seconds_of

XL = dict(layers=6, width=512, heads=8, hidden=2048, segment=256, memory=256, batch=8, vocabulary=256, dropout=0.1)
GPT2 = dict(layers=12, width=768, heads=12, segment=64, batch=4, vocabulary=50257, positions=1024)
SIZES = {
    "xl": XL,
    "gpt2": GPT2,
    "gpt2_1024": dict(GPT2, segment=1024, batch=32, vocabulary=50304),
    "decoder_1b": dict(layers=24, width=2048, heads=16, segment=2048, batch=8, vocabulary=50304, positions=2048),
    "xl_large": dict(XL, layers=12, width=1024, heads=16, hidden=4096, segment=512, memory=512, batch=16),
}
# What longspan should reach beside PyTorch on a GPU.
WANTED = {"gpt2_1024": 1.1, "decoder_1b": 1.1, "xl_large": 2.0}


def shift(scores):
    """Scores by distance, far to near, to scores by key: [batch, heads, time, keys]."""
    batch, heads, rows, columns = scores.shape
    padded = F.pad(scores, (1, 0)).view(batch, heads, columns + 1, rows)
    return padded[:, :, 1:].reshape(batch, heads, rows, columns)


class XlLayer(nn.Module):
    def __init__(self, width, heads, hidden, dropout, **_):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.position = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.hidden = nn.Linear(width, hidden)
        self.back = nn.Linear(hidden, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, self.dim).transpose(1, 2)

    def forward(self, x, memory, distances, biases, mask):
        seen = x if memory is None else torch.cat([memory, x], 1)
        query = self.split(self.query(x))
        key, value = (self.split(part) for part in self.key_value(seen).chunk(2, -1))
        position = self.position(distances).view(-1, self.heads, self.dim).transpose(0, 1)
        content = (query + biases[0][:, None]) @ key.transpose(-1, -2)
        by_distance = (query + biases[1][:, None]) @ position.transpose(-1, -2)
        scores = (content + shift(by_distance)) * self.dim**-0.5
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.drop(self.out(mixed)))
        return self.norms[1](x + self.drop(self.back(self.drop(F.relu(self.hidden(x))))))


class Xl(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, memory, dropout, **rest):
        super().__init__()
        self.width, self.memory = width, memory
        self.embedding = nn.Embedding(vocabulary, width)
        self.biases = nn.Parameter(torch.randn(2, heads, width // heads) * 0.02)
        self.layers = nn.ModuleList(XlLayer(width, heads, dropout=dropout, **rest) for _ in range(layers))
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))
        self.drop = nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens, targets, memories):
        time_, past = tokens.shape[1], 0 if memories is None else memories[0].shape[1]
        keys = time_ + past
        frequency = 10000 ** (-torch.arange(0, self.width, 2, device=tokens.device) / self.width)
        angles = torch.arange(keys - 1, -1, -1, device=tokens.device)[:, None] * frequency
        distances = self.drop(torch.cat([angles.sin(), angles.cos()], 1))
        mask = torch.ones(time_, keys, dtype=torch.bool, device=tokens.device).triu(1 + past)
        x = self.drop(self.embedding(tokens) * self.width**0.5)
        inputs = []
        for i, layer in enumerate(self.layers):
            inputs.append(x.detach())
            x = layer(x, None if memories is None else memories[i], distances, self.biases, mask)
        logits = F.linear(self.drop(x), self.embedding.weight, self.output_bias)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))
        return loss, [row[:, -self.memory:] for row in inputs]


class Gpt2Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.projection = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time_, width = x.shape
        parts = self.projection(self.norms[0](x)).view(batch, time_, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        else:
            scores = parts[0] @ parts[1].transpose(-1, -2) * parts.shape[-1] ** -0.5
            hidden = torch.ones(time_, time_, dtype=torch.bool, device=x.device).triu(1)
            mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ parts[2]
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time_, width))
        return x + self.back(F.gelu(self.hidden(self.norms[1](x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, positions, **_):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Gpt2Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens, targets, memories):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1)), None


def step_seconds(arguments):
    """Of the best step on a CPU, of the one in the middle on a GPU; and its tokens."""
    size, device = SIZES[arguments.workload], arguments.device
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high" if arguments.bf16 else "highest")
    model = (Xl if arguments.workload.startswith("xl") else Gpt2)(**size).to(device)
    run = torch.compile(model) if arguments.compile else model
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-4, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-4)
    memories, times = None, []
    shape = (size["batch"], size["segment"])
    # Compiled steps: one without memory, one with, and what they are tuned by.
    warm_up = 2 if device == "cpu" else 6
    for step in range(arguments.steps + warm_up):
        tokens, targets = (torch.randint(size["vocabulary"], shape, device=device) for _ in range(2))

        def work():
            nonlocal memories
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=arguments.bf16):
                loss, memories = run(tokens, targets, memories)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if device == "cpu":
                loss.item()

        seconds = seconds_of(work, device)
        if step >= warm_up:
            times.append(seconds)
    times.sort()
    return times[0 if device == "cpu" else len(times) // 2], shape[0] * shape[1]


def tokens_a_second(arguments):
    seconds, tokens = step_seconds(arguments)
    return tokens / seconds


def in_another_process():
    """The same measurement, by this script without --beside: the memory that it takes is given back."""
    at = sys.argv.index("--beside")
    words = [sys.executable, *sys.argv[:at], *sys.argv[at + 2:]]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(re.search(r"(\d+) tokens/s", text).group(1))


def ours(arguments):
    words = [arguments.beside, "--device", arguments.device, arguments.workload, "bf16" if arguments.bf16 else "float32", str(arguments.steps)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    text = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    print(text.strip(), flush=True)
    return float(re.search(r"(\d+) tokens/s", text).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", choices=list(SIZES), default="xl")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--beside", metavar="PROGRAM", help="benchmark_training_step, to take turns with")
    arguments = parser.parse_args()
    name = f"PyTorch {torch.__version__}{' compiled' if arguments.compile else ''}"
    if not arguments.beside:
        print(f"{arguments.workload}: {name}: {tokens_a_second(arguments):.0f} tokens/s")
        return
    mine, theirs = 0.0, 0.0
    for _ in range(arguments.rounds):
        mine = max(mine, ours(arguments))
        theirs = max(theirs, in_another_process() if arguments.device == "cuda" else tokens_a_second(arguments))
        print(f"{arguments.workload}: {name}: {theirs:.0f} tokens/s", flush=True)
    print(f"{arguments.workload}: longspan {mine:.0f} tokens/s, {name} {theirs:.0f}: {mine / theirs:.2f} times"
          + (f" (wanted: at least {WANTED[arguments.workload]})" if arguments.workload in WANTED else ""))


if __name__ == "__main__":
    main()
