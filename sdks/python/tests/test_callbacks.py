"""Callbacks from the real service, and forged ones."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from support import BlockingProxy, RawRequest, Receiver, Service, Stub, open_on_phone, resend, response

from ringtrue import (
    AsyncCallbackVerifier,
    AsyncRingtrue,
    CallbackError,
    CallbackVerifier,
    DiscoveryEvent,
    MemorySeenStore,
    OtherEvent,
    ReverseSmsEvent,
    Ringtrue,
    SecureSnaEvent,
    VerificationEvent,
    process_once,
    process_once_async,
)
from ringtrue._rsa import parse_jwk
from ringtrue.callbacks import COMPONENTS, MAX_BODY_BYTES, Callbacks, KeySet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support import Clients, Loop

    from ringtrue import CallbackEvent


class Clock:
    """Time for key sets and dates."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.now = datetime.now(timezone.utc)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.now += timedelta(seconds=seconds)


def with_clock(client: Ringtrue, clock: Clock) -> Any:
    """The client's callbacks, with another clock."""
    inner: Any = client._proxied if isinstance(client, BlockingProxy) else client
    key_set = KeySet(inner._session.settings.url + "/.well-known/jwks.json", lambda: clock.seconds)
    callbacks: Any = Callbacks(inner._session, inner._runner, key_set, lambda: clock.now)
    return BlockingProxy(callbacks, client._loop) if isinstance(client, BlockingProxy) else callbacks


def complete_reverse_sms(client: Ringtrue, callback_url: str, phone_number: str = "+990123456700") -> str:
    check = client.reverse_sms.create(phone_number=phone_number, callback_url=callback_url)
    client.sandbox.send_sms(from_=phone_number, to=check["receiver_phone_number"], body=check["expected_sms_body"])
    return check["check_id"]


@pytest.fixture(scope="module")
def good(service: Service) -> RawRequest:
    """A genuine callback."""
    with Receiver() as receiver, Ringtrue(**service.credential()) as client:
        complete_reverse_sms(client, receiver.callback_url)
        return receiver.wait()


def rejection(callbacks: Any, request: RawRequest, **more: Any) -> tuple[str, int]:
    with pytest.raises(CallbackError) as raised:
        callbacks.verify(**request.arguments(), **more)
    return raised.value.reason, raised.value.status


def test_each_kind_of_event(client: Ringtrue, receiver: Receiver) -> None:
    url = receiver.callback_url

    def event(count: int) -> CallbackEvent:
        return client.callbacks.verify(**receiver.wait(count).arguments())

    check_id = complete_reverse_sms(client, url)
    first = event(1)
    assert isinstance(first, ReverseSmsEvent)
    assert (first.kind, first.check_id, first.id, first.attempt) == ("reverse_sms", check_id, check_id, 1)
    assert (first.data["status"], first.data["match"], first.is_sandbox) == ("COMPLETED", True, True)

    check = client.secure_sna.create(phone_number="+990123456701", callback_url=url)
    client.secure_sna.redeem_code(check["check_id"], open_on_phone(check["url"])["code"])
    second = event(2)
    assert isinstance(second, SecureSnaEvent)
    assert (second.check_id, second.data["match"]) == (check["check_id"], False)

    check = client.discovery.create(callback_url=url)
    client.discovery.redeem_code(check["check_id"], open_on_phone(check["url"] + "&sim=%2B990123456706")["code"])
    third = event(3)
    assert isinstance(third, DiscoveryEvent)
    assert third.data["phone_number"] == "+990123456706"
    assert "990123456706" not in repr(third)

    created = client.verifications.create(phone_number="+990123456700", callback_url=url)
    client.verifications.cancel(created["verification_id"])
    fourth = event(4)
    assert isinstance(fourth, VerificationEvent)
    assert (fourth.verification_id, fourth.data["error_code"]) == (created["verification_id"], "cancelled")
    assert fourth.id == fourth.verification_id


def test_verifier_without_credential(good: RawRequest, service: Service, loop: Loop) -> None:
    verifier = CallbackVerifier(service.url, allow_sandbox=True)
    assert verifier.verify(**good.arguments()).kind == "reverse_sms"
    verifier.close()
    async_verifier = AsyncCallbackVerifier(service.url, allow_sandbox=True)
    assert loop.run(async_verifier.verify(**good.arguments())).kind == "reverse_sms"
    loop.run(async_verifier.close())
    strict = CallbackVerifier(service.url)
    assert rejection(strict, good) == ("key_sandbox", 401)
    strict.close()


