#!/usr/bin/env python3
"""Pages (*.md): links resolve, commands run, blocks of YAML are configurations, keys exist.

    tests/launch/documents_test.py build/launch/longspan

A command in a block of sh belongs to one of four groups: it runs here, in a scratch directory with a small model
(RUN_HERE); another test runs it (RUN_BY); it sets up the machine or runs the tests, and its --help contains its options
(SETS_UP); or it starts an existing test or benchmark. Any other command is an error.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import SOURCE

PROGRAM = "build/launch/longspan"

# {prefix of a command: the file of tests/launch that runs it with other values}.
RUN_BY = {
    "launch/corpus": "corpus_test",
    "launch/example": "example_test.py",
    "launch/bundle": "bundle_test",
    "launch/package": "debian_test",
    "launch/gpu-check": "gpu_check_test",
    "cmake --install": "package_test.cmake",
    f"{PROGRAM} launch -n 2 -- train pairs.yaml --set run.output_dir=runs/risk": "sequence_level_test.py",
    f"{PROGRAM} train configs/g2p-cmudict.yaml": "sequence_level_test.py",
    f"{PROGRAM} launch -n 2 -- train pairs.yaml --set": "masked_translation_test.py",
    f"{PROGRAM} launch -n 2 -- train pairs.yaml": "translation_test.py",
    f"{PROGRAM} evaluate runs/pairs": "translation_test.py",
    f"{PROGRAM} generate runs/pairs --input questions.en": "translation_test.py",
    f"{PROGRAM} generate runs/pairs --input verses.train.en": "masked_translation_test.py",
    f"{PROGRAM} evaluate runs/nat": "masked_translation_test.py",
    f"{PROGRAM} generate runs/image-generation": "pixels_test.py",
    f"{PROGRAM} generate runs/super-resolution": "pixels_test.py",
    f"{PROGRAM} launch -n 2 -- train runs/gpt2/config.yaml": "adapters_test.py",
    f"{PROGRAM} export runs/tuned": "adapters_test.py",
    f"{PROGRAM} import ~/models/bert": "adapters_test.py",
    f"{PROGRAM} launch -n 2 -- train runs/bert/config.yaml": "adapters_test.py",
    f"{PROGRAM} generate runs/classifier": "adapters_test.py",
    f"{PROGRAM} export runs/classifier": "adapters_test.py",
    f"{PROGRAM} import": "import_test.py",
    f"{PROGRAM} evaluate runs/gpt2": "import_test.py",
    f"{PROGRAM} export runs/mine": "import_test.py",
    f"{PROGRAM} import ~/models/bart": "import_pairs_test.py",
    f"{PROGRAM} generate runs/bart": "import_pairs_test.py",
    f"{PROGRAM} train runs/bart/config.yaml": "import_pairs_test.py",
    f"{PROGRAM} launch -n 2 -- train my-run.yaml --profile-steps": "profile_test.py",
    f"{PROGRAM} launch --max-restarts 20": "retry_test.py",
    f"{PROGRAM} report": "report_test.py",
    f"{PROGRAM} attention-maps": "attention_maps_test.py",
    f"{PROGRAM} compare": "listing_test.py",
    f"source <({PROGRAM} completion": "completion_test.py",
    f"{PROGRAM} man": "completion_test.py",
    f"{PROGRAM} plan --calibrate": "commands_test.py",
    "pip install -v launch/python": "python_test.py",
    "launch/package --wheel": "python_test.py",
    "mpirun -n 2 python": "python_test.py",
    "mpirun -n 2": "commands_test.py",
}

# launch/quickstart also runs, in a copy of launch/ (test_quickstart_trains_and_generates).
SETS_UP = ("launch/setup", "launch/test", "launch/quickstart")

RUN_HERE = (PROGRAM, "echo ")

# Settings of a small run, by the name of its configuration.
TINY = {"model.num_hidden_layers": 1, "model.hidden_size": 16, "model.num_attention_heads": 2, "run.num_threads": 1,
        "metrics.log_interval": 100}
SMALL = {
    "my-run.yaml": {**TINY, "model.mem_len": 8, "data.global_batch_size": 2, "data.seq_length": 8, "training.max_steps": 500,
                    "training.validation.max_batches": 2, "training.lr_scheduler.warmup_steps": 2},
    "configs/quickstart.yaml": {**TINY, "model.mem_len": 8, "data.global_batch_size": 2, "data.seq_length": 8, "training.max_steps": 4,
                                "training.lr_scheduler.warmup_steps": 2, "training.validation.max_batches": 2,
                                "checkpoint.save_interval": 0, "metrics.log_interval": 2},
    "configs/t-maze.yaml": {"training.max_steps": 16, "training.lr_scheduler.warmup_steps": 2,
                              "training.validation.interval": 0, "run.num_threads": 1,
                              "training.validation.max_batches": 4, "checkpoint.save_interval": 0},
}
SMALLER = (("--vocab-size 8000", "--vocab-size 300"),)  # the text is short

SECTIONS = ("run", "model", "data", "ppo", "training", "parallel", "memory", "precision", "checkpoint", "metrics")


def pages():
    """Returns all *.md outside of build directories, runs and hidden folders."""
    found = []
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")) and (name != "runs" or folder != str(SOURCE)))
        found += [Path(folder) / name for name in sorted(files) if name.endswith(".md")]
    return found


def name_of(page):
    return str(page.relative_to(SOURCE))


@functools.cache
def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(page, language):
    """Returns the text of each block of a language, without indentation."""
    return [textwrap.dedent(found[2]) for found in re.finditer(rf"(?ms)^( *)```{language}\n(.*?)^\1```$", text_of(page))]


def prose(page):
    """Returns the page without its blocks."""
    return re.sub(r"(?ms)^( *)```.*?^\1```$", "", text_of(page))


def anchors(page):
    """Returns the anchors of the headings, as GitHub generates them."""
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"(?m)^#+ (.*)$", prose(page))]
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-") for heading in headings}


def commands(block):
    """Returns (line, words) of each command, with continuation lines joined."""
    joined = block.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line, " ".join(shlex.split(line, comments=True))) for line in lines]


@functools.cache
def all_commands():
    """Returns (page, line, words) of each command."""
    return [(name_of(page), raw, words) for page in pages() for block in blocks(page, "sh") for raw, words in commands(block)]


def run_by(words):
    """Returns the longest key of RUN_BY that is a prefix of the command, or None."""
    known = [begin for begin in RUN_BY if words.startswith(begin)]
    return max(known, key=len) if known else None


def starts_test(words):
    return words.startswith(("build/tests/", "build-fuzz/fuzzers/", "tests/", "ctest ", "LONGSPAN_PTX="))


def is_run_here(words):
    return words.startswith(RUN_HERE) and run_by(words) is None


class Pages(jobs.TestCase):
    def test_links_resolve(self):
        count = 0
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                count += 1
                with self.subTest(page=name_of(page), link=target):
                    path, _, anchor = target.partition("#")
                    to = (page.parent / path).resolve() if path else page
                    self.assertTrue(to.exists(), "there is no such file")
                    self.assertTrue(to.is_relative_to(SOURCE), "it leads out of the tree")
                    if anchor:
                        self.assertIn(anchor, anchors(to))
        self.assertGreater(count, 150)

    def test_named_paths_exist(self):
        known = r"`((?:checkpoints|configs|framework|launch|models|tests)/[\w./*-]+)[ `]"
        for page in pages():
            for path in re.findall(known, text_of(page)):
                if name_of(page) in ("launch/README.md", "checkpoints/README.md") and path.startswith("checkpoints/step-"):
                    continue  # of a run
                if path == "tests/benchmarks/results/GPU-NAME.md":
                    continue  # made by launch/gpu-check
                with self.subTest(page=name_of(page), path=path):
                    self.assertTrue(list(SOURCE.glob(path.rstrip("/"))) or list(page.parent.glob(path)))

    def test_root_contains_only_expected_names(self):
        """Checks tracked names that do not start with a dot."""
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files"], capture_output=True, text=True)
        if listed.returncode:
            self.skipTest("no clone")
        top = {name.split("/")[0] for name in listed.stdout.splitlines()}
        folders = {"checkpoints", "configs", "framework", "launch", "models", "tests"}
        pages = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
        self.assertEqual({name for name in top if not name.startswith(".")}, folders | pages | {"CMakeLists.txt", "CMakePresets.json"})

    def test_readme_has_at_most_120_lines(self):
        self.assertLessEqual(len(text_of(SOURCE / "README.md").splitlines()), 120)


class PageKeys(jobs.TestCase):
    def reference(self):
        return set(re.findall(r"(?m)^\| `([a-z]+\.[\w.]+)` ", self.longspan("config", "--reference", "--markdown").output))

    def test_reference_page_is_current(self):
        page = (SOURCE / "configs" / "reference.md").read_text()
        head, body = page[:page.index("## run\n")], page[page.index("## run\n"):]
        self.assertEqual(body, self.longspan("config", "--reference", "--markdown").output,
                         "configs/reference.md is stale: run the command of its first lines")
        self.assertIn("longspan config --reference --markdown", head)

    def test_named_keys_exist(self):
        known = self.reference()
        self.assertGreater(len(known), 250)
        sections = "|".join(SECTIONS)
        for page in pages():
            text = text_of(page)
            found = re.findall(rf"`((?:{sections})\.[\w.]*\*?)[`: =]", text) + re.findall(r"--set '?([a-z]+\.[\w.]+)=", text)
            for key in found:
                if re.search(r"\.(yaml|h|cpp|jsonl|json|md|txt|safetensors)$", key):
                    continue
                with self.subTest(page=name_of(page), key=key):  # a key or a section
                    begin = key.rstrip("*").rstrip(".") + "."
                    self.assertTrue(key in known or any(each.startswith(begin) for each in known), "there is no such key")

    def test_families_attention_types_and_tasks_are_named(self):
        models = text_of(SOURCE / "models" / "README.md")
        both = models + text_of(SOURCE / "configs" / "README.md")
        families = {path.stem for path in (SOURCE / "models").glob("*.cpp") if "Family " in path.read_text()}
        self.assertIn("decoder", families)
        for family in families - {"registry"}:
            self.assertIn(f"### {family}\n", models)
        attention = self.longspan("config", "--reference", "model.attention.layer_types").output
        listed = re.search(r"(?s)attention type of each layer.*?a/b divides", attention)[0]
        kinds = re.findall(r"(\w+) \(", re.sub(r"\s+", " ", listed))
        self.assertIn("full", kinds)
        for kind in kinds:
            self.assertIn(f"`{kind}`", models)
        shown = re.sub(r"\s+", " ", self.longspan("config", "--reference", "run.task").output)
        tasks = re.search(r"\((\w+(?:, \w+)*) or (\w+); default", shown)
        for task in tasks[1].split(", ") + [tasks[2]]:
            self.assertIn(f"`{task}`", both)

    def test_modules_are_listed(self):
        lists = (SOURCE / "CMakeLists.txt").read_text()
        modules = re.findall(r"(?m)^longspan_library\(\w+ ([\w/]+)", lists)
        self.assertIn("framework/core", modules)
        text = text_of(SOURCE / "framework" / "README.md")
        for module in modules:
            link = module.removeprefix("framework/") if module.startswith("framework/") else f"../{module}"
            self.assertIn(f"| [{module.rsplit('/', 1)[-1]}]({link}) |", text)

    def test_yaml_blocks_are_valid_configs(self):
        count = 0
        for page in pages():
            for block in blocks(page, "yaml"):
                count += 1
                with self.subTest(page=name_of(page), block=block):
                    (self.directory / "block.yaml").write_text(block)
                    needed = {"run.output_dir": "run", "model.family": "decoder", "data.train": "text.txt"}
                    settings = {key: value for key, value in needed.items()
                                if not re.search(rf"(?m)^{key.split('.')[0]}:(\n  .*)*\n  {key.split('.')[1]}:", block)}
                    found = self.longspan("config", "block.yaml", *jobs.flat(settings))
                    self.assertNotIn("warning", found.errors)
        self.assertGreaterEqual(count, 5)


class PageCommands(jobs.TestCase):
    def test_each_command_has_one_group(self):
        for page, _, words in all_commands():
            with self.subTest(page=page, command=words):
                ways = [run_by(words) is not None, words.startswith(SETS_UP), starts_test(words), is_run_here(words),
                        words == ". launch/mpirun-environment"]
                self.assertEqual(sum(ways), 1, "is run by no test, and not here: see the head of this file")

    def test_listed_tests_exist(self):
        registered = (SOURCE / "tests" / "CMakeLists.txt").read_text()
        used = set()
        for page, _, words in all_commands():
            begin = run_by(words)
            if begin is None:
                continue
            used.add(begin)
            file = RUN_BY[begin]
            with self.subTest(page=page, command=words, test=file):
                self.assertIn(file.removesuffix("_test.py").removesuffix(".py"), registered)
        self.assertEqual(sorted(set(RUN_BY) - used), [], "no document has such a command any more")

    def test_setup_options_exist_in_help(self):
        for page, _, words in all_commands():
            if not words.startswith(SETS_UP):
                continue
            script, *rest = words.split()
            with self.subTest(page=page, command=words):
                shown = subprocess.run([SOURCE / script, "--help"], capture_output=True, text=True, check=True).stdout
                for word in rest:
                    if word.startswith("--"):
                        self.assertIn(word, shown)

    def test_named_tests_and_benchmarks_exist(self):
        lists = (SOURCE / "tests" / "CMakeLists.txt").read_text()
        for page, _, words in all_commands():
            if not starts_test(words):
                continue
            with self.subTest(page=page, command=words):
                for path in re.findall(r"(?<!build/)(?<!build-cuda/)\btests/[\w./]+", words):
                    self.assertTrue((SOURCE / path).exists(), path)
                for name in re.findall(r"build(?:-cuda)?/tests/(\w+?)(?:_mesh)?(?:_test)?(?: |$)", words):
                    self.assertTrue(f"longspan_tests({name} " in lists or f"add_executable({name} " in lists, name)
                for folder, suite in re.findall(r"build/tests/([a-z]+?)(?:_mesh)?_test --gtest_filter=(\w+)\.", words):
                    tests = "".join(file.read_text() for file in (SOURCE / "tests" / folder).glob("*_test.cpp"))
                    self.assertRegex(tests, rf"TEST\w*\({suite},")
                for file, case, test in re.findall(r"(tests/launch/\w+\.py) \S+ (\w+)\.(\w+)", words):
                    self.assertRegex((SOURCE / file).read_text(), rf"(?s)class {case}\(.*def {test}\(")
                for label in re.findall(r"ctest .*-L (\w+)", words):
                    self.assertRegex(lists, rf"LABELS \W*{label}|label {label}")

    def prepare(self, directory):
        """Creates a folder with a built program and a corpus."""
        (directory / "build" / "launch").mkdir(parents=True)
        (directory / PROGRAM).symlink_to(self.program)
        for name in "configs", "launch":
            (directory / name).symlink_to(SOURCE / name)
        corpus = directory / "runs" / "corpora" / "my-book"
        corpus.mkdir(parents=True)
        for number, name in enumerate(("train", "validation", "test")):
            jobs.write_text(corpus / f"{name}.txt", words=3000, seed=number + 1)
        for name in "my-book.txt", "chapter.txt", "my-text.txt":
            jobs.write_text(directory / name, words=1500, seed=5)
        for page in pages():
            for block in blocks(page, "yaml"):
                named = re.match(r"# ([\w-]+\.yaml)\n", block)
                if named:
                    (directory / named[1]).write_text(block)

    def run_page(self, page):
        """Runs the commands of RUN_HERE in order; returns their number."""
        directory = self.directory / page.replace("/", "-")
        directory.mkdir()
        self.prepare(directory)
        count = 0
        for raw, words in [pair for block in blocks(SOURCE / page, "sh") for pair in commands(block)]:
            if not is_run_here(words):
                continue
            small = next((settings for name, settings in SMALL.items() if f"train {name}" in words), {})
            line = re.sub(r"\s#.*", "", raw)
            for large, few in SMALLER:
                line = line.replace(large, few)
            line += "".join(f" {shlex.quote(word)}" for word in jobs.flat({key: value for key, value in small.items() if key not in words
                                                                            or key == "training.max_steps"}))
            job = jobs.Job("/bin/bash", ["-ec", line], directory=directory)
            self.addCleanup(job.close)
            result = job.wait()
            self.assertEqual(result.code, 0, f"{page}: {line}\n{result.output}{result.errors}")
            count += 1
        return count

    def test_commands_of_readme_run(self):
        self.assertGreaterEqual(self.run_page("README.md"), 2)

    def test_commands_of_configs_page_run(self):
        self.assertGreaterEqual(self.run_page("configs/README.md"), 10)

    def test_commands_of_launch_page_run(self):
        self.assertGreaterEqual(self.run_page("launch/README.md"), 15)

    def test_other_pages_have_no_runnable_commands(self):
        mine = {"README.md", "configs/README.md", "launch/README.md"}
        self.assertEqual({page for page, _, words in all_commands() if is_run_here(words)} - mine, set())

    def test_quickstart_trains_and_generates(self):
        """Uses a small model and stubs of launch/setup and launch/corpus."""
        shutil.copytree(SOURCE / "launch", self.directory / "launch", ignore=shutil.ignore_patterns("*.cpp", "*.h"))
        for name in "setup", "corpus":
            (self.directory / "launch" / name).write_text("#!/bin/sh\n")
        (self.directory / "build" / "launch").mkdir(parents=True)
        (self.directory / PROGRAM).symlink_to(self.program)
        corpus = self.directory / "runs" / "corpora" / "kjv"
        corpus.mkdir(parents=True)
        for number, name in enumerate(("train", "validation", "test")):
            jobs.write_text(corpus / f"{name}.txt", words=1000, seed=number + 1)
        text = (SOURCE / "configs" / "quickstart.yaml").read_text()
        for key, value in SMALL["configs/quickstart.yaml"].items():
            key = key.split(".")[-1]
            text = re.sub(rf"(?m)^( +{key}:).*", rf"\1 {value}", text)
        (self.directory / "configs").mkdir()
        (self.directory / "configs" / "quickstart.yaml").write_text(text)
        job = jobs.Job(self.directory / "launch" / "quickstart", [], directory=self.directory)
        self.addCleanup(job.close)
        result = job.wait()
        self.assertEqual(result.code, 0, result.output + result.errors)
        self.assertRegex(result.output, r"bits per byte")
        self.assertIn("In the beginning", result.output)

    def test_launch_page_names_every_command(self):
        shown = self.longspan("--help").output
        names = re.findall(r"(?m)^  ([a-z][\w-]*) {2,}\S", shown)
        self.assertIn("train", names)
        text = text_of(SOURCE / "launch" / "README.md")
        for name in names:
            self.assertIn(f"longspan {name}", text)


if __name__ == "__main__":
    jobs.main()
