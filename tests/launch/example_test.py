#!/usr/bin/env python3
"""launch/example and what makes its data, in a copy of the tree whose packages are made up.

    tests/launch/example_test.py build/launch/longspan
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
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

def words_of(count, first=0):
    """Different words of three letters."""
    return [f"{a}{b}{c}" for a in "bdfgk" for b in "lmnpr" for c in "stvzbdf"][first:first + count]


class Example(jobs.TestCase):
    small = ("--set training.steps=4 --set training.warmup=2 --set model.width=16 --set model.layers=1 --set data.batch_tokens=2000 "
             "--set training.validation_every=4 --set metrics.every=1 --set run.threads=1")

    def setUp(self):
        super().setUp()
        self.tree = self.directory / "tree"
        shutil.copytree(jobs.SOURCE / "launch", self.tree / "launch", ignore=shutil.ignore_patterns("*.cpp", "*.h"))
        shutil.copytree(jobs.SOURCE / "configs", self.tree / "configs")
        (self.tree / "launch" / "setup").write_text("#!/bin/sh\n")  # it is built
        # All packages are installed.
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
        return subprocess.run([jobs.SOURCE / "launch" / name, *arguments], cwd=self.directory, capture_output=True, text=True,
                              check=False)

    def made(self, name):
        """The lines of train, validation and test."""
        return {part: (self.directory / "made" / f"{part}.{name}").read_text().splitlines() for part in ("train", "validation", "test")}

    def verses(self, source, target):
        for name, text in (("a.imp", source), ("b.imp", target)):
            (self.directory / name).write_text(text)
        return self.launch("verses", "a.imp", "b.imp", "made", "en", "es")

    def test_verses_that_both_have_are_plain_text(self):
        self.assertEqual(self.verses(KJV, SPANISH).stdout, "2 verses\n")
        lines = {side: sorted(sum(self.made(side).values(), [])) for side in ("en", "es")}
        self.assertEqual(lines, {"en": ["And it was void.", "In the beginning God made & saw."],
                                 "es": ["EN el principio crió Dios.", "Y la tierra."]})
        self.assertIn("no verse in common", self.verses("$$$Ruth 1:1\nx\n", SPANISH).stderr)

    def pronunciations(self, dictionary, *options):
        (self.directory / "dictionary.out").write_text(dictionary)
        return self.launch("pronunciations", *options, "dictionary.out", "made")

    def pairs(self, part):
        sides = [(self.directory / "made" / f"{part}.{side}").read_text().splitlines() for side in ("letters", "sounds")]
        return list(zip(*sides, strict=True))

    def test_pronunciations_have_the_stress_where_it_is_asked_for(self):
        for options, first in ((), "AA R D V AA R K"), (["--stress"], "AA1 R D V AA1 R K"):
            self.assertEqual(self.pronunciations(DICTIONARY, *options).stdout, "4 words\n")
            made = {pair for part in ("train", "validation", "test") for pair in self.pairs(part)}
            self.assertIn(("a a r d v a r k", first), made)
            self.assertEqual(("h e l l o", "HH AH0 L OW1") in made, bool(options))
            self.assertEqual(("h e l l o", "HH AH L OW") in made, not options)
            self.assertEqual({letters for letters, _ in made}, {"a a r d v a r k", "h e l l o", "r e a d", "i t ' s"})
        self.assertIn("has no line like", self.pronunciations("MNCL\n").stderr)

    def many_words(self):
        return "".join(f'("{word}" nil ((({word[0]} aa) 1) (({word[1]} eh) 0)))\n("{word}" n ((({word[0]} iy) 1) (({word[1]} eh) 0)))\n'
                       for word in words_of(175))

    def test_a_word_is_in_one_part_only(self):
        self.pronunciations(self.many_words())
        words = {part: [letters for letters, _ in self.pairs(part)] for part in ("train", "validation", "test")}
        self.assertEqual(sum(len(set(of)) for of in words.values()), 175)
        self.assertEqual(len(set().union(*words.values())), 175)
        self.assertEqual(len(words["train"]), 2 * len(set(words["train"])))
        for part in "validation", "test":  # the first pronunciation, so that there is one reference
            self.assertGreater(len(words[part]), 0)
            self.assertEqual(len(words[part]), len(set(words[part])))

    def test_pronunciation_from_data_to_figures(self):
        folder = self.tree / "runs" / "pronunciation"
        self.pronunciations(self.many_words())
        shutil.copytree(self.directory / "made", folder)
        (folder / "made").touch()
        output = self.example("pronunciation", LONGSPAN_EXAMPLE_SETTINGS=self.small + " --set data.vocabulary=275 "
                              "--set data.batch_tokens=400 --set training.validation_decoded=2").stdout
        figures = json.loads((folder / "figures.json").read_text())
        self.assertIn(f"\nphoneme error rate {figures['word_error_rate']:.2f}%, words wrong {100 - figures['exact_match']:.2f}%\n", output)
        first = self.pairs("test")[0]
        self.assertRegex(output, rf"(?m)^{first[0].replace(' ', '')}\|.*\|{first[1]}$")

    def test_images_from_data_to_figures(self):
        folder = self.tree / "runs" / "images"
        folder.mkdir(parents=True)
        for part, count in ("train", 12), ("validation", 4), ("test", 12):
            labels = [number % 10 for number in range(count)]
            (folder / f"{part}-images").write_bytes(images_test.idx([[[20 * label] * 28] * 28 for label in labels]))
            (folder / f"{part}-labels").write_bytes(images_test.idx_labels(labels))
        (folder / "made").touch()
        small = ("--set training.steps=2 --set training.warmup=1 --set model.width=8 --set model.layers=1 --set model.attention=local "
                 "--set model.attention_window=4 --set data.batch_tokens=3136 --set training.validation_every=2 --set run.threads=1")
        output = self.example("images", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertRegex(output, r"runs/images/test-images: loss [\d.]+, accuracy [\d.]+%, macro f1 [\d.]+%")
        self.assertRegex(output, r"(?m)^[\w-]+ +T-shirt\n[\w-]+ +trouser\n[\w-]+ +pullover$")

    def test_says_which_examples_there_are(self):
        names = sorted(file.name for file in (jobs.SOURCE / "launch" / "examples").iterdir())
        self.assertLessEqual({"pronunciation", "translation"}, set(names))
        self.assertEqual(re.findall(r"(?m)^  (\w+)  +\S", self.example("--help").stdout), names)
        wrong = self.example("translations", code=2)
        self.assertIn('there is no example "translations"', wrong.stderr)
        self.assertIn("translation ", wrong.stderr)

    def test_translation_from_data_to_figures(self):
        folder = self.tree / "runs" / "translation"
        book = "".join(f"$$$Genesis {chapter}:{verse}\n{'va' if side else 'go'} {chapter} {verse}\n"
                       for side in (0,) for chapter in range(1, 30) for verse in range(1, 30))
        self.verses(book, book.replace("go", "va"))
        shutil.copytree(self.directory / "made", folder)
        (folder / "made").touch()
        small = ("--set training.steps=8 --set training.warmup=2 --set model.width=16 --set model.layers=1 --set data.vocabulary=290 "
                 "--set data.batch_tokens=400 --set training.validation_every=8 --set training.validation_decoded=2 "
                 "--set checkpoint.every=2 --set metrics.every=1 --set run.threads=1")
        output = self.example("translation", LONGSPAN_EXAMPLE_SETTINGS=small).stdout
        self.assertRegex(output, r"runs/translation/test\.en: loss .* BLEU [\d.]+, chrF [\d.]+")
        self.assertEqual(output.count("translation "), output.count("reference   "))
        self.assertEqual(output.count("reference   "), 5)
        self.assertEqual(len((folder / "test.out").read_text().splitlines()), len((folder / "test.en").read_text().splitlines()))
        # Again: nothing is trained twice.
        self.assertIn("nothing is left to train", self.example("translation", LONGSPAN_EXAMPLE_SETTINGS=small).stdout)


if __name__ == "__main__":
    jobs.main()
