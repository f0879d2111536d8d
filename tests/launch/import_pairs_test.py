#!/usr/bin/env python3
"""Import and export of Hugging Face encoder-decoders: BART, T5.

    tests/launch/import_pairs_test.py build/launch/longspan

The comparison with the package transformers requires launch/setup --reference-implementations.
"""

import json
import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import jobs
from import_encoders_test import TestCase as Encoders
from import_test import write_safetensors
from package_tokenizer import tokenizer_json
from peers import PeersTestCase

WIDTH, HIDDEN, POSITIONS, VOCABULARY = 8, 12, 30, 264
# Special tokens follow 256 bytes and one merged pair.
BEGIN, PADDING, END = 257, 258, 259
IDS = {"bos_token_id": BEGIN, "pad_token_id": PADDING, "eos_token_id": END, "decoder_start_token_id": END,
       "forced_bos_token_id": BEGIN, "forced_eos_token_id": END}
BART = {"architectures": ["BartForConditionalGeneration"], "model_type": "bart", "vocab_size": VOCABULARY, "d_model": WIDTH,
        "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": HIDDEN, "decoder_ffn_dim": HIDDEN, "activation_function": "gelu", "dropout": 0.1,
        "activation_dropout": 0.1, "attention_dropout": 0.2, "max_position_embeddings": POSITIONS, "init_std": 0.02,
        "scale_embedding": False, "is_encoder_decoder": True, "tie_word_embeddings": True, **IDS}
T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 3,
      "d_ff": HIDDEN, "num_layers": 1, "num_decoder_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 20, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu",
      "is_encoder_decoder": True, "tie_word_embeddings": True, "n_positions": 64, "bos_token_id": None, "pad_token_id": PADDING,
      "eos_token_id": END, "decoder_start_token_id": PADDING, "forced_bos_token_id": None, "forced_eos_token_id": None}
SOURCES = ["the house", "a", "in the end. the", "houses, a b"]
TARGETS = ["das haus", "ein", "the", "b, aa the b"]


def bart():
    """Returns {name: shape} of the tensors of BART in export order."""
    found = {"model.shared.weight": [VOCABULARY, WIDTH]}

    def add(name, *shape):
        found.update({f"{name}.weight": list(shape), f"{name}.bias": [shape[0]]})

    def add_attention(name):
        for part in "q_proj", "k_proj", "v_proj", "out_proj":
            add(f"{name}.{part}", WIDTH, WIDTH)
        add(name + "_layer_norm", WIDTH)
    for stack, layers in ("encoder", 1), ("decoder", 2):
        found[f"model.{stack}.embed_positions.weight"] = [POSITIONS + 2, WIDTH]
        add(f"model.{stack}.layernorm_embedding", WIDTH)
        for layer in range(layers):
            name = f"model.{stack}.layers.{layer}."
            add_attention(name + "self_attn")
            if stack == "decoder":
                add_attention(name + "encoder_attn")
            add(name + "fc1", HIDDEN, WIDTH)
            add(name + "fc2", WIDTH, HIDDEN)
            add(name + "final_layer_norm", WIDTH)
    return found


def t5(gated=False, tied=True):
    """Returns {name: shape} of the tensors of T5 in export order."""
    found, heads = {"shared.weight": [VOCABULARY, WIDTH]}, 6

    def add_attention(name):
        for part in "qkv":
            found[f"{name}.{part}.weight"] = [heads, WIDTH]
        found[f"{name}.o.weight"] = [WIDTH, heads]
    for stack, layers in ("encoder", 1), ("decoder", 2):
        for layer in range(layers):
            name = f"{stack}.block.{layer}.layer."
            add_attention(name + "0.SelfAttention")
            if layer == 0:
                found[name + "0.SelfAttention.relative_attention_bias.weight"] = [8, 2]
            found[name + "0.layer_norm.weight"] = [WIDTH]
            if stack == "decoder":
                add_attention(name + "1.EncDecAttention")
                found[name + "1.layer_norm.weight"] = [WIDTH]
            name += "2." if stack == "decoder" else "1."
            for part in ["wi_0", "wi_1"] if gated else ["wi"]:
                found[f"{name}DenseReluDense.{part}.weight"] = [HIDDEN, WIDTH]
            found[name + "DenseReluDense.wo.weight"] = [WIDTH, HIDDEN]
            found[name + "layer_norm.weight"] = [WIDTH]
        found[stack + ".final_layer_norm.weight"] = [WIDTH]
    if not tied:
        found["lm_head.weight"] = [VOCABULARY, WIDTH]
    return found


