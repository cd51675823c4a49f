"""PyPI `oidc-provider-mock` (authlib), unmodified, as the OpenID provider of the console."""

import json
import os
import signal
import subprocess

import pytest
import requests
from oidc_provider_mock import User, run_server_in_thread

JANE = {"email": "jane@example.com", "email_verified": True, "groups": ["ringtrue-admins"]}


@pytest.fixture(scope="module")
def provider():
    users = [
        User(sub="jane", claims=JANE),
        User(sub="eve", claims={**JANE, "email_verified": False}),
        User(sub="mallory", claims=JANE),
    ]
    with run_server_in_thread(require_nonce=True, user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def console(provider, tmp_path_factory):
    """Runs `ringtrue dev` with the provider. Yields the URL of its console."""
    folder = tmp_path_factory.mktemp("ringtrue")
    data = folder / "data"
    command = [os.environ["BINARY_UNDER_TEST"], "dev", "--data", str(data), "--listen", "127.0.0.1:0"]
    # The provider accepts any secret, but no client without one.
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text("s3cret")
    section = "RINGTRUE_CONSOLE__OPENID_CONNECT__"
    settings = {
        f"{section}ISSUER": provider,
        f"{section}CLIENT_ID": "ringtrue",
        f"{section}CLIENT_SECRET_FILE": str(secret),
        f"{section}CREATE_ACCOUNTS": "true",
        f"{section}ADMINISTRATORS": '["ringtrue-admins"]',
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings}) as process:
        for line in process.stdout:
            if "Ctrl+C" in line:
                break
        else:
            pytest.fail("ringtrue exited before it was ready")
        yield json.loads((data / "dev.json").read_text())["base_url"] + "/console"
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0


def sign_in(console, provider, subject):
    """Signs in with a new browser. Returns it, and the last response."""
    browser = requests.Session()
    form = browser.get(f"{console}/openid-connect", timeout=10)
    assert form.url.startswith(provider), form.text
    return browser, browser.post(form.url, data={"sub": subject}, timeout=10)


def test_identity_gets_an_account_and_its_rights(console, provider):
    unverified = sign_in(console, provider, "eve")[1]
    assert unverified.status_code == 403, unverified.text
    assert "has not confirmed your email address" in unverified.text
    browser, page = sign_in(console, provider, "jane")
    assert (page.status_code, page.url) == (200, console), page.text
    account = browser.get(f"{console}/account", timeout=10)
    assert f"linked to <span class=\"long\">{provider}</span>" in account.text
    assert browser.get(f"{console}/deployment/accounts", timeout=10).status_code == 200
    # The address belongs to the first subject.
    other = sign_in(console, provider, "mallory")[1]
    assert other.status_code == 403, other.text
    assert "linked to another identity" in other.text
    assert sign_in(console, provider, "jane")[1].status_code == 200
