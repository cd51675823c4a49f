"""OpenID clients in sandbox projects, and a browser without JavaScript that signs users in."""

import html
import itertools
import re
from urllib.parse import urljoin, urlsplit

import requests

REDIRECT_URI = "http://127.0.0.1:9/callback"
_numbers = itertools.count(1)


def next_number():
    """A simulated number that nobody else uses, and whose SIM matches."""
    return f"+99017{next(_numbers):05}00"


def create_client(ringtrue, **settings):
    """Creates a sandbox project that is an OpenID client, whose simulated users send the text messages."""
    base, workspace = ringtrue["base_url"], ringtrue["workspace"]
    granted = requests.post(
        f"{base}/oauth2/token",
        auth=(workspace["client_id"], workspace["client_secret"]),
        data={"grant_type": "client_credentials", "scope": "management"},
        timeout=30,
    )
    created = requests.post(
        f"{base}/v1/management/workspaces/{workspace['workspace_id']}/projects",
        headers={"authorization": f"Bearer {granted.json()['access_token']}"},
        json={
            "name": f"Client {next(_numbers)}",
            "configuration": {
                "sign_in": {"redirect_uris": [REDIRECT_URI], **settings},
                "reverse_sms": {"auto_reply": True},
            },
        },
        timeout=30,
    )
    assert created.status_code == 201, created.text
    return created.json()["credentials"][0]


class HttpBrowser:
    """A user's browser. It follows redirects as far as the client's redirect URI."""

    def __init__(self, base_url):
        self._base = base_url
        self._session = requests.Session()

    def _open(self, url, **form):
        method = "POST" if form else "GET"
        while True:
            headers = {"origin": self._base} if form else {}
            response = self._session.request(method, url, allow_redirects=False, headers=headers, timeout=60, **form)
            if "location" not in response.headers:
                return url, response.text
            url, method, form = urljoin(url, response.headers["location"]), "GET", {}
            if not url.startswith(f"{self._base}/"):
                return url, None

    def sign_in(self, url, number):
        """Proves a number on the pages of a sign-in. Returns the URL at the client, with a code or an error."""
        url, page = self._open(url)
        for _ in range(20):
            if page is None:
                return url
            data = {name: html.unescape(value) for name, value in re.findall(r' data-([a-z-]+)="([^"]*)"', page)}
            actions = [html.unescape(action) for action in re.findall(r'<form[^>]* action="([^"]*)"', page)]
            by_end = {urlsplit(action).path.rsplit("/", 1)[-1]: urljoin(url, action) for action in actions}
            following = data.get("operator") or data.get("return-to")
            if following:
                url, page = self._open(urljoin(url, following))
            elif "number" in by_end:
                url, page = self._open(by_end["number"], data={"phone_number": number})
            elif "silent" in by_end:
                url, page = self._open(by_end["silent"], data={"confirm": ""})
            else:
                self._wait_for_change(urljoin(url, data["events"]), data["state"])
                url, page = self._open(url)
        raise AssertionError(f"the pages lead nowhere: {page}")

    def _wait_for_change(self, events, state):
        with self._session.get(events, stream=True, timeout=60) as stream:
            for line in stream.iter_lines(decode_unicode=True):
                if line.startswith("data:") and line.removeprefix("data:").strip() != state:
                    return
        raise AssertionError("the stream of events has ended")
