#!/usr/bin/env python3
"""GPT-2 of the package transformers, for tests/launch/import_test.py.

    python gpt2.py make FOLDER          a small one with random weights
    python gpt2.py loss FOLDER TEXT     nats a token of the text's bytes, in segments of n_positions

SPDX-License-Identifier: Apache-2.0
"""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def make(folder):
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=259, n_positions=64, n_embd=48, n_layer=3, n_head=4,
                                       bos_token_id=256, eos_token_id=256))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Larger than they begin, so that every one of them is felt, and no bias is zero.
            weight.copy_(torch.randn_like(weight) * 0.15 + (1 if "ln_" in name and name.endswith("weight") else 0))
    model.save_pretrained(folder)


def loss(folder, file):
    model, loading = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for kind in "missing_keys", "unexpected_keys", "mismatched_keys":
        if loading.get(kind):
            sys.exit(f"{folder}: {kind}: {loading[kind]}")
    model.eval()
    with open(file, "rb") as text:
        ids = torch.tensor(list(text.read()))
    segment = model.config.n_positions
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, segment):
            targets = ids[begin + 1:begin + segment + 1]
            logits = model(ids[None, begin:begin + len(targets)]).logits[0]
            total += torch.nn.functional.cross_entropy(logits.double(), targets, reduction="sum").item()
    print(repr(total / (len(ids) - 1)))


if __name__ == "__main__":
    {"make": make, "loss": loss}[sys.argv[1]](*sys.argv[2:])
