#!/usr/bin/env python3
"""Tests of the emulated hosts (tests/support/hosts.py).

    tests/support/hosts_test.py

Exit code 77: this machine cannot emulate hosts.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import hosts
from jobs import until


class Hosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longspan-hosts-")
        self.addCleanup(folder.cleanup)
        self.directory = Path(folder.name)

    def hosts(self, *names):
        return hosts.Hosts(names, self.directory)

    def result(self, network, name, *command):
        """Returns (exit code, output, errors) of a command run on a host."""
        job = network.start(name, command)
        return job.wait(60), job.output(), job.errors()

    def test_login_reaches_the_other_host(self):
        with self.hosts("one", "two") as network:
            self.assertEqual(self.result(network, "one", "ssh", "two", "hostname; exit 5"), (5, "two\n", ""))
            network.cut("two")
            code, _, errors = self.result(network, "one", "ssh", "two", "hostname")
            self.assertEqual((code, errors), (255, "ssh: connect to host two port 22: No route to host\n"))
            network.join("two")
            self.assertEqual(self.result(network, "two", "ssh", "one", "hostname"), (0, "one\n", ""))

    def test_logins_after_sigstop_reach_the_current_hosts(self):
        # The server of the first hosts must not answer logins to the next ones.
        with self.hosts("one", "two") as network:
            self.assertEqual(self.result(network, "one", "ssh", "two", "true"), (0, "", ""))
        with self.hosts("one", "two", "three") as network:
            subprocess.run(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 0.2; kill -CONT {os.getpid()}"], check=True)
            for _ in range(4):
                self.assertEqual(self.result(network, "one", "ssh", "three", "hostname"), (0, "three\n", ""))

    def test_closed_hosts_leave_nothing(self):
        for _ in range(3):
            with self.hosts("one", "two") as network:
                firsts = [host.first for host in network]
                self.result(network, "one", "ssh", "two", "true")
            self.assertFalse([first for first in firsts if Path(f"/proc/{first}").exists()])
        self.assertTrue(until(lambda: threading.active_count() == 1, 10), threading.enumerate())

    def test_reports_exit_of_a_host(self):
        with self.hosts("one", "two") as network:
            os.kill(network["two"].first, signal.SIGKILL)
            self.assertTrue(until(lambda: self.error_of(network["two"]), 10), "no error")
            message = self.error_of(network["two"])
            # unshare translates the signal into its own exit code.
            self.assertRegex(message, r"\Ahost two exited: first process exited with (-9|1): ")
            code, _, errors = self.result(network, "one", "ssh", "two", "true")
            self.assertEqual((code, errors.strip()), (255, message.strip()))
            with self.assertRaisesRegex(AssertionError, "host two exited"):
                network.left_behind()

    def error_of(self, host):
        try:
            host.check()
            return ""
        except AssertionError as error:
            return str(error)

    def test_reports_failed_creation_of_a_host(self):
        expected = "cannot create a host: first process exited with 1: .*no-such"
        with self.assertRaisesRegex(AssertionError, expected):
            hosts._First(["unshare", "--net", "--fork", "sh", "-c", "cat /no-such; exit 1"])


if __name__ == "__main__":
    if why := hosts.why_not():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
