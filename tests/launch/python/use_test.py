"""Trained models, measured and used.

SPDX-License-Identifier: Apache-2.0
"""

import inspect
import json
import re
import signal
import threading

import pytest

import longspan as package


def test_figures_are_those_of_the_program(trained, longspan):
    for words, options in (([], {}), (["--tokens", "200", "--memory", "4"], {"tokens": 200, "memory": 4}),
                           (["--recompute-context", "6", "--stride", "2", "--tokens", "100"],
                            {"recompute_context": 6, "stride": 2, "tokens": 100}),
                           (["--checkpoint", "4", "--by-position", "2"], {"checkpoint": 4, "by_position": 2}),
                           (["--set", "run.num_threads=1", "--data", "tiny.yaml"],
                            {"overrides": {"run.num_threads": 1}, "data": "tiny.yaml"})):
        wanted = json.loads(longspan("evaluate", "run", "--json", *words))
        found = package.evaluate(package.Run("run"), **options)
        assert found.pop("seconds") > 0 and wanted.pop("seconds") > 0
        assert found == wanted


def test_samples_are_those_of_the_program(trained, longspan):
    for words, options in (([], {}), (["--seed", "7", "--samples", "2", "--temperature", "0.5"],
                                      {"seed": 7, "samples": 2, "temperature": 0.5}),
                           (["--top-k", "3", "--memory", "0", "--segment", "4"], {"top_k": 3, "memory": 0, "segment": 4})):
        wanted = longspan("generate", "run", "--prompt", "the lord ", "--tokens", "30", *words)
        samples = package.generate("run", "the lord ", tokens=30, **options)
        assert wanted == "\n\n".join(f"the lord {sample.text}" for sample in samples) + "\n"
        for sample in samples:
            assert sample.ids.shape == (30,)
            assert str(sample) == bytes(sample.ids.tolist()).decode(errors="replace")


def test_lines_get_the_results_of_the_program(longspan, directory):
    (directory / "labels.tsv").write_text("".join(f"{'ab'[i % 2]}\t{'ab'[i % 2] * 3} {i}\n" for i in range(40)))
    longspan("train", "tiny.yaml", "--set", "run.task=classification", "--set", "model.family=encoder", "--set", "model.mem_len=0",
             "--set", "data.train=labels.tsv", code=2)  # the keys of another family
    settings = {"run": {"output_dir": "run", "task": "classification", "num_threads": 1},
                "model": {"family": "encoder", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
                "data": {"train": "labels.tsv"}, "training": {"max_steps": 4, "lr_scheduler": {"warmup_steps": 1}}}
    package.train(settings, quiet=True)
    (directory / "lines.txt").write_text("aaa 1\nbbb 2\n")
    wanted = longspan("generate", "run", "--input", "lines.txt").splitlines()
    assert package.generate("run", lines=["aaa 1", "bbb 2"]) == wanted
    assert len(wanted) == 2
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):  # heard between batches
        package.generate("run", lines=["aaa 1"] * (3 * 10 ** 5))
    timer.cancel()
    with pytest.raises(package.ConfigurationError, match="makes something of lines"):
        package.generate("run", "aaa")


def test_mistakes_are_one_sentence_with_the_exit_code_of_the_program(trained, longspan, directory):
    for call, words, kind in ((lambda: package.evaluate("run", tokens=0), ("evaluate", "run", "--tokens", "0"), package.ConfigurationError),
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


def test_every_option_of_the_program_has_its_keyword(longspan):
    beside = {"evaluate": {"json", "set", "help"},
              "generate": {"input", "output", "images", "class", "complete", "set", "help"}}
    for name in beside:
        told = set(re.findall(r"--([a-z-]+)", longspan(name, "--help").split("Examples:")[0]))
        options = {word for line in longspan(name, "--help").splitlines() for word in re.findall(r"^ +(?:-h,)?--([a-z-]+)", line)}
        assert options <= told and "memory" in options
        keywords = set(inspect.signature(getattr(package, name)).parameters) - {"run", "overrides", "lines"}
        assert {word.replace("-", "_") for word in options - beside[name]} == keywords
