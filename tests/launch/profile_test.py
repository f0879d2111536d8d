#!/usr/bin/env python3
"""train --profile-steps: a trace of all ranks on a common clock, and a table of self times.

    tests/launch/profile_test.py build/launch/longspan
"""

import json
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import DIVERGING, Layout, flat, until

ENDLESS = {"training.max_steps": 1_000_000, "checkpoint.save_interval": 0}


ROUNDING = 2e-3  # microseconds; begin and duration of a span have three decimals


class Trace:
    """A trace in the Chrome trace event format."""

    def __init__(self, path):
        whole = json.loads(path.read_text())
        self.about = whole["otherData"]
        self.events = whole["traceEvents"]

    def names(self, what):
        """Returns {(rank, thread): name}; the thread of a process is 0."""
        return {(event["pid"], event["tid"]): event["args"]["name"] for event in self.events if event["name"] == what}

    def ranks(self):
        return sorted(rank for rank, _ in self.names("process_name"))

    def spans(self, rank, thread="main", kind=None):
        number = next(tid for (pid, tid), name in self.names("thread_name").items() if (pid, name) == (rank, thread))
        return [event for event in self.events if event["ph"] == "X" and (event["pid"], event["tid"]) == (rank, number)
                and kind in (None, event["cat"])]

    def steps(self, rank):
        return sorted(event["args"]["step"] for event in self.spans(rank, kind="step"))

    def collectives(self, rank):
        """Returns {(axis, number): (name, begin, end, bytes)}."""
        ends = {event["id"]: event["ts"] for event in self.events if event["ph"] == "e"}
        return {(event["args"]["axis"], event["args"]["number"]):
                (event["name"], event["ts"], ends[event["id"]], event["args"]["bytes"])
                for event in self.events if event["ph"] == "b" and event["pid"] == rank}


