#!/usr/bin/env python3
"""Checkpoints: names in commands, inspection, runs without one, and hostile files.

    tests/launch/checkpoints_test.py build/launch/longspan
"""

import json
import re
import resource
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout
from manifest_text import edit


def replaced(pattern, value):
    def change(text):
        found = re.subn(pattern, lambda _: value, text, count=1)
        assert found[1] == 1, pattern
        return found[0]
    return change


class TrainedTestCase(jobs.TestCase):
    """`run` has trained for 8 steps, with checkpoints of steps 4 and 8."""

    def setUp(self):
        super().setUp()
        jobs.write_text(self.directory / "held-out.txt", words=300, seed=2)
        self.make_once(lambda: self.train("run", settings={"data.validation": "held-out.txt", "training.validation.interval": 3}))
        self.step = self.run_at().checkpoint(8)


class CheckpointNames(TrainedTestCase):
    def step_of(self, *arguments, ranks=1):
        return json.loads(self.longspan("evaluate", "run", "--json", *arguments, ranks=ranks).output)["step"]

    def test_evaluate_and_generate_accept_step_names(self):
        for name in "4", "step-000000004", "run/checkpoints/step-000000004":
            self.assertEqual(self.step_of("--checkpoint", name), 4)
            self.longspan("generate", "run", "--checkpoint", name, "--max-new-tokens", 3)
        self.assertEqual(self.step_of("--checkpoint", "4", ranks=2), 4)
        for ranks in 1, 2:
            result = self.longspan("evaluate", "run", "--checkpoint", "5", code=3, ranks=ranks)
            self.assert_one_sentence(result, "run/checkpoints: no checkpoint step-000000005; 2 steps are saved there, the newest "
                                             "is step-000000008")
        self.assertEqual(json.loads(self.longspan("evaluate", "run/checkpoints", "--json").output)["step"], 8)

    def test_resume_from_accepts_run_and_checkpoint_paths(self):
        for number, name in enumerate(("run", "run/checkpoints", "run/checkpoints/step-000000008")):
            for layout in Layout(1, 1), Layout(2, 1):
                settings = {"checkpoint.resume_from": name, "training.max_steps": 9}
                result = self.train(f"other-{number}-{layout.ranks}", layout, settings)
                self.assertIn("Resumed from run/checkpoints/step-000000008 at step 8", result.output)
        result = self.train("run", settings={"checkpoint.resume_from": 8, "training.max_steps": 9})
        self.assertIn("Resumed from run/checkpoints/step-000000008 at step 8", result.output)
        jobs.damage(self.step / "rank-00000.h5")
        shutil.rmtree(self.run_at().checkpoint(9))
        result = self.train("back", settings={"checkpoint.resume_from": "run", "training.max_steps": 9})
        self.assertIn("step-000000008", result.output)
        self.assertIn("Resumed from run/checkpoints/step-000000004 at step 4", result.output)

    def test_resume_from_rejects_run_without_checkpoint(self):
        (self.directory / "none" / "checkpoints").mkdir(parents=True)
        result = self.train("other", settings={"checkpoint.resume_from": "none"}, code=3)
        self.assert_one_sentence(result, "none/checkpoints: no checkpoint yet")


class InspectCommand(TrainedTestCase):
    def test_shows_save_time_and_losses(self):
        last = self.run_at().metrics()[-1]
        shutil.copytree(self.step, self.directory / "alone")
        for path in "run", "alone":
            text = self.longspan("inspect", path).output
            saved = re.search(r", step 8\n  saved at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\n", text)
            self.assertTrue(saved, text)
            self.assertLess(abs(time.time() - time.mktime(time.strptime(saved[1], "%Y-%m-%d %H:%M:%S")) + time.timezone), 300)
            self.assertIn(f"\n  loss {last['loss']:.4f} nats per token\n", text)
            self.assertIn(f"\n  validation loss {last['validation_loss']:.4f}, "
                          f"{last['validation_bits_per_byte']:.4f} bits per byte\n", text)
        text = self.longspan("inspect", "run/checkpoints/step-000000004").output
        self.assertRegex(text, r"\n  validation loss \d\.\d{4}, \d\.\d{4} bits per byte, at step 3\n")

    def test_shows_manifest_time_of_older_checkpoint(self):
        edit(self.step, replaced(rb'"saved_at": \d+,\n', b""))
        edit(self.step, lambda text: re.sub(rb'"metrics/[^"]*":(\{[^}]*\}|\d+),', b"", text))
        text = self.longspan("inspect", "run").output
        self.assertRegex(text, r", step 8\n  manifest modified at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n")
        self.assertNotIn("loss", text)
        self.longspan("verify", "run")
        self.train("run", settings={"training.max_steps": 9})  # it still resumes

    def test_validation_loss_persists_in_later_checkpoints(self):
        self.train("run", settings={"training.max_steps": 9, "training.validation.interval": 0})
        text = self.longspan("inspect", "run").output
        self.assertIn(", step 9\n  saved at ", text)
        self.assertIn(" bits per byte, at step 8\n", text)