def test_headers_can_be_a_mapping_or_bytes(client: Ringtrue, good: RawRequest) -> None:
    mapping = {name.title(): value for name, value in good.headers}
    pairs = [(name.encode(), value.encode()) for name, value in good.headers]
    for headers in (mapping, pairs):
        assert client.callbacks.verify(**{**good.arguments(), "headers": headers}).id


TAMPERED: dict[str, tuple[Callable[[RawRequest], RawRequest], str]] = {
    "body": (lambda good: replace(good, body=good.body.replace(b"true", b"false")), "digest_mismatch"),
    "body and digest": (
        lambda good: replace(good, body=b"{}").with_header(
            "digest", "SHA-256=" + base64.b64encode(hashlib.sha256(b"{}").digest()).decode()
        ),
        "signature_invalid",
    ),
    "method": (lambda good: replace(good, method="PUT"), "signature_invalid"),
    "decoded path": (lambda good: replace(good, target=good.target.replace("%2F", "/")), "signature_invalid"),
    "query": (lambda good: replace(good, target=good.target.replace("order=7", "order=8")), "signature_invalid"),
    "host": (lambda good: good.with_header("host", "backend.example"), "signature_invalid"),
    "kind": (lambda good: good.with_header("x-service-callback", "verification"), "signature_invalid"),
    "digest": (lambda good: good.with_header("digest", "SHA-256=AAAA"), "digest_mismatch"),
    "other digest": (lambda good: good.with_header("digest", "MD5=AAAA"), "digest_mismatch"),
    "date": (
        lambda good: good.with_header(
            "date", format_datetime(datetime.now(timezone.utc) + timedelta(seconds=9), usegmt=True)
        ),
        "signature_invalid",
    ),
    "invalid date": (lambda good: good.with_header("date", "some day"), "date_invalid"),
    "unknown key": (
        lambda good: good.with_header("authorization", good.header("authorization").replace('keyId="', 'keyId="x')),
        "key_unknown",
    ),
    "algorithm": (
        lambda good: good.with_header(
            "authorization", good.header("authorization").replace("rsa-sha256", "hmac-sha256")
        ),
        "algorithm_unsupported",
    ),
    "components": (
        lambda good: good.with_header("authorization", good.header("authorization").replace(" digest", "")),
        "components_missing",
    ),
    "signature": (
        lambda good: good.with_header("authorization", good.header("authorization")[:-12] + 'AAAAAAAAAAA"'),
        "signature_invalid",
    ),
    "no base64": (
        lambda good: good.with_header("authorization", good.header("authorization")[:-3] + '!"'),
        "signature_invalid",
    ),
    "two key ids": (
        lambda good: good.with_header("authorization", good.header("authorization") + ',keyId="x"'),
        "authorization_malformed",
    ),
    "a token": (lambda good: good.with_header("authorization", "Bearer 1234"), "authorization_malformed"),
    "two dates": (
        lambda good: replace(good, headers=(*good.headers, ("Date", good.header("date")))),
        "header_missing",
    ),
    **{
        f"no {name}": (lambda good, name=name: good.without_header(name), "header_missing")  # type: ignore[misc]
        for name in ("host", "date", "x-service-callback", "digest", "authorization")
    },
}


@pytest.mark.parametrize("change", TAMPERED)
def test_tampered_callback_is_rejected(client: Ringtrue, good: RawRequest, change: str) -> None:
    alter, reason = TAMPERED[change]
    assert rejection(client.callbacks, alter(good)) == (reason, 401)


def test_attempt_is_not_signed(client: Ringtrue, good: RawRequest) -> None:
    for value, attempt in (("7", 7), ("x", None), ("-1", None)):
        event = client.callbacks.verify(**good.with_header("x-service-callback-attempt", value).arguments())
        assert event.attempt == attempt


def test_date_within_five_minutes_both_ways(client: Ringtrue, good: RawRequest) -> None:
    clock = Clock()
    callbacks = with_clock(client, clock)
    signed_at = datetime.strptime(good.header("date"), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=timezone.utc)
    for minutes in (-5, 5):
        clock.now = signed_at + timedelta(minutes=minutes)
        assert callbacks.verify(**good.arguments()).id
        clock.now += timedelta(seconds=minutes)
        assert rejection(callbacks, good) == ("date_skewed", 401)


