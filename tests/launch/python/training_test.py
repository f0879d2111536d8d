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
    def tell(figures):
        if figures["step"] == step:
            raise Enough

    return tell


def losses(run):
    return package.Run(run).metrics["loss"].tolist()


def state(run, step):
    return jobs.Run(run).state(step)["tensors"]


def test_a_file_is_trained_as_the_program_trains_it(longspan):
    longspan("train", "tiny.yaml", "--set", "run.output_dir=theirs")
    seen = []
    run = package.train("tiny.yaml", {"run.output_dir": "mine"}, on_step=seen.append, quiet=True)
    assert (str(run.path), run.state) == ("mine", "finished")
    assert state("mine", 8) == state("theirs", 8)
    assert [figures["step"] for figures in seen] == list(range(1, 9))
    assert [figures["loss"] for figures in seen] == losses("mine") == losses("theirs")
    assert {"tokens", "learning_rate", "grad_norm"} <= set(seen[0])


def test_a_dict_is_trained_as_its_file_is(directory):
    sections = json.loads((directory / "tiny.yaml").read_text())
    package.train("tiny.yaml", {"run": {"output_dir": "file"}}, quiet=True)
    keys = {f"{section}.{key}": value for section, values in sections.items() for key, value in values.items()}
    package.train({**keys, "run.output_dir": "keys", "training": {"max_steps": 8}}, quiet=True)
    again = package.train(package.Run("file").config, {"run.output_dir": directory / "again"}, quiet=True)
    assert state("file", 8) == state("keys", 8) == state("again", 8)
    assert again.config["model"] == package.Run("file").config["model"]


def test_standard_output_is_silent_when_it_is_asked_to_be(capfd):
    package.train("tiny.yaml", {"training.max_steps": 1}, quiet=True)
    assert capfd.readouterr().out == ""
    package.train("tiny.yaml", {"training.max_steps": 2})
    assert "Finished: 2 steps" in capfd.readouterr().out


def test_mistakes_in_a_configuration_are_told_with_their_places():
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


def test_what_diverges_says_so_and_the_run_knows_it():
    with pytest.raises(package.DivergenceError, match="training diverged") as caught:
        package.train("tiny.yaml", jobs.DIVERGING, quiet=True)
    assert caught.value.exit_code == 4
    assert package.Run("run").state == "diverged"


def test_documents_are_learnt_and_a_run_goes_on_with_them_exactly():
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


def test_documents_that_end_begin_again_where_they_can():
    package.train(CONFIGURATION, data=documents(10), quiet=True)
    with pytest.raises(package.DataError, match="ended before the last step and can be read only once.*stopped after step [0-9]+, which is saved"):
        package.train(CONFIGURATION, {"run.output_dir": "once"}, data=iter(documents(10)), quiet=True)
    ended = package.Run("once")
    assert ended.state == "failed" and "the program's data ended before the last step" in ended.end_reason
    last = ended.step
    assert 0 < last < 12 and ended.checkpoints[-1] == last
    assert losses("once") == losses("given")[:last]
    package.train(CONFIGURATION, {"run.output_dir": "once"}, data=documents(10), quiet=True)  # and it goes on exactly
    assert state("once", 12) == state("given", 12)
    # Each step is saved, and no next one judges what was saved beside the last.
    with pytest.raises(package.DataError, match="stopped after step [0-9]+, which is saved"):
        package.train(CONFIGURATION, {"run.output_dir": "each", "checkpoint.save_interval": 1}, data=iter(documents(10)), quiet=True)
    each = package.Run("each")
    assert each.step == last and each.checkpoints[-1] == last


def test_an_exception_in_the_data_comes_out_as_it_is():
    def broken():
        yield [97] * 60
        raise Enough("no more")

    with pytest.raises(Enough, match="no more"):
        package.train(CONFIGURATION, data=broken(), quiet=True)
    assert package.Run("given").state == "failed"
    assert "Enough: no more" in package.Run("given").end_reason


def test_an_exception_of_on_step_is_the_context_of_a_failing_save():
    def replace_directory_and_raise(figures):
        if figures["step"] == 3:
            shutil.rmtree("given/checkpoints", ignore_errors=True)
            Path("given/checkpoints").write_text("a file where the directory was")
            raise Enough

    with pytest.raises(package.Error, match="checkpoints") as caught:
        package.train(CONFIGURATION, data=documents(), on_step=replace_directory_and_raise, quiet=True)
    assert isinstance(caught.value.__context__, Enough)


def test_documents_that_are_read_once_cannot_go_back():
    changes = {"run.output_dir": "once", "training.learning_rate": 1e30, "training.max_grad_norm": 0,
               "training.lr_scheduler.warmup_steps": 0,
               "training.max_consecutive_skips": 3, "training.max_rollbacks": 1}
    with pytest.raises(package.DivergenceError, match="training diverged: .*cannot roll back data that can be read only once"):
        package.train(CONFIGURATION, changes, data=iter(documents()), quiet=True)
    assert json.loads(open("once/skipped_batches.json").read())["times"] == 1


def test_documents_that_are_none_are_told():
    for data, sentence in (([[1.5]], "found float64 of shape"), ([[300] * 40], "token 0: expected 0 to 255, found 300"),
                           ([[]], "epoch 0 has no tokens"), ([numpy.zeros((2, 3), int)], r"of shape \(2, 3\)")):
        with pytest.raises(package.DataError, match=sentence):
            package.train(CONFIGURATION, data=data, quiet=True)
        assert package.Run("given").state == "failed"
        assert re.search(sentence, package.Run("given").end_reason)
    with pytest.raises(package.ConfigurationError, match="data.tokenizer.type: char"):
        package.train(CONFIGURATION, {"data.tokenizer.type": "char"}, data=documents(), quiet=True)
    package.train("tiny.yaml", quiet=True)
    with pytest.raises(package.DataError, match="trained on files"):
        package.train("tiny.yaml", {"training.max_steps": 9}, data=documents(), quiet=True)


def test_ids_of_another_tokenizer_are_learnt():
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


def test_control_c_saves_and_stops_a_training_and_is_afterwards_what_it_was():
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told = []
    for line in process.stdout:
        told.append(line.strip())
        if told[-1] in ("training", "waiting", "generating"):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert process.wait(60) == 0, errors
    assert told == ["training", "75 stopped", "waiting", "interrupted", "generating", "interrupted"]
    run = package.Run("run")
    assert run.checkpoints[-1] == run.step
    package.train("tiny.yaml", {"training.max_steps": run.step + 1}, quiet=True)
    assert run.state == "finished"


def test_the_interpreter_runs_beside_a_training():
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


def test_one_call_is_under_way_at_a_time(directory):
    """What a training is told is asked for within it: its callback, its data, and a thread beside it."""
    package.train("tiny.yaml", {"run.output_dir": "first", "training.max_steps": 1}, quiet=True)
    refused = []

    def call(function, *words):
        try:
            function(*words)
        except package.Error as error:
            refused.append(str(error))

    def of_step(figures):
        if figures["step"] == 2:
            call(package.evaluate, "first")
            thread = threading.Thread(target=call, args=(package.generate, "first"))
            thread.start()
            thread.join()
            call(package.train, "tiny.yaml")

    run = package.train("tiny.yaml", {"training.max_steps": 3}, on_step=of_step, quiet=True)
    assert run.state == "finished"
    assert [sentence.split(",")[0] for sentence in refused] == [f"longspan.{name}: another call is running; call it after that has returned" for name in ("evaluate", "generate", "train")]
    assert package.evaluate("first", data="text.txt")["loss"] > 0  # and afterwards they may
