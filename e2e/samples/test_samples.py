"""The samples for integrators, end to end against the real binary, and against those who would deceive them."""

import json
import subprocess
import time
from dataclasses import replace

import pytest
import requests
from peers import COMPONENTS, SAMPLES, Impostor, environment, listening, record_one

every_sample = pytest.mark.parametrize("sample", SAMPLES)


@pytest.fixture(scope="module")
def post(ringtrue):
    """Posts to the API as the project's backend."""
    base_url, project = ringtrue["base_url"], ringtrue["project"]
    form = {"grant_type": "client_credentials", "scope": "reverse_sms"}
    answer = requests.post(f"{base_url}/oauth2/token", form, auth=(project["client_id"], project["client_secret"]))
    session = requests.Session()
    session.trust_env = False
    session.headers["authorization"] = f"Bearer {answer.json()['access_token']}"

    def post(path, body):
        answer = session.post(base_url + path, json=body)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    return post


@pytest.fixture(scope="module")
def impostor():
    impostor = Impostor()
    yield impostor
    impostor.server.shutdown()


def number(sample, last_digits):
    """A number for each sample: few checks at a time may be made for one."""
    return f"+99012345{list(SAMPLES).index(sample)}8{last_digits}"


def record(post, phone_number):
    """The callback of a check that matched, as Ringtrue sent it."""

    def start(callback_url):
        new = {"phone_number": phone_number, "callback_url": callback_url}
        check = post("/v1/number-verification/reverse-sms-checks", new)
        sms = {"from": phone_number, "to": check["receiver_phone_number"], "body": check["expected_sms_body"]}
        post("/v1/sandbox/inbound-sms", sms)

    return record_one(start)


