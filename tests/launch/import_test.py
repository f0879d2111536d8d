#!/usr/bin/env python3
"""Import and export of Hugging Face decoders: GPT-2, Llama and others.

    tests/launch/import_test.py build/launch/longspan

The comparison with the package transformers requires launch/setup --reference-implementations.
"""

import array
import json
import math
import os
import re
import random
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from package_tokenizer import tokenizer_json
from peers import PeersTestCase

VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS, HIDDEN = 259, 12, 8, 2, 2, 24
CONFIG = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": POSITIONS,
          "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": HIDDEN, "activation_function": "gelu_new",
          "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "n_ctx": POSITIONS,
          "summary_type": "cls_index", "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float32"}

LLAMA = {"model_type": "llama", "vocab_size": 259, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


def shapes(prefix="transformer.", **changes):
    """Returns {name: shape} of the tensors of GPT-2 in export order."""
    found = {"wte.weight": [VOCABULARY, WIDTH], "wpe.weight": [POSITIONS, WIDTH]}
    for layer in range(LAYERS):
        for name, shape in (("ln_1.weight", [WIDTH]), ("ln_1.bias", [WIDTH]),
                            ("attn.c_attn.weight", [WIDTH, 3 * WIDTH]), ("attn.c_attn.bias", [3 * WIDTH]),
                            ("attn.c_proj.weight", [WIDTH, WIDTH]), ("attn.c_proj.bias", [WIDTH]),
                            ("ln_2.weight", [WIDTH]), ("ln_2.bias", [WIDTH]),
                            ("mlp.c_fc.weight", [WIDTH, HIDDEN]), ("mlp.c_fc.bias", [HIDDEN]),
                            ("mlp.c_proj.weight", [HIDDEN, WIDTH]), ("mlp.c_proj.bias", [WIDTH])):
            found[f"h.{layer}.{name}"] = shape
    found.update({"ln_f.weight": [WIDTH], "ln_f.bias": [WIDTH]})
    return {**{prefix + name: shape for name, shape in found.items()}, **changes}


def random_weights(shapes, seed=1):
    """Returns random float32 tensors as bytes, all different."""
    source = random.Random(seed)
    return {name: array.array("f", (source.gauss(1 if "ln" in name and "weight" in name else 0, 0.3)
                                    for _ in range(math.prod(shape)))).tobytes() for name, shape in shapes.items()}


def narrow(data):
    """Truncates float32 to bfloat16."""
    return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_safetensors(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def reference_loss(weights, ids, heads=HEADS, vocabulary=VOCABULARY):
    """Returns the loss of GPT-2 in nats per token, computed in plain Python."""
    w = {name.removeprefix("transformer."): array.array("f", data) for name, data in weights.items()}

    def norm(x, name):
        mean = sum(x) / WIDTH
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / WIDTH + 1e-5)
        return [(v - mean) * scale * g + b for v, g, b in zip(x, w[name + ".weight"], w[name + ".bias"])]

    def linear(x, name):  # the weight is [in, out]
        out = len(w[name + ".bias"])
        return [w[name + ".bias"][o] + sum(v * w[name + ".weight"][i * out + o] for i, v in enumerate(x))
                for o in range(out)]

    def gelu(v):
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))

    def softmax(scores):
        most = max(scores)
        powers = [math.exp(s - most) for s in scores]
        return [p / sum(powers) for p in powers]

    dim = WIDTH // heads
    xs = [[w["wte.weight"][token * WIDTH + i] + w["wpe.weight"][time * WIDTH + i] for i in range(WIDTH)]
          for time, token in enumerate(ids[:-1])]
    for layer in range(LAYERS):
        name = f"h.{layer}."
        rows = [linear(norm(x, name + "ln_1"), name + "attn.c_attn") for x in xs]
        for time, x in enumerate(xs):
            mixed = []
            for head in range(heads):
                q, k, v = (slice(part * WIDTH + head * dim, part * WIDTH + (head + 1) * dim) for part in range(3))
                shares = softmax([sum(a * b for a, b in zip(rows[time][q], rows[t][k])) / math.sqrt(dim)
                                  for t in range(time + 1)])
                mixed += [sum(share * rows[t][v][i] for t, share in enumerate(shares)) for i in range(dim)]
            xs[time] = [a + b for a, b in zip(x, linear(mixed, name + "attn.c_proj"))]
        for time, x in enumerate(xs):
            hidden = [gelu(v) for v in linear(norm(x, name + "ln_2"), name + "mlp.c_fc")]
            xs[time] = [a + b for a, b in zip(x, linear(hidden, name + "mlp.c_proj"))]
    total = 0
    for x, target in zip(xs, ids[1:]):
        x = norm(x, "ln_f")
        logits = [sum(x[i] * w["wte.weight"][id * WIDTH + i] for i in range(WIDTH)) for id in range(vocabulary)]
        total -= math.log(softmax(logits)[target])
    return total / (len(ids) - 1)


