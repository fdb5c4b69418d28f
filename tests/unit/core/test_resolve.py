"""Document types are worked out before threads share them."""

from __future__ import annotations

import subprocess
import sys

_CRASH = """\
import sys, threading
from repotrial import api
from repotrial.trace import load_manifest, Manifest
from repotrial._core.schema import resolve_documents
import msgspec

resolve_documents()
barrier = threading.Barrier(8)
def decode():
    barrier.wait()
    for kind in (Manifest, api.ScoreCard, api.Contract):
        try: msgspec.json.decode(b"{}", type=kind)
        except msgspec.ValidationError: pass
threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("alive")
"""


def test_threads_that_decode_documents_at_one_time_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", _CRASH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
