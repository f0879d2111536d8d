#!/usr/bin/env python3
"""training.max_rollbacks: a diverged run rolls back and skips the data on which it diverged.

    tests/launch/skipped_data_test.py build/launch/longspan
"""

import errno
import json
import os
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout, until
from poisoned_model import BATCH, SEGMENT, poison, write_poisoned_llama, write_steep_llama

STEPS = 30
ALL = "LONGSPAN_ALL" in os.environ  # launch/test --all
FIRST_BAD, BAD = 10, 9  # batches with a non-finite loss for all weights
SKIPPED = {"9": 10}      # these batches and the one before them


class Rollback(jobs.TestCase):
    """A model whose loss on the letter Z is non-finite, and a text that contains some."""

    def setUp(self):
        super().setUp()
        write_poisoned_llama(self.directory / "llama")
        self.longspan("import", "llama", "--output-dir", "imported")
        poison(self.directory / "text.txt", self.directory / "bad.txt", FIRST_BAD, BAD)

    def settings(self, directory, layout=Layout(1, 1), **changes):
        return {"run.output_dir": directory, "run.num_threads": 1, "training.init_from.path": "imported", "data.train": "bad.txt",
                "data.global_batch_size": BATCH, "data.seq_length": SEGMENT, "training.max_steps": STEPS,
                "training.max_consecutive_skips": 3,
                "training.max_rollbacks": 3, "training.learning_rate": 1e-3, "checkpoint.save_interval": 4,
                "metrics.log_interval": 1, "metrics.log_timing": False, "precision.compute_dtype": "float64", **layout.settings(),
                **{key.replace("__", "."): value for key, value in changes.items()}}

    def begin(self, directory, layout=Layout(1, 1), **changes):
        return self.start("train", "imported/config.yaml", *jobs.flat(self.settings(directory, layout, **changes)),
                          ranks=layout.ranks)

    def run_to_end(self, directory, layout=Layout(1, 1), code=0, **changes):
        result = self.begin(directory, layout, **changes).wait()
        self.assertEqual(result.code, code, result.output + result.errors)
        return result

    def skipped(self, directory):
        return json.loads((self.directory / directory / "skipped_batches.json").read_text())

    def test_skips_diverging_batches_on_every_layout(self):
        self.run_to_end("one")
        one = self.run_at("one")
        self.assertEqual(self.skipped("one"), {"times": 3, "before": SKIPPED})
        log = one.log()
        for time, steps in (1, "9 to 12"), (2, "9 to 11"), (3, "9 to 11"):
            self.assertIn(f"(now 1); rolling back to step 8 (rollback {time} of 3, training.max_rollbacks), "
                          f"skipping the data of steps {steps}\n", log)
        self.assertIn("Skipping 10 batches before step 9, the first at token 64 of each stream in epoch 0: training "
                      "diverged on them\n", log)
        self.assertIn(f"Finished: {STEPS} steps, {STEPS * BATCH * SEGMENT} tokens, 0 skipped steps", log)
        found = one.metrics()
        self.assertEqual([line["step"] for line in found], list(range(1, STEPS + 1)))
        self.assertEqual([line.get("skipped_batches") for line in found], [None] * 8 + [10] * (STEPS - 8))
        for layout in Layout(2, 2), Layout(1, 1, 4):
            with self.subTest(layout=str(layout)):
                name = f"of-{layout.data}-{layout.context}"
                self.run_to_end(name, layout)
                self.assertEqual(self.skipped(name), self.skipped("one"))
                other = self.run_at(name).metrics()
                self.assertEqual([line["step"] for line in other], [line["step"] for line in found])
                for line, expected in zip(other, found):
                    self.assertEqual(line.get("skipped_batches"), expected.get("skipped_batches"))
                    for key in "loss", "grad_norm":
                        self.assertLess(abs(line[key] - expected[key]), 1e-9, line["step"])

    def test_equals_training_without_the_skipped_data(self):
        text = bytearray((self.directory / "bad.txt").read_bytes())
        stream, begin, length = len(text) // BATCH, 8 * SEGMENT, SKIPPED["9"] * SEGMENT
        # Step 8 still predicts the first token after its segment.
        for position in range(begin, len(text) - length, stream):
            text[position] = text[position + length]
        (self.directory / "bad.txt").write_bytes(text)
        self.run_to_end("bad")
        streams = [text[i * stream:(i + 1) * stream] for i in range(BATCH)]
        (self.directory / "cut.txt").write_bytes(b"".join(each[:begin] + each[begin + length:] for each in streams))
        self.run_to_end("cut", data__train="cut.txt", training__max_rollbacks=0)
        found = self.run_at("bad").metrics()
        for line in found:
            line.pop("skipped_batches", None)
        self.assertEqual(found, self.run_at("cut").metrics())

    def test_killed_run_resumes_exactly(self):
        self.run_to_end("whole")
        for number, words in enumerate(["time 1 of the 3", "time 3 of the 3", "step 14/"]):
            with self.subTest(words=words):
                name = f"killed-{number}"
                job = self.begin(name)
                self.assertTrue(until(lambda: job.ended() or words in job.output()))
                job.signal(signal.SIGKILL)
                job.wait()
                self.run_to_end(name)
                self.assertEqual(self.run_at(name).metrics_bytes(), self.run_at("whole").metrics_bytes())
                self.assertEqual(self.skipped(name), self.skipped("whole"))
                # On another layout than the diverged run.
                if number == 0:
                    self.run_to_end(name, Layout(2, 1), training__max_steps=STEPS + 4)
                    self.assertEqual(self.run_at(name).metrics()[-1]["skipped_batches"], 10)

    def test_stops_on_request_after_divergence(self):
        job = self.begin("run", training__max_steps=10 ** 6)
        self.assertTrue(until(lambda: job.ended() or "rolling back to step 8" in job.output()))
        job.signal(signal.SIGUSR1)
        self.assertEqual(job.wait().code, 75)
        self.run_to_end("run")
        self.assertEqual(self.run_at().metrics()[-1]["skipped_batches"], 10)

    def test_ends_after_max_rollbacks(self):
        result = self.run_to_end("run", Layout(2, 1), code=4, training__max_rollbacks=2)
        self.assert_one_sentence(result, "training diverged: 3 consecutive steps", "2 rollbacks so far, "
                                         "training.max_rollbacks is 2; run the same command to resume from ")
        self.assertEqual(self.skipped("run"), {"times": 2, "before": {"9": 7}})
        # Skipped batches and rollbacks persist when the run is resumed.
        self.run_to_end("run", code=4, training__max_rollbacks=2)
        self.assertEqual(self.skipped("run"), {"times": 2, "before": {"9": 7}})
        self.run_to_end("run")
        self.assertEqual(self.skipped("run"), {"times": 3, "before": SKIPPED})

    def test_rolls_back_to_start_without_checkpoint(self):
        self.run_to_end("run", checkpoint__save_interval=0)
        self.assertEqual(self.skipped("run")["times"], 3)
        self.assertEqual(self.run_at().metrics()[-1]["step"], STEPS)
        self.assertEqual(len(list(self.run_at().path.glob("metrics.jsonl.before-*"))), 3)
        # A new run in the same directory skips nothing.
        for entry in self.run_at().entries():
            os.rename(self.run_at().path / "checkpoints" / entry, self.directory / entry)
        result = self.run_to_end("run", checkpoint__resume_from="never", data__train="text.txt")
        self.assertIn("run/skipped_batches.json belongs to an earlier run; renamed to skipped_batches.json.before-", result.output)
        self.assertNotIn("skipped_batches", self.run_at().metrics()[-1])

    def test_error_names_command_to_resume(self):
        result = self.run_to_end("run", code=4, training__max_rollbacks=1, checkpoint__resume_from="never")
        self.assert_one_sentence(result, "1 rollback so far, training.max_rollbacks is 1; run the same command "
                                         "with checkpoint.resume_from: auto to resume from ")

    def test_rolls_back_to_initial_checkpoint(self):
        self.run_to_end("other", training__max_steps=8)
        self.run_to_end("run", training__max_steps=4)
        self.run_to_end("run", checkpoint__resume_from="other", checkpoint__save_interval=0)
        log = self.run_at().log()
        self.assertEqual(self.skipped("run"), {"times": 3, "before": SKIPPED})
        self.assertEqual(len(re.findall(r"Resumed from \S*other/checkpoints/step-000000008 at step 8\n", log)), 4)
        self.assertEqual(log.count("rolling back to step 8 "), 3)
        self.assertNotIn("at step 4\n", log)

    def test_skipped_batches_follow_checkpoint(self):
        self.run_to_end("run")
        self.run_to_end("next", checkpoint__resume_from="run", training__max_steps=STEPS + 4)
        self.assertEqual(self.skipped("next"), self.skipped("run"))
        self.assertIn("Skipping 10 batches; 3 rollbacks so far (", self.run_at("next").log())
        self.assertEqual(self.run_at("next").metrics()[-1]["skipped_batches"], 10)
        # A file that belongs to no step of its directory.
        (self.directory / "new").mkdir()
        os.rename(self.directory / "run/skipped_batches.json", self.directory / "new/skipped_batches.json")
        result = self.run_to_end("new", data__train="text.txt", training__max_steps=6)
        self.assertIn("new/skipped_batches.json belongs to an earlier run; renamed to skipped_batches.json.before-", result.output)
        self.assertNotIn("skipped_batches", self.run_at("new").metrics()[-1])

    def test_weights_with_infinite_gradients_are_not_saved(self):
        write_steep_llama(self.directory / "steep")
        self.longspan("import", "steep", "--output-dir", "ruined")
        changes = {"training__init_from__path": "ruined", "data__train": "text.txt", "precision__compute_dtype": "float32",
                   "training__max_consecutive_skips": 10, "training__max_rollbacks": 1}
        for time in 1, 2:
            result = self.run_to_end("run", code=4, **changes)
            self.assert_one_sentence(result, "training diverged: 10 consecutive steps had a non-finite loss or gradient",
                                     "1 rollback so far", "no checkpoint was saved")
            self.assertEqual(result.output.count("rolling back to step 0 (rollback 1 of 1"), 1, time)
            self.assertEqual(self.run_at().entries(), [])
            for line in self.run_at().metrics():
                self.assertIsInstance(line["loss"], float)
                self.assertIsNone(line["grad_norm"])

    def test_weights_with_infinite_gradients_are_not_saved_at_the_end(self):
        write_steep_llama(self.directory / "steep")
        self.longspan("import", "steep", "--output-dir", "ruined")
        changes = {"training__init_from__path": "ruined", "data__train": "text.txt", "precision__compute_dtype": "float32",
                   "training__max_rollbacks": 0, "training__max_consecutive_skips": 10}
        for name, layout, more in (("last", Layout(1, 1), {"training__max_steps": 4}),
                                   ("waiting", Layout(2, 1), {"training__max_steps": 5, "checkpoint__async_save": False}),
                                   ("validated", Layout(1, 1), {"training__max_steps": 4, "data__validation": "text.txt"})):
            with self.subTest(name=name):
                result = self.run_to_end(name, layout, code=4, **changes, **more)
                self.assert_one_sentence(result, "give a non-finite loss or gradient and are not saved")
                self.assertEqual(self.run_at(name).entries(), [])

    def test_disk_failure_during_rollback_loses_nothing(self):
        self.run_to_end("whole")
        def with_fault(name, call, error, layout=Layout(1, 1)):
            report = self.directory / f"{name}.told"
            file = self.directory / name / "skipped_batches.json.tmp"
            variables = {"LD_PRELOAD": Path(self.program).parents[1] / "tests" / "libfaulty_files.so",
                         "LONGSPAN_FAULTS_BELOW": file, "LONGSPAN_FAULTS_CALL": call, "LONGSPAN_FAULTS_ERROR": error,
                         "LONGSPAN_FAULTS_TELL": report}
            os.environ.update({key: str(value) for key, value in variables.items()})
            try:
                return self.begin(name, layout).wait(), report
            finally:
                for key in variables:
                    del os.environ[key]
        _, report = with_fault("counted", 0, 0)
        calls = int(report.read_text().split()[0])
        self.assertGreaterEqual(calls, 3 * 3)  # the file is opened, written and renamed, each time
        failed = 0
        # The calls of the first rollback and the last call, or all of them with --all.
        tried = range(1, calls + 1) if ALL else (*range(1, calls // 3 + 1), calls)
        for call in tried:
            error = (errno.ENOSPC, errno.EIO)[call % 2]
            with self.subTest(call=call, error=errno.errorcode[error]):
                name = f"faulty-{call}"
                result, _ = with_fault(name, call, error)
                self.assertIn(result.code, (0, 1), result.errors)
                if result.code == 1:
                    failed += 1
                    self.assert_one_sentence(result, "skipped_batches.json", os.strerror(error))
                    self.assertIn("cannot roll back: the skipped batches could not be recorded", result.output)
                    self.run_to_end(name)
                self.assertEqual(self.skipped(name), self.skipped("whole"))
                self.assertEqual(self.run_at(name).metrics_bytes(), self.run_at("whole").metrics_bytes())
                self.assertEqual(self.run_at(name).state(STEPS), self.run_at("whole").state(STEPS))
        self.assertGreaterEqual(failed, 3 * 3 if ALL else 3)

    def test_rejects_invalid_skipped_batches_file(self):
        self.run_to_end("run")
        path = self.directory / "run/skipped_batches.json"
        for text in ("", "{}", "[]", '{"times": 1}', '{"times": 0, "before": {}}', '{"times": 1, "before": {"0": 4}}',
                     '{"times": 1, "before": {"9": -1}}', '{"times": 1, "before": {"9": 1e3}}', '{"times": 1.5, "before": {}}',
                     '{"times": 1, "before": {"9x": 1}}', '{"times": 18446744073709551615, "before": {}}', "[" * 100000):
            with self.subTest(text=text[:40]):
                path.write_text(text)
                self.assert_one_sentence(self.run_to_end("run", code=3, training__max_steps=STEPS + 2),
                                         "run/skipped_batches.json: expected content like ")
        path.unlink()
        os.mkfifo(path)
        self.assert_one_sentence(self.run_to_end("run", Layout(2, 1), code=3, training__max_steps=STEPS + 2),
                                 "run/skipped_batches.json: expected a regular file")


if __name__ == "__main__":
    jobs.main()
