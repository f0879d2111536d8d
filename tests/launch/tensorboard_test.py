#!/usr/bin/env python3
"""Metrics of a run in TensorBoard, Prometheus, and export files for Weights & Biases and MLflow.

    tests/launch/tensorboard_test.py build/launch/longspan

A small reader checks event files, and so does TensorBoard if launch/setup --reference-implementations has installed it.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import images_test
import jobs
import pixels_test
from jobs import Layout, until


def crc32c(data):
    rest = 0xffffffff
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82f63b78 if rest & 1 else 0)
    return rest ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(content, checked):
    """Yields the data of each complete record; verifies checksums of the first `checked` records."""
    offset = 0
    while offset + 12 <= len(content):
        length, = struct.unpack_from("<Q", content, offset)
        data = content[offset + 12:offset + 12 + length]
        if offset + 16 + length > len(content):
            return
        if checked > 0:
            assert struct.unpack_from("<I", content, offset + 8)[0] == masked(content[offset:offset + 8])
            assert struct.unpack_from("<I", content, offset + 12 + length)[0] == masked(data)
            checked -= 1
        yield data
        offset += 16 + length


def varint(data, offset):
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset


def fields(data):
    """Returns (field number, value) of a protobuf message; fixed-width values are floats."""
    offset, found = 0, []
    while offset < len(data):
        key, offset = varint(data, offset)
        kind = key & 7
        if kind == 0:
            value, offset = varint(data, offset)
        elif kind == 2:
            length, offset = varint(data, offset)
            value, offset = data[offset:offset + length], offset + length
            assert len(value) == length
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[kind]
            value, offset = struct.unpack_from(form, data, offset)[0], offset + size
        found.append((key >> 3, value))
    return found


class Event:
    def __init__(self, data):
        every = fields(data)
        of = dict(every)
        self.time, self.step, self.version, self.begins = of[1], of[2], of.get(3), 7 in of
        self.values = {}  # by tag: the fields of a value
        for number, value in fields(of.get(5, b"")):
            assert number == 1
            value = fields(value)
            self.values[dict(value)[1].decode()] = dict(value)


def events_of(run, checked=3):
    """Returns the events of all files in order."""
    files = sorted((run.path / "tensorboard").iterdir())
    return [Event(data) for file in files for data in records(file.read_bytes(), checked)]


def scalars(events):
    """Returns {tag: [(step, value)]}."""
    found = {}
    for event in events:
        for tag, value in event.values.items():
            if 2 in value:
                found.setdefault(tag, []).append((event.step, value[2]))
    return found


def histograms(events):
    """Returns {(tag, step): (fields, upper bucket limits, counts)}."""
    found = {}
    for event in events:
        for tag, value in event.values.items():
            if 5 in value:
                of = dict(fields(value[5]))
                ends, counts = (struct.unpack(f"<{len(of[i]) // 8}d", of[i]) for i in (6, 7))
                found[tag, event.step] = of, ends, counts
    return found


def single(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


BOARD = {"metrics.enable_tensorboard": True}


def tags_of(line):
    """Returns {tag: number} for a line of metrics.jsonl."""
    times = "tokens_per_second", "mfu"
    found = {}
    for name, value in line.items():
        if name == "step":
            continue
        group = ("time" if name in times or name.endswith("_seconds") else "validation" if name.startswith("validation_") else
                 "memory" if name == "peak_memory_bytes" else "training")
        found[group + "/" + (name.removeprefix("validation_") if group == "validation" else name)] = value
    return found


class TensorBoard(jobs.TestCase):
    def assert_as_metrics(self, run):
        """Checks that every number of metrics.jsonl is one event of its step."""
        expected = {}
        for line in run.metrics():
            for tag, value in tags_of(line).items():
                expected.setdefault(tag, []).append((line["step"], single(value)))
        self.assertEqual(scalars(events_of(run)), expected)

    def train_with_all(self, directory="run", layout=Layout(1, 1), **more):
        return self.train(directory, layout, {**BOARD, "data.validation": "text.txt", "training.validation.interval": 4,
                                              "training.validation.max_batches": 2, **more})

    def test_scalars_match_metrics(self):
        for layout in Layout(1, 1), Layout(2, 1):
            name = f"run-{layout.ranks}"
            self.train_with_all(name, layout, **{"metrics.log_timing": True, "metrics.log_interval": 2})
            self.assert_as_metrics(self.run_at(name))
            found = scalars(events_of(self.run_at(name)))
            for tag in ("training/loss", "training/learning_rate", "validation/loss", "validation/bits_per_byte",
                        "time/step_seconds", "time/tokens_per_second", "memory/peak_memory_bytes"):
                self.assertIn(tag, found)

    def test_starts_with_version_session_and_config(self):
        self.train_with_all()
        version, session, text, keys = events_of(self.run_at())[:4]
        self.assertEqual(version.version, b"brain.Event:2")
        self.assertTrue(session.begins)
        self.assertEqual(session.step, 1)
        configuration = dict(fields(text.values["configuration"][8]))[8].decode()
        self.assertEqual("".join(line[4:] for line in configuration.splitlines(True)),
                         (self.run_at().path / "config.yaml").read_text())
        plugin = dict(fields(dict(fields(keys.values["_hparams_/session_start_info"][9]))[1]))
        self.assertEqual(plugin[1], b"hparams")
        found = {}
        for number, entry in fields(dict(fields(plugin[2]))[3]):
            if number == 1:
                of = dict(fields(entry))
                found[of[1].decode()] = fields(of[2])[0]
        self.assertEqual(found["model.hidden_size"], (2, 16.0))
        self.assertEqual(found["model.family"], (3, b"transformer_xl"))
        self.assertEqual(found["metrics.enable_tensorboard"], (4, 1))

    def test_histograms_cover_full_weights_on_every_layout(self):
        expected = None
        for layout, zero in (Layout(1, 1), 0), (Layout(2, 2), 0), (Layout(1, 2, 2, True), 1), (Layout(4, 1), 2):
            name = f"run-{layout}-{zero}".replace(" ", "")
            self.train_with_all(name, layout, **{"metrics.histogram_interval": 3, "metrics.log_interval": 2, "parallel.zero_stage": zero,
                                                 "precision.compute_dtype": "float64"})
            self.assert_as_metrics(self.run_at(name))
            found = histograms(events_of(self.run_at(name), 0))
            expected = expected or found
            self.assertEqual(found.keys(), expected.keys())
            for key, (of, ends, counts) in found.items():
                self.assertEqual(sum(counts), of[3])
                self.assertEqual(counts, expected[key][2], key)
                self.assertEqual(ends, expected[key][1], key)
                for i in range(1, 6):
                    self.assertAlmostEqual(of[i], expected[key][0][i], delta=1e-9 * max(1, abs(of[i])))
        self.assertEqual({step for _, step in expected}, {3, 6})
        of, _, _ = expected["weights/embedding/weight", 3]
        self.assertEqual(of[3] % 16, 0)
        self.assertEqual({tag.split("/", 1)[1] for tag, _ in expected if tag.startswith("weights/")},
                         {tag.split("/", 1)[1] for tag, _ in expected if tag.startswith("gradients/")})

    def killed_and_resumed(self, layout=Layout(1, 1)):
        settings = {**BOARD, "training.max_steps": 100000, "checkpoint.save_interval": 7, "metrics.histogram_interval": 5,
                    "metrics.export": "[wandb, mlflow]"}
        job = self.start_training("run", layout, settings)
        run = self.run_at()
        until(lambda: job.ended() or (len(run.steps()) >= 2 and run.metrics_bytes().count(b"\n") > run.steps()[-1] + 2))
        self.assertFalse(job.ended(), job.errors())
        job.signal(signal.SIGKILL, "all")
        job.wait()
        for event in events_of(run):  # existing events are readable
            self.assertGreater(event.time, 0)
        last = run.steps()[-1]
        self.train("run", layout, {**settings, "training.max_steps": last + 6, "checkpoint.resume_from": "auto"})
        return run, last

    def test_each_step_appears_once_after_kill(self):
        for layout in Layout(1, 1), Layout(1, 2):
            with self.subTest(layout=str(layout)):
                run, last = self.killed_and_resumed(layout)
                self.assert_as_metrics(run)
                logged = [step for step, _ in scalars(events_of(run))["training/loss"]]
                self.assertEqual(logged, list(range(1, last + 7)))
                self.assertEqual([event.step for event in events_of(run) if event.begins], [1, last + 1])
                run.path.rename(self.directory / f"moved-{layout.ranks}")

    def test_exports_match_metrics(self):
        run, last = self.killed_and_resumed()
        wandb = [json.loads(line) for line in (run.path / "export/wandb.jsonl").read_text().splitlines()]
        self.assertEqual([line["_step"] for line in wandb], [line["step"] for line in run.metrics()])
        for line, metrics in zip(wandb, run.metrics()):
            self.assertGreater(line.pop("_timestamp"), 1.7e9)
            self.assertEqual({"_step": metrics["step"], **tags_of(metrics)}, line)
        mlflow = [json.loads(line) for line in (run.path / "export/mlflow.jsonl").read_text().splitlines()]
        self.assertEqual([(line["step"], line["key"], line["value"]) for line in mlflow],
                         [(line["step"], tag, value) for line in run.metrics() for tag, value in tags_of(line).items()])
        for line in mlflow:
            self.assertEqual(line.keys(), {"key", "value", "timestamp", "step"})
            self.assertIsInstance(line["timestamp"], int)
        self.train("plain")
        self.assertFalse((self.run_at("plain").path / "export").exists())
        self.assertFalse((self.run_at("plain").path / "tensorboard").exists())

    def test_new_run_renames_earlier_output(self):
        more = {**BOARD, "metrics.export": "[wandb]", "checkpoint.save_interval": 0, "training.max_steps": 1000000}
        job = self.start_training(settings=more)
        run = self.run_at()
        until(lambda: job.ended() or ((run.path / "metrics.jsonl").exists() and len(run.metrics_bytes()) > 2000))
        job.signal(signal.SIGKILL, "all")
        job.wait()
        self.train(settings={**more, "training.max_steps": 3})
        self.assert_as_metrics(run)
        names = {path.name.split(".before-")[0] for path in run.path.glob("*.before-*")}
        self.assertEqual(names, {"metrics.jsonl", "tensorboard", "export"})

    def test_resume_without_tensorboard_truncates_lost_steps(self):
        saving = {"checkpoint.save_interval": 2, "checkpoint.keep_latest": 9, "training.max_steps": 6}
        self.train(settings={**BOARD, **saving, "metrics.export": "[wandb, mlflow]"})
        run = self.run_at()
        shutil.rmtree(run.checkpoint(6))
        self.train(settings={**saving, "training.max_steps": 7})
        self.assertEqual([step for step, _ in scalars(events_of(run))["training/loss"]], [1, 2, 3, 4])
        for service, key in ("wandb", "_step"), ("mlflow", "step"):
            lines = (run.path / "export" / f"{service}.jsonl").read_text().splitlines()
            self.assertEqual({json.loads(line)[key] for line in lines}, {1, 2, 3, 4}, service)

    def test_unwritable_output_ends_run(self):
        for key, value, name in (("metrics.enable_tensorboard", True, "tensorboard"), ("metrics.export", "[wandb]", "export")):
            run = self.run_at(f"run-{name}")
            run.path.mkdir()
            (run.path / name).write_text("a file in its place\n")
            result = self.train(run.path.name, settings={key: value}, code=1)
            self.assert_one_sentence(result, f"run-{name}/{name}: cannot be created")
        self.assert_one_sentence(self.train("other", settings={"metrics.export": "[wandb, sacred]"}, code=2),
                                 'metrics.export', "sacred", "mlflow")

    def test_full_disk_ends_run(self):
        settings = jobs.flat({**BOARD, "metrics.histogram_interval": 1, "training.max_steps": 1000, "checkpoint.save_interval": 0})
        script = ["-c", f"ulimit -f 200; exec {self.program} train tiny.yaml {' '.join(settings)}"]
        job = jobs.Job("/bin/bash", script, 1, self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 1, result.errors)
        self.assert_one_sentence(result, "run/tensorboard/events.out.tfevents.")
        self.assertRegex(result.errors, "File too large|bytes; check whether the disk is full")
        last = self.run_at().metrics()[-1]["step"]
        logged = [event for event in events_of(self.run_at(), 0) if "training/loss" in event.values]
        self.assertEqual(len(logged), last - 1)

    def test_warns_of_unused_keys(self):
        output = self.train(settings={"metrics.histogram_interval": 5, "metrics.prometheus_address": "127.0.0.2"}).output
        self.assertIn("metrics.histogram_interval is ignored: metrics.enable_tensorboard is false", output)
        self.assertIn("metrics.prometheus_address is ignored: metrics.prometheus_port is 0", output)

    def test_tensorboard_loads_events(self):
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers").absolute()
        if not list(peers.glob("lib/python3*/site-packages/tensorboard")):
            self.skipTest(f"{peers} has no tensorboard; launch/setup --reference-implementations makes it with that")
        run, last = self.killed_and_resumed()
        script = jobs.SOURCE / "tests" / "peers" / "tensorboard_reads.py"
        result = subprocess.run([peers / "bin" / "python", script, run.path / "tensorboard"], capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        expected = {}
        for line in run.metrics():
            for tag, value in tags_of(line).items():
                expected.setdefault(tag, []).append([line["step"], single(value)])
        self.assertEqual(found["scalars"], expected)
        self.assertEqual(found["texts"]["configuration"], [1, last + 1])
        steps = list(range(5, last + 7, 5))
        self.assertEqual({tuple(of) for of in found["histograms"].values()}, {tuple(steps)})
        self.assertEqual(found["hyper_parameters"]["model.hidden_size"], 16)


class TensorBoardImages(images_test.TestCase):
    def test_samples_are_logged_as_images(self):
        task = {**pixels_test.ImageGeneration.task, **BOARD, "training.max_steps": 4, "training.validation.interval": 2}
        self.train(settings={**task, "metrics.num_images": 3})
        found = [event for event in events_of(self.run_at(), 0) if "samples/0" in event.values]
        self.assertEqual([event.step for event in found], [2, 4])
        for event in found:
            for i in range(3):
                image = dict(fields(event.values[f"samples/{i}"][4]))
                self.assertEqual((image[1], image[2], image[3]), (images_test.SIDE, images_test.SIDE, 1))
                self.assertEqual(len(pixels_test.read_png(image[4])), images_test.SIDE)
        # Sampling does not change training.
        self.train("without", settings={**task})
        self.assertEqual(self.run_at("without").metrics_bytes(), self.run_at().metrics_bytes())
        # Non-finite weights give no images; the run ends as diverged.
        worse = {**task, **jobs.DIVERGING, "training.learning_rate": 1e300, "training.validation.interval": 1,
                 "metrics.num_images": 1}
        self.assert_one_sentence(self.train("worse", settings=worse, code=4), "training diverged")
        last = self.run_at("worse").metrics()[-1]
        self.assertIsNone(last["validation_loss"])
        drawn = {event.step for event in events_of(self.run_at("worse"), 0) if "samples/0" in event.values}
        self.assertNotIn(last["step"], drawn)
        refused = self.train("divided", Layout(1, 1, 2), {**task, "metrics.num_images": 3}, code=2)
        self.assert_one_sentence(refused, "metrics.num_images: parallel.context_parallel_size: expected 1, found 2")


class Prometheus(jobs.TestCase):
    def fetch(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                lines = answer.read().decode().splitlines()
        except urllib.error.URLError:
            return {}
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def start_endless(self, name, layout, port):
        return self.start_training(name, layout, {"training.max_steps": 1000000, "checkpoint.save_interval": 0, "metrics.log_timing": True,
                                                  "metrics.prometheus_port": port})

    def test_running_run_exposes_metrics(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                name, port = f"run-{layout.ranks}", free_port()
                job = self.start_endless(name, layout, port)
                found = until(lambda: job.ended() or next(
                    (all for all in [self.fetch(port)] if any(key.startswith("longspan_loss") for key in all)), None))
                self.assertFalse(job.ended(), job.errors())
                run_id, = {key.split('run="')[1].split('"')[0] for key in found if key.startswith("longspan_")}
                for key in "step", "loss", "tokens_total", "tokens_per_second", "learning_rate", "peak_memory_bytes":
                    self.assertIn(f'longspan_{key}{{run="{run_id}"}}', found)
                step = found[f'longspan_step{{run="{run_id}"}}']
                self.assertEqual(found[f'longspan_tokens_total{{run="{run_id}"}}'], 64 * step)
                # The run continues, and another run cannot use the port.
                other = self.train("other", Layout(1, 1), {"metrics.prometheus_port": port}, code=2)
                self.assert_one_sentence(other, f"metrics.prometheus_port: cannot listen on port {port}", "Address already in use")
                self.assertFalse((self.run_at("other").path / "metrics.jsonl").exists())
                refused = self.train("others", Layout(2, 1), {"metrics.prometheus_port": port}, code=2)
                self.assert_one_sentence(refused, f"metrics.prometheus_port: cannot listen on port {port}")
                self.assertTrue(until(lambda: self.fetch(port).get(f'longspan_step{{run="{run_id}"}}', 0) > step))
                # Signals stop the training, and an idle connection does not delay its end.
                with socket.create_connection(("127.0.0.1", port)):
                    job.signal(signal.SIGUSR1)
                    self.assertEqual(job.wait().code, 75)
                self.assertEqual(self.fetch(port), {})


if __name__ == "__main__":
    jobs.main()
