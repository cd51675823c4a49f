"""Verifies callbacks of Ringtrue. Copy this file into your backend."""

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
# Maximum clock skew. A recorded callback can be replayed for this long; detect replays by the id.
MAX_SKEW = timedelta(minutes=5)
# Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
MIN_FETCH_INTERVAL = 30  # seconds


class InvalidCallback(Exception):
    """Verification of the request failed."""


class KeySet:
    """The public keys at `/.well-known/jwks.json`, fetched again when a callback has an unknown key id."""

    def __init__(self, url, accept_sandbox=False):
        self.url = url
        # For tests only: sandbox checks do not verify a number, and any sandbox project can use your URL.
        self.accept_sandbox = accept_sandbox
        self.keys = {}
        self.fetched_at = None
        self.lock = threading.Lock()

    def find(self, key_id):
        with self.lock:
            now = time.monotonic()
            if key_id not in self.keys and (self.fetched_at is None or now - self.fetched_at > MIN_FETCH_INTERVAL):
                self.fetched_at = now
                with urllib.request.urlopen(self.url, timeout=10) as response:
                    self.keys = {jwk["kid"]: jwk for jwk in json.load(response)["keys"] if jwk["kty"] == "RSA"}
            jwk = self.keys.get(key_id)
        if jwk is None:
            raise InvalidCallback("unknown key id")
        if "use_mode" in jwk and not (jwk["use_mode"] == "sandbox" and self.accept_sandbox):
            raise InvalidCallback(f"the key is for {jwk['use_mode']} checks only")
        return public_key(jwk)


def verify(method, target, headers, body, key_set):
    """Returns the verified callback, or raises `InvalidCallback`.

    `target` is the unmodified path and query of the request line; `headers` is a list of names and values; `body` is
    the raw bytes as received: parsed and re-encoded JSON does not verify.
    A valid callback can belong to a check of another client: reject an id that you did not create.
    """
    host, date, source, digest, authorization = (
        single_header(headers, name) for name in ("host", "date", "x-service-callback", "digest", "authorization")
    )
    parameters = parse_authorization(authorization)
    if parameters["algorithm"] != "rsa-sha256":
        raise InvalidCallback("unsupported algorithm; expected rsa-sha256")
    if parameters["headers"] != COMPONENTS:
        raise InvalidCallback("the signature does not cover the required headers")
    actual = "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode()
    if not hmac.compare_digest(actual.encode(), digest.encode()):
        raise InvalidCallback("digest mismatch: the body differs from the signed one")
    key = key_set.find(parameters["keyId"])
    signed = (
        f"(request-target): {method.lower()} {target}\nhost: {host}\ndate: {date}\n"
        f"x-service-callback: {source}\ndigest: {digest}"
    )
    try:
        signature = base64.b64decode(parameters["signature"], validate=True)
        # Ringtrue sends ASCII headers only.
        key.verify(signature, signed.encode("ascii"), PKCS1v15(), SHA256())
    except (InvalidSignature, binascii.Error, UnicodeEncodeError):
        raise InvalidCallback("invalid signature") from None
    try:
        skew = abs(datetime.now(timezone.utc) - parsedate_to_datetime(date))
    except (ValueError, TypeError):
        raise InvalidCallback("invalid date") from None
    if skew > MAX_SKEW:
        raise InvalidCallback("the date differs too much from the current time")
    return json.loads(body)


def single_header(headers, wanted):
    values = [value for name, value in headers if name.lower() == wanted]
    if len(values) != 1:
        raise InvalidCallback(f"expected one {wanted} header, found {len(values)}")
    return values[0]


def parse_authorization(value):
    """Parses `Signature name="value",…`, with each of the four parameters exactly once."""
    pairs = re.findall(r'([A-Za-z]+)="([^"\\]*)"', value)
    parameters = dict(pairs)
    written = "Signature " + ",".join(f'{name}="{text}"' for name, text in pairs)
    if written != value or len(pairs) != 4 or set(parameters) != {"keyId", "algorithm", "headers", "signature"}:
        raise InvalidCallback("malformed Authorization header")
    return parameters


def public_key(jwk):
    return RSAPublicNumbers(decode_number(jwk["e"]), decode_number(jwk["n"])).public_key()


def decode_number(text):
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
