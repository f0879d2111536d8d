#!/usr/bin/env python3
"""Files of an export next to the weights: tokenizer, special tokens, generation settings.

    tests/launch/export_test.py build/launch/longspan

The comparison with the package transformers requires launch/setup --reference-implementations.
"""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from peers import PeersTestCase

# Digits, capitals, accents, line ends and special tokens.
TEXT = "It's 12345 or 1984: Balo TIR\n\n  éclair, 漢字\t x\r\n<s> balo</s> tir <|endoftext|>ka [MASK]"
SIZES = {"family": "decoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "dropout": 0}
LLAMA = {**SIZES, "position_embedding_type": "rope", "norm": {"type": "rmsnorm"}, "mlp_bias": False, "activation": "swiglu",
         "attention": {"bias": []}}
MODELS = {"llama": LLAMA, "qwen2": {**LLAMA, "attention": {"bias": ["query", "key", "value"]}},
          "qwen3": {**LLAMA, "attention": {"bias": [], "qk_norm": True}}, "gpt2": {**SIZES, "position_embedding_type": "learned"}}


# Without it, transformers 5 uses the Qwen 2 tokenizer for all models of this type.
OWN_CODE = {"qwen2": {"auto_map": {"AutoTokenizer": [None, "tokenization_verbatim.VerbatimTokenizer"]}}}


class ExportTestCase(jobs.TestCase):
    def setUp(self):
        super().setUp()
        source = random.Random(1)
        syllables = "ba lo Tir men ka su é cl air ro".split()
        words = ["".join(source.choices(syllables, k=source.randint(1, 4))) for _ in range(60)] + ["It's", "12345", "1984", "x"]
        self.documents = [" ".join(source.choices(words, k=9)) for _ in range(300)]
        (self.directory / "book.txt").write_text("\n".join(self.documents) + "\n")

    def run_of(self, model, directory, code=0, **settings):
        """Trains one step on book.txt."""
        sections = {"run": {"output_dir": directory, "num_threads": 1}, "model": MODELS[model],
                    "data": {"train": "book.txt", "global_batch_size": 2, "seq_length": 8},
                    "training": {"max_steps": 1, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 0}},
                    "metrics": {"log_timing": False}}
        for key, value in settings.items():
            for name in reversed(key.split("__")):
                value = {name: value}
            sections = jobs.merged(sections, value)
        (self.directory / f"{directory}.yaml").write_text(json.dumps(sections))
        return self.longspan("train", f"{directory}.yaml", code=code)

    def export(self, run, *arguments, code=0):
        return self.longspan("export", run, "--output-dir", f"{run}-given", *arguments, code=code)

    def json(self, path):
        return json.loads((self.directory / path).read_text())

    def ids_of(self, path, text):
        """Returns the token ids of each line."""
        result = subprocess.run([self.program, "tokenizer", "encode", path], input=text.encode(), capture_output=True,
                                cwd=self.directory, timeout=jobs.MOST_SECONDS, check=True)
        return [[int(id) for id in line.split()] for line in result.stdout.decode().split("\n")][:-1]


PAIRS = {"data__tokenizer__type": "huggingface", "data__tokenizer__model_type": "bpe", "data__tokenizer__vocab_size": 300,
         "data__documents__sample_by": "line", "data__documents__end_token": "<|endoftext|>"}


