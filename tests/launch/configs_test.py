#!/usr/bin/env python3
"""Every file of configs/ resolves as written, documents its purpose, and trains in a reduced size.

    tests/launch/configs_test.py build/launch/longspan
"""

import math
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import images_test
import jobs
from jobs import SOURCE, Layout

# Settings of a small model, without the keys that a file's family lacks.
SMALL = {"model.num_hidden_layers": 2, "model.hidden_size": 16, "model.num_attention_heads": 4, "model.head_dim": 4,
         "model.intermediate_size": 32,
         "model.mem_len": 8, "model.vocab_size": "none", "model.max_position_embeddings": 64,
         "model.attention.sliding_window": 3, "model.attention.stride": 4, "model.attention.summary.num_columns": 1,
         "model.attention.global_local.block_size": 1, "data.global_batch_size": 8, "data.seq_length": 8, "data.tokenizer.vocab_size": 285,
         "training.max_steps": 3, "training.lr_scheduler.warmup_steps": 1, "training.lr_scheduler.total_steps": "none",
         "training.validation.max_batches": 1,
         "checkpoint.save_interval": 2, "metrics.log_interval": 1, "run.num_threads": 1,
         "data.train": "text.txt", "data.validation": "text.txt", "data.test": "text.txt", "run.output_dir": "run"}
# Additional settings of translation. The text is one line, truncated in training and not in decoding.
SMALL_PAIRS = {"data.train_target": "text.txt", "data.validation_target": "text.txt", "data.test_target": "text.txt",
               "data.max_length": 64, "data.overlong_examples": "truncate", "data.global_batch_tokens": 1024,
               "training.validation.interval": 3,
               "training.validation.num_decoded_examples": 0}
# Files of labeled examples, by task.
LABELED = {"classification": "".join(f"{i % 3}\tthe number {i}\n" for i in range(60)),
           "tagging": "".join(f"the\tdeterminer\nnumber\tnoun\n{i}\tdigits\n\n" for i in range(60)),
           "behavior_cloning": "t_maze length 12\n", "reinforcement_learning": "t_maze length 12\n"}
# Images cannot be truncated.
SMALL_IMAGES = {"data.train": "images.idx", "data.train_target": "labels.idx", "data.validation": "images.idx",
                "data.validation_target": "labels.idx", "data.test": "images.idx", "data.test_target": "labels.idx",
                "data.max_length": 1024, "model.max_position_embeddings": "none", "data.global_batch_tokens": 256,
                "training.validation.interval": 3}


