#!/usr/bin/env python3
"""Resuming a run after its training text has changed.

    tests/launch/changed_text_test.py build/launch/longspan
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

WARNING = "warning: text.txt differs from the text that the checkpoint was trained on"


class ChangedText(jobs.TestCase):
    def setUp(self):
        super().setUp()
        jobs.write_text(self.directory / "text.txt", words=700000)
        self.assertGreater((self.directory / "text.txt").stat().st_size, 3_000_000)

    def change_a_byte(self):
        """Changes a byte between two of the 256 sampled blocks, to a character of the vocabulary."""
        path = self.directory / "text.txt"
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 256 * 100 + 8000)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(b"a" if byte != b"a" else b"e")
        self.touch()  # with an unchanged modification time

    def touch(self):
        os.utime(self.directory / "text.txt", (1e9, 1e9))

    def test_change_of_same_size_is_reported(self):
        for kind in "byte", "char":
            for layout in Layout(1, 1), Layout(2, 1):
                with self.subTest(kind=kind, layout=str(layout)):
                    name = f"{kind}-{layout.ranks}"

                    def train_to(steps):
                        settings = {"data.tokenizer.type": kind, "training.max_steps": steps, "training.lr_scheduler.total_steps": 100}
                        return self.train(name, layout, settings).output

                    train_to(1)
                    self.touch()
                    output = train_to(2)
                    self.assertIn("at step 1", output)
                    self.assertNotIn("warning", output)
                    self.change_a_byte()
                    self.assertIn(WARNING, train_to(3))
                    # Later checkpoints record the changed text.
                    self.assertNotIn("warning", train_to(4))


if __name__ == "__main__":
    jobs.main()
