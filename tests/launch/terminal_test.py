#!/usr/bin/env python3
"""Terminal output of training: progress bar, width, colors, and plain output.

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
    """Returns the drawn status lines."""
    drawn = re.split(r"\r|\n", ESCAPE.sub("\r", text))
    return [line for line in drawn if re.match(r"(\[[#.]*\] )?\s*\d+%  ", line)]


class TerminalOutput(jobs.TestCase):
    def training(self, settings, environment=None, starter=(), columns=70):
        """Trains on a terminal of this width; 0: unknown width."""
        command = [*(starter or (self.program,)), "train", "tiny.yaml", *jobs.flat({**QUICK, **settings})]
        # The size is set before the program starts.
        script = f'stty cols {columns}; exec "$@"'
        terminal = Terminal(["sh", "-c", script, "sh", *command], self.directory, {"TERM": "xterm", **(environment or {})})
        self.addCleanup(terminal.close)
        return terminal

    def warning(self):
        """Returns settings that give a warning."""
        return {"training.max_steps": 8, "data.documents.chunk_length": 77}

    def test_bar_follows_terminal_width(self):
        terminal = self.training({})
        self.assertTrue(terminal.shows(r"% .*step \d+/"))
        until(lambda: len(bars(terminal.read())) > 4)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 69)
        resize(terminal, 31)
        # A bar of the old width may still follow.
        length = len(terminal.read())
        until(lambda: len(bars(terminal.read()[length:])) > 6)
        later = bars(terminal.text[length:])[2:-1]
        self.assertGreater(len(later), 2)
        self.assertLessEqual(max(map(len, later)), 30)
        self.assertIn("step", later[-1])
        # The rows of the old, wrapped bar are cleared once.
        self.assertEqual(len(re.findall(r"\x1b\[\dA\x1b\[J", terminal.text)), 1)
        os.kill(terminal.process.pid, signal.SIGUSR1)
        self.assertEqual(terminal.wait(), 75)
        self.assertIn("Stopped after step ", terminal.text)

    def test_unknown_width_defaults_to_columns_variable(self):
        terminal = self.training({"training.max_steps": 40}, {"COLUMNS": "33"}, columns=0)
        self.assertEqual(terminal.wait(), 0)
        self.assertGreater(len(bars(terminal.text)), 0)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 32)

    def test_launch_uses_width_of_its_terminal(self):
        terminal = self.training({"training.max_steps": 40, "parallel.data_parallel_size": 2}, starter=(self.program, "launch", "-n", 2, "--"),
                                 columns=37)
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertGreater(len(bars(terminal.text)), 0, terminal.text)
        self.assertLessEqual(max(map(len, bars(terminal.text))), 36)

    def test_colors_follow_no_color_and_term(self):
        colored = "\x1b[33mwarning:\x1b[0m "
        for environment, has_colors, has_bar in [
                ({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"NO_COLOR": ""}, False, True),
                ({"TERM": "dumb"}, False, False)]:
            with self.subTest(environment=environment):
                settings = {**self.warning(), "run.output_dir": f"run-{len(environment)}-{has_bar}-{'NO_COLOR' in environment}"
                                                              f"-{environment.get('NO_COLOR')}"}
                terminal = self.training(settings, environment)
                self.assertEqual(terminal.wait(), 0, terminal.text)
                self.assertIn("warning:", terminal.text)
                self.assertEqual(colored in terminal.text, has_colors)
                self.assertEqual("m" in {found[-1] for found in ESCAPE.findall(terminal.text)}, has_colors)
                self.assertEqual(len(bars(terminal.text)) > 0, has_bar)
                if not has_bar:
                    self.assertEqual(ESCAPE.findall(terminal.text), [])
                    self.assertIn("step 8/8", terminal.text)

    def test_prints_one_memory_value_and_wraps_at_words(self):
        terminal = self.training({"training.max_steps": 8, "run.output_dir": "runs/with-a-long-name"}, columns=44)
        self.assertEqual(terminal.wait(), 0, terminal.text)
        shown = ESCAPE.sub("", terminal.text).replace("\r", "")
        self.assertEqual(len(re.findall(r"Peak resident memory of rank 0: [\d.]+ MB\n", shown)), 1, shown)
        self.assertNotIn("activations", shown)
        log = (self.directory / "runs/with-a-long-name/log.txt").read_text()
        self.assertRegex(log, r"info Accounted for: [\d.]+ MB \(weights [\d.]+ MB, gradients .* program [\d.]+ MB\)\n")
        # Only words longer than the width exceed it.
        longer = [line for line in shown.split("\n") if len(line) > 43 and len(line.split()) > 1]
        self.assertEqual([line for line in longer if "%" not in line], [])
        self.assertIn("\n  ", shown)

    def test_pipe_output_is_plain(self):
        result = subprocess.run([self.program, "train", "tiny.yaml", *jobs.flat(self.warning())], cwd=self.directory,
                                env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "CUDA_VISIBLE_DEVICES": ""},
                                capture_output=True, text=True, timeout=jobs.MOST_SECONDS, check=False)
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        self.assertNotIn("\r", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^warning: ")
        self.assertIn("\nstep 8/8  loss ", result.stdout)


if __name__ == "__main__":
    jobs.main()
