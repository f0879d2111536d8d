#!/usr/bin/env python3
"""Import and export of Hugging Face encoders: BERT, RoBERTa, ViT.

    tests/launch/import_encoders_test.py build/launch/longspan

The comparison with the package transformers requires launch/setup --reference-implementations.
"""

import json
import math
import os
import random
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import jobs
from import_test import random_weights, read_safetensors, write_safetensors
from package_tokenizer import tokenizer_json, vocabulary_and_merges
from peers import PeersTestCase

WIDTH, HIDDEN, LAYERS, VOCABULARY, POSITIONS, CLASSES = 8, 12, 2, 256, 64, 3
CONFIG = {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": VOCABULARY,
          "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": HIDDEN,
          "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2,
          "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
          "id2label": {"0": "verb", "1": "noun", "2": "adverb"}, "label2id": {"verb": 0, "noun": 1, "adverb": 2}}
TEXTS = "verb\tthe running\nnoun\thouses, a b\nnoun\tA\nadverb\tthe house . runs aab bba the the the houses\nverb\trun\n"
TAGS = "the\tadverb\nhouses\tnoun\nrunning\tverb\n\nab\tnoun\n,\tadverb\n\nrun\tverb\nthe\tadverb\nbaab\tnoun\n"


def body(prefix="bert."):
    """Returns {name: shape} of the tensors of BERT in export order."""
    found = {"embeddings.word_embeddings.weight": [VOCABULARY, WIDTH],
             "embeddings.position_embeddings.weight": [POSITIONS, WIDTH],
             "embeddings.token_type_embeddings.weight": [2, WIDTH]}

    def add(name, *shape):
        found.update({f"{name}.weight": list(shape), f"{name}.bias": [shape[0]]})
    add("embeddings.LayerNorm", WIDTH)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part in "query", "key", "value":
            add(f"{name}attention.self.{part}", WIDTH, WIDTH)
        add(name + "attention.output.dense", WIDTH, WIDTH)
        add(name + "attention.output.LayerNorm", WIDTH)
        add(name + "intermediate.dense", HIDDEN, WIDTH)
        add(name + "output.dense", WIDTH, HIDDEN)
        add(name + "output.LayerNorm", WIDTH)
    add("pooler.dense", WIDTH, WIDTH)
    return {prefix + name: shape for name, shape in found.items()}


HEAD = {"classifier.weight": [CLASSES, WIDTH], "classifier.bias": [CLASSES]}