class ImportTestCase(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.weights = random_weights(shapes())

    def folder(self, name="model", config=None, tensors=None, files=1):
        """Writes a model folder with this number of weight files."""
        path = self.directory / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
        if tensors is None:
            tensors = {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()}
        if files == 1:
            write_safetensors(path / "model.safetensors", tensors)
            return path
        index = {}
        for number in range(files):
            part = dict(list(tensors.items())[number::files])
            file = f"model-{number + 1:05}-of-{files:05}.safetensors"
            write_safetensors(path / file, part)
            index.update({name: file for name in part})
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
        return path

    def take(self, folder="model", run="taken", code=0):
        return self.longspan("import", folder, "--output-dir", run, code=code)

    def give(self, *arguments, run="taken", folder="given", code=0):
        return self.longspan("export", run, "--output-dir", folder, *arguments, code=code)

    def given(self, folder="given"):
        return read_safetensors(self.directory / folder / "model.safetensors")

    def loss(self, ids, run="taken"):
        """Returns the loss on ids, which a run without tokenizer reads as uint16."""
        configuration = (self.directory / run / "config.yaml").read_text()
        reads_ids = re.search(r"\n  tokenizer:\n(    .*\n)*?    type: none\b", configuration)
        (self.directory / "ids").write_bytes(array.array("H", list(ids)).tobytes() if reads_ids else bytes(ids))
        result = self.longspan("evaluate", run, "--data", "ids", "--json")
        return json.loads(result.output)["loss"]


class ImportDecoders(ImportTestCase):
    def test_round_trip_is_exact(self):
        self.folder()
        result = self.take()
        self.assertEqual(result.output, "taken: GPT-2, 2 layers, 3656 parameters (3656 F32)\n")
        self.assertEqual(result.errors, "warning: in training, model.dropout also applies inside feed-forward layers; "
                                        "GPT-2 does not apply it there\n"
                                        "warning: model has no tokenizer.json, vocab.json with merges.txt, vocab.txt, tokenizer.model or "
                                        "spiece.model; the run reads ids from 0 to "
                                        "258 (data.tokenizer.type: none): data are files of ids (data.format: tokens), a prompt is ids "
                                        "separated by blanks\n")
        self.assertEqual(sorted(os.listdir(self.directory / "taken")), ["checkpoints", "config.yaml"])
        self.longspan("verify", "taken")
        given = self.give()
        self.assertEqual(given.output, "given: GPT-2, 2 layers, F32, step 0 of taken\n")
        self.assertEqual(given.errors, "")
        self.assertEqual(self.given(), {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()})
        config = json.loads((self.directory / "given" / "config.json").read_text())
        for key, value in CONFIG.items():
            if key not in ("bos_token_id", "eos_token_id", "n_ctx", "summary_type"):
                self.assertEqual(config[key], value, key)
        self.take("given", "again")
        self.give(run="again", folder="again-given")
        for name in "config.json", "model.safetensors":
            self.assertEqual(*((self.directory / folder / name).read_bytes() for folder in ("given", "again-given")))
        self.assertEqual([name for name in os.listdir(self.directory) if ".tmp-" in name], [])

    def test_loss_matches_gpt2_reference(self):
        self.folder()
        self.take()
        text = b"in the end."
        self.assertLess(abs(self.loss(text) - reference_loss(self.weights, text)), 1e-5)
        # Controls: other weights and another number of heads change the loss.
        for other in ({**self.weights, "transformer.h.0.attn.c_proj.weight": self.weights["transformer.h.1.attn.c_proj.weight"]},):
            self.assertGreater(abs(reference_loss(other, text) - reference_loss(self.weights, text)), 1e-3)
        self.assertGreater(abs(reference_loss(self.weights, text, heads=1) - reference_loss(self.weights, text)), 1e-3)

    def test_reads_other_names_and_writes_shards(self):
        tensors = {name.removeprefix("transformer."): ("F32", shape, self.weights[name]) for name, shape in shapes().items()}
        self.folder("bare", {"architectures": ["GPT2Model"], "n_special": 0, "predict_special_tokens": True, "dtype": "float32", "tie_word_embeddings": True,
                             "transformers_version": "5.0.0", "pruned_heads": {}}, tensors)
        mask = ("F32", [1, 1, POSITIONS, POSITIONS], bytes(4 * POSITIONS ** 2))
        whole = {"transformer." + name: tensor for name, tensor in tensors.items()}
        self.folder("old", {"n_inner": HIDDEN, "output_past": True, "task_specific_params": {"text": {"max_length": 5}}},
                    {**whole, "transformer.h.0.attn.bias": mask, "transformer.h.1.attn.masked_bias": ("F32", [], bytes(4)),
                     "lm_head.weight": whole["transformer.wte.weight"]}, files=3)
        for name in "bare", "old":
            with self.subTest(name):
                self.take(name, f"{name}-taken")
                self.give("--max-shard-size", "0.000004", run=f"{name}-taken", folder=f"{name}-given")
                index = json.loads((self.directory / f"{name}-given" / "model.safetensors.index.json").read_text())
                files = {file: read_safetensors(self.directory / f"{name}-given" / file)
                         for file in set(index["weight_map"].values())}
                self.assertEqual(len(files), 3)
                self.assertEqual(index["metadata"]["total_size"], 4 * 3656)
                self.assertEqual({tensor: files[file][tensor] for tensor, file in index["weight_map"].items()}, whole)

    def test_runs_on_two_ranks(self):
        self.folder()
        self.longspan("import", "model", "--output-dir", "taken", ranks=2)
        self.longspan("export", "taken", "--output-dir", "given", ranks=2)
        self.assertEqual(self.given(), {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()})
        self.assertIn("found", self.give("--max-shard-size", "nan", folder="no", code=2).errors)

    def test_imports_and_exports_tokenizer(self):
        path = self.folder()
        text = tokenizer_json([("i", "n")], ["<|end|>"])
        (path / "tokenizer.json").write_text(text)
        result = self.take()
        self.assertNotIn("tokenizer", result.errors)
        (self.directory / "ids").write_bytes(b"in the end.")
        path.rename(self.directory / "elsewhere")  # the checkpoint contains the tokenizer
        metrics = json.loads(self.longspan("evaluate", "taken", "--data", "ids", "--json").output)
        self.assertEqual((metrics["num_tokens"], metrics["num_bytes"]), (9, 9))  # "in" is one token; the first token is not predicted
        ids = [256, *b" the end."]
        self.assertLess(abs(metrics["loss"] - reference_loss(self.weights, ids)), 1e-5)
        self.give()
        self.assertEqual((self.directory / "given" / "tokenizer.json").read_text(), text)

    def test_untied_output_round_trip_is_exact(self):
        head = random_weights({"lm_head.weight": [VOCABULARY, WIDTH]}, seed=2)["lm_head.weight"]
        tensors = {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()}
        tensors["lm_head.weight"] = ("F32", [VOCABULARY, WIDTH], head)
        self.folder("untied", {"tie_word_embeddings": False}, tensors)
        self.take("untied")
        self.give()
        self.assertEqual(self.given(), tensors)
        self.folder("tied", tensors=tensors)
        self.assert_one_sentence(self.take("tied", "no", code=3), 'tensor "lm_head.weight" differs from '
                                                                  '"transformer.wte.weight", to which config.json ties it')

    def test_converts_dtypes(self):
        tensors = {name: ("BF16", shape, narrow(self.weights[name])) for name, shape in shapes().items()}
        self.folder(tensors=tensors)
        self.take()
        self.give("--dtype", "bfloat16")
        self.assertEqual(self.given(), tensors)
        self.assertEqual(json.loads((self.directory / "given" / "config.json").read_text())["torch_dtype"], "bfloat16")
        self.give(folder="wide")
        widened = {name: ("F32", shape, b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
                   for name, (_, shape, data) in tensors.items()}
        self.assertEqual(self.given("wide"), widened)
        self.give("--dtype", "float16", folder="half")
        halves = {name: ("F16", shape, struct.pack(f"<{len(data) // 4}e", *struct.unpack(f"<{len(data) // 4}f", data)))
                  for name, (_, shape, data) in widened.items()}
        self.assertEqual(self.given("half"), halves)
        self.take("half", "half-taken")
        self.give("--dtype", "float16", run="half-taken", folder="half-again")
        self.assertEqual(self.given("half-again"), self.given("half"))

    def test_other_commands_accept_imported_run(self):
        self.folder()
        self.take()
        self.longspan("generate", "taken", "--prompt", "105 110", "--max-new-tokens", "4")
        self.assertIn("import/model_type", self.longspan("inspect", "taken").output)
        (self.directory / "mine.yaml").write_text(json.dumps({
            **self.sections, "model": {"family": "decoder", "num_hidden_layers": LAYERS, "hidden_size": WIDTH,
                                       "num_attention_heads": HEADS, "position_embedding_type": "learned",
                                       "intermediate_size": HIDDEN, "max_position_embeddings": POSITIONS, "vocab_size": VOCABULARY}}))
        (self.directory / "train.bin").write_bytes(array.array("H", list(range(259)) * 4).tobytes())
        settings = {"run.output_dir": "mine", "training.init_from.path": "taken", "training.learning_rate": 0, "training.max_steps": 1,
                    "training.lr_scheduler.warmup_steps": 0, "data.format": "tokens", "data.tokenizer.type": "none",
                    "data.tokenizer.vocab_size": VOCABULARY,
                    "data.train": "train.bin"}
        result = self.longspan("train", "mine.yaml", *jobs.flat(settings))
        self.assertIn("Initialized weights from taken/checkpoints/step-000000000, step 0", result.output)
        self.give(run="mine")
        self.assertEqual({name: data for name, (_, _, data) in self.given().items()}, self.weights)
        result = self.longspan("train", "taken/config.yaml", "--set", "data.train=train.bin", code=2)
        self.assert_one_sentence(result, "contains imported weights", "set training.init_from.path to taken")

    def test_reports_unusable_tokenizer(self):
        path = self.folder()
        (path / "tokenizer.json").write_text("{}")
        self.assertIn("model/tokenizer.json: ", self.take().errors)
        (path / "tokenizer.json").write_text(tokenizer_json([("a", "b"), ("c", "d"), ("e", "f")], ["<|end|>"]))
        self.assertIn("model/tokenizer.json: expected at most 259 ids", self.take(run="large").errors)
        small = shapes(**{"transformer.wte.weight": [5, WIDTH]})
        weights = random_weights(small)
        tensors = {name: ("F32", shape, weights[name]) for name, shape in small.items()}
        self.folder("small", {"vocab_size": 5}, tensors)
        self.assertIn("the run reads ids from 0 to 4 (data.tokenizer.type: none)", self.take("small", "small-taken").errors)
        self.give(run="small-taken")
        self.assertEqual(self.given(), tensors)

    def test_without_tokenizer_reads_token_ids(self):
        """Evaluates, generates and fine-tunes with a vocabulary of fewer than 256 ids."""
        small = shapes(**{"transformer.wte.weight": [53, WIDTH]})
        weights = random_weights(small)
        self.folder("small", {"vocab_size": 53}, {name: ("F32", shape, weights[name]) for name, shape in small.items()})
        self.take("small")
        ids = [5, 52, 0, 17, 17, 3]
        self.assertLess(abs(self.loss(ids) - reference_loss(weights, ids, vocabulary=53)), 1e-5)
        words = self.longspan("generate", "taken", "--prompt", "17 4", "--max-new-tokens", 3).output.split()
        self.assertEqual((words[:2], len(words)), (["17", "4"], 5))
        self.assertTrue(all(0 <= int(word) < 53 for word in words))
        (self.directory / "train.bin").write_bytes(array.array("H", ids * 20).tobytes())
        settings = {"data.train": "train.bin", "run.output_dir": "tuned", "training.init_from.path": "taken", "training.max_steps": 2,
                    "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1, "data.seq_length": 6}
        for ranks in 1, 2:
            more = {"run.output_dir": f"tuned-{ranks}", "data.global_batch_size": 2, "parallel.data_parallel_size": ranks}
            result = self.longspan("train", "taken/config.yaml", *jobs.flat({**settings, **more}), ranks=ranks)
            self.assertIn("Initialized weights from taken/checkpoints/step-000000000, step 0", result.output)
        (self.directory / "beyond.bin").write_bytes(array.array("H", [1, 53, 2]).tobytes())
        self.assert_one_sentence(self.longspan("evaluate", "taken", "--data", "beyond.bin", code=3), "beyond.bin: byte 2", "53 ids, 0 to 52")


# The required keys of the Llama family.
LLAMA_LIKE = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 40,
              "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 32, "tie_word_embeddings": True}


def llama_shapes(biases=False, norms=False):
    found, layer = {"model.embed_tokens.weight": [40, 8], "model.norm.weight": [8]}, "model.layers.0."
    for name, shape in (("self_attn.q_proj", [8, 8]), ("self_attn.k_proj", [4, 8]), ("self_attn.v_proj", [4, 8]),
                        ("self_attn.o_proj", [8, 8]), ("mlp.gate_proj", [12, 8]), ("mlp.up_proj", [12, 8]),
                        ("mlp.down_proj", [8, 12]), ("input_layernorm", [8]), ("post_attention_layernorm", [8])):
        found[f"{layer}{name}.weight"] = shape
        if biases and name[10:] in ("q_proj", "k_proj", "v_proj"):
            found[f"{layer}{name}.bias"] = shape[:1]
    if norms:
        found.update({f"{layer}self_attn.{each}_norm.weight": [4] for each in "qk"})
    return found


class TiedEmbeddings(ImportTestCase):
    """Tied weights may be stored under either name."""

    def test_gpt2_reads_only_lm_head(self):
        tensors = {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()}
        tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")
        self.folder(tensors=tensors)
        self.take()
        text = b"in the end."
        self.assertLess(abs(self.loss(text) - reference_loss(self.weights, text)), 1e-5)
        self.assertLess(abs(self.loss(text) - 5.904230), 1e-5)
        self.give()  # under the usual name
        self.assertEqual({name: data for name, (_, _, data) in self.given().items()}, self.weights)
        # A bare backbone has no prefix.
        self.folder("bare", tensors={name.removeprefix("transformer."): tensor for name, tensor in tensors.items()})
        self.take("bare", "bare-taken")
        self.assertLess(abs(self.loss(text, "bare-taken") - 5.904230), 1e-5)

    def test_llama_family_reads_only_lm_head(self):
        ids = [3, 39, 0, 7, 7, 21]
        for kind in "llama", "mistral", "qwen2", "qwen3":
            found = llama_shapes(biases=kind == "qwen2", norms=kind == "qwen3")
            weights = random_weights(found)
            tensors = {name: ("F32", shape, weights[name]) for name, shape in found.items()}
            losses = []
            for table in "model.embed_tokens.weight", "lm_head.weight":
                path = self.directory / f"{kind}-{table}"
                path.mkdir()
                (path / "config.json").write_text(json.dumps({"model_type": kind, **LLAMA_LIKE}))
                write_safetensors(path / "model.safetensors", {table if "embed" in name else name: tensor for name, tensor in tensors.items()})
                self.take(path.name, f"taken-{path.name}")
                losses.append(self.loss(ids, f"taken-{path.name}"))
            self.assertEqual(*losses)

    def test_accepts_null_metadata_of_mlx(self):
        self.folder()
        path = self.directory / "model" / "model.safetensors"
        content = path.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = b'{"__metadata__":null,' + content[9:8 + length]
        path.write_bytes(struct.pack("<Q", len(header)) + header + content[8 + length:])
        self.take()
        self.give()
        self.assertEqual({name: data for name, (_, _, data) in self.given().items()}, self.weights)


class UnusedKeys(ImportTestCase):
    """Keys of config.json that no version of transformers uses in computation."""

    def test_obsolete_keys_are_ignored(self):
        self.folder(config={"eos_token_ids": [0], "internal_version": 2, "xla_device": None, "use_bfloat16": False,
                            "keys_to_ignore_at_inference": ["past_key_values"], "xla_device": True, "name": "Gpt", "language": "english",
                            "max_new_tokens": 20, "trust_remote_code": True, "transformers.js_config": {"dtype": "q8"}})
        self.take()

    def test_model_type_follows_from_architectures(self):
        self.folder(config={"model_type": None})
        self.take()
        text = b"in the end."
        self.assertLess(abs(self.loss(text) - reference_loss(self.weights, text)), 1e-5)
        for change, part in (({"architectures": ["XLNetModel"]}, 'unknown class "XLNetModel" in "architectures"); set it to gpt2, llama'),
                             ({"architectures": None}, '"architectures" is empty); set it to gpt2, llama')):
            shutil.rmtree(self.directory / "model")
            self.folder(config={"model_type": None, **change})
            self.assert_one_sentence(self.take(run="no", code=3), 'model/config.json: "model_type": expected a string, found nothing', part)

    def test_unknown_key_error_suggests_removal(self):
        self.folder(config={"quantization_config": {"bits": 4}})
        self.assert_one_sentence(self.take(code=3), 'unknown key "quantization_config"', "remove it from the file")

    def test_rope_scaling_ignores_keys_of_other_types(self):
        """transformers reads only the keys of the own type of the scaling."""
        ids = [3, 39, 0, 7, 7, 21] * 4
        found = llama_shapes()
        weights = random_weights(found)

        def taken(name, scaling, code=0):
            path = self.directory / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps({"model_type": "llama", **LLAMA_LIKE, "rope_scaling": scaling}))
            write_safetensors(path / "model.safetensors", {name: ("F32", shape, weights[name]) for name, shape in found.items()})
            return self.take(name, f"taken-{name}", code)
        linear = {"type": "linear", "factor": 4.0}
        more = {"original_max_position_embeddings": 8, "finetuned": True, "low_freq_factor": 1, "beta_fast": 32, "rope_type": "linear",
                "attention_factor": 0.5, "mscale": 0.7, "partial_rotary_factor": 1.0, "attn_factor": 1, "extrapolation_factor": 1}
        taken("plain", linear)
        taken("linear", {**linear, **more})
        self.assertEqual(self.loss(ids, "taken-linear"), self.loss(ids, "taken-plain"))
        for number, (scaling, part) in enumerate((({**linear, "alpha": 2}, 'unknown key "rope_scaling.alpha"'),
                                                  ({**linear, "attn_factor": 2}, '"rope_scaling.attn_factor": expected 1, found 2'),
                                                  ({"factor": 4.0}, 'unknown key "rope_scaling.factor"'),
                                                  ({**linear, "partial_rotary_factor": 0.5}, '"rope_scaling.partial_rotary_factor": expected 1, found 0.5'))):
            self.assert_one_sentence(taken(f"no-{number}", scaling, code=3), part)


class ImportErrors(ImportTestCase):
    def refused(self, *parts, code=3):
        self.assert_one_sentence(self.take(code=code), *parts)
        self.assertFalse((self.directory / "taken").exists())
        self.assertEqual([name for name in os.listdir(self.directory) if ".tmp-" in name], [])

    def test_rejects_invalid_config_json(self):
        for change, part in (
                ({"model_type": "bloom"}, '"model_type": expected gpt2, llama'),
                ({"architectures": ["GPT2ForSequenceClassification"]}, '"architectures": expected GPT2LMHeadModel or GPT2Model for '
                                                                       'GPT-2, found "GPT2ForSequenceClassification"'),
                ({"quantization_config": {"bits": 4}}, 'unknown key "quantization_config"'),
                ({"rope_scaling": {"factor": 2}}, 'unknown key "rope_scaling"'),
                ({"activation_function": "mish"}, '"activation_function": expected gelu_new, '),
                ({"layer_norm_epsilon": 0}, '"layer_norm_epsilon": expected a number above 0, found 0'),
                ({"scale_attn_weights": False}, '"scale_attn_weights": expected true, found false'),
                ({"scale_attn_by_inverse_layer_idx": True}, '"scale_attn_by_inverse_layer_idx": expected false, found true'),
                ({"add_cross_attention": True}, '"add_cross_attention": expected false, found true'),
                ({"pruned_heads": {"0": [1]}}, 'unknown key "pruned_heads"'),
                ({"n_embd": 7}, '"n_head": expected a divisor of n_embd (7), found 2'),
                ({"n_embd": "8"}, '"n_embd": expected an integer from 1 to '),
                ({"n_layer": 0}, '"n_layer": expected an integer from 1 to 65536, found 0'),
                ({"n_layer": 3}, 'missing tensor "transformer.h.2.ln_1.weight" of shape [8] (required by config.json)'),
                ({"n_layer": 65536}, "expected at least a tensor for each of 65536 layers, found 28 tensors in model"),
                ({"n_embd": 1 << 24, "n_head": 1, "n_layer": 28}, "model/config.json: "),
                ({"n_layer": 1}, 'unexpected tensor "transformer.h.1.attn.c_attn.bias" (not part of GPT-2'),
                ({"n_inner": 32}, 'tensor "transformer.h.0.mlp.c_fc.weight": expected shape [8, 32] according to config.json, found [8, 24]'),
                ({"resid_pdrop": 1}, '"resid_pdrop": expected at least 0 and less than 1, found 1'),
                ({"tie_word_embeddings": False}, 'missing tensor "lm_head.weight" of shape [259, 8]')):
            with self.subTest(str(change)):
                path = self.folder(config=change)
                self.refused(part)
                shutil.rmtree(path)

    def test_rejects_invalid_llama_config_json(self):
        path = self.folder()
        yarn = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 16}
        for change, part in (
                ({"hidden_size": None}, '"hidden_size": expected an integer from 1 to '),
                ({"hidden_act": "mish"}, '"hidden_act": expected gelu_new, '),
                ({"num_key_value_heads": 3}, '"num_key_value_heads": expected a divisor of num_attention_heads (4), found 3'),
                ({"hidden_size": 50}, '"num_attention_heads": expected a divisor of hidden_size (50), found 4'),
                ({"hidden_size": 50, "head_dim": 12}, '"num_attention_heads": expected a divisor of hidden_size (50), found 4'),
                ({"hidden_size": 50, "model_type": "qwen2"}, "; set head_dim"),
                ({"head_dim": 7}, "rope requires an even number of rotated features, found all of a head's 7"),
                ({"rms_norm_eps": 0}, '"rms_norm_eps": expected a number above 0, found 0'),
                ({"logit_scale": 2}, 'unknown key "logit_scale"'),
                ({"sliding_window": 4}, 'unknown key "sliding_window"'),
                ({"partial_rotary_factor": 0.5}, '"partial_rotary_factor": expected 1, found 0.5'),
                ({"rope_theta": 0.5}, '"rope_theta": expected at least 1, found 0.5'),
                ({"rope_scaling": 2}, '"rope_scaling": expected an object, found 2'),
                ({"rope_scaling": {"rope_type": "mrope"}}, '"rope_scaling.rope_type": expected default, linear, '),
                ({"rope_scaling": {"type": "linear"}}, '"rope_scaling.factor": expected a number, found nothing'),
                ({"rope_scaling": {"type": "linear", "factor": 0.5}}, '"rope_scaling.factor": expected at least 1, found 0.5'),
                ({"rope_scaling": {**yarn, "truncate": False}}, '"rope_scaling.truncate": expected true, found false'),
                ({"rope_scaling": {**yarn, "alpha": 1}}, 'unknown key "rope_scaling.alpha"'),
                ({"rope_scaling": yarn, "rope_parameters": yarn}, '"rope_scaling": cannot be combined with "rope_parameters"'),
                ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1, "x"], "long_factor": [2]}},
                 '"rope_parameters.short_factor": expected numbers in the list, found "x"'),
                ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}},
                 "model.rope.scaling.short_factor"),
                ({"model_type": "qwen2", "layer_types": ["full_attention"]}, '"layer_types": expected one for each of 2 layers, found 1'),
                ({"model_type": "qwen3", "layer_types": ["full_attention", "chunked_attention"]},
                 '"layer_types": expected full_attention or sliding_attention, found "chunked_attention"'),
                ({"model_type": "qwen3", "layer_types": ["full_attention", "sliding_attention"]}, 'sliding_attention requires "use_sliding_window": true'),
                ({"model_type": "mistral", "sliding_window": 0}, '"sliding_window": expected an integer from 1 to '),
                ({"model_type": "mistral", "attention_bias": True}, 'unknown key "attention_bias"'),
                ({"architectures": ["LlamaForTokenClassification"]}, 'expected LlamaForCausalLM or LlamaModel for Llama')):
            with self.subTest(str(change)):
                (path / "config.json").write_text(json.dumps({**LLAMA, **change}))
                self.refused(part)

    def test_rejects_malformed_config_json(self):
        path = self.folder()
        for text, part in (("{", "invalid JSON"), ("[]", "expected an object, found a list"), ("[" * 100000, "16 deep"),
                           (" " * (1 << 20) + "{}", "expected at most 1048576"),
                           ('{"n_embd": 8, "n_embd": 8}', 'duplicate key "n_embd"')):
            with self.subTest(text[:30]):
                (path / "config.json").write_text(text)
                self.refused("model/config.json: ", part)
        (path / "config.json").unlink()
        self.refused("model/config.json: cannot be opened for reading")
        shutil.rmtree(path)
        self.refused("model: no such directory")

    def test_rejects_invalid_weights(self):
        tensors = {name: ("F32", shape, self.weights[name]) for name, shape in shapes().items()}
        name, (_, shape, data) = next(iter(tensors.items()))
        for change, part in (({name: ("I64", shape, data * 2)}, 'expected dtype F64, F32, BF16 or F16, found I64'),
                             ({name: ("F32", [WIDTH, VOCABULARY], data)}, "expected shape [259, 8] according to config.json, found [8, 259]"),
                             ({"more": ("F32", [1], bytes(4))}, 'unexpected tensor "more" (not part of GPT-2')):
            with self.subTest(part):
                path = self.folder(tensors={**tensors, **change})
                self.refused("model: ", part)
                shutil.rmtree(path)
        path = self.folder(tensors={**tensors, name: ("F64", shape, struct.pack("<d", 1e300) * math.prod(shape))})
        self.refused('model/model.safetensors: tensor "transformer.wte.weight": 1e+300 is too large for float32')
        shutil.rmtree(path)
        path = self.folder() / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        self.refused("model/model.safetensors: tensor ", "the file has")
        path.write_bytes(b"\xff" * 8 + content[8:])
        self.refused("model/model.safetensors: is truncated or not a safetensors file: header of 18446744073709551615 bytes")

    def test_rejects_existing_output_directories(self):
        self.folder()
        (self.directory / "taken").mkdir()
        self.take()  # an empty folder is allowed
        self.assert_one_sentence(self.take(code=2), "--output-dir: taken already exists")
        self.give()
        self.assert_one_sentence(self.give(code=2), "--output-dir: given already exists")

    def test_export_rejects_unsupported_models(self):
        sections = {**self.sections, "model": {"family": "decoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4},
                    "training": {"max_steps": 1}}
        for key, value, part in (("model.position_embedding_type", "sinusoidal",
                                  "GPT-2 requires model.position_embedding_type: learned, found sinusoidal"),
                                 ("model.norm.type", "rmsnorm", "GPT-2 requires model.norm.type: layernorm, found rmsnorm"),
                                 ("model.attention.layer_types", "[sliding_window]", "GPT-2 requires model.attention.layer_types: "),
                                 ("model.head_dim", 5, "GPT-2 requires model.head_dim: none, found 5")):
            with self.subTest(key):
                (self.directory / "tiny.yaml").write_text(json.dumps(sections))
                settings = {"model.position_embedding_type": "learned", "run.output_dir": key, key: value}
                self.longspan("train", "tiny.yaml", *jobs.flat(settings))
                self.assert_one_sentence(self.give(run=key, code=2), part)
                self.assertFalse((self.directory / "given").exists())
        (self.directory / "tiny.yaml").write_text(json.dumps(self.sections))
        self.train()
        self.assert_one_sentence(self.give(run="run", code=2), "model.family: expected decoder (GPT-2), decoder (Llama)")

    def test_failed_write_leaves_no_files(self):
        self.folder()
        self.take()
        for command in f"import model --output-dir no", f"export taken --output-dir no":
            job = jobs.Job("/bin/bash", ["-c", f"ulimit -f 4; exec {self.program} {command}"], 1, self.directory)
            self.addCleanup(job.close)
            result = job.wait()
            self.assertEqual(result.code, 1, result.errors)
            self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("no")], [])


