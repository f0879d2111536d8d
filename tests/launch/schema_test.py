#!/usr/bin/env python3
"""`config --schema`, the JSON Schema of configurations, and `config --template`.

    tests/launch/schema_test.py build/launch/longspan
"""

import copy
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import system_python

system_python.needs("jsonschema", "yaml")
import jsonschema
import yaml

import images_test
import jobs
from jobs import SOURCE


class Loader(yaml.SafeLoader):
    """Reads 1e-05 as a number, as in YAML 1.2; the package implements YAML 1.1."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789"))


def read(text):
    return yaml.load(text, Loader)


class WithSchema(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.schema = json.loads(self.longspan("config", "--schema").output)
        self.validator = jsonschema.Draft202012Validator(self.schema)


class ConfigSchema(WithSchema):
    def errors(self, configuration):
        return [error.message for error in self.validator.iter_errors(configuration)]

    def test_is_a_valid_json_schema(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.assertEqual(self.schema["$schema"], "https://json-schema.org/draft/2020-12/schema")

    def test_accepts_every_config_file(self):
        files = sorted((SOURCE / "configs").glob("*.yaml"))
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file=file.name):
                self.assertEqual(self.errors(read(file.read_text())), [])

    def test_accepts_resolved_configs(self):
        """Resolved configurations contain every key with its value."""
        for file in "quickstart", "llama-small", "reformer-64k", "translation", "tagging-punctuation", "image-classification-fashion-mnist", \
                "image-generation-fashion-mnist", "universal-kjv":
            with self.subTest(file=file):
                resolved = read(self.longspan("config", SOURCE / f"configs/{file}.yaml").output)
                self.assertEqual(self.errors(resolved), [])

    def test_has_types_bounds_choices_defaults_and_descriptions(self):
        sections = self.schema["properties"]
        steps = sections["training"]["properties"]["max_steps"]
        self.assertEqual((steps["type"], "minimum" in steps, bool(steps["description"])), ("integer", True, True))
        self.assertIsInstance(steps["default"], int)
        schedule = sections["training"]["properties"]["lr_scheduler"]["properties"]["type"]
        self.assertIn("warmup_stable_decay", schedule["enum"])
        self.assertEqual(sections["precision"]["properties"]["compute_dtype"]["enum"].count("bfloat16"), 1)
        self.assertIn({"const": "none"}, sections["parallel"]["properties"]["data_parallel_size"]["anyOf"])
        self.assertEqual(sections["data"]["required"], ["train"])
        self.assertEqual(sections["model"]["properties"]["family"]["enum"], list(self.schema["$defs"]))
        self.assertIn("mem_len", self.schema["$defs"]["transformer_xl"]["properties"])
        self.assertNotIn("mem_len", self.schema["$defs"]["decoder"]["properties"])

    def test_rejects_invalid_configs(self):
        good = {"run": {"output_dir": "run"}, "model": {"family": "decoder", "num_hidden_layers": 2}, "data": {"train": "text.txt"}}
        self.assertEqual(self.errors(good), [])
        for section, key, value in [
                ("data", "tain", "text.txt"), ("model", "mem_len", 8), ("model", "layer", 2), ("runs", "output_dir", "a"),
                ("model", "num_hidden_layers", "two"), ("model", "num_hidden_layers", 0), ("model", "num_hidden_layers", 2.5),
                ("model", "family", "xl"), ("training", "max_steps", [1]), ("training", "learning_rate", "fast"),
                ("precision", "compute_dtype", "float8"), ("data", "train", ""), ("data", "train", []),
                ("data", "train", [{"path": "a", "wait": 2}]), ("data", "tokenizer", {"allow_unk": "perhaps"}),
                ("data", "tokenizer", {"kind": "byte"}), ("model", "use_parallel_residual", "parallel"),
                ("model", "attention", {"layer_types": {"sliding_window": 1}}), ("model", "attention", {"layer_types": []}),
        ]:
            with self.subTest(key=f"{section}.{key}", value=value):
                invalid = copy.deepcopy(good)
                invalid.setdefault(section, {})[key] = value
                self.assertNotEqual(self.errors(invalid), [])
        for section in "run", "model", "data":
            self.assertNotEqual(self.errors({key: value for key, value in good.items() if key != section}), [])

    def test_expresses_rules_between_keys(self):
        """Each rule of the table, as the program checks it: a given value, a default, an exclusion, a key of a family."""
        rules = [
            ({"precision": {"loss_scale": {"init_scale": 1024}}}, {"precision": {"compute_dtype": "float16", "loss_scale": {"init_scale": 1024}}}),
            ({"parallel": {"sequence_parallel": True}}, {"parallel": {"sequence_parallel": True, "tensor_parallel_size": 2}}),
            ({"data": {"train": "a", "format": "images"}}, {"data": {"train": "a", "format": "images"}, "run": {"task": "classification"}}),
            ({"model": {"residual": {"type": "reversible"}, "norm": {"position": "post"}}},
             {"model": {"residual": {"type": "reversible"}, "norm": {"position": "pre"}}}),
            ({"model": {"residual": {"gate": {"type": "input"}}}},
             {"model": {"residual": {"type": "gated", "gate": {"type": "input"}}, "norm": {"position": "pre"}}}),
            ({"memory": {"reconstruction_check_interval": 2}},
             {"memory": {"reconstruction_check_interval": 2}, "model": {"residual": {"type": "reversible"}, "norm": {"position": "pre"}}}),
            ({"training": {"optimizer": {"type": "schedule_free_adamw"}, "lr_scheduler": {"type": "linear"}}},
             {"training": {"optimizer": {"type": "schedule_free_adamw"}, "lr_scheduler": {"type": "constant"}}}),
            ({"model": {"family": "encoder_decoder", "guided_attention": {"type": "alignment"}}, "run": {"task": "translation"}},
             {"model": {"family": "encoder_decoder", "guided_attention": {"type": "alignment"}}, "run": {"task": "translation"},
              "data": {"train": "a", "train_target": "b", "train_alignments": "c"}}),
            ({"training": {"label_smoothing": 0.1}, "run": {"task": "tagging"}, "model": {"family": "encoder"}},
             {"training": {"label_smoothing": 0.1}}),
        ]

        def joined(good, more):
            return {section: {**good.get(section, {}), **more.get(section, {})} for section in (*good, *more)}

        good = {"run": {"output_dir": "run"}, "model": {"family": "decoder"}, "data": {"train": "a"}}
        for invalid, valid in rules:
            with self.subTest(invalid=invalid):
                self.assertNotEqual(self.errors(joined(good, invalid)), [])
                self.assertEqual(self.errors(joined(good, valid)), [])
                (self.directory / "rule.yaml").write_text(yaml.safe_dump(joined(good, invalid)))
                self.assertRegex(self.longspan("config", "rule.yaml", code=2).errors, "requires|cannot be combined with")

    def test_accepts_alternative_notations(self):
        for section, key, value in [
                ("data", "train", ["a.txt", "b.txt"]), ("data", "train", [{"path": "a", "weight": 2}]),
                ("model", "attention", {"layer_types": "sliding_window"}),
                ("model", "attention", {"layer_types": ["sliding_window", "full"]}), ("model", "use_parallel_residual", True),
                ("parallel", "data_parallel_size", "none"), ("run", "output_dir", 7),
        ]:
            with self.subTest(key=f"{section}.{key}", value=value):
                other = {"run": {"output_dir": "run"}, "model": {"family": "decoder"}, "data": {"train": "text.txt"}}
                other.setdefault(section, {})[key] = value
                self.assertEqual(self.errors(other), [])
        self.assertEqual(self.errors({"run": {"output_dir": "run"}, "model": {"family": "decoder"}, "data": {"train": "a"},
                                      "training": None}), [])


class ConfigTemplate(WithSchema):
    def data_of(self, task):
        """Returns settings that name data of the task."""
        if task == "image_generation":
            (self.directory / "images.idx").write_bytes(images_test.idx(images_test.drawn(9, 1)[0]))
            return {"data.train": "images.idx"}
        if task == "tagging":
            (self.directory / "tags.txt").write_text("".join(f"the\tdeterminer\nnumber\tnoun\n{i}\tdigits\n\n" for i in range(60)))
            return {"data.train": "tags.txt"}
        if task == "translation":
            (self.directory / "lines.txt").write_text("".join(f"the number {i}\n" for i in range(60)))
            return {"data.train": "lines.txt", "data.train_target": "lines.txt"}
        return {"data.train": "text.txt"}

    def test_template_of_each_family_trains_with_data(self):
        families = list(self.schema["$defs"])
        self.assertGreaterEqual(len(families), 6)
        for family in families:
            with self.subTest(family=family):
                text = self.longspan("config", "--template", family).output
                self.assertTrue(text.startswith(f"# {family}: "), text)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)
                (self.directory / "new.yaml").write_text(text)
                unset = self.longspan("config", "new.yaml", code=2)
                self.assertIn("data.train: missing required key", unset.errors)
                written = read(text)
                data = jobs.flat(self.data_of(written["run"].get("task", "language_modeling")))
                result = self.longspan("config", "new.yaml", *data)
                self.assertEqual(result.errors, "")
                self.longspan("train", "new.yaml", *data, "--set", "training.max_steps=2", "--set", f"run.output_dir={family}",
                              "--set", "metrics.log_interval=1", "--set", "run.num_threads=1")
                self.assertEqual([line["step"] for line in self.run_at(family).metrics()], [1, 2])
                # The only error is a key that the user must set.
                invalid = [error.message for error in self.validator.iter_errors(written)]
                self.assertLessEqual(len(invalid), 1, invalid)

    def test_each_key_has_a_description(self):
        lines = self.longspan("config", "--template", "decoder").output.splitlines()
        keys = [i for i, line in enumerate(lines) if re.match(r" +\w+: ", line)]
        self.assertGreater(len(keys), 10)
        for i in keys:
            self.assertRegex(lines[i - 1], "^ +# ", lines[i])

    def test_rejects_incompatible_arguments(self):
        for arguments, part in [
                (["--template", "decodr"], "--template"),
                (["--template", "decoder", "tiny.yaml"], " cannot be combined with CONFIG"),
                (["--schema", "--reference"], "--schema cannot be combined with CONFIG"),
                (["--schema", "--set", "run.seed=1"], "--schema cannot be combined with CONFIG"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_one_sentence(self.longspan("config", *arguments, code=2), part)


if __name__ == "__main__":
    jobs.main()
