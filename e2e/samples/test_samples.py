"""Runs the samples against the real binary, and with forged and modified callbacks."""

import json
import subprocess
import time
from dataclasses import replace

import pytest
import requests
from peers import COMPONENTS, SAMPLES, Forger, environment, record_callback, start_receiver

every_sample = pytest.mark.parametrize("sample", SAMPLES)


@pytest.fixture(scope="module")
def post(ringtrue):
    """Posts to the API as the project's backend."""
    base_url, project = ringtrue["base_url"], ringtrue["project"]
    form = {"grant_type": "client_credentials", "scope": "reverse_sms"}
    response = requests.post(f"{base_url}/oauth2/token", form, auth=(project["client_id"], project["client_secret"]))
    session = requests.Session()
    session.trust_env = False
    session.headers["authorization"] = f"Bearer {response.json()['access_token']}"

    def post(path, body):
        response = session.post(base_url + path, json=body)
        assert response.ok, response.text
        return response.json() if response.content else None

    return post


@pytest.fixture(scope="module")
def forger():
    forger = Forger()
    yield forger
    forger.server.shutdown()


def number(sample, last_digits):
    """A separate number for each sample, because of the limit on checks per number."""
    return f"+99012345{list(SAMPLES).index(sample)}8{last_digits}"


def record(post, phone_number):
    """Returns the callback of a matching check as Ringtrue sent it."""

    def start(callback_url):
        new = {"phone_number": phone_number, "callback_url": callback_url}
        check = post("/v1/number-verification/reverse-sms-checks", new)
        sms = {"from": phone_number, "to": check["receiver_phone_number"], "body": check["expected_sms_body"]}
        post("/v1/sandbox/inbound-sms", sms)

    return record_callback(start)