def framed_tokenizer(before=("<s>",), after=("</s>",)):
    """Returns a tokenizer.json that adds these tokens before and after a text."""
    made = json.loads(tokenizer_json([("t", "h")], ["<s>", "<pad>", "</s>"]))
    ids = {token["content"]: token["id"] for token in made["added_tokens"]}
    parts = [{"SpecialToken": {"id": name, "type_id": 0}} for name in before] + [{"Sequence": {"id": "A", "type_id": 0}}]
    parts += [{"SpecialToken": {"id": name, "type_id": 0}} for name in after]
    tokens = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in {*before, *after}}
    made["post_processor"] = {"type": "TemplateProcessing", "single": parts, "pair": parts, "special_tokens": tokens}
    return json.dumps(made, ensure_ascii=False)


class TestCase(Encoders):
    def bart_folder(self, name="model", config=None, shapes=None, tokenizer=True, zeros=True):
        """Writes a model folder; returns the tensors that its export contains."""
        tensors = self.folder(name, config, shapes or bart(), BART)
        if tokenizer:
            (self.directory / name / "tokenizer.json").write_text(framed_tokenizer())
        return {**tensors, "final_logits_bias": ("F32", [1, VOCABULARY], bytes(4 * VOCABULARY))} if zeros else tensors

    def write(self, name, lines):
        (self.directory / name).write_text("".join(line + "\n" for line in lines))

    def write_pairs(self):
        self.write("sources", SOURCES)
        self.write("targets", TARGETS)

    def evaluate_pairs(self, run):
        return json.loads(self.longspan("evaluate", run, "--data", "sources", "--data-target", "targets", "--json").output)

    def generate(self, run, *arguments):
        (self.directory / "said").unlink(missing_ok=True)
        self.longspan("generate", run, "--input", "sources", "--output", "said", *arguments)
        return (self.directory / "said").read_bytes().decode(errors="replace").split("\n")[:-1]


class ImportBart(TestCase):
    def test_round_trip_is_exact(self):
        tensors = self.bart_folder()
        result = self.take()
        count = sum(math.prod(shape) for shape in bart().values())
        self.assertEqual(result.output, f"taken: BART, 2 layers, {count} parameters ({count} F32)\n")
        self.assertEqual(result.errors, "")
        self.longspan("verify", "taken")
        self.give()
        self.assertEqual(self.given(), tensors)
        config = self.config()
        for key, value in BART.items():
            self.assertEqual(config[key], value, key)
        generation = json.loads((self.directory / "given" / "generation_config.json").read_text())
        self.assertEqual(generation, IDS)
        self.assertEqual((self.directory / "given" / "tokenizer.json").read_text(), framed_tokenizer())
        configuration = (self.directory / "taken" / "config.yaml").read_text()
        for line in 'decoder_start_token: "</s>"', 'eos_token: "</s>"', 'forced_bos_token: "<s>"':
            self.assertIn(line, configuration)

    def test_imports_backbone_with_older_keys(self):
        # As facebook/bart-base: the backbone, copies of the embedding, keys of transformers 3, generation settings.
        shapes = {name.removeprefix("model."): shape for name, shape in bart().items()}
        tensors = self.bart_folder(config={"architectures": ["BartModel"], "normalize_before": False, "add_final_layer_norm": False,
                                           "normalize_embedding": True, "static_position_embeddings": False, "num_hidden_layers": 1,
                                           "extra_pos_embeddings": 2, "classif_dropout": 0.1, "num_beams": 4,
                                           "force_bos_token_to_be_generated": True, "forced_bos_token_id": None}, shapes=shapes,
                                   zeros=False)
        self.write_more("model", {"encoder.embed_tokens.weight": tensors["shared.weight"], "encoder.version": ("F32", [1], b"\0\0@@")})
        result = self.take()
        self.assertIn("num_beams: ignored; longspan generate", result.errors)
        self.give()
        given = self.given()
        self.assertEqual({name: given["model." + name] for name in tensors}, tensors)
        self.assertEqual(self.config()["forced_bos_token_id"], BEGIN)

    def write_more(self, folder, more):
        write_safetensors(self.directory / folder / "model.safetensors", {**self.given(folder), **more})

    def test_generation_config_round_trip_is_exact(self):
        self.bart_folder(config={"forced_bos_token_id": None, "forced_eos_token_id": None})
        text = json.dumps({"forced_bos_token_id": BEGIN, "eos_token_id": END, "max_length": 30, "transformers_version": "4.40"})
        (self.directory / "model" / "generation_config.json").write_text(text)
        self.assertIn("max_length: ignored", self.take().errors)
        self.assertIn('forced_bos_token: "<s>"', (self.directory / "taken" / "config.yaml").read_text())
        self.give()
        self.assertEqual((self.directory / "given" / "generation_config.json").read_text(), text)

    def test_evaluates_and_generates_lines(self):
        self.bart_folder()
        self.take()
        self.write_pairs()
        metrics = self.evaluate_pairs("taken")
        # Each target has two special tokens.
        tokens = sum(len(line.replace("th", "t")) + 2 for line in TARGETS)
        nats = metrics["bits_per_byte"] * math.log(2) * sum(len(line) + 1 for line in TARGETS)
        self.assertAlmostEqual(nats / metrics["loss"], tokens, delta=0.01)
        output = self.generate("taken", "--beam", "1", "--max-extra-length", "2")
        self.assertEqual(len(output), len(SOURCES))
        for line in output:
            self.assertNotRegex(line, "</?s>|<pad>")
        self.assertEqual(len(self.generate("taken", "--beam", "3", "--n-best", "2")), 2 * len(SOURCES))

    def test_trains_and_exports(self):
        tensors = self.bart_folder()
        self.take()
        self.write_pairs()
        before = self.evaluate_pairs("taken")["loss"]
        settings = {"data.train": "sources", "data.train_target": "targets", "run.output_dir": "mine", "training.init_from.path": "taken",
                    "training.learning_rate": 0, "training.max_steps": 2, "training.lr_scheduler.warmup_steps": 0,
                    "run.num_threads": 1, "checkpoint.save_interval": 1}
        self.longspan("train", "taken/config.yaml", *jobs.flat(settings))
        self.assertAlmostEqual(self.evaluate_pairs("mine")["loss"], before, delta=1e-6)
        # Export uses the tokenizer of the checkpoint; the run resumes as usual.
        (self.directory / "model" / "tokenizer.json").rename(self.directory / "model" / "tokenizer.json.away")
        self.give("mine")
        self.assertEqual(self.given(), tensors)
        for key, value in BART.items():
            self.assertEqual(self.config()[key], value, key)
        (self.directory / "model" / "tokenizer.json.away").rename(self.directory / "model" / "tokenizer.json")
        self.longspan("train", "taken/config.yaml", *jobs.flat({**settings, "training.max_steps": 3}))
        self.assertEqual(self.run_at("mine").steps()[-1], 3)
        changed = {**settings, "training.max_steps": 4, "data.tokenizer.decoder_start_token": "<pad>"}
        result = self.longspan("train", "taken/config.yaml", *jobs.flat(changed), code=2)
        self.assertIn("data.tokenizer.decoder_start_token", result.errors)

    def test_exports_trained_model(self):
        self.write_pairs()
        (self.directory / "mine.yaml").write_text(json.dumps({
            "run": {"output_dir": "mine", "task": "translation", "num_threads": 1},
            "data": {"train": "sources", "train_target": "targets", "max_length": 31},
            "model": {"family": "encoder_decoder", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
                      "norm": {"position": "post"}, "position_embedding_type": "learned",
                      "position_embedding_offset": 2, "max_position_embeddings": 32, "layernorm_embedding": True},
            "training": {"max_steps": 1}}))
        self.longspan("train", "mine.yaml")
        self.give("mine")
        config = self.config()
        self.assertEqual((config["architectures"], config["scale_embedding"]), (["BartForConditionalGeneration"], True))
        # 256 bytes, then two special tokens.
        self.assertEqual((config["decoder_start_token_id"], config["eos_token_id"], config["vocab_size"]), (256, 257, 258))
        self.take("given")
        self.assertAlmostEqual(self.evaluate_pairs("taken")["loss"], self.evaluate_pairs("mine")["loss"], delta=1e-9)
        self.longspan("train", "mine.yaml", *jobs.flat({"model.layernorm_embedding": "false", "run.output_dir": "other"}))
        self.assert_one_sentence(self.give("other", "no", code=2), "BART requires model.layernorm_embedding: true, found false")


