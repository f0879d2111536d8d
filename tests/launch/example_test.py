#!/usr/bin/env python3
"""launch/example and the scripts that make its data, in a copy of the tree with stubs of packages.

    tests/launch/example_test.py build/launch/longspan
"""

import collections
import importlib.machinery
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import images_test
import jobs

KJV = """$$$[ Module Heading ]

$$$Genesis 1:0
<chapter n="1"/>
$$$Genesis 1:1
In the <w lemma="strong:H7225">beginning</w> God<note placement="foot"><reference>1:1 </reference>Or, a god</note> made &amp; saw.
$$$Genesis 1:2
<title>A heading</title>¶ And it <transChange type="added">was</transChange> void.
$$$Genesis 1:3

$$$Ruth 1:1
Only here.
"""
SPANISH = """$$$Genesis 1:1
EN el principio <w>crió</w> Dios.
$$$Genesis 1:2
Y la tierra.
$$$Genesis 1:3
Sola aquí.
"""
DICTIONARY = """MNCL
("aardvark" nil (((aa r d) 1) ((v aa r k) 1)))
("hello" nil (((hh ax) 0) ((l ow) 1)))
("read" v (((r iy d) 1)))
("read" vd (((r eh d) 1)))
("read" n (((r iy d) 1)))
("it's" nil (((ih t s) 1)))
("a.d." nil (((ey) 1) ((d iy) 1)))
("odd" nil (nothing))
"""

LICENSE = "  1 This software and database is being provided to you  \n"
NOUNS = LICENSE + """\
00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 ~ 00002137 n 0000 ~ 04424418 n 0000 | that which is perceived  or known; "it | is"
02084071 05 n 01 dog 0 001 @ 02083346 n 0000 | a member of the genus "Canis"; barks: "a dog"; "it barked"
"""
VERBS = LICENSE + """\
00001740 29 v 01 breathe 0 000 02 + 02 00 + 08 00 | draw air into, and expel out of, the lungs; "I can breathe better"
"""
ADJECTIVES = LICENSE + '00001740 44 a 01 able 0 000 | "quoted throughout"\n'
ADVERBS = LICENSE + "00001740 02 r 02 a_cappella 0 b 1 000 | without musical accompaniment\n"


def words_of(count, first=0):
    """Returns distinct words of three letters."""
    return [f"{a}{b}{c}" for a in "bdfgk" for b in "lmnpr" for c in "stvzbdf"][first:first + count]


