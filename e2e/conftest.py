"""Fixtures for tests with third-party clients."""

import json
import os
import signal
import subprocess

import pytest


@pytest.fixture(scope="module")
def ringtrue(tmp_path_factory):
    """Runs `ringtrue dev` in a temporary folder. Yields its dev.json, with the folder as `data`."""
    data = tmp_path_factory.mktemp("ringtrue")
    command = [os.environ["BINARY_UNDER_TEST"], "dev", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "Ctrl+C" in line:
                break
        else:
            pytest.fail("ringtrue exited before it was ready")
        yield {**json.loads((data / "dev.json").read_text()), "data": str(data)}
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0