class ImportT5(TestCase):
    def test_round_trip_is_exact(self):
        for name, changes, shapes in (
                ("plain", {}, t5()), ("gated", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, t5(True, False))):
            with self.subTest(name):
                tensors = self.folder(name, changes, shapes, T5)
                (self.directory / name / "tokenizer.json").write_text(framed_tokenizer([]))
                self.take(name, name + "-taken")
                self.give(name + "-taken", name + "-given")
                self.assertEqual(self.given(name + "-given"), tensors)
                config = self.config(name + "-given")
                for key, value in {**T5, **changes}.items():
                    self.assertEqual(config[key], value, key)
                self.assertNotIn("scale_decoder_outputs", config)

    def test_reads_scale_and_tying_of_transformers_5(self):
        apart = {"scale_decoder_outputs": False, "is_gated_act": False, "dense_act_fn": "relu"}
        for name, shapes, tied in ("own", t5(tied=False), False), ("shared", t5(), True):
            with self.subTest(name):
                tensors = self.folder(name, apart, shapes, T5)
                self.take(name, name + "-taken")
                self.give(name + "-taken", name + "-given")
                self.assertEqual(self.given(name + "-given"), tensors)
                config = self.config(name + "-given")
                self.assertEqual((config["tie_word_embeddings"], config.get("scale_decoder_outputs")), (tied, False if tied else None))

    def test_init_from_rejects_other_max_distance(self):
        # The shapes of the tensors are equal.
        self.folder(shapes=t5(), usual=T5)
        (self.directory / "model" / "tokenizer.json").write_text(framed_tokenizer([]))
        self.take()
        self.write_pairs()
        settings = {"data.train": "sources", "data.train_target": "targets", "run.output_dir": "mine", "training.init_from.path": "taken",
                    "training.max_steps": 1, "run.num_threads": 1, "model.relative_attention_max_distance": 30}
        result = self.longspan("train", "taken/config.yaml", *jobs.flat(settings), code=2)
        self.assertIn("model.relative_attention_max_distance: checkpoint has 20, config has 30", result.errors)
        self.longspan("train", "taken/config.yaml",
                      *jobs.flat({**settings, "training.init_from.allow_config_changes": "[model.relative_attention_max_distance]"}))

    def test_rejects_invalid_config_json(self):
        self.folder(shapes=t5(), usual=T5)
        path = self.directory / "model" / "config.json"
        for change, part in (
                ({"architectures": ["T5EncoderModel"]}, 'expected T5ForConditionalGeneration or T5Model for T5, found "T5EncoderModel"'),
                ({"feed_forward_proj": "gated-mish"}, '"feed_forward_proj": expected gelu_new, '),
                ({"dense_act_fn": "gelu"}, '"dense_act_fn": expected relu, as in "feed_forward_proj", found "gelu"'),
                ({"is_gated_act": True}, '"is_gated_act": expected false, found true'),
                ({"is_encoder_decoder": False}, '"is_encoder_decoder": expected true, found false'),
                ({"relative_attention_num_buckets": 10}, 'relative_attention_bias.weight": expected shape [10, 2] according to config.json, found [8, 2]'),
                ({"feed_forward_proj": "gated-gelu"}, 'DenseReluDense.wi_0.weight" of shape [12, 8] (required by config.json)'),
                ({"tie_word_embeddings": False}, 'missing tensor "lm_head.weight" of shape [264, 8]'),
                ({"use_scaled_scores": True}, 'unknown key "use_scaled_scores"')):
            with self.subTest(str(change)):
                path.write_text(json.dumps({**T5, **change}))
                self.assert_one_sentence(self.take(code=3), part)