@every_sample
@pytest.mark.parametrize(("last_digits", "match", "said"), [("00", "true", "the number is theirs"), ("01", "false", "not proven")])
def test_a_check_goes_from_create_to_callback(ringtrue, sample, last_digits, match, said):
    project, phone_number = ringtrue["project"], number(sample, last_digits)
    settings = environment(
        ringtrue["base_url"],
        CLIENT_ID=project["client_id"],
        CLIENT_SECRET=project["client_secret"],
        PHONE_NUMBER=phone_number,
        ACCEPT_SANDBOX="1",
    )
    ended = subprocess.run(SAMPLES[sample], env=settings, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    listens, android, ios, *_ = ended.stdout.splitlines()
    assert listens.startswith("listening on http://127.0.0.1:")
    link = android.removeprefix("Android: ")
    assert link.startswith("sms:+990") and "?body=VERIFY%20" in link
    assert ios == "iOS:     " + link.replace("?", "&")
    assert f" COMPLETED match={match}\n" in ended.stdout
    assert said in ended.stdout.splitlines()[-1]
    assert "refused" not in ended.stdout


@every_sample
def test_a_wrong_secret_is_told(ringtrue, sample):
    settings = environment(ringtrue["base_url"], CLIENT_ID=ringtrue["project"]["client_id"], CLIENT_SECRET="wrong")
    ended = subprocess.run(SAMPLES[sample], env=settings, capture_output=True, text=True)
    assert ended.returncode != 0
    assert "401" in ended.stderr, ended.stderr


def other(text, at):
    """Another character at one place."""
    character = text[at]
    return text[:at] + ("A" if character != "A" else "B") + text[at + 1 :]


def other_signature(value):
    return other(value, value.index('signature="') + len('signature="') + 40)


# What is changed on the way: none of these may be taken for a callback.
ALTERED = {
    "body": lambda good: replace(good, body=good.body.replace(b"true", b"trUe")),
    "match": lambda good: replace(good, body=good.body.replace(b'"match":true', b'"match":false')),
    "body cut": lambda good: replace(good, body=good.body[:-1]),
    "body and digest": lambda good: replace(good, body=b"{}").altered(
        "digest", lambda _: "SHA-256=RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o="
    ),
    "date": lambda good: good.altered("date", lambda date: date.replace(":", ":0", 1).replace("0", "", 1)),
    "second": lambda good: good.altered("date", lambda date: date[:-5] + str((int(date[-5]) + 1) % 10) + date[-4:]),
    "path": lambda good: replace(good, target=other(good.target, 3)),
    "path decoded": lambda good: replace(good, target=good.target.replace("%2F", "/")),
    "query": lambda good: replace(good, target=good.target.replace("order=7", "order=8")),
    "no query": lambda good: replace(good, target=good.target.split("?")[0]),
    "host": lambda good: good.altered("host", lambda _: "backend.example"),
    "source": lambda good: good.altered("x-service-callback", lambda _: "discovery"),
    "digest": lambda good: good.altered("digest", lambda digest: other(digest, 12)),
    "signature": lambda good: good.altered("authorization", other_signature),
    "signature with other letters": lambda good: good.altered("authorization", lambda text: text[:-3] + "!" + text[-3:]),
    "no signature": lambda good: good.altered("authorization", lambda text: text.split(',signature="')[0]),
    "key": lambda good: good.altered("authorization", lambda text: other(text, len('Signature keyId="'))),
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
def test_a_callback_is_taken_as_it_was_sent_and_not_otherwise(ringtrue, post, sample):
    with listening(sample, ringtrue["base_url"], ACCEPT_SANDBOX="1") as receiver:
        good = record(post, number(sample, "02"))
        taken = [receiver.take(good), receiver.take(good)]
        answers = {change: receiver.take(alter(good)) for change, alter in ALTERED.items()}
        taken.append(receiver.take(good))
        by_put = replace(good, method="PUT").send(receiver.port)
    check_id = json.loads(good.body)["check_id"]
    assert taken == [(200, f"verified: {check_id} COMPLETED match=true")] * 3, "a callback may come more than once"
    assert {change: status for change, (status, _) in answers.items()} == dict.fromkeys(ALTERED, 401)
    assert all(line.startswith("refused: ") for _, line in answers.values()), answers
    assert by_put in (401, 405, 501)


@every_sample
def test_a_good_signature_is_not_enough(impostor, sample):
    now, hour = time.time(), 3600
    requests = {
        "as it should be": (impostor.request(at=now), 200),
        "an hour old": (impostor.request(at=now - hour), 401),
        "an hour early": (impostor.request(at=now + hour), 401),
        "no date": (impostor.request(at=now, date="some day"), 401),
        "only a date": (impostor.request(at=now, components="date"), 401),
        "no digest": (impostor.request(at=now, components=COMPONENTS.removesuffix(" digest")), 401),
        "another order": (impostor.request(at=now, components=" ".join(reversed(COMPONENTS.split(" ")))), 401),
        "another algorithm": (impostor.request(at=now, algorithm="hs2019"), 401),
    }
    with listening(sample, impostor.base_url) as receiver:
        answers = {name: receiver.take(request)[0] for name, (request, _) in requests.items()}
    assert answers == {name: expected for name, (_, expected) in requests.items()}


@every_sample
def test_without_keys_nothing_is_trusted_and_the_callback_comes_again(impostor, sample):
    impostor.is_up = False
    try:
        with listening(sample, impostor.base_url) as receiver:
            status, line = receiver.take(impostor.request(at=time.time()))
    finally:
        impostor.is_up = True
    assert status == 503
    assert "verified: 0" not in line


@every_sample
def test_a_sandbox_key_is_refused_where_live_callbacks_are_expected(ringtrue, post, sample):
    good = record(post, number(sample, "04"))
    with listening(sample, ringtrue["base_url"]) as receiver:
        assert receiver.take(good) == (401, "refused: the key is for sandbox checks only")


@every_sample
def test_a_key_for_an_unknown_mode_is_refused(sample):
    impostor = Impostor(use_mode="rehearsal")
    try:
        with listening(sample, impostor.base_url, ACCEPT_SANDBOX="1") as receiver:
            status, line = receiver.take(impostor.request(at=time.time()))
    finally:
        impostor.server.shutdown()
    assert status == 401
    assert line.startswith("refused: the key is for "), line
