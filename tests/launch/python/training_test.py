"""Training in one process.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import jobs
import longspan as package
from conftest import MODEL

CONFIGURATION = {"run": {"output_dir": "given", "num_threads": 1}, "model": MODEL, "data": {"global_batch_size": 4, "seq_length": 8},
                 "training": {"max_steps": 12, "learning_rate": 0.01, "lr_scheduler": {"warmup_steps": 2}},
                 "checkpoint": {"save_interval": 4},
                 "metrics": {"log_interval": 1, "log_timing": False}}


def documents(count=300):
    source = numpy.random.default_rng(3)
    return [source.integers(97, 117, size=length) for length in source.integers(0, 40, size=count)]


class Enough(Exception):
    pass


def stopping_at(step):
    def tell(metrics):
        if metrics["step"] == step:
            raise Enough

    return tell


def losses(run):
    return package.Run(run).metrics["loss"].tolist()


def state(run, step):
    return jobs.Run(run).state(step)["tensors"]


def test_config_file_trains_as_with_program(longspan):
    longspan("train", "tiny.yaml", "--set", "run.output_dir=theirs")
    logged = []
    run = package.train("tiny.yaml", {"run.output_dir": "mine"}, on_step=logged.append, quiet=True)
    assert (str(run.path), run.state) == ("mine", "finished")
    assert state("mine", 8) == state("theirs", 8)
    assert [metrics["step"] for metrics in logged] == list(range(1, 9))
    assert [metrics["loss"] for metrics in logged] == losses("mine") == losses("theirs")
    assert {"tokens", "learning_rate", "grad_norm"} <= set(logged[0])


def test_dict_trains_as_its_file(directory):
    sections = json.loads((directory / "tiny.yaml").read_text())
    package.train("tiny.yaml", {"run": {"output_dir": "file"}}, quiet=True)
    keys = {f"{section}.{key}": value for section, values in sections.items() for key, value in values.items()}
    package.train({**keys, "run.output_dir": "keys", "training": {"max_steps": 8}}, quiet=True)
    again = package.train(package.Run("file").config, {"run.output_dir": directory / "again"}, quiet=True)
    assert state("file", 8) == state("keys", 8) == state("again", 8)
    assert again.config["model"] == package.Run("file").config["model"]


def test_quiet_suppresses_standard_output(capfd):
    package.train("tiny.yaml", {"training.max_steps": 1}, quiet=True)
    assert capfd.readouterr().out == ""
    package.train("tiny.yaml", {"training.max_steps": 2})
    assert "Finished: 2 steps" in capfd.readouterr().out


def test_config_errors_name_keys():
    with pytest.raises(package.ConfigurationError) as caught:
        package.train({**CONFIGURATION, "training": {"stepz": 1}, "data": {"train": "text.txt", "global_batch_size": "many"}})
    assert "training.stepz" in str(caught.value) and "data.global_batch_size" in str(caught.value)
    with pytest.raises(package.ConfigurationError, match="training.max_steps"):
        package.train("tiny.yaml", {"training.max_steps": -1})
    for sections in ({"run": None, "run.output_dir": "x"}, {"run.output_dir": "x", "run": None}):
        with pytest.raises(package.ConfigurationError, match="run with the value None cannot be combined with"):
            package.train(sections)
    with pytest.raises(TypeError, match="unsupported configuration value"):
        package.train("tiny.yaml", {"training.max_steps": object()})


def test_divergence_raises_and_sets_state():
    with pytest.raises(package.DivergenceError, match="training diverged") as caught:
        package.train("tiny.yaml", jobs.DIVERGING, quiet=True)
    assert caught.value.exit_code == 4
    assert package.Run("run").state == "diverged"


def test_documents_resume_exactly():
    package.train(CONFIGURATION, data=documents(), quiet=True)
    opened = []

    def from_cursor(cursor):
        opened.append(cursor)
        return iter(documents()[cursor.document:])

    for name, data in (("list", documents), ("iterator", lambda: iter(documents())), ("function", lambda: from_cursor)):
        with pytest.raises(Enough):
            package.train(CONFIGURATION, {"run.output_dir": name}, data=data(), on_step=stopping_at(5), quiet=True)
        assert package.Run(name).state == "stopped"
        assert package.Run(name).step in (5, 6)
        package.train(CONFIGURATION, {"run.output_dir": name}, data=data(), quiet=True)
        assert losses(name) == losses("given")
        assert state(name, 12) == state("given", 12)
    assert opened[0] == package.DataPosition(epoch=0, document=0)
    assert len(opened) == 2 and opened[1].document > 0


def test_lists_repeat_and_iterators_end_the_run():
    package.train(CONFIGURATION, data=documents(10), quiet=True)
    with pytest.raises(package.DataError, match="ended before the last step and can be read only once.*stopped after step [0-9]+, which is saved"):
        package.train(CONFIGURATION, {"run.output_dir": "once"}, data=iter(documents(10)), quiet=True)
    ended = package.Run("once")
    assert ended.state == "failed" and "the program's data ended before the last step" in ended.end_reason
    last = ended.step
    assert 0 < last < 12 and ended.checkpoints[-1] == last
    assert losses("once") == losses("given")[:last]
    package.train(CONFIGURATION, {"run.output_dir": "once"}, data=documents(10), quiet=True)  # resumes exactly
    assert state("once", 12) == state("given", 12)
    # With a save at each step, no later step verifies the last asynchronous save.
    with pytest.raises(package.DataError, match="stopped after step [0-9]+, which is saved"):
        package.train(CONFIGURATION, {"run.output_dir": "each", "checkpoint.save_interval": 1}, data=iter(documents(10)), quiet=True)
    each = package.Run("each")
    assert each.step == last and each.checkpoints[-1] == last


def test_data_exception_propagates():
    def broken():
        yield [97] * 60
        raise Enough("no more")

    with pytest.raises(Enough, match="no more"):
        package.train(CONFIGURATION, data=broken(), quiet=True)
    assert package.Run("given").state == "failed"
    assert "Enough: no more" in package.Run("given").end_reason


def test_on_step_exception_is_context_of_save_error():
    def replace_directory_and_raise(metrics):
        if metrics["step"] == 3:
            shutil.rmtree("given/checkpoints", ignore_errors=True)
            Path("given/checkpoints").write_text("a file where the directory was")
            raise Enough

    with pytest.raises(package.Error, match="checkpoints") as caught:
        package.train(CONFIGURATION, data=documents(), on_step=replace_directory_and_raise, quiet=True)
    assert isinstance(caught.value.__context__, Enough)


def test_iterators_cannot_roll_back():
    changes = {"run.output_dir": "once", "training.learning_rate": 1e30, "training.max_grad_norm": 0,
               "training.lr_scheduler.warmup_steps": 0,
               "training.max_consecutive_skips": 3, "training.max_rollbacks": 1}
    with pytest.raises(package.DivergenceError, match="training diverged: .*cannot roll back data that can be read only once"):
        package.train(CONFIGURATION, changes, data=iter(documents()), quiet=True)
    assert json.loads(open("once/skipped_batches.json").read())["times"] == 1


def test_rejects_invalid_documents():
    for data, message in (([[1.5]], "found float64 of shape"), ([[300] * 40], "token 0: expected 0 to 255, found 300"),
                          ([[]], "epoch 0 has no tokens"), ([numpy.zeros((2, 3), int)], r"of shape \(2, 3\)")):
        with pytest.raises(package.DataError, match=message):
            package.train(CONFIGURATION, data=data, quiet=True)
        assert package.Run("given").state == "failed"
        assert re.search(message, package.Run("given").end_reason)
    with pytest.raises(package.ConfigurationError, match="data.tokenizer.type: char"):
        package.train(CONFIGURATION, {"data.tokenizer.type": "char"}, data=documents(), quiet=True)
    package.train("tiny.yaml", quiet=True)
    with pytest.raises(package.DataError, match="trained on files"):
        package.train("tiny.yaml", {"training.max_steps": 9}, data=documents(), quiet=True)


def test_trains_on_external_token_ids():
    settings = {"data.tokenizer.type": "none", "data.format": "tokens", "data.tokenizer.vocab_size": 500, "training.max_steps": 2}
    run = package.train(CONFIGURATION, settings, data=[numpy.arange(500, dtype=numpy.uint16)], quiet=True)
    assert package.Checkpoint(run).shape("embedding/weight") == (500, 16)
    sample, = package.generate(run, "17 4", max_new_tokens=3)
    assert sample.text.split() == [str(id) for id in sample.ids]


INTERRUPTED = """
import longspan, sys, time
try:
    longspan.train("tiny.yaml", {"training.max_steps": 1000000}, quiet=True,
                   on_step=lambda figures: figures["step"] == 3 and print("training", flush=True))
