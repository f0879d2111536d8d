#!/usr/bin/env python3
"""The program on an emulated GPU: output, training and resume as on the CPU, and errors without memory.

    tests/device/program_test.py EMULATED_PROGRAM PROGRAM [unittest's arguments]
"""

import os
import shutil
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout


class Device(jobs.TestCase):
    cpu_program = None
    on_gpu = {"run.device": "cuda", "precision.compute_dtype": "float64", "data.global_batch_size": 2,
              "training.max_steps": 4, "checkpoint.save_interval": 2}

    large = {"data.global_batch_size": 8, "data.seq_length": 128}

    @staticmethod
    def gpus(**what):
        """bytes: size of each GPU; free: reported free bytes; count: GPUs of the machine."""
        names = {"bytes": "LONGSPAN_EMULATED_GPU_BYTES", "free": "LONGSPAN_EMULATED_GPU_FREE", "count": "LONGSPAN_EMULATED_GPUS"}
        return mock.patch.dict(os.environ, {names[key]: str(value) for key, value in what.items()})

    def train_on_cpu(self, directory, settings, code=0):
        with mock.patch.object(jobs.TestCase, "program", self.cpu_program):
            return self.train(directory, settings={**settings, "run.device": "cpu"}, code=code)

    def test_training_matches_cpu_and_resumes_bit_exactly(self):
        output = self.train("gpu", settings=self.on_gpu).output
        self.assertIn("with GPU 0 on the first rank", output)
        self.train_on_cpu("cpu", self.on_gpu)
        gpu, cpu = self.run_at("gpu"), self.run_at("cpu")
        self.assertEqual(len(gpu.metrics()), 4)
        for found, expected in zip(gpu.metrics(), cpu.metrics()):
            self.assertEqual(found["step"], expected["step"])
            for key in "loss", "grad_norm":
                self.assertAlmostEqual(found[key], expected[key], delta=1e-9)
        state, metrics = gpu.state(4), gpu.metrics_bytes()
        shutil.rmtree(gpu.checkpoint(4))
        resumed = self.train("gpu", settings=self.on_gpu).output
        self.assertIn("at step 2", resumed)
        self.assertNotIn("to rounding", resumed)
        self.assertEqual(gpu.metrics_bytes(), metrics)
        self.assertEqual(gpu.state(4), state)
        shutil.rmtree(gpu.checkpoint(4))
        elsewhere = self.train_on_cpu("gpu", self.on_gpu).output
        self.assertRegex(elsewhere, "ZeRO 0 on cuda: results match up to rounding")
        for found, expected in zip(gpu.metrics(), cpu.metrics()):
            self.assertAlmostEqual(found["loss"], expected["loss"], delta=1e-9)

    def test_reports_unusable_gpu(self):
        with mock.patch.dict(os.environ, {"LONGSPAN_EMULATED_OLD_DRIVER": "1"}):
            output = self.train().output
            self.assertRegex(output, "Training on the CPU: rank 0: CUDA driver version is insufficient")
            chosen = self.train("cpu", settings={"run.device": "cpu"}).output
            self.assertNotIn("Training on the CPU", chosen)

    def test_rejects_run_that_exceeds_gpu_memory(self):
        for layout, whose in (Layout(1, 1), "; with "), (Layout(2, 1), " for each of the 2 ranks of a GPU; with "):
            with self.subTest(layout=str(layout)), self.gpus(bytes=36 << 20, count=1):
                result = self.train(layout=layout, settings={**self.on_gpu, **self.large}, code=2)
                self.assert_one_sentence(result, "a rank requires ", ", workspace ", ", but only ", " of GPU memory free" + whose)

    def test_out_of_memory_error_reports_usage_and_hints(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)), self.gpus(bytes=34 << 20, free=1 << 30):
                result = self.train(layout=layout, settings={**self.on_gpu, **self.large}, code=1)
                self.assert_one_sentence(result, "requested for ", "already allocated: weights ", "; by the plan, a rank requires ", "; with ", " it requires ")
                self.assertRegex(result.errors, r"longspan: rank [01]: out of GPU memory: [0-9.]+ [kM]?B")

    def test_rejects_nccl_if_ranks_share_a_gpu(self):
        settings = {**self.on_gpu, "parallel.gpu_backend": "nccl"}
        with self.gpus(count=1):
            self.assert_one_sentence(self.train(layout=Layout(2, 1), settings=settings, code=2), "parallel.gpu_backend: nccl is not available")
        self.train_on_cpu("cpu", settings, code=2)


if __name__ == "__main__":
    Device.cpu_program = os.path.abspath(sys.argv.pop(2))
    jobs.main()
