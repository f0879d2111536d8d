#!/usr/bin/env python3
"""`longspan report`: HTML pages of runs, their server, and their rendering in a browser.

    tests/launch/report_test.py build/launch/longspan
"""

import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
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
    sections = {**jobs.TestCase.sections, "metrics": {"log_interval": 1, "log_timing": True}}

    def report(self, *runs, output="report.html"):
        self.longspan("report", *runs, "--output", output)
        return (self.directory / output).read_text()

    def write_metrics(self, directory, text):
        folder = self.directory / directory
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text(text)


def data_of(page):
    """Returns the data of the script of the page."""
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', page).group(1))


def rows_of(page, table):
    """Returns the texts of the cells of a table, by row."""
    body = re.search(rf'(?s)<table id="{table}">.*?<tbody>(.*?)</tbody>', page).group(1)
    return [[unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in body.split("</tr>") if row.strip()]


class ReportCommand(ReportTest):
    def test_resumed_run_is_one_run(self):
        self.train(settings={"training.max_steps": 6})
        self.train(settings={"training.max_steps": 10})
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
        # The phases of a step take less time than the step.
        for line in metrics:
            parts = [line[f"{part}_seconds"] for part in ("data_loading", "communication_wait", "checkpoint", "validation")]
            self.assertGreaterEqual(min(parts), 0)
            self.assertLess(sum(parts), line["step_seconds"])
        self.assertGreater(max(line["checkpoint_seconds"] for line in metrics), 0)

    def test_metrics_include_wait_and_validation_times(self):
        self.train(layout=Layout(2, 1), settings={"data.validation": "text.txt", "training.validation.interval": 4})
        metrics = self.run_at().metrics()
        self.assertGreater(sum(line["communication_wait_seconds"] for line in metrics), 0)
        for line in metrics:
            self.assertEqual(line["validation_seconds"] > 0, "validation_loss" in line, line)

    def test_shows_running_run_and_overwrites_on_request(self):
        job = self.start_training(settings={"training.max_steps": 1000000})
        until(lambda: job.ended() or ((self.directory / "run/metrics.jsonl").exists() and len(self.run_at().metrics_bytes()) > 2000))
        self.assertFalse(job.ended(), job.output() + job.errors())
        [[_, state, step, *_]] = rows_of(self.report("run"), "runs")
        self.assertEqual(state, "running")
        self.assertRegex(step, r"^[\d,]+ of 1,000,000$")
        self.assert_one_sentence(self.longspan("report", "run", "--output", "report.html", code=2), "--output: report.html already exists")
        self.longspan("report", "run", "--output", "report.html", "--overwrite")
        self.assertEqual(sorted(path.name for path in self.directory.glob("report*")), ["report.html"])

    def test_ignores_incomplete_and_recomputed_lines(self):
        lines = [json.dumps({"step": step, "tokens": 10 * step, "loss": loss}) + "\n"
                 for step, loss in ((1, 1), (2, 2), (3, 3), (2, 22), (3, 33))]
        self.write_metrics("again", "".join(lines) + '{"step": 4, "lo')
        page = self.report("again")
        self.assertEqual(rows_of(page, "runs"), [["again", "stopped", "3", "30", "not logged", "3, and 2 of recomputed steps"]])
        self.assertEqual(data_of(page)["runs"][0]["columns"]["loss"]["mean"], [1, 22, 33])

    def test_rejects_invalid_arguments_and_runs(self):
        self.write_metrics("good", '{"step": 1, "loss": 1.0}\n')
        self.write_metrics("damaged", '{"step": 1, "loss": 1.0}\nhello\n{"step": 2, "loss": 1.0}\n')
        self.write_metrics("young", '{"step": 1')
        (self.directory / "empty").mkdir()
        (self.directory / "folder").mkdir()
        (self.directory / "begun" / "checkpoints").mkdir(parents=True)
        (self.directory / "begun" / "config.yaml").write_text("training:\n  max_steps: 3\n")
        os.mkfifo(self.directory / "pipe")
        (self.directory / "link").symlink_to("gone")
        for arguments, code, *parts in (
                (["nowhere", "--output", "a.html"], 3, "nowhere: no such directory"),
                (["good", "nowhere", "--output", "a.html"], 3, "nowhere: no such directory"),
                (["tiny.yaml", "--output", "a.html"], 3, "tiny.yaml: expected a run directory, found a file"),
                (["empty", "--output", "a.html"], 3, "empty: expected a run directory, found no run"),
                (["begun", "--output", "a.html"], 3, "begun/metrics.jsonl: no such file: the run has logged no step yet"),
                (["good", "--output", "pipe", "--overwrite"], 2, "--output: expected a file, found the device or pipe pipe"),
                (["good", "--output", "link"], 2, "--output: link already exists"),
                (["young", "--output", "a.html"], 3, "young/metrics.jsonl: has no complete line: the run has logged no step yet"),
                (["damaged", "--output", "a.html"], 3, "damaged/metrics.jsonl:2: expected a line of metrics"),
                (["good", "good/", "--output", "a.html"], 2, "RUN: duplicate run good"),
                (["good", "--output", "folder"], 2, "--output: expected a file, found the directory folder"),
                (["good", "--output", "tiny.yaml"], 2, "--output: tiny.yaml already exists; name a new file"),
                (["good", "--output", "nowhere/a.html"], 1, "nowhere/a.html", "No such file or directory"),
                (["good"], 2, "requires --output FILE"),
                (["good", "--serve", "--output", "a.html"], 2, "--output excludes --serve"),
                (["good", "--output", "a.html", "--port", "8080"], 2, "--port requires --serve"),
                (["good", "--serve", "--port", "70000"], 2, "--port", "70000"),
                (["nowhere", "--serve"], 3, "nowhere: no such directory"),
                (["damaged", "--serve"], 3, "damaged/metrics.jsonl:2: expected a line of metrics"),
                (["--output", "a.html"], 2, "RUN is required")):
            with self.subTest(arguments=arguments):
                self.assert_one_sentence(self.longspan("report", *arguments, code=code), *parts)
        self.assertEqual(list(self.directory.glob("*.html*")), [])


class LargeReport(ReportTest):
    """Three runs of 100,000 logged steps, or of a million with LONGSPAN_ALL=1."""

    steps = 1_000_000 if os.environ.get("LONGSPAN_ALL") == "1" else 100_000

    def write_run(self, number):
        folder = self.directory / f"long{number}"
        folder.mkdir()
        peak = self.steps // 3 + number
        with open(folder / "metrics.jsonl", "w") as file:
            for step in range(1, self.steps + 1):
                loss = 100.0 + number if step == peak else 2 + 3 / step + 0.1 * math.sin(step)
                file.write(f'{{"step": {step}, "tokens": {4096 * step}, "loss": {loss}, "learning_rate": {1e-3 / (1 + 1e-5 * step)}, '
                           f'"grad_norm": {0.7234562323 + 1e-7 * (step % 977)}, "tokens_per_second": {81234.123456 + step % 13}, '
                           f'"mfu": 0.6123498761, "peak_memory_bytes": 123456789, "step_seconds": 0.0503423452, '
                           f'"data_loading_seconds": 0.0003423124, "communication_wait_seconds": 0.0013423409, "checkpoint_seconds": 0.0, '
                           f'"validation_seconds": 0.0}}\n')
        return 100.0 + number

    def test_downsampling_is_fast_and_keeps_peaks(self):
        peaks = [self.write_run(number) for number in range(3)]
        times = []
        while len(times) < 3 and not (times and min(times) < 10):  # the machine may be busy
            (self.directory / "report.html").unlink(missing_ok=True)
            began = time.monotonic()
            page = self.report("long0", "long1", "long2")
            times.append(time.monotonic() - began)
        seconds = min(times)
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
        if browser.PROGRAM:
            self.assert_paints_within_a_second()

    def assert_paints_within_a_second(self):
        page = browser.Browser()
        self.addCleanup(page.close)
        first = []
        while len(first) < 3 and not (first and min(first) < 1000):  # the machine may be busy
            page.open(self.directory / "report.html")
            first.append(until(lambda: page.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"), 30))
        print(f"first paint after {min(first):.0f} ms")
        self.assertLess(min(first), 1000)
        self.assertTrue(until(lambda: page.value("document.documentElement.dataset.drawn"), 60))
        self.assertEqual(page.errors, [])


class ReportServer(ReportTest):
    def watch(self, *runs, port=None):
        """Starts a server; returns its port, the path of the page, and the job."""
        job = self.start("report", *runs, "--serve", *([] if port is None else ["--port", port]))
        self.assertTrue(until(lambda: job.ended() or "\n" in job.output(), 60))
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)\n", job.output())
        self.assertIsNotNone(found, job.output() + job.errors())
        return int(found[1]), found[2], job

    def ask(self, port, path, method="GET", headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def write_lines(self, steps, mode="w", directory="run"):
        (self.directory / directory).mkdir(exist_ok=True)
        with open(self.directory / directory / "metrics.jsonl", mode) as file:
            file.writelines(f'{{"step": {step}, "tokens": {step}, "loss": {1 / step}}}\n' for step in steps)

    def test_serves_only_requests_with_token(self):
        self.write_lines(range(1, 4))
        port, path, job = self.watch("run")
        status, headers, page = self.ask(port, path)
        self.assertEqual((status, headers["Content-Type"], headers["Cache-Control"]), (200, "text/html; charset=utf-8", "no-store"))
        self.assertEqual(data_of(page)["runs"][0]["step"], [1, 2, 3])
        status, headers, update = self.ask(port, path + "update")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        self.assertEqual(json.loads(update)["data"], data_of(page))
        self.assertEqual(self.ask(port, path + "update", headers={"If-None-Match": headers["ETag"]})[0::2], (304, ""))
        self.assertEqual(self.ask(port, path + "update", headers={"If-None-Match": '"other"'})[0], 200)
        self.assertEqual(self.ask(port, path, "HEAD")[0::2], (200, ""))
        token = path.strip("/")
        for other in ("/", "/favicon.ico", "/update", "//", "", token + "/", f"/{token[:-1]}/", f"/{token}0/", path[:-2] + "/", f"/{'0' * 32}/",
                      f"/{'0' * 32}/update", f"http://127.0.0.1:{port}{path}", path[:-1]):
            self.assertEqual(self.ask(port, other or "/x")[0], 403, other)
        self.assertEqual(self.ask(port, path + "metrics.jsonl")[0], 404)
        self.assertEqual(self.ask(port, path + "../run/metrics.jsonl")[0], 404)
        for method in "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
            status, headers, _ = self.ask(port, path, method, body="x")
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"), method)
            self.assertEqual(self.ask(port, "/", method)[0], 403, method)
        # Other host names, as in DNS rebinding, and an invalid request.
        for host in f"evil.example:{port}", "evil.example", "127.0.0.1", f"127.0.0.1:{port}.evil.example", "":
            self.assertEqual(self.ask(port, path, headers={"Host": host})[0], 403, host)
        self.assertEqual(self.ask(port, path, headers={"Host": f"localhost:{port}"})[0], 200)
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"hello\r\n\r\n")
            raw.recv(1000)
        self.assertEqual(self.ask(port, path, headers={"Long": "x" * 20000})[0], 400)
        self.assertEqual(self.ask(port, path)[0], 200)
        self.assertFalse(job.ended())
        # The server listens on the loopback address only.
        listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
        self.assertEqual([entry for entry in listening if entry.endswith(f":{port:04X}")], [f"0100007F:{port:04X}"])

    def test_stops_at_signals_and_rejects_used_port(self):
        self.write_lines([1])
        for number in signal.SIGINT, signal.SIGTERM:
            port, path, job = self.watch("run")
            with socket.create_connection(("127.0.0.1", port)) as idle:  # a client without a complete request
                idle.sendall(b"GET / HT")
                job.signal(number)
                result = job.wait()
            self.assertEqual(result.code, 0, result.errors)
        self.assertEqual(self.watch("run", port=port)[0], port)
        result = self.longspan("report", "run", "--serve", "--port", port, code=2)
        self.assert_one_sentence(result, f"--port: cannot listen on port {port}: Address already in use")
        result = self.longspan("report", "run", "--serve", ranks=2, code=2)
        self.assert_one_sentence(result, "expected 1 rank, found 2")

    def test_updates_follow_run_to_its_end(self):
        (self.directory / "run" / "checkpoints").mkdir(parents=True)
        (self.directory / "run" / "config.yaml").write_text("training:\n  max_steps: 10\n")
        port, path, _ = self.watch("run")
        versions = set()

        def poll():
            status, headers, update = self.ask(port, path + "update")
            self.assertEqual(status, 200)
            versions.add(headers["ETag"])
            return json.loads(update)
        self.assertEqual(poll()["data"]["runs"][0]["step"], [])
        self.train(settings={"training.max_steps": 10})
        found = until(lambda: (update := poll())["data"]["runs"][0]["step"] == list(range(1, 11)) and "finished" in update["runs"] and update, 30)
        self.assertIsNotNone(found)
        self.assertLess(len(versions), 10)
        # An invalid line is reported and does not end the server.
        whole = self.run_at().metrics_bytes()
        (self.directory / "run" / "metrics.jsonl").write_bytes(whole + b"hello\n")
        self.assertTrue(until(lambda: "metrics.jsonl:11: expected a line of metrics" in poll()["tables"], 30))
        (self.directory / "run" / "metrics.jsonl").write_bytes(whole)
        self.assertTrue(until(lambda: len((update := poll())["data"]["runs"][0]["step"]) == 10 and "hello" not in update["tables"], 30))
        shutil.rmtree(self.directory / "run")
        self.assertTrue(until(lambda: "no such directory" in poll()["tables"], 30))

    @unittest.skipUnless(browser.PROGRAM, browser.MISSING)
    def test_page_updates_itself(self):
        self.write_lines(range(1, 4))
        self.write_lines(range(1, 4), directory="other")
        port, path, job = self.watch("run", "other")
        page = browser.Browser()
        self.addCleanup(page.close)
        address = f"http://127.0.0.1:{port}{path}"
        page.open(address)

        def steps():
            return page.value('[...document.querySelectorAll("#runs tbody tr")].map((row) => row.cells[2].textContent)')

        def is_drawn():
            return page.value("document.documentElement.dataset.drawn") is not None
        self.assertEqual(steps(), ["3", "3"])
        live = r"^Live, updated at \d\d:\d\d:\d\d\.$"
        self.assertRegex(page.value('document.querySelector("#watching").textContent'), live)
        self.assertTrue(until(is_drawn, 30))
        page.value("""{ const box = document.querySelector('#runs input[data-run="1"]'); box.checked = false;
                      box.dispatchEvent(new Event("change", {bubbles: true})); document.querySelector(".chart").dataset.same = "yes"; }""")
        self.write_lines(range(4, 8), "a")
        self.assertTrue(until(lambda: steps() == ["7", "3"], 30))
        self.assertTrue(until(is_drawn, 30))
        # The axis extends; the chart and the selection of the user remain.
        self.assertEqual(page.value('document.querySelector(".chart").dataset.same'), "yes")
        self.assertGreaterEqual(page.value('Math.max(...[...document.querySelectorAll(".dygraph-axis-label-x")].map((found) => Number(found.textContent)))'), 6)
        self.assertEqual(page.value('[...document.querySelectorAll("#runs input")].map((box) => box.checked)'), [True, False])
        self.assertIn("step 7", page.value("document.title"))
        # A new column has a new chart.
        with open(self.directory / "run" / "metrics.jsonl", "a") as file:
            file.write('{"step": 8, "tokens": 8, "loss": 0.1, "learning_rate": 0.5}\n')
        self.assertTrue(until(lambda: "Learning rate" in page.value('[...document.querySelectorAll("figcaption")].map((found) => found.textContent)'), 30))
        self.assertEqual(page.errors, [])
        self.assertEqual({url for url in page.requests if not url.startswith("data:")}, {"about:blank", address, address + "update"} & set(page.requests))
        job.signal(signal.SIGINT)
        self.assertEqual(job.wait().code, 0)
        self.assertTrue(until(lambda: "does not respond" in page.value('document.querySelector("#watching").textContent'), 30))
        self.assertEqual(steps(), ["8", "3"])


@unittest.skipUnless(browser.PROGRAM, browser.MISSING)
class ReportInBrowser(ReportTest):
    def open(self, *runs):
        self.report(*runs)
        self.page = browser.Browser()
        self.addCleanup(self.page.close)
        self.page.open(self.directory / "report.html")
        self.wait_for_charts()
        return self.page

    def wait_for_charts(self):
        self.assertTrue(until(lambda: self.page.value("document.documentElement.dataset.drawn"), 60))

    def assert_no_errors(self):
        self.assertEqual(self.page.errors, [])
        path = (self.directory / "report.html").resolve().as_uri()
        self.assertEqual([url for url in self.page.requests if url not in (path, "about:blank")], [])

    def choose(self, control, value):
        name = "checked" if isinstance(value, bool) else "value"
        self.page.value(f"""{{ const control = document.querySelector({json.dumps(control)}); control.{name} = {json.dumps(value)};
                            control.dispatchEvent(new Event("change", {{bubbles: true}})); }}""")
        self.wait_for_charts()

    # Number of pixels of a chart near the color of each run.
    def painted(self, chart=0):
        return self.page.value("""[...document.querySelectorAll("#runs .color")].map((mark) => {
            const wanted = getComputedStyle(mark).borderBottomColor.match(/\\d+/g).map(Number);
            const canvas = document.querySelectorAll(".chart")[CHART].querySelector("canvas");
            const found = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let i = 0; i < found.length; i += 4)
                if (found[i + 3] > 200 && wanted.every((value, k) => Math.abs(value - found[i + k]) < 30)) ++count;
            return count; })""".replace("CHART", str(chart)))

    def texts(self, selector):
        return self.page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.textContent)")

    def test_compares_two_runs(self):
        every = {"training.max_steps": 30, "data.validation": "text.txt", "training.validation.interval": 10,
                 "training.validation.max_batches": 2}
        self.train("one", settings=every)
        self.train("two", Layout(2, 1), {**every, "training.max_steps": 20, "model.hidden_size": 32, "training.learning_rate": 0.002})
        self.open("one", "two")
        self.assert_no_errors()
        self.assertRegex(self.page.value("document.title"), r"^one \(step 30\), two \(step 20\), \d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        # The table of last values matches the metrics.
        last = [self.run_at(name).metrics()[-1] for name in ("one", "two")]
        for column in "loss", "validation_loss", "learning_rate", "grad_norm", "tokens_per_second", "peak_memory_bytes", "step_seconds":
            found = self.page.value(f"""[...document.querySelectorAll("#last-values tr[data-column={column}] td[data-value]")]
                                    .map((cell) => Number(cell.dataset.value))""")
            self.assertEqual(found, [line[column] for line in last], column)
        shown = self.texts("#last-values tr[data-column=loss] td")
        self.assertEqual(shown, ["nats", *(f"{line['loss']:.6g}" for line in last)])
        # Only keys that differ are listed.
        differing = {row[0]: row[1:] for row in rows_of((self.directory / "report.html").read_text(), "differences")}
        self.assertEqual(differing["model.hidden_size"], ["16", "32"])
        self.assertEqual(differing["training.learning_rate"], ["0.01", "0.002"])
        self.assertNotIn("model.num_hidden_layers", differing)
        self.assertNotIn("run.output_dir", differing)
        # Every chart is drawn, over each axis.
        charts = self.page.value('document.querySelectorAll(".chart").length')
        self.assertGreater(charts, 8)
        captions = self.texts("figcaption")
        for caption in "Loss; dashed: validation nats", "Step time by phase: two seconds":
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
        # A deselected run is not drawn.
        self.choose('#runs input[data-run="1"]', False)
        one, two = self.painted()
        self.assertGreater(one, 20)
        self.assertEqual(two, 0)
        self.assert_no_errors()

    def test_draws_gaps_and_single_points(self):
        lines = [{"step": step, "tokens": step, "loss": None if 4 <= step <= 6 else 10 / step, "below": -step, "seven": 7} for step in range(1, 11)]
        for line in lines:
            if line["loss"] is None:
                line["loss_reason"] = "nan"
        lines[4]["validation_accuracy"] = 50
        self.write_metrics("gaps", "".join(json.dumps(line) + "\n" for line in lines))
        self.open("gaps")
        whole = self.painted()[0]
        self.assertEqual(self.texts("#last-values tr[data-column=loss] small"), ["3 non-finite, first at step 4"])
        self.assertEqual(self.texts("#last-values tr[data-column=validation_accuracy] small"), ["at step 5"])
        self.assertEqual(self.texts("#last-values tr[data-column=seven] small"), ["constant"])
        captions = self.texts("figcaption")
        self.assertEqual(captions, ["Loss nats", "Validation: accuracy percent", "below"])
        # The single accuracy point has several pixels, legends show last values, and axes start at 0.
        self.assertGreater(self.painted(1)[0], 8)
        self.assertEqual([text.strip() for text in self.texts(".legend")], ["gaps: 1", "gaps: 50", "gaps: -10"])
        for number in range(3):
            self.assertEqual(self.page.value(f"document.querySelectorAll('.chart')[{number}].querySelector('.dygraph-axis-label-x').textContent"), "0")
        self.choose("#logarithmic", True)
        self.assertIn("No positive values for a logarithmic axis.", self.texts(".chart"))
        self.assertGreater(whole, 20)
        # Without logged times, there is no chart over time.
        self.choose("#axis", "seconds")
        self.assertEqual(set(self.texts(".chart")), {"No data over training time."})
        self.assert_no_errors()

    def test_escapes_markup_of_runs(self):
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
        # Quoted as in YAML.
        self.assertEqual([json.loads(text) for text in self.texts("#differences td")], [bad, "other"])
        self.assertIn(f"Validation: loss:{bad}", " ".join(self.texts("figcaption")))
        self.assert_no_errors()

    def test_shows_escaped_samples_by_step(self):
        bad = '</script><b id="taken">x</b><script>window.taken=1</script><img src=x onerror="window.taken=2">\u0000\u2028'
        self.write_metrics("run", "".join(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in range(1, 31)))
        (self.directory / "run" / "samples.jsonl").write_text("".join(
            json.dumps({"step": step, "sample": number, "input": f"<i>{number}", "output": f"{bad} {step}", "reference": "" if number else "so & so"}) + "\n"
            for step in (10, 20, 30) for number in (0, 1)) + '{"step": 40, "sam')
        self.write_metrics("without", '{"step": 1, "loss": 1}\n')
        self.open("run", "without")
        self.assertIsNone(self.page.value("window.taken"))
        self.assertIsNone(self.page.value('document.querySelector("#taken")'))
        self.assertEqual(self.texts("#samples h3"), ["run"])
        self.assertEqual(self.texts("#samples output"), ["30"])
        self.assertEqual(self.texts("#samples dd"), ["<i>0", f"{bad} 30", "so & so", "<i>1", f"{bad} 30"])
        self.page.value('{ const slider = document.querySelector("#samples input"); slider.value = 0; slider.dispatchEvent(new Event("input")); }')
        self.assertEqual(self.texts("#samples output"), ["10"])
        self.assertEqual(self.texts("#samples dd")[1], f"{bad} 10")
        self.assertIsNone(self.page.value("window.taken"))
        self.assert_no_errors()

    def test_draws_attention_maps(self):
        self.write_metrics("run", '{"step": 9, "loss": 1}\n')
        bad = '</script><img src=x onerror="window.taken=1">'
        weights = [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0, 0.5]]
        (self.directory / "run" / "attention").mkdir()
        for step in 8, 9:
            (self.directory / "run" / "attention" / f"step-{step:09}.json").write_text(json.dumps(
                {"step": step, "tokens": [bad, "b", "c"], "maps": [{"layer": 0, "head": 1, "weights": weights}, {"layer": 2, "head": 0, "weights": weights[::-1]}]}))
        self.open("run")
        self.assertEqual(self.texts("#attention h3"), ["run at step 9"])
        self.assertEqual(self.texts("#attention option"), ["layer 0, head 1", "layer 2, head 0"])

        def darkness():
            return self.page.value("""(() => { const canvas = document.querySelector("#attention canvas"), cell = canvas.width / 3;
                return [0, 1, 2].map((y) => [0, 1, 2].map((x) => 255 - canvas.getContext("2d").getImageData(cell * (x + 0.5), cell * (y + 0.5), 1, 1).data[0])); })()""")
        first = darkness()
        self.assertEqual([[value > 0 for value in row] for row in first], [[weight > 0 for weight in row] for row in weights])
        self.assertGreater(first[1][1], first[1][0])
        self.choose("#attention select", "1")
        self.assertEqual([[value > 0 for value in row] for row in darkness()], [[weight > 0 for weight in row] for row in weights[::-1]])
        self.page.value("""document.querySelector("#attention canvas").dispatchEvent(new PointerEvent("pointermove", {bubbles: true}))""")
        self.assertEqual(self.texts("#attention output"), [f'token 0 {json.dumps(bad)} attends to token 0 {json.dumps(bad)} with weight 0.5'])
        self.assertIsNone(self.page.value("window.taken"))
        self.assert_no_errors()
        # An invalid map is omitted.
        (self.directory / "run" / "attention" / "step-000000010.json").write_text('{"step": 10, "tokens": ["a"], "maps": [{"layer": 0, "head": 0, "weights": [[1, 2]]}]}')
        self.longspan("report", "run", "--output", "report.html", "--overwrite")
        self.assertNotIn("Attention maps", (self.directory / "report.html").read_text())

    def test_accepts_any_column_name_and_number(self):
        for name, column in ("one", "constructor"), ("two", "__proto__"):
            self.write_metrics(name, "".join(f'{{"step": {step}, "tokens": 1e300, "{column}": {value}, "step_seconds": 1e308}}\n'
                                             for step, value in ((1, -1e308), (2, 1e308), (2**53, 0))))
        self.open("one", "two")
        self.assertEqual(self.page.value("document.documentElement.dataset.drawn"), str(len(self.texts("figcaption"))))
        self.assertEqual([cells[3] for cells in rows_of((self.directory / "report.html").read_text(), "runs")], ["1e+300", "1e+300"])
        self.assert_no_errors()

    def test_curves_contrast_with_both_backgrounds(self):
        self.write_metrics("run", "".join(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in range(1, 9)))
        for number in range(8):
            shutil.copytree(self.directory / "run", self.directory / f"run{number}")
        self.open(*(f"run{number}" for number in range(8)))

        def luminance(color):
            parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
            parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722)))
        for scheme in "light", "dark":
            self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            back, text, *curves = map(luminance, self.page.value("""[getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.body).color, ...[...document.querySelectorAll("#runs .color")]
                .map((mark) => getComputedStyle(mark).borderBottomColor)]"""))
            self.assertEqual(back > 0.5, scheme == "light")
            self.assertEqual(len(set(curves)), 8)
            for least, colors in (7, [text]), (3, curves):
                for color in colors:
                    self.assertGreaterEqual((max(back, color) + 0.05) / (min(back, color) + 0.05), least, scheme)
        self.assert_no_errors()


if __name__ == "__main__":
    jobs.main()
