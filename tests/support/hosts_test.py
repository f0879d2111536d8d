#!/usr/bin/env python3
"""Hosts on this machine, as tests of jobs over several use them (tests/support/hosts.py).

    tests/support/hosts_test.py

Exit code 77: this machine does not permit them.
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


class HostsOfATest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longspan-hosts-")
        self.addCleanup(folder.cleanup)
        self.directory = Path(folder.name)

    def hosts(self, *names):
        return hosts.Hosts(names, self.directory)

    def result(self, network, name, *command):
        """(exit code, output, errors) of what is run on a host."""
        job = network.start(name, command)
        return job.wait(60), job.output(), job.errors()

    def test_a_login_reaches_the_other_host(self):
        with self.hosts("one", "two") as network:
            self.assertEqual(self.result(network, "one", "ssh", "two", "hostname; exit 5"), (5, "two\n", ""))
            network.cut("two")
            code, _, errors = self.result(network, "one", "ssh", "two", "hostname")
            self.assertEqual((code, errors), (255, "ssh: connect to host two port 22: No route to host\n"))
            network.join("two")
            self.assertEqual(self.result(network, "two", "ssh", "one", "hostname"), (0, "one\n", ""))

    def test_logins_after_a_stop_of_the_test_reach_the_hosts_that_are_there(self):
        # Whoever waited for logins to the first ones must not answer those to the others.
        with self.hosts("one", "two") as network:
            self.assertEqual(self.result(network, "one", "ssh", "two", "true"), (0, "", ""))
        with self.hosts("one", "two", "three") as network:
            subprocess.run(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 0.2; kill -CONT {os.getpid()}"], check=True)
            for _ in range(4):
                self.assertEqual(self.result(network, "one", "ssh", "three", "hostname"), (0, "three\n", ""))

    def test_nothing_is_left_of_hosts_that_were_closed(self):
        for _ in range(3):
            with self.hosts("one", "two") as network:
                firsts = [host.first for host in network]
                self.result(network, "one", "ssh", "two", "true")
            self.assertFalse([first for first in firsts if Path(f"/proc/{first}").exists()])
        self.assertTrue(until(lambda: threading.active_count() == 1, 10), threading.enumerate())

    def test_a_host_that_is_gone_by_itself_says_how_it_ended(self):
        with self.hosts("one", "two") as network:
            os.kill(network["two"].first, signal.SIGKILL)
            self.assertTrue(until(lambda: self.complaint(network["two"]), 10), "nobody complains")
            said = self.complaint(network["two"])
            # What unshare makes of the signal is its own.
            self.assertRegex(said, r"\Ahost two is gone: its first process ended with (-9|1) and said: ")
            code, _, errors = self.result(network, "one", "ssh", "two", "true")
            self.assertEqual((code, errors.strip()), (255, said.strip()))
            with self.assertRaisesRegex(AssertionError, "host two is gone"):
                network.left_behind()

    def complaint(self, host):
        try:
            host.check()
            return ""
        except AssertionError as error:
            return str(error)

    def test_a_host_that_cannot_be_made_says_why(self):
        wanted = "a host cannot be made: its first process ended with 1 and said: .*no-such"
        with self.assertRaisesRegex(AssertionError, wanted):
            hosts._First(["unshare", "--net", "--fork", "sh", "-c", "cat /no-such; exit 1"])


if __name__ == "__main__":
    if why := hosts.why_not():
        print(f"left out: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
