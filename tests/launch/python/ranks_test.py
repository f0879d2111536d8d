"""Jobs of several ranks, with and without mpi4py.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import time

import pytest

import longspan as package

needs_mpi4py = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed; launch/setup --reference-implementations installs it")

TRAIN = """
def documents(cursor):
    return ([97 + (i * 7 + j) % 20 for j in range(3 + i % 30)] for i in range(cursor.document, 500))
losses = []
run = longspan.train("tiny.yaml", {"run.output_dir": sys.argv[1], "precision.compute_dtype": "float64",
                                   "parallel.tensor_parallel_size": int(sys.argv[2])},
                     data=documents, quiet=True, on_step=lambda figures: losses.append(figures["loss"]))
figures = longspan.evaluate(run, data="text.txt")
ids = longspan.generate(run, "the", max_new_tokens=8)[0].ids.tolist()
print(f"{[round(loss, 9) for loss in losses]} {figures['loss']:.9f} {ids}")
"""


def test_layouts_train_on_same_documents(ranks):
    code, alone, errors = ranks(1, TRAIN, "alone", 1)
    assert code == 0, errors
    for name, tensor in (("data", 1), ("tensor", 2)):
        code, output, errors = ranks(2, TRAIN, name, tensor)
        assert (code, errors) == (0, "")
        assert output == 2 * alone


@needs_mpi4py
def test_mpi_is_shared_with_mpi4py(ranks):
    sums = "print(MPI.COMM_WORLD.allreduce(longspan.rank() + 1))\n"
    for before, after in (("from mpi4py import MPI\n", ""), ("", "from mpi4py import MPI\n")):
        code, output, errors = ranks(2, before + "longspan.size()\n" + after + sums + 'longspan.train("tiny.yaml", quiet=True)\n' + sums)
        assert (code, errors) == (0, "")
        assert output == ["3\n3\n"] * 2
    code, output, errors = ranks(2, "from mpi4py import MPI\nlongspan.size()\nMPI.Finalize()\n")
    assert (code, errors) == (0, "")
    code, output, errors = ranks(1, "from mpi4py import MPI\nprint(longspan.size())\n")
    assert (code, output, errors) == (0, ["1\n"], "")


def test_exception_on_one_rank_sets_exit_code(ranks):
    for script, code, expected in (('if longspan.rank() == 1: raise longspan.DataError("of one rank")\nlongspan.train("tiny.yaml", quiet=True)', 3, "of one rank"),
                                   ('if longspan.rank() == 1: raise ValueError("of one rank")\nlongspan.train("tiny.yaml", quiet=True)', 1, "of one rank"),
                                   ('longspan.evaluate("nothing")', 3, "nothing: no such run or checkpoint")):
        script = f'if longspan.size() < 2: raise SystemExit(9)\n{script}\n'
        found, _, errors = ranks(2, script)
        assert found == code, errors
        assert expected in errors
        assert errors.count("Traceback") == 1


STOPS = """
def tell(figures):
    if longspan.rank() == 1 and figures["step"] == 3: raise ValueError("enough")
try:
    longspan.train("tiny.yaml", {"training.max_steps": 1000}, quiet=True, on_step=tell if longspan.rank() == 1 else None)
except Exception as error:
    print(f"{longspan.rank()} {type(error).__name__} {error}")
longspan.train("tiny.yaml", {"training.max_steps": 6}, quiet=True)
print("done")
"""


def test_callback_exception_stops_all_ranks_with_checkpoint(ranks):
    code, output, errors = ranks(2, STOPS)
    assert code == 0, errors
    assert output == ["0 Error rank 1: on_step raised ValueError: enough; training stopped, checkpoint saved\ndone\n",
                      "1 ValueError enough\ndone\n"]
    assert package.Run("run").step == 6


def test_data_failure_on_one_rank_ends_job(ranks, directory):
    code, _, errors = ranks(2, """
def documents():
    for i in range(10 ** 6):
        if i == 50 and longspan.rank() == 1: raise OSError("the disk is gone")
        yield [97] * 30
longspan.train("tiny.yaml", {"training.max_steps": 1000}, data=documents(), quiet=True)
""")
    assert code == 1
    assert "the disk is gone" in errors
    # The kernel may still be closing the files of an exited rank, among them the lock of the run.
    end = time.monotonic() + 10
    while package.Run("run").state == "running" and time.monotonic() < end:
        time.sleep(0.1)
    assert package.Run("run").state == "failed"
    assert "OSError: the disk is gone" in (directory / "run" / "log.txt").read_text()


def test_rejects_different_documents_per_rank(ranks):
    code, output, errors = ranks(2, """
def documents(cursor):
    for i in range(cursor.document, 500): yield [97 + (i == 40 and longspan.rank())] * 30
try:
    longspan.train("tiny.yaml", {"training.max_steps": 1000}, data=documents, quiet=True)
except longspan.DataError as error:
    print(error)
""")
    assert code == 0, errors
    for printed in output:
        assert "ranks received different documents up to document" in printed


def test_rejects_calls_from_other_threads(ranks):
    code, output, errors = ranks(2, """
import threading
longspan.train("tiny.yaml", {"training.max_steps": 1}, quiet=True)
def call():
    try:
        longspan.evaluate("run", data="text.txt")
    except longspan.Error as error:
        print(error)
thread = threading.Thread(target=call)
thread.start()
thread.join()
print(longspan.evaluate("run", data="text.txt")["loss"] > 0)
""")
    assert code == 0, errors
    for printed in output:
        assert "longspan.evaluate requires the main thread" in printed and printed.endswith("True\n")


def test_session_restores_excepthook_at_exit(ranks):
    code, output, errors = ranks(2, """
import atexit
before = sys.excepthook
atexit.register(lambda: print(sys.excepthook is before))
longspan.size()
print(sys.excepthook is before)
""")
    assert (code, errors) == (0, "")
    assert output == ["False\nTrue\n"] * 2
