"""A tokenizer.json as the package `tokenizers` writes it: byte-level BPE, as in GPT-2."""
import json


def letters():
    """Returns the character that represents each byte (encoder.py of GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def vocabulary_and_merges(pairs):
    """Returns the ids of the bytes, followed by those of the pairs, and the merges in order."""
    names = letters()
    spelled = [tuple("".join(names[byte] for byte in part.encode()) for part in pair) for pair in pairs]
    tokens = names + ["".join(pair) for pair in spelled]
    return {token: id for id, token in enumerate(tokens)}, [f"{one} {other}" for one, other in spelled]


def tokenizer_json(pairs, special=()):
    vocabulary, merges = vocabulary_and_merges(pairs)
    added = [{"id": len(vocabulary) + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, name in enumerate(special)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                       "pre_tokenizer": byte_level, "post_processor": byte_level, "decoder": byte_level,
                       "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                                 "vocab": vocabulary, "merges": merges}})