def test_public_url(client: Ringtrue, good: RawRequest) -> None:
    host = good.header("host")
    public_url = f"http://{host}/call%2Fbacks"
    # A proxy has replaced the host and stripped a part of the path.
    proxied = replace(good, target="/backs?" + good.target.partition("?")[2]).with_header("host", "internal:8000")
    assert rejection(client.callbacks, proxied) == ("signature_invalid", 401)
    assert client.callbacks.verify(**proxied.arguments(), public_url=public_url).id
    # The callback was sent to another host.
    assert (
        rejection(client.callbacks, good, public_url="https://shop.example.com/call%2Fbacks")[0] == "signature_invalid"
    )
    with pytest.raises(ValueError, match="public_url"):
        client.callbacks.verify(**good.arguments(), public_url="shop.example.com")


def test_large_body_is_rejected(client: Ringtrue, good: RawRequest) -> None:
    assert rejection(client.callbacks, replace(good, body=b" " * (MAX_BODY_BYTES + 1))) == ("body_too_large", 413)


def test_sandbox_key_is_refused_by_default(clients: Clients, service: Service, good: RawRequest) -> None:
    strict = clients(**service.credential(allow_sandbox=False))
    assert rejection(strict.callbacks, good) == ("key_sandbox", 401)


def test_rotated_key(clients: Clients, tmp_path: Path) -> None:
    clock = Clock()
    with Service(tmp_path) as service, Receiver() as receiver:
        client = clients(**service.credential())
        callbacks = with_clock(client, clock)
        complete_reverse_sms(client, receiver.callback_url)
        old = receiver.wait(1)
        assert callbacks.verify(**old.arguments()).id
        service.operate("keys", "rotate", "--purpose", "sandbox_callback", "--emergency")
        service.stop()
        service.start()
        complete_reverse_sms(client, receiver.callback_url, "+990123456702")
        new = receiver.wait(2)
        assert old.header("authorization").split('"')[1] != new.header("authorization").split('"')[1]
        # The keys were fetched a moment ago, and forged key ids must not cause a flood of requests.
        assert rejection(callbacks, new) == ("key_unknown", 401)
        clock.advance(31)
        assert callbacks.verify(**new.arguments()).id
        assert rejection(callbacks, old) == ("key_unknown", 401)


def test_resent_callback_is_a_duplicate(client: Ringtrue, receiver: Receiver) -> None:
    check_id = complete_reverse_sms(client, receiver.callback_url)
    first = client.callbacks.verify(**receiver.wait(1).arguments())
    resend(client.reverse_sms, check_id)
    second = client.callbacks.verify(**receiver.wait(2).arguments())
    store = MemorySeenStore()
    processed: list[CallbackEvent] = []
    for event in (first, second):
        process_once(store, event, processed.append)
    assert processed == [first]


class Forger(Stub):
    """Signs with its own keys, and serves them."""

    def __init__(self, **members: Any) -> None:
        self.key = generate_private_key(65537, 2048)
        self.members = members
        self.is_up = True
        self.headers = {"cache_control": "public, max-age=100"}
        super().__init__(
            lambda _: (
                response(200, {"keys": [{"kty": "EC"}, self.jwk()]}, **self.headers) if self.is_up else response(503)
            )
        )

    def jwk(self) -> dict[str, Any]:
        return {**jwk_of(self.key), "kid": "own", **self.members}

    def sign(self, body: bytes = b'{"check_id":"01a1"}', kind: str = "reverse_sms", key_id: str = "own") -> RawRequest:
        headers = {
            "host": "backend.example",
            "date": format_datetime(datetime.now(timezone.utc), usegmt=True),
            "x-service-callback": kind,
            "digest": "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode(),
        }
        signed = "(request-target): post /callbacks\n" + "\n".join(
            f"{name}: {value}" for name, value in headers.items()
        )
        signature = base64.b64encode(self.key.sign(signed.encode(), PKCS1v15(), SHA256())).decode()
        headers["authorization"] = (
            f'Signature keyId="{key_id}",algorithm="rsa-sha256",headers="{COMPONENTS}",signature="{signature}"'
        )
        return RawRequest("POST", "/callbacks", tuple(headers.items()), body)


def number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode().rstrip("=")