@every_sample
@pytest.mark.parametrize(("last_digits", "match", "result"), [("00", "true", "number verified"), ("01", "false", "number not verified")])
def test_sample_completes_a_check(ringtrue, sample, last_digits, match, result):
    project, phone_number = ringtrue["project"], number(sample, last_digits)
    settings = environment(
        ringtrue["base_url"],
        CLIENT_ID=project["client_id"],
        CLIENT_SECRET=project["client_secret"],
        PHONE_NUMBER=phone_number,
        ACCEPT_SANDBOX="1",
    )
    completed = subprocess.run(SAMPLES[sample], env=settings, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    listening, android, ios, *_ = completed.stdout.splitlines()
    assert listening.startswith("listening on http://127.0.0.1:")
    link = android.removeprefix("Android: ")
    assert link.startswith("sms:+990") and "?body=VERIFY%20" in link
    assert ios == "iOS:     " + link.replace("?", "&")
    assert f" COMPLETED match={match}\n" in completed.stdout
    assert completed.stdout.splitlines()[-1].startswith(result)
    assert "rejected" not in completed.stdout


# Last digits of the number, and whether the program prints a URL for the phone, the links for an SMS, and a match. The
# last two numbers fall back to Reverse SMS: one has no Secure SNA, and the operator of the other does not respond.
SILENT = [
    ("secure-sna", "06", (True, False, True)),
    ("secure-sna", "07", (True, False, False)),
    ("verification", "08", (True, False, True)),
    ("verification", "09", (True, False, False)),
    ("verification", "96", (False, True, True)),
    ("verification", "95", (True, True, False)),
]


@every_sample
@pytest.mark.parametrize(("product", "last_digits", "expected"), SILENT)
def test_sample_completes_each_product(ringtrue, sample, product, last_digits, expected):
    project = ringtrue["project"]
    settings = environment(
        ringtrue["base_url"],
        CLIENT_ID=project["client_id"],
        CLIENT_SECRET=project["client_secret"],
        PHONE_NUMBER=number(sample, last_digits),
        ACCEPT_SANDBOX="1",
    )
    completed = subprocess.run([*SAMPLES[sample], product], env=settings, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    lines = completed.stdout.splitlines()
    has_url = any(line.startswith("Phone: open http://") for line in lines)
    has_link = any(line.startswith("Android: sms:+990") for line in lines)
    assert (has_url, has_link, lines[-1] == "number verified") == expected, completed.stdout
    assert " COMPLETED match=" in completed.stdout and "rejected" not in completed.stdout


@every_sample
def test_unknown_argument_is_reported(ringtrue, sample):
    completed = subprocess.run([*SAMPLES[sample], "sms"], env=environment(ringtrue["base_url"]), capture_output=True, text=True)
    assert completed.returncode != 0
    assert "reverse-sms" in completed.stderr and "verification" in completed.stderr, completed.stderr


@every_sample
def test_wrong_secret_is_reported(ringtrue, sample):
    settings = environment(ringtrue["base_url"], CLIENT_ID=ringtrue["project"]["client_id"], CLIENT_SECRET="wrong")
    completed = subprocess.run(SAMPLES[sample], env=settings, capture_output=True, text=True)
    assert completed.returncode != 0
    assert "401" in completed.stderr, completed.stderr


def replace_character(text, at):
    """Replaces one character by another."""
    character = text[at]
    return text[:at] + ("A" if character != "A" else "B") + text[at + 1 :]


def change_signature(value):
    return replace_character(value, value.index('signature="') + len('signature="') + 40)


# Modified callbacks; all must be rejected.
MODIFIED = {
    "body": lambda good: replace(good, body=good.body.replace(b"true", b"trUe")),
    "match": lambda good: replace(good, body=good.body.replace(b'"match":true', b'"match":false')),
    "body cut": lambda good: replace(good, body=good.body[:-1]),
    "body and digest": lambda good: replace(good, body=b"{}").altered(
        "digest", lambda _: "SHA-256=RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o="
    ),
    "date": lambda good: good.altered("date", lambda date: date.replace(":", ":0", 1).replace("0", "", 1)),
    "second": lambda good: good.altered("date", lambda date: date[:-5] + str((int(date[-5]) + 1) % 10) + date[-4:]),
    "path": lambda good: replace(good, target=replace_character(good.target, 3)),
    "path decoded": lambda good: replace(good, target=good.target.replace("%2F", "/")),
    "query": lambda good: replace(good, target=good.target.replace("order=7", "order=8")),
    "no query": lambda good: replace(good, target=good.target.split("?")[0]),
    "host": lambda good: good.altered("host", lambda _: "backend.example"),
    "source": lambda good: good.altered("x-service-callback", lambda _: "discovery"),
    "digest": lambda good: good.altered("digest", lambda digest: replace_character(digest, 12)),
    "signature": lambda good: good.altered("authorization", change_signature),
    "signature with other letters": lambda good: good.altered("authorization", lambda text: text[:-3] + "!" + text[-3:]),
    "no signature": lambda good: good.altered("authorization", lambda text: text.split(',signature="')[0]),
    "key": lambda good: good.altered("authorization", lambda text: replace_character(text, len('Signature keyId="'))),
    "algorithm": lambda good: good.altered("authorization", lambda text: text.replace("rsa-sha256", "hmac-sha256")),
    "fewer components": lambda good: good.altered("authorization", lambda text: text.replace(" digest", "")),
    "another scheme": lambda good: good.altered("authorization", lambda _: "Bearer 1234"),
    "a second date": lambda good: replace(good, headers=(*good.headers, ("date", good.header("date")))),
    "a second digest": lambda good: replace(good, headers=(("digest", good.header("digest")), *good.headers)),
    **{
        f"no {name}": lambda good, name=name: good.without(name)
        for name in ("authorization", "date", "digest", "x-service-callback")
    },
}


@every_sample
def test_modified_callback_is_rejected(ringtrue, post, sample):
    good = record(post, number(sample, "02"))
    settings = {"ACCEPT_SANDBOX": "1", "CALLBACK_HOST": good.header("host")}
    with start_receiver(sample, ringtrue["base_url"], **settings) as receiver:
        accepted = [receiver.deliver(good), receiver.deliver(good)]
        responses = {change: receiver.deliver(alter(good)) for change, alter in MODIFIED.items()}
        accepted.append(receiver.deliver(good))
        by_put = replace(good, method="PUT").send(receiver.port)
    check_id = json.loads(good.body)["check_id"]
    assert accepted == [(200, f"verified: {check_id} COMPLETED match=true")] * 3, "a callback may be delivered more than once"
    assert {change: status for change, (status, _) in responses.items()} == dict.fromkeys(MODIFIED, 401)
    assert all(line.startswith("rejected: ") for _, line in responses.values()), responses
    assert by_put in (401, 405, 501)


@every_sample
def test_valid_signature_with_invalid_parameters_is_rejected(forger, sample):
    now, hour = time.time(), 3600
    requests = {
        "valid": (forger.request(at=now), 200),
        "an hour old": (forger.request(at=now - hour), 401),
        "an hour early": (forger.request(at=now + hour), 401),
        "invalid date": (forger.request(at=now, date="some day"), 401),
        "only a date": (forger.request(at=now, components="date"), 401),
        "no digest": (forger.request(at=now, components=COMPONENTS.removesuffix(" digest")), 401),
        "another order": (forger.request(at=now, components=" ".join(reversed(COMPONENTS.split(" ")))), 401),
        "another algorithm": (forger.request(at=now, algorithm="hs2019"), 401),
    }
    with start_receiver(sample, forger.base_url, CALLBACK_HOST="backend.example") as receiver:
        responses = {name: receiver.deliver(request)[0] for name, (request, _) in requests.items()}
    assert responses == {name: expected for name, (_, expected) in requests.items()}


@pytest.mark.parametrize("sample", ["rust", "shell"])
def test_callback_for_another_host_is_rejected(forger, sample):
    genuine = forger.request(at=time.time())
    for settings in ({}, {"CALLBACK_HOST": "other.example"}, {"CALLBACK_HOST": "backend.example:8080"}):
        with start_receiver(sample, forger.base_url, **settings) as receiver:
            assert receiver.deliver(genuine) == (401, "rejected: the callback is for another host")
    with start_receiver(sample, forger.base_url, CALLBACK_HOST="Backend.Example") as receiver:
        assert receiver.deliver(genuine)[0] == 200


@every_sample
def test_unavailable_keys_cause_a_retry(forger, sample):
    forger.is_up = False
    try:
        with start_receiver(sample, forger.base_url, CALLBACK_HOST="backend.example") as receiver:
            status, line = receiver.deliver(forger.request(at=time.time()))
    finally:
        forger.is_up = True
    assert status == 503
    assert "verified: 0" not in line


@every_sample
def test_sandbox_key_is_rejected_by_default(ringtrue, post, sample):
    good = record(post, number(sample, "04"))
    with start_receiver(sample, ringtrue["base_url"], CALLBACK_HOST=good.header("host")) as receiver:
        assert receiver.deliver(good) == (401, "rejected: the key is for sandbox checks only")


@every_sample
def test_key_with_unknown_mode_is_rejected(sample):
    forger = Forger(use_mode="rehearsal")
    try:
        with start_receiver(sample, forger.base_url, CALLBACK_HOST="backend.example", ACCEPT_SANDBOX="1") as receiver:
            status, line = receiver.deliver(forger.request(at=time.time()))
    finally:
        forger.server.shutdown()
    assert status == 401
    assert line.startswith("rejected: the key is for "), line