class ExportCommand(ExportTestCase):
    def test_writes_special_tokens(self):
        for model in MODELS:
            with self.subTest(model=model):
                self.run_of(model, model, **PAIRS)
                self.export(model)
                config = self.json(f"{model}-given/config.json")
                self.assertEqual(config["model_type"], model)
                self.assertEqual((config["eos_token_id"], config["bos_token_id"]), (0, 0))
                generation = self.json(f"{model}-given/generation_config.json")
                self.assertEqual(generation, {"bos_token_id": 0, "eos_token_id": 0})
                special = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
                self.assertEqual(self.json(f"{model}-given/special_tokens_map.json"), special)
                found = self.json(f"{model}-given/tokenizer_config.json")
                # PreTrainedTokenizerFast reads tokenizer.json unchanged for every model type.
                self.assertEqual(found, {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8,
                                         "model_input_names": ["input_ids", "attention_mask"],
                                         "clean_up_tokenization_spaces": False, **special, **OWN_CODE.get(model, {})})
                self.assertEqual((self.directory / f"{model}-given" / "tokenization_verbatim.py").exists(), model in OWN_CODE)

    def test_tokenizer_json_matches_saved_tokenizer(self):
        for name, settings in KINDS.items():
            with self.subTest(kind=name):
                self.run_of("llama", name, **settings)
                self.export(name)
                ids = self.ids_of(f"{name}-given/tokenizer.json", TEXT_OF[name])
                self.assertEqual(ids, self.saved_ids(name, TEXT_OF[name]))
                # Every id has a row of the embedding.
                self.assertLess(max(map(max, filter(None, ids))), self.json(f"{name}-given/config.json")["vocab_size"])

    def saved_ids(self, run, text):
        """Returns the token ids of each line by the tokenizer of the checkpoint."""
        model = next(self.run_at(run).path.glob("tokenizer-*"), None)
        if model is not None:
            return self.ids_of(model, text)
        if run == "bytes":
            return [list(line.encode()) for line in text.split("\n")]
        letters = sorted(set((self.directory / "book.txt").read_text()))
        return [[letters.index(letter) for letter in line] for line in text.split("\n")]

    def test_keeps_cased_wordpiece_tokenizer(self):
        (self.directory / "labels.tsv").write_text("".join(f"{'ab'[i % 2]}\t{line}\n" for i, line in enumerate(self.documents)))
        self.longspan("tokenizer", "train", "book.txt", "--model-type", "wordpiece", "--cased", "--vocab-size", 260,
                      "--output", "cased.json",
                      *(f"--special-tokens={name}" for name in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map("[unused{}]".format, range(180))]))
        (self.directory / "kinds.yaml").write_text(json.dumps({
            "run": {"output_dir": "kinds", "num_threads": 1, "task": "classification"},
            "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2,
                      "norm": {"position": "post"}, "position_embedding_type": "learned", "max_position_embeddings": 64,
                      "layernorm_embedding": True, "type_vocab_size": 2, "add_pooling_layer": True,
                      "scale_embedding": False, "activation": "gelu", "dropout": 0.1},
            "data": {"train": "labels.tsv", "tokenizer": {"type": "huggingface", "model": "cased.json"},
                     "global_batch_tokens": 256, "max_length": 63, "overlong_examples": "truncate"},
            "training": {"max_steps": 1, "lr_scheduler": {"warmup_steps": 0}}}))
        self.longspan("train", "kinds.yaml")
        self.export("kinds")
        found = self.json("kinds-given/tokenizer_config.json")
        self.assertEqual(found["tokenizer_class"], "PreTrainedTokenizerFast")
        self.assertEqual(found["model_input_names"], ["input_ids", "token_type_ids", "attention_mask"])
        self.assertEqual([found[role] for role in ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")],
                         ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"])
        self.assertEqual((self.directory / "kinds-given" / "tokenizer.json").read_bytes(), (self.directory / "cased.json").read_bytes())

    def test_max_position_embeddings_follow_config(self):
        for name, settings, expected in (("plain", {}, 8), ("longest", {"model__max_position_embeddings": 64}, 64),
                                         ("yarn", {"model__rope__scaling": {"type": "yarn", "factor": 4,
                                                                            "original_max_position_embeddings": 16}}, 64)):
            with self.subTest(name):
                self.run_of("llama", name, **settings)
                self.export(name)
                self.assertEqual(self.json(f"{name}-given/config.json")["max_position_embeddings"], expected)
                self.assertEqual(self.json(f"{name}-given/tokenizer_config.json")["model_max_length"], expected)

    def test_writes_chat_template(self):
        template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        (self.directory / "chat.jinja").write_text(template)
        self.run_of("llama", "chat", **PAIRS)
        self.export("chat", "--chat-template", "chat.jinja")
        self.assertEqual((self.directory / "chat-given" / "chat_template.jinja").read_text(), template)
        self.assertEqual(self.json("chat-given/tokenizer_config.json")["chat_template"], template)

    def imported(self, **files):
        """Imports a model with these files next to its weights, as the run "taken"."""
        self.run_of("llama", "old", **PAIRS)
        self.export("old")
        (self.directory / "old-given").rename(self.directory / "theirs")
        for name in "tokenizer_config.json", "special_tokens_map.json", "generation_config.json":
            (self.directory / "theirs" / name).unlink()
        for name, text in files.items():
            (self.directory / "theirs" / name.replace("__", ".")).write_text(text)
        self.longspan("import", "theirs", "--output-dir", "taken")

    def test_keeps_files_of_imported_model(self):
        files = {"tokenizer_config__json": '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}',
                 "special_tokens_map__json": '{"eos_token": "<|endoftext|>"}', "chat_template__jinja": "{{ messages[0].content }}",
                 "generation_config__json": '{"eos_token_id": [0, 7], "temperature": 0.6}'}
        self.imported(**files)
        settings = {"data__tokenizer__type": PAIRS["data__tokenizer__type"], "training__init_from__path": "taken",
                    "model__vocab_size": 300, "model__intermediate_size": 48}
        self.run_of("llama", "tuned", **settings)
        # A resumed run keeps them.
        self.run_of("llama", "tuned", **settings, training__max_steps=2)
        for run in "taken", "tuned":
            self.export(run)
            for name, text in files.items():
                self.assertEqual((self.directory / f"{run}-given" / name.replace("__", ".")).read_text(), text, (run, name))
            self.assertEqual(self.json(f"{run}-given/config.json")["eos_token_id"], 0)
        self.assertEqual(self.json("tuned-given/config.json")["max_position_embeddings"], 8)

    def test_generation_stops_at_imported_eos_ids(self):
        for where, files in (("generation_config", {"generation_config__json": json.dumps({"eos_token_id": list(range(300))})}),
                             ("config", {})):
            with self.subTest(where):
                self.imported(**files)
                if where == "config":
                    config = {**self.json("theirs/config.json"), "eos_token_id": list(range(300))}
                    (self.directory / "theirs" / "config.json").write_text(json.dumps(config))
                self.longspan("import", "theirs", "--output-dir", where)
                self.assertEqual(self.longspan("generate", where, "--prompt", "balo", "--max-new-tokens", 50).output, "balo\n")
                shutil.rmtree(self.directory / "theirs")
                for run in "old", "taken":
                    shutil.rmtree(self.directory / run)

    def test_invalid_tokenizer_config_is_reported(self):
        self.imported()
        (self.directory / "theirs" / "tokenizer_config.json").write_text("[1]")
        result = self.longspan("import", "theirs", "--output-dir", "again")
        self.assertIn("tokenizer_config.json: not imported and not exported: expected a JSON object", result.errors)

    def test_adapter_config_names_base_model(self):
        self.imported()
        adapters = {"training__lora": {"rank": 2, "target_modules": ["query"]}}
        self.run_of("llama", "tuned", data__tokenizer__type="huggingface", training__init_from__path="taken", model__vocab_size=300,
                    model__intermediate_size=48, **adapters)
        self.assertNotIn("warning", self.export("tuned", "--adapter-only").errors)
        self.assertEqual(self.json("tuned-given/adapter_config.json")["base_model_name_or_path"], str(self.directory / "theirs"))
        self.run_of("llama", "own", **PAIRS, training__init_from__path="old", **adapters)
        result = self.export("own", "--adapter-only")
        self.assertIn("base_model_name_or_path is the run old, which peft cannot read; export it and pass its directory with ",
                      result.errors)


KINDS = {"bytes": {}, "characters": {"data__tokenizer__type": "char"},
         "unigram": {"data__tokenizer__type": "sentencepiece", "data__tokenizer__vocab_size": 300},
         "pieces": {"data__tokenizer__type": "sentencepiece", "data__tokenizer__model_type": "bpe", "data__tokenizer__vocab_size": 300},
         "pairs": PAIRS}
TEXT_OF = {name: "balo men x\n12345 éclair" if name == "characters" else TEXT.replace("<s>", "").replace("</s>", "") for name in KINDS}


class Peers(PeersTestCase, ExportTestCase):
    """AutoTokenizer of the package transformers on exported models."""

    peer_script = "auto_tokenizer.py"

    def test_auto_tokenizer_returns_same_ids(self):
        texts = {}
        for model in MODELS:
            for name, settings in KINDS.items() if model == "llama" else [("pairs", PAIRS)]:
                run = f"{model}-{name}"
                texts.setdefault(TEXT_OF[name], []).append(run)
                self.run_of(model, run, **settings)
                self.export(run)
        for text, runs in texts.items():
            (self.directory / "theirs.txt").write_bytes(text.encode())
            found = json.loads(self.peer("theirs.txt", *(f"{run}-given" for run in runs)))
            for run in runs:
                theirs = found[f"{run}-given"]
                with self.subTest(run=run):
                    self.assertEqual(theirs["ids"], self.ids_of(f"{run}-given/tokenizer.json", text))
                    self.assertEqual(theirs["text"], text.split("\n"))
                    self.assertLessEqual(theirs["size"], self.json(f"{run}-given/config.json")["vocab_size"])


if __name__ == "__main__":
    jobs.main()
