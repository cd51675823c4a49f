"""Verifies a number from creation to callback: `python flow.py [reverse-sms | secure-sna | verification]`.

`python flow.py listen` only receives and verifies callbacks.
"""

import base64
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from callbacks import InvalidCallback, KeySet, verify

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080")
PHONE_NUMBER = os.environ.get("PHONE_NUMBER", "+990123456700")
IS_SIMULATED = PHONE_NUMBER.startswith("+990")  # a sandbox number: the code below also acts as its phone
MAX_BODY_BYTES = 64 * 1024
PRODUCTS = {  # scope and path
    "reverse-sms": ("reverse_sms", "/v1/number-verification/reverse-sms-checks"),
    "secure-sna": ("secure_sna", "/v1/number-verification/secure-sna-checks"),
    "verification": ("verification", "/v1/verifications"),
}

key_set = KeySet(f"{BASE_URL}/.well-known/jwks.json", accept_sandbox=os.environ.get("ACCEPT_SANDBOX") == "1")
verified = {}  # by id: a callback may be delivered more than once
callback_received = threading.Condition()


def id_of(resource):
    """A verification has a `verification_id` instead of a `check_id`."""
    return resource.get("check_id") or resource["verification_id"]


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
        print(f"verified: {id_of(callback)} {callback['status']} match={json.dumps(callback.get('match'))}", flush=True)
        # Store the callback before responding with 200; process it afterwards.
        with callback_received:
            verified.setdefault(id_of(callback), callback)
            callback_received.notify_all()
        return self.respond(200)

    def respond(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def call(path, *, token=None, body=None, form=None):
    """Calls the API; `GET` without a body or form."""
    request = urllib.request.Request(f"{BASE_URL}{path}")
    if form is not None:
        credential = f"{os.environ['CLIENT_ID']}:{os.environ['CLIENT_SECRET']}"
        request.add_header("authorization", "Basic " + base64.b64encode(credential.encode()).decode())
        request.data = urllib.parse.urlencode(form).encode()
    else:
        request.add_header("authorization", f"Bearer {token}")
    if body is not None:
        request.add_header("content-type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read() or "null")
    except urllib.error.HTTPError as error:
        # A problem body explains the error in `detail`; `type` is the URL of its documentation.
        sys.exit(f"{path}: {error.code} {error.read().decode()}")


def access_token(scope):
    """A token has one scope, and is valid for an hour. Cache it."""
    return call("/oauth2/token", form={"grant_type": "client_credentials", "scope": scope})["access_token"]


def verify_silently(url, path, token):
    """Secure SNA: your app opens the URL over mobile data, and passes the code to your backend, which redeems it.

    Returns the next step of a verification.
    """
    print(f"Phone: open {url}")
    if not IS_SIMULATED:
        return None
    request = urllib.request.Request(url, headers={"accept": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        code = json.loads(response.read()).get("code")
    # Without a code, the operator has failed: a verification goes on with its next method.
    result = call(path, token=token, body={"code": code}) if code else call(path, token=token)
    return result.get("next_step")


def ask_for_sms(step):
    """Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in."""
    receiver, text = step["receiver_phone_number"], step["expected_sms_body"]
    print(f"Android: sms:{receiver}?body={urllib.parse.quote(text, safe='')}")
    print(f"iOS:     sms:{receiver}&body={urllib.parse.quote(text, safe='')}")
    if IS_SIMULATED:
        sms = {"from": PHONE_NUMBER, "to": receiver, "body": text}
        call("/v1/sandbox/inbound-sms", token=access_token("reverse_sms"), body=sms)


def following_step(path, token, step):
    """Waits until a verification goes on or ends. A text from another number may be sent once more, with a new text."""
    while (current := call(path, token=token).get("next_step")) == step:
        time.sleep(1)
    return current


def flow(product, callback_url):
    """Creates a check or verification, and waits for its callback."""
    scope, path = PRODUCTS[product]
    token = access_token(scope)
    created = call(path, token=token, body={"phone_number": PHONE_NUMBER, "callback_url": callback_url})
    # A verification has `next_step` while it is open; a check has the members of its step.
    step = created.get("next_step", created)
    while step:
        if "url" in step:
            step = verify_silently(step["url"], f"{path}/{id_of(created)}", token)
        else:
            ask_for_sms(step)
            step = following_step(f"{path}/{id_of(created)}", token, step) if "next_step" in created else None
    with callback_received:
        callback_received.wait_for(lambda: id_of(created) in verified)
    callback = verified[id_of(created)]
    print("number verified" if callback.get("match") else f"number not verified: {json.dumps(callback)}")


def main():
    product = sys.argv[1] if len(sys.argv) > 1 else "reverse-sms"
    if product != "listen" and product not in PRODUCTS:
        sys.exit(f"unknown argument: {product}; expected {', '.join(PRODUCTS)} or listen")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("CALLBACK_PORT", "9099"))), Receiver)
    server.daemon_threads = False  # `server_close` waits for requests in progress
    callback_url = f"http://127.0.0.1:{server.server_port}/callbacks"
    print(f"listening on {callback_url}", flush=True)
    if product == "listen":
        return server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flow(product, callback_url)
    server.shutdown()
    server.server_close()
    return None


if __name__ == "__main__":
    main()