def png(rows):
    """Returns an RGB PNG."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


VIT = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
       "num_attention_heads": 2, "intermediate_size": HIDDEN, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
       "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12, "image_size": 4, "patch_size": 2, "num_channels": 1,
       "qkv_bias": True, "id2label": CONFIG["id2label"], "label2id": CONFIG["label2id"]}


def patches():
    """Returns {name: shape} of the tensors of ViT in export order."""
    found = {"embeddings.cls_token": [1, 1, WIDTH], "embeddings.position_embeddings": [1, 5, WIDTH],
             "embeddings.patch_embeddings.projection.weight": [WIDTH, 1, 2, 2],
             "embeddings.patch_embeddings.projection.bias": [WIDTH]}

    def add(name, *shape):
        found.update({f"{name}.weight": list(shape), f"{name}.bias": [shape[0]]})
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        add(name + "layernorm_before", WIDTH)
        for part in "query", "key", "value":
            add(f"{name}attention.attention.{part}", WIDTH, WIDTH)
        add(name + "attention.output.dense", WIDTH, WIDTH)
        add(name + "layernorm_after", WIDTH)
        add(name + "intermediate.dense", HIDDEN, WIDTH)
        add(name + "output.dense", WIDTH, HIDDEN)
    add("layernorm", WIDTH)
    return {"vit." + name: shape for name, shape in found.items()}


class TestCase(jobs.TestCase):
    def folder(self, name="model", config=None, shapes=None, usual=CONFIG):
        path = self.directory / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps({**usual, **(config or {})}))
        shapes = shapes or {**body(), **HEAD}
        weights = random_weights(shapes)
        tensors = {name: ("F32", shape, weights[name]) for name, shape in shapes.items()}
        write_safetensors(path / "model.safetensors", tensors)
        return tensors

    def take(self, folder="model", run="taken", code=0):
        return self.longspan("import", folder, "--output-dir", run, code=code)

    def give(self, run="taken", folder="given", code=0):
        return self.longspan("export", run, "--output-dir", folder, code=code)

    def given(self, folder="given"):
        return read_safetensors(self.directory / folder / "model.safetensors")

    def config(self, folder="given"):
        return json.loads((self.directory / folder / "config.json").read_text())

    def evaluate(self, run, file):
        return json.loads(self.longspan("evaluate", run, "--data", file, "--json").output)["loss"]


class ImportEncoders(TestCase):
    def test_round_trip_is_exact(self):
        tensors = self.folder()
        result = self.take()
        count = sum(math.prod(shape) for _, shape, _ in tensors.values())
        self.assertEqual(result.output, f"taken: BERT, 2 layers, {count} parameters ({count} F32)\n")
        self.assertIn("to the input of the pooler; BERT does not apply it there", result.errors)
        self.longspan("verify", "taken")
        self.give()
        self.assertEqual(self.given(), tensors)
        config = self.config()
        for key, value in CONFIG.items():
            self.assertEqual(config[key], value, key)

    def test_backbone_requires_new_output_layer(self):
        shapes = body("")
        tensors = self.folder("body", {"architectures": ["BertModel"], "id2label": None}, shapes)
        result = self.take("body")
        self.assertIn("set training.init_from.reinitialize to [output/weight, output/bias]",
                      result.errors)
        self.give()
        self.assertEqual(self.given(), tensors)
        self.assertEqual(self.config()["architectures"], ["BertModel"])
        (self.directory / "texts").write_text(TEXTS)
        self.assert_one_sentence(self.longspan("evaluate", "taken", "--data", "texts", code=3), "found only the weights of a backbone")
        # A run that trains a new output layer loads the full backbone.
        settings = {"data.train": "texts", "run.output_dir": "mine", "training.init_from.path": "taken", "training.learning_rate": 0,
                    "training.max_steps": 1, "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1,
                    "training.init_from.reinitialize": "[output/weight, output/bias]"}
        result = self.longspan("train", "taken/config.yaml", *jobs.flat(settings))
        self.assertIn("reinitialized: output/weight, output/bias", result.output)
        self.give("mine", "mine-given")
        found = self.given("mine-given")
        self.assertEqual({name: found["bert." + name] for name in tensors}, tensors)
        self.assertEqual(self.config("mine-given")["id2label"], {"0": "adverb", "1": "noun", "2": "verb"})

    def test_imports_older_tensor_names(self):
        # As google-bert/bert-base-uncased: older names, a masked LM head, constant position ids.
        shapes = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): shape
                  for name, shape in body().items()}
        extra = {"cls.predictions.bias": [VOCABULARY], "cls.seq_relationship.bias": [2], "bert.embeddings.position_ids": [1, POSITIONS]}
        tensors = self.folder("old", {"architectures": ["BertForMaskedLM"], "gradient_checkpointing": False, "pooler_type": "first",
                                      "position_embedding_type": "absolute", "id2label": None}, {**shapes, **extra})
        result = self.take("old")
        self.assertIn("not imported and not exported: cls.predictions.bias, cls.seq_relationship.bias (unsupported)", result.errors)
        self.give()
        self.assertEqual([data for _, _, data in self.given().values()],
                         [data for name, (_, _, data) in tensors.items() if name not in extra])

    def test_class_rows_follow_label_names(self):
        """Labels of the data are sorted, labels of the model are not."""
        tensors = self.folder()
        self.take()
        (self.directory / "texts").write_text(TEXTS)
        settings = {"data.train": "texts", "run.output_dir": "mine", "training.init_from.path": "taken", "training.learning_rate": 0,
                    "training.max_steps": 1, "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1}
        self.longspan("train", "taken/config.yaml", *jobs.flat(settings))
        self.assertAlmostEqual(self.evaluate("mine", "texts"), self.evaluate("taken", "texts"), delta=1e-6)
        self.give("mine")
        row = 4 * WIDTH
        before, after = tensors["classifier.weight"][2], self.given()["classifier.weight"][2]
        self.assertEqual(after, before[2 * row:] + before[row:2 * row] + before[:row])
        (self.directory / "texts").write_text(TEXTS.replace("adverb", "other"))
        result = self.longspan("train", "taken/config.yaml", *jobs.flat({**settings, "run.output_dir": "other"}), code=2)
        self.assertIn('(missing "other"); reinitialize the output layer', result.errors)

    def test_vit_round_trip_is_exact(self):
        tensors = self.folder(shapes={**patches(), **HEAD}, usual=VIT)
        pixels = {"do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True, "image_mean": [0.25],
                  "image_std": [0.5]}
        (self.directory / "model" / "preprocessor_config.json").write_text(json.dumps(pixels))
        self.assertEqual(self.take().errors, "")
        self.give()
        self.assertEqual(self.given(), tensors)
        config = self.config()
        for key, value in VIT.items():
            self.assertEqual(config[key], value, key)
        again = json.loads((self.directory / "given" / "preprocessor_config.json").read_text())
        self.assertEqual({key: again[key] for key in pixels}, pixels)
        # An image run initialized from it.
        for label in "adverb", "noun", "verb":
            (self.directory / "images" / label).mkdir(parents=True)
            grey = [[[value] * 3 for value in range(row, row + 4)] for row in range(4)]
            (self.directory / "images" / label / "one.png").write_bytes(png(grey))
        settings = {"data.train": "images", "run.output_dir": "mine", "training.init_from.path": "taken",
                    "training.max_steps": 1, "run.num_threads": 1}
        result = self.longspan("train", "taken/config.yaml", *jobs.flat(settings), code=3)
        self.assertIn("4 x 4 x 3", result.errors)  # RGB images for a grayscale model

    def test_keeps_special_token_ids(self):
        special = {"pad_token_id": 3, "eos_token_id": [5, 7], "bos_token_id": None}
        self.folder(config=special)
        self.take()
        self.give()
        config = self.config()
        self.assertEqual({key: config.get(key, "nothing") for key in (*special, "cls_token_id")}, {**special, "cls_token_id": "nothing"})

    def test_renames_duplicate_labels_until_export(self):
        labels = {"0": "crane", "1": "crane (2)", "2": "crane"}
        self.folder(config={"id2label": labels, "label2id": None})
        result = self.take()
        self.assertIn('duplicate labels, renamed until export: "crane (3)" for the duplicate of "crane"', result.errors)
        (self.directory / "texts").write_text("crane\ta bird\ncrane (3)\ta machine\ncrane (2)\tx\n")
        self.evaluate("taken", "texts")
        self.give()
        self.assertEqual(self.config()["id2label"], labels)

    def test_exports_trained_model(self):
        (self.directory / "texts").write_text(TEXTS)
        (self.directory / "mine.yaml").write_text(json.dumps({
            "run": {"output_dir": "mine", "task": "classification", "num_threads": 1}, "data": {"train": "texts", "max_length": 100},
            "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
                      "norm": {"position": "post"}, "scale_embedding": False, "layernorm_embedding": True,
                      "type_vocab_size": 1, "position_embedding_type": "learned", "position_embedding_offset": 2,
                      "add_pooling_layer": True},
            "training": {"max_steps": 1}}))
        self.longspan("train", "mine.yaml")
        self.give("mine")
        self.assertEqual((self.config()["architectures"], self.config()["pad_token_id"]), (["RobertaForSequenceClassification"], 1))
        self.take("given")
        self.assertAlmostEqual(self.evaluate("taken", "texts"), self.evaluate("mine", "texts"), delta=1e-9)
        self.longspan("train", "mine.yaml", *jobs.flat({"model.layernorm_embedding": "false", "run.output_dir": "other"}))
        self.assert_one_sentence(self.give("other", "no", code=2), " requires model.layernorm_embedding: true, found false")


class SlowTokenizers(TestCase):
    """Folders without tokenizer.json give the same losses as an equivalent tokenizer.json."""
    text = "LABEL_0\tHello world, this is <mask> text\nLABEL_1\ta\n"

    def pieces(self):
        return vocabulary_and_merges([("H", "e"), ("l", "l"), (" ", "w")])

    def evaluated(self, name, rows, config, shapes, **files):
        self.folder(name, config, {**shapes, f"{config.get('model_type') or 'bert'}.embeddings.word_embeddings.weight": [rows, WIDTH]})
        for file, content in files.items():
            content = content if isinstance(content, str) else json.dumps(content)
            (self.directory / name / file.replace("__", ".")).write_text(content)
        result = self.take(name, f"taken-{name}")
        self.assertNotIn("tokenizer", result.errors)
        (self.directory / "texts").write_text(self.text)
        return self.evaluate(f"taken-{name}", "texts")

    def test_roberta_adds_special_tokens_and_reads_mask(self):
        vocabulary, merges = self.pieces()
        names = ["<s>", "<pad>", "</s>", "<unk>", *vocabulary, "<mask>"]
        ids = {name: id for id, name in enumerate(names)}
        made = json.loads(tokenizer_json([("H", "e"), ("l", "l"), (" ", "w")]))
        made["model"]["vocab"] = ids
        made["added_tokens"] = [{"id": ids[name], "content": name, "single_word": False, "lstrip": name == "<mask>", "rstrip": False,
                                 "normalized": False, "special": True} for name in names if name[0] == "<" and len(name) > 2]
        made["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
                                  "add_prefix_space": False}
        head = {"classifier.dense.weight": [WIDTH, WIDTH], "classifier.dense.bias": [WIDTH], "classifier.out_proj.weight": [2, WIDTH],
                "classifier.out_proj.bias": [2]}
        shapes = {name: shape for name, shape in {**body("roberta."), **head}.items() if "pooler" not in name}
        config = {"architectures": ["RobertaForSequenceClassification"], "model_type": "roberta", "id2label": None, "label2id": None,
                  "vocab_size": len(names), "pad_token_id": 1}
        two = {"vocab__json": ids, "merges__txt": "#version: 0.2\n" + "\n".join(merges) + "\n"}
        # As slow tokenizers of transformers 4 save them.
        mask = {"content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
        saved = {"special_tokens_map__json": {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "mask_token": mask, "pad_token": "<pad>",
                                              "sep_token": "</s>", "unk_token": "<unk>"},
                 "tokenizer_config__json": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False}}
        expected = self.evaluated("one", len(names), config, shapes, tokenizer__json=made)
        self.assertEqual(self.evaluated("two", len(names), config, shapes, **two), expected)
        self.assertEqual(self.evaluated("three", len(names), config, shapes, **two, **saved), expected)
        made["post_processor"] = None  # control: without special tokens
        self.assertNotEqual(self.evaluated("bare", len(names), config, shapes, tokenizer__json=made), expected)

    def test_bert_reads_vocab_txt(self):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", ",", "this", "is", "text", "##s"]
        ids = {piece: id for id, piece in enumerate(pieces)}
        frame = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
        made = {"version": "1.0", "added_tokens": [{"id": id, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
                                                    "normalized": False, "special": True} for piece, id in list(ids.items())[:5]],
                "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                "post_processor": {"type": "TemplateProcessing", "single": frame, "pair": frame, "special_tokens": {
                    name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}},
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids}}
        head = {"classifier.weight": [2, WIDTH], "classifier.bias": [2]}
        config = {"id2label": None, "label2id": None, "vocab_size": len(pieces)}
        expected = self.evaluated("one", len(pieces), config, {**body(), **head}, tokenizer__json=made)
        for name, more in (("of-2019", {"model_type": None}), ("of-2020", {})):
            self.assertEqual(self.evaluated(name, len(pieces), {**config, **more}, {**body(), **head}, vocab__txt="\n".join(pieces)), expected)


class Labels(TestCase):
    """The rows of the classifier decide if "num_labels" and "id2label" disagree."""

    def test_uses_count_of_classifier_rows(self):
        two = {"id2label": {"0": "verb", "1": "noun"}, "label2id": None, "num_labels": 3}
        for config, names in ((two, ["verb", "noun", "LABEL_2"]),
                              ({**two, "num_labels": None, "_num_labels": 3}, ["verb", "noun", "LABEL_2"]),
                              ({**CONFIG, "num_labels": 2}, ["verb", "noun", "adverb"])):
            name = f"model-{len(list(self.directory.iterdir()))}"
            self.folder(name, config)
            result = self.take(name, f"{name}-taken")
            self.assertIn('"num_labels" is ', result.errors)
            self.assertIn("uses the labels " + ", ".join(names), result.errors)
            self.give(f"{name}-taken", f"{name}-given")
            self.assertEqual(list(self.config(f"{name}-given")["id2label"].values()), names)

    def test_rejects_row_count_of_neither_key(self):
        shapes = {**body(), "classifier.weight": [4, WIDTH], "classifier.bias": [4]}
        self.folder(config={"num_labels": 5}, shapes=shapes)
        self.assert_one_sentence(self.take(code=3), '"num_labels" is 5 and "id2label" has 3 labels', "expected as many rows as labels, found 4")

    def test_rejects_classifier_of_one_row(self):
        shapes = {**body(), "classifier.weight": [1, WIDTH], "classifier.bias": [1]}
        self.folder(config={"id2label": {"0": "a", "1": "b"}, "label2id": None, "num_labels": 1}, shapes=shapes)
        self.assert_one_sentence(self.take(code=3), '"num_labels" is 1 and "id2label" has 2 labels', "expected at least 2 rows (classes), found 1")

    def test_without_tokenizer_reads_token_ids(self):
        shapes = {**body(), **HEAD, "bert.embeddings.word_embeddings.weight": [53, WIDTH]}
        self.folder(config={"vocab_size": 53}, shapes=shapes)
        self.assertIn("the run reads ids from 0 to 52 (data.tokenizer.type: none): a text is ids", self.take().errors)
        (self.directory / "texts").write_text("verb\t5 52 0\nnoun\t17\nadverb\t3 3 3 3\n")
        self.evaluate("taken", "texts")
        settings = {"data.train": "texts", "run.output_dir": "mine", "training.init_from.path": "taken",
                    "training.max_steps": 1, "run.num_threads": 1}
        self.longspan("train", "taken/config.yaml", *jobs.flat(settings))
        (self.directory / "texts").write_text("verb\t5 53\n")
        self.assertIn('expected a token id from 0 to 52, found "53"', self.longspan("evaluate", "taken", "--data", "texts", code=3).errors)

    def test_reads_embedding_stored_as_decoder(self):
        """A masked LM whose tied embedding is stored only under the name of the decoder."""
        for kind, config, decoder in (("bert", {"architectures": ["BertForMaskedLM"]}, "cls.predictions.decoder.weight"),
                                      ("roberta", {"architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "pad_token_id": 0},
                                       "lm_head.decoder.weight")):
            found, table = body(kind + "."), f"{kind}.embeddings.word_embeddings.weight"
            tensors = self.folder(kind, {**config, "id2label": None}, {decoder if name == table else name: shape for name, shape in found.items()})
            self.take(kind, f"{kind}-taken")
            self.give(f"{kind}-taken", f"{kind}-given")
            self.assertEqual(self.given(f"{kind}-given")["embeddings.word_embeddings.weight"], tensors[decoder])


class ImportErrors(TestCase):
    def test_rejects_invalid_config_json(self):
        self.folder()
        path = self.directory / "model" / "config.json"
        for change, part in (
                ({"architectures": ["BertForQuestionAnswering"]}, '"architectures": expected BertModel'),
                ({"position_embedding_type": "relative_key"}, '"position_embedding_type": expected absolute, found "relative_key"'),
                ({"is_decoder": True}, '"is_decoder": expected false, found true'),
                ({"add_cross_attention": True}, '"add_cross_attention": expected false, found true'),
                ({"embedding_size": 4}, 'unknown key "embedding_size"'),
                ({"hidden_act": "mish"}, '"hidden_act": expected gelu_new, '),
                ({"num_attention_heads": 3}, '"num_attention_heads": expected a divisor of hidden_size (8), found 3'),
                ({"type_vocab_size": 0}, '"type_vocab_size": expected an integer from 1 to '),
                ({"type_vocab_size": 3}, 'tensor "bert.embeddings.token_type_embeddings.weight": expected shape [3, 8] according to config.json, found [2, 8]'),
                ({"problem_type": "regression"}, '"problem_type": expected single_label_classification, found "regression"'),
                ({"id2label": {"0": "one"}}, '"id2label": expected at least 2 classes, found 1 label'),
                ({"id2label": {"0": "a", "1": "b"}}, 'tensor "classifier.weight": expected shape [2, 8] according to config.json, found [3, 8]'),
                ({"id2label": {"0": "a", "1": "b", "3": "c"}}, 'unknown key "id2label.3"'),
                ({"eos_token_id": "</s>"}, '"eos_token_id": expected an id, a list of ids or null, found "</s>"'),
                ({"architectures": ["BertModel"]}, 'unexpected tensor "classifier.bias" (not part of BERT'),
                ({"layer_norm_eps": 0}, '"layer_norm_eps": expected a number above 0, found 0')):
            with self.subTest(str(change)):
                path.write_text(json.dumps({**CONFIG, **change}))
                self.assert_one_sentence(self.take(code=3), part)
                self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("taken")], [])


    def test_rejects_invalid_vit_config_json(self):
        self.folder(shapes={**patches(), **HEAD}, usual=VIT)
        path = self.directory / "model"
        for change, part in (
                ({"image_size": 5}, '"patch_size": expected a divisor of the image size 5 x 5, found 2'),
                ({"image_size": [4, 4, 4]}, '"image_size": expected a number of pixels'),
                ({"patch_size": [2, 1]}, '"patch_size": expected a square, found two sides'),
                ({"num_channels": 3}, 'tensor "vit.embeddings.patch_embeddings.projection.weight": expected shape [8, 3, 2, 2] according to config.json, found [8, 1, 2, 2]'),
                ({"image_size": 8}, 'tensor "vit.embeddings.position_embeddings": expected shape [1, 17, 8] according to config.json, found [1, 5, 8]'),
                ({"qkv_bias": False}, 'tensor "vit.encoder.layer.0.attention.attention.'),
                ({"use_mean_pooling": True}, 'unknown key "use_mean_pooling"')):
            with self.subTest(str(change)):
                (path / "config.json").write_text(json.dumps({**VIT, **change}))
                self.assert_one_sentence(self.take(code=3), part)
        (path / "config.json").write_text(json.dumps(VIT))
        (path / "preprocessor_config.json").write_text('{"image_mean": [1, 2]}')
        self.assert_one_sentence(self.take(code=3), '"image_mean": expected a number for each of 1 channels, found 2')
        for change, part in (({"do_center_crop": True}, '"do_center_crop": expected false, found true'),
                             ({"do_pad": True}, '"do_pad": expected false, found true'),
                             ({"offset": True}, 'unknown key "offset"')):
            (path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [1], **change}))
            self.assert_one_sentence(self.take(code=3), "preprocessor_config.json", part)
        (path / "preprocessor_config.json").write_text(json.dumps(
            {"do_resize": True, "size": {"height": 4, "width": 4}, "resample": 2, "do_center_crop": None, "do_pad": False}))
        self.take()


class Peers(PeersTestCase, TestCase):
    """Comparison with the package transformers, on models that it creates."""

    peer_script = "labeled.py"

    def write_images(self):
        """Writes random RGB images, as a folder per class and as JSON."""
        source, found = random.Random(1), []
        for number, label in enumerate(["noun", "verb", "adverb", "noun"]):
            rows = [[[source.randrange(256) for _ in range(3)] for _ in range(6)] for _ in range(4)]
            (self.directory / "images" / label).mkdir(parents=True, exist_ok=True)
            (self.directory / "images" / label / f"{number}.png").write_bytes(png(rows))
            found.append((label, rows))
        (self.directory / "images.json").write_text(json.dumps(found))

    def test_losses_match_transformers(self):
        self.peer("make", "models")
        (self.directory / "given").mkdir()
        (self.directory / "texts").write_text(TEXTS)
        (self.directory / "tags").write_text(TAGS)
        self.write_images()
        kinds = sorted(os.listdir(self.directory / "models"))
        for kind in kinds:
            self.take(f"models/{kind}", kind)
            self.give(kind, f"given/{kind}")
            before, after = (self.config(f"{folder}/{kind}") for folder in ("models", "given"))
            left_out = "cls." if kind == "bert-masked" else None
            tensors = {name.removeprefix("bert.") if left_out else name: tensor
                       for name, tensor in self.given(f"models/{kind}").items() if not (left_out and name.startswith(left_out))}
            self.assertEqual(before["model_type"], after["model_type"])
            self.assertEqual(["BertModel"] if left_out else before["architectures"], after["architectures"])
            self.assertEqual(self.given(f"given/{kind}"), tensors)
        theirs, again = (json.loads(self.peer("losses", folder, "texts", "tags", "images.json")) for folder in ("models", "given"))
        self.assertEqual(len(theirs), 7)
        for kind, loss in theirs.items():
            with self.subTest(kind):
                self.assertLess(abs(again[kind] - loss), 1e-6)
                file = "tags" if kind.endswith("tags") else "images" if kind.startswith("vit") else "texts"
                self.assertLess(abs(self.evaluate(kind, file) - loss), 1e-5)


if __name__ == "__main__":
    jobs.main()
