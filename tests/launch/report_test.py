#!/usr/bin/env python3
"""`longspan report`: pages of runs, and what a browser shows of them.

    tests/launch/report_test.py build/launch/longspan
"""

import json
import math
import os
import re
import shutil
import sys
import time
import unittest
from html import unescape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import browser
import jobs
from jobs import Layout, until


class ReportTest(jobs.TestCase):
    sections = {**jobs.TestCase.sections, "metrics": {"every": 1, "timing": True}}

    def report(self, *runs, output="report.html"):
        self.longspan("report", *runs, "--output", output)
        return (self.directory / output).read_text()

    def write_metrics(self, directory, text):
        folder = self.directory / directory
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text(text)


def data_of(page):
    """The numbers that the page's script draws."""
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', page).group(1))


def rows_of(page, table):
    """The cells of a table, row by row, as texts."""
    body = re.search(rf'(?s)<table id="{table}">.*?<tbody>(.*?)</tbody>', page).group(1)
    return [[unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in body.split("</tr>") if row.strip()]


class Runs(ReportTest):
    def test_a_resumed_run_is_one(self):
        self.train(settings={"training.steps": 6})
        self.train(settings={"training.steps": 10})
        page = self.report("run/")
        [[name, state, step, tokens, seconds, lines]] = rows_of(page, "runs")
        self.assertEqual([name, state, step, lines], ["run", "finished", "10 of 10", "10"])
        self.assertEqual(tokens, str(10 * 8 * 8))
        self.assertRegex(seconds, r"^[\d.]+ (s|min)$")
        run = data_of(page)["runs"][0]
        metrics = self.run_at().metrics()
        self.assertEqual(run["step"], list(range(1, 11)))
        for found, line in zip(run["columns"]["loss"]["mean"], metrics, strict=True):
            self.assertAlmostEqual(found, line["loss"], delta=1e-5 * line["loss"])
        # What a step was spent on is less than the step.
        for line in metrics:
            parts = [line[f"{part}_seconds"] for part in ("reading", "waiting", "saving", "validating")]
            self.assertGreaterEqual(min(parts), 0)
            self.assertLess(sum(parts), line["step_seconds"])
        self.assertGreater(max(line["saving_seconds"] for line in metrics), 0)

    def test_ranks_wait_for_each_other_and_validations_take_their_time(self):
        self.train(layout=Layout(2, 1), settings={"data.validation": "text.txt", "training.validation_every": 4})
        metrics = self.run_at().metrics()
        self.assertGreater(sum(line["waiting_seconds"] for line in metrics), 0)
        for line in metrics:
            self.assertEqual(line["validating_seconds"] > 0, "validation_loss" in line, line)

    def test_a_run_in_progress_is_shown_and_shown_again(self):
        job = self.start_training(settings={"training.steps": 1000000})
        until(lambda: job.ended() or ((self.directory / "run/metrics.jsonl").exists() and len(self.run_at().metrics_bytes()) > 2000))
        self.assertFalse(job.ended(), job.output() + job.errors())
        [[_, state, step, *_]] = rows_of(self.report("run"), "runs")
        self.assertEqual(state, "running")
        self.assertRegex(step, r"^[\d,]+ of 1,000,000$")
        self.assert_one_sentence(self.longspan("report", "run", "--output", "report.html", code=2), "--output: report.html is there already")
        self.longspan("report", "run", "--output", "report.html", "--replace")
        self.assertEqual(sorted(path.name for path in self.directory.glob("report*")), ["report.html"])

    def test_lines_that_are_unfinished_or_come_again(self):
        lines = [json.dumps({"step": step, "tokens": 10 * step, "loss": loss}) + "\n"
                 for step, loss in ((1, 1), (2, 2), (3, 3), (2, 22), (3, 33))]
        self.write_metrics("again", "".join(lines) + '{"step": 4, "lo')
        page = self.report("again")
        self.assertEqual(rows_of(page, "runs"), [["again", "stopped", "3", "30", "not logged", "3, and 2 whose steps were made again"]])
        self.assertEqual(data_of(page)["runs"][0]["columns"]["loss"]["mean"], [1, 22, 33])

    def test_mistakes_are_told(self):
        self.write_metrics("good", '{"step": 1, "loss": 1.0}\n')
        self.write_metrics("damaged", '{"step": 1, "loss": 1.0}\nhello\n{"step": 2, "loss": 1.0}\n')
        self.write_metrics("young", '{"step": 1')
        (self.directory / "empty").mkdir()
        (self.directory / "folder").mkdir()
        (self.directory / "begun" / "checkpoints").mkdir(parents=True)
        (self.directory / "begun" / "config.yaml").write_text("training:\n  steps: 3\n")
        os.mkfifo(self.directory / "pipe")
        (self.directory / "link").symlink_to("gone")
        for arguments, code, *parts in (
                (["nowhere", "--output", "a.html"], 3, "nowhere: there is no such directory"),
                (["good", "nowhere", "--output", "a.html"], 3, "nowhere: there is no such directory"),
                (["tiny.yaml", "--output", "a.html"], 3, "tiny.yaml: is a file; wanted: the directory of a run"),
                (["empty", "--output", "a.html"], 3, "empty: no run is here; wanted: the directory of a run"),
                (["begun", "--output", "a.html"], 3, "begun/metrics.jsonl: there is no such file: the run has logged no step yet"),
                (["good", "--output", "pipe", "--replace"], 2, "--output: pipe is a device or a pipe; wanted: a file"),
                (["good", "--output", "link"], 2, "--output: link is there already"),
                (["young", "--output", "a.html"], 3, "young/metrics.jsonl: has no whole line: the run has logged no step yet"),
                (["damaged", "--output", "a.html"], 3, "damaged/metrics.jsonl:2: found something else than a line of metrics"),
                (["good", "good/", "--output", "a.html"], 2, "RUN: good is named twice"),
                (["good", "--output", "folder"], 2, "--output: folder is a directory; wanted: a file"),
                (["good", "--output", "tiny.yaml"], 2, "--output: tiny.yaml is there already; wanted: a new file, or --replace"),
                (["good", "--output", "nowhere/a.html"], 1, "nowhere/a.html", "No such file or directory"),
                (["good"], 2, "--output is required"),
                (["--output", "a.html"], 2, "RUN is required")):
            with self.subTest(arguments=arguments):
                self.assert_one_sentence(self.longspan("report", *arguments, code=code), *parts)
        self.assertEqual(list(self.directory.glob("*.html*")), [])


class ManySteps(ReportTest):
    """A million logged steps of each of three runs with LONGSPAN_ALL=1."""

    steps = 1_000_000 if os.environ.get("LONGSPAN_ALL") == "1" else 60_000

    def write_run(self, number):
        folder = self.directory / f"long{number}"
        folder.mkdir()
        peak = self.steps // 3 + number
        with open(folder / "metrics.jsonl", "w") as file:
            for step in range(1, self.steps + 1):
                loss = 100.0 + number if step == peak else 2 + 3 / step + 0.1 * math.sin(step)
                file.write(f'{{"step": {step}, "tokens": {4096 * step}, "loss": {loss}, "learning_rate": {1e-3 / (1 + 1e-5 * step)}, '
                           f'"gradient_norm": {0.7234562323 + 1e-7 * (step % 977)}, "tokens_per_second": {81234.123456 + step % 13}, '
                           f'"model_flops_utilisation": 0.6123498761, "peak_memory_bytes": 123456789, "step_seconds": 0.0503423452, '
                           f'"reading_seconds": 0.0003423124, "waiting_seconds": 0.0013423409, "saving_seconds": 0.0, '
                           f'"validating_seconds": 0.0}}\n')
        return 100.0 + number

    def test_are_thinned_in_time_without_losing_a_peak(self):
        peaks = [self.write_run(number) for number in range(3)]
        began = time.monotonic()
        page = self.report("long0", "long1", "long2")
        seconds = time.monotonic() - began
        print(f"{self.steps} steps x 3 in {seconds:.2f} s, {len(page)} bytes")
        self.assertLess(seconds, 10)
        self.assertLess(len(page), 5_000_000)
        data = data_of(page)
        for run, peak in zip(data["runs"], peaks, strict=True):
            loss = run["columns"]["loss"]
            self.assertEqual(max(loss["most"]), peak)
            self.assertEqual(sum(value == peak for value in loss["most"]), 1)
            self.assertEqual(run["step"][-1], self.steps)
            self.assertEqual(run["tokens"][-1], 4096 * self.steps)
            self.assertAlmostEqual(run["seconds"][-1], 0.0503423452 * self.steps, delta=1e-3 * self.steps)
            self.assertGreater(len(run["step"]), 900)


@unittest.skipUnless(browser.PROGRAM, browser.MISSING)
class InABrowser(ReportTest):
    def open(self, *runs):
        self.report(*runs)
        self.page = browser.Browser()
        self.addCleanup(self.page.close)
        self.page.open(self.directory / "report.html")
        return self.page

    def assert_sound(self):
        self.assertEqual(self.page.errors, [])
        path = (self.directory / "report.html").resolve().as_uri()
        self.assertEqual([url for url in self.page.requests if url not in (path, "about:blank")], [])

    def choose(self, control, value):
        name = "checked" if isinstance(value, bool) else "value"
        self.page.value(f"""{{ const control = document.querySelector({json.dumps(control)}); control.{name} = {json.dumps(value)};
                            control.dispatchEvent(new Event("change", {{bubbles: true}})); }}""")

    # Pixels of the first chart that have something in them, by run: those that are near its colour.
    def painted(self):
        return self.page.value("""[...document.querySelectorAll("#runs .colour")].map((mark) => {
            const wanted = getComputedStyle(mark).borderBottomColor.match(/\\d+/g).map(Number);
            const canvas = document.querySelector(".chart canvas");
            const found = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let i = 0; i < found.length; i += 4)
                if (found[i + 3] > 200 && wanted.every((value, k) => Math.abs(value - found[i + k]) < 30)) ++count;
            return count; })""")

    def texts(self, selector):
        return self.page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.textContent)")

    def test_two_runs_over_each_other(self):
        every = {"training.steps": 30, "data.validation": "text.txt", "training.validation_every": 10, "training.validation_batches": 2}
        self.train("one", settings=every)
        self.train("two", Layout(2, 1), {**every, "training.steps": 20, "model.width": 32, "training.learning_rate": 0.002})
        self.open("one", "two")
        self.assert_sound()
        self.assertRegex(self.page.value("document.title"), r"^one \(step 30\), two \(step 20\), \d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        # The table of last values is that of the lines.
        last = [self.run_at(name).metrics()[-1] for name in ("one", "two")]
        for column in "loss", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second", "peak_memory_bytes", "step_seconds":
            found = self.page.value(f"""[...document.querySelectorAll("#last-values tr[data-column={column}] td[data-value]")]
                                    .map((cell) => Number(cell.dataset.value))""")
            self.assertEqual(found, [line[column] for line in last], column)
        shown = self.texts("#last-values tr[data-column=loss] td")
        self.assertEqual(shown, ["nats", *(f"{line['loss']:.6g}" for line in last)])
        # What differs is told, and nothing else.
        differing = {row[0]: row[1:] for row in rows_of((self.directory / "report.html").read_text(), "differences")}
        self.assertEqual(differing["model.width"], ["16", "32"])
        self.assertEqual(differing["training.learning_rate"], ["0.01", "0.002"])
        self.assertNotIn("model.layers", differing)
        self.assertNotIn("run.directory", differing)
        # Every chart is drawn, over each axis.
        charts = self.page.value('document.querySelectorAll(".chart").length')
        self.assertGreater(charts, 8)
        captions = self.texts("figcaption")
        for caption in "Loss; dashed: of the validation nats", "Where the time of a step goes: two seconds":
            self.assertIn(caption, captions)
        for axis, label in ("tokens", "tokens"), ("seconds", "(seconds|minutes) of training"), ("step", "steps"):
            self.choose("#axis", axis)
            self.assertEqual(self.page.value("document.documentElement.dataset.drawn"), str(charts), axis)
            [found] = set(self.texts(".dygraph-xlabel"))
            self.assertRegex(found, f"^{label}$")
            self.assertGreater(min(self.painted()), 20, axis)
        self.assertIn("nats", self.texts(".dygraph-ylabel"))
        for control in "#logarithmic", "#range":
            self.choose(control, control == "#logarithmic")
            self.assertGreater(min(self.painted()), 20, control)
        # A run that is not wanted is not drawn.
        self.choose('#runs input[data-run="1"]', False)
        one, two = self.painted()
        self.assertGreater(one, 20)
        self.assertEqual(two, 0)
        self.assert_sound()

    def test_gaps_and_single_points_are_drawn(self):
        lines = [{"step": step, "tokens": step, "loss": None if 4 <= step <= 6 else 10 / step, "zero": 0} for step in range(1, 11)]
        for line in lines:
            if line["loss"] is None:
                line["loss_reason"] = "nan"
        lines[4]["validation_accuracy"] = 50
        self.write_metrics("gaps", "".join(json.dumps(line) + "\n" for line in lines))
        self.open("gaps")
        whole = self.painted()[0]
        self.assertEqual(self.texts("#last-values tr[data-column=loss] small"), ["3 are no number, first at step 4"])
        self.assertEqual(self.texts("#last-values tr[data-column=validation_accuracy] small"), ["at step 5"])
        self.choose("#logarithmic", True)
        self.assertIn("Nothing is above 0: there is no logarithm.", self.texts(".chart"))
        self.assertGreater(whole, 20)
        # It has no time, and no chart over it.
        self.choose("#axis", "seconds")
        self.assertEqual(set(self.texts(".chart")), {"Not known over time of training."})
        self.assert_sound()

    def test_nothing_that_a_run_says_is_taken_for_markup(self):
        bad = '<img src=x onerror="window.taken=1">\'&</script><script>window.taken=2</script>'
        line = {"step": 1, "tokens": 1, "loss": 2.0, f"validation_loss:{bad}": 3.0, "sample": bad}
        names = ['<b>"&\'', "<script>window.taken=3<"]
        for name in names:
            self.write_metrics(name, json.dumps(line) + "\n")
            (self.directory / name / "config.yaml").write_text(json.dumps({"data": {"train": bad if name == names[0] else "other"}}))
            (self.directory / name / "log.txt").write_text(f"2025-01-31 12:34:56.789 warning {bad}\n")
        self.open(*names)
        self.assertIsNone(self.page.value("window.taken"))
        self.assertEqual([text.strip() for text in self.texts("#runs tbody th")], names)
        self.assertEqual(self.texts("#texts pre"), [bad, bad])
        self.assertIn(bad, self.texts("#warnings pre")[0])
        # As YAML, between quotation marks.
        self.assertEqual([json.loads(text) for text in self.texts("#differences td")], [bad, "other"])
        self.assertIn(f"Validation: loss:{bad}", " ".join(self.texts("figcaption")))
        self.assert_sound()

    def test_columns_may_have_any_name_and_numbers_any_size(self):
        for name, column in ("one", "constructor"), ("two", "__proto__"):
            self.write_metrics(name, "".join(f'{{"step": {step}, "tokens": 1e300, "{column}": {value}, "step_seconds": 1e308}}\n'
                                             for step, value in ((1, -1e308), (2, 1e308), (2**53, 0))))
        self.open("one", "two")
        self.assertEqual(self.page.value("document.documentElement.dataset.drawn"), str(len(self.texts("figcaption"))))
        self.assertEqual([cells[3] for cells in rows_of((self.directory / "report.html").read_text(), "runs")], ["1e+300", "1e+300"])
        self.assert_sound()

    def test_curves_stand_out_from_both_backgrounds(self):
        self.write_metrics("run", "".join(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in range(1, 9)))
        for number in range(8):
            shutil.copytree(self.directory / "run", self.directory / f"run{number}")
        self.open(*(f"run{number}" for number in range(8)))

        def luminance(colour):
            parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
            parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722)))
        for scheme in "light", "dark":
            self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            back, text, *curves = map(luminance, self.page.value("""[getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.body).color, ...[...document.querySelectorAll("#runs .colour")]
                .map((mark) => getComputedStyle(mark).borderBottomColor)]"""))
            self.assertEqual(back > 0.5, scheme == "light")
            self.assertEqual(len(set(curves)), 8)
            for least, colours in (7, [text]), (3, curves):
                for colour in colours:
                    self.assertGreaterEqual((max(back, colour) + 0.05) / (min(back, colour) + 0.05), least, scheme)
        self.assert_sound()


if __name__ == "__main__":
    jobs.main()
