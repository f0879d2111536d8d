"""How long a piece of PyTorch takes: on a GPU by events, which leave out what the host does."""

import time

import torch


def seconds_of(call, device):
    if device == "cpu":
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3
