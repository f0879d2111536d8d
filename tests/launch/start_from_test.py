#!/usr/bin/env python3
"""training.init_from: new runs that load only the weights of another run.

    tests/launch/start_from_test.py build/launch/longspan
"""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

# One step that changes no weight, so it saves the initial weights.
STILL = {"training.learning_rate": 0, "training.max_steps": 1, "training.lr_scheduler.warmup_steps": 0}


class InitFrom(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.make_once(lambda: self.train("old"))
        self.old = self.run_at("old")

    def begin(self, directory, settings=None, layout=Layout(1, 1), code=0, start="old"):
        return self.train(directory, layout, {**STILL, "training.init_from.path": start, **(settings or {})}, code)

    def weights(self, run, step=1):
        return {name: tensor for name, tensor in run.state(step)["tensors"].items()
                if not name.startswith(("data/", "mems/", "optimizer/"))}

    def hashes(self, run, step=1):
        return {name: [piece["hash"] for piece in tensor["pieces"]] for name, tensor in self.weights(run, step).items()}

    def test_loads_only_weights(self):
        result = self.begin("new", {"data.global_batch_size": 4, "training.optimizer.type": "sgd", "run.seed": 5})
        self.assertIn("Initialized weights from old/checkpoints/step-000000008, step 8; not loaded: optimizer, recurrent state, "
                      "data position and step count\n", result.output)
        new = self.run_at("new")
        self.assertEqual(self.hashes(new), self.hashes(self.old, 8))
        scalars = new.state(1)["scalars"]
        self.assertEqual([scalars[name] for name in ("trainer/steps", "optimizer/num_updates", "trainer/tokens")], [1, 1, 32])
        self.assertEqual([line["step"] for line in new.metrics()], [1])

    def test_optimizer_state_is_not_loaded(self):
        for layout in Layout(1, 1), Layout(2, 1):
            name = f"new-{layout.ranks}"
            self.begin(name, {"training.learning_rate": 0.01}, layout)
            state = self.run_at(name).state(1)
            self.assertEqual(state["scalars"]["optimizer/num_updates"], 1)
            # A run with these weights and another optimizer history gives the same step and moments.
            self.begin(f"still-{layout.ranks}", layout=layout)
            still = f"still-{layout.ranks}"
            self.begin(f"again-{layout.ranks}", {"training.learning_rate": 0.01}, layout, start=still)
            self.assertEqual(self.run_at(f"again-{layout.ranks}").state(1)["tensors"], state["tensors"])

    def test_loads_on_any_layout(self):
        layouts = {"data": (Layout(2, 1), {"parallel.zero_stage": 2}), "tensor": (Layout(1, 2), {}), "all": (Layout(2, 2), {}),
                   "time": (Layout(1, 2, context=2, sequence=True), {"parallel.zero_stage": 1})}
        for name, (layout, more) in layouts.items():
            with self.subTest(layout=str(layout)):
                self.begin(name, more, layout)
                self.begin(f"{name}-back", start=name)
                self.assertEqual(self.hashes(self.run_at(f"{name}-back")), self.hashes(self.old, 8))

    def test_loads_named_step_or_newest_valid_one(self):
        self.begin("step", start=self.old.checkpoint(4))
        self.assertEqual(self.hashes(self.run_at("step")), self.hashes(self.old, 4))
        self.begin("folder", start="old/checkpoints")
        self.assertEqual(self.hashes(self.run_at("folder")), self.hashes(self.old, 8))
        jobs.damage(self.old.checkpoint(8) / "rank-00000.h5")
        for layout in Layout(1, 1), Layout(2, 1):
            result = self.begin(f"good-{layout.ranks}", layout=layout)
            self.assertRegex(result.output, r"warning: .*step-000000008.*rank-00000\.h5")
            self.assertIn("Initialized weights from old/checkpoints/step-000000004, step 4", result.output)
            named = self.begin(f"named-{layout.ranks}", layout=layout, start=self.old.checkpoint(8), code=3)
            self.assert_one_sentence(named, "step-000000008/rank-00000.h5")
        jobs.damage(self.old.checkpoint(4) / "rank-00000.h5")
        self.assert_one_sentence(self.begin("none", layout=Layout(2, 1), code=3), "no valid checkpoint")
        shutil.rmtree(self.old.path)
        for layout in Layout(1, 1), Layout(2, 1):
            result = self.begin(f"gone-{layout.ranks}", layout=layout, code=3)
            self.assert_one_sentence(result, "training.init_from.path: old: no such run or checkpoint")

    def test_run_resumes_from_its_own_checkpoint(self):
        self.begin("new")
        shutil.rmtree(self.old.path)  # no longer required
        result = self.begin("new", {"training.max_steps": 2, "training.learning_rate": 0.01})
        self.assertRegex(result.output, "Resumed from .*new/checkpoints/step-000000001 at step 1")
        self.assertIn("training.init_from.path is ignored: the run resumes from a checkpoint", result.output)
        self.assertEqual(self.run_at("new").steps(), [1, 2])

    def test_rejects_another_model(self):
        for settings, parts in (
                ({"model.hidden_size": 32}, ["model.hidden_size: checkpoint has 16, config has 32 (--set); set "
                                             "these keys as in the checkpoint"]),
                ({"model.num_attention_heads": 2}, ["model.num_attention_heads"]),
                ({"model.num_hidden_layers": 3}, ["old/checkpoints/step-000000008 has no layers/2/",
                                                  "training.init_from.reinitialize"]),
                ({"data.tokenizer.type": "char"}, ["data.tokenizer.type: expected byte as in "
                                                   "old/checkpoints/step-000000008, found char"]),
                ({"model.vocab_size": 300}, ["has 256 ids in 256 rows, this run 256 in 300; set "
                                             "training.init_from.resize_vocab to true"]),
                ({"training.init_from.reinitialize": "[outptu]"}, ['no parameter name starts with "outptu" (choices: '
                                                                   "embedding"])):
            for layout in Layout(1, 1), Layout(2, 1):
                with self.subTest(settings=str(settings), layout=str(layout)):
                    result = self.begin("new", settings, layout, code=2)
                    self.assert_one_sentence(result, "training.init_from.", *parts)
        self.assertEqual(self.run_at("new").entries(), [])
        other = json.loads((self.directory / "tiny.yaml").read_text())
        del other["model"]["mem_len"]
        other["model"]["family"] = "decoder"
        (self.directory / "tiny.yaml").write_text(json.dumps(other))
        self.assert_one_sentence(self.begin("new", code=2), "model.family: checkpoint has transformer_xl, config has decoder")

    def test_accepts_allowed_config_changes(self):
        changed = {"model.norm.eps": 1e-3, "training.init_from.allow_config_changes": "[model.norm, model.num_attention_heads]"}
        for layout in Layout(1, 1), Layout(1, 2):
            result = self.begin(f"changed-{layout.ranks}", changed, layout)
            self.assertIn("Changed intentionally (allow_config_changes): model.norm.eps: checkpoint has 1e-05, config has 0.001 (--set)",
                          result.output)
            self.assertIn('"model.num_attention_heads" matches no changed key that affects the weights of '
                          'old/checkpoints/step-000000008',
                          result.output)
        self.assertEqual(self.hashes(self.run_at("changed-1")), self.hashes(self.old, 8))
        self.assert_one_sentence(self.begin("new",
                                            {"model.norm.eps": 1e-3, "training.init_from.allow_config_changes": "[model.hidden_size]"},
                                            code=2), "model.norm.eps: checkpoint has")
        # Entries match sections, not prefixes of names.
        self.assert_one_sentence(self.begin("new", {"model.norm.eps": 1e-3, "training.init_from.allow_config_changes": "[model.no]"},
                                            code=2), "model.norm.eps: checkpoint has")
        # Shapes of tensors must still match.
        self.assert_one_sentence(self.begin("new", {"model.hidden_size": 32, "training.init_from.allow_config_changes": "[model]"}, code=2),
                                 "training.init_from.path")

    def test_reinitializes_named_parameters(self):
        untied = {"model.tie_word_embeddings": False, "training.init_from.reinitialize": "[output]"}
        for layout in Layout(1, 1), Layout(1, 2):
            name = f"untied-{layout.ranks}"
            result = self.begin(name, untied, layout)
            self.assertIn("; reinitialized: output/", result.output)
            self.assertEqual(self.weights(self.run_at(name))["output/weight"]["shape"], [256, 16])
            # A tied run initialized from it drops the output weight.
            back = self.begin(f"{name}-back", {"training.init_from.reinitialize": "[]"}, start=name)
            self.assertIn("data position and step count, and output/weight\n", back.output)
            found, expected = self.hashes(self.run_at(f"{name}-back")), self.hashes(self.old, 8)
            self.assertNotEqual(found.pop("output/bias"), expected.pop("output/bias"))  # reinitialized, too
            self.assertEqual(found, expected)

    def test_resizes_vocabulary_by_character(self):
        (self.directory / "few.txt").write_text("abd fgh iµ " * 400)
        (self.directory / "more.txt").write_text("abcdefghi µ€ " * 400)
        few = {"data.tokenizer.type": "char", "data.train": "few.txt"}
        more = {"data.tokenizer.type": "char", "data.train": "more.txt"}
        grow = {"training.init_from.resize_vocab": True}
        self.train("few", settings={**few, "training.max_steps": 4})
        for number, layout in enumerate([Layout(1, 1), Layout(2, 2)]):
            with self.subTest(layout=str(layout)):
                refused = self.begin(f"same-{number}", more, layout, start="few", code=2)
                self.assert_one_sentence(refused, "has 9 ids in 9 rows, this run 12 in 12 with other tokens; set "
                                                  "training.init_from.resize_vocab to true")
                result = self.begin(f"more-{number}", {**more, **grow}, layout, start="few")
                self.assertIn("vocabulary rows: 9 of 12 copied, 3 new, 0 of 9 in the checkpoint not used", result.output)
                back = self.begin(f"back-{number}", {**few, **grow}, start=f"more-{number}")
                self.assertIn("vocabulary rows: 9 of 9 copied, 0 new, 3 of 12 in the checkpoint not used", back.output)
                self.assertEqual(self.hashes(self.run_at(f"back-{number}")), self.hashes(self.run_at("few"), 4))

    def new_text(self):
        """Writes new.txt, a text of other words with characters of text.txt."""
        letters = sorted(set((self.directory / "text.txt").read_text()) - {"\n"})
        words = ["".join(letters[(i * j + i) % len(letters)] for j in range(5)) for i in range(1, 60)]
        (self.directory / "new.txt").write_text("".join(" ".join(words[i % 50:]) + "\n" for i in range(40)))

    def tokenizers(self, run):
        return [path.name for path in self.run_at(run).path.glob("tokenizer-*")]

    def test_uses_trained_tokenizer(self):
        self.new_text()
        kinds = {"pieces": {"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 285},
                 "pairs": {"data.tokenizer.type": "huggingface", "data.tokenizer.model_type": "bpe", "data.tokenizer.vocab_size": 285}}
        for kind, settings in kinds.items():
            self.train(kind, settings={**settings, "training.max_steps": 4})
            expected = self.run_at(kind).state(4)["scalars"]["data/tokenizer"]
            new = {"data.train": "new.txt"}
            # With all keys of the tokenizer, with its type only, and without keys.
            for number, given in enumerate((settings, {"data.tokenizer.type": settings["data.tokenizer.type"]}, {})):
                for layout in ((Layout(1, 1), Layout(2, 1)), (Layout(1, 1),), (Layout(2, 1),))[number]:
                    name = f"{kind}-{number}-{layout.ranks}"
                    with self.subTest(run=name):
                        result = self.begin(name, {**new, **given}, layout, start=kind)
                        self.assertIn(f"Using the tokenizer of {kind}/checkpoints/step-000000004", result.output)
                        warned = "data.tokenizer.vocab_size is ignored: training.init_from.path provides the tokenizer"
                        self.assertEqual(warned in result.output,
                                         "data.tokenizer.vocab_size" in given)
                        self.assertEqual(self.tokenizers(name), [])
                        self.assertEqual(self.run_at(name).state(1)["scalars"]["data/tokenizer"], expected)
                        self.assertEqual(self.hashes(self.run_at(name)), self.hashes(self.run_at(kind), 4))
                        # A resumed run uses it, too.
                        self.begin(name, {**new, **given, "training.max_steps": 2}, layout, start=kind)
                        self.assertEqual(self.run_at(name).state(2)["scalars"]["data/tokenizer"], expected)
            # A requested tokenizer is trained.
            self.begin(f"{kind}-grown", {**new, **settings, "data.tokenizer.vocab_size": 282,
                                         "training.init_from.resize_vocab": True}, start=kind)
            self.assertEqual(len(self.tokenizers(f"{kind}-grown")), 1)
            self.begin(f"{kind}-anew", {**new, **settings, "data.tokenizer.vocab_size": 282,
                                        "training.init_from.reinitialize": "[embedding, output]"}, start=kind)
            self.assertEqual(len(self.tokenizers(f"{kind}-anew")), 1)
            # A plan uses its vocabulary. The free memory may differ.
            plans = [[line for line in self.longspan("plan", "tiny.yaml", *jobs.flat({**new, **given})).output.splitlines()
                      if " GB" not in line] for given in ({"training.init_from.path": kind}, settings)]
            self.assertGreater(len(plans[0]), 5)
            self.assertEqual(plans[0], plans[1])
        other = {"data.tokenizer.model": next(self.run_at("pieces-grown").path.glob("tokenizer-*")), "data.tokenizer.type": "sentencepiece"}
        self.assert_one_sentence(self.begin("named", {"data.train": "new.txt", **other}, start="pieces", code=2),
                                 "or omit data.tokenizer.model to use the tokenizer of the checkpoint")

    def test_uses_characters_of_checkpoint(self):
        self.new_text()
        self.train("letters", settings={"data.tokenizer.type": "char", "training.max_steps": 4})
        (self.directory / "few.txt").write_text((self.directory / "new.txt").read_text().replace("e", ""))
        for layout in Layout(1, 1), Layout(2, 1):
            name = f"few-{layout.ranks}"
            self.begin(name, {"data.tokenizer.type": "char", "data.train": "few.txt"}, layout, start="letters")
            self.assertEqual(self.hashes(self.run_at(name)), self.hashes(self.run_at("letters"), 4))

    def test_uses_tokenizer_without_its_file(self):
        self.new_text()
        self.train("pieces", settings={"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 285, "training.max_steps": 4})
        next(self.run_at("pieces").path.glob("tokenizer-*")).rename(self.directory / "some.model")
        named = {"data.tokenizer.type": "sentencepiece", "data.tokenizer.model": "some.model", "data.train": "new.txt"}
        self.begin("there", named, start="pieces")
        (self.directory / "some.model").unlink()
        result = self.begin("gone", named, Layout(2, 1), start="pieces")
        self.assertIn("step-000000004; data.tokenizer.model some.model not found\n", result.output)
        self.begin("there", {**named, "training.max_steps": 2}, start="pieces")

    def test_run_resumes_on_another_text_with_its_tokenizer(self):
        self.new_text()
        settings = {"data.tokenizer.type": "sentencepiece", "data.tokenizer.vocab_size": 285}
        self.train("pieces", settings={**settings, "training.max_steps": 4})
        result = self.train("pieces", settings={**settings, "data.train": "new.txt", "training.max_steps": 5})
        self.assertIn("new.txt differs from the text that the checkpoint was trained on", result.output)
        self.assertEqual(len(self.tokenizers("pieces")), 1)

    def test_warns_of_unused_keys(self):
        result = self.train("plain", settings={**STILL, "training.init_from.reinitialize": "[output]",
                                               "training.init_from.allow_config_changes": "[model]",
                                               "training.init_from.resize_vocab": True})
        for key in "resize_vocab", "reinitialize", "allow_config_changes":
            self.assertIn(f"training.init_from.{key} is ignored: training.init_from.path is not set", result.output)


if __name__ == "__main__":
    jobs.main()
