"""A Reverse SMS check from create to callback. `python flow.py listen` only receives and verifies callbacks."""

import base64
import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from callbacks import KeySet, Refused, verify

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080")
PHONE_NUMBER = os.environ.get("PHONE_NUMBER", "+990123456700")
LARGEST_BODY = 64 * 1024

key_set = KeySet(f"{BASE_URL}/.well-known/jwks.json", accept_sandbox=os.environ.get("ACCEPT_SANDBOX") == "1")
ended = {}  # by check_id: a callback may come more than once
news = threading.Condition()


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return self.answer(413)
        body = self.rfile.read(int(length))
        try:
            # The request line as it came: `self.path` is tidied up.
            target = self.requestline.split(" ")[1]
            callback = verify(self.command, target, self.headers.items(), body, key_set)
        except Refused as reason:
            print(f"refused: {reason}", flush=True)
            return self.answer(401)
        except OSError as problem:
            print(f"the keys cannot be fetched: {problem}", flush=True)
            return self.answer(503)
        # Remember it before answering 200; do the rest of the work after.
        with news:
            ended.setdefault(callback["check_id"], callback)
            news.notify_all()
        print(f"verified: {callback['check_id']} {callback['status']} match={json.dumps(callback.get('match'))}", flush=True)
        return self.answer(200)

    def answer(self, status):
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
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        # A problem says what is wrong (`detail`), and `type` is a page about it.
        sys.exit(f"{path}: {error.code} {error.read().decode()}")


def main():
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("CALLBACK_PORT", "9099"))), Receiver)
    server.daemon_threads = False  # `server_close` waits until they have answered
    callback_url = f"http://127.0.0.1:{server.server_port}/callbacks"
    print(f"listening on {callback_url}", flush=True)
    if sys.argv[1:] == ["listen"]:
        return server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()

    token = call("/oauth2/token", form={"grant_type": "client_credentials", "scope": "reverse_sms"})["access_token"]
    new = {"phone_number": PHONE_NUMBER, "callback_url": callback_url}
    check = call("/v1/number-verification/reverse-sms-checks", token=token, body=new)

    # What your app shows: a link that opens the user's messages, with everything filled in.
    receiver, text = check["receiver_phone_number"], check["expected_sms_body"]
    print(f"Android: sms:{receiver}?body={urllib.parse.quote(text, safe='')}")
    print(f"iOS:     sms:{receiver}&body={urllib.parse.quote(text, safe='')}")
    if PHONE_NUMBER.startswith("+990"):
        # Nobody has such a number: in a sandbox project a simulated handset sends the SMS.
        call("/v1/sandbox/inbound-sms", token=token, body={"from": PHONE_NUMBER, "to": receiver, "body": text})

    with news:
        news.wait_for(lambda: check["check_id"] in ended)
    callback = ended[check["check_id"]]
    print("the number is theirs" if callback.get("match") else f"not proven: {json.dumps(callback)}")
    server.shutdown()
    server.server_close()
    return None


if __name__ == "__main__":
    main()
