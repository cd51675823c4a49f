"""Receives callbacks with the HTTP server of the standard library. In Flask, Django or FastAPI, use the adapter."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ringtrue import CallbackError

MAX_BODY_BYTES = 64 * 1024


def start_receiver(port, verifier, on_event):
    """Starts a server that passes the event of each genuine callback to `on_event`, and returns it."""

    class Receiver(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self):
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
                return self.respond(413)
            try:
                event = verifier.verify(
                    method=self.command,
                    # From the request line, because `self.path` is normalised.
                    target=self.requestline.split(" ")[1],
                    headers=self.headers,
                    body=self.rfile.read(int(length)),
                )
            except CallbackError as error:
                print(f"rejected: {error}", flush=True)
                return self.respond(error.status)
            # Store the event before responding with 200; process it afterwards.
            on_event(event)
            return self.respond(200)

        def respond(self, status):
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.daemon_threads = False  # `server_close` waits for requests in progress
    threading.Thread(target=server.serve_forever).start()
    return server
