"""Reverse SMS check, from creation to callback. `python flow.py listen` only receives and verifies callbacks."""

import base64
import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from callbacks import InvalidCallback, KeySet, verify

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080")
PHONE_NUMBER = os.environ.get("PHONE_NUMBER", "+990123456700")
MAX_BODY_BYTES = 64 * 1024

key_set = KeySet(f"{BASE_URL}/.well-known/jwks.json", accept_sandbox=os.environ.get("ACCEPT_SANDBOX") == "1")
verified = {}  # by check_id: a callback may be delivered more than once
callback_received = threading.Condition()


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return self.respond(413)
        body = self.rfile.read(int(length))
        try:
            # From the request line, because `self.path` is normalised.
            target = self.requestline.split(" ")[1]
            callback = verify(self.command, target, self.headers.items(), body, key_set)
        except InvalidCallback as reason:
            print(f"rejected: {reason}", flush=True)
            return self.respond(401)
        except OSError as error:
            print(f"failed to fetch keys: {error}", flush=True)
            return self.respond(503)
        # Store the callback before responding with 200; process it afterwards.
        with callback_received:
            verified.setdefault(callback["check_id"], callback)
            callback_received.notify_all()
        print(f"verified: {callback['check_id']} {callback['status']} match={json.dumps(callback.get('match'))}", flush=True)
        return self.respond(200)

    def respond(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def call(path, *, token=None, body=None, form=None):
    request = urllib.request.Request(f"{BASE_URL}{path}")
    if form is not None:
        credential = f"{os.environ['CLIENT_ID']}:{os.environ['CLIENT_SECRET']}"
        request.add_header("authorization", "Basic " + base64.b64encode(credential.encode()).decode())
        request.data = urllib.parse.urlencode(form).encode()
    else:
        request.add_header("authorization", f"Bearer {token}")
        request.add_header("content-type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read() or "null")
    except urllib.error.HTTPError as error:
        # A problem body explains the error in `detail`; `type` is the URL of its documentation.
        sys.exit(f"{path}: {error.code} {error.read().decode()}")


def main():
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("CALLBACK_PORT", "9099"))), Receiver)
    server.daemon_threads = False  # `server_close` waits for requests in progress
    callback_url = f"http://127.0.0.1:{server.server_port}/callbacks"
    print(f"listening on {callback_url}", flush=True)
    if sys.argv[1:] == ["listen"]:
        return server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()

    token = call("/oauth2/token", form={"grant_type": "client_credentials", "scope": "reverse_sms"})["access_token"]
    new = {"phone_number": PHONE_NUMBER, "callback_url": callback_url}
    check = call("/v1/number-verification/reverse-sms-checks", token=token, body=new)

    # Your app shows this link. It opens the messaging app with the receiver and text filled in.
    receiver, text = check["receiver_phone_number"], check["expected_sms_body"]
    print(f"Android: sms:{receiver}?body={urllib.parse.quote(text, safe='')}")
    print(f"iOS:     sms:{receiver}&body={urllib.parse.quote(text, safe='')}")
    if PHONE_NUMBER.startswith("+990"):
        # A sandbox number: a simulated handset sends the SMS.
        call("/v1/sandbox/inbound-sms", token=token, body={"from": PHONE_NUMBER, "to": receiver, "body": text})

    with callback_received:
        callback_received.wait_for(lambda: check["check_id"] in verified)
    callback = verified[check["check_id"]]
    print("number verified" if callback.get("match") else f"number not verified: {json.dumps(callback)}")
    server.shutdown()
    server.server_close()
    return None


if __name__ == "__main__":
    main()