class ConfigFiles(jobs.TestCase):
    files = sorted((SOURCE / "configs").glob("*.yaml"))

    def test_quickstart_exists(self):
        self.assertIn("quickstart.yaml", [file.name for file in self.files])

    def resolved(self, file):
        """Returns the keys of the resolved file."""
        keys = set()
        section = []
        for line in self.longspan("config", file).output.splitlines():
            found = re.match(r"( *)(\w+):", line)
            if found:
                section[len(found[1]) // 2:] = [found[2]]
                keys.add(".".join(section))
        return keys

    def labeled(self, task):
        """Returns settings that read labeled examples of the task."""
        if task not in LABELED:
            return {}
        (self.directory / f"{task}.txt").write_text(LABELED[task])
        return {**{f"data.{part}": f"{task}.txt" for part in ("train", "validation", "test")}, "data.tokenizer.type": "byte",
                "data.max_length": 56, "data.global_batch_tokens": 1024, "training.validation.interval": 3}

    def train_small(self, file, layout, directory, other=None):
        keys = self.resolved(file)
        text = Path(file).read_text()
        task = re.search(r"\n  task: (\w+)\n", text)
        pairs = dict(SMALL_PAIRS) if task and task[1] == "translation" else self.labeled(task and task[1])
        if "\n  format: images\n" in text:
            (self.directory / "images.idx").write_bytes(images_test.idx(images_test.drawn(9, 1)[0]))
            (self.directory / "labels.idx").write_bytes(images_test.idx_labels(images_test.drawn(9, 1)[1]))
            pairs = dict(SMALL_IMAGES)
            if "\n  source_size: " in text:
                pairs["model.source_size"] = 3
        if types := re.search(r"\n    layer_types: \[(.*)\]\n", text):
            pairs["model.num_hidden_layers"] = max(2, len(types[1].split(",")))
        if "bptt_chunk_length" in text:
            pairs["memory.bptt_chunk_length"] = 3
        if "model_type: word" in text:
            pairs["data.tokenizer.vocab_size"] = 275  # the text has few words
        settings = {**SMALL, **pairs, "run.output_dir": directory, **(other or {})}
        settings = {key: value for key, value in settings.items() if key in keys}
        self.assertIn("training.max_steps", settings)
        self.assertIn("data.train", settings)
        result = self.longspan("train", file, *jobs.flat({**settings, **layout.settings()}), ranks=layout.ranks)
        run = self.run_at(directory)
        lines = run.metrics()
        self.assertEqual([line["step"] for line in lines], [1, 2, 3])
        for line in lines:
            self.assertLess(line.get("loss_loss", line["loss"]), 2 * math.log(256))  # without auxiliary losses
        measured = "validation_episode_reward_mean" if "\n  task: reinforcement_learning\n" in text else "validation_loss"
        self.assertIn(measured, lines[-1])
        self.assertEqual(run.steps(), [2, 3])
        return result.output

    def test_each_file_trains(self):
        for file in self.files:
            with self.subTest(file=file.name):
                self.train_small(file, Layout(1, 1), file.stem)

    def test_comparison_in_header_trains(self):
        """Applies the setting of a header such as "Expect: ... (KEY=VALUE)"; ignored keys give a warning."""
        compared = 0
        for file in self.files:
            named = re.search(r"(?s)# Expect: .*?\((model\.attention\.layer_types)=(\w+)\)", file.read_text())
            if not named:
                continue
            compared += 1
            with self.subTest(file=file.name, setting=named[0]):
                output = self.train_small(file, Layout(1, 1), f"{file.stem}-compared", {named[1]: named[2]})
                self.assertRegex(output, r"warning: \S+: model\.[\w.]+ is ignored: no layer of model\.attention\.layer_types has ")
        self.assertGreaterEqual(compared, 4)

    def test_some_files_train_on_several_ranks(self):
        for name, layout in ("quickstart", Layout(2, 1)), ("tiny", Layout(2, 2)), ("tiny-decoder", Layout(1, 2)):
            with self.subTest(file=name, layout=str(layout)):
                self.train_small(SOURCE / "configs" / f"{name}.yaml", layout, name)

    def test_header_commands_have_valid_settings(self):
        for file in self.files:
            header = re.match(r"(#.*\n)*", file.read_text())[0].replace(" \\\n#", "")
            commands = re.findall(r"build/launch/longspan (?:launch -n \d+ -- )?(train|evaluate|generate) (.*)", header)
            self.assertIn("train", [command for command, _ in commands], file.name)
            for _, words in commands:
                words = shlex.split(words)
                settings = [word for flag, word in zip(words, words[1:]) if flag == "--set"]
                with self.subTest(file=file.name, settings=settings):
                    self.assertIn(file.stem, words[0])
                    self.longspan("config", file, *(word for setting in settings for word in ("--set", setting)))

    def test_headers_state_purpose_cost_and_expectation(self):
        for file in self.files:
            with self.subTest(file=file.name):
                text = file.read_text()
                self.assertTrue(text.startswith("# Shows: "))
                for word in "Costs", "Expect":
                    self.assertRegex(text, rf"(?m)^# {word}: .")
                self.assertIn(f"configs/{file.name}", text, "how it is started")


if __name__ == "__main__":
    jobs.main()
