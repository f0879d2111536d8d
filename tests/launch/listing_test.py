#!/usr/bin/env python3
"""`list`, `compare` and `tail` on finished, running, never started and damaged runs.

    tests/launch/listing_test.py build/launch/longspan
"""

import fcntl
import json
import os
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import DIVERGING, Layout, until

# Enough steps to train until a stop request.
LONG = {"training.max_steps": 1_000_000, "checkpoint.save_interval": 0, "metrics.log_timing": True}


class RunListing(jobs.TestCase):
    def list(self, *arguments):
        """Returns the output of list --json, by the name of the run directory."""
        found = json.loads(self.longspan("list", *arguments, "--json").output)
        return {Path(run["run"]).name: run for run in found}

    def write_run(self, name, *lines, steps=100):
        """Creates the directory of a run that logged these lines and saved no checkpoint."""
        run = self.directory / "runs" / name
        (run / "checkpoints").mkdir(parents=True)
        (run / "config.yaml").write_text(f"training:\n  max_steps: {steps}\nparallel:\n  data_parallel_size: none\n"
                                         "  context_parallel_size: 2\n  tensor_parallel_size: 3\n")
        (run / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
        return run

    def test_list_reports_each_state(self):
        self.train("runs/done", settings={"data.validation": "text.txt", "training.validation.max_batches": 1,
                                          "training.validation.interval": 4})
        self.train("runs/below/diverged", settings=DIVERGING, code=4)
        job = self.start_training("runs/going", settings=LONG)
        metrics = self.directory / "runs/going/metrics.jsonl"
        self.assertTrue(until(lambda: metrics.exists() and metrics.stat().st_size > 0))
        runs = self.list("runs")
        self.assertEqual({name: run["state"] for name, run in runs.items()},
                         {"done": "finished", "diverged": "diverged", "going": "running"})
        done = runs["done"]
        self.assertEqual((done["step"], done["max_steps"], done["layout"]), (8, 8, {"data": 1, "context": 1, "tensor": 1}))
        last = self.run_at("runs/done").metrics()[-1]
        self.assertEqual(done["last_metrics"], last)
        self.assertEqual(done["validation"]["validation_loss"], last["validation_loss"])
        self.assertGreater(done["modified_at"], 1_000_000_000)
        self.assertIn("training diverged", runs["diverged"]["end_reason"])
        job.signal(signal.SIGUSR1)
        self.assertEqual(job.wait().code, 75)
        self.assertEqual(self.list("runs")["going"]["state"], "stopped")
        table = self.longspan("list", "runs").output
        self.assertRegex(table, r"(?m)^runs/done +finished +8 of 8 +\d\S+ +\d\S+ +20\d\d-\d\d-\d\d \d\d:\d\d +1 x 1 x 1$")
        self.assertRegex(table, r"(?m)^runs/below/diverged: training diverged: ")

    def test_list_distinguishes_killed_from_stopped_runs(self):
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                name = f"runs/killed-{ranks}"
                job = self.start_training(name, Layout(ranks, 1), LONG)
                until(lambda: job.ended() or "step 2/" in job.output())
                job.signal(signal.SIGKILL, "one")
                result = job.wait()
                self.assertNotEqual(result.code, 0)
                log = self.run_at(name).log()
                if ranks > 1:  # a surviving rank
                    words = "SIGTERM: mpirun is ending the job"
                    self.assertEqual(log.count(f" warning {words}"), 1, log)
                    self.assertEqual(result.output.count(words), 1, result.output)
                found = self.list("runs")[Path(name).name]
                self.assertEqual((found["state"], found["layout"]["data"]), ("killed", ranks))
                self.assertIn("was killed", found["end_reason"])
                table = self.longspan("list", "runs").output
                self.assertRegex(table, rf"(?m)^{name} +killed +\d+ of 1000000 .* {ranks} x 1 x 1$")
                self.assertRegex(self.longspan("tail", name, "--follow").errors, rf"{name}: killed, step \d+ of 1000000")
                # There is no checkpoint to resume from.
                self.train(name, Layout(ranks, 1), {"training.max_steps": 2, "checkpoint.save_interval": 0})
                self.assertNotIn("did not exit normally", self.run_at(name).log())
                self.assertEqual(self.list("runs")[Path(name).name]["state"], "finished")

    def test_resume_warns_of_killed_run(self):
        for is_named in False, True:
            with self.subTest(is_named=is_named):
                name = f"runs/resumed-{int(is_named)}"
                run = self.run_at(name)
                job = self.start_training(name, Layout(1, 1), {**LONG, "checkpoint.save_interval": 20})
                until(lambda: job.ended() or run.steps())
                job.signal(signal.SIGKILL, "one")
                job.wait()
                last = run.steps()[-1]
                self.train(name, settings={"training.max_steps": last + 1, "checkpoint.resume_from": last if is_named else "auto"})
                words = "warning The previous process of this run did not exit normally"
                self.assertEqual(words in run.log(), not is_named, run.log())

    def test_list_shows_layout_of_running_run(self):
        job = self.start("train", "tiny.yaml", *jobs.flat({**LONG, "run.output_dir": "runs/going"}), ranks=2)
        until(lambda: job.ended() or "step 2/" in job.output())
        found = self.list("runs")["going"]
        self.assertEqual((found["state"], found["layout"]), ("running", {"data": 2, "context": 1, "tensor": 1}))
        job.signal(signal.SIGUSR1)
        self.assertEqual(job.wait().code, 75)
        self.assertEqual(self.list("runs")["going"]["state"], "stopped")

    def test_failed_start_creates_no_run(self):
        (self.directory / "runs").mkdir()
        for number, (settings, code) in enumerate([({"data.train": "nowhere.txt"}, 3), ({"data.validation": "nowhere.txt"}, 3),
                                                   ({"training.init_from.path": "nowhere"}, 3),
                                                   ({"checkpoint.resume_from": "nowhere"}, 3)]):
            for ranks in 1, 2:
                with self.subTest(settings=settings, ranks=ranks):
                    result = self.train(f"runs/{number}-{ranks}", Layout(ranks, 1), settings, code=code)
                    self.assert_one_sentence(result, "nowhere")
                    self.assertEqual(os.listdir(self.directory / "runs"), [])
        # Existing files remain.
        (self.directory / "runs/mine").mkdir()
        (self.directory / "runs/mine/notes").write_text("mine")
        self.train("runs/mine", settings={"data.train": "nowhere.txt"}, code=3)
        self.assertEqual((self.directory / "runs/mine/notes").read_text(), "mine")

    def test_missing_run_has_one_exit_code(self):
        (self.directory / "empty").mkdir()
        for name in "nowhere", "empty":
            for words in (["tail", name], ["compare", name, "runs"], ["inspect", name], ["verify", name], ["evaluate", name],
                          ["generate", name], ["export", name, "--output-dir", "x"],
                          ["attention-maps", name, "--text", "text.txt", "--heads", "0:0"], ["import", name, "--output-dir", "x"]):
                with self.subTest(words=words):
                    self.assert_one_sentence(self.longspan(*words, code=3), name)
        for words in ["evaluate", "nowhere.yaml"], ["train", "nowhere.yaml"]:
            self.assert_one_sentence(self.longspan(*words, code=2), "nowhere.yaml")

    def test_long_metrics_are_read_from_the_end(self):
        lines = [f'{{"step": {step}, "tokens": 1, "loss": {step}.5, "validation_seconds": 0.5}}' for step in range(1, 5000)]
        lines[9] = '{"step": 10, "tokens": 1, "loss": 10.5, "validation_seconds": 0.5, "validation_success_rate": 0.25}'
        run = self.write_run("long", *lines, steps=9000)
        found = self.list("runs")["long"]
        self.assertEqual((found["state"], found["step"], found["last_metrics"]["loss"]), ("stopped", 4999, 4999.5))
        self.assertEqual(found["layout"], {"data": None, "context": 2, "tensor": 3})
        self.assertIn("0.25 success_rate at 10", self.longspan("list", "runs").output)
        self.assertEqual(self.longspan("tail", run, "--lines", "4999").output.count("\n"), 5000)

    def test_run_without_steps_is_never_started(self):
        self.write_run("new")
        found = self.list(".")["new"]
        self.assertEqual((found["state"], found["step"], found["last_metrics"], found["errors"]), ("never started", 0, None, []))
        self.assertIn("runs/new: never started, step 0 of 100", self.longspan("tail", "runs/new", "--follow").errors)

    def test_incomplete_last_line_is_no_error(self):
        run = self.write_run("going", '{"step": 1, "tokens": 1, "loss": null, "loss_reason": "nan"}')
        with open(run / "metrics.jsonl", "a", encoding="utf8") as file:
            file.write('{"step": 2, "tok')
        found = self.list("runs")["going"]
        self.assertEqual((found["step"], found["errors"]), (1, []))
        self.assertRegex(self.longspan("tail", run).output, r"(?m)^ +1 +nan$")

    def test_tail_shows_numbers_as_the_console(self):
        run = self.write_run("one", '{"step": 1, "tokens": 64, "loss": 2.5, "learning_rate": 0.0003, "grad_norm": 1.4012, '
                                    '"tokens_per_second": 16712.5, "validation_loss": 2.25}')
        rows = [line.split() for line in self.longspan("tail", run).output.splitlines()]
        self.assertEqual(rows, [["step", "loss", "lr", "grad_norm", "tokens/s", "validation"],
                                ["1", "2.5", "3.00e-04", "1.4", "16.7k", "2.25"]])

    def test_control_characters_are_escaped(self):
        run = self.write_run("loud", json.dumps({"step": 1, "loss": None, "loss_reason": "\x1b[2Jred", "validation_a\u009b2J": 3}))
        for command in ["tail", run], ["list", "runs"], ["compare", run, run]:
            output = self.longspan(*command).output
            self.assertIn("?[2Jred", output, command)
            self.assertNotRegex(output, "[\x1b\u009b]", command)

    def test_unexpected_values_are_skipped_or_reported(self):
        deep = '{"step": 1, "loss": 2.5, "large": 18446744073709551615, "deep": ' + "[" * 200_000 + "]" * 200_000 + "}"
        run = self.write_run("deep", deep)
        self.assertEqual(self.list("runs")["deep"]["last_metrics"], {"step": 1, "loss": 2.5, "large": 18446744073709551615})
        self.assertRegex(self.longspan("compare", run, run).output, r"(?m)^large +18446744073709551615 +18446744073709551615$")
        for step in -1, 18446744073709551615, 1.5:
            (run / "metrics.jsonl").write_text(f'{{"step": {step}, "loss": 1.0}}\n')
            found = self.list("runs")["deep"]
            self.assertEqual((found["step"], found["last_metrics"]), (0, None))
            self.assertIn("metrics.jsonl: expected a line of metrics", found["errors"][0])

    def test_unreadable_directory_is_reported(self):
        self.write_run("open", '{"step": 1, "loss": 1.0}')
        closed = self.directory / "runs/closed"
        closed.mkdir()
        closed.chmod(0)
        self.addCleanup(closed.chmod, 0o700)
        if os.access(closed, os.R_OK):
            self.skipTest("this user may read everything")
        result = self.longspan("list", "runs", "--json")
        self.assertEqual([run["run"] for run in json.loads(result.output)], ["runs/open"])
        self.assert_one_sentence(result, "runs/closed: cannot be read: ")

    def test_damaged_runs_are_listed_with_errors(self):
        self.train("runs/good")
        shutil.copytree(self.directory / "runs/good", self.directory / "runs/bad")
        bad = self.directory / "runs/bad"
        jobs.damage(bad / "checkpoints/step-000000008/manifest.json")
        (bad / "config.yaml").write_text("run: [\n")
        with open(bad / "metrics.jsonl", "ab") as file:
            file.write(b"\x00\xff\n")
        self.write_run("no-configuration", '{"step": 3, "loss": 1.0}')
        os.remove(self.directory / "runs/no-configuration/config.yaml")
        pipe = self.write_run("pipe")
        os.remove(pipe / "metrics.jsonl")
        os.mkfifo(pipe / "metrics.jsonl")
        runs = self.list("runs")
        self.assertEqual(sorted(runs), ["bad", "good", "no-configuration", "pipe"])
        self.assertEqual(runs["good"]["errors"], [])
        for part in "config.yaml", "manifest.json", "metrics.jsonl: expected a line of metrics":
            self.assertTrue([error for error in runs["bad"]["errors"] if part in error], runs["bad"])
        self.assertEqual(runs["bad"]["step"], 8)
        self.assertIn("config.yaml: no such file", runs["no-configuration"]["errors"][0])
        self.assertEqual(runs["no-configuration"]["step"], 3)
        self.assertIn("metrics.jsonl: expected a regular file", runs["pipe"]["errors"][0])
        self.assertIn("metrics.jsonl: expected a line of metrics", self.longspan("list", "runs").output)
        for command in ["tail", "runs/bad", "--follow"], ["compare", "runs/good", "runs/bad"]:
            self.longspan(*command)

    def test_compare_shows_keys_and_metrics(self):
        self.train("one")
        self.train("two", settings={"training.learning_rate": 0.02, "model.dropout": 0.2})
        found = json.loads(self.longspan("compare", "one", "two", "--json").output)
        self.assertEqual(found["keys"], {"model.dropout": ["0.1", "0.2"], "training.learning_rate": ["0.01", "0.02"]})
        self.assertEqual([run["last_metrics"] for run in found["runs"]],
                         [self.run_at(name).metrics()[-1] for name in ("one", "two")])
        table = self.longspan("compare", "one", "two").output
        self.assertRegex(table, r"(?m)^ +one +two$")
        self.assertRegex(table, r"(?m)^state +finished +finished$")
        self.assertRegex(table, r"(?m)^loss +\d\S+ +\d\S+$")
        self.assertRegex(table, r"(?m)^training.learning_rate +0.01 +0.02$")
        shutil.copytree(self.directory / "one", self.directory / "again")
        self.assertIn("no keys differ", self.longspan("compare", "one", "again").output)

    def test_tail_follows_run_to_its_end(self):
        job = self.start_training("run", settings=LONG)
        metrics = self.directory / "run/metrics.jsonl"
        self.assertTrue(until(lambda: metrics.exists() and metrics.stat().st_size > 0))
        following = self.start("tail", "run", "--lines", "1", "--follow")
        self.assertTrue(until(lambda: following.output().count("\n") > 4))
        self.assertFalse(following.ended())
        job.signal(signal.SIGUSR1)
        job.wait()
        result = following.wait()
        self.assertEqual(result.code, 0)
        shown = [int(line.split()[0]) for line in result.output.splitlines()[1:]]
        self.assertEqual(shown, list(range(shown[0], self.run_at().metrics()[-1]["step"] + 1)))
        self.assertRegex(result.errors, rf"\Alongspan: run: stopped, step {shown[-1]} of 1000000\n\Z")

    def test_locked_run_is_running(self):
        run = self.write_run("locked", '{"step": 1, "loss": 1.0}')
        with open(run / ".lock", "w", encoding="utf8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(self.list("runs")["locked"]["state"], "running")
        self.assertEqual(self.list("runs")["locked"]["state"], "stopped")

    def test_rejects_invalid_arguments(self):
        (self.directory / "empty").mkdir()
        for arguments, code, part in [
                (["list", "nowhere"], 3, "nowhere: no such directory"),
                (["list", "text.txt"], 3, "text.txt: expected a directory of runs, found a file"),
                (["compare", "empty"], 2, "RUN"),
                (["compare", "empty", "nowhere"], 3, "empty: expected a run directory, found no run"),
                (["tail", "nowhere"], 3, "nowhere: no such directory"),
                (["tail", "empty"], 3, "empty: expected a run directory, found no run"),
                (["tail", "empty", "--lines", "0"], 2, "expected an integer from 1 to 1000000"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_one_sentence(self.longspan(*arguments, code=code), part)
        self.assertEqual(self.longspan("list", "empty").output, "empty: no runs found\n")
        self.assertEqual(json.loads(self.longspan("list", "empty", "--json").output), [])


if __name__ == "__main__":
    jobs.main()
