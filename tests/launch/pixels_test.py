#!/usr/bin/env python3
"""Image generation: training, resuming, evaluation and sampling.

    tests/launch/pixels_test.py build/launch/longspan
"""

import json
import math
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import images_test
import jobs
from images_test import SIDE, idx, idx_labels


def read_png(content):
    """Returns the rows of an 8-bit grayscale image."""
    width, height, bits, kind = struct.unpack(">IIBB", content[16:26])
    assert (bits, kind) == (8, 0)
    data, offset = b"", 8
    while offset < len(content):
        length, name = struct.unpack(">I4s", content[offset:offset + 8])
        data += content[offset + 8:offset + 8 + length] if name == b"IDAT" else b""
        offset += 12 + length
    lines, rows = zlib.decompress(data), []
    for y in range(height):
        kind, line = lines[y * (width + 1)], list(lines[y * (width + 1) + 1:(y + 1) * (width + 1)])
        above = rows[-1] if rows else [0] * width
        for x in range(width):
            left, corner = (line[x - 1], above[x - 1]) if x else (0, 0)
            guess = left + above[x] - corner
            nearest = min((left, above[x], corner), key=lambda value: abs(guess - value))
            line[x] = (line[x] + [0, left, above[x], (left + above[x]) // 2, nearest][kind]) % 256
        rows.append(line)
    return rows


class ImageGeneration(images_test.TestCase):
    task = {"run.task": "image_generation", "data.format": "images", "data.train": "train.images", "data.train_target": "train.labels",
            "data.validation": "validation.images", "data.validation_target": "validation.labels",
            "model.family": "image_transformer", "model.attention.layer_types": "[local_1d, local_2d]",
            "model.attention.local_1d.block_length": 12,
            "model.attention.local_1d.filter_width": 12, "model.attention.local_2d.query_shape": "[2, 4]",
            "model.attention.local_2d.memory_flange": "[2, 2]",
            "model.class_conditional": True, "data.global_batch_tokens": 400}

    def test_resumes_on_any_layout(self):
        self.assert_resumes_on_any_layout(["loss", "bits_per_dim"])

    def test_png_folders_equal_idx_files(self):
        self.train("idx", settings=self.task)
        self.train("png", settings={**self.task, **self.folders()})
        self.assertEqual(self.run_at("png").metrics_bytes(), self.run_at("idx").metrics_bytes())

    def test_unconditional_model_needs_no_labels(self):
        unlabeled = {**self.task, "data.train_target": "", "data.validation_target": "", "model.class_conditional": False}
        self.train("without", settings=unlabeled)
        self.assert_one_sentence(self.train("asked", settings={**unlabeled, "model.class_conditional": True}, code=3),
                                 "model.class_conditional: an image has no class")
        self.train("with", settings={**self.task, "model.class_conditional": False})
        self.assertEqual(self.run_at("without").metrics_bytes(), self.run_at("with").metrics_bytes())

    def test_unconditional_model_ignores_labels(self):
        self.folders()
        self.train("without", settings={**self.task, "data.train_target": "", "data.validation_target": "",
                                        "model.class_conditional": False})
        loss = json.loads(self.longspan("evaluate", "without", "--json").output)["loss"]
        for data in ["--data", "validation.images", "--data-target", "validation.labels"], ["--data", "validation"]:
            found = self.longspan("evaluate", "without", "--json", *data).output
            self.assertAlmostEqual(json.loads(found)["loss"], loss, delta=1e-12)
        # Training ignores unknown validation labels, too.
        self.bytes("validation.labels", idx_labels([7] * 13))
        self.train("others", settings={**self.task, "model.class_conditional": False})
        self.assertEqual(self.run_at("others").metrics_bytes(), self.run_at("without").metrics_bytes())
        self.assert_one_sentence(self.train("classes", settings=self.task, code=3),
                                 'validation.labels: unknown label "7", expected one of the 3 of training')
        self.train("known", settings={**self.task, "data.validation": "", "data.validation_target": ""})
        self.assert_one_sentence(self.longspan("evaluate", "known", "--data", "validation.images", "--data-target",
                                               "validation.labels", code=3), 'unknown label "7", expected one of the 3 of training')

    def test_evaluates_and_samples_images(self):
        self.train(settings={**self.task, "training.max_steps": 60, "checkpoint.save_interval": 0, "model.dropout": 0,
                             "training.validation.interval": 30})
        lines = [line for line in self.run_at().metrics() if "validation_loss" in line]
        for line in lines:
            self.assertAlmostEqual(line["validation_bits_per_dim"], line["validation_loss"] / math.log(2), places=12)
        self.assertLess(lines[-1]["validation_bits_per_dim"], 7.5)
        self.assertIn("bits per dim", self.longspan("evaluate", "run").output)
        for ranks in 1, 2:
            self.longspan("generate", "run", "--image-sheet", f"sheet{ranks}.png", "--num-samples", "5", "--class", "1", "--class", "2", ranks=ranks)
        sheet = (self.directory / "sheet1.png").read_bytes()
        self.assertEqual(sheet, (self.directory / "sheet2.png").read_bytes())
        rows = read_png(sheet)
        self.assertEqual((len(rows), len(rows[0])), (2 + 2 * (SIDE + 2), 2 + 3 * (SIDE + 2)))
        self.longspan("generate", "run", "--image-sheet", "all1.png", "--num-samples", "5", "--class", "1")
        of_both, of_one = ([row[2:2 + 2 * (SIDE + 2)] for row in some[2:2 + SIDE]]
                           for some in (rows, read_png((self.directory / "all1.png").read_bytes())))
        self.assertEqual([row[:SIDE] for row in of_both], [row[:SIDE] for row in of_one])  # the first image has class 1 in both
        self.assertNotEqual([row[SIDE + 2:] for row in of_both], [row[SIDE + 2:] for row in of_one])
        images = self.parts["validation"][0]
        self.longspan("generate", "run", "--image-sheet", "completed.png", "--num-samples", "2", "--inpaint", "validation.images",
                      "--class", "1", "--temperature", "0.9")
        rows = read_png((self.directory / "completed.png").read_bytes())
        for number in 0, 1:
            top, left = 2 + number * (SIDE + 2), 2
            whole = [row[left:left + SIDE] for row in rows[top:top + SIDE]]
            completed = [row[left + SIDE + 2:left + 2 * SIDE + 2] for row in rows[top:top + SIDE]]
            self.assertEqual(whole, images[number])
            self.assertEqual(completed[:SIDE // 2], whole[:SIDE // 2])
            self.assertNotEqual(completed[SIDE // 2:], whole[SIDE // 2:])
        for arguments, code, part in ((["--image-sheet", "x.png", "--class", "9"], 2, 'unknown class "9" (choices: 0, 1, 2)'),
                                      (["--image-sheet", "x.png", "--inpaint", "validation.images"], 2, "requires the classes of the images to complete; set --class"),
                                      ([], 2, "run.task: image_generation requires --image-sheet"),
                                      (["--input", "x"], 2, "--input does not support run.task: image_generation; use --image-sheet"),
                                      (["--image-sheet", "x.png", "--inpaint", "none.png"], 3, "none.png")):
            with self.subTest(part):
                self.assert_one_sentence(self.longspan("generate", "run", *arguments, code=code), part)

    def test_enlarges_sources(self):
        settings = {**self.task, "model.class_conditional": False, "model.source_size": 3, "model.num_encoder_layers": 1}
        self.train(settings={**settings, "training.max_steps": 4, "checkpoint.save_interval": 2, "metrics.enable_tensorboard": True,
                             "metrics.num_images": 2, "training.validation.interval": 2})
        self.assertIn("bits per dim", self.longspan("evaluate", "run").output)
        images = self.parts["validation"][0]
        step = SIDE // 3
        small = [[[sum(image[y][x] for y in range(step * row, step * row + step) for x in range(step * column, step * column + step))
                   // step ** 2 for column in range(3)] for row in range(3)] for image in images]
        self.bytes("small.images", idx(small))
        for ranks in 1, 2:
            self.longspan("generate", "run", "--image-sheet", f"large{ranks}.png", "--num-samples", "2", "--upscale", "validation.images", ranks=ranks)
        sheet = (self.directory / "large1.png").read_bytes()
        self.assertEqual(sheet, (self.directory / "large2.png").read_bytes())
        self.longspan("generate", "run", "--image-sheet", "small.png", "--num-samples", "2", "--upscale", "small.images")
        def cells(name, row):
            rows = read_png((self.directory / name).read_bytes())
            top = 2 + row * (SIDE + 2)
            return [[line[left:left + SIDE] for line in rows[top:top + SIDE]] for left in range(2, len(rows[0]), SIDE + 2)]
        for row in 0, 1:
            source, sample, original = cells("large1.png", row)
            self.assertEqual(source, [[small[row][y // step][x // step] for x in range(SIDE)] for y in range(SIDE)])
            self.assertEqual(original, images[row])
        # Equal sources yield equal samples; a small file has no originals.
        self.assertEqual(cells("small.png", 0), cells("large1.png", 0)[:2])
        for arguments, code, part in ((["--image-sheet", "x.png"], 2, "requires images to enlarge; set --upscale"),
                                      (["--image-sheet", "x.png", "--inpaint", "validation.images"], 2, "does not complete images"),
                                      (["--image-sheet", "x.png", "--upscale", "none.png"], 3, "none.png")):
            with self.subTest(part):
                self.assert_one_sentence(self.longspan("generate", "run", *arguments, code=code), part)

    def test_rejects_incompatible_settings(self):
        for settings, part in (({"data.format": "text"}, "run.task: image_generation requires data.format: images"),
                               ({"model.family": "encoder"}, "run.task"),
                               ({"model.tie_word_embeddings": True}, "model.tie_word_embeddings: model.family: image_transformer does not support it"),
                               ({"model.norm.type": "powernorm"}, "model.norm.type: model.family: image_transformer does not support powernorm"),
                               ({"model.source_size": 3}, "model.class_conditional: true cannot be combined with model.source_size"),
                               ({"model.source_size": 7, "model.class_conditional": False},
                                f"model.source_size: expected at most {SIDE} (images of {SIDE} x {SIDE} x 1), found 7"),
                               ({"model.attention.local_2d.query_shape": "[2]"},
                                "model.attention.local_2d.query_shape: expected 2 elements"),
                               ({"model.attention.local_2d.query_shape": "[0, 2]"}, "model.attention.local_2d.query_shape"),
                               ({"model.family": "decoder", "run.task": "language_modeling"}, "requires model.family image_transformer")):
            with self.subTest(part):
                self.assertIn(part, self.train(settings={**self.task, **settings}, code=2).errors)

    def test_plan_predicts_peak_memory(self):
        settings = {**self.task, "data.global_batch_tokens": 2000, "metrics.log_timing": True, "data.validation": "",
                    "data.validation_target": "",
                    "parallel.data_parallel_size": 1}
        output = self.longspan("plan", "tiny.yaml", *jobs.flat(settings)).output
        self.train(settings=settings)
        held = self.run_at().metrics()[-1]["peak_memory_bytes"]
        self.assertAlmostEqual(jobs.bytes_of(output, "peak"), held, delta=0.1 * held)


if __name__ == "__main__":
    jobs.main()
