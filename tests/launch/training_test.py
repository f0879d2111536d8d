#!/usr/bin/env python3
"""Training with damaged or lost checkpoints, changed configurations and failing ranks; errors and metrics.

    tests/launch/training_test.py build/launch/longspan
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import DIVERGING, Layout, until


class DamagedCheckpoints(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.make_once(lambda: self.train("unbroken", settings={"training.max_steps": 12}))
        shutil.copytree(self.directory / "unbroken", self.directory / "run")
        self.run_ = self.run_at()

    def damage(self, *steps):
        for step in steps:
            jobs.damage(self.run_.checkpoint(step) / "rank-00000.h5")

    def resume(self, layout=Layout(1, 1), code=0, **more):
        settings = {"training.max_steps": 12, "checkpoint.keep_latest": 9}
        return self.train("run", layout, {**settings, **{f"checkpoint.{key}": value for key, value in more.items()}}, code)

    def test_rolls_back_to_newest_valid_one(self):
        self.damage(12)
        result = self.resume()
        self.assertRegex(result.output, r"step-000000012.*rank-00000\.h5")
        self.assertIn("Rolling back to step 8, the newest valid checkpoint", result.output)
        self.assertIn("Rolling back to step 8", self.run_.log())
        self.assertRegex(result.output, "Resumed from .*step-000000008 at step 8")
        unbroken = self.run_at("unbroken")
        self.assertEqual(self.run_.metrics_bytes(), unbroken.metrics_bytes())
        self.assertEqual(self.run_.state(12), unbroken.state(12))
        self.longspan("verify", self.run_.path)  # the damaged one was replaced

    def test_damaged_last_step_is_replaced(self):
        self.damage(12)
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                self.assertIn("Rolling back to step 8", self.resume(layout, save_interval=0).output)
                self.longspan("verify", self.run_.path)
                self.assertIn("at step 12", self.resume(layout, save_interval=0).output)
                self.damage(12)

    def test_rolls_back_further_on_several_ranks(self):
        self.damage(12)
        (self.run_.checkpoint(8) / "manifest.json").unlink()
        result = self.resume(Layout(2, 1))
        self.assertIn("Rolling back to step 4, the newest valid checkpoint", result.output)
        self.assertEqual(len(self.run_.metrics()), 12)

    def test_older_replaced_checkpoint_causes_no_rollback(self):
        aside = self.run_.path / "checkpoints" / "step-000000004.replaced-dead"
        self.run_.checkpoint(4).rename(aside)
        # Its lock cannot be acquired, so it is not restored.
        (self.run_.path / "checkpoints" / "step-000000004.lock-dead").mkdir()
        result = self.resume()
        self.assertIn("step-000000004.replaced-dead: was moved aside and could not be restored", result.output)
        self.assertNotIn("Rolling back", result.output)
        self.assertIn("at step 12\n", result.output)
        self.damage(12)
        self.assertIn("Rolling back to step 8, the newest valid checkpoint", self.resume().output)

    def test_fails_without_valid_one(self):
        self.damage(4, 8, 12)
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                result = self.resume(layout, code=3)
                self.assert_one_sentence(result, "no valid checkpoint", "step-000000012", "rank-00000.h5")
        self.assertEqual(self.run_.steps(), [4, 8, 12])
        self.assertEqual(self.run_.metrics_bytes(), self.run_at("unbroken").metrics_bytes())

    def test_rejects_named_damaged_one(self):
        self.damage(12)
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                result = self.resume(layout, code=3, resume_from=self.run_.checkpoint(12))
                self.assert_one_sentence(result, "step-000000012/rank-00000.h5")
        missing = self.resume(code=3, resume_from="nowhere/step-000000008")
        self.assert_one_sentence(missing, "nowhere/step-000000008")

    def test_rolls_back_past_file_of_another_step(self):
        shutil.copy(self.run_.checkpoint(8) / "rank-00000.h5", self.run_.checkpoint(12) / "rank-00000.h5")
        self.assertIn("Rolling back to step 8", self.resume().output)


class ConfigChanges(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.make_once(self.train)
        self.before = self.run_at().metrics_bytes()

    def refused(self, settings, *parts, layout=Layout(1, 1)):
        result = self.train("run", layout, settings, code=2)
        self.assert_one_sentence(result, *parts)
        # The run is unchanged.
        self.assertEqual(self.run_at().metrics_bytes(), self.before)
        self.assertEqual(self.run_at().steps(), [4, 8])
        self.assertNotIn("2.5e-05", (self.run_at().path / "config.yaml").read_text())

    def test_changed_keys_are_reported(self):
        result = self.train(settings={"training.max_steps": 10, "training.learning_rate": 0.003, "model.dropout": 0.2})
        for message in ("training.max_steps: checkpoint has 8, config has 10 (--set)",
                        "training.learning_rate: checkpoint has 0.01, config has 0.003 (--set)",
                        "model.dropout: checkpoint has 0.1, config has 0.2 (--set)"):
            self.assertIn(message, result.output)
        self.assertNotIn("model.hidden_size", result.output)
        self.assertTrue(self.run_at().metrics_bytes().startswith(self.before))
        self.assertEqual(len(self.run_at().metrics()), 10)

    def test_equal_config_gives_no_message(self):
        self.assertNotIn("differs", self.train(settings={"checkpoint.resume_from": "auto"}).output)

    def test_rejects_changed_model_keys(self):
        expected = "model.hidden_size: checkpoint has 16, config has 32"
        for layout in Layout(1, 1), Layout(2, 1):
            self.refused({"model.hidden_size": 32, "training.learning_rate": 2.5e-5}, expected,
                         "; set these keys as in the checkpoint, or start a new run in another run.output_dir", layout=layout)
        self.refused({"model.num_hidden_layers": 3}, "model.num_hidden_layers: checkpoint has 2, config has 3")
        self.refused({"model.num_attention_heads": 2}, "model.num_attention_heads: checkpoint has 4, config has 2")
        self.refused({"data.tokenizer.type": "char"}, "data.tokenizer.type")
        self.refused({"model.tie_word_embeddings": False, "model.num_hidden_layers": 1}, "model.tie_word_embeddings",
                     "model.num_hidden_layers")

    def test_rejects_changed_batch_size(self):
        for layout in Layout(1, 1), Layout(2, 1):
            self.refused({"data.global_batch_size": 4}, "data.global_batch_size: expected 8",
                         "found 4; set it to 8, or start a new run from its weights",
                         layout=layout)

    def test_rejects_new_run_in_used_directory(self):
        for layout in Layout(1, 1), Layout(2, 1):
            self.refused({"checkpoint.resume_from": "never"}, "checkpoint.resume_from is never", "step-000000008", layout=layout)
        self.train("fresh", settings={"checkpoint.resume_from": "never"})
        self.assertEqual(self.run_at("fresh").metrics_bytes(), self.before)

    def test_rejects_resume_from_older_step(self):
        older = {"checkpoint.resume_from": self.run_at().checkpoint(4)}
        for layout in Layout(1, 1), Layout(2, 1):
            self.refused(older, "checkpoint.resume_from is ", "step-000000008", layout=layout)
        self.train("fresh", settings=older)
        self.assertEqual(self.run_at("fresh").state(8), self.run_at().state(8))

    def test_changed_text_gives_warning(self):
        jobs.write_text(self.directory / "other.txt", seed=9)
        result = self.train(settings={"data.train": "other.txt", "training.max_steps": 9})
        self.assertIn("other.txt differs from the text that the checkpoint was trained on", result.output)

    def test_rejects_changed_alphabet(self):
        characters = {"data.tokenizer.type": "char"}
        self.train("characters", settings=characters)
        (self.directory / "other.txt").write_text("αβγ δε " * 500)
        result = self.train("characters", settings={**characters, "data.train": "other.txt"}, code=3)
        self.assert_one_sentence(result, "tokenizer", "data.train")

    def test_changed_precision_is_reported(self):
        result = self.start_training("run", settings={"precision.compute_dtype": "bfloat16", "training.max_steps": 9}).wait()
        self.assertEqual(result.code, 0, result.errors)
        self.assertIn("precision.compute_dtype: checkpoint has float32, config has bfloat16", result.output)
        self.assertEqual(len(self.run_at().metrics()), 9)


class LostCheckpoints(jobs.TestCase):
    """A run has metrics and no checkpoint."""

    def killed(self, every, at):
        job = self.start_training(settings={"training.max_steps": 1000000, "checkpoint.save_interval": every})
        until(lambda: job.ended() or f"step {at}/" in job.output())
        job.signal(signal.SIGKILL)
        job.wait()
        return self.run_at()

    def asides(self):
        return list(self.run_at().path.glob("metrics.jsonl.before-*"))

    def test_metrics_of_unsaved_run_are_renamed(self):
        run = self.killed(every=0, at=3)
        before = run.metrics_bytes()
        for number, layout in enumerate([Layout(1, 1), Layout(2, 1)], 1):
            with self.subTest(layout=str(layout)):
                result = self.train(layout=layout, settings={"checkpoint.save_interval": 1000000})
                self.assertRegex(result.output, r"warning: .*run/metrics\.jsonl ends at step \d+, which has no "
                                                r"checkpoint; renamed to metrics\.jsonl\.before-[0-9a-f]{16}")
                self.assertEqual(len(run.metrics()), 8)
                self.assertEqual(len(self.asides()), number)
                self.assertIn(before, [path.read_bytes() for path in self.asides()])
                shutil.rmtree(run.path / "checkpoints")
                before = run.metrics_bytes()

    def test_rejects_run_with_lost_checkpoints(self):
        self.train()
        run = self.run_at()
        before = run.metrics_bytes()
        configuration = (run.path / "config.yaml").read_bytes()
        shutil.move(run.path / "checkpoints", self.directory / "elsewhere")
        for layout in Layout(1, 1), Layout(2, 1):
            result = self.train(layout=layout, settings={"training.max_steps": 9}, code=3)
            self.assert_one_sentence(result, "run/metrics.jsonl ends at step 8, but run/checkpoints contains no checkpoint; "
                                             "restore it, choose another run.output_dir")
            self.assertEqual(run.metrics_bytes(), before)
            self.assertEqual((run.path / "config.yaml").read_bytes(), configuration)
            self.assertEqual(run.entries(), [])
        self.train(settings={"checkpoint.resume_from": "never"})
        self.assertEqual([path.read_bytes() for path in self.asides()], [before])


class ThreadCounts(jobs.TestCase):
    def test_different_counts_per_rank_are_reported(self):
        settings = jobs.flat({"run.num_threads": 0, **Layout(2, 1).settings()})
        script = 'OMP_NUM_THREADS=$((1 + OMPI_COMM_WORLD_RANK)) exec "$0" "$@"'
        job = jobs.Job("/bin/sh", ["-c", script, self.program, "train", "tiny.yaml", *settings], 2, self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 0, result.output + result.errors)
        self.assertRegex(result.output, r"with 2 threads per rank; measured matmul peak \d+ GFLOP/s\n")
        self.longspan("verify", self.run_at().path)
        again = self.train(layout=Layout(2, 1), settings={"training.max_steps": 9})
        self.assertIn(", 2 threads per rank and ZeRO 0 on cpu: results match up to rounding", again.output)


class ZeroStage(jobs.TestCase):
    def test_warns_without_replicas(self):
        expected = "parallel.zero_stage 1 has no effect: no two ranks hold the same weights"
        zero = {"parallel.zero_stage": 1, "training.max_steps": 2}
        self.assertIn(expected, self.train("one", settings=zero).output)
        self.assertNotIn(expected, self.train("two", Layout(2, 1), zero).output)


class ResolvedConfig(jobs.TestCase):
    def test_trains_equally(self):
        scaled = {"precision.compute_dtype": "float16", "precision.loss_scale.init_scale": 1024}
        for name, settings in {"single": {}, "scaled": scaled}.items():
            self.train(name, settings={**settings, "training.max_steps": 2})
            self.longspan("train", f"{name}/config.yaml", "--set", f"run.output_dir={name}-again")
            self.assertEqual(self.run_at(f"{name}-again").metrics_bytes(), self.run_at(name).metrics_bytes())


class RunLock(jobs.TestCase):
    def test_rejects_second_run_in_directory(self):
        endless = {"training.max_steps": 1000000, "checkpoint.save_interval": 0}
        first = self.start_training(settings=endless)
        until(lambda: first.ended() or "step 2/" in first.output())
        # Each waits some seconds for the end of the first one.
        others = [self.start_training(layout=layout, settings=endless) for layout in (Layout(1, 1), Layout(2, 1))]
        for second in [job.wait() for job in others]:
            self.assertEqual(second.code, 2, second.output + second.errors)
            self.assert_one_sentence(second, "is in use by another run")
        self.assertNotIn("in use", self.run_at().log())  # the log of the first run
        first.signal(signal.SIGUSR1)
        self.assertEqual(first.wait().code, 75)
        run = self.run_at()
        self.assertEqual([line["step"] for line in run.metrics()], list(range(1, run.steps()[-1] + 1)))


class OutputDirectory(jobs.TestCase):
    def test_rejects_unwritable_checkpoints_directory(self):
        self.run_at().path.mkdir(parents=True)
        (self.run_at().path / "checkpoints").write_text("")
        result = self.train(code=2)
        self.assert_one_sentence(result, 'run/checkpoints" cannot be created: ')


class OptimizerState(jobs.TestCase):
    def test_resume_rejects_state_of_another_optimizer(self):
        kinds = {"adamw": {}, "sgd": {"training.optimizer.type": "sgd", "training.optimizer.momentum": 0.9},
                 "plain": {"training.optimizer.type": "sgd", "training.optimizer.momentum": 0}}
        for saver in kinds:
            self.train(saver, settings={"training.max_steps": 2, **kinds[saver]})
            for other in kinds.keys() - {saver}:
                with self.subTest(saver=saver, other=other):
                    result = self.train(saver, settings={"training.max_steps": 3, **kinds[other]}, code=2)
                    self.assert_one_sentence(result, "step-000000002: expected the optimizer state of training.optimizer")
            self.train(saver, settings={"training.max_steps": 3, **kinds[saver]})


class SizeLimits(jobs.TestCase):
    def test_rejects_overflowing_sizes(self):
        for settings, found in (
                ({"model.hidden_size": 1 << 32}, "model.hidden_size"),
                ({"data.seq_length": 9223372036854775807}, "data.seq_length")):
            with self.subTest(settings=str(settings)):
                result = self.train(settings=settings, code=2)
                self.assert_one_sentence(result, found)


class FinalError(jobs.TestCase):
    """The error that ends a run appears once in its log and once on the console."""

    grace = None  # the other ranks have time for a second error

    def assert_final_error(self, directory, result, *parts, last=True):
        self.assert_one_sentence(result, *parts)
        message = result.errors.removeprefix("longspan: ").removesuffix("\n")
        log = self.run_at(directory).log()
        matching = [line for line in log.splitlines() if line.endswith(f" error {message}")]
        self.assertEqual(len(matching), 1, log)
        self.assertRegex(matching[0], r"^[0-9-]+ [0-9:.]+ error ")
        if last:
            self.assertTrue(log.endswith(f"{matching[0]}\n"), log)
        self.assertEqual(log.count(message), 1)
        self.assertNotIn(message, result.output)

    def test_divergence_is_logged(self):
        for layout in Layout(1, 1), Layout(2, 1):
            directory = f"run-{layout.ranks}"
            result = self.train(directory, layout, DIVERGING, code=4)
            self.assert_final_error(directory, result, "training diverged: ")

    def test_bad_data_creates_no_run(self):
        (self.directory / "held-out.txt").write_text("the lord said " * 50 + "µ")
        settings = {"data.tokenizer.type": "char", "data.validation": "held-out.txt"}
        for layout in Layout(1, 1), Layout(2, 1):
            directory = f"run-{layout.ranks}"
            result = self.train(directory, layout, settings, code=3)
            self.assert_one_sentence(result, "held-out.txt")
            self.assertFalse((self.directory / directory).exists())  # the run had not started

    def test_full_disk_is_logged(self):
        # Files of 16 KiB: enough for the configuration and a log, not for a checkpoint.
        job = jobs.Job("/bin/bash", ["-c", 'ulimit -f 16; exec "$0" train tiny.yaml', self.program],
                       directory=self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 1, result.output + result.errors)
        self.assert_final_error("run", result, "rank-00000.h5")

    def test_unresponsive_rank_is_logged(self):
        # Rank 0 writes the log until it is stopped.
        settings = {"training.max_steps": 1000000, "run.collective_timeout_seconds": 2}
        hanging = [self.start_training(f"hangs-{rank}", Layout(2, 1), settings) for rank in (0, 1)]
        for rank, job in enumerate(hanging):
            until(lambda: job.ended() or "step 2/" in job.output())
            job.signal_rank(signal.SIGSTOP, rank)
        for rank, job in enumerate(hanging):
            with self.subTest(rank=rank):
                result = job.wait()
                self.assertEqual(result.code, 5, result.output + result.errors)
                # Rank 0 may write another line when it is terminated.
                self.assert_final_error(f"hangs-{rank}", result, f"rank {rank} did not respond", last=rank != 0)

    def test_rejected_resume_is_logged(self):
        self.train()
        result = self.train(settings={"model.hidden_size": 32}, code=2)
        self.assert_final_error("run", result, "model.hidden_size")


class AsyncSave(jobs.TestCase):
    def test_checkpoints_equal_synchronous_ones(self):
        settings = {"training.max_steps": 6, "checkpoint.save_interval": 1, "checkpoint.keep_latest": 9}
        for layout in Layout(1, 1), Layout(2, 2):
            with self.subTest(layout=str(layout)):
                self.train("beside", layout, settings)
                self.train("waits", layout, {**settings, "checkpoint.async_save": "false"})
                background, waits = self.run_at("beside"), self.run_at("waits")
                for step in range(1, 7):
                    self.assertEqual(background.state(step), waits.state(step), step)
                    self.assertRegex(background.log(), rf"Saved .*step-{step:09} in [0-9.]+ s")
                    self.assertRegex(waits.log(), rf"Saved .*step-{step:09} in [0-9.]+ s\n")
                self.assertRegex(background.log(), r"Saved .* in [0-9.]+ s \(training blocked for [0-9.]+ s\)\n")
                self.assertEqual(background.metrics_bytes(), waits.metrics_bytes())
                shutil.rmtree(background.path)
                shutil.rmtree(waits.path)


class ReversibleReconstruction(jobs.TestCase):
    settings = {"model.residual.type": "reversible", "model.norm.position": "pre", "memory.reconstruction_check_interval": 2}

    def test_error_is_in_log_and_metrics(self):
        self.train(settings={**self.settings, "training.max_steps": 4})
        measured = [line.get("reconstruction_error") for line in self.run_at().metrics()]
        self.assertEqual([error is None for error in measured], [True, False, True, False])
        for step, error in (2, measured[1]), (4, measured[3]):
            self.assertGreater(error, 0)
            self.assertLess(error, 1e-5)
            self.assertIn(f"step {step}: reversible reconstruction error {error:.2e} (relative)",
                          self.run_at().log())

    def test_error_above_tolerance_ends_run(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                directory = f"run-{layout.ranks}"
                result = self.train(directory, layout, {**self.settings, "memory.reconstruction_tolerance": 1e-12}, code=4)
                error = self.run_at(directory).metrics()[-1]["reconstruction_error"]
                self.assert_one_sentence(result, f"step 2: reversible reconstruction error {error:.2e} exceeds ",
                                         "memory.reconstruction_tolerance = 1e-12",
                                         "resume from an earlier checkpoint with a smaller training.learning_rate")
                self.assertEqual(len(self.run_at(directory).metrics()), 2)
                self.assertEqual(self.run_at(directory).steps(), [])


class BusyMachine(jobs.TestCase):
    SETTINGS = {"run.num_threads": 2, "model.hidden_size": 64, "data.seq_length": 64, "training.max_steps": 12,
                "checkpoint.save_interval": 0}

    def seconds(self, name, **environment):
        began = time.monotonic()
        with mock.patch.dict(os.environ, environment):
            self.train(name, settings=self.SETTINGS)
        return time.monotonic() - began

    def test_spinning_does_not_slow_training(self):
        # Unbounded spinning is 10 to 30 times slower than none; noise is not.
        for _ in os.sched_getaffinity(0):
            for _ in range(2):
                hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                self.addCleanup(hog.wait)
                self.addCleanup(hog.kill)
        bounded, passive = [], []
        for number in range(3):
            bounded.append(self.seconds(f"bounded-{number}"))
            passive.append(self.seconds(f"passive-{number}", OMP_WAIT_POLICY="passive"))
        self.assertLess(min(bounded), 3 * min(passive))


class MetricsFile(jobs.TestCase):
    def test_lines_have_documented_keys(self):
        settings = {"metrics.log_timing": True, "data.validation": "text.txt", "training.validation.max_batches": 1,
                    "training.validation.interval": 4, "metrics.log_interval": 2}
        self.train(layout=Layout(2, 1), settings=settings)
        lines = self.run_at().metrics()
        self.assertEqual([line["step"] for line in lines], [2, 4, 6, 8])
        always = ["step", "tokens", "loss", "learning_rate", "grad_norm", "tokens_per_second", "peak_memory_bytes"]
        measured = ["validation_loss", "validation_bits_per_byte", "validation_fraction"]
        spent = ["step_seconds", "data_loading_seconds", "communication_wait_seconds", "checkpoint_seconds", "validation_seconds"]
        for line in lines:
            self.assertLessEqual(line.pop("mfu", 0), 1)  # none above the peak
            self.assertEqual(list(line), always + spent + (measured if line["step"] % 4 == 0 else []))
            self.assertEqual(line["tokens"], 64 * line["step"])
            self.assertGreater(line["tokens_per_second"], 0)
            self.assertGreater(line["peak_memory_bytes"], 0)

    def test_file_of_another_program_is_not_changed(self):
        for layout in Layout(1, 1), Layout(2, 1):
            path = self.directory / f"new-{layout.ranks}" / "metrics.jsonl"
            path.parent.mkdir()
            path.write_text("mine")
            result = self.train(path.parent.name, layout, code=3)
            self.assert_one_sentence(result, f"{path.parent.name}/metrics.jsonl:1")
            self.assertEqual(path.read_text(), "mine")
        self.train()
        (self.directory / "run" / "metrics.jsonl").write_text("mine\n")
        result = self.train(settings={"training.max_steps": 9}, code=3)
        self.assert_one_sentence(result, "run/metrics.jsonl:1")
        self.assertEqual((self.directory / "run" / "metrics.jsonl").read_text(), "mine\n")


if __name__ == "__main__":
    jobs.main()
