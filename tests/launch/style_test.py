#!/usr/bin/env python3
"""Names and prose of the tree: no banned idiom in pages and messages, and names in the style of CONTRIBUTING.md.

    tests/launch/style_test.py build/launch/longspan
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
import prose

SOURCE = jobs.SOURCE
PRODUCT = ("framework", "models", "checkpoints", "launch")


def sources(*folders):
    files = [file for folder in folders for file in sorted((SOURCE / folder).rglob("*")) if file.suffix in (".h", ".cpp", ".cu", ".inl")]
    assert len(files) > 10, folders
    return files


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Prose(jobs.TestCase):
    def assert_clean(self, found):
        self.assertEqual(found, [], f"{len(found)} banned idioms:\n" + "\n".join(found))

    def test_pages_have_no_banned_idiom(self):
        found = []
        for page in sorted(file for file in SOURCE.rglob("*.md") if not re.match(r"(build|runs|\.)", str(file.relative_to(SOURCE)))):
            text = page.read_text()
            found += [f"{page.relative_to(SOURCE)}:{line_of(text, position)}: \"{words}\"; write: {advice}"
                      for position, words, advice in prose.findings(prose.without_code(text))]
        self.assert_clean(found)

    def test_messages_have_no_banned_idiom(self):
        found = []
        for file in sources(*PRODUCT):
            if file.name == "field_names.cpp":  # keys of other projects, as they spell them
                continue
            text = file.read_text()
            literals, _ = prose.literals_and_comments(text)
            found += [f"{file.relative_to(SOURCE)}:{line_of(text, position)}: \"{words}\" in \"{literal[:80]}\"; write: {advice}"
                      for position, literal in literals if " " in literal for _, words, advice in prose.findings(literal)]
        self.assert_clean(found)

    def test_comments_have_no_banned_idiom(self):
        found = []
        for file in sources(*PRODUCT, "tests"):
            text = file.read_text()
            _, comments = prose.literals_and_comments(text)
            for position, comment in comments:
                place = f"{file.relative_to(SOURCE)}:{line_of(text, position)}"
                found += [f"{place}: \"{words}\"; write: {advice}" for _, words, advice in prose.findings(comment)]
                if re.match(rf"\s*{prose.OPENINGS}\b", comment):
                    found.append(f"{place}: begins with \"{comment.split()[0]}\"")
        self.assert_clean(found)

    def test_help_has_no_banned_idiom(self):
        commands = re.findall(r"(?m)^  ([a-z-]+) {2,}\S", self.longspan("--help").output)
        self.assertGreater(len(commands), 12)
        found = []
        for words in [["--help"], *([command, "--help"] for command in commands), ["config", "--reference"]]:
            text = self.longspan(*words).output
            found += [f"longspan {' '.join(words)}: \"{idiom}\"; write: {advice}" for _, idiom, advice in prose.findings(text)]
        self.assert_clean(found)

    def test_banned_idioms_are_found(self):
        text = "The run goes on beside it.\n// Of a row."
        self.assertEqual([words for _, words, _ in prose.findings(text)], ["goes on", "beside"])
        self.assertEqual([words for _, words, _ in prose.findings("colours of neighbours")], ["colours", "neighbours"])
        literals, comments = prose.literals_and_comments('f("a \\" b", \'"\', R"x(raw "text")x");  // why\n#include "no.h"\n')
        self.assertEqual([text for _, text in literals], ['a \\" b', 'raw "text"'])
        self.assertEqual([text for _, text in comments], [" why"])
        self.assertEqual(prose.findings(prose.without_code("`goes on`\n```sh\nbeside\n```\n[x](beside)")), [])


class Naming(jobs.TestCase):
    """Types are PascalCase; functions, variables, enumerators and files snake_case; members of classes end in `_`."""

    MEMBER = re.compile(r"(?m)^  (?! |static|using|friend|return|struct|class|enum)[\w:<>,&* ]+[ &*](\w+)(?: = [^;(]*|\{[^;]*\})?;$")
    TYPE = re.compile(r"(?m)^\s*(?:class|struct|union|enum class|enum) (?:alignas\([^)]*\) )?(\w+)(?= (?:final )?[:{]|;)")
    FUNCTION = re.compile(r"(?m)^[A-Za-z_][\w:<>,&* ]*[ &*](\w+)\([^;{}]*\)(?: const| noexcept| override)* \{$")

    def test_cpp_names_follow_style(self):
        rules = ((self.TYPE, r"[A-Z][A-Za-z0-9]*|CU\w+_st", "a type is PascalCase"),
                 (self.FUNCTION, r"[a-z][a-z0-9_]*|operator\w*|__launch_bounds__", "a function is snake_case"))
        found = []
        for file in sources(*PRODUCT, "tests"):
            if file.is_relative_to(SOURCE / "tests" / "support") or file.name == "older_clang.h":
                continue  # they define functions of CUDA, NCCL and the standard library
            text = file.read_text()
            if not re.fullmatch(r"[a-z0-9_]+", file.stem):
                found.append(f"{file.relative_to(SOURCE)}: a file is snake_case")
            for section in re.finditer(r"(?ms)^ private:\n(.*?)^(?: public:|};)", text):
                found += [f"{file.relative_to(SOURCE)}:{line_of(text, section.start(1) + match.start(1))}: {match[1]}: a private member ends in _"
                          for match in self.MEMBER.finditer(section[1]) if not match[1].endswith("_")]
            for pattern, allowed, rule in rules:
                found += [f"{file.relative_to(SOURCE)}:{line_of(text, match.start(1))}: {match[1]}: {rule}"
                          for match in pattern.finditer(text) if not re.fullmatch(allowed, match[1])]
        self.assertEqual(found, [], "\n".join(found))

    def test_script_names_follow_style(self):
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "launch", "tests"], capture_output=True, text=True)
        if listed.returncode:
            self.skipTest("no clone")
        found = []
        for name in listed.stdout.splitlines():
            if name.endswith(".py"):
                text = (SOURCE / name).read_text()
                found += [f"{name}:{line_of(text, match.start(1))}: {match[1]}: a function is snake_case"
                          for match in re.finditer(r"(?m)^ *def (\w+)\(", text)
                          if not re.fullmatch(r"[a-z_][a-z0-9_]*|setUp\w*|tearDown\w*|runTest|visit_\w+|do_[A-Z]+", match[1])]
        self.assertEqual(found, [], "\n".join(found))


if __name__ == "__main__":
    jobs.main()
