#!/usr/bin/env python3
"""Decoders of the package transformers, for tests/launch/import_test.py.

    python causal.py make FOLDER [KIND...]          small ones with random weights, each in FOLDER/KIND
    python causal.py losses FOLDER FILE SEGMENT...  nats per token of the bytes of the file, by segment length: JSON,
                                                    {KIND: {SEGMENT: loss}}
    python causal.py step FOLDER FILE RATE OUTPUT    one step of gradient descent on the bytes of the file, to OUTPUT/KIND
    python causal.py adapted MODEL ADAPTERS FILE SEGMENT
                                                    nats per token without and with adapters of the package peft: JSON,
                                                    {"before": loss, "adapted": loss}

Skips segments longer than a table of positions.

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
from pathlib import Path

import torch
import transformers as t

COMMON = {"vocab_size": 259, "bos_token_id": 256, "eos_token_id": 256}
SIZES = {**COMMON, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
ORIGINAL = {"factor": 4.0, "original_max_position_embeddings": 16}
# Six pairs of a head of 12 features.
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 2.0], "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 4.5]}


def llama(**changes):
    return t.LlamaConfig, {**SIZES, **changes}


def scaled(kind, **changes):
    return llama(rope_parameters={"rope_type": kind, "rope_theta": 500.0, **changes})


KINDS = {
    "gpt2": (t.GPT2Config, {**COMMON, "n_positions": 64, "n_embd": 48, "n_layer": 3, "n_head": 4}),
    "llama2": llama(num_key_value_heads=4),
    "llama-biases": llama(attention_bias=True, mlp_bias=True, head_dim=16, tie_word_embeddings=True, hidden_act="gelu"),
    "llama-linear": scaled("linear", factor=4.0),
    "llama-dynamic": scaled("dynamic", factor=4.0),
    "llama-yarn": scaled("yarn", **ORIGINAL),
    "llama-yarn-mscale": scaled("yarn", **ORIGINAL, mscale=0.7, mscale_all_dim=1.0, beta_fast=8),
    "llama3": scaled("llama3", **ORIGINAL, low_freq_factor=1.0, high_freq_factor=4.0),
    "llama-longrope": scaled("longrope", original_max_position_embeddings=32, **FACTORS),
    "mistral": (t.MistralConfig, {**SIZES, "sliding_window": 9, "num_key_value_heads": 1}),
    "mistral-full": (t.MistralConfig, {**SIZES, "sliding_window": None}),
    "qwen2": (t.Qwen2Config, {**SIZES, "tie_word_embeddings": True}),
    "qwen2-windows": (t.Qwen2Config, {**SIZES, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "qwen3": (t.Qwen3Config, {**SIZES, "head_dim": 16}),
    "qwen3-windows": (t.Qwen3Config, {**SIZES, "use_sliding_window": True, "sliding_window": 5, "attention_bias": True,
                                      "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
}
# Since version 5.2 of the package.
if hasattr(t, "Qwen3_5TextConfig"):
    HYBRID = {**SIZES, "num_hidden_layers": 4, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
              "linear_key_head_dim": 8, "linear_value_head_dim": 12, "tie_word_embeddings": False}
    KINDS["qwen3_5"] = (t.Qwen3_5TextConfig, HYBRID)
    KINDS["qwen3_5-types"] = (t.Qwen3_5TextConfig, {
        **HYBRID, "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        "tie_word_embeddings": True, "linear_conv_kernel_dim": 3, "rms_norm_eps": 1e-3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}})
if hasattr(t, "Mamba2Config"):
    MAMBA = {"vocab_size": SIZES["vocab_size"], "hidden_size": 24, "num_hidden_layers": 2, "num_heads": 6, "head_dim": 8, "state_size": 5,
             "n_groups": 2, "chunk_size": 16, "tie_word_embeddings": False}
    KINDS["mamba2"] = (t.Mamba2Config, MAMBA)
    KINDS["mamba2-limits"] = (t.Mamba2Config, {**MAMBA, "num_heads": 9, "expand": 3, "n_groups": 1, "conv_kernel": 3, "use_conv_bias": False,
                                               "time_step_limit": (0.2, 0.9), "layer_norm_epsilon": 1e-3, "tie_word_embeddings": True})


def make_one(kind, folder):
    torch.manual_seed(1)
    of, values = KINDS[kind]
    model = t.AutoModelForCausalLM.from_config(of(**values))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Larger than the initial values, so that each weight affects the loss. No bias is zero.
            gain = ("norm" in name or "ln_" in name) and name.endswith("weight")
            # Most norms of Qwen 3.5 multiply by 1 + weight.
            gain = gain and (not kind.startswith("qwen3_5") or "linear_attn" in name)
            weight.copy_(torch.randn_like(weight) * 0.15 + (1 if gain else 0))
    model.save_pretrained(folder)
    # The format of older versions of the package.
    if kind == "llama3":
        path = folder / "config.json"
        config = json.loads(path.read_text())
        scaling = config.pop("rope_parameters")
        config["rope_theta"] = scaling.pop("rope_theta")
        path.write_text(json.dumps({**config, "rope_scaling": scaling}))


def make(folder, *kinds):
    for kind in kinds or KINDS:
        make_one(kind, Path(folder) / kind)


def loss(model, ids, segment):
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, segment):
            targets = ids[begin + 1:begin + segment + 1]
            logits = model(ids[None, begin:begin + len(targets)]).logits[0]
            total += torch.nn.functional.cross_entropy(logits.double(), targets, reduction="sum").item()
    return total / (len(ids) - 1)


def losses(folder, file, *segments):
    ids = torch.tensor(list(Path(file).read_bytes()))
    found = {}
    for path in sorted(Path(folder).iterdir()):
        model, loading = t.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
        for kind in "missing_keys", "unexpected_keys", "mismatched_keys":
            if loading.get(kind):
                sys.exit(f"{path}: {kind}: {loading[kind]}")
        model.eval()
        longest = getattr(model.config, "n_positions", None) or 1 << 30
        found[path.name] = {segment: loss(model, ids, int(segment)) for segment in segments if int(segment) <= longest}
    print(json.dumps(found))


def step(folder, file, rate, output):
    ids = torch.tensor(list(Path(file).read_bytes()))
    for path in sorted(Path(folder).iterdir()):
        model = t.AutoModelForCausalLM.from_pretrained(path).eval()  # without dropout
        torch.nn.functional.cross_entropy(model(ids[None, :-1]).logits[0], ids[1:]).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= float(rate) * weight.grad
        model.save_pretrained(Path(output) / path.name)


def adapted(folder, adapters, file, segment):
    from peft import PeftModel

    ids = torch.tensor(list(Path(file).read_bytes()))
    model = t.AutoModelForCausalLM.from_pretrained(folder).eval()
    before = loss(model, ids, int(segment))
    model = PeftModel.from_pretrained(model, adapters).eval()
    print(json.dumps({"before": before, "adapted": loss(model, ids, int(segment))}))


if __name__ == "__main__":
    {"make": make, "losses": losses, "step": step, "adapted": adapted}[sys.argv[1]](*sys.argv[2:])
