"""What clients that are not ours are tried against."""

import json
import os
import signal
import subprocess

import pytest


@pytest.fixture(scope="module")
def ringtrue(tmp_path_factory):
    """`ringtrue dev` in a folder of its own: what it says of itself for scripts."""
    data = tmp_path_factory.mktemp("ringtrue")
    command = [os.environ["BINARY_UNDER_TEST"], "dev", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "curl" in line:
                break
        else:
            pytest.fail("ringtrue ended before it was ready")
        yield json.loads((data / "dev.json").read_text())
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0
