#!/usr/bin/env python3
"""Encoders of the package transformers, for tests/launch/import_encoders_test.py.

    python labeled.py make FOLDER               small ones with random weights, each in FOLDER/KIND
    python labeled.py losses FOLDER TEXTS TAGS IMAGES  nats per label of the models with a head: JSON, {KIND: loss}

TEXTS: a class, a tab and a text on every line. TAGS: a word, a tab and its tag on every line, an empty line after a sentence. IMAGES: JSON, [[CLASS, rows of
pixels of the values of channels], ...].

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
from pathlib import Path

import tokenizers
import torch
import transformers as t
from tokenizers import models, normalizers, pre_tokenizers, processors

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "house", "##s", "run", "##ning", "a", "b", "##a", "##b", ",", "."]
CLASSES = {"0": "verb", "1": "noun", "2": "adverb"}  # not in the order of their names
SIZES = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "id2label": CLASSES}
BERT = {**SIZES, "vocab_size": len(PIECES) + 2, "max_position_embeddings": 40}
ROBERTA = {**SIZES, "vocab_size": 270, "max_position_embeddings": 42, "type_vocab_size": 1}

VIT = {**SIZES, "image_size": [4, 6], "patch_size": 2, "num_channels": 3}
PIXELS = {"do_resize": True, "size": {"height": 4, "width": 6}, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
          "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "image_processor_type": "ViTImageProcessor"}

KINDS = {
    "bert-classes": (t.BertForSequenceClassification, t.BertConfig, BERT),
    "bert-relu": (t.BertForSequenceClassification, t.BertConfig,
                  {**BERT, "hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-5, "classifier_dropout": 0.3}),
    "bert-tags": (t.BertForTokenClassification, t.BertConfig, BERT),
    "bert-body": (t.BertModel, t.BertConfig, BERT),
    "bert-masked": (t.BertForMaskedLM, t.BertConfig, BERT),
    "roberta-classes": (t.RobertaForSequenceClassification, t.RobertaConfig, ROBERTA),
    "roberta-tags": (t.RobertaForTokenClassification, t.RobertaConfig, ROBERTA),
    "roberta-body": (t.RobertaModel, t.RobertaConfig, ROBERTA),
    "vit-classes": (t.ViTForImageClassification, t.ViTConfig, VIT),
    "vit-biases": (t.ViTForImageClassification, t.ViTConfig, {**VIT, "qkv_bias": False, "hidden_act": "gelu_new"}),
    "vit-body": (t.ViTModel, t.ViTConfig, VIT),
}


def word_pieces():
    """A tokenizer as in BERT."""
    made = tokenizers.Tokenizer(models.WordPiece({piece: id for id, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.add_special_tokens(PIECES[:4])
    return made


def byte_pairs():
    """A tokenizer as in RoBERTa, with words that start with a space."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    names = special + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["Ġt", "he", "Ġthe"]
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
    made = tokenizers.Tokenizer(models.BPE({name: id for id, name in enumerate(names)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.add_special_tokens(special)
    return made


def make_one(kind, folder):
    torch.manual_seed(1)
    of, config, values = KINDS[kind]
    model = of(config(**values))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Larger than the initial values, so that each weight affects the loss. No bias is zero.
            gain = "norm" in name.lower() and name.endswith("weight")
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if gain else 0))
    model.save_pretrained(folder)
    if kind.startswith("vit"):
        (folder / "preprocessor_config.json").write_text(json.dumps(PIXELS))
        return
    (word_pieces() if kind.startswith("bert") else byte_pairs()).save(str(folder / "tokenizer.json"))


def make(folder):
    for kind in KINDS:
        make_one(kind, Path(folder) / kind)


def sentences(file):
    for part in Path(file).read_text().split("\n\n"):
        yield [line.split("\t") for line in part.splitlines()]


def losses(folder, texts, tags, images):
    found = {}
    for path in sorted(Path(folder).iterdir()):
        of = getattr(t, json.loads((path / "config.json").read_text())["architectures"][0])
        model, loading = of.from_pretrained(path, output_loading_info=True)
        for kind in "missing_keys", "unexpected_keys", "mismatched_keys":
            # Masked language models are exported as backbones and have no pooler.
            wrong = [name for name in loading.get(kind) or () if "masked" not in path.name or "pooler" not in str(name)]
            if wrong:
                sys.exit(f"{path}: {kind}: {wrong}")
        model.eval()
        ids = {name: int(id) for id, name in model.config.id2label.items()}
        is_of_images = of.__name__.startswith("ViT")
        if not is_of_images:
            tokenizer = t.PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"))
        total = count = 0
        with torch.no_grad():
            if of.__name__.endswith("SequenceClassification"):
                for line in Path(texts).read_text().splitlines():
                    label, text = line.split("\t", 1)
                    logits = model(torch.tensor([tokenizer(text).input_ids])).logits.double()
                    total -= logits.log_softmax(-1)[0, ids[label]].item()
                    count += 1
            elif of.__name__.endswith("TokenClassification"):
                for words in sentences(tags):
                    read = tokenizer([word for word, _ in words], is_split_into_words=True)
                    scores = model(torch.tensor([read.input_ids])).logits.double().log_softmax(-1)[0]
                    for number, (_, tag) in enumerate(words):
                        total -= scores[read.word_ids().index(number), ids[tag]].item()
                        count += 1
            elif of.__name__.endswith("ImageClassification"):
                said = json.loads((path / "preprocessor_config.json").read_text())
                for label, rows in json.loads(Path(images).read_text()):
                    pixels = torch.tensor(rows, dtype=torch.float64) * said["rescale_factor"]
                    pixels = (pixels - torch.tensor(said["image_mean"])) / torch.tensor(said["image_std"])
                    logits = model(pixels.permute(2, 0, 1)[None].float()).logits.double()
                    total -= logits.log_softmax(-1)[0, ids[label]].item()
                    count += 1
            else:
                continue
        found[path.name] = total / count
    print(json.dumps(found))


if __name__ == "__main__":
    {"make": make, "losses": losses}[sys.argv[1]](*sys.argv[2:])
