#!/usr/bin/env python3
"""`longspan launch --max-restarts`: restarts after the failure of a rank or host, or ends with the reason.

    tests/launch/retry_test.py build/launch/longspan
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import until

LONG = {"training.max_steps": 10 ** 6, "checkpoint.save_interval": 50, "training.lr_scheduler.type": "constant"}

# Replaces ssh: `agent HOST COMMAND`. A host is a UTS namespace of this machine; a file marks it as failed.
AGENT = """#!/bin/sh
host=$1
shift
[ -e "$LONGSPAN_TEST_HOSTS/$host" ] && exit 255
exec unshare --uts sh -c "hostname $host; $*"
"""


class RetryTestCase(jobs.TestCase):
    def start_retrying(self, *words, ranks=2, settings=None, retries=5, wait=0, command="train", grace=jobs.NO_GRACE):
        arguments = ["launch", "--max-restarts", retries, "--restart-delay", wait, *words]
        if ranks:
            arguments += ["-n", ranks]
        job = jobs.Job(self.program, [*arguments, "--", command, "tiny.yaml", *jobs.flat(settings or {})], 1,
                       self.directory, grace)
        self.addCleanup(job.close)
        return job

    def attempt_at(self, job, number, step=0):
        """Waits until the attempt has logged a step after `step`."""
        def is_there():
            text = self.run_at().log() if (self.run_at().path / "log.txt").exists() else ""
            begin = 0 if number == 1 else text.find(f"starting attempt {number} ")
            steps = re.findall(r"step (\d+)/", text[begin:]) if begin >= 0 else []
            return job.ended() or any(int(found) > step for found in steps)
        self.assertTrue(until(is_there), job.errors())
        self.assertFalse(job.ended(), job.output() + job.errors())

    def kill(self, job, rank=1):
        job.signal_rank(signal.SIGKILL, rank)

    def assert_code(self, job, code):
        result = job.wait()
        self.assertEqual(result.code, code, result.output + result.errors)
        return result

    def started_attempts(self):
        log = self.run_at().path / "log.txt"
        return log.read_text().count("matmul peak") if log.exists() else 0

    def lines(self):
        """Returns (level, message) of the log lines of `longspan launch`."""
        return re.findall(r"(?m)^\S+ \S+ (\w+) longspan launch: (.*)$", self.run_at().log())


class RankFailure(RetryTestCase):
    def test_resumes_exactly(self):
        settings = {"parallel.data_parallel_size": 2, "training.max_steps": 400, "checkpoint.save_interval": 20,
                    "precision.compute_dtype": "float64"}
        self.train("whole", jobs.Layout(2, 1), settings)
        job = self.start_retrying(settings=settings, grace=None)
        source = random.Random(10)
        for attempt in 1, 2:
            self.attempt_at(job, attempt, step=source.randrange(60, 120) * attempt)
            self.kill(job, rank=source.randrange(2))
        result = self.assert_code(job, 0)
        self.assertEqual(self.run_at().metrics_bytes(), self.run_at("whole").metrics_bytes())
        lines = self.lines()
        self.assertEqual([level for level, _ in lines], ["warning", "info", "info"] * 2)
        self.assertRegex(lines[0][1], r"\Aattempt 1 ended with code 137 after step \d+, newest checkpoint at step \d+: "
                                     r"a rank was killed by signal 9 \(Killed\)\Z")
        self.assertEqual(lines[1][1], "restarting in 0 s (restart 1 of 5)")
        self.assertEqual(lines[5][1], "starting attempt 3 on 2 ranks")
        for _, message in lines:
            self.assertIn(f"longspan launch: {message}\n", result.errors)

    def test_single_rank_restarts_without_mpirun(self):
        job = self.start_retrying(ranks=1, settings={**LONG, "parallel.data_parallel_size": 1, "training.max_steps": 2000})
        self.attempt_at(job, 1, step=60)
        # The rank is the child of the launcher.
        os.kill(int(Path(f"/proc/{job._process.pid}/task/{job._process.pid}/children").read_text()), signal.SIGSEGV)
        result = self.assert_code(job, 0)
        self.assertIn("a rank was killed by signal 11 (Segmentation fault)", self.lines()[0][1])
        self.assertRegex(result.errors, r"(?m)^longspan: signal 11 \(Segmentation fault\): .*$")
        self.assertRegex(self.run_at().log(), r"(?m)^20\S+ \S+ error signal 11 \(Segmentation fault\): .*$")

    def test_new_run_restarts_with_resume_from_auto(self):
        settings = {**LONG, "parallel.data_parallel_size": 2, "checkpoint.resume_from": "never"}
        job = self.start_retrying(settings=settings)
        self.attempt_at(job, 1, step=60)
        self.kill(job)
        self.attempt_at(job, 2, step=100)
        os.kill(job._process.pid, signal.SIGTERM)
        result = self.assert_code(job, 75)
        self.assertIn("starting attempt 2 on 2 ranks, with checkpoint.resume_from: auto\n", result.errors)
        self.assertTrue(result.errors.endswith(
            "longspan launch: checkpoint.resume_from: never applied to the first attempt only; run the same command with "
            "checkpoint.resume_from: auto to resume\n"), result.errors)
        self.assertIn("Resumed from", self.run_at().log())

    def test_gives_up_after_max_restarts(self):
        job = self.start_retrying(settings={**LONG, "parallel.data_parallel_size": 2}, retries=1)
        for attempt in 1, 2:
            self.attempt_at(job, attempt, step=100 * attempt)
            self.kill(job)
        result = self.assert_code(job, 137)
        self.assertTrue(result.errors.endswith(
            "longspan launch: giving up: restarted once, the limit of --max-restarts\n"), result.errors)
        self.assertEqual(self.lines()[-1][0], "error")
        self.assertRegex(self.longspan("list", ".").output, r"(?m)^./run +killed ")

    def test_gives_up_after_three_attempts_without_progress(self):
        # No step is logged or saved: each attempt fails where the one before did.
        job = self.start_retrying(settings={**LONG, "parallel.data_parallel_size": 2, "metrics.log_interval": 10 ** 6,
                                            "checkpoint.save_interval": 0},
                                  retries=9)
        for attempt in 1, 2, 3:
            # Each attempt logs the matmul peak before training.
            self.assertTrue(until(lambda: job.ended() or self.started_attempts() == attempt), job.errors())
            self.kill(job)
        result = self.assert_code(job, 137)
        self.assertIn("attempt 3 ended with code 137 before the first logged step, no checkpoint", result.errors)
        self.assertTrue(result.errors.endswith("longspan launch: giving up: 3 consecutive attempts made no progress beyond step 0\n"))

    def test_delay_grows_without_new_checkpoint(self):
        job = self.start_retrying(settings={**LONG, "parallel.data_parallel_size": 2, "checkpoint.save_interval": 0}, retries=2, wait=1)
        for attempt, step in (1, 20), (2, 40), (3, 60):
            self.attempt_at(job, attempt, step=step)
            self.kill(job)
        self.assert_code(job, 137)
        waits = [message for _, message in self.lines() if "restarting in" in message]
        self.assertEqual(waits, ["restarting in 1 s (restart 1 of 2)", "restarting in 2 s (restart 2 of 2)"])


class StopRequest(RetryTestCase):
    def test_stop_during_delay_ends_at_once(self):
        for number in signal.SIGINT, signal.SIGUSR1:
            with self.subTest(signal=number):
                settings = {**LONG, "parallel.data_parallel_size": 2}
                job = self.start_retrying(settings=settings, wait=600)
                self.attempt_at(job, 1, step=60)
                self.kill(job)
                self.assertTrue(until(lambda: "restarting in 600 s" in job.errors()))
                begin = time.monotonic()
                os.kill(job._process.pid, number)
                result = self.assert_code(job, 75)
                self.assertLess(time.monotonic() - begin, 5)
                self.assertTrue(result.errors.endswith(
                    "longspan launch: stopped before attempt 2 as requested; run the same command to resume\n"), result.errors)
                subprocess.run(["rm", "-r", self.run_at().path], check=True)

    def test_stopped_training_is_not_restarted(self):
        job = self.start_retrying(settings={**LONG, "parallel.data_parallel_size": 2})
        self.attempt_at(job, 1, step=5)
        os.kill(job._process.pid, signal.SIGTERM)
        result = self.assert_code(job, 75)
        self.assertNotIn("attempt", result.errors)
        self.assertEqual(self.lines(), [])

    def test_rank_killed_during_stop_is_not_restarted(self):
        job = self.start_retrying(settings={**LONG, "parallel.data_parallel_size": 2}, grace=None)
        self.attempt_at(job, 1, step=5)
        job.signal_rank(signal.SIGSTOP, 1)
        os.kill(job._process.pid, signal.SIGTERM)
        self.assertTrue(until(lambda: "stop requested" in job.errors()))
        self.kill(job)
        result = self.assert_code(job, 137)
        self.assertNotIn("attempt", result.errors)


class PermanentFailure(RetryTestCase):
    def test_is_not_restarted(self):
        for settings, code in ({"data.train": "gone.txt"}, 3), ({**jobs.DIVERGING, "parallel.data_parallel_size": 2}, 4):
            with self.subTest(code=code):
                result = self.assert_code(self.start_retrying(settings=settings), code)
                self.assertNotIn("attempt", result.errors)

    def test_rejects_invalid_arguments_before_starting(self):
        for words, parts in {("--max-restarts", "no"): ('--max-restarts: expected an integer from 1 to', 'found "no"'),
                             ("--max-restarts",): ("--max-restarts requires a number of restarts",),
                             ("--max-restarts", "2", "--restart-delay", "-1"): ('--restart-delay: expected an integer from 0 to 3600, found "-1"')}.items():
            with self.subTest(words=words):
                self.assert_one_sentence(self.longspan("launch", *words, "--", "train", "tiny.yaml", code=2), *parts)
        self.assert_one_sentence(self.longspan("launch", "--max-restarts", 2, "--", "config", "tiny.yaml", code=2),
                                 "--max-restarts requires the command train, found config")
        script = 'cat tiny.yaml | "$0" launch --max-restarts 1 -n 2 -- train /dev/stdin'
        job = jobs.Job("/bin/sh", ["-c", script, self.program], 1, self.directory)
        self.addCleanup(job.close)
        self.assert_one_sentence(self.assert_code(job, 2), "--max-restarts requires a config file")


class HostFailure(RetryTestCase):
    def start_retrying(self, *words, **options):
        return super().start_retrying(*words, **options, grace=None)

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs host names of its own, which only root can make")
        agent = self.directory / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        self.agent = ["--mca", "plm_rsh_agent", agent]
        self.gone = self.directory / "gone"
        self.gone.mkdir()
        before = os.environ.get("LONGSPAN_TEST_HOSTS")
        os.environ["LONGSPAN_TEST_HOSTS"] = str(self.gone)
        self.addCleanup(lambda: os.environ.pop("LONGSPAN_TEST_HOSTS") if before is None else None)

    def fail_host(self, job, host):
        """Marks the host as failed and kills its processes."""
        (self.gone / host).touch()
        for process, _ in jobs.processes_with(job.mark):
            try:
                name = subprocess.run(["nsenter", "--uts", "--target", str(process), "hostname"], capture_output=True,
                                      text=True).stdout.strip()
                if name == host:
                    os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_failed_host_is_excluded_until_it_responds(self):
        # With a low learning rate, rounding differences between layouts do not grow.
        settings = {"training.max_steps": 1200, "checkpoint.save_interval": 50, "parallel.data_parallel_size": 4,
                    "run.collective_timeout_seconds": 20,
                    "precision.compute_dtype": "float64", "training.learning_rate": 1e-4}
        self.train("whole", jobs.Layout(1, 1), {**settings, "parallel.data_parallel_size": 1})
        (self.directory / "hosts.txt").write_text("# two of them\nfirst slots=2\nsecond slots=2 max_slots=2\n")
        job = self.start_retrying(*self.agent, "--hostfile", "hosts.txt", ranks=4, settings=settings)
        self.attempt_at(job, 1, step=100)
        self.fail_host(job, "second")
        self.attempt_at(job, 2, step=200)
        (self.gone / "second").unlink()
        self.fail_host(job, "first")
        (self.gone / "first").unlink()
        self.assert_code(job, 0)
        lines = [message for _, message in self.lines()]
        self.assertRegex(lines[2], r"\Astarting attempt 2 on 2 ranks of first \(no answer from second within 10 s\): "
                                  r"2 of 4 ranks fit, with the same data.global_batch_size and "
                                  r"parallel.data_parallel_size=2, ")
        self.assertEqual(lines[5], "starting attempt 3 on 4 ranks of first, second")
        layouts = re.findall(r"on data (\d) x context", self.run_at().log())
        self.assertEqual([layouts[0], layouts[-1]], ["4", "4"])
        self.assertIn("2", layouts)
        whole, found = self.run_at("whole").metrics(), self.run_at().metrics()
        self.assertEqual([line["step"] for line in found], [line["step"] for line in whole])
        for line, other in zip(found, whole):
            self.assertLess(abs(line["loss"] - other["loss"]), 1e-9, line["step"])

    def test_waits_for_the_only_host(self):
        job = self.start_retrying(*self.agent, "--host", "first:2", settings={**LONG, "parallel.data_parallel_size": 2}, retries=2, wait=1)
        self.attempt_at(job, 1, step=60)
        self.fail_host(job, "first")
        result = job.wait()
        self.assertNotIn(result.code, (0, 75), result.errors)
        self.assertEqual(result.errors.count("longspan launch: no answer from first within 10 s"), 2, result.errors)
        self.assertTrue(result.errors.endswith(
            "longspan launch: giving up: restarted 2 times, the limit of --max-restarts\n"), result.errors)

    def test_host_failed_before_start_is_excluded(self):
        (self.gone / "second").touch()
        settings = {"training.max_steps": 4, "parallel.data_parallel_size": 2}
        job = self.start_retrying(*self.agent, "--host", "first:2,second:2", settings=settings, ranks=2)
        result = self.assert_code(job, 0)
        self.assertIn("starting attempt 2 on 2 ranks of first (no answer from second within 10 s)\n", result.errors)


if __name__ == "__main__":
    jobs.main()
