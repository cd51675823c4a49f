from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ringtrue import CallbackError, Ringtrue

CALLBACK_URL = "http://127.0.0.1:9099/callbacks"  # your callback URL
# Remove allow_sandbox when your project is live.
client = Ringtrue(allow_sandbox=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = client.callbacks.verify(
                method="POST", target=self.path, headers=self.headers, body=body, public_url=CALLBACK_URL
            )
            self.save(event.kind, event.id, event.data)
            self.send_response(200)
        except CallbackError as error:
            self.send_response(error.status)
        self.end_headers()

    def save(self, kind, event_id, data):
        # Your own program saves the result, if it has created the id.
        print(kind, event_id, data["status"], "match:", data.get("match"), flush=True)


print("Listening", flush=True)
ThreadingHTTPServer(("127.0.0.1", 9099), Receiver).serve_forever()
