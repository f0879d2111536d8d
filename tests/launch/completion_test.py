#!/usr/bin/env python3
"""Shell completion and manual pages, which the program generates from its tables of options.

    tests/launch/completion_test.py build/launch/longspan
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs

# Emulates readline: splits the line at blanks and COMP_WORDBREAKS, and completes the last word.
COMPLETE = r'''
source "$1"
complete -p longspan >/dev/null || exit 9
compopt() { OPTIONS+="$* "; }
shift
COMP_WORDBREAKS=${BREAKS-$' \t\n"\'><=;|&(:'}
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_longspan longspan
printf '%s\n' "${OPTIONS-}" "${COMPREPLY[@]}"
'''


def commands_of(text):
    """Returns the commands in the help text."""
    return re.findall(r"(?m)^  ([a-z-]+) ", text.split("Subcommands:")[1].split("Examples:")[0])


class CompletionCommand(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.script = self.directory / "longspan.bash"
        self.script.write_text(self.longspan("completion", "bash").output)

    def complete(self, line, breaks=None):
        """Returns what bash offers at the end of the line; a trailing blank starts a word. Without an offer bash completes
        file names, unless the script disables that (self.offers_files)."""
        words = re.findall(r"=|[^ =]+", line) + ([""] if line.endswith(" ") else [])
        environment = {"PATH": f"{Path(self.program).resolve().parent}:/usr/bin:/bin"}
        if breaks is not None:
            environment["BREAKS"] = breaks
            words = line.split(" ")
        result = subprocess.run(["bash", "--noprofile", "--norc", "-c", COMPLETE, "bash", self.script, *words],
                                env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        options, *offers = result.stdout.splitlines()
        self.offers_files = "+o default" not in options
        return [offer for offer in offers if offer]

    def test_bash_registers_completion_function(self):
        result = subprocess.run(["bash", "-c", 'source "$1" && complete -p longspan', "bash", self.script],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "complete -o default -F _longspan longspan\n")

    def test_completes_commands(self):
        commands = commands_of(self.longspan("--help").output)
        self.assertIn("train", commands)
        self.assertEqual(set(self.complete("longspan ")), set(commands))
        self.assertEqual(self.complete("longspan tr"), ["train"])
        self.assertEqual(set(self.complete("longspan tokenizer ")), {"train", "encode", "decode"})
        self.assertEqual(set(self.complete("longspan co")), {"config", "compare", "completion"})
        self.assertEqual(self.complete("longspan launch -n 2 -- eva"), ["evaluate"])

    def test_completes_options_and_choices(self):
        self.assertIn("--set", self.complete("longspan train --"))
        self.assertEqual(set(self.complete("longspan list --")), {"--help", "--json"})
        self.assertEqual(self.complete("longspan tokenizer train --voc"), ["--vocab-size"])
        self.assertEqual(set(self.complete("longspan evaluate runs/a --split ")), {"validation", "test", "train"})
        self.assertEqual(self.complete("longspan evaluate runs/a --split=t"), ["test", "train"])
        self.assertEqual(set(self.complete("longspan completion ")), {"bash", "zsh", "fish"})
        self.assertIn("tokenizer", self.complete("longspan man t"))
        self.assertIn("encoder_decoder", self.complete("longspan config --template enc"))

    def test_leaves_files_to_readline(self):
        for line in "longspan train my", "longspan tail ", "longspan plan a.yaml --machine-profile m":
            self.assertEqual((self.complete(line), self.offers_files), ([], True), line)
        self.assertEqual((self.complete("longspan train a.yaml --set training.max_steps=1"), self.offers_files), ([], False))

    def test_completes_config_keys_and_values(self):
        for before in "train a.yaml", "config", "launch -n 2 -- train a.yaml", "evaluate runs/a":
            with self.subTest(before=before):
                self.assertEqual(set(self.complete(f"longspan {before} --set training.max_s")), {"training.max_steps="})
        schedules = {"constant", "linear", "cosine", "inverse_sqrt", "warmup_stable_decay"}
        self.assertEqual(set(self.complete("longspan train a.yaml --set training.lr_scheduler.type=")), schedules)
        self.assertEqual(self.complete("longspan train a.yaml --set training.lr_scheduler.type=co"), ["constant", "cosine"])
        self.assertEqual(self.complete("longspan train a.yaml --set run.seed=1 --set model.tie_word_embeddings=t"), ["true"])
        self.assertEqual(self.complete("longspan train a.yaml --set training.max_steps=1"), [])
        self.assertIn("decoder", self.complete("longspan train a.yaml --set model.family=d"))
        # If bash does not split at "=", it offers the full word.
        self.assertEqual(self.complete("longspan train a.yaml --set training.lr_scheduler.type=lin", breaks=" \t\n"),
                         ["training.lr_scheduler.type=linear"])

    def test_returns_candidates_to_any_shell(self):
        for line, found in [("tr", "train\tTrain"), ("tokenizer t", "train\t"), ("train --se", "--set\t"),
                            ("launch -n 2 -- eva", "evaluate\t"), ("train a.yaml --set training.max_s", "training.max_steps=\n"),
                            ("train a.yaml --set data.train=", ":files\n"), ("train ", ":files\n"), ("train --unknown=", ""),
                            ("train a.yaml --set=training.lr_scheduler.type=lin", "--set=training.lr_scheduler.type=linear\n")]:
            with self.subTest(line=line):
                output = self.longspan("completion", "zsh", "--", *line.split(" ")).output
                self.assertTrue(output.startswith(found) if found else output == "", output)
                self.assertLess(output.count("\n"), 2)

    def offers(self, shell, script, line):
        """Returns what zsh or fish offers at the end of the line."""
        environment = {**os.environ, "HOME": str(self.directory),
                       "PATH": f"{Path(self.program).resolve().parent}:{os.environ['PATH']}"}
        if shell == "fish":
            command = ["fish", "-c", f'source {script}; complete -C "longspan {line}"']
        else:  # with the functions of the completion system that the script calls
            command = ["zsh", "-fc", f"""
                compdef() {{ }}
                compset() {{ }}
                compadd() {{ while [[ $1 == -* ]]; do [[ $1 == -S ]] && shift; [[ $1 == -- ]] && break; shift; done; shift
                    print -l -- $prefix${{^@}} }}
                _describe() {{ print -l -- ${{${{(P)2}}%%:*}} }}
                _files() {{ print :files }}
                source {script}
                words=(longspan {line}{" ''" if line.endswith(" ") else ""})
                CURRENT=$#words
                _longspan"""]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        self.assertEqual(result.stderr, "")
        return sorted(offer.split("\t")[0] for offer in result.stdout.splitlines())

    def test_zsh_and_fish_offer_same_candidates(self):
        missing = [shell for shell in ("zsh", "fish") if shutil.which(shell) is None]
        for shell in {"zsh", "fish"} - set(missing):
            script = self.directory / f"longspan.{shell}"
            script.write_text(self.longspan("completion", shell).output)
            for line, found in [("tr", ["train"]), ("tokenizer ", ["decode", "encode", "train"]),
                                ("launch -n 2 -- eva", ["evaluate"]),
                                ("train a.yaml --set training.max_s", ["training.max_steps="]),
                                ("train a.yaml --set training.lr_scheduler.type=co",
                                 ["training.lr_scheduler.type=constant", "training.lr_scheduler.type=cosine"])]:
                with self.subTest(shell=shell, line=line):
                    self.assertEqual(self.offers(shell, script, line), found)
        if missing:
            self.skipTest(f"there is no {' and no '.join(missing)}")

    def test_rejects_unknown_shell(self):
        self.assert_one_sentence(self.longspan("completion", "tcsh", code=2), "SHELL", "tcsh")
        self.assert_one_sentence(self.longspan("completion", code=2), "SHELL is required")


class ManCommand(jobs.TestCase):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.longspan("man", "--output-dir", "man1").output, "")
        self.pages = sorted((self.directory / "man1").iterdir())

    def test_writes_a_page_per_command(self):
        commands = commands_of(self.longspan("--help").output)
        self.assertEqual([page.name for page in self.pages],
                         sorted(["longspan.1", *(f"longspan-{command}.1" for command in commands)]))
        for name, arguments in ("longspan.1", []), ("longspan-train.1", ["train"]):
            self.assertEqual((self.directory / "man1" / name).read_text(), self.longspan("man", *arguments).output)

    def test_groff_reports_no_warnings(self):
        if shutil.which("groff") is None:
            self.skipTest("there is no groff")
        for page in self.pages:
            with self.subTest(page=page.name):
                result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", page], capture_output=True, text=True,
                                        timeout=60, check=False)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                for part in "NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO":
                    self.assertIn(part, result.stdout)

    def test_pages_contain_help_text(self):
        def shown(page):
            text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", self.directory / "man1" / page],
                                  capture_output=True, text=True, timeout=60, check=True).stdout
            return " ".join(text.split())
        if shutil.which("groff") is None:
            self.skipTest("there is no groff")
        page = shown("longspan-evaluate.1")
        for part in "--split", "KEY=VALUE", "longspan evaluate", "75 stopped on request":
            self.assertIn(part, page)
        self.assertIn("--vocab-size", shown("longspan-tokenizer.1"))
        self.assertIn("longspan-train(1)", shown("longspan.1"))

    def test_shows_placeholders_and_rejects_invalid_arguments(self):
        for command, value in (("train", "FIRST:LAST"), ("train", "KEY=VALUE"), ("attention-maps", "LAYER:HEAD"), ("generate", "INT")):
            self.assertRegex(self.longspan("man", command).output, rf"\\fI{value}\\fR\n")
        self.assert_one_sentence(self.longspan("man", "trian", code=2), 'unknown command "trian"', 'did you mean "train"?')
        self.assert_one_sentence(self.longspan("man", "train", "--output-dir", "x", code=2), "cannot be combined with \"train\"")
        self.assert_one_sentence(self.longspan("man", "--output-dir", "text.txt", code=1), "text.txt: cannot be created")


if __name__ == "__main__":
    jobs.main()