class NoCheckpointYet(jobs.TestCase):
    def test_commands_report_it_during_and_after_training(self):
        settings = {"training.max_steps": 1000000, "training.lr_scheduler.total_steps": 50, "checkpoint.save_interval": 900000}
        job = self.start_training("run", settings=settings)
        run = self.run_at("run")
        self.assertTrue(jobs.until(lambda: job.ended() or ((run.path / "metrics.jsonl").exists() and run.metrics_bytes())))
        for command in ["inspect", "run"], ["inspect", "run/checkpoints"], ["verify", "run"], ["evaluate", "run"], \
                ["generate", "run"]:
            with self.subTest(command=command):
                result = self.longspan(*command, code=3)
                self.assert_one_sentence(result, "run: no checkpoint yet (run/config.yaml: transformer_xl)",
                                         "training now: last logged step ", " of 1000000",
                                         "first save after step 900000")
        job.signal(9)
        job.wait()
        result = self.longspan("evaluate", "run", code=3, ranks=2)
        self.assert_one_sentence(result, "run: no checkpoint yet (run/config.yaml: transformer_xl); not running",
                                 "run longspan train run/config.yaml")
        result = self.longspan("inspect", "run", code=3)
        self.assert_one_sentence(result, "no checkpoint yet", "not running")


class HostileCheckpoint(TrainedTestCase):
    """Every command that reads a checkpoint quickly rejects crafted files, with one error and exit code 3."""

    def commands(self):
        named = ["--set", "training.max_steps=9", "--set", "checkpoint.resume_from=run/checkpoints/step-000000008"]
        return {"verify": ["run/checkpoints/step-000000008"], "inspect": ["run/checkpoints/step-000000008"],
                "evaluate": ["run/checkpoints/step-000000008"], "generate": ["run/checkpoints/step-000000008"],
                "train": ["tiny.yaml", "--set", "run.output_dir=other", *named]}

    def assert_refused(self, *parts, but=(), most=10):
        commands = self.commands()
        for command, arguments in commands.items():
            if command in but:
                continue
            with self.subTest(command=command, parts=parts):
                begin = time.monotonic()
                result = self.longspan(command, *arguments, code=3)
                self.assertLess(time.monotonic() - begin, most)
                self.assertLess(len(result.errors), 2000)
                for part in parts:
                    self.assertIn(part, result.errors + result.output)

    def test_rejects_manifests_that_exhaust_stack_memory_or_time(self):
        whole = (self.step / "manifest.json").read_bytes()

        def restore():
            (self.step / "manifest.json").write_bytes(whole)
        edit(self.step, replaced(rb'"step": 8', b'"step": ' + b"[" * 1000000 + b"]" * 1000000))
        self.assert_refused("values nested more than 32 deep")
        restore()
        edit(self.step, replaced(rb'"step": 8', b'"step": ' + b"7" * 20000000))
        self.assert_refused("a number or literal exceeds 64 characters")
        with open(self.step / "manifest.json", "wb") as file:
            file.truncate(1 << 30)
        self.assert_refused("invalid JSON: byte 1 is 0x00")
        (self.step / "manifest.json").write_bytes(b" " * 50000000 + whole)
        self.assert_refused("bytes are whitespace")
        # Peak memory of the commands, below 1 GiB; ru_maxrss is in KiB.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 20)

    def test_rejects_file_larger_than_its_tensors(self):
        path = self.step / "rank-00000.h5"
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.truncate(40 << 30)
        edit(self.step, replaced(f'"bytes":{size}'.encode(), f'"bytes":{40 << 30}'.encode()))
        self.assert_refused("rank-00000.h5: expected at most ")

    def test_rejects_invalid_values(self):
        whole = (self.step / "manifest.json").read_bytes()
        for pattern, value, part in [
                (rb'"trainer/steps":8', b'"trainer/steps":-8', 'scalar "trainer/steps": expected an integer from 0 to 999999999, found -8'),
                (rb'"trainer/steps":8', b'"trainer/steps":9223372036854775807', 'expected an integer from 0 to 999999999, found 9223372036'),
                (rb'"trainer/steps":8', b'"trainer/steps":"8"', 'scalar "trainer/steps": expected an integer'),
                (rb'"trainer/steps":8', b'"trainer/steps":4', "trainer/steps: expected the step of the checkpoint, 8, found 4"),
                (rb'"optimizer/num_updates":8', b'"optimizer/num_updates":true', 'scalar "optimizer/num_updates": expected an integer'),
                (rb'"optimizer/num_updates":8', b'"optimizer/num_updates":-1', 'scalar "optimizer/num_updates": expected an integer from 0'),
                (rb'"data/tokenizer":"[^\n]*?[^\\]"', b'"data/tokenizer":""', "not a Longspan tokenizer"),
                (rb'"configuration": "[^\n]*"', b'"configuration": ""', "configuration: expected 1 to "),
                (rb'"configuration": "[^\n]*"', b'"configuration": "model: ["', "cannot read its config")]:
            edit(self.step, replaced(pattern, value))
            self.assert_refused(part, but=["inspect"])
            (self.step / "manifest.json").write_bytes(whole)
        # Without checkpoint.resume_from, train falls back to step 4.
        edit(self.step, replaced(rb'"trainer/steps":8', b'"trainer/steps":-8'))
        result = self.train("run", settings={"training.max_steps": 9})
        self.assertIn("Resumed from run/checkpoints/step-000000004 at step 4", result.output)

    def test_rejects_missing_manifest_and_damaged_config(self):
        (self.directory / "run" / "config.yaml").write_text("model: [\n")
        for command in "evaluate", "generate":
            for path in "run", "run/checkpoints/step-000000008":
                self.assert_one_sentence(self.longspan(command, path, code=3), "run/config.yaml:")
        shutil.copy(self.directory / "tiny.yaml", self.directory / "run" / "config.yaml")
        self.longspan("evaluate", "run", "--data", "held-out.txt", "--set", "data.batc=3", code=2)
        (self.step / "manifest.json").unlink()
        self.assert_refused("step-000000008/manifest.json: no such file")


if __name__ == "__main__":
    jobs.main()
