#!/usr/bin/env python3
"""`longspan plan`: calibration and error of step times, and memory of tasks.

    tests/launch/planning_test.py build/launch/longspan
"""

import json
import os
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs


class PlanCommand(jobs.TestCase):
    trial = r"in the calibration steps, predicted time was (\S+)(?: to (\S+))? of measured time"
    hint = "times require a calibration; run longspan plan --calibrate once"

    def plan(self, *arguments):
        return self.longspan("plan", "tiny.yaml", *arguments).output

    def test_suggests_calibration_without_machine_profile(self):
        output = self.plan()
        self.assertIn(self.hint, output)
        self.assertNotIn("step time: ", output)
        self.assertIn("times require --flops-per-rank", self.plan("--memory-per-rank", "1GB"))
        self.assertNotIn(self.hint, self.plan("--device", "h100"))

    def test_calibration_uses_all_cores_and_reports_error(self):
        """Calibration ignores OMP_NUM_THREADS, which is 1 here."""
        output = self.longspan("plan", "tiny.yaml", "--set", "run.num_threads=0", "--calibrate").output
        measured, planned = output.split("\n", 1)
        self.assertRegex(measured, self.trial)
        self.assertIn("1 thread per rank (OMP_NUM_THREADS)", planned)
        table = json.loads((self.directory / "runs" / "machine-profile.json").read_text())
        cores = len(os.sched_getaffinity(0))
        self.assertEqual((table["ranks"], table["threads"]), (1, cores))
        self.assertLess(0, table["least_trial"])
        self.assertLessEqual(table["least_trial"], table["most_trial"])
        output = self.plan()
        self.assertNotIn(self.hint, output)
        self.assertRegex(output, r"step time: .* tokens per second\n" + self.trial)

    def test_partial_machine_profile_is_reported(self):
        (self.directory / "machine.json").write_text(json.dumps(
            {"name": "this machine", "memory": 1e9, "flops": 1e9, "bf16_flops": 1e9, "f16_flops": 1e9,
             "memory_bandwidth": 1e9, "bandwidth": 0, "ranks": 1, "threads": 1}))
        output = self.plan("--machine-profile", "machine.json", "--ranks", "2", "--set", "parallel.data_parallel_size=2")
        self.assertIn("step time: ", output)
        self.assertNotRegex(output, self.trial)
        self.assertIn("bandwidth between ranks is unknown; run longspan launch -n 2 -- plan --calibrate", output)
        cores = len(os.sched_getaffinity(0))
        found = f"measured on 1 of {cores} cores; run longspan plan --calibrate to measure all of them" in output
        self.assertEqual(found, cores > 1)

    def test_notes_attention_across_documents(self):
        note = "include attention across documents"
        self.assertNotIn(note, self.longspan("plan", "tiny.yaml").output)
        self.assertIn(note, self.longspan("plan", "tiny.yaml", "--set", "data.documents.reset_attention_mask=true").output)

    def test_predicts_peak_memory_of_unequal_pairs(self):
        """Short sources with long targets nearly fill the token budget of a batch."""
        source = random.Random(1)
        for side, longest in ("source", 6), ("target", 60):
            lines = ("x" * source.randint(longest // 2, longest) for _ in range(400))
            (self.directory / side).write_text("".join(line + "\n" for line in lines))
        settings = {"run.task": "translation", "model.family": "encoder_decoder", "model.hidden_size": 64, "model.num_attention_heads": 4,
                    "data.train": "source", "data.train_target": "target", "data.global_batch_tokens": 2000, "data.max_length": 64,
                    "training.max_steps": 20, "metrics.log_timing": True, "checkpoint.save_interval": 0}
        sections = {name: dict(keys) for name, keys in self.sections.items()}
        del sections["model"]["mem_len"]
        (self.directory / "tiny.yaml").write_text(json.dumps(sections))
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                layout = {**settings, "parallel.data_parallel_size": ranks}
                plan = self.longspan("plan", "tiny.yaml", *jobs.flat(layout), ranks=ranks).output
                self.assertIn(f"encoder_decoder float32, pairs in batches of 2000 tokens of both sides on {ranks} rank", plan)
                self.train(f"run{ranks}", jobs.Layout(ranks, 1), settings)
                held = max(line["peak_memory_bytes"] for line in self.run_at(f"run{ranks}").metrics())
                self.assertAlmostEqual(jobs.bytes_of(plan, "peak"), held, delta=0.1 * held)
                # Without data, the plan assumes full batches, which these pairs nearly reach.
                absent = self.longspan("plan", "tiny.yaml", *jobs.flat({**layout, "data.train": "not-there"}), ranks=ranks).output
                self.assertGreater(jobs.bytes_of(absent, "peak"), 0.99 * held)

    def test_finds_longest_sequences(self):
        layers = ("--set", "model.family=decoder", "--set", "model.attention.layer_types=[sliding_window, linear]")
        sections = {name: dict(keys) for name, keys in self.sections.items()}
        del sections["model"]["mem_len"]
        (self.directory / "tiny.yaml").write_text(json.dumps(sections))
        output = self.plan("--longest", "--memory-per-rank", "1GB", *layers)
        lengths = [int(length) for length in re.findall(r"data\.seq_length=(\d+) ", output)]
        self.assertEqual(len(lengths), 2, output)  # in one pass, and in chunks
        self.assertGreater(lengths[1], lengths[0])
        self.assertIn("\nlongest sequences in 1.00 GB per rank\n", output)
        # The printed keys fit, and a longer sequence does not.
        keys = re.search(r"(data\.seq_length=\d+) (memory\.bptt_chunk_length=\d+)", output).groups()
        chosen = [word for key in keys for word in ("--set", key)]
        self.plan("--memory-per-rank", "1GB", *layers, *chosen)
        chosen[1] = f"data.seq_length={2 * lengths[1]}"
        self.longspan("plan", "tiny.yaml", "--memory-per-rank", "1GB", *layers, *chosen, code=2)
        nothing = self.plan("--longest", "--memory-per-rank", "100KB", *layers)
        self.assertIn("\n  none in one pass", nothing)
        self.assertIn("\n  none in chunks", nothing)

    def test_longest_requires_streams_and_one_layout(self):
        def refused(*arguments):
            return self.longspan("plan", "tiny.yaml", "--longest", "--memory-per-rank", "1GB", *arguments, code=2).errors
        self.assertIn("--longest requires a layout of 2 ranks in parallel.*", refused("--ranks", "2", "--set", "parallel.data_parallel_size=1"))
        (self.directory / "classes").write_text("a\tone\nb\ttwo\n")
        (self.directory / "tiny.yaml").write_text(json.dumps({
            "run": {"output_dir": "run", "task": "classification"}, "model": {
                "family": "encoder", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2}, "data": {"train": "classes"}}))
        self.assertIn("--longest requires a task with data.seq_length", refused())

    def test_describes_batches_of_the_task(self):
        (self.directory / "classes").write_text("a\tone\nb\ttwo\n")
        (self.directory / "tiny.yaml").write_text(json.dumps({
            "run": {"output_dir": "run"}, "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 8,
                                                    "num_attention_heads": 2}, "data": {"train": "classes"}}))
        output = self.plan("--set", "run.task=classification")
        self.assertIn("encoder float32, texts in batches of 8192 tokens on 1 rank", output)
        refused = self.longspan("plan", "tiny.yaml", "--set", "run.task=language_modeling", code=2).errors
        self.assertIn("encoder requires run.task", refused)


if __name__ == "__main__":
    jobs.main()
