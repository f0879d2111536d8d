#!/usr/bin/env python3
"""evaluate, generate, inspect, verify and plan on a trained run, errors of train, and the output under mpirun.

    tests/launch/commands_test.py build/launch/longspan
"""

import fcntl
import json
import math
import os
import re
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import SOURCE, Layout


class TrainedRun(jobs.TestCase):
    """`run` has trained for 24 steps, with tensor parallelism 2 and checkpoints of steps 12 and 24."""

    def setUp(self):
        super().setUp()
        jobs.write_text(self.directory / "held-out.txt", words=300, seed=2)
        self.make_once(lambda: self.train("run", Layout(1, 2), {"training.max_steps": 24, "checkpoint.save_interval": 12,
                                                                "data.validation": "held-out.txt"}))

    def evaluate(self, *arguments, ranks=1):
        return json.loads(self.longspan("evaluate", "run", "--json", *arguments, ranks=ranks).output)

    def generate(self, seed=3, ranks=1):
        result = self.longspan("generate", "run", "--prompt", "the lord ", "--max-new-tokens", "30", "--seed", seed,
                               "--top-k", "8", ranks=ranks)
        self.assertTrue(result.output.startswith("the lord "), result.output)
        return result.output

    def test_evaluate_matches_last_validation(self):
        last = self.run_at().metrics()[-1]
        found = self.evaluate()
        self.assertEqual(found["step"], 24)
        self.assertEqual(found["num_bytes"], len((self.directory / "held-out.txt").read_bytes()) - 1)
        self.assertAlmostEqual(found["loss"], last["validation_loss"], delta=1e-5)
        self.assertAlmostEqual(found["bits_per_byte"], last["validation_bits_per_byte"], delta=1e-5)
        self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), delta=1e-9)
        for ranks in 2, 4:
            self.assertAlmostEqual(self.evaluate(ranks=ranks)["loss"], found["loss"], delta=1e-5)
        table = self.longspan("evaluate", "run").output
        self.assertIn(f"{found['bits_per_byte']:.4f} bits per byte", table)

    def test_evaluate_accepts_checkpoint_and_data(self):
        earlier = self.evaluate("--checkpoint", "run/checkpoints/step-000000012")
        self.assertEqual(earlier["step"], 12)
        self.assertGreater(earlier["loss"], self.evaluate()["loss"] + 0.01)
        self.assertEqual(self.evaluate("--data", "text.txt", "--max-tokens", "64")["data"], "text.txt")

    def test_evaluate_accepts_memory_length_and_window(self):
        self.assertEqual(self.evaluate("--mem-len", "0")["mem_len"], 0)
        self.assertEqual(self.evaluate("--mem-len", "20")["mem_len"], 20)
        window = self.evaluate("--sliding-window", "8", "--max-tokens", "40")
        self.assertEqual(window["sliding_window"], 8)
        self.assertEqual(window["stride"], 1)
        self.assertEqual(self.evaluate("--sliding-window", "8", "--stride", "3", "--max-tokens", "40")["stride"], 3)
        self.assertTrue(math.isfinite(window["loss"]))

    def test_rejects_changed_model_keys(self):
        for key, value, saved in ("num_hidden_layers", 1, 2), ("activation", "gelu", "relu"), ("lm_head_bias", "false", "true"):
            for command in "evaluate", "generate":
                with self.subTest(command=command, key=key):
                    result = self.longspan(command, "run", "--set", f"model.{key}={value}", code=2)
                    self.assert_one_sentence(result, "step-000000024: the model differs",
                                             f"model.{key}: checkpoint has {saved}, config has {value} (--set)")
        edited = json.loads((self.directory / "tiny.yaml").read_text())
        edited["model"]["num_attention_heads"] = 2
        (self.directory / "edited.yaml").write_text(json.dumps(edited))
        self.assert_one_sentence(self.longspan("evaluate", "edited.yaml", "--data", "text.txt", code=2), "model.num_attention_heads")
        other = ["--set", "model.same_length=true", "--set", "model.clamp_len=6", "--set", "model.mem_len=12"]
        self.assertNotEqual(self.evaluate(*other)["loss"], self.evaluate()["loss"])

    def test_evaluate_accepts_any_segment_and_stream_count(self):
        largest = 2 ** 63 - 1
        text = (self.directory / "held-out.txt").read_bytes()
        found = self.evaluate("--seq-length", largest)
        self.assertEqual(found["num_tokens"], len(text) - 1)
        self.assertTrue(math.isfinite(found["loss"]))
        self.assertEqual(self.evaluate("--max-tokens", "010")["num_tokens"], 16)  # 2 of each of 8 streams
        for streams in largest, 100000000, len(text):
            result = self.longspan("evaluate", "run", "--batch-size", streams, code=2)
            self.assert_one_sentence(result, f"--batch-size: expected at most {len(text) - 1} sequences (predicted tokens of ", "held-out.txt",
                                     f"found {streams}")
        self.assertEqual(self.evaluate("--batch-size", len(text) - 1)["num_tokens"], len(text) - 1)
        result = self.longspan("evaluate", "run", "--batch-size", 1, ranks=2, code=2)
        self.assert_one_sentence(result, "--batch-size: expected a multiple of the 2 data ranks, found 1")

    def test_generate_is_equal_on_context_ranks(self):
        chosen = ["--prompt", "the lord said", "--max-new-tokens", 20, "--temperature", 0]
        expected = self.longspan("generate", "run", *chosen).output
        self.assertEqual(self.longspan("generate", "run", *chosen, "--set", "parallel.context_parallel_size=2", ranks=2).output, expected)

    def test_verify_reports_removed_checkpoint(self):
        shutil.copytree(self.run_at().checkpoint(24), self.run_at().checkpoint(36))
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        page = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        filled = os.write(writer, b"x" * (page - 60))  # space for the first line only
        process = subprocess.Popen([self.program, "verify", "run"], cwd=self.directory, stdout=writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(writer)

        def waiting():
            return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)
        self.assertTrue(jobs.until(lambda: waiting() > filled))
        shutil.rmtree(self.run_at().checkpoint(36))
        output = b"".join(iter(lambda: os.read(reader, 4096), b"")).decode()
        self.assertEqual(process.wait(), 0, output)
        self.assertEqual(output.count(": valid\n"), 2)
        self.assertIn("step-000000036: removed during verification\n", output)

    def test_generate_is_deterministic_per_seed(self):
        text = self.generate()
        self.assertEqual(self.generate(), text)
        self.assertEqual(self.generate(ranks=2), text)
        self.assertNotEqual(self.generate(seed=4), text)

    def test_inspect_shows_layout_scalars_and_tensors(self):
        text = self.longspan("inspect", "run", "--tensors").output
        self.assertIn("step 24", text)
        self.assertIn("saved with data 1 x context 1 x tensor 2", text)
        self.assertIn("trainer/steps = 24", text)
        self.assertRegex(text, r"(?m)^embedding/weight +f32 +\[256, 16\] +2 pieces")
        self.assertIn("step 12", self.longspan("inspect", "run/checkpoints/step-000000012").output)
        again = self.directory / "again.yaml"
        again.write_text(self.longspan("inspect", "run", "--config").output)
        self.assertEqual(self.longspan("train", again, ranks=2).output.count("differs"), 0)

    def test_verify_reports_corrupt_checkpoints(self):
        for ranks in 1, 2:
            result = self.longspan("verify", "run", ranks=ranks)
            self.assertEqual(result.output.count(": valid\n"), 2)
        jobs.damage(self.run_at().checkpoint(12) / "rank-00001.h5")
        for ranks in 1, 2:
            result = self.longspan("verify", "run", ranks=ranks, code=3)
            self.assertIn("step-000000012: corrupt\n", result.output)
            self.assertIn("rank-00001.h5", result.output)
            self.assertIn("step-000000024: valid\n", result.output)
            self.assert_one_sentence(result, "1 of 2 checkpoints corrupt")

    def test_skips_corrupt_checkpoint_with_warning(self):
        jobs.damage(self.run_at().checkpoint(24) / "rank-00000.h5")
        result = self.longspan("evaluate", "run", "--json")
        self.assertEqual(json.loads(result.output)["step"], 12)
        self.assertRegex(result.errors, r"\Awarning: skipped: [^\n]*step-000000024[^\n]*\n\Z")
        for command in "evaluate", "generate":
            named = self.longspan(command, "run", "--checkpoint", "run/checkpoints/step-000000024", code=3, ranks=2)
            self.assert_one_sentence(named, "step-000000024", "rank-00000.h5")

    def test_rejects_invalid_paths_and_options(self):
        shutil.copytree(self.directory / "run", self.directory / "empty")
        shutil.rmtree(self.directory / "empty" / "checkpoints")
        os.mkfifo(self.directory / "pipe")
        unsaved = "not running: last logged step 24 of 24; run longspan train empty/config.yaml"
        cases = [
                (["evaluate", "nowhere"], 3, "nowhere: no such run or checkpoint"),
                (["generate", "nowhere"], 3, "nowhere: no such run or checkpoint"),
                (["inspect", "nowhere"], 3, "nowhere: no such directory"),
                (["verify", "nowhere"], 3, "nowhere: no such directory"),
                (["evaluate", "run", "--data", "missing.txt"], 3, "missing.txt: cannot be opened"),
                (["evaluate", "run", "--data", "pipe"], 3, "pipe: named pipe without a writer"),
                (["generate", "run", "--prompt-file", "pipe"], 3, "pipe: named pipe without a writer"),
                (["evaluate", "run", "--split", "test"], 2, "data.test is not set"),
                (["evaluate", "run", "--split", "tset"], 2, "--split"),
                (["evaluate", "run", "--checkpoint", "nowhere"], 3, "nowhere"),
                (["generate", "run", "--checkpoint", "nowhere"], 3, "nowhere"),
                (["evaluate", "empty"], 3, unsaved),
                (["generate", "empty"], 3, unsaved),
                (["generate", "run", "--set", "run.device=cuda"], 2, "run.device: cuda is not available"),
                (["generate", "run", "--temperature", "-1"], 2, "temperature"),
                (["generate", "run", "--top-p", "1.5"], 2, "top-p"),
        ]
        results = self.results_of([(arguments, 1, code) for arguments, code, _ in cases])
        for (arguments, _, part), result in zip(cases, results, strict=True):
            with self.subTest(arguments=arguments):
                self.assert_one_sentence(result, part)


