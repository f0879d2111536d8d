"""A browser without a window, which opens a page and says what it shows and what went wrong.

It is spoken to by the Chrome DevTools Protocol over two pipes, as --remote-debugging-pipe asks for.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
MISSING = "no browser is installed that opens a page without a window (Debian's package chromium-headless-shell)"


class Browser:
    """One page. `errors` has what its console said that is an error or a warning, `requests` what it asked for."""

    def __init__(self, most_seconds=120):
        self.errors, self.requests = [], []
        self._most_seconds = most_seconds
        self._profile = tempfile.mkdtemp(prefix="longspan-browser-")
        # The browser reads from 3 and writes to 4; so as not to be overwritten, these are others until then.
        low = [*os.pipe(), *os.pipe()]
        above = [fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 10) for pipe in low]
        for pipe in low:
            os.close(pipe)
        to_browser, self._out, self._in, from_browser = above
        command = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", str(to_browser), str(from_browser), PROGRAM, "--headless", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", "--window-size=1200,900", f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest, self._session, self._loaded = 0, b"", None, False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")

    def _messages(self):
        """The next messages of the browser; it is given up when none comes."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], self._most_seconds)
            block = os.read(self._in, 1 << 16) if ready else b""
            if not block:
                raise AssertionError(f"{PROGRAM} does not answer")
            self._rest += block
        *messages, self._rest = self._rest.split(b"\0")
        return [json.loads(message) for message in messages]

    def _hear(self, message):
        said = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(found.get("value")) for found in said["args"]))
            # Advice on speed is no warning of the page's own.
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning") and "willReadFrequently" not in said["entry"]["text"]:
                self.errors.append(said["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(said["request"]["url"])

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = None
            for found in self._messages():
                if found.get("id") == self._number:
                    answer = found
                else:
                    self._hear(found)
            if answer is not None:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path):
        """Of a file, or an address; returns when the page and its scripts are done."""
        self._loaded = False
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        end = time.monotonic() + self._most_seconds
        while not self._loaded:
            if time.monotonic() > end:
                raise AssertionError(f"{path} does not load")
            for message in self._messages():
                self._hear(message)

    def value(self, script):
        """What an expression of JavaScript is in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"].get("exception", {}).get("description", script))
        return result["result"].get("value")

    def close(self):
        for pipe in self._out, self._in:
            os.close(pipe)
        os.killpg(self._process.pid, signal.SIGKILL)  # its own processes too, which write into the profile
        self._process.wait()
        end = time.monotonic() + self._most_seconds
        while os.path.exists(self._profile):
            if time.monotonic() > end:
                raise AssertionError(f"{self._profile} is still written to")
            shutil.rmtree(self._profile, ignore_errors=True)
