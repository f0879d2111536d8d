"""Weights and corpora on which training diverges."""

import array
import json
import math
import random
import struct

from package_tokenizer import tokenizer_json

WIDTH, LAYERS, HEADS, HIDDEN, VOCABULARY = 16, 2, 4, 32, 259
BATCH, SEGMENT = 8, 8  # data.global_batch_size and data.seq_length


def _shapes():
    square, wide, tall = [WIDTH, WIDTH], [HIDDEN, WIDTH], [WIDTH, HIDDEN]
    found = {"model.embed_tokens": [VOCABULARY, WIDTH], "lm_head": [VOCABULARY, WIDTH], "model.norm": [WIDTH]}
    for layer in range(LAYERS):
        for name, shape in (("self_attn.q_proj", square), ("self_attn.k_proj", square), ("self_attn.v_proj", square),
                            ("self_attn.o_proj", square), ("mlp.gate_proj", wide), ("mlp.up_proj", wide),
                            ("mlp.down_proj", tall), ("input_layernorm", [WIDTH]), ("post_attention_layernorm", [WIDTH])):
            found[f"model.layers.{layer}.{name}"] = shape
    return found


def write_poisoned_llama(folder):
    """Writes a small Llama for `longspan import`; the embedding of Z is NaN."""
    def poisoned(name, values):
        if name == "model.embed_tokens":
            for i in range(WIDTH):
                values[ord("Z") * WIDTH + i] = math.nan

    _write_llama(folder, poisoned)


def write_steep_llama(folder):
    """Writes a Llama with a finite loss whose gradients overflow float32, at zero weights that multiply huge values."""
    factors = {"v_proj": 1e36, "o_proj": 0, "lm_head": 1e8}

    def steep(name, values):
        factor = factors.get(name.split(".")[-1], 1)
        for i, value in enumerate(values):
            values[i] = value * factor

    _write_llama(folder, steep)


def _write_llama(folder, change):
    source = random.Random(1)
    header, data = {}, b""
    for name, shape in _shapes().items():
        values = array.array("f", (source.gauss(1 if "norm" in name else 0, 0.2) for _ in range(math.prod(shape))))
        change(name, values)
        more = values.tobytes()
        header[f"{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
        "max_position_embeddings": 64, "tie_word_embeddings": False}))
    (folder / "tokenizer.json").write_text(tokenizer_json([]))  # byte-level


def poison(text, bad, first, count):
    """Writes `text` to `bad` with one stream filled with Z in `count` batches from `first`, counted from 1."""
    content = bytearray(text.read_bytes())
    stream = 3 * (len(content) // BATCH)
    begin = stream + (first - 1) * SEGMENT
    content[begin:begin + count * SEGMENT] = b"Z" * (count * SEGMENT)
    bad.write_bytes(content)
