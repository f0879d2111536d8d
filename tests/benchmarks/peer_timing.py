"""Times of PyTorch and of benchmark programs, and their metrics."""

import os
import subprocess
import time

import torch


# Kernel paths of longspan on a GPU: prefix of the metrics, and the environment variables.
PATHS = {"": {}, "hopper-wgmma/": {"LONGSPAN_HOPPER_WGMMA": "1"}}


def paths():
    return PATHS if torch.cuda.get_device_capability() == (9, 0) else {"": {}}


def output_of(words, threads, environment={}):
    """Returns the output of a benchmark program, which shares standard error."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **environment)
    return subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def figure(name, value):
    """Prints a metric. launch/gpu-check has bounds for some."""
    print(f"metric {name} {value:.4f}", flush=True)


def seconds_of(call, device):
    """Returns seconds. On a GPU between two events, which exclude time of the host while the GPU is idle."""
    if device == "cpu":
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(10_000_000)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3
