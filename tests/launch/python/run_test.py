"""Reading of runs and checkpoints.

SPDX-License-Identifier: Apache-2.0
"""

import json
import sys

import numpy
import pytest

import jobs
import longspan as package


def test_run_has_state_steps_layout_and_config(trained):
    run = package.Run(trained)
    assert (run.state, run.step, run.max_steps, run.checkpoints) == ("finished", 8, 8, [4, 8])
    assert run.layout == {"data": 1, "context": 1, "tensor": 1}
    assert (run.end_reason, run.errors) == ("", [])
    found = run.config
    assert found["training"]["max_steps"] == 8
    assert found["training"]["learning_rate"] == 0.01
    assert found["data"]["train"] == "text.txt"
    assert found["model"]["attention"]["layer_types"] == ["full"]
    assert found["model"]["vocab_size"] is None
    assert found["metrics"]["log_timing"] is False


def test_metrics_are_arrays_with_nan_for_missing_values(trained):
    lines = jobs.Run(trained).metrics()
    metrics = package.Run(trained).metrics
    assert metrics["step"].tolist() == [line["step"] for line in lines]
    assert metrics["step"].dtype == numpy.int64
    assert metrics["loss"].tolist() == [line["loss"] for line in lines]
    expected = [line.get("validation_loss", float("nan")) for line in lines]
    numpy.testing.assert_array_equal(metrics["validation_loss"], expected)
    assert numpy.isnan(expected).sum() == 6


def test_metrics_use_last_line_of_step_and_non_finite_values(trained):
    with (trained / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "loss": null, "loss_reason": "inf"}\n{"step": 8, "loss": null, "loss_reason": "nan"}\n{"step": 9, "lo')
    metrics = package.Run(trained).metrics
    assert metrics["step"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert numpy.isposinf(metrics["loss"][6]) and numpy.isnan(metrics["loss"][7])


def test_rejects_directory_without_run(directory):
    with pytest.raises(package.DataError, match="nothing: no such directory") as caught:
        package.Run("nothing")
    assert caught.value.exit_code == 3
    with pytest.raises(package.DataError, match="expected a run directory, found no run"):
        package.Run(directory)


def read_with_h5py(step, name):
    """Returns a tensor that h5py assembles from the pieces in the manifest."""
    import h5py

    manifest = json.loads((step / "manifest.json").read_text())
    tensor = manifest["tensors"][name]
    array = None
    for piece in tensor["pieces"]:
        with h5py.File(step / manifest["files"][piece["file"]]["name"]) as file:
            elements = file[piece["dataset"]][()].reshape(piece["shape"])
        if array is None:
            array = numpy.zeros(tensor["shape"], elements.dtype)
        array[tuple(slice(o, o + n) for o, n in zip(piece["offset"], piece["shape"]))] = elements
    return array


def test_tensors_are_assembled_from_shards(longspan, directory):
    pytest.importorskip("h5py")
    longspan("train", "tiny.yaml", "--set", "parallel.tensor_parallel_size=2", "--set", "training.max_steps=2", ranks=2)
    checkpoint = package.Checkpoint("run")
    assert checkpoint.layout == {"data": 1, "context": 1, "tensor": 2}
    assert checkpoint.step == 2
    step = directory / "run" / "checkpoints" / "step-000000002"
    assert checkpoint.path.resolve() == step
    manifest = json.loads((step / "manifest.json").read_text())
    assert checkpoint.names == sorted(manifest["tensors"])
    assert any(len(tensor["pieces"]) > 1 for tensor in manifest["tensors"].values())
    for name, array in checkpoint.items():
        assert array.shape == checkpoint.shape(name) == tuple(manifest["tensors"][name]["shape"])
        assert array.dtype == checkpoint.dtype(name)
        assert checkpoint.storage_dtype(name) == manifest["tensors"][name]["dtype"]
        numpy.testing.assert_array_equal(array, read_with_h5py(step, name))
    assert checkpoint.config["parallel"]["tensor_parallel_size"] == 2
    assert checkpoint.scalars["trainer/steps"] == 2


def test_checkpoint_accepts_steps_and_rejects_unknown_names(trained):
    assert package.Checkpoint(trained, 4).step == 4
    assert package.Checkpoint(trained / "checkpoints" / "step-000000004").step == 4
    assert package.Checkpoint(package.Run(trained)).step == 8
    with pytest.raises(package.DataError):
        package.Checkpoint(trained, 5)
    with pytest.raises(KeyError):
        package.Checkpoint(trained)["no/such/tensor"]


def test_corruption_is_reported_on_reading_the_tensor(trained):
    file = trained / "checkpoints" / "step-000000008" / "rank-00000.h5"
    jobs.damage(file)
    checkpoint = package.Checkpoint(trained)
    assert checkpoint.shape("embedding/weight") == (256, 16)
    with pytest.raises(package.DataError, match="rank-00000.h5"):
        checkpoint["embedding/weight"]


def half_precision(longspan):
    longspan("train", "tiny.yaml", "--set", "precision.compute_dtype=bfloat16", "--set", "training.max_steps=2")
    checkpoint = package.Checkpoint("run")
    return checkpoint, [name for name in checkpoint if checkpoint.storage_dtype(name) == "bf16"]


def test_bfloat16_uses_ml_dtypes_or_float32(longspan, directory, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    checkpoint, names = half_precision(longspan)
    assert names
    assert checkpoint[names[0]].dtype == checkpoint.dtype(names[0]) == ml_dtypes.bfloat16
    exact = checkpoint[names[0]].astype(numpy.float32)
    module = sys.modules[package.Checkpoint.__module__]
    monkeypatch.setattr(module, "_bfloat16", None)
    assert checkpoint[names[0]].dtype == checkpoint.dtype(names[0]) == numpy.float32
    numpy.testing.assert_array_equal(checkpoint[names[0]], exact)
    assert numpy.abs(exact).max() > 0
