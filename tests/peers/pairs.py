#!/usr/bin/env python3
"""Encoder-decoders of the package transformers, for tests/launch/import_pairs_test.py.

    python pairs.py make FOLDER KINDS               small ones with random weights, each in FOLDER/KIND; KINDS: bart, t5
    python pairs.py losses FOLDER SOURCES TARGETS   nats per token with teacher forcing: JSON, {KIND: loss}
    python pairs.py greedy FOLDER SOURCES BEYOND    greedy output for every line: JSON, {KIND: [TEXT, ...]}

BEYOND: maximum number of tokens beyond the length of the source.

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
from pathlib import Path

import tokenizers
import torch
import transformers as t
from tokenizers import decoders, models, pre_tokenizers, processors

BART = {"vocab_size": 263, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
        "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 40}
T5 = {"vocab_size": 262, "d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0}

KINDS = {
    "bart": (t.BartForConditionalGeneration, t.BartConfig, BART),
    "bart-scaled": (t.BartForConditionalGeneration, t.BartConfig,
                    {**BART, "scale_embedding": True, "activation_function": "relu", "encoder_layers": 3}),
    "t5": (t.T5ForConditionalGeneration, t.T5Config, T5),
    "t5-gated": (t.T5ForConditionalGeneration, t.T5Config,
                 {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_kv": 8}),
}


def tokenizer(is_bart):
    """A BPE tokenizer; BART: <s> ... </s>, T5: ... </s>."""
    special = ["<s>", "<pad>", "</s>", "<unk>"] if is_bart else ["<pad>", "</s>", "<unk>"]
    names = special + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["Ġt", "he", "Ġthe"]
    made = tokenizers.Tokenizer(models.BPE({name: id for id, name in enumerate(names)}, [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if is_bart:
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    made.add_special_tokens(special)
    return made


def make(folder, prefixes):
    for kind, (of, config, values) in KINDS.items():
        if not kind.startswith(prefixes):
            continue
        torch.manual_seed(1)
        model = of(config(**values))
        if kind == "bart-scaled":
            model.generation_config.forced_bos_token_id = 0
        if kind == "t5-gated":
            # Version 5 of the package shares the table unless another one is set.
            model.lm_head.weight = torch.nn.Parameter(torch.empty(values["vocab_size"], values["d_model"]))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # Larger than the initial values, so that each weight affects the loss. No bias is zero.
                gain = "norm" in name.lower() and name.endswith("weight")
                weight.copy_(torch.randn_like(weight) * 0.3 + (1 if gain else 0))
        model.save_pretrained(Path(folder) / kind)
        tokenizer(kind.startswith("bart")).save(str(Path(folder) / kind / "tokenizer.json"))


def opened(folder):
    for path in sorted(Path(folder).iterdir()):
        of = getattr(t, json.loads((path / "config.json").read_text())["architectures"][0])
        model, loading = of.from_pretrained(path, output_loading_info=True)
        for kind in "missing_keys", "unexpected_keys", "mismatched_keys":
            if loading.get(kind):
                sys.exit(f"{path}: {kind}: {loading[kind]}")
        yield path.name, model.eval(), tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))


def losses(folder, sources, targets):
    found = {}
    pairs = list(zip(Path(sources).read_text().splitlines(), Path(targets).read_text().splitlines()))
    for kind, model, reads in opened(folder):
        total = count = 0
        with torch.no_grad():
            for source, target in pairs:
                labels = torch.tensor([reads.encode(target).ids])
                logits = model(input_ids=torch.tensor([reads.encode(source).ids]), labels=labels).logits.double()
                total -= logits.log_softmax(-1).gather(-1, labels[..., None]).sum().item()
                count += labels.numel()
        found[kind] = total / count
    print(json.dumps(found))


def greedy(folder, sources, beyond):
    found = {}
    for kind, model, reads in opened(folder):
        config, texts = model.generation_config, []
        # Longspan does not count forced first and last tokens.
        extra = sum(id is not None for id in (config.forced_bos_token_id, config.forced_eos_token_id))
        for source in Path(sources).read_text().splitlines():
            ids = reads.encode(source).ids
            output = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), num_beams=1, use_cache=False,
                                  do_sample=False, max_new_tokens=len(ids) + int(beyond) + extra)
            texts.append(reads.decode(output[0].tolist(), skip_special_tokens=True))
        found[kind] = texts
    print(json.dumps(found))


if __name__ == "__main__":
    {"make": make, "losses": losses, "greedy": greedy}[sys.argv[1]](*sys.argv[2:])