class Peers(PeersTestCase, ImportTestCase):
    """Comparison with the package transformers, on models that it creates."""

    def test_losses_match_transformers(self):
        self.peer("make", "models")
        (self.directory / "given").mkdir()
        kinds = sorted(os.listdir(self.directory / "models"))
        self.assertGreater(len(kinds), 10)
        for kind in kinds:
            self.take(f"models/{kind}", kind)
            self.give(run=kind, folder=f"given/{kind}")
            types = [json.loads((self.directory / folder / kind / "config.json").read_text())["model_type"]
                     for folder in ("models", "given")]
            self.assertEqual(*types)
            self.assertEqual(*(read_safetensors(self.directory / folder / kind / "model.safetensors")
                               for folder in ("models", "given")))
        # One prediction; segments with a shorter last one; segments longer than in pretraining. (transformers reuses the rotary
        # frequencies of a longer segment for the next one, unless that fits the pretraining length.)
        for text, segments in (b"ab", (64,)), (bytes(range(256)) + b"lord", (64, 100)):
            (self.directory / "ids").write_bytes(text)
            (self.directory / "ids-16").write_bytes(array.array("H", list(text)).tobytes())
            theirs, again = (json.loads(self.peer("losses", folder, "ids", *segments)) for folder in ("models", "given"))
            for kind in kinds:
                self.assertEqual(theirs[kind].keys(), again[kind].keys())
                for segment, loss in theirs[kind].items():
                    with self.subTest(kind=kind, segment=segment, text=len(text)):
                        self.assertLess(abs(again[kind][segment] - loss), 1e-6)
                        result = self.longspan("evaluate", kind, "--data", "ids-16", "--seq-length", segment, "--json")
                        self.assertLess(abs(json.loads(result.output)["loss"] - loss), 1e-5)

    def test_training_step_matches_torch(self):
        self.peer("make", "models")
        ids = bytes(range(40)) + b"lord" * 4
        (self.directory / "bytes").write_bytes(ids)
        (self.directory / "ids").write_bytes(array.array("H", list(ids)).tobytes())
        rate = 0.5
        self.peer("step", "models", "bytes", rate, "theirs")
        (self.directory / "ours").mkdir()
        changes = {"training.optimizer.type": "sgd", "training.optimizer.momentum": 0, "training.learning_rate": rate,
                   "training.lr_scheduler.type": "constant", "training.lr_scheduler.warmup_steps": 0,
                   "training.max_grad_norm": 0, "training.max_steps": 1, "data.train": "ids", "data.seq_length": len(ids) - 1,
                   "data.global_batch_size": 1, "model.dropout": 0, "model.attention.dropout": 0}
        for kind in sorted(os.listdir(self.directory / "models")):
            with self.subTest(kind=kind):
                self.take(f"models/{kind}", kind)
                self.longspan("train", f"{kind}/config.yaml", *(word for key, value in {
                    **changes, "run.output_dir": f"stepped-{kind}", "training.init_from.path": kind}.items()
                    for word in ("--set", f"{key}={value}")))
                self.give(run=f"stepped-{kind}", folder=f"ours/{kind}")
                before, theirs, ours = (read_safetensors(self.directory / folder / kind / "model.safetensors")
                                        for folder in ("models", "theirs", "ours"))
                self.assertEqual(theirs.keys(), ours.keys())
                for name, (_, _, data) in theirs.items():
                    was, expected, found = (array.array("f", x) for x in (before[name][2], data, ours[name][2]))
                    largest = max(abs(a - b) for a, b in zip(was, expected))
                    difference = max(abs(a - b) for a, b in zip(expected, found))
                    self.assertLess(difference, 1e-6 + 1e-4 * largest, name)


if __name__ == "__main__":
    jobs.main()