except longspan.StoppedWithCheckpoint as error:
    print(error.exit_code, longspan.Run("run").state, flush=True)
try:
    print("waiting", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    print("generating", flush=True)
    longspan.generate("run", max_new_tokens=10 ** 8)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_saves_and_restores_signal_handler():
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed = []
    for line in process.stdout:
        printed.append(line.strip())
        if printed[-1] in ("training", "waiting", "generating"):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert process.wait(60) == 0, errors
    assert printed == ["training", "75 stopped", "waiting", "interrupted", "generating", "interrupted"]
    run = package.Run("run")
    assert run.checkpoints[-1] == run.step
    package.train("tiny.yaml", {"training.max_steps": run.step + 1}, quiet=True)
    assert run.state == "finished"


def test_other_threads_run_during_training():
    script = """
import longspan, threading
count, stop = 0, False
def work():
    global count
    while not stop: count += 1
thread = threading.Thread(target=work)
thread.start()
counts = []
longspan.train("tiny.yaml", {"training.max_steps": 40}, quiet=True, on_step=lambda figures: counts.append(count))
stop = True
thread.join()
assert counts[-1] > counts[0], counts
try:
    thread = threading.Thread(target=lambda: longspan.train("tiny.yaml"))
    import threading; threading.excepthook = lambda args: print(args.exc_value)
    thread.start(); thread.join()
finally: pass
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "longspan.train requires the main thread" in result.stdout


def test_rejects_concurrent_calls(directory):
    """Calls within the callback of a training, and from another thread, are rejected."""
    package.train("tiny.yaml", {"run.output_dir": "first", "training.max_steps": 1}, quiet=True)
    refused = []

    def call(function, *words):
        try:
            function(*words)
        except package.Error as error:
            refused.append(str(error))

    def of_step(metrics):
        if metrics["step"] == 2:
            call(package.evaluate, "first")
            thread = threading.Thread(target=call, args=(package.generate, "first"))
            thread.start()
            thread.join()
            call(package.train, "tiny.yaml")

    run = package.train("tiny.yaml", {"training.max_steps": 3}, on_step=of_step, quiet=True)
    assert run.state == "finished"
    assert [message.split(",")[0] for message in refused] == [f"longspan.{name}: another call is running; call it after that has returned" for name in ("evaluate", "generate", "train")]
    assert package.evaluate("first", data="text.txt")["loss"] > 0  # allowed afterwards
