"""What the port says while the model is being loaded."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from forebay_runtime.progress import Progress
from forebay_runtime.server.loading import LoadingServer, stalled

STALLS = """
import socket, time
from forebay_runtime.progress import Progress
from forebay_runtime.server.loading import LoadingServer
with socket.create_server(("127.0.0.1", 0)) as listener:
    progress = Progress()
    progress.expect(4_000_000_000)
    progress.add(1_500_000_000)
    with LoadingServer(listener, progress, budget=0.2):
        time.sleep(60)
"""


class Forgetful(socket.socket):
    """Its first client leaves before it is taken in."""

    left = False

    def accept(self) -> tuple[socket.socket, object]:
        if not self.left:
            self.left = True
            raise ConnectionAbortedError
        return super().accept()


def test_a_client_that_leaves_too_early_takes_nothing_along() -> None:
    with Forgetful() as listener:
        listener.bind(("127.0.0.1", 0))
        with LoadingServer(listener, Progress(), budget=60):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{listener.getsockname()[1]}/ready", timeout=10)
            with refused.value as answer:
                assert answer.status == 503
    assert listener.left


def test_a_loading_server_is_not_ready_and_says_how_far_it_is() -> None:
    progress = Progress()
    progress.expect(1000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with LoadingServer(listener, progress, budget=60):
            for read in (0, 250):
                progress.add(read)
                for path in ("/ready", "/health", "/v1/models"):
                    with pytest.raises(urllib.error.HTTPError) as refused:
                        urllib.request.urlopen(url + path, timeout=10)
                    with refused.value as answer:
                        body = json.load(answer)
                    assert (answer.status, body["error"]["code"]) == (503, "loading")
                    assert (body["loading"]["bytes"], body["loading"]["total"]) == (read, 1000)


def test_a_load_may_take_for_ever_while_bytes_come_and_has_stalled_when_none_do() -> None:
    progress = Progress()
    progress.expect(2_000_000_000)
    for _ in range(1000):
        progress.add(1000)
    assert stalled(progress, 300, progress.advanced + 299) is None
    words = stalled(progress, 300, progress.advanced + 301)
    assert words == "loading has stalled: no byte of the model came for 300 s, at 0.0 of 2.0 GB"


def test_a_stalled_load_ends_the_process_and_its_last_words_say_why() -> None:
    ended = subprocess.run([sys.executable, "-c", STALLS], capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 1
    assert "loading has stalled: no byte of the model came for 0.2 s, at 1.5 of 4.0 GB" in ended.stderr