def module_of(name):
    """Imports launch/data_prep/NAME, whose name does not end in .py."""
    loader = importlib.machinery.SourceFileLoader(name, str(jobs.SOURCE / "launch" / "data_prep" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Example(jobs.TestCase):
    small = ("--set training.max_steps=4 --set training.lr_scheduler.warmup_steps=2 --set model.hidden_size=16 "
             "--set model.num_hidden_layers=1 --set data.global_batch_tokens=2000 "
             "--set training.validation.interval=4 --set metrics.log_interval=1 --set run.num_threads=1")

    def setUp(self):
        super().setUp()
        self.tree = self.directory / "tree"
        shutil.copytree(jobs.SOURCE / "launch", self.tree / "launch", ignore=shutil.ignore_patterns("*.cpp", "*.h"))
        shutil.copytree(jobs.SOURCE / "configs", self.tree / "configs")
        (self.tree / "launch" / "setup").write_text("#!/bin/sh\n")  # already built
        # Reports all packages as installed.
        (self.directory / "bin").mkdir()
        (self.directory / "bin" / "dpkg-query").write_text('#!/bin/sh\nfor word; do echo "installed $word"; done\n')
        (self.directory / "bin" / "dpkg-query").chmod(0o755)
        (self.tree / "build" / "launch").mkdir(parents=True)
        (self.tree / "build" / "launch" / "longspan").symlink_to(self.program)

    def example(self, *arguments, code=0, **environment):
        result = subprocess.run([self.tree / "launch" / "example", *arguments], capture_output=True, text=True, timeout=240, check=False,
                                cwd=self.directory, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1",
                                     "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", **environment})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.last_errors = result.stderr
        return result

    def launch(self, name, *arguments):
        return subprocess.run([jobs.SOURCE / "launch" / "data_prep" / name, *arguments], cwd=self.directory, capture_output=True, text=True,
                              check=False)

    def made(self, name):
        """Returns the lines of train, validation and test."""
        return {part: (self.directory / "made" / f"{part}.{name}").read_text().splitlines() for part in ("train", "validation", "test")}

    def verses(self, source, target):
        for name, text in (("a.imp", source), ("b.imp", target)):
            (self.directory / name).write_text(text)
        return self.launch("make-bible-pairs", "a.imp", "b.imp", "made", "en", "es")

    def test_bible_pairs_contain_common_verses_as_plain_text(self):
        self.assertEqual(self.verses(KJV, SPANISH).stdout, "2 verses\n")
        lines = {side: sorted(sum(self.made(side).values(), [])) for side in ("en", "es")}
        self.assertEqual(lines, {"en": ["And it was void.", "In the beginning God made & saw."],
                                 "es": ["EN el principio crió Dios.", "Y la tierra."]})
        self.assertIn("no verse in common", self.verses("$$$Ruth 1:1\nx\n", SPANISH).stderr)

    def test_single_bible_yields_its_verses(self):
        (self.directory / "a.imp").write_text(KJV)
        self.assertEqual(self.launch("make-bible-pairs", "a.imp", "made", "text").stdout, "3 verses\n")
        self.assertEqual(sorted(sum(self.made("text").values(), [])),
                         ["And it was void.", "In the beginning God made & saw.", "Only here."])

    def pronunciations(self, dictionary, *options):
        (self.directory / "dictionary.out").write_text(dictionary)
        return self.launch("make-cmudict", *options, "dictionary.out", "made")

    def pairs(self, part):
        sides = [(self.directory / "made" / f"{part}.{side}").read_text().splitlines() for side in ("letters", "sounds")]
        return list(zip(*sides, strict=True))

    def test_cmudict_contains_stress_on_request(self):
        for options, first in ((), "AA R D V AA R K"), (["--stress"], "AA1 R D V AA1 R K"):
            self.assertEqual(self.pronunciations(DICTIONARY, *options).stdout, "4 words\n")
            made = {pair for part in ("train", "validation", "test") for pair in self.pairs(part)}
            self.assertIn(("a a r d v a r k", first), made)
            self.assertEqual(("h e l l o", "HH AH0 L OW1") in made, bool(options))
            self.assertEqual(("h e l l o", "HH AH L OW") in made, not options)
            self.assertEqual({letters for letters, _ in made}, {"a a r d v a r k", "h e l l o", "r e a d", "i t ' s"})
        self.assertIn("expected lines such as", self.pronunciations("MNCL\n").stderr)

    def many_words(self):
        return "".join(f'("{word}" nil ((({word[0]} aa) 1) (({word[1]} eh) 0)))\n("{word}" n ((({word[0]} iy) 1) (({word[1]} eh) 0)))\n'
                       for word in words_of(175))

    def test_cmudict_words_belong_to_one_split(self):
        self.pronunciations(self.many_words())
        words = {part: [letters for letters, _ in self.pairs(part)] for part in ("train", "validation", "test")}
        self.assertEqual(sum(len(set(of)) for of in words.values()), 175)
        self.assertEqual(len(set().union(*words.values())), 175)
        self.assertEqual(len(words["train"]), 2 * len(set(words["train"])))
        for part in "validation", "test":  # only the first pronunciation, as the reference
            self.assertGreater(len(words[part]), 0)
            self.assertEqual(len(words[part]), len(set(words[part])))

    def test_g2p_example_reports_error_rates(self):
        folder = self.tree / "runs" / "g2p"
        self.pronunciations(self.many_words())
        shutil.copytree(self.directory / "made", folder)
        (folder / "made").touch()
        output = self.example("g2p", LONGSPAN_EXAMPLE_SETTINGS=self.small + " --set data.tokenizer.vocab_size=275 "
                              "--set data.global_batch_tokens=400 --set training.validation.num_decoded_examples=2").stdout
        metrics = json.loads((folder / "evaluation.json").read_text())
        self.assertIn(f"\nphoneme error rate {metrics['word_error_rate']:.2f}%, word error rate {100 - metrics['exact_match']:.2f}%\n", output)
        first = self.pairs("test")[0]
        self.assertRegex(output, rf"(?m)^{first[0].replace(' ', '')}\|.*\|{first[1]}$")

    def images(self):
        """Writes a few uniform gray images of each split to runs/image-classification."""
        folder = self.tree / "runs" / "image-classification"
        folder.mkdir(parents=True)
        for part, count in ("train", 12), ("validation", 4), ("test", 12):
            labels = [number % 10 for number in range(count)]
            (folder / f"{part}-images").write_bytes(images_test.idx([[[20 * label] * 28] * 28 for label in labels]))
            (folder / f"{part}-labels").write_bytes(images_test.idx_labels(labels))
        (folder / "made").touch()

    def test_image_classification_example_reports_metrics(self):
        self.images()
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 --set model.hidden_size=8 "
                 "--set model.num_hidden_layers=1 --set model.attention.layer_types=sliding_window "
                 "--set model.attention.sliding_window=5 --set data.global_batch_tokens=3136 "
                 "--set training.validation.interval=2 --set run.num_threads=1")
        output = self.example("image-classification", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertRegex(output, r"runs/image-classification/test-images: loss [\d.]+, accuracy [\d.]+%, macro f1 [\d.]+%")
        self.assertRegex(output, r"(?m)^[\w-]+ +T-shirt\n[\w-]+ +trouser\n[\w-]+ +pullover$")

    def test_image_generation_example_writes_images(self):
        self.images()
        folder = self.tree / "runs" / "image-generation"
        (self.tree / "launch" / "data_prep" / "resize-images").write_text("#!/bin/sh\n")  # already resized
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 --set model.hidden_size=8 "
                 "--set model.num_hidden_layers=1 --set data.global_batch_tokens=3136 "
                 "--set training.validation.interval=2 --set run.num_threads=1")
        output = self.example("image-generation", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertRegex(output, r"runs/image-classification/test-images: .*bits per dim [\d.]+")
        self.assertRegex(output, r"(?m)^\S+  Data in runs/image-classification: ")
        for name in "sheet", "completed":
            self.assertEqual((folder / f"{name}.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_algorithmic_data_is_correct(self):
        algorithms = module_of("make-algorithmic")
        source = algorithms.random.Random(1)
        for length in (*range(2, 30), 400):
            for task in algorithms.TASKS:
                (word, *given), result = (text.split() for text in algorithms.example(source, task, length))
                self.assertEqual((word, len(given)), (task, max(length, 3) if task == "add" else length))
                if task == "add":
                    left, right = "".join(given).split("+")
                    self.assertEqual("".join(result), str(int(left) + int(right)))
                else:
                    self.assertEqual(result, given if task == "copy" else given[::-1])

    def test_algorithmic_example_reports_accuracy_by_length(self):
        folder = self.tree / "runs" / "algorithmic"
        self.assertIn("96 sequences", self.launch("make-algorithmic", folder, "--num-train", "90", "--num-validation", "6", "--num-test", "3").stdout)
        (folder / "made").touch()
        output = self.example("algorithmic", LONGSPAN_EXAMPLE_SETTINGS=self.small + " --set model.recurrence.num_steps=2").stdout
        for task in "copy", "reverse", "add":
            for length in 40, 80, 400:
                self.assertRegex(output, rf"(?m)^{task} +{length} +\d+\.\d +\d+\.\d +[12]\.\d\d +[12]\.\d\d$")
        for stack in "encoder", "decoder":
            picture = (folder / f"{stack}-steps.svg").read_text()
            self.assertEqual(len(re.findall("<polyline", picture)), 9)
            self.assertIn("copy-400</text>", picture)

    def test_families_example_compares_systems(self):
        (self.tree / "runs" / "families").mkdir(parents=True)
        (self.tree / "runs" / "families" / "made").touch()
        corpus = self.tree / "runs" / "corpora" / "kjv"
        corpus.mkdir(parents=True)
        for part in "train", "validation", "test":
            jobs.write_text(corpus / f"{part}.txt", words=400)
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 --set model.hidden_size=16 "
                 "--set data.global_batch_size=4 --set data.seq_length=32 --set metrics.log_interval=1 "
                 "--set run.num_threads=1")
        asked = ["softmax", "routing", "gated"]
        output = self.example("families", *asked, LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        table = output[output.index("system "):].splitlines()[1:]
        self.assertEqual([line.split()[0] for line in table], asked)
        for line in table:
            self.assertRegex(line, r"^\S+ +\d+\.\d{3} +[\d,]+ +\d+$")
        self.assertIn('unknown system "soft" (choices: softmax relative ', self.example("families", "soft", code=1).stderr)

    def test_recall_example_compares_layer_types(self):
        for stage in 8, 64:  # smaller
            (self.tree / "configs" / f"recall-{stage}.txt").write_text(f"associative_recall pairs {stage // 4} values 8\n")
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 --set model.hidden_size=16 --set model.head_dim=8 "
                 "--set data.global_batch_size=4 --set metrics.log_interval=1 --set run.num_threads=1")
        asked = ["full", "gated_delta_net"]
        output = self.example("recall", *asked, LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        lines = output[output.index("type "):].splitlines()[1:]
        for line, name, state in zip(lines, asked, ["16 per token", "8 x 8"], strict=True):
            self.assertRegex(line, rf"^{name} +\d+ +{state} +\d+\.\d\d +\d+\.\d\d +\d+$")
        for name in asked:
            self.assertIn("Initialized weights from runs/recall/8/" + name, (self.tree / f"runs/recall/64/{name}/log.txt").read_text())
        # The accuracy is that of all queries of the test episodes.
        test = json.loads((self.tree / "runs/recall/64/full/test.json").read_text())
        correct = test["accuracy"] / 100 * test["episodes"] * 16
        self.assertAlmostEqual(correct, round(correct))

    def test_long_context_example_extends_and_exports_model(self):
        folder = self.tree / "runs" / "long-context"
        folder.mkdir(parents=True)
        (folder / "made").touch()
        corpus = self.tree / "runs" / "corpora" / "kjv"
        corpus.mkdir(parents=True)
        for part in "train", "validation", "test":
            jobs.write_text(corpus / f"{part}.txt", words=2000)
        text = (corpus / "train.txt").read_text()
        (folder / "chapters.txt").write_text(text[:3000] + "\n\n" + text[3000:])
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 "
                 "--set model.num_hidden_layers=1 --set model.hidden_size=16 --set model.intermediate_size=32 "
                 "--set training.validation.interval=0 --set metrics.log_interval=1 --set run.num_threads=1")
        output = self.example("long-context", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertIn("Changed intentionally (allow_config_changes): model.rope.scaling.type: checkpoint has none, config has yarn", output)
        rows = re.findall(r"(?m)^ +(\d+) to +(\d+) +(\d\.\d{3}) +(\d\.\d{3})$", output)
        self.assertEqual([(int(begin), int(end)) for begin, end, _, _ in rows], [(128 * i, 128 * i + 127) for i in range(8)])
        found = re.findall(r"(?m)^ +(\d+) +(\d)/4 +\d\.\d{3} +(\d)/4 +\d\.\d{3}$", output)
        self.assertEqual(len(found), 5)
        self.assertEqual(sorted((int(row[0]) for row in found), reverse=True), [int(row[0]) for row in found])
        config = json.loads((folder / "long" / "config.json").read_text())
        self.assertEqual((config["model_type"], config["rope_scaling"]["rope_type"], config["max_position_embeddings"]),
                         ("llama", "yarn", 1024))

    def test_compared_systems_have_valid_settings(self):
        for example, part, configurations, least in (("families", "", ["families"], 20),
                                                     ("long-range", "", ["long-range", "listops"], 18),
                                                     ("positions", "decoder", ["families"], 10),
                                                     ("positions", "encoder-decoder", ["g2p-cmudict"], 3)):
            systems = subprocess.run(["bash", "-c", f". launch/scripts/examples/{example} && part={part} && systems"], cwd=jobs.SOURCE,
                                     check=True, capture_output=True, text=True).stdout.splitlines()
            self.assertGreaterEqual(len(systems), least)
            for line, configuration in itertools.product(systems, configurations):
                name, *settings = line.split()
                with self.subTest(system=name, configuration=configuration):
                    words = [word for setting in settings for word in ("--set", setting)]
                    result = self.longspan("config", jobs.SOURCE / "configs" / f"{configuration}.yaml", *words)
                    self.assertNotIn(" is ignored: ", result.output + result.errors)

    def test_long_range_example_draws_chart(self):
        folder = self.tree / "runs" / "long-range"
        (folder / "listops").mkdir(parents=True)
        self.listops()
        for part in "train", "validation", "test":
            shutil.copy(self.directory / "made" / f"{part}.tsv", folder / "listops")
        (folder / "text").write_text("".join(line.partition("\t")[2] + "\n" for line in self.made("tsv")["train"]))
        subprocess.run([self.program, "tokenizer", "train", folder / "text", "--vocab-size", "278", "--model-type", "word", "--output",
                        folder / "listops" / "vocabulary.model"], check=True, capture_output=True)
        (folder / "made").touch()
        labels = [number % 10 for number in range(20)]
        for what, content in ("images-idx3-ubyte", images_test.idx([[[12 * label] * 28] * 28 for label in labels])), \
                ("labels-idx1-ubyte", images_test.idx_labels(labels)):
            (self.directory / f"given-{what}").write_bytes(content)
        for length, rows, columns in (256, 16, 16), (784, 28, 28), (2048, 32, 64):
            (folder / str(length)).mkdir()
            for part in "train", "validation", "test":
                made = subprocess.run([jobs.SOURCE / "launch" / "data_prep" / "resize-images", self.directory / "given", str(rows), str(columns), "5", "10",
                                       folder / str(length) / part], capture_output=True, text=True, check=False)
                self.assertEqual(made.returncode, 0, made.stderr)
            found = (folder / str(length) / "test-images").read_bytes()
            self.assertEqual(found[16:], b"".join(bytes([12 * label]) * length for label in labels[5:15]))
        small = ("--set training.max_steps=2 --set training.lr_scheduler.warmup_steps=1 "
                 "--set model.num_hidden_layers=1 --set model.hidden_size=8 --set metrics.log_interval=1 "
                 "--set run.num_threads=1 --set training.validation.interval=0")
        output = self.example("long-range", "local", "linear", "fnet", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertEqual(len(re.findall(r"(?m)^(?:local|linear|fnet) +\d+\.\d{3} +[\d,]+ +\d+$", output)), 12, output)
        picture = (folder / "accuracy-speed.svg").read_text()
        self.assertEqual(picture.count("<circle"), 12)
        self.assertEqual(xml.etree.ElementTree.fromstring(picture).tag, "{http://www.w3.org/2000/svg}svg")

    def test_help_lists_examples(self):
        names = sorted(file.name for file in (jobs.SOURCE / "launch" / "scripts" / "examples").iterdir())
        self.assertLessEqual({"g2p", "listops", "tagging", "text-classification", "translation"}, set(names))
        self.assertEqual(re.findall(r"(?m)^  ([\w-]+)  +\S", self.example("--help").stdout), names)
        self.assertNotIn("SPDX", self.example("--help").stdout)
        wrong = self.example("translations", code=2)
        self.assertIn('unknown example "translations"', wrong.stderr)
        self.assertIn("translation ", wrong.stderr)

    def glosses(self, nouns):
        folder = self.directory / "wordnet"
        folder.mkdir(exist_ok=True)
        for name, text in ("noun", nouns), ("verb", VERBS), ("adj", ADJECTIVES), ("adv", ADVERBS):
            (folder / f"data.{name}").write_text(text)
        return self.launch("make-wordnet-definitions", "wordnet", "made")

    def test_wordnet_definitions_have_classes(self):
        self.assertEqual(self.glosses(NOUNS).stdout, "5 definitions\n")
        self.assertEqual(sorted(sum(self.made("tsv").values(), [])),
                         ['adj.ppl\t"quoted throughout"', "adv.all\twithout musical accompaniment",
                          "noun.Tops\tthat which is perceived or known", 'noun.animal\ta member of the genus "Canis"; barks',
                          "verb.body\tdraw air into, and expel out of, the lungs"])
        self.assertIn("wordnet/data.noun:2: expected a synset", self.glosses(NOUNS.replace("00001740 03", "00001740 45")).stderr)

    def vocabulary(self, folder):
        """Trains a vocabulary on the file `text` of a folder and marks the folder as made."""
        subprocess.run([self.program, "tokenizer", "train", folder / "text", "--vocab-size", "300", "--output", folder / "vocabulary.model"],
                       check=True, capture_output=True)
        (folder / "made").touch()

    def many_glosses(self):
        """Writes 100 definitions each of animals and plants, and their vocabulary; returns the folder."""
        self.glosses("".join(f"00001740 {kind} n 01 x 0 000 | the {kind} of {word}, {word[::-1]}\n" * 2
                             for word in words_of(100) for kind in ("05", "20")))
        folder = self.tree / "runs" / "text-classification"
        shutil.copytree(self.directory / "made", folder)
        (folder / "text").write_text("".join(line.partition("\t")[2] + "\n" for line in self.made("tsv")["train"]))
        self.vocabulary(folder)
        return folder

    def test_text_classification_example_reports_metrics(self):
        folder = self.many_glosses()
        parts = {part: set(lines) for part, lines in self.made("tsv").items()}
        self.assertEqual(sum(map(len, parts.values())), len(set().union(*parts.values())))  # duplicates too
        self.assertTrue(all(parts.values()), parts)
        output = self.example("text-classification", LONGSPAN_EXAMPLE_SETTINGS=self.small).stdout
        self.assertRegex(output, r"runs/text-classification/test\.tsv: loss .*accuracy [\d.]+%, macro f1 [\d.]+%")
        shown = output[output.index("Five examples"):].splitlines()[1:]
        self.assertEqual(len(shown), min(5, len((folder / "test.tsv").read_text().splitlines())))
        for line in shown:
            self.assertIn(line.partition("\t")[2], parts["test"])

    def test_listops_evaluates_known_expressions(self):
        value = module_of("make-listops").value
        for text, expected in (("[MAX 2 9 [MIN 4 7 ] 0 ]", 9), ("[SM 5 6 7 ]", 8), ("[MED 1 2 ]", 1), ("[MED 3 8 9 ]", 8),
                               ("[MED 2 5 ]", 3), ("[MED 9 [SM 9 9 ] 0 ]", 8), ("7", 7)):
            self.assertEqual(value(text.split()), expected, text)
        self.assertEqual(len("[MAX 2 9 [MIN 4 7 ] 0 ]".split()), 9)  # tokens, the unit of the length bounds

    def test_listops_samples_follow_distribution(self):
        listops = module_of("make-listops")
        source = listops.random.Random(3)
        drawn = [listops.sample(source, 2, 4) for _ in range(20000)]
        lists = [tokens for tokens in drawn if len(tokens) > 1]
        self.assertAlmostEqual(len(lists) / len(drawn), 0.25, delta=0.01)
        for found, expected in (collections.Counter(tokens[0] for tokens in lists), {"[MIN", "[MAX", "[MED", "[SM"}), \
                (collections.Counter(len(tokens) - 2 for tokens in lists), {2, 3, 4}):
            self.assertEqual(set(found), expected)
            for count in found.values():
                self.assertAlmostEqual(count / len(lists), 1 / len(expected), delta=0.03)
        digits = collections.Counter(tokens[0] for tokens in drawn if len(tokens) == 1)
        self.assertEqual(set(digits), set("0123456789"))
        for count in digits.values():
            self.assertAlmostEqual(count / digits.total(), 0.1, delta=0.01)

    def listops(self, *options):
        result = self.launch("make-listops", "made", "--num-train", "300", "--num-validation", "20", "--num-test", "30", *options)
        self.assertEqual((result.returncode, result.stdout), (0, "350 expressions\n"), result.stderr)
        return self.made("tsv")

    def test_listops_is_deterministic_without_duplicates(self):
        made = self.listops()
        self.assertEqual([len(lines) for lines in made.values()], [300, 20, 30])
        texts = [line.partition("\t")[2] for line in sum(made.values(), [])]
        self.assertEqual(len(set(texts)), 350)
        lengths = [len(text.split()) for text in texts]
        self.assertTrue(all(8 < length < 64 for length in lengths))
        self.assertGreater(max(lengths), 40)
        self.assertEqual(self.listops(), made)
        self.assertNotEqual(self.listops("--seed", "2"), made)
        # The splits share one order: a shorter training split moves its end to validation.
        self.assertEqual(self.listops("--num-train", "280", "--num-test", "50")["validation"], made["train"][280:])

    def test_listops_example_reports_accuracy(self):
        output = self.example("listops", LONGSPAN_EXAMPLE_SETTINGS=self.small + " --set data.global_batch_tokens=6000").stdout
        self.assertIn("Data in runs/listops: 103000 expressions", output)
        self.assertIn("vocabulary.model: 278 pieces (word)", self.last_errors)
        self.assertRegex(output, r"runs/listops/test\.tsv: loss .*accuracy [\d.]+%")
        shown = [line.split("\t") for line in output[output.index("Five examples"):].splitlines()[1:]]
        self.assertEqual(len(shown), 5)
        for _, true, text in shown:
            self.assertEqual(int(true), module_of("make-listops").value(text.split()))

    def punctuation(self, **texts):
        folder = self.directory / "made"
        folder.mkdir(exist_ok=True)
        for part in "train", "validation", "test":
            (folder / f"{part}.text").write_text(texts.get(part, "") + "\n", encoding="utf-8")
        return self.launch("make-punctuation-tags", "extract", "made")

    def test_punctuation_round_trips_through_tags(self):
        text = "And the LORD God said, Who? I am: it\N{RIGHT SINGLE QUOTATION MARK}s well-known!"
        self.assertEqual(self.punctuation(train="And (yea) he spake;", validation=text, test="Yea, he;").stdout, "3 sentences\n")
        made = self.made("tags")
        self.assertEqual(made["train"][:5], ["and\tUpper", "yea\tlower", "he\tlower", "spake\tlower;", ""])
        # Sentences with tags that training lacks move to training, here both.
        self.assertEqual((made["validation"], made["test"]), ([], []))
        for word, tag in ("lord\tALL", "said\tlower,"), ("who\tUpper?", "i\tUpper"), ("am\tlower:", "well-known\tlower!"):
            self.assertIn(word, made["train"])
            self.assertIn(tag, made["train"])
        second = made["train"].index("")
        words, tags = zip(*(line.split("\t") for line in made["train"][second + 1:made["train"].index("", second + 1)]))
        for name, of in ("words", words), ("given", tags):
            (self.directory / name).write_text(" ".join(of) + "\n", encoding="utf-8")
        self.assertEqual(self.launch("make-punctuation-tags", "restore", "words", "given").stdout, text + "\n")

    def tags_folder(self):
        """Writes tagging data of lines with two sentences; returns the lines."""
        text = "".join(f"{a.capitalize()} {b} {c}. {a.capitalize()} {b}, {c}\n"
                       for a, b, c in zip(words_of(60), words_of(60, 30), words_of(60, 60)))
        self.punctuation(train=text, validation=text[:100].rpartition("\n")[0], test=text[-199:].partition("\n")[2].strip())
        folder = self.tree / "runs" / "tagging"
        shutil.copytree(self.directory / "made", folder)
        (folder / "text").write_text(text.lower())
        self.vocabulary(folder)
        return text.splitlines()

    def test_tagging_example_reports_accuracy(self):
        text = self.tags_folder()
        output = self.example("tagging", LONGSPAN_EXAMPLE_SETTINGS=self.small).stdout
        self.assertRegex(output, r"runs/tagging/test\.tags: loss .*accuracy [\d.]+%")
        shown = output[output.index("Five examples"):].splitlines()[1:]
        self.assertEqual(shown[3::4], [""] * 5)
        for words, found, true in zip(shown[0::4], shown[1::4], shown[2::4], strict=True):
            self.assertIn(true, text)
            self.assertEqual(words, true.lower().replace(".", "").replace(",", ""))
            self.assertEqual(found.lower().translate({ord(sign): None for sign in ".,;:?!"}), words)

    def treebank(self, name, words):
        sentence = lambda a, b: (f"# text = {a} {b}\n1-2\t{a}{b}" + "\t_" * 8 + f"\n1\t{a}\t_\tNOUN" + "\t_" * 6 +
                                 f"\n2\t{b}\t_\tVERB" + "\t_" * 6 + "\n2.1\tnone" + "\t_" * 8 + "\n\n")
        (self.directory / name).write_text("".join(sentence(a, b) for a, b in zip(words, words[::-1])))

    def test_tagging_example_accepts_conllu_files(self):
        for name, words in ("x.conllu", words_of(100)), ("y.conllu", words_of(10, 100)), ("z.conllu", words_of(6, 100)):
            self.treebank(name, words)
        output = self.example("tagging", "x.conllu", "y.conllu", "z.conllu", LONGSPAN_EXAMPLE_SETTINGS=self.small).stdout
        self.assertRegex(output, r"z\.conllu: loss .*accuracy [\d.]+%")
        shown = output[output.index("Five examples"):].splitlines()[1:]
        words = words_of(6, 100)
        self.assertEqual(shown[0::4], [f"{a} {b}" for a, b in list(zip(words, words[::-1]))[:5]])
        self.assertEqual(shown[2::4], ["NOUN VERB"] * 5)
        self.assertTrue(set(" ".join(shown[1::4]).split()) <= {"NOUN", "VERB"}, shown)
        self.assertEqual(len(list((self.tree / "runs").glob("tagging-x-*/run/checkpoints"))), 1)
        self.assertIn("none.conllu: expected a file", self.example("tagging", "x.conllu", "y.conllu", "none.conllu", code=1).stderr)
        self.assertIn("tagging TRAIN VALIDATION TEST", self.example("tagging", "x.conllu", code=2).stderr)

    def test_translation_example_reports_bleu(self):
        folder = self.tree / "runs" / "translation"
        book = "".join(f"$$$Genesis {chapter}:{verse}\n{'va' if side else 'go'} {chapter} {verse}\n"
                       for side in (0,) for chapter in range(1, 30) for verse in range(1, 30))
        self.verses(book, book.replace("go", "va"))
        shutil.copytree(self.directory / "made", folder)
        (folder / "made").touch()
        small = ("--set training.max_steps=8 --set training.lr_scheduler.warmup_steps=2 --set model.hidden_size=16 "
                 "--set model.num_hidden_layers=1 --set data.tokenizer.vocab_size=290 "
                 "--set data.global_batch_tokens=400 --set training.validation.interval=8 "
                 "--set training.validation.num_decoded_examples=2 --set checkpoint.save_interval=2 "
                 "--set metrics.log_interval=1 --set run.num_threads=1")
        output = self.example("translation", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertRegex(output, r"runs/translation/test\.en: loss .* BLEU [\d.]+, chrF [\d.]+")
        self.assertEqual(output.count("translation "), output.count("reference   "))
        self.assertEqual(output.count("reference   "), 5)
        self.assertEqual(len((folder / "test.out").read_text().splitlines()), len((folder / "test.en").read_text().splitlines()))
        # A second run trains nothing.
        self.assertIn("Nothing to train", self.example("translation", LONGSPAN_EXAMPLE_SETTINGS=small).stdout)


if __name__ == "__main__":
    jobs.main()
