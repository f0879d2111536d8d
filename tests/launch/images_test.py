#!/usr/bin/env python3
"""Image classification on IDX files and folders of PNG: training, resuming, evaluation, prediction, invalid data.

    tests/launch/images_test.py build/launch/longspan
"""

import json
import random
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
import tasks_test

SIDE = 6


def png(rows):
    """Returns a grayscale PNG."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(row) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def idx(images):
    return struct.pack(">4B3I", 0, 0, 8, 3, len(images), len(images[0]), len(images[0][0])) + bytes(
        value for image in images for row in image for value in row)


def idx_labels(labels):
    return struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + bytes(labels)


def drawn(count, seed):
    """Returns images that are bright at the top (0), at the left (1) or nowhere (2), and their classes, sorted."""
    source = random.Random(seed)
    labels = sorted(source.randrange(3) for _ in range(count))
    def value(label, y, x):
        is_bright = (label == 0 and y < SIDE // 2) or (label == 1 and x < SIDE // 2)
        return (200 if is_bright else 20) + source.randrange(8)
    return [[[value(label, y, x) for x in range(SIDE)] for y in range(SIDE)] for label in labels], labels


class TestCase(tasks_test.TestCase):
    """Provides IDX files of such images for training and validation."""

    def setUp(self):
        super().setUp()
        self.parts = {"train": drawn(60, 1), "validation": drawn(13, 2)}
        for part, (images, labels) in self.parts.items():
            self.bytes(f"{part}.images", idx(images))
            self.bytes(f"{part}.labels", idx_labels(labels))

    def bytes(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def folders(self):
        for part, (images, labels) in self.parts.items():
            for number, (image, label) in enumerate(zip(images, labels)):
                self.bytes(f"{part}/{label}/{number:03}.png", png(image))
        return {"data.train": "train", "data.validation": "validation", "data.train_target": "", "data.validation_target": ""}


class ImageClassification(TestCase):
    task = {"run.task": "classification", "data.format": "images", "data.train": "train.images", "data.train_target": "train.labels",
            "data.validation": "validation.images", "data.validation_target": "validation.labels", "model.pooling": "mean",
            "model.position_embedding_type": "learned", "data.global_batch_tokens": 400}
    learning = {**task, "training.max_steps": 200, "checkpoint.save_interval": 0, "model.dropout": 0,
                "training.validation.interval": 0}

    def test_resumes_on_any_layout(self):
        self.assert_resumes_on_any_layout(["loss", "accuracy", "macro_f1"])

    def test_png_folders_equal_idx_files(self):
        folders = self.folders()
        self.train("idx", settings=self.task)
        self.train("png", settings={**self.task, **folders})
        self.assertEqual(self.run_at("png").metrics_bytes(), self.run_at("idx").metrics_bytes())
        self.assertIn("60 images of 6 x 6 x 1 with 3 classes", self.run_at("png").log())
        self.train("png", settings={**self.task, **folders, "training.max_steps": 12})
        self.assertNotIn("another text", self.run_at("png").log())

    def test_evaluates_and_predicts_classes(self):
        self.train(settings=self.learning)
        images, labels = drawn(9, 3)
        self.bytes("test.images", idx(images))
        self.bytes("test.labels", idx_labels(labels))
        for ranks in 1, 2:
            found = json.loads(self.longspan("evaluate", "run", "--data", "test.images", "--data-target", "test.labels", "--json",
                                             ranks=ranks).output)
            self.assertEqual(found["accuracy"], 100)
        self.bytes("one.png", png(images[-1]))
        self.write("paths.txt", "one.png\n\ntest.images\n")
        for ranks in 1, 2:
            output = self.longspan("generate", "run", "--input", "paths.txt", ranks=ranks).output
            self.assertEqual(output.splitlines(), ["2", ""] + [str(label) for label in labels])
        self.bytes("wide.png", png([row + [0] for row in images[0]]))
        self.write("paths.txt", "one.png\nwide.png\n")
        self.assert_one_sentence(self.longspan("generate", "run", "--input", "paths.txt", code=3),
                                 "paths.txt:2: wide.png: expected images of 6 x 6 x 1, found 6 x 7 x 1")
        self.write("paths.txt", "none.png\n")
        self.assert_one_sentence(self.longspan("generate", "run", "--input", "paths.txt", code=3), "paths.txt:1: none.png: ")
        self.bytes("test.images", idx([[row + [0] for row in image] for image in images]))
        self.assert_one_sentence(self.longspan("evaluate", "run", "--data", "test.images", "--data-target", "test.labels", code=3),
                                 "test.images: expected images of 6 x 6 x 1, found 6 x 7 x 1")
        self.assert_one_sentence(self.longspan("evaluate", "run", "--data", "test.images", code=3), "a file of images requires a file of labels")

    def test_rejects_invalid_idx_files(self):
        images, labels = self.parts["train"]
        self.bytes("train.images", idx(images)[:-1])
        self.refused({}, "train.images: truncated: expected 2160 bytes of images, as in the header, found 2159")
        self.bytes("train.images", idx(images[:-1]))
        self.refused({}, "train.images: has 59 images, but train.labels has 60 labels")
        self.bytes("train.images", idx(images))
        self.bytes("validation.labels", idx_labels([3] * 13))
        self.refused({}, 'validation.labels: unknown label "3", expected one of the 3 of training')
        self.bytes("validation.labels", idx_labels(self.parts["validation"][1]))
        self.bytes("validation.images", idx([[row + [0] for row in image] for image in self.parts["validation"][0]]))
        self.refused({}, "validation.images: expected images of 6 x 6 x 1, found 6 x 7 x 1")
        self.refused({"data.train_target": ""}, "train.images: a file of images requires a file of labels")
        self.refused({"data.max_length": 35},
                     "data.max_length: expected at least 36 (images of 6 x 6 x 1 cannot be truncated), found 35")
        self.refused({"data.global_batch_tokens": 36},
                     "train.images: image 0: expected at most data.global_batch_tokens")

    def test_rejects_invalid_png_folders(self):
        folders = self.folders()
        image, label = self.parts["train"][0][7], self.parts["train"][1][7]
        name = f"train/{label}/007.png"
        self.bytes(name, png(image)[:-20])
        self.refused(folders, f"{name}: truncated")
        self.bytes(name, png(image[:-1]))
        self.refused(folders, f"{name}: expected an image of 6 x 6 x 1, the shape of 0/000.png, found 5 x 6 x 1")

    def test_resume_requires_same_image_shape_and_format(self):
        self.train(settings={**self.task, "training.max_steps": 4})
        for part, (images, _) in self.parts.items():
            self.bytes(f"{part}.images", idx([[row + [0] for row in image] for image in images]))
        self.assertIn("train.images: expected images of 6 x 6 x 1, found 6 x 7 x 1",
                      self.train(settings=self.task, code=3).errors)
        text = {**self.task, "data.format": "text", "data.train": "classes.txt"}
        text.update({f"data.{key}": "" for key in ("train_target", "validation", "validation_target")})
        tasks_test.write_classes(self.directory / "classes.txt", 9, 1)
        self.assertIn("data.format: checkpoint has images, config has text", self.train(settings=text, code=2).errors)

    def test_rejects_settings_incompatible_with_images(self):
        for settings, part in (({"data.tokenizer.type": "char"}, "data.tokenizer.type cannot be combined with data.format: images"),
                               ({"data.validation": ""}, "data.validation_target requires data.validation"),
                               ({"run.task": "tagging"},
                                "data.format: images requires run.task: classification or image_generation, found tagging")):
            with self.subTest(part):
                self.assertIn(part, self.train(settings={**self.task, **settings}, code=2).errors)

    def test_plan_predicts_peak_memory(self):
        settings = {**self.task, "data.global_batch_tokens": 2000, "metrics.log_timing": True, "data.validation": "",
                    "data.validation_target": "",
                    "parallel.data_parallel_size": 1}
        output = self.longspan("plan", "tiny.yaml", *jobs.flat(settings)).output
        self.assertIn("encoder float64, images in batches of 2000 tokens on 1 rank", output)
        self.train(settings=settings)
        held = self.run_at().metrics()[-1]["peak_memory_bytes"]
        planned = jobs.bytes_of(output, "peak")
        self.assertAlmostEqual(planned, held, delta=0.1 * held)


if __name__ == "__main__":
    jobs.main()
