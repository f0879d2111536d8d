#!/usr/bin/env python3
"""The workloads of benchmark_training_step in PyTorch, alternating with it in one run.

    python3 tests/benchmarks/peer_pytorch.py [xl|gpt2|llama] [--threads 2] [--steps 5] [--bf16] [--compile]
    python3 tests/benchmarks/peer_pytorch.py xl --beside build/tests/benchmark_training_step
    python3 tests/benchmarks/peer_pytorch.py gpt2_1024 --device cuda --bf16 --compile --beside ...

With --beside the two programs alternate and the ratio of their best tokens per second is printed. The Transformer-XL is
the published formulation: content and position scores are matrix products of full segments, and the second is shifted.
On a GPU the result is the mean of the steps between two events. Attention is that of the default kernels of PyTorch or
of cuDNN, whichever is faster.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import re
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional as F

from peer_timing import figure, output_of, paths, seconds_of

XL = dict(layers=6, width=512, heads=8, hidden=2048, segment=256, memory=256, batch=8, vocabulary=256, dropout=0.1)
GPT2 = dict(layers=12, width=768, heads=12, segment=64, batch=4, vocabulary=50257, positions=1024)
SIZES = {
    "xl": XL,
    "gpt2": GPT2,
    "llama": dict(layers=12, width=768, heads=12, key_heads=4, hidden=2048, segment=256, batch=2, vocabulary=32000),
    "gpt2_1024": dict(GPT2, segment=1024, batch=32, vocabulary=50304),
    "decoder_1b": dict(layers=24, width=2048, heads=16, segment=2048, batch=8, vocabulary=50304, positions=2048),
    "xl_large": dict(XL, layers=12, width=1024, heads=16, hidden=4096, segment=512, memory=512, batch=16),
}


def narrow(x):
    """Activations between layers: in bf16 under autocast, as in longspan."""
    wide = x.dtype == torch.float32 and torch.is_autocast_enabled(x.device.type)
    return x.to(torch.bfloat16) if wide else x


def shift(scores):
    """Shifts scores by distance, from far to near, to scores by key: [batch, heads, time, keys]."""
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
        seen = torch.cat([memory, x], 1)
        query = self.split(self.query(x))
        key, value = (self.split(part) for part in self.key_value(seen).chunk(2, -1))
        position = self.position(distances).view(-1, self.heads, self.dim).transpose(0, 1)
        content = (query + biases[0][:, None]) @ key.transpose(-1, -2)
        by_distance = (query + biases[1][:, None]) @ position.transpose(-1, -2)
        scores = (content + shift(by_distance)) * self.dim**-0.5
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(x.shape)
        x = narrow(self.norms[0](x + self.drop(self.out(mixed))))
        return narrow(self.norms[1](x + self.drop(self.back(self.drop(F.relu(self.hidden(x)))))))


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
        time_, past = tokens.shape[1], memories[0].shape[1]
        keys = time_ + past
        frequency = 10000 ** (-torch.arange(0, self.width, 2, device=tokens.device) / self.width)
        angles = torch.arange(keys - 1, -1, -1, device=tokens.device)[:, None] * frequency
        distances = self.drop(torch.cat([angles.sin(), angles.cos()], 1))
        mask = torch.ones(time_, keys, dtype=torch.bool, device=tokens.device).triu(1 + past)
        x = narrow(self.drop(self.embedding(tokens) * self.width**0.5))
        inputs = []
        for i, layer in enumerate(self.layers):
            inputs.append(x.detach())
            x = layer(x, memories[i], distances, self.biases, mask)
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
        x = narrow(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1)), None


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, key_heads, hidden):
        super().__init__()
        self.heads, self.key_heads, self.dim = heads, key_heads, width // heads
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)])
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_heads * self.dim, bias=False)
        self.value = nn.Linear(width, key_heads * self.dim, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.dim).transpose(1, 2)

    def turned(self, x, cosine, sine):
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat([-second, first], -1) * sine

    def forward(self, x, cosine, sine):
        y = self.norms[0](x)
        query = self.turned(self.split(self.query(y), self.heads), cosine, sine)
        key = self.turned(self.split(self.key(y), self.key_heads), cosine, sine)
        value = self.split(self.value(y), self.key_heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, key_heads, hidden, segment, vocabulary, **_):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, key_heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.output = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        dim = width // heads
        angles = torch.arange(segment)[:, None] * 10000 ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.cat([angles, angles], 1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens, targets, memories):
        x = narrow(self.tokens(tokens))
        for layer in self.layers:
            x = layer(x, self.cosine.to(x.dtype), self.sine.to(x.dtype))
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1)), None


def model_of(workload):
    return Xl if workload.startswith("xl") else Llama if workload == "llama" else Gpt2


def step_seconds(arguments):
    """Returns the seconds of the best step on a CPU, the mean of the steps on a GPU."""
    size, device = SIZES[arguments.workload], arguments.device
    is_xl = arguments.workload.startswith("xl")
    torch.manual_seed(1)
    with torch.device(device):
        model = model_of(arguments.workload)(**size)
    run = torch.compile(model, dynamic=False) if arguments.compile else model
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-4, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-4)
    memories = None
    if is_xl:  # full from the first step, so that only one shape is compiled
        dtype = torch.bfloat16 if arguments.bf16 else torch.float32
        memory = torch.zeros(size["batch"], size["memory"], size["width"], dtype=dtype, device=device)
        memories = [memory] * size["layers"]
    # Options of compiled steps.
    warm_up = 2 if device == "cpu" else 6
    shape = (warm_up + arguments.steps, 2, size["batch"], size["segment"])
    batches = torch.randint(size["vocabulary"], shape, device=device)

    def step(batch):
        nonlocal memories
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=arguments.bf16):
            loss, memories = run(batch[0], batch[1], memories)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if device == "cpu":
            loss.item()

    for batch in batches[:warm_up]:
        step(batch)
    if device == "cpu":
        return min(seconds_of(lambda: step(batch), device) for batch in batches[warm_up:])
    return seconds_of(lambda: [step(batch) for batch in batches[warm_up:]], device) / arguments.steps


def kernels(arguments):
    """Contexts that select attention kernels, one after another: by default PyTorch does not use cuDNN."""
    yield "PyTorch's own choice", contextlib.nullcontext()
    if arguments.device == "cpu" or arguments.workload.startswith("xl"):
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    yield "cuDNN first", sdpa_kernel(order, set_priority=True)


def tokens_a_second(arguments):
    torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high" if arguments.bf16 else "highest")
    size, best = SIZES[arguments.workload], 0.0
    for name, context in kernels(arguments):
        if arguments.compile:
            torch.compiler.reset()
        with context:
            found = size["batch"] * size["segment"] / step_seconds(arguments)
        print(f"{arguments.workload}, attention by {name}: {found:.0f} tokens a second", flush=True)
        best = max(best, found)
    return best


def in_another_process():
    """Measures in a new process of this script without --beside, which frees its memory at the end."""
    at = sys.argv.index("--beside")
    words = [sys.executable, *sys.argv[:at], *sys.argv[at + 2:]]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(text, end="", flush=True)
    return float(re.search(r"(\d+) tokens/s", text).group(1))


def ours(arguments, environment={}):
    words = [arguments.beside, "--device", arguments.device, arguments.workload, "bf16" if arguments.bf16 else "float32",
             str(arguments.steps)]
    text = output_of(words, arguments.threads, environment)
    print(text, end="", flush=True)
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
    on_gpu = arguments.device == "cuda"
    mine, theirs = 0.0, 0.0
    for _ in range(arguments.rounds):
        mine = max(mine, ours(arguments))
        theirs = max(theirs, in_another_process() if on_gpu else tokens_a_second(arguments))
    print(f"{arguments.workload}: longspan {mine:.0f} tokens/s, {name} {theirs:.0f}: {mine / theirs:.2f} times")
    if not on_gpu:
        return
    figure(f"{arguments.workload}/vs-pytorch", mine / theirs)
    if len(paths()) > 1 and not arguments.workload.startswith("xl"):  # WGMMA kernels do not support its tables
        environment = paths()["hopper-wgmma/"]
        figure(f"hopper-wgmma/{arguments.workload}/vs-pytorch", ours(arguments, environment) / theirs)


if __name__ == "__main__":
    main()
