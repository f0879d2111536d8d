#!/usr/bin/env python3
"""`longspan launch`: starts ranks, saves a checkpoint when stopped, and reports failures.

    tests/launch/launch_test.py build/launch/longspan
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import until

# Steps of several seconds, longer than the grace period of mpirun after a signal.
SLOW = {"model.num_hidden_layers": 8, "model.hidden_size": 256, "model.intermediate_size": 1024, "data.seq_length": 512, "model.mem_len": 0,
        "checkpoint.save_interval": 0, "training.max_steps": 1000}
QUICK = {"checkpoint.save_interval": 0, "training.max_steps": 10 ** 6}


class Terminal:
    """A command in the foreground of its own terminal, with its output."""

    def __init__(self, command, directory, environment=None):
        self.master, slave = pty.openpty()
        self.text = ""
        name, value = "LONGSPAN_TEST_JOB", f"terminal-{os.getpid()}-{time.monotonic()}."
        self.mark = f"{name}={value}"

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(word) for word in command], cwd=directory, stdin=slave, stdout=slave,
                                        stderr=slave, preexec_fn=take_terminal,
                                        env={"OMP_NUM_THREADS": "1", **os.environ, name: value, "TMPDIR": str(directory),
                                             "CUDA_VISIBLE_DEVICES": "", "OMPI_MCA_pml": "ob1",
                                             "OMPI_MCA_btl": "self,vader", **(environment or {})})
        os.close(slave)
        os.set_blocking(self.master, False)

    def read(self):
        try:
            while chunk := os.read(self.master, 65536):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass  # no output yet, or closed
        return self.text

    def shows(self, words, seconds=120):
        return until(lambda: re.search(words, self.read()) or self.process.poll() is not None, seconds) and \
            re.search(words, self.text)

    def type(self, keys):
        os.write(self.master, keys)

    def hang_up(self):
        os.close(self.master)
        self.master = None

    def wait(self, seconds=120):
        """Returns the exit code after all processes of the job have exited."""
        if self.master is not None:
            until(lambda: self.read() is None or self.process.poll() is not None, seconds)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.close()
            raise AssertionError(f"does not end; it said\n{self.text}") from None
        if self.master is not None:
            self.read()
        left = jobs.left_behind(self.mark)
        if left:
            raise AssertionError(f"still running: {left}")
        return code

    def close(self):
        while found := jobs.processes_with(self.mark):  # repeated for processes that started meanwhile
            for process, _ in found:
                with contextlib.suppress(ProcessLookupError):  # it has exited
                    os.kill(process, signal.SIGKILL)
            self.process.poll()
        self.process.wait()
        if self.master is not None:
            os.close(self.master)
            self.master = None


class LaunchTestCase(jobs.TestCase):
    def terminal(self, *words, environment=None):
        terminal = Terminal([self.program, "launch", *words], self.directory, environment)
        self.addCleanup(terminal.close)
        return terminal

    def training(self, ranks=2, settings=None, of=QUICK):
        settings = {**of, "parallel.data_parallel_size": ranks, **(settings or {})}
        return self.terminal("-n", ranks, "--", "train", "tiny.yaml", *jobs.flat(settings))

    def assert_saved(self, terminal):
        self.assertNotRegex(terminal.text, "(?i)abort|mpirun has|prterun|non-zero")
        run = self.run_at()
        self.assertEqual(len(run.steps()), 1)
        self.assertIn(f"Stopped after step {run.steps()[0]} as requested", run.log())
        self.longspan("verify", run.path)
        return run.steps()[0]


class LaunchStop(LaunchTestCase):
    def test_ctrl_c_in_long_step_saves_and_resumes(self):
        terminal = self.training(of=SLOW)
        self.assertTrue(terminal.shows(r"step [0-9]+/"), terminal.text)
        terminal.type(b"\x03")
        self.assertTrue(terminal.shows("stop requested; waiting for step [0-9]+, then for the checkpoint"),
                        terminal.text)
        self.assertEqual(terminal.wait(), 75, terminal.text)
        step = self.assert_saved(terminal)
        again = self.terminal("-n", 2, "--", "train", "tiny.yaml",
                              *jobs.flat({**SLOW, "parallel.data_parallel_size": 2, "training.max_steps": step + 1,
                                          "training.lr_scheduler.total_steps": 1000}))
        self.assertEqual(again.wait(), 0, again.text)
        self.assertIn(f"at step {step}", again.text)

    def test_closed_terminal_saves(self):
        terminal = self.training()
        self.assertTrue(terminal.shows(r"step [0-9]+/"), terminal.text)
        terminal.hang_up()
        self.assertEqual(terminal.wait(), 75)
        self.assert_saved(terminal)

    def test_signal_to_launcher_saves(self):
        for number in signal.SIGTERM, signal.SIGUSR1:
            with self.subTest(signal=number):
                terminal = self.training(settings={"run.output_dir": number.name})
                self.assertTrue(terminal.shows(r"step [0-9]+/"), terminal.text)
                terminal.process.send_signal(number)
                self.assertEqual(terminal.wait(), 75, terminal.text)
                self.assertEqual(len(self.run_at(number.name).steps()), 1)

    def test_single_rank_needs_no_mpirun(self):
        empty = self.directory / "empty"
        empty.mkdir()
        terminal = self.terminal("--", "train", "tiny.yaml", *jobs.flat({**QUICK, "parallel.data_parallel_size": 1}),
                                 environment={"PATH": str(empty)})
        self.assertTrue(terminal.shows(r"step [0-9]+/"), terminal.text)
        terminal.type(b"\x03")
        self.assertEqual(terminal.wait(), 75, terminal.text)
        self.assert_saved(terminal)

    def test_nohup_ignores_hangup(self):
        job = jobs.Job("/usr/bin/nohup", [self.program, "launch", "-n", "2", "--", "train", "tiny.yaml",
                                          *jobs.flat({**QUICK, "parallel.data_parallel_size": 2})], 1, self.directory)
        self.addCleanup(job.close)
        self.assertTrue(until(lambda: job.ended() or "step 2/" in job.output()), job.errors())
        launcher = job._process.pid
        os.kill(launcher, signal.SIGHUP)
        time.sleep(1)
        self.assertFalse(job.ended(), job.errors())
        self.assertNotIn("stop requested", job.errors())
        os.kill(launcher, signal.SIGTERM)
        self.assertEqual(job.wait().code, 75)

    def test_stops_with_unread_output(self):
        reads, writes = os.pipe()
        process = subprocess.Popen([self.program, "launch", "-n", "2", "--", "train", "tiny.yaml",
                                    *jobs.flat({**QUICK, "parallel.data_parallel_size": 2})], cwd=self.directory,
                                   stdin=subprocess.DEVNULL, stdout=writes, stderr=writes)
        self.addCleanup(process.kill)
        os.close(writes)
        with os.fdopen(reads, errors="replace") as output:
            self.assertTrue(any("step 2/" in line for line in output))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        self.assertEqual(len(self.run_at().steps()), 1)

    def test_killed_rank_is_reported(self):
        for ranks in 1, 2:
            with self.subTest(ranks=ranks):
                name = f"run-{ranks}"
                settings = {**QUICK, "parallel.data_parallel_size": ranks, "checkpoint.save_interval": 20, "run.output_dir": name}
                job = jobs.Job(self.program, ["launch", "-n", ranks, "--", "train", "tiny.yaml", *jobs.flat(settings)], 1,
                               self.directory)
                self.addCleanup(job.close)
                self.assertTrue(until(lambda: job.ended() or self.run_at(name).steps()), job.errors())
                ranks_of_job = [process for process, command in jobs.processes_with(job.mark)
                                if command.startswith(self.program) and " launch " not in command]
                os.kill(ranks_of_job[-1], signal.SIGKILL)
                result = job.wait()
                self.assertEqual(result.code, 137, result.errors)
                words = (r"longspan launch: a rank was killed by signal 9 \(Killed\) after step \d+, newest checkpoint at step \d+; "
                         r"run the same command to resume\n")
                self.assertEqual(len(re.findall(words, result.errors)), 1, result.errors)
                self.assertRegex(self.run_at(name).log(), " error " + words + r"\Z")
                listed = self.longspan("list", name).output
                self.assertRegex(listed, rf"(?m)^{name} +killed ")
                self.assertIn("a rank was killed by signal 9 (Killed)", listed)

    def test_killed_rank_with_config_from_pipe_is_reported(self):
        os.mkfifo(self.directory / "pipe.yaml")
        job = jobs.Job(self.program, ["launch", "-n", 1, "--", "train", "pipe.yaml",
                                      *jobs.flat({**QUICK, "checkpoint.save_interval": 20})], 1, self.directory)
        self.addCleanup(job.close)
        (self.directory / "pipe.yaml").write_text((self.directory / "tiny.yaml").read_text())
        self.assertTrue(until(lambda: job.ended() or self.run_at().steps()), job.errors())
        os.kill([process for process, command in jobs.processes_with(job.mark) if " launch " not in command][0], signal.SIGKILL)
        result = job.wait()
        self.assertEqual(result.code, 137, result.errors)
        self.assertEqual(result.errors.count("longspan launch: a rank was killed by signal 9 (Killed)"), 1, result.errors)

    def test_second_ctrl_c_ends_at_once(self):
        # A step takes much longer than the two seconds that mpirun leaves to ranks after its end.
        terminal = self.training(of={**SLOW, "model.hidden_size": 512, "model.intermediate_size": 2048})
        self.assertTrue(terminal.shows(r"step [0-9]+/", 300), terminal.text)
        terminal.type(b"\x03")
        self.assertTrue(terminal.shows("stop requested"), terminal.text)
        begin = time.monotonic()
        terminal.type(b"\x03")
        self.assertEqual(terminal.wait(), 130, terminal.text)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("ending the job now", terminal.text)
        self.assertEqual(self.run_at().steps(), [])

    def test_stop_before_training_reports_nothing_to_save(self):
        terminal = self.training()
        # Waits until the process handles or blocks the signal.
        status = Path("/proc") / str(terminal.process.pid) / "status"

        def handles_signal():
            masks = re.findall(r"Sig(?:Cgt|Blk):\s*(\w+)", status.read_text())
            return any(int(mask, 16) >> signal.SIGTERM - 1 & 1 for mask in masks)
        self.assertTrue(until(handles_signal, 120))
        terminal.process.send_signal(signal.SIGTERM)
        code = terminal.wait()
        self.assertEqual(code, 75, terminal.text)
        if not self.run_at().steps():
            self.assertIn("stopped before training started; nothing to save", terminal.text)

    def test_ranks_save_and_end_after_kill_of_launcher(self):
        terminal = self.training()
        self.assertTrue(terminal.shows(r"step [0-9]+/"), terminal.text)
        terminal.process.kill()
        self.assertTrue(until(lambda: not jobs.processes_with(terminal.mark), 60))
        self.assertEqual(len(self.run_at().steps()), 1)


class LaunchCommand(LaunchTestCase):
    def launch_command(self, *words, code=0):
        result = jobs.Job(self.program, ["launch", *words], 1, self.directory, self.grace if code else None)
        self.addCleanup(result.close)
        result = result.wait()
        self.assertEqual(result.code, code, result.output + result.errors)
        return result

    def test_returns_exit_code_and_single_error(self):
        few = jobs.flat({"training.max_steps": 2})
        self.assertIn("Finished: 2 steps", self.launch_command("-n", 2, "--", "train", "tiny.yaml", *few).output)
        self.assertIn("bits per byte", self.launch_command("-n", 2, "--", "evaluate", "run", "--data", "text.txt").output)
        jobs.damage(self.run_at().checkpoint(2) / "rank-00000.h5")
        result = self.launch_command("-n", 2, "--", "verify", "run", code=3)
        self.assertRegex(result.errors, r"\Alongspan: [^\n]*\n\Z")

    def test_rejects_invalid_arguments_before_starting(self):
        for words, part in {
                ("-n", "2"): "and a command, found none",
                ("-n", "two", "--", "train", "tiny.yaml"): '-n: expected an integer from 1 to ',
                ("-n", "0", "--", "train", "tiny.yaml"): 'found "0"',
                ("-n",): "requires a number of ranks",
                ("--", "tran", "tiny.yaml"): 'did you mean "train"',
                ("--", "launch", "--", "train", "tiny.yaml"): "cannot be nested",
                ("-n", "2", "--", "train", "none.yaml"): "none.yaml",
                ("-n", "2", "--", "train", "tiny.yaml", "--set", "model.hidden_size=x"): "model.hidden_size",
                ("-n", "2", "--", "train", "tiny.yaml", "--wrong"): "--wrong"}.items():
            with self.subTest(words=words):
                self.assert_one_sentence(self.launch_command(*words, code=2), part)

    def test_starts_as_many_ranks_as_config_requires(self):
        words = jobs.flat({"training.max_steps": 2, "parallel.data_parallel_size": 2, "parallel.tensor_parallel_size": 2})
        self.assertIn("data 2 x context 1 x tensor 2", self.launch_command("--", "train", "tiny.yaml", *words).output)

    def test_accepts_config_from_stdin(self):
        script = 'cat tiny.yaml | "$0" launch -n 2 -- train /dev/stdin --set training.max_steps=2 --set parallel.data_parallel_size=2'
        job = jobs.Job("/bin/sh", ["-c", script, self.program], 1, self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 0, result.output + result.errors)

    def test_ends_with_ignored_sigchld(self):
        script = 'trap "" CHLD; exec "$0" launch -n 2 -- config tiny.yaml'
        job = jobs.Job("/bin/bash", ["-c", script, self.program], 1, self.directory)
        self.addCleanup(job.close)
        self.assertEqual(job.wait().code, 0)

    def test_passes_options_to_mpirun(self):
        result = self.launch_command("-n", 2, "--tag-output", "--", "config", "tiny.yaml")
        self.assertIn("[1,0]<stdout>:", result.output)

    def test_help_describes_command(self):
        for words in ("--help",), ("-n", "2", "--help"):
            self.assertIn("-- COMMAND", self.launch_command(*words).output)

    def test_missing_mpirun_is_reported(self):
        job = jobs.Job("/usr/bin/env", ["PATH=/nowhere", self.program, "launch", "-n", "2", "--", "train", "tiny.yaml"], 1,
                       self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 1)
        self.assertRegex(result.errors, r"mpirun.*not found")


class LaunchTimeouts(LaunchTestCase):
    """Jobs that wait for many seconds. They start before all tests of this file, and these tests, the last ones, end them."""

    def setUp(self):
        """Creates no directory."""

    def test_remote_stop_waits_for_daemons_of_mpirun(self):
        for variable in REMOTE:
            with self.subTest(variable=variable):
                terminal, asked = _waiting[variable]
                self.assertEqual(terminal.wait(), 75, terminal.text)
                requested = (_waiting["directory"] / variable / "requested").stat().st_mtime
                self.assertGreater(requested - asked, 5, terminal.text)

    def test_stops_ranks_that_hang_at_startup(self):
        if "hang" not in _waiting:
            self.skipTest("needs a file system that is too small, which only root can make")
        terminal = _waiting["hang"]
        self.assertTrue(terminal.shows("MPI_INIT"), terminal.text)
        self.assertTrue(terminal.shows(r"no rank has started after 30 s; .*\(/dev/shm: "), terminal.text)
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(30), 75, terminal.text)
        self.assertIn("nothing to save", terminal.text)


REMOTE = ("OMPI_MCA_orte_default_hostfile", "SLURM_JOB_ID")  # each makes a job remote
_waiting = {}


def _start_remote(directory, variable):
    """mpirun treats an earlier signal as an error. A stub of mpirun starts nothing and stops at SIGUSR1."""
    directory.mkdir()
    (directory / "mpirun").write_text("#!/bin/sh\ntrap 'touch requested; exit 75' USR1\necho begun\nwhile :; do sleep 0.1; done\n")
    (directory / "mpirun").chmod(0o755)
    return Terminal([jobs.TestCase.program, "launch", "-n", "2", "--", "train", "../tiny.yaml"], directory,
                    {"PATH": f"{directory}:{os.environ['PATH']}", variable: "1"})


def _start_hanging(directory):
    """Its ranks find a file system that is too small."""
    script = 'mount -t tmpfs -o size=64k none /dev/shm && mount -t tmpfs -o size=64k none small && exec "$0" "$@"'
    (directory / "small").mkdir()
    return Terminal(["unshare", "-m", "sh", "-c", script, jobs.TestCase.program, "launch", "-n", "2", "--", "train", "tiny.yaml",
                     *jobs.flat({**QUICK, "parallel.data_parallel_size": 2})], directory, {"TMPDIR": str(directory / "small")})


def setUpModule():
    """Starts the jobs of LaunchTimeouts."""
    directory = Path(tempfile.mkdtemp(prefix="longspan-test-"))
    unittest.addModuleCleanup(shutil.rmtree, directory)
    _waiting["directory"] = directory
    jobs.write_text(directory / "text.txt")
    (directory / "tiny.yaml").write_text(json.dumps({**LaunchTestCase.sections, "data": {
        **LaunchTestCase.sections["data"], "train": str(directory / "text.txt")}}))
    if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        _waiting["hang"] = _start_hanging(directory)
        unittest.addModuleCleanup(_waiting["hang"].close)
    for variable in REMOTE:
        terminal = _start_remote(directory / variable, variable)
        unittest.addModuleCleanup(terminal.close)
        shown = terminal.shows("begun")
        terminal.type(b"\x03")
        _waiting[variable] = terminal, time.time()
        if not (shown and terminal.shows("waiting for the ranks, then")):
            raise AssertionError(terminal.text)


if __name__ == "__main__":
    jobs.main()
