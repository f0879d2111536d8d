"""Reference implementations, in the Python environment of `launch/setup --reference-implementations`."""

import os
import subprocess
from pathlib import Path

import jobs


class PeersTestCase(jobs.TestCase):
    """A test that is skipped if the environment is missing. `peer_script` is a file of tests/peers."""

    peer_script = "causal.py"

    def environment(self):
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        peers = Path(os.environ.get("LONGSPAN_PEERS") or Path(cache) / "longspan" / "peers").absolute()
        if not (peers / "ready").exists():
            self.skipTest(f"{peers / 'ready'} not found; run launch/setup --reference-implementations")
        return peers

    def need(self, package):
        """Skips the test if the environment lacks the package, because an older version created it."""
        peers = self.environment()
        if not list(peers.glob(f"lib/python3*/site-packages/{package}")):
            self.skipTest(f"{peers}: no package {package}; delete it and run launch/setup --reference-implementations")

    def peer(self, *arguments):
        """Returns the output of the script, which must succeed."""
        python = self.environment() / "bin" / "python"
        script = jobs.SOURCE / "tests" / "peers" / self.peer_script
        result = subprocess.run([python, script, *map(str, arguments)], cwd=self.directory, capture_output=True, text=True,
                                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout
