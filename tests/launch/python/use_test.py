"""Evaluation of trained models and generation.

SPDX-License-Identifier: Apache-2.0
"""

import inspect
import json
import re
import signal
import threading

import pytest

import longspan as package


def test_evaluate_matches_program(trained, longspan):
    for words, options in (([], {}), (["--max-tokens", "200", "--mem-len", "4"], {"max_tokens": 200, "mem_len": 4}),
                           (["--sliding-window", "6", "--stride", "2", "--max-tokens", "100"],
                            {"sliding_window": 6, "stride": 2, "max_tokens": 100}),
                           (["--checkpoint", "4", "--loss-by-position", "2"], {"checkpoint": 4, "loss_by_position": 2}),
                           (["--set", "run.num_threads=1", "--data", "tiny.yaml"],
                            {"overrides": {"run.num_threads": 1}, "data": "tiny.yaml"})):
        expected = json.loads(longspan("evaluate", "run", "--json", *words))
        found = package.evaluate(package.Run("run"), **options)
        assert found.pop("elapsed_seconds") > 0 and expected.pop("elapsed_seconds") > 0
        assert found == expected


def test_generate_matches_program(trained, longspan):
    for words, options in (([], {}), (["--seed", "7", "--num-samples", "2", "--temperature", "0.5"],
                                      {"seed": 7, "num_samples": 2, "temperature": 0.5}),
                           (["--top-k", "3", "--mem-len", "0", "--seq-length", "4"], {"top_k": 3, "mem_len": 0, "seq_length": 4})):
        expected = longspan("generate", "run", "--prompt", "the lord ", "--max-new-tokens", "30", *words)
        samples = package.generate("run", "the lord ", max_new_tokens=30, **options)
        assert expected == "\n\n".join(f"the lord {sample.text}" for sample in samples) + "\n"
        for sample in samples:
            assert sample.ids.shape == (30,)
            assert str(sample) == bytes(sample.ids.tolist()).decode(errors="replace")


def test_generate_lines_matches_program(longspan, directory):
    (directory / "labels.tsv").write_text("".join(f"{'ab'[i % 2]}\t{'ab'[i % 2] * 3} {i}\n" for i in range(40)))
    longspan("train", "tiny.yaml", "--set", "run.task=classification", "--set", "model.family=encoder", "--set", "model.mem_len=0",
             "--set", "data.train=labels.tsv", code=2)  # keys of another family
    settings = {"run": {"output_dir": "run", "task": "classification", "num_threads": 1},
                "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
                "data": {"train": "labels.tsv"}, "training": {"max_steps": 4, "lr_scheduler": {"warmup_steps": 1}}}
    package.train(settings, quiet=True)
    (directory / "lines.txt").write_text("aaa 1\nbbb 2\n")
    expected = longspan("generate", "run", "--input", "lines.txt").splitlines()
    assert package.generate("run", lines=["aaa 1", "bbb 2"]) == expected
    assert len(expected) == 2
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):  # checked between batches
        package.generate("run", lines=["aaa 1"] * (3 * 10 ** 5))
    timer.cancel()
    with pytest.raises(package.ConfigurationError, match="requires --input"):
        package.generate("run", "aaa")


def test_errors_have_one_line_and_exit_code_of_program(trained, longspan, directory):
    for call, words, kind in ((lambda: package.evaluate("run", max_tokens=0), ("evaluate", "run", "--max-tokens", "0"), package.ConfigurationError),
                              (lambda: package.evaluate("run", data="no.txt"), ("evaluate", "run", "--data", "no.txt"), package.DataError),
                              (lambda: package.evaluate("run", split="test"), ("evaluate", "run", "--split", "test"), package.ConfigurationError),
                              (lambda: package.generate("run", temperature=-1), ("generate", "run", "--temperature=-1"), package.ConfigurationError),
                              (lambda: package.generate("run", lines=["x"]), ("generate", "run", "--input", "text.txt"), package.ConfigurationError),
                              (lambda: package.generate("none"), ("generate", "none"), package.DataError)):
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, package.Error)
        assert "\n" not in str(caught.value)
        longspan(*words, code=caught.value.exit_code)


def test_every_option_has_a_keyword(longspan):
    excluded = {"evaluate": {"json", "set", "help"},
                "generate": {"input", "output", "image-sheet", "class", "inpaint", "upscale", "set", "help"}}
    for name in excluded:
        mentioned = set(re.findall(r"--([a-z-]+)", longspan(name, "--help").split("Examples:")[0]))
        options = {word for line in longspan(name, "--help").splitlines() for word in re.findall(r"^ +(?:-h,)?--([a-z-]+)", line)}
        assert options <= mentioned and "mem-len" in options
        keywords = set(inspect.signature(getattr(package, name)).parameters) - {"run", "overrides", "lines"}
        assert {word.replace("-", "_") for word in options - excluded[name]} == keywords