class Training(jobs.TestCase):
    def test_train_rejects_invalid_configs_and_data(self):
        (self.directory / "bad.yaml").write_text("run: {directory: run\nmodel: [\n")
        os.mkfifo(self.directory / "pipe")
        (self.directory / "empty.txt").write_text("")
        (self.directory / "one.txt").write_text("a")
        (self.directory / "short.txt").write_text("short")
        cases = [
                (["missing.yaml"], 2, ["missing.yaml: cannot be opened"]),
                (["bad.yaml"], 2, ["bad.yaml:2:"]),
                (["tiny.yaml", "--set", "training.max_stepz=3"], 2, ['did you mean "training.max_steps"?']),
                (["tiny.yaml", "--set", "training.max_steps=three"], 2, ["training.max_steps", '"three"']),
                (["tiny.yaml", "--set", "model.family=transformer-xl"], 2, ['did you mean "transformer_xl"?']),
                (["tiny.yaml", "--set", "data.train=missing.txt"], 3, ["missing.txt: cannot be opened"]),
                (["tiny.yaml", "--set", "data.train=."], 3, [".: "]),
                (["tiny.yaml", "--set", "data.train=pipe"], 3, ["pipe: named pipe without a writer"]),
                (["tiny.yaml", "--set", "data.train=empty.txt"], 3, ["empty.txt"]),
                (["tiny.yaml", "--set", "data.train=short.txt"], 3, ["short.txt"]),
                (["tiny.yaml", "--set", "data.validation=missing.txt"], 3, ["missing.txt: cannot be opened"]),
                (["tiny.yaml", "--set", "data.validation=empty.txt"], 3, ["empty.txt"]),
                (["tiny.yaml", "--set", "data.validation=one.txt"], 3, ["one.txt: expected at least 2 tokens"]),
                (["tiny.yaml", "--set", "parallel.tensor_parallel_size=4"], 2, ["parallel.tensor_parallel_size 4"]),
                (["tiny.yaml", "--set", "run.output_dir=text.txt"], 2, ['run.output_dir "text.txt" cannot be created']),
                (["tiny.yaml", "--set", "training.gradient_accumulation_steps=3"], 2, ["training.gradient_accumulation_steps: expected a divisor"]),
                (["tiny.yaml", "--set", "run.device=cuda"], 2, ["run.device: cuda is not available"]),
                (["tiny.yaml", "--set", "parallel.gpu_backend=nccl"], 2,
                 ["parallel.gpu_backend: nccl is not available: rank 0 runs on the CPU"]),
        ]
        for ranks in 1, 2:
            # The jobs run at the same time, each with its own directory.
            results = self.results_of([(["train", arguments[0], "--set", f"run.output_dir=run-{number}", *arguments[1:]], ranks, code)
                                       for number, (arguments, code, _) in enumerate(cases)])
            for (arguments, _, parts), result in zip(cases, results, strict=True):
                with self.subTest(arguments=arguments, ranks=ranks):
                    self.assertTrue(result.errors.startswith("longspan: "), result.errors)
                    self.assertEqual(result.errors.count("longspan: "), 1)
                    for part in parts:
                        self.assertIn(part, result.errors)
                    self.assertNotIn("step 1/", result.output)

    def shell(self, script):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run(["bash", "-c", script, "-", self.program], cwd=self.directory, env=environment,
                              timeout=jobs.MOST_SECONDS, capture_output=True, text=True, check=False)

    def test_train_continues_after_console_closes(self):
        result = self.shell('"$1" train tiny.yaml | head -1; exit "${PIPESTATUS[0]}"')
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.run_at().steps(), [4, 8])

    def test_train_without_console_keeps_output_out_of_files(self):
        result = self.shell('exec "$1" train tiny.yaml <&- >&- 2>&-')
        self.assertEqual(result.returncode, 0)
        self.assertEqual([line["step"] for line in self.run_at().metrics()], list(range(1, 9)))
        for file in self.run_at().path.rglob("*"):
            if file.is_file() and file.name != "log.txt":
                self.assertNotIn(b"step 1/", file.read_bytes(), file)

    def test_train_fails_at_file_size_limit(self):
        result = self.shell('ulimit -f 30; exec "$1" train tiny.yaml')
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"\Alongspan: [^\n]*File too large[^\n]*\n\Z")

    def test_train_rejects_model_larger_than_memory(self):
        """Rejected before allocation, with the required memory."""
        huge = ["--set", "model.num_hidden_layers=64", "--set", "model.hidden_size=4096", "--set", "model.intermediate_size=16384"]
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                begin = time.monotonic()
                result = self.longspan("train", "tiny.yaml", *huge, ranks=ranks, code=2)
                self.assertLess(time.monotonic() - begin, 20)
                self.assertEqual(result.errors.count("longspan: "), 1)
                self.assertRegex(result.errors, r"a rank requires \d+\.\d+ GB \(weights .*optimizer .* GB, .*\)")
                self.assertIn("memory free", result.errors)

    def test_plan_suggests_keys_if_no_layout_fits(self):
        def needed(*arguments):
            return jobs.bytes_of(self.longspan("plan", "tiny.yaml", "--memory-per-rank", "1GB", *arguments).output, "with reserve")
        def refused(memory, *arguments):
            result = self.longspan("plan", "tiny.yaml", "--memory-per-rank", f"{memory:.0f}", *arguments, code=2)
            self.assert_one_sentence(result, "tiny.yaml: expected at most ", " per rank, found ")
            self.assertRegex(result.errors, r"expected at most [1-9][\d.]* \S+ per rank")
            return result.output
        one, two = needed(), needed("--ranks", "2", "--set", "parallel.tensor_parallel_size=2")
        keys = r"settings that make it fit(?:, with smaller batches)?\n +[\d.]+ .?B +unknown  (\S.*)\n"
        named = re.search(keys, refused(0.8 * one))[1].split()
        self.longspan("plan", "tiny.yaml", "--memory-per-rank", f"{0.8 * one:.0f}", *(word for key in named for word in ("--set", key)))
        for layout in ("parallel.data_parallel_size=2",
                       "parallel.data_parallel_size=1"):  # one that does not fit, and one for another number of ranks
            output = refused(0.8 * min(one, two), "--ranks", "2", "--set", layout)
            self.assertRegex(output, r"(?s)\nno layout of 2 ranks fits; the smallest\n.*for the first one: " + keys)

    def test_plan_counts_parameters(self):
        self.longspan("train", "tiny.yaml")
        moments = int(re.search(r"(?m)^ +optimizer +\d+ tensors +(\d+) elements", self.longspan("inspect", "run").output)[1])
        self.assertIn(f"\n{moments // 2} parameters (", self.longspan("plan", "tiny.yaml").output)

    def test_plan_reports_memory_and_step_time(self):
        def plan(*arguments, code=0):
            return self.longspan("plan", "tiny.yaml", *arguments, code=code)
        begin = time.monotonic()
        output = plan("--ranks", "4", "--memory-per-rank", "1GiB", "--flops-per-rank", "1e11", "--bandwidth-per-rank", "1e9").output
        self.assertLess(time.monotonic() - begin, 5)
        for part in ("data 4 x context 1 x tensor 1, ZeRO 0", "weights", "optimizer", "activations", "of 1.07 GB: fits",
                     "FLOPs per token", "sent per rank and step over data (4 ranks)", "step time: ", "tokens per second",
                     "layouts of 4 ranks that fit, fastest first"):
            self.assertIn(part, output)
        for same in ("1.5GB", "1500MB", "1.5e9"):
            self.assertIn("of 1.50 GB: fits", plan("-n", "2", "--memory-per-rank", same).output)
        gpu = plan("--device", "h200").output
        self.assertRegex(gpu, r"\n  with reserve +[0-9.]+ [kM]B of 149.25 GB: fits\n")
        if "built without CUDA" not in gpu:  # workspace of matrix products
            self.assertRegex(gpu, r"\non GPUs.*\n(.*\n)*  workspace +\d\d\.\d+ MB\n")
        self.assertIn("\non GPUs", plan("--memory-per-rank", "1GB", "--set", "run.device=cuda").output)
        self.assertNotIn("\non GPUs", plan("--memory-per-rank", "1GB").output)
        result = plan("--ranks", "2", "--memory-per-rank", "200kB", code=2)
        self.assertIn("does not fit", result.output)
        self.assertRegex(result.output, "settings that make it fit|no setting makes it fit; the smallest is")
        for arguments, code, part in [
                (["--ranks", "0"], 2, "--ranks"),
                (["--device", "abacus"], 2, '(choices: a100-40gb'),
                (["--memory-per-rank", "much"], 2, "--memory-per-rank"),
                (["--memory-per-rank=-1GB"], 2, "--memory-per-rank"),
                (["--ranks", "11"], 2, "no layout of 11 ranks supports this model"),
                (["--machine-profile", "text.txt"], 3, "text.txt: invalid machine file"),
                (["--machine-profile", "nowhere.json"], 3, "nowhere.json: cannot be opened for reading: No such file"),
                (["--machine-profile", "."], 3, ".: expected a regular file"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(part, plan(*arguments, code=code).errors)
        # A CPU emulates float16. Another program may slow one of the two measurements.
        for _ in range(3):
            self.longspan("plan", "--calibrate", "--machine-profile", "machine.json", ranks=2)
            measured = json.loads((self.directory / "machine.json").read_text())
            if measured["f16_flops"] < 1.5 * measured["flops"]:
                break
        self.assertLess(measured["f16_flops"], 1.5 * measured["flops"])
        output = plan("--ranks", "2", "--machine-profile", "machine.json").output
        self.assertRegex(output, r"machine.json: measured with 2 ranks of \d+ threads?; assumes 2 ranks on this machine\n")
        self.assertRegex(output, r"step time: .* tokens per second")

    def test_plan_scales_machine_profile_to_threads_per_rank(self):
        """A profile of one rank with four threads is scaled to the threads of each rank."""
        def seconds(ranks, *arguments):
            output = self.longspan("plan", "tiny.yaml", "--machine-profile", "machine.json", "--set", f"parallel.data_parallel_size={ranks}",
                                   *arguments).output
            self.assertIn(f"machine.json: measured with 1 rank of 4 threads; assumes {ranks} rank", output)
            found = re.search(r"step time: .* = (\S+) s compute", output)
            return output, float(found[1])
        (self.directory / "machine.json").write_text(json.dumps(
            {"name": "this machine", "memory": 1e9, "flops": 1e9, "bf16_flops": 1e9, "f16_flops": 1e9,
             "memory_bandwidth": 1e9, "bandwidth": 1e9, "ranks": 1, "threads": 4}))
        output, four = seconds(4, "--set", "run.num_threads=1")
        self.assertIn("1 thread per rank (run.num_threads)", output)
        output, one = seconds(1, "--set", "run.num_threads=4")
        self.assertIn("4 threads per rank (run.num_threads)", output)
        self.assertAlmostEqual(four / one, 1, delta=0.1)  # a quarter of the batch at a quarter of the speed
        self.assertIn("1 thread per rank (OMP_NUM_THREADS)",
                      seconds(4, "--set", "run.num_threads=0")[0])
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        output = subprocess.run([self.program, "plan", "tiny.yaml", "--ranks", "8",
                                 "--set", "run.num_threads=0"], cwd=self.directory,
                                env=environment, timeout=jobs.MOST_SECONDS, capture_output=True, text=True, check=False)
        share = max(1, len(os.sched_getaffinity(0)) // 8)
        self.assertRegex(output.stdout, rf"{share} threads? per rank \(an equal share of the cores\)")

    def test_mpirun_prints_single_error(self):
        """With launch/mpirun-environment, standard error contains one error and no messages of mpirun."""
        def run(*arguments):
            script = f'. "{SOURCE}/launch/mpirun-environment"; exec mpirun -n 2 "$@"'
            environment = {key: value for key, value in os.environ.items() if not key.startswith("OMPI_")}
            return subprocess.run(["bash", "-c", script, "-", self.program, "train", "tiny.yaml", *arguments],
                                  cwd=self.directory, env={**environment, "OMP_NUM_THREADS": "1"}, timeout=jobs.MOST_SECONDS,
                                  capture_output=True, text=True, check=False)
        good = run()
        self.assertEqual((good.returncode, good.stderr), (0, ""))
        bad = run("--set", "data.train=/nowhere/a.txt", "--set", "run.output_dir=other")
        self.assertEqual((bad.returncode, bad.stderr),
                         (3, "longspan: --set: data.train: /nowhere/a.txt: cannot be opened for reading: No such file "
                             "or directory\n"))

    def test_mpirun_reports_killed_rank(self):
        """As by the out-of-memory killer: the rank itself cannot report it."""
        # Both ranks run first, because otherwise mpirun may only report a failed start.
        die = ('touch started-$OMPI_COMM_WORLD_RANK; until [ -e started-0 ] && [ -e started-1 ]; do sleep 0.1; done; sleep 1; '
               'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then kill -9 $$; fi; sleep 60')
        script = f'. "{SOURCE}/launch/mpirun-environment"; exec mpirun -n 2 bash -c "$1"'
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OMPI_")}
        result = subprocess.run(["bash", "-c", script, "-", die], env=environment, timeout=jobs.MOST_SECONDS,
                                cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 137)
        self.assertRegex(result.stderr, r"rank 1 .*signal 9")


if __name__ == "__main__":
    jobs.main()
