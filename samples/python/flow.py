"""Verifies a number from creation to callback: `python flow.py [reverse-sms | secure-sna | verification]`.

`python flow.py listen` only receives and verifies callbacks.
"""

import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request

from callbacks import start_receiver
from ringtrue import CallbackVerifier, Ringtrue, RingtrueError

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080")
PHONE_NUMBER = os.environ.get("PHONE_NUMBER", "+990123456700")
ACCEPT_SANDBOX = os.environ.get("ACCEPT_SANDBOX") == "1"
IS_SIMULATED = PHONE_NUMBER.startswith("+990")  # a sandbox number: the code below also acts as its phone
PRODUCTS = ("reverse-sms", "secure-sna", "verification")

received = {}  # by id: a callback may be delivered more than once
callback_received = threading.Condition()


def on_event(event):
    """Ignore an id that you did not create: a genuine callback can belong to another client."""
    print(f"verified: {event.id} {event.data['status']} match={json.dumps(event.data.get('match'))}", flush=True)
    with callback_received:
        received.setdefault(event.id, event.data)
        callback_received.notify_all()


def open_on_phone(url):
    """Secure SNA: your app opens the URL over mobile data, and passes the code to your backend."""
    print(f"Phone: open {url}")
    if not IS_SIMULATED:
        return None
    request = urllib.request.Request(url, headers={"accept": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response).get("code")


def ask_for_sms(client, step):
    """Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in."""
    receiver, text = step["receiver_phone_number"], step["expected_sms_body"]
    print(f"Android: sms:{receiver}?body={urllib.parse.quote(text, safe='')}")
    print(f"iOS:     sms:{receiver}&body={urllib.parse.quote(text, safe='')}")
    if IS_SIMULATED:
        client.sandbox.send_sms(from_=PHONE_NUMBER, to=receiver, body=text)


def start_reverse_sms(client, callback_url):
    check = client.reverse_sms.create(phone_number=PHONE_NUMBER, callback_url=callback_url)
    ask_for_sms(client, check)
    return check["check_id"]


def start_secure_sna(client, callback_url):
    check = client.secure_sna.create(phone_number=PHONE_NUMBER, callback_url=callback_url)
    if code := open_on_phone(check["url"]):
        client.secure_sna.redeem_code(check["check_id"], code)
    return check["check_id"]


def start_verification(client, callback_url):
    """Follows the steps of a verification. With the hosted page, this is not necessary: see shop.py."""
    created = client.verifications.create(phone_number=PHONE_NUMBER, callback_url=callback_url)
    verification_id, step = created["verification_id"], created["next_step"]
    while step:
        if step["method"] == "reverse_sms":
            ask_for_sms(client, step)
        elif code := open_on_phone(step["url"]):
            client.verifications.redeem_code(verification_id, code)
        # Without a code, the operator has failed. A text from another number may be sent once more, with a new text.
        while (following := client.verifications.get(verification_id).get("next_step")) == step:
            time.sleep(1)
        step = following
    return verification_id


def verify_number(product, callback_url):
    """Starts a check or verification, and waits for its callback."""
    client = Ringtrue(
        BASE_URL, os.environ.get("CLIENT_ID"), os.environ.get("CLIENT_SECRET"), allow_sandbox=ACCEPT_SANDBOX
    )
    start = {"reverse-sms": start_reverse_sms, "secure-sna": start_secure_sna, "verification": start_verification}
    with client:
        started_id = start[product](client, callback_url)
    with callback_received:
        callback_received.wait_for(lambda: started_id in received)
    result = received[started_id]
    print("number verified" if result.get("match") else f"number not verified: {json.dumps(result)}")


def main():
    product = sys.argv[1] if len(sys.argv) > 1 else "reverse-sms"
    if product != "listen" and product not in PRODUCTS:
        sys.exit(f"unknown argument: {product}; expected {', '.join(PRODUCTS)} or listen")
    verifier = CallbackVerifier(BASE_URL, allow_sandbox=ACCEPT_SANDBOX)
    server = start_receiver(int(os.environ.get("CALLBACK_PORT", "9099")), verifier, on_event)
    callback_url = f"http://127.0.0.1:{server.server_port}/callbacks"
    print(f"listening on {callback_url}", flush=True)
    if product == "listen":
        return
    try:
        verify_number(product, callback_url)
    except RingtrueError as error:
        sys.exit(str(error))
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
