#!/usr/bin/env python3
"""Encodes lines with AutoTokenizer of the package transformers, for tests/launch/export_test.py.

    python auto_tokenizer.py TEXT FOLDER...

Prints an object: for each folder the ids, the special tokens by role and, with a chat template, a conversation.

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
from pathlib import Path

from transformers import AutoTokenizer

ROLES = "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"


def read(folder, text):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in text.split("\n")]
    return {"ids": ids, "text": [tokenizer.decode(line) for line in ids], "inputs": tokenizer.model_input_names,
            "longest": tokenizer.model_max_length, "size": len(tokenizer),
            "special": {role: getattr(tokenizer, role) for role in ROLES if getattr(tokenizer, role, None) is not None},
            "chat": tokenizer.chat_template and tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)}


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_bytes().decode()
    print(json.dumps({folder: read(folder, text) for folder in sys.argv[2:]}))