def jwk_of(key: RSAPrivateKey) -> dict[str, Any]:
    public = key.public_key().public_numbers()
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "n": number(public.n), "e": number(public.e)}


def test_keys_are_cached_and_outages_survived(clients: Clients) -> None:
    clock = Clock()
    with Forger() as forger:
        client = clients(url=forger.url, client_id="c", client_secret="s")
        callbacks = with_clock(client, clock)
        for _ in range(3):
            assert not callbacks.verify(**forger.sign().arguments()).is_sandbox
        assert len(forger.requests) == 1
        # Unknown key ids cause one request in half a minute.
        clock.advance(31)
        for key_id in ("a", "b", "c"):
            assert rejection(callbacks, forger.sign(key_id=key_id)) == ("key_unknown", 401)
        assert len(forger.requests) == 2
        # An outage when the keys are old.
        clock.seconds += 101
        clock.now = datetime.now(timezone.utc)
        forger.is_up = False
        for _ in range(3):
            assert callbacks.verify(**forger.sign().arguments()).id
        assert len(forger.requests) == 3
        # An unknown key may be a new one: the service shall try again.
        assert rejection(callbacks, forger.sign(key_id="new")) == ("keys_unavailable", 503)


def test_unavailable_keys(clients: Clients) -> None:
    clock = Clock()
    with Forger() as forger:
        forger.is_up = False
        callbacks = with_clock(clients(url=forger.url, client_id="c", client_secret="s"), clock)
        for _ in range(3):
            assert rejection(callbacks, forger.sign()) == ("keys_unavailable", 503)
        assert len(forger.requests) == 1
        forger.is_up = True
        clock.advance(6)
        assert callbacks.verify(**forger.sign().arguments()).id


def test_old_recording_causes_no_request(clients: Clients) -> None:
    clock = Clock()
    with Forger() as forger:
        callbacks = with_clock(clients(url=forger.url, client_id="c", client_secret="s"), clock)
        recorded = forger.sign()
        # Signing may take a moment. The age counts from its end.
        clock.now = datetime.now(timezone.utc)
        clock.advance(301)
        assert rejection(callbacks, recorded)[0] == "date_skewed"
        assert forger.requests == []


def test_unknown_kind_and_invalid_bodies(clients: Clients) -> None:
    with Forger() as forger:
        callbacks = clients(url=forger.url, client_id="c", client_secret="s").callbacks
        event = callbacks.verify(**forger.sign(kind="voice").arguments())
        assert isinstance(event, OtherEvent)
        assert (event.kind, event.id) == ("voice", "01a1")
        for body in (b"[]", b"", b"{", b"{}", b'{"check_id":1}', b"\xff"):
            assert rejection(callbacks, forger.sign(body)) == ("body_invalid", 400)


@pytest.mark.parametrize("mode", ["rehearsal", "live", ""])
def test_key_with_unknown_mode_is_rejected(clients: Clients, mode: str) -> None:
    with Forger(use_mode=mode) as forger:
        callbacks = clients(url=forger.url, client_id="c", client_secret="s", allow_sandbox=True).callbacks
        assert rejection(callbacks, forger.sign()) == ("key_mode_unknown", 401)


def test_callback_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(CallbackError("key_unknown", "unknown key id")))
    assert (error.reason, str(error), error.status) == ("key_unknown", "unknown key id", 401)


def event_of(check_id: str) -> CallbackEvent:
    data: Any = {"check_id": check_id}
    return ReverseSmsEvent(1, False, check_id, data)  # noqa: FBT003


def test_failed_processing_is_repeated(loop: Loop) -> None:
    store, event = MemorySeenStore(), event_of("a")

    def fail(_: CallbackEvent) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        process_once(store, event, fail)
    processed: list[CallbackEvent] = []
    assert process_once(store, event, processed.append)
    assert not process_once(store, event, processed.append)
    assert not loop.run(process_once_async(store, event, processed.append))
    assert processed == [event]


def test_event_in_progress_is_refused() -> None:
    store, event = MemorySeenStore(), event_of("a")

    def deliver_again(_: CallbackEvent) -> None:
        with pytest.raises(CallbackError) as raised:
            process_once(store, event, lambda _: None)
        assert (raised.value.reason, raised.value.status) == ("in_progress", 503)

    assert process_once(store, event, deliver_again)


