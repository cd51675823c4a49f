"""RSASSA-PKCS1-v1_5 verification with SHA-256 (RFC 8017, section 8.2.2).

Verification uses public values only, so it needs neither constant-time arithmetic nor a cryptographic library: it is an
exponentiation and a comparison. The comparison is with the whole expected encoding. Verifiers that parse the padding
instead have accepted forged signatures, because they ignored bytes of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

# DER of the DigestInfo for SHA-256, up to the digest (RFC 8017, section 9.2, note 1).
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
MIN_KEY_BITS = 2048
# A larger key could make verification slow.
MAX_KEY_BITS = 8192
PUBLIC_EXPONENT = 65537


@dataclass(frozen=True)
class PublicKey:
    """An RSA key."""

    modulus: int

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is the message's."""
        length = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != length or number >= self.modulus:
            return False
        digest_info = SHA256_PREFIX + hashlib.sha256(message).digest()
        expected = b"\x00\x01" + b"\xff" * (length - len(digest_info) - 3) + b"\x00" + digest_info
        decrypted = pow(number, PUBLIC_EXPONENT, self.modulus).to_bytes(length, "big")
        return hmac.compare_digest(decrypted, expected)


def parse_jwk(jwk: dict[str, object]) -> PublicKey | None:
    """Returns the key of a JWK, or `None` if it is none that this library accepts."""
    is_for_signatures = jwk.get("use", "sig") == "sig" and jwk.get("alg", "RS256") == "RS256"
    if jwk.get("kty") != "RSA" or not is_for_signatures or _decode_number(jwk.get("e")) != PUBLIC_EXPONENT:
        return None
    modulus = _decode_number(jwk.get("n"))
    if modulus is None or not MIN_KEY_BITS <= modulus.bit_length() <= MAX_KEY_BITS or modulus % 2 == 0:
        return None
    return PublicKey(modulus)


def _decode_number(text: object) -> int | None:
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,2048}", text) or len(text) % 4 == 1:
        return None
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
