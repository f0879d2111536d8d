#!/usr/bin/env python3
"""LoRA adapters on the weights of another run: training, resuming, merging and export.

    tests/launch/adapters_test.py build/launch/longspan

The comparison with the package peft requires launch/setup --reference-implementations.
"""

import array
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
import import_encoders_test
from import_test import ImportTestCase, read_safetensors
from jobs import Layout
from package_tokenizer import tokenizer_json
from peers import PeersTestCase

ADAPTERS = {"training.init_from.path": "old", "training.lora.rank": 2, "training.lora.alpha": 3,
            "training.lora.dropout": 0.2, "training.lora.target_modules": "[layers]", "run.seed": 5}
# Enough steps to make the adapters nonzero.
SHORT = {"data.train": "text.txt", "training.max_steps": 8, "training.learning_rate": 0.1,
         "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1}


def own(state, *folders):
    """Returns {name: hashes} of the weights of a state, or of the tensors below these folders."""
    return {name: [piece["hash"] for piece in tensor["pieces"]] for name, tensor in state["tensors"].items()
            if name.startswith(folders or ("embedding", "layers", "final_norm", "output"))}


class Adapters(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.make_once(lambda: self.train("old"))

    def tune(self, directory, settings=None, layout=Layout(1, 1), code=0):
        return self.train(directory, layout, {**ADAPTERS, **(settings or {})}, code)

    def loss(self, run, *arguments):
        return json.loads(self.longspan("evaluate", run, "--data", "text.txt", "--json", *arguments).output)["loss"]

    def test_only_adapters_train_and_resume_exactly(self):
        result = self.tune("new")
        self.assertRegex(result.output, r"reinitialized: layers/0/attention/position/adapter/down, .* and \d+ more")
        self.assertRegex(result.output, r"\d+ trainable parameters, the rest are frozen")
        old, new = own(self.run_at("old").state(8)), self.run_at("new")
        after = own(new.state(8))
        for name, hashes in after.items():
            if "adapter" in name:
                self.assertNotEqual(hashes, own(new.state(4))[name], name)
            else:
                self.assertEqual(hashes, old[name], name)
        moments = own(new.state(8), "optimizer/")
        self.assertEqual(sorted(moments), sorted(f"optimizer/{kind}/{name}" for name in after if "adapter" in name
                                                 for kind in ("exp_avg", "exp_avg_sq")))
        self.assertLess(self.loss("new"), self.loss("old"))
        # Resumed from step 4 on the same layout and on another one.
        shutil.copytree(self.directory / "new", self.directory / "again")
        shutil.rmtree(self.run_at("again").checkpoint(8))
        self.tune("again")
        self.assertEqual(self.run_at("again").state(8), new.state(8))
        self.assertEqual(self.run_at("again").metrics_bytes(), new.metrics_bytes())
        layout = Layout(1, 2, sequence=True)
        shutil.copytree(self.directory / "new", self.directory / "elsewhere")
        shutil.rmtree(self.run_at("elsewhere").checkpoint(8))
        self.tune("elsewhere", {"parallel.zero_stage": 1}, layout)
        for theirs, ours in zip(self.run_at("elsewhere").metrics(), new.metrics()):
            self.assertAlmostEqual(theirs["loss"], ours["loss"], delta=1e-4)

    def test_new_run_loads_adapters(self):
        self.tune("new")
        self.tune("more", {"training.init_from.path": "new", "training.learning_rate": 0, "training.max_steps": 1,
                           "training.lr_scheduler.warmup_steps": 0,
                           "training.lora.dropout": 0})
        self.assertEqual(own(self.run_at("more").state(1)), own(self.run_at("new").state(8)))
        from_new = {"training.init_from.path": "new"}
        for settings, part in (({"training.lora.alpha": 4}, "training.lora.alpha: checkpoint has 3"),
                               ({"training.lora.rank": 3}, "adapter/down: expected shape [3, 16], found [2, 16] in "),
                               ({"training.lora.target_modules": "[attention]", "training.lora.alpha": 4},
                                "training.lora.alpha: checkpoint has 3")):
            with self.subTest(part):
                self.assert_one_sentence(self.tune("no", {**from_new, **settings}, code=2), part)
        self.assert_one_sentence(self.tune("new", {"training.lora.rank": 3}, code=2), "the model differs: training.lora.rank")

    def test_adapters_absent_from_new_run_are_merged(self):
        self.tune("new")
        still = {"training.init_from.path": "new", "training.learning_rate": 0, "training.max_steps": 1,
                 "training.lr_scheduler.warmup_steps": 0,
                 "training.lora.dropout": 0}
        none = {"training.lora.rank": "none", "training.lora.alpha": "none",
                "training.lora.target_modules": "[attention/query, attention/value]"}
        for name, settings, merged, layout in (("all", none, r"adapters merged into .* and \d+ more", Layout(1, 1)),
                                               ("split", none, "adapters merged", Layout(2, 2)),
                                               ("some", {"training.lora.target_modules": "[attention]"},
                                                "adapters merged into layers/0/feed_forward/in", Layout(1, 1))):
            with self.subTest(name):
                output = self.tune(name, {**still, **settings}, layout).output
                self.assertRegex(output, merged)
                self.assertNotIn("data position and step count, and", output)
                self.assertAlmostEqual(self.loss(name), self.loss("new"), delta=1e-5)
        self.assertGreater(abs(self.loss("old") - self.loss("new")), 1e-3)

    def test_warns_of_untrained_reinitialized_parameters(self):
        fresh = {"training.init_from.reinitialize": "[content_bias]"}
        warning = "Reinitialized parameters are not trained, because training.lora.modules_to_save does not contain them: content_bias"
        self.assertIn(warning, self.tune("told", fresh).output)
        self.assertNotIn("are not trained", self.tune("beside", {**fresh, "training.lora.modules_to_save": "[content_bias]"}).output)
        frozen = self.train("frozen", settings={"training.init_from.path": "old", "training.frozen_parameters": "[content_bias]", **fresh})
        self.assertIn("Reinitialized parameters are not trained, because training.frozen_parameters contains them: content_bias", frozen.output)

    def test_rejects_invalid_lora_settings(self):
        for settings, part in (({"training.lora.target_modules": "[attention/queery]"},
                                'training.lora.target_modules: no linear layer name contains "attention/queery" (choices: '
                                "layers/*/attention/position, layers/*/attention/query, layers/*/attention/key"),
                               ({"training.lora.rank": 17}, "training.lora.rank: expected at most "),
                               ({"training.lora.modules_to_save": "[layer]"}, "training.lora.modules_to_save: no parameter name contains"),
                               ({"training.lora.rank": "none", "training.frozen_parameters": "[nothing]"},
                                "training.frozen_parameters: no parameter"),
                               ({"training.lora.rank": 0}, "training.lora.rank: expected none or an integer, at least 1"),
                               ({"training.lora.dropout": 1}, "training.lora.dropout")):
            with self.subTest(part):
                self.assertIn(part, self.tune("no", settings, code=2).errors)
        text = self.longspan("config", "tiny.yaml", "--set", "training.lora.rank=2").errors
        self.assertIn("training.init_from.path is not set", text)
        text = self.longspan("config", "tiny.yaml", "--set", "training.lora.alpha=2").errors
        self.assertIn("training.lora.rank is not set", text)

    def test_frozen_parameters_keep_their_values(self):
        self.train("frozen", settings={"training.init_from.path": "old", "training.frozen_parameters": "[embedding, layers/0]"})
        old, new = own(self.run_at("old").state(8)), own(self.run_at("frozen").state(8))
        for name, hashes in new.items():
            stays = name.startswith(("embedding/", "layers/0/"))
            self.assertEqual(hashes == old[name], stays, name)

    def test_plan_counts_adapter_memory(self):
        def planned(settings):
            plan = self.longspan("plan", "tiny.yaml", "--ranks", 1, "--memory-per-rank", "8GB", *jobs.flat(settings)).output
            return {tag: jobs.bytes_of(plan, tag) for tag in ("weights", "gradients", "optimizer")}
        # Each of 12 linear layers of 16 x 16 or 16 x 64 has a low-rank pair, and each parameter two moments.
        all_weights = planned({})
        adapted = planned({**ADAPTERS, "training.init_from.path": ""})
        self.assertLess(adapted["gradients"], 0.35 * all_weights["gradients"])
        self.assertAlmostEqual(adapted["optimizer"], 2 * adapted["gradients"], delta=0.1 * adapted["optimizer"])
        self.assertAlmostEqual(adapted["weights"], all_weights["weights"] + adapted["gradients"], delta=0.1 * adapted["weights"])


class AdapterExport(ImportTestCase):
    """A GPT-2 that is imported, fine-tuned and exported."""

    def tune(self, **settings):
        (self.folder() / "tokenizer.json").write_text(tokenizer_json([]))  # byte-level
        self.take()
        every = {**ADAPTERS, **SHORT, "run.output_dir": "tuned", "training.init_from.path": "taken", **settings}
        self.longspan("train", "taken/config.yaml", *jobs.flat(every))

    def test_merged_export_has_same_loss(self):
        self.tune()
        self.give(run="tuned")
        self.take("given", "merged")
        text = b"in the end."
        self.assertAlmostEqual(self.loss(text, "merged"), self.loss(text, "tuned"), delta=1e-5)
        self.assertGreater(abs(self.loss(text, "merged") - self.loss(text, "taken")), 1e-2)

    def test_run_initialized_from_adapters_exports_same_bytes(self):
        self.tune()
        self.give(run="tuned")
        self.take("given", "merged")
        every = {**SHORT, "training.max_steps": 1, "training.learning_rate": 0, "run.output_dir": "started",
                 "training.init_from.path": "tuned"}
        self.longspan("train", "taken/config.yaml", *jobs.flat(every))
        self.give(run="started", folder="again")
        self.assertEqual(read_safetensors(self.directory / "again" / "model.safetensors"), self.given())

    def test_adapter_only_export_matches_merged_weights(self):
        # c_attn combines query, key and value; only query and value have adapters.
        self.tune(**{"training.lora.target_modules": "[attention/query, attention/value, layers/1/feed_forward/in]"})
        self.give(run="tuned")
        result = self.give("--adapter-only", "--base-model", "gpt2", run="tuned", folder="adapters", )
        self.assertEqual(result.output, "adapters: adapters for GPT-2, 2 layers, F32, step 8 of tuned\n")
        self.assertEqual(sorted(path.name for path in (self.directory / "adapters").iterdir()),
                         ["adapter_config.json", "adapter_model.safetensors"])
        config = json.loads((self.directory / "adapters" / "adapter_config.json").read_text())
        expected = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "gpt2", "r": 2, "lora_alpha": 3,
                    "lora_dropout": 0.2, "bias": "none", "fan_in_fan_out": True,
                    "target_modules": ["c_attn", "transformer.h.1.mlp.c_fc"],
                    "rank_pattern": {f"transformer.h.{i}.attn.c_attn": 4 for i in range(2)},
                    "alpha_pattern": {f"transformer.h.{i}.attn.c_attn": 6 for i in range(2)}}
        self.assertEqual({key: config[key] for key in expected}, expected)
        adapters = read_safetensors(self.directory / "adapters" / "adapter_model.safetensors")
        merged, added = self.given(), 0
        for name, (_, shape, before) in ((name, (0, merged[name][1], data)) for name, data in self.weights.items()):
            module = "base_model.model." + name.removesuffix(".weight")
            weight = array.array("f", before)
            if f"{module}.lora_A.weight" in adapters:
                (_, (rank, width), a), (_, (out, _), b) = (adapters[f"{module}.lora_{part}.weight"] for part in "AB")
                a, b = array.array("f", a), array.array("f", b)
                self.assertEqual([width, out], shape)  # GPT-2 stores [in, out]
                for i in range(width):
                    for o in range(out):
                        weight[i * out + o] += 1.5 * sum(b[o * rank + r] * a[r * width + i] for r in range(rank))
                added += 1
            for found, value in zip(array.array("f", merged[name][2]), weight):
                self.assertAlmostEqual(found, value, delta=1e-5, msg=name)
        self.assertEqual(added, 3)

    def test_adapter_only_rejects_full_modules_and_missing_adapters(self):
        self.tune(**{"training.lora.modules_to_save": "[final_norm]"})
        self.assert_one_sentence(self.give("--adapter-only", run="tuned", code=2), "cannot be combined with training.lora.modules_to_save: [final_norm]")
        self.assert_one_sentence(self.give("--adapter-only", run="taken", code=2), "has no adapters")
        self.give(run="tuned")


class EncoderAdapters(import_encoders_test.TestCase):
    """A BERT with new classes: training updates adapters and a reinitialized output layer."""

    KINDS = {"training.init_from.reinitialize": "[output/weight, output/bias]", "training.lora.modules_to_save": "[output]"}

    def setUp(self):
        super().setUp()
        self.folder()
        self.take()
        lines = [f"{kind}\t{word} {number}\n" for number in range(8) for kind, word in (("praise", "good"), ("blame", "bad"))]
        (self.directory / "kinds.tsv").write_text("".join(lines))
        (self.directory / "new.txt").write_text("good 3\nbad 5\ngood 1\n")

    def tune(self, settings, code=0):
        every = {**ADAPTERS, **SHORT, "data.train": "kinds.tsv", "run.output_dir": "kinds", "training.init_from.path": "taken",
                 "training.max_steps": 100, "training.learning_rate": 0.02, "training.lora.dropout": 0, "model.dropout": 0,
                 "model.attention.dropout": 0, **settings}
        return self.longspan("train", "taken/config.yaml", *jobs.flat(every), code=code)

    def test_trains_adapters_and_new_output_layer(self):
        result = self.tune(self.KINDS)
        self.assertNotIn("are not trained", result.output)
        self.assertLess(self.evaluate("kinds", "kinds.tsv"), 0.35)  # chance: ln 2 = 0.69
        self.longspan("generate", "kinds", "--input", "new.txt", "--output", "classes.txt")
        self.assertEqual((self.directory / "classes.txt").read_text(), "praise\nblame\npraise\n")
        self.give("kinds", "whole")
        given = self.given("whole")
        self.assertEqual(given["classifier.weight"][1], [2, import_encoders_test.WIDTH])
        self.take("whole", "merged")
        self.assertAlmostEqual(self.evaluate("merged", "kinds.tsv"), self.evaluate("kinds", "kinds.tsv"), delta=1e-5)
        refused = self.longspan("export", "kinds", "--output-dir", "alone", "--adapter-only", code=2)
        self.assert_one_sentence(refused, "cannot be combined with training.lora.modules_to_save: [output]")

    def test_requires_reinitialized_output_layer(self):
        result = self.tune({}, code=2)
        self.assertIn('(missing "blame"); reinitialize the output layer: set training.init_from.reinitialize to [output]', result.errors)


class Peers(PeersTestCase, ImportTestCase):
    """Comparison with the package peft."""

    def test_peft_loads_exported_adapters(self):
        self.need("peft")
        for kind, layers in ("gpt2", "[layers]"), ("qwen2", "[attention/query, attention/value]"):
            self.peer("make", "models", kind)
            (self.directory / "models" / kind / "tokenizer.json").write_text(tokenizer_json([]))
            self.take(f"models/{kind}", kind)
            every = {**ADAPTERS, **SHORT, "run.output_dir": f"{kind}-tuned", "training.init_from.path": kind,
                     "training.lora.target_modules": layers}
            self.longspan("train", f"{kind}/config.yaml", *jobs.flat(every))
            self.give("--adapter-only", run=f"{kind}-tuned", folder=f"{kind}-adapters")
            (self.directory / "ids").write_bytes(bytes(range(64)))
            theirs = json.loads(self.peer("adapted", f"models/{kind}", f"{kind}-adapters", "ids", 32))
            for run, loss in ((f"{kind}-tuned", theirs["adapted"]), (kind, theirs["before"])):
                result = self.longspan("evaluate", run, "--data", "ids", "--seq-length", 32, "--json")
                self.assertLess(abs(json.loads(result.output)["loss"] - loss), 1e-5)
            self.assertGreater(abs(theirs["adapted"] - theirs["before"]), 1e-2)


if __name__ == "__main__":
    jobs.main()
