"""A headless browser that opens a page and reports its content and errors.

Uses the Chrome DevTools Protocol over two pipes (--remote-debugging-pipe).
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
MISSING = "no headless browser found; install the Debian package chromium-headless-shell"


class Browser:
    """One page. `errors` has the errors and warnings of its console, `requests` the URLs that it requested."""

    def __init__(self, most_seconds=120):
        self.errors, self.requests = [], []
        self._most_seconds = most_seconds
        self._profile = tempfile.mkdtemp(prefix="longspan-browser-")
        # The browser reads descriptor 3 and writes 4. Higher numbers until then, so that these are not overwritten.
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
        """Returns the next messages of the browser; raises AssertionError after a timeout."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], self._most_seconds)
            block = os.read(self._in, 1 << 16) if ready else b""
            if not block:
                raise AssertionError(f"{PROGRAM} does not respond")
            self._rest += block
        *messages, self._rest = self._rest.split(b"\0")
        return [json.loads(message) for message in messages]

    def _handle(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(found.get("value")) for found in params["args"]))
            # Ignores performance advice.
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning") and "willReadFrequently" not in params["entry"]["text"]:
                self.errors.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

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
                    self._handle(found)
            if answer is not None:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path):
        """Opens a file or URL; returns when the page and its scripts have loaded."""
        self._loaded = False
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        end = time.monotonic() + self._most_seconds
        while not self._loaded:
            if time.monotonic() > end:
                raise AssertionError(f"{path} does not load")
            for message in self._messages():
                self._handle(message)

    def value(self, script):
        """Returns the value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"].get("exception", {}).get("description", script))
        return result["result"].get("value")

    def close(self):
        for pipe in self._out, self._in:
            os.close(pipe)
        os.killpg(self._process.pid, signal.SIGKILL)  # including its child processes, which write into the profile
        self._process.wait()
        end = time.monotonic() + self._most_seconds
        while os.path.exists(self._profile):
            if time.monotonic() > end:
                raise AssertionError(f"{self._profile} is still written to")
            shutil.rmtree(self._profile, ignore_errors=True)