class ProfileSteps(jobs.TestCase):
    def profiled(self, steps, directory="run", layout=Layout(1, 1), code=0, **settings):
        job = self.start_profiled(steps, directory, layout, settings)
        result = job.wait()
        self.assertEqual(result.code, code, result.output + result.errors)
        return result

    def start_profiled(self, steps, directory, layout, settings):
        every = {"run.output_dir": directory, **layout.settings(), **settings}
        return self.start("train", "tiny.yaml", "--profile-steps", steps, *flat(every), ranks=layout.ranks)

    def files(self, directory="run"):
        folder = self.directory / directory / "profile"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def trace(self, first, last, directory="run"):
        stem = f"trace-{first:09}-{last:09}"
        self.assertEqual(self.files(directory), [f"{stem}.json", f"{stem}.txt"])
        trace = Trace(self.directory / directory / "profile" / f"{stem}.json")
        self.assertEqual((trace.about["first_step"], trace.about["last_step"]), (first, last))
        return trace

    def assert_nested(self, spans):
        """Checks that spans are nested or disjoint."""
        around = []
        for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
            begin, end = span["ts"], span["ts"] + span["dur"]
            while around and around[-1] <= begin + 1e-4:
                around.pop()
            if around:
                self.assertLessEqual(end, around[-1] + 1e-4, span)
            around.append(end)

    def assert_whole(self, trace, layout, steps):
        self.assertEqual(trace.ranks(), list(range(layout.ranks)))
        for rank in trace.ranks():
            self.assertEqual(trace.steps(rank), steps)
            spans = trace.spans(rank)
            self.assert_nested(spans)
            # The trace contains no other steps.
            whole = trace.spans(rank, kind="step")
            inside = [span for span in spans if any(step["ts"] - 1e-4 <= span["ts"] and
                                                    span["ts"] + span["dur"] <= step["ts"] + step["dur"] + ROUNDING
                                                    for step in whole)]
            self.assertEqual(len(inside), len(spans))
            self.assert_nested(trace.spans(rank, "reader"))
            self.assertTrue(trace.spans(rank, "reader", "reading"))
            for kind in "phase", "layer", "op", "kernel":
                self.assertTrue(trace.spans(rank, kind=kind), kind)

    def layers_of(self, trace, rank, backward):
        return {span["args"].get("layer") for span in trace.spans(rank, kind="op") if ("pass" in span["args"]) == backward}

    def test_traces_all_ranks_on_a_common_clock(self):
        for number, layout in enumerate((Layout(2, 1), Layout(1, 2), Layout(1, 1, 2))):
            with self.subTest(layout=str(layout)):
                directory = f"run{number}"
                result = self.profiled("3:5", directory, layout)
                trace = self.trace(3, 5, directory)
                self.assert_whole(trace, layout, [3, 4, 5])
                for rank in trace.ranks():
                    for backward in False, True:
                        layers = self.layers_of(trace, rank, backward)
                        for layer in "layers/0/attention/query", "layers/1/attention", "layers/1/feed_forward", "output":
                            self.assertIn(layer, layers, f"backward: {backward}")
                self.assert_overlapping(trace, ("data", "tensor", "context")[number])
                self.assert_table(result, directory)

    def assert_overlapping(self, trace, axis):
        first, second = (trace.collectives(rank) for rank in (0, 1))
        self.assertEqual(first.keys(), second.keys())
        self.assertTrue({axis, "world"} <= {of for of, _ in first}, first.keys())
        for key, (name, begin, end, sent) in first.items():
            other_name, other_begin, other_end, other_sent = second[key]
            self.assertEqual((name, sent), (other_name, other_sent))
            self.assertEqual(sent == 0, name == "barrier")
            # A collective ends on no rank before it begins on the other.
            self.assertLessEqual(max(begin, other_begin), min(end, other_end), key)
        waits = [span for rank in (0, 1) for span in trace.spans(rank, kind="idle")]
        self.assertTrue(any(span["args"].get("axis") == axis for span in waits))

    def assert_table(self, result, directory):
        table = next((self.directory / directory / "profile").glob("*.txt")).read_text()
        self.assertRegex(table, r"\AProfile of steps 3 to 5: [\d.]+ ms per step on 2 ranks, by self time\n"
                                r" +self ms +share +total ms +calls +name\n"
                                r"(?: +[\d.]+ +[\d.]+% +[\d.]+ +[\d.]+  (?:step|waiting for|saving|(?:phase|layer|op|kernel) \S).*\n){10}\Z")
        own = [float(line.split()[0]) for line in table.splitlines()[2:]]
        self.assertEqual(own, sorted(own, reverse=True))
        log = self.run_at(directory).log()
        for line in table.splitlines():
            self.assertIn(line, log)
            self.assertIn(line, result.output)
        self.assertIn("profile/trace-000000003-000000005.json; open it in chrome://tracing or ui.perfetto.dev", log)

    def test_profiling_does_not_change_training(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                plain, profiled = f"plain{layout.ranks}", f"profiled{layout.ranks}"
                self.train(plain, layout)
                self.profiled("2:6", profiled, layout)
                self.assertEqual(self.run_at(profiled).metrics_bytes(), self.run_at(plain).metrics_bytes())
                self.assertEqual(self.run_at(profiled).state(8), self.run_at(plain).state(8))
                self.assertEqual(self.files(plain), [])

    def test_recomputation_is_nested_in_backward_span(self):
        for number, settings in enumerate(({"memory.recompute_granularity": "full"},
                                           {"model.residual.type": "reversible", "model.norm.position": "pre"})):
            with self.subTest(settings=settings):
                self.profiled("1:2", f"run{number}", **settings)
                trace = self.trace(1, 2, f"run{number}")
                self.assert_whole(trace, Layout(1, 1), [1, 2])
                gradients = [span for span in trace.spans(0, kind="op") if "pass" in span["args"]]
                again = [span for span in trace.spans(0, kind="layer") if span["name"] == "layers/1/attention"
                         and any(each["ts"] <= span["ts"] and span["ts"] + span["dur"] <= each["ts"] + each["dur"] + ROUNDING
                                 for each in gradients)]
                self.assertGreaterEqual(len(again), 2)

    def test_trace_includes_saving_and_validation(self):
        self.profiled("3:7", **{"checkpoint.save_interval": 2, "data.validation": "text.txt", "training.validation.interval": 3,
                                "training.validation.max_batches": 1})
        trace = self.trace(3, 7)
        self.assert_whole(trace, Layout(1, 1), [3, 4, 5, 6, 7])
        self.assertIn("saving", {span["name"] for span in trace.spans(0, kind="saving")})
        self.assertIn("validation", {span["name"] for span in trace.spans(0, kind="phase")})
        self.assertEqual({"copy state", "write checkpoint"}, {span["name"] for span in trace.spans(0, "saver")})

    def test_stop_truncates_trace(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                directory = f"run{layout.ranks}"
                job = self.start_profiled("3:1000000", directory, layout, ENDLESS)
                until(lambda: job.ended() or "step 6/" in job.output())
                job.signal(signal.SIGUSR1)
                self.assertEqual(job.wait().code, 75)
                last = self.run_at(directory).metrics()[-1]["step"]
                self.assertGreaterEqual(last, 6)
                trace = self.trace(3, last, directory)
                self.assert_whole(trace, layout, list(range(3, last + 1)))

    def test_stop_before_first_step_writes_no_trace(self):
        job = self.start_profiled("999999:1000000", "run", Layout(1, 1), ENDLESS)
        until(lambda: job.ended() or "step 2/" in job.output())
        job.signal(signal.SIGUSR1)
        self.assertEqual(job.wait().code, 75)
        self.assertEqual(self.files(), [])

    def test_divergence_writes_partial_trace(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                directory = f"run{layout.ranks}"
                self.profiled("1:50", directory, layout, code=4, **DIVERGING)
                name = self.files(directory)[0]
                last = int(name.split("-")[2].split(".")[0])
                self.assertLess(last, 50)
                self.assertEqual(self.trace(1, last, directory).ranks(), list(range(layout.ranks)))

    def test_resumed_run_reports_skipped_steps(self):
        self.train()
        behind = self.profiled("5:8", **{"training.max_steps": 9})
        self.assertIn("--profile-steps 5:8: nothing recorded: the run resumes after step 8", behind.output)
        self.assertEqual(self.files(), [])
        within = self.profiled("8:11", layout=Layout(2, 1), **{"training.max_steps": 12})
        self.assertIn("--profile-steps 8:11: recording from step 10: the run resumes after step 9", within.output)
        self.assert_whole(self.trace(10, 11), Layout(2, 1), [10, 11])

    def test_unwritable_profile_does_not_end_run(self):
        for layout in Layout(1, 1), Layout(2, 1):
            with self.subTest(layout=str(layout)):
                directory = f"run{layout.ranks}"
                (self.directory / directory).mkdir()
                (self.directory / directory / "profile").write_text("a file")
                result = self.profiled("2:3", directory, layout)
                self.assertIn("warning: Profile not written: ", result.output)
                self.assertIn("Profile of steps 2 to 3: ", result.output)
                self.assertEqual(len(self.run_at(directory).metrics()), 8)

    def test_rejects_invalid_step_ranges(self):
        for steps in "5:", "10:5", "a:b", "0:3", ":5", "5", "5:10:15", "-1:3", "5: 6":
            with self.subTest(steps=steps):
                result = self.longspan("train", "tiny.yaml", f"--profile-steps={steps}", code=2)
                self.assert_one_sentence(result, f'expected FIRST:LAST, integers of at least 1, as in 5:10, found "{steps}"; '
                                                 "see longspan train --help")
        for layout in Layout(1, 1), Layout(2, 1):
            result = self.profiled("5:9", layout=layout, code=2)
            self.assert_one_sentence(result, "--profile-steps: expected steps from 1 to training.max_steps = 8, found 5:9")
        self.assertFalse((self.directory / "run").exists())


if __name__ == "__main__":
    jobs.main()
