"""Verifies callbacks with the PyPI package `httpsig`.

Reads {"keys": [JWK...], "requests": [{"method", "target", "headers", "body"}...]} from standard input; bodies are in
base64. Writes an array with `null` for each valid request, otherwise the reason.
"""

import base64
import hashlib
import json
import sys
import warnings

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

with warnings.catch_warnings():
    # httpsig reads its version through a deprecated API of setuptools.
    warnings.simplefilter("ignore", UserWarning)
    from httpsig.verify import HeaderVerifier

COVERED = ["(request-target)", "host", "date", "x-service-callback", "digest"]


def decode_number(text):
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def pem(jwk):
    public = RSAPublicNumbers(decode_number(jwk["e"]), decode_number(jwk["n"])).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def find_error(request, keys):
    headers = request["headers"]
    key_id = headers["authorization"].split('keyId="', 1)[1].split('"', 1)[0]
    if key_id not in keys:
        return "unknown key"
    verifier = HeaderVerifier(
        headers, keys[key_id], required_headers=COVERED, method=request["method"], path=request["target"]
    )
    if not verifier.verify():
        return "signature"
    body = base64.b64decode(request["body"])
    digest = "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode()
    return None if headers["digest"] == digest else "digest"


def verdict(request, keys):
    try:
        return find_error(request, keys)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


document = json.load(sys.stdin)
keys = {jwk["kid"]: pem(jwk) for jwk in document["keys"]}
json.dump([verdict(request, keys) for request in document["requests"]], sys.stdout)
