"""Peers of the samples: a recorder of Ringtrue's callbacks, and a forger with its own keys."""

import base64
import contextlib
import hashlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import threading
from dataclasses import dataclass, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TextIO

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "target/samples"
# The library has no dependencies, so its source is enough.
PYTHON_WITH_LIBRARY = ["env", f"PYTHONPATH={ROOT / 'sdks/python/src'}", "python3", "-s"]
SAMPLES = {
    "go": [BUILT / "go"],
    "python": [*PYTHON_WITH_LIBRARY, ROOT / "samples/python/flow.py"],
    "rust": [BUILT / "debug/ringtrue-sample"],
    "shell": [ROOT / "samples/shell/flow.sh"],
    "typescript": ["node", ROOT / "samples/typescript/flow.mjs"],
}
COMPONENTS = "(request-target) host date x-service-callback digest"


def environment(base_url, **more):
    """A minimal environment, without proxies and other settings."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**inherited, "BASE_URL": base_url, "CALLBACK_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1", **more}


@contextlib.contextmanager
def start_receiver(sample, base_url, **settings):
    """Runs a sample with `listen`, and stops its process group at the end."""
    command = [*SAMPLES[sample], "listen"]
    with subprocess.Popen(
        command, env=environment(base_url, **settings), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            first = process.stdout.readline()
            assert first.startswith("listening on http://127.0.0.1:"), first
            yield Receiver(int(first.split(":")[2].split("/")[0]), process.stdout)
        finally:
            os.killpg(process.pid, signal.SIGTERM)


@dataclass(frozen=True)
class Receiver:
    port: int
    output: TextIO

    def deliver(self, request):
        """Sends a request. Returns the status of the response and the line that the sample prints."""
        status = request.send(self.port)
        return status, self.output.readline().strip()


@dataclass(frozen=True)
class Request:
    """A raw HTTP request."""

    method: str
    target: str
    headers: tuple
    body: bytes

    def header(self, wanted_name):
        return next(value for name, value in self.headers if name.lower() == wanted_name)

    def altered(self, wanted_name, change):
        return replace(
            self, headers=tuple((name, change(value) if name.lower() == wanted_name else value) for name, value in self.headers)
        )

    def without(self, unwanted_name):
        return replace(self, headers=tuple(header for header in self.headers if header[0].lower() != unwanted_name))

    def send(self, port):
        """Returns the status of the response, or `None` if there is none."""
        head = f"{self.method} {self.target} HTTP/1.1\r\n"
        others = [header for header in self.headers if header[0].lower() not in ("connection", "content-length")]
        for name, value in [*others, ("content-length", len(self.body)), ("connection", "close")]:
            head += f"{name}: {value}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + b"\r\n" + self.body)
            line = connection.makefile("rb").readline().decode()
        return int(line.split(" ")[1]) if line else None


def record_callback(start):
    """Calls `start` with a callback URL. Returns the first callback as received."""
    received = []

    class Recorder(socketserver.StreamRequestHandler):
        def handle(self):
            method, target, _ = self.rfile.readline().decode().split(" ")
            headers = []
            while line := self.rfile.readline().decode().strip():
                name, value = line.split(":", 1)
                headers.append((name, value.strip()))
            length = next(int(value) for name, value in headers if name.lower() == "content-length")
            received.append(Request(method, target, tuple(headers), self.rfile.read(length)))
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Recorder) as server:
        start(f"http://127.0.0.1:{server.server_address[1]}/call%2Fbacks?order=7&note=%C3%A9")
        server.handle_request()
    return received[0]


class Forger:
    """Signs arbitrary callbacks with its own key, and serves the key set."""

    def __init__(self, **members):
        self.members = members  # additional members of the JWK
        self.key = generate_private_key(public_exponent=65537, key_size=2048)
        self.is_up = True
        forger = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if forger.is_up else 503)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": [forger.jwk(), {"kty": "EC", "kid": "other"}]}).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def jwk(self):
        public = self.key.public_key().public_numbers()
        text = lambda number: base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).decode().rstrip("=")
        own = {"kty": "RSA", "kid": "own", "use": "sig", "alg": "RS256", "n": text(public.n), "e": text(public.e)}
        return {**own, **self.members}

    def request(self, *, at, date=None, components=COMPONENTS, algorithm="rsa-sha256"):
        """Builds a callback signed over the components. `at` is a Unix time."""
        body = b'{"check_id":"01a1debb-088a-72d0-82af-11de1aae5598","status":"COMPLETED","match":true}'
        headers = {
            "host": "backend.example",
            "date": date or formatdate(at, usegmt=True),
            "x-service-callback": "reverse_sms",
            "digest": "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode(),
        }
        values = {"(request-target)": "post /callbacks", **headers}
        signed = "\n".join(f"{name}: {values[name]}" for name in components.split(" "))
        signature = base64.b64encode(self.key.sign(signed.encode(), PKCS1v15(), SHA256())).decode()
        headers["authorization"] = (
            f'Signature keyId="own",algorithm="{algorithm}",headers="{components}",signature="{signature}"'
        )
        return Request("POST", "/callbacks", tuple(headers.items()), body)