class TiedEmbeddings(TestCase):
    """The shared embedding may be stored under any of its names."""

    def test_bart_reads_any_stored_name(self):
        tensors = self.bart_folder(zeros=False)
        table = tensors.pop("model.shared.weight")
        for number, name in enumerate(("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")):
            folder = f"bart-{number}"
            self.bart_folder(folder)
            write_safetensors(self.directory / folder / "model.safetensors", {**tensors, name: table})
            self.take(folder, f"{folder}-taken")
            self.give(f"{folder}-taken", f"{folder}-given")
            self.assertEqual(self.given(f"{folder}-given")["model.shared.weight"], table)

    def test_t5_reads_any_stored_name(self):
        tensors = self.folder("t5", {}, t5(), T5)
        table = tensors.pop("shared.weight")
        apart = {"tie_word_embeddings": True, "scale_decoder_outputs": False}  # as transformers 5 writes it
        for config in {}, apart:
            for number, name in enumerate(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")):
                folder = f"t5-{number}-{len(config)}"
                self.folder(folder, config, t5(), T5)
                write_safetensors(self.directory / folder / "model.safetensors", {**tensors, name: table})
                self.take(folder, f"{folder}-taken")
                self.give(f"{folder}-taken", f"{folder}-given")
                self.assertEqual(self.given(f"{folder}-given"), {"shared.weight": table, **tensors})
        # An untied output next to the decoder's embedding.
        other = self.folder("madlad", apart, t5(tied=False), T5)
        write_safetensors(self.directory / "madlad" / "model.safetensors",
                          {"decoder.embed_tokens.weight" if name == "shared.weight" else name: tensor for name, tensor in other.items()})
        self.take("madlad", "madlad-taken")
        self.give("madlad-taken", "madlad-given")
        self.assertEqual(self.given("madlad-given"), other)


class ImportErrors(TestCase):
    def test_rejects_invalid_config_json(self):
        self.bart_folder(zeros=False)
        path = self.directory / "model" / "config.json"
        for change, part in (
                ({"architectures": ["BartForCausalLM"]}, 'expected BartForConditionalGeneration or BartModel for BART, found "BartForCausalLM"'),
                ({"normalize_before": True}, '"normalize_before": expected false, found true'),
                ({"add_final_layer_norm": True}, '"add_final_layer_norm": expected false, found true'),
                ({"static_position_embeddings": True}, '"static_position_embeddings": expected false, found true'),
                ({"normalize_embedding": False}, '"normalize_embedding": expected true, found false'),
                ({"extra_pos_embeddings": 1}, '"extra_pos_embeddings": expected an integer from 2 to 2, found 1'),
                ({"tie_word_embeddings": False}, '"tie_word_embeddings": expected true, found false'),
                ({"is_encoder_decoder": False}, '"is_encoder_decoder": expected true, found false'),
                ({"decoder_attention_heads": 4}, '"decoder_attention_heads": expected 2, as in "encoder_attention_heads", found 4'),
                ({"decoder_ffn_dim": 16}, '"decoder_ffn_dim": expected 12, as in "encoder_ffn_dim", found 16'),
                ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, '"encoder_attention_heads": expected a divisor of d_model (8), found 3'),
                ({"activation_function": "mish"}, '"activation_function": expected gelu_new, '),
                ({"forced_eos_token_id": 1}, '"forced_eos_token_id": expected the id of "eos_token_id", found 1'),
                ({"eos_token_id": [1, 2]}, '"eos_token_id": expected one id, found a list'),
                ({"decoder_start_token_id": VOCABULARY}, '"decoder_start_token_id": expected an integer from 0 to 263, found 264'),
                ({"decoder_start_token_id": 262}, '"decoder_start_token_id": expected the id of a token of tokenizer.json, found 262'),
                ({"encoder_layers": 2}, 'missing tensor "model.encoder.layers.1.self_attn.q_proj.weight" of shape [8, 8]'),
                ({"encoder_layers": 65536}, "expected at least a tensor for each of 65538 layers, found 75 tensors in model"),
                ({"max_position_embeddings": 31}, 'embed_positions.weight": expected shape [33, 8] according to config.json, found [32, 8]'),
                ({"relative_positions": True}, 'unknown key "relative_positions"')):
            with self.subTest(str(change)):
                path.write_text(json.dumps({**BART, **change}))
                self.assert_one_sentence(self.take(code=3), part)
                self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("taken")], [])

    def test_rejects_invalid_final_logits_bias(self):
        shapes = {**bart(), "final_logits_bias": [1, VOCABULARY]}
        self.bart_folder(shapes=shapes)
        self.assert_one_sentence(self.take(code=3), 'tensor "final_logits_bias": expected zeros of shape [1, 264], found nonzero values')
        self.bart_folder("short", shapes={**shapes, "final_logits_bias": [VOCABULARY]})
        self.assert_one_sentence(self.take("short", code=3), 'tensor "final_logits_bias": expected zeros of shape [1, 264], found shape [264]')

    def test_rejects_missing_special_tokens_and_short_max_length(self):
        self.bart_folder()
        self.take()
        self.write_pairs()
        settings = {"data.train": "sources", "data.train_target": "targets", "run.output_dir": "mine", "training.max_steps": 1}
        for more, sentence in (({"data.tokenizer.decoder_start_token": "<start>"},
                                'data.tokenizer.decoder_start_token: the tokenizer has no token "<start>"'),
                               ({"data.max_length": 2, "data.overlong_examples": "truncate"},
                                "leaves no tokens for the text next to 2 special tokens")):
            code = 2 if "data.tokenizer.decoder_start_token" in more else 3
            result = self.longspan("train", "taken/config.yaml", *jobs.flat({**settings, **more}), code=code)
            self.assertIn(sentence, result.errors)

    def test_without_tokenizer_reads_token_ids(self):
        ids = {**{key: None for key in IDS}, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
        self.bart_folder(config={"vocab_size": 53, **ids}, shapes={**bart(), "model.shared.weight": [53, WIDTH]}, tokenizer=False)
        self.assertIn("the run reads ids from 0 to 52 (data.tokenizer.type: none): a text is ids", self.take().errors)
        self.write("sources", ["0 5 7 2", "0 52 2"])
        self.write("targets", ["17 4", "9"])
        self.assertGreater(self.evaluate_pairs("taken")["loss"], 0)
        for line in self.generate("taken", "--beam", 2):
            self.assertTrue(all(0 <= int(word) < 53 for word in line.split()))
        self.give()
        self.assertEqual({key: self.config()[key] for key in ids}, ids)

    def test_without_tokenizer_round_trip_is_exact(self):
        tensors = self.bart_folder(tokenizer=False)
        self.assertIn("model has no tokenizer.json", self.take().errors)
        self.give()
        self.assertEqual(self.given(), tensors)
        for key, value in IDS.items():
            self.assertEqual(self.config()[key], value, key)


class Peers(PeersTestCase, TestCase):
    """Comparison with the package transformers, on models that it creates."""

    peer_script = "pairs.py"

    def compare(self, model, count):
        self.peer("make", "models", model)
        (self.directory / "given").mkdir()
        self.write_pairs()
        for kind in sorted(os.listdir(self.directory / "models")):
            self.take(f"models/{kind}", kind)
            self.give(kind, f"given/{kind}")
            self.assertEqual(self.given(f"given/{kind}"), self.given(f"models/{kind}"))
        theirs, again = (json.loads(self.peer("losses", folder, "sources", "targets")) for folder in ("models", "given"))
        output, output_again = (json.loads(self.peer("greedy", folder, "sources", 4)) for folder in ("models", "given"))
        self.assertEqual(len(theirs), count)
        self.assertEqual(output, output_again)
        for kind, loss in theirs.items():
            with self.subTest(kind):
                self.assertLess(abs(again[kind] - loss), 1e-6)
                self.assertLess(abs(self.evaluate_pairs(kind)["loss"] - loss), 1e-5)
                found = self.generate(kind, "--beam", "1", "--max-extra-length", "4")
                self.assertEqual(found, [text.replace("\n", " ") for text in output[kind]])

    def test_bart_matches_transformers(self):
        self.compare("bart", 2)

    def test_t5_matches_transformers(self):
        self.compare("t5", 2)


if __name__ == "__main__":
    jobs.main()