def test_asynchronous_store_and_handler(loop: Loop) -> None:
    seen: set[str] = set()

    class Store:
        async def seen(self, event_id: str) -> bool:
            return event_id in seen

        async def mark(self, event_id: str) -> None:
            seen.add(event_id)

    processed: list[CallbackEvent] = []

    async def handle(event: CallbackEvent) -> None:
        processed.append(event)

    for _ in range(2):
        loop.run(process_once_async(Store(), event_of("a"), handle))
    assert len(processed) == 1


def test_memory_of_events_is_bounded() -> None:
    clock = Clock()
    store = MemorySeenStore(ttl=10, max_entries=3, monotonic=lambda: clock.seconds)
    for event_id in "abcd":
        store.mark(event_id)
    assert [store.seen(event_id) for event_id in "abcd"] == [False, True, True, True]
    clock.advance(11)
    assert not store.seen("d")
    store.mark("e")
    assert len(store._expiry) == 1


def test_rsa_equals_another_implementation() -> None:
    for bits in (2048, 3072, 4096):
        private_key = generate_private_key(65537, bits)
        key = parse_jwk(jwk_of(private_key))
        assert key is not None
        for message in (b"", b"message", bytes(1000)):
            signature = private_key.sign(message, PKCS1v15(), SHA256())
            assert key.verify(signature, message)
            assert not key.verify(signature, message + b"x")
            assert not key.verify(private_key.sign(message, PKCS1v15(), SHA512()), message)
            for broken in (b"", signature[1:], b"\0" + signature, signature[:-1] + bytes([signature[-1] ^ 1])):
                assert not key.verify(broken, message)
            # The same number plus the modulus.
            larger = int.from_bytes(signature, "big") + key.modulus
            if larger.bit_length() <= bits:
                assert not key.verify(larger.to_bytes(bits // 8, "big"), message)
        assert not key.verify(bytes(bits // 8), b"")
        assert not key.verify((1).to_bytes(bits // 8, "big"), b"")


def test_padding_must_fill_the_whole_block() -> None:
    private_key = generate_private_key(65537, 2048)
    numbers = private_key.private_numbers()
    key = parse_jwk(jwk_of(private_key))
    assert key is not None
    digest_info = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(b"m").digest()
    genuine = b"\0\1" + b"\xff" * (253 - len(digest_info)) + b"\0" + digest_info
    without_null = bytes.fromhex("302f300b0609608648016503040201" + "0420") + hashlib.sha256(b"m").digest()
    blocks = {
        "genuine": genuine,
        "short padding, garbage behind": (b"\0\1" + b"\xff" * 8 + b"\0" + digest_info).ljust(256, b"\0"),
        "other padding": genuine[:10] + b"\xfe" + genuine[11:],
        "block type 2": b"\0\2" + genuine[2:],
        "no parameters": b"\0\1" + b"\xff" * (253 - len(without_null)) + b"\0" + without_null,
    }
    accepted = []
    for name, block in blocks.items():
        signature = pow(int.from_bytes(block, "big"), numbers.d, numbers.public_numbers.n).to_bytes(256, "big")
        accepted += [name] if key.verify(signature, b"m") else []
    assert accepted == ["genuine"]


def test_unfit_keys_are_ignored() -> None:
    jwk = jwk_of(generate_private_key(65537, 2048))
    assert parse_jwk(jwk) is not None
    small = jwk_of(generate_private_key(65537, 1024))
    unfit: list[dict[str, Any]] = [
        {**jwk, "kty": "EC"},
        {**jwk, "use": "enc"},
        {**jwk, "alg": "RS512"},
        {**jwk, "e": number(3)},
        {**jwk, "e": ""},
        {**jwk, "n": 1},
        {**jwk, "n": "!"},
        {**jwk, "n": number(1 << 9000)},
        {**jwk, "n": number(1 << 2047)},
        small,
    ]
    assert [parse_jwk(each) for each in unfit] == [None] * len(unfit)


def test_json_of_keys_may_be_broken(clients: Clients) -> None:
    with Forger() as forger, Stub(lambda _: response(200, json.loads("[]"))) as broken:
        callbacks = clients(url=broken.url, client_id="c", client_secret="s").callbacks
        assert rejection(callbacks, forger.sign()) == ("keys_unavailable", 503)


def test_clients_share_keys_between_options(service: Service) -> None:
    client = AsyncRingtrue(**service.credential())
    assert client.with_options(timeout=1).callbacks is client.callbacks
