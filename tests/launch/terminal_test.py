#!/usr/bin/env python3
"""What training shows on a terminal: it fits, follows the width, and is plain where colours and bars are not wanted.

    tests/launch/terminal_test.py build/launch/longspan
"""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import until
from launch_test import QUICK, Terminal

for variable in "NO_COLOR", "COLUMNS":
    os.environ.pop(variable, None)

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def resize(terminal, columns):
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))


def bars(text):
    """The status lines that were drawn."""
    drawn = re.split(r"\r|\n", ESCAPE.sub("\r", text))
    return [line for line in drawn if re.match(r"(\[[#.]*\] )?\s*\d+%  ", line)]


class Screen(jobs.TestCase):
    def training(self, settings, environment=None, starter=(), columns=70):
        """On a terminal of that many columns; 0: it does not say."""
        command = [*(starter or (self.program,)), "train", "tiny.yaml", *jobs.flat({**QUICK, **settings})]
        # The size is set before the program begins.
        script = f'stty cols {columns}; exec "$@"'
        terminal = Terminal(["sh", "-c", script, "sh", *command], self.directory, {"TERM": "xterm", **(environment or {})})
        self.addCleanup(terminal.close)
        return terminal

    def warned(self):
        """Settings of a run that warns."""
        return {"training.max_steps": 8, "data.documents.chunk_length": 77}

    def test_the_bar_fits_and_follows_the_width(self):
        terminal = self.training({})
        self.assertTrue(terminal.shows(r"% .*step \d+/"))
        until(lambda: len(bars(terminal.read())) > 4)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 69)
        resize(terminal, 31)
        # One may have been drawn before.
        seen = len(terminal.read())
        until(lambda: len(bars(terminal.read()[seen:])) > 6)
        later = bars(terminal.text[seen:])[2:-1]
        self.assertGreater(len(later), 2)
        self.assertLessEqual(max(map(len, later)), 30)
        self.assertIn("step", later[-1])
        # The old bar had been wrapped: its rows are cleared, once.
        self.assertEqual(len(re.findall(r"\x1b\[\dA\x1b\[J", terminal.text)), 1)
        os.kill(terminal.process.pid, signal.SIGUSR1)
        self.assertEqual(terminal.wait(), 75)
        self.assertIn("Stopped after step ", terminal.text)

    def test_a_terminal_that_does_not_say_has_the_columns_of_the_environment(self):
        terminal = self.training({"training.max_steps": 40}, {"COLUMNS": "33"}, columns=0)
        self.assertEqual(terminal.wait(), 0)
        self.assertGreater(len(bars(terminal.text)), 0)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 32)

    def test_under_mpirun_the_width_is_that_of_its_terminal(self):
        terminal = self.training({"training.max_steps": 40, "parallel.data_parallel_size": 2}, starter=(self.program, "launch", "-n", 2, "--"),
                                 columns=37)
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertGreater(len(bars(terminal.text)), 0, terminal.text)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 36)

    def test_colours_are_for_terminals_that_want_them(self):
        coloured = "\x1b[33mwarning:\x1b[0m "
        for environment, has_colours, has_bar in [
                ({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"NO_COLOR": ""}, False, True),
                ({"TERM": "dumb"}, False, False)]:
            with self.subTest(environment=environment):
                settings = {**self.warned(), "run.output_dir": f"run-{len(environment)}-{has_bar}-{'NO_COLOR' in environment}"
                                                              f"-{environment.get('NO_COLOR')}"}
                terminal = self.training(settings, environment)
                self.assertEqual(terminal.wait(), 0, terminal.text)
                self.assertIn("warning:", terminal.text)
                self.assertEqual(coloured in terminal.text, has_colours)
                self.assertEqual("m" in {found[-1] for found in ESCAPE.findall(terminal.text)}, has_colours)
                self.assertEqual(len(bars(terminal.text)) > 0, has_bar)
                if not has_bar:
                    self.assertEqual(ESCAPE.findall(terminal.text), [])
                    self.assertIn("step 8/8", terminal.text)

    def test_memory_is_one_figure_and_no_word_is_broken(self):
        terminal = self.training({"training.max_steps": 8, "run.output_dir": "runs/with-a-long-name"}, columns=44)
        self.assertEqual(terminal.wait(), 0, terminal.text)
        shown = ESCAPE.sub("", terminal.text).replace("\r", "")
        self.assertEqual(len(re.findall(r"Peak memory of this rank: [\d.]+ MB\n", shown)), 1, shown)
        self.assertNotIn("activations", shown)
        log = (self.directory / "runs/with-a-long-name/log.txt").read_text()
        self.assertRegex(log, r"info Accounted for: [\d.]+ MB \(weights [\d.]+ MB, gradients .* program [\d.]+ MB\)\n")
        # Only a word that is longer than the terminal is wide takes more.
        longer = [line for line in shown.split("\n") if len(line) > 43 and len(line.split()) > 1]
        self.assertEqual([line for line in longer if "%" not in line], [])
        self.assertIn("\n  ", shown)

    def test_a_pipe_has_plain_lines(self):
        result = subprocess.run([self.program, "train", "tiny.yaml", *jobs.flat(self.warned())], cwd=self.directory,
                                env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "CUDA_VISIBLE_DEVICES": ""},
                                capture_output=True, text=True, timeout=jobs.MOST_SECONDS, check=False)
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        self.assertNotIn("\r", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^warning: ")
        self.assertIn("\nstep 8/8  loss ", result.stdout)


if __name__ == "__main__":
    jobs.main()
