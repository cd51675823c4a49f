"""Verifies that a callback was sent by Ringtrue. Copy this file into your backend."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import threading
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

COMPONENTS = "(request-target) host date x-service-callback digest"
# How far the two clocks may be apart. Whoever records a callback can replay it for this long: `check_id` tells.
MAX_SKEW = timedelta(minutes=5)
# Keys change seldom. Without a pause, anybody could make us ask for them with every request.
PAUSE_BETWEEN_FETCHES = 30


class Refused(Exception):
    """The request is not to be trusted."""


class KeySet:
    """The public keys at `/.well-known/jwks.json`, fetched again when a callback names one that is not known."""

    def __init__(self, url, accept_sandbox=False):
        self.url = url
        # Sandbox checks prove nothing about a number, and anybody's sandbox project can name your URL. Only for tests.
        self.accept_sandbox = accept_sandbox
        self.keys = {}
        self.fetched_at = None
        self.lock = threading.Lock()

    def find(self, key_id):
        with self.lock:
            now = time.monotonic()
            if key_id not in self.keys and (self.fetched_at is None or now - self.fetched_at > PAUSE_BETWEEN_FETCHES):
                self.fetched_at = now
                with urllib.request.urlopen(self.url, timeout=10) as answer:
                    self.keys = {jwk["kid"]: jwk for jwk in json.load(answer)["keys"] if jwk["kty"] == "RSA"}
            jwk = self.keys.get(key_id)
        if jwk is None:
            raise Refused("the key is not in the key set")
        if "use_mode" in jwk and not (jwk["use_mode"] == "sandbox" and self.accept_sandbox):
            raise Refused(f"the key is for {jwk['use_mode']} checks only")
        return public_key(jwk)


def verify(method, target, headers, body, key_set):
    """Answers what is in the callback, or raises `Refused`.

    `target` is the path with its query as in the request line; `headers` is a list of names and values; `body` is the
    bytes as they came. Nothing of them may be changed before, not even by parsing the JSON and writing it again.
    A valid callback can still be about somebody else's check: refuse a `check_id` that you did not create.
    """
    host, date, source, digest, authorization = (
        only(headers, name) for name in ("host", "date", "x-service-callback", "digest", "authorization")
    )
    parameters = read_authorization(authorization)
    if parameters["algorithm"] != "rsa-sha256":
        raise Refused("another algorithm than rsa-sha256")
    if parameters["headers"] != COMPONENTS:
        raise Refused("the signature does not cover what it must")
    actual = "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode()
    if not hmac.compare_digest(actual.encode(), digest.encode()):
        raise Refused("the body is not the one that was signed")
    key = key_set.find(parameters["keyId"])
    signed = (
        f"(request-target): {method.lower()} {target}\nhost: {host}\ndate: {date}\n"
        f"x-service-callback: {source}\ndigest: {digest}"
    )
    try:
        signature = base64.b64decode(parameters["signature"], validate=True)
        # Header bytes beyond ASCII never come from Ringtrue.
        key.verify(signature, signed.encode("ascii"), PKCS1v15(), SHA256())
    except (InvalidSignature, binascii.Error, UnicodeEncodeError):
        raise Refused("the signature does not fit the request") from None
    try:
        skew = abs(datetime.now(timezone.utc) - parsedate_to_datetime(date))
    except (ValueError, TypeError):
        raise Refused("the date is none") from None
    if skew > MAX_SKEW:
        raise Refused("the date is too far from now")
    return json.loads(body)


def only(headers, wanted):
    values = [value for name, value in headers if name.lower() == wanted]
    if len(values) != 1:
        raise Refused(f"the header {wanted} is there {len(values)} times")
    return values[0]


def read_authorization(value):
    """`Signature name="value",…` with each of the four parameters once."""
    pairs = re.findall(r'([A-Za-z]+)="([^"\\]*)"', value)
    parameters = dict(pairs)
    written = "Signature " + ",".join(f'{name}="{text}"' for name, text in pairs)
    if written != value or len(pairs) != 4 or set(parameters) != {"keyId", "algorithm", "headers", "signature"}:
        raise Refused("the Authorization header is not a signature of Ringtrue's")
    return parameters


def public_key(jwk):
    return RSAPublicNumbers(number(jwk["e"]), number(jwk["n"])).public_key()


def number(text):
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
