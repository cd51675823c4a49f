"""Signs users up in the sample shops against the real binary, as their browsers would."""

import contextlib
import html
import json
import os
import re
import signal
import subprocess
import urllib.parse

import pytest
import requests
from peers import PYTHON_WITH_LIBRARY, ROOT, environment

# Node.js runs the file without a build step, and Python without the packages of the tests.
SHOPS = {
    "typescript": ["node", ROOT / "samples/typescript/shop.mjs"],
    "python": [*PYTHON_WITH_LIBRARY, ROOT / "samples/python/shop.py"],
}
every_shop = pytest.mark.parametrize("shop", SHOPS, indirect=True)


# Headers of a browser that the page itself sends to one of its URLs.
NAVIGATION = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def number(shop_name, last_digits):
    """A separate number for each shop and case, because of the limit on verifications per number."""
    return f"+99012346{list(SHOPS).index(shop_name)}8{last_digits}"


@contextlib.contextmanager
def start_shop(name, ringtrue, **settings):
    project = ringtrue["project"]
    settings = environment(
        ringtrue["base_url"],
        **{"CLIENT_ID": project["client_id"], "CLIENT_SECRET": project["client_secret"], "SHOP_PORT": "0", **settings},
    )
    with subprocess.Popen(
        SHOPS[name], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            first = process.stdout.readline()
            assert first.startswith("listening on http://127.0.0.1:"), first
            yield Shop(name, first.split(" ")[2].strip().rstrip("/"))
        finally:
            os.killpg(process.pid, signal.SIGTERM)


class Shop:
    def __init__(self, name, url):
        self.name = name
        self.url = url

    def browser(self):
        """A browser with cookies, on the first page of the shop."""
        browser = requests.Session()
        browser.trust_env = False
        assert "Sign up" in browser.get(self.url + "/").text
        return browser

    def sign_up(self, browser, phone_number):
        """Submits the form. Returns the URL to which the shop redirects the browser."""
        response = browser.post(self.url + "/sign-up", {"phone_number": phone_number}, allow_redirects=False)
        assert response.status_code == 303
        return response.headers["location"]

    def check_silently(self, browser, page_url):
        """Lets the page start the silent check, and follows it to the return URL of the shop, without opening it."""
        leaving = browser.get(page_url + "/silent", headers=NAVIGATION, allow_redirects=False).text
        url = html.unescape(re.search(r'data-operator="([^"]+)"', leaving)[1])
        for _ in range(10):
            if url.startswith(self.url):
                return url
            response = browser.get(url, allow_redirects=False)
            assert response.is_redirect, f"{response.status_code} {response.text}"
            url = urllib.parse.urljoin(url, response.headers["location"])
        return pytest.fail("too many redirects")

    def return_link(self, text):
        """The link back to the shop in the hosted page, if the page has one."""
        found = re.search(r'href="(%s/verified\?[^"]+)"' % re.escape(self.url), text)
        return found and html.unescape(found[1])


    def wait_for_return_link(self, browser, page_url):
        """Follows the events of the page, which end with the verification."""
        with browser.get(page_url + "/events", stream=True, headers={"accept": "text/event-stream"}) as events:
            for _ in events.iter_lines():
                pass
        return self.return_link(browser.get(page_url).text)


@pytest.fixture
def shop(request, ringtrue):
    with start_shop(request.param, ringtrue, ACCEPT_SANDBOX="1") as shop:
        yield shop


@pytest.fixture(scope="module")
def send_sms(ringtrue):
    """Sends an SMS from a simulated phone."""
    project = ringtrue["project"]
    form = {"grant_type": "client_credentials", "scope": "reverse_sms"}
    granted = requests.post(f"{ringtrue['base_url']}/oauth2/token", form, auth=(project["client_id"], project["client_secret"]))
    authorization = f"Bearer {granted.json()['access_token']}"

    def send(sender, receiver, text):
        message = {"from": sender, "to": receiver, "body": text}
        url = f"{ringtrue['base_url']}/v1/sandbox/inbound-sms"
        assert requests.post(url, json=message, headers={"authorization": authorization}).status_code == 202

    return send


@every_shop
def test_user_is_verified_silently(ringtrue, shop):
    browser = shop.browser()
    page_url = shop.sign_up(browser, number(shop.name, "00"))
    assert page_url.startswith(f"{ringtrue['base_url']}/v/")
    # The page continues by itself, because the shop has a redirect URL.
    assert f'content="0;url={urllib.parse.urlsplit(page_url).path}/silent"' in browser.get(page_url, headers=NAVIGATION).text
    back = shop.check_silently(browser, page_url)
    assert f"Your number {number(shop.name, '00')} is verified" in html.unescape(browser.get(back).text)
    # The user opens the link again.
    assert "is verified" in browser.get(back).text


@every_shop
def test_user_with_another_sim_is_not_verified(shop):
    browser = shop.browser()
    page_url = shop.sign_up(browser, number(shop.name, "01"))
    back = shop.check_silently(browser, page_url)
    text = browser.get(back).text
    assert "is not the number of your phone" in text and "is verified" not in text


@every_shop
def test_user_is_verified_by_sms(shop, send_sms):
    browser = shop.browser()
    phone_number = number(shop.name, "96")
    page_url = shop.sign_up(browser, phone_number)
    text = html.unescape(browser.get(page_url).text)
    receiver, body = re.search(r"sms:(\+\d+)[?&]+body=([^\"'&]+)", text).groups()
    send_sms(phone_number, receiver, urllib.parse.unquote(body))
    back = shop.wait_for_return_link(browser, page_url)
    assert f"Your number {phone_number} is verified" in html.unescape(browser.get(back).text)


def wait_for_other_text(browser, page_url, body):
    """Follows the events of the page until it asks for another text, and returns that."""
    with browser.get(page_url + "/events", stream=True, headers={"accept": "text/event-stream"}) as events:
        for line in events.iter_lines():
            if line == b"data: send_sms_again":
                text = html.unescape(browser.get(page_url).text)
                other = re.search(r"sms:\+\d+[?&]+body=([^\"'&]+)", text)[1]
                assert other != body
                return other
    return pytest.fail("the page did not ask again")


@pytest.fixture
def fall_back_on_mismatch(ringtrue):
    """Lets verifications of the project go on after a mismatch."""
    base_url, workspace, project = ringtrue["base_url"], ringtrue["workspace"], ringtrue["project"]
    form = {"grant_type": "client_credentials", "scope": "management"}
    granted = requests.post(f"{base_url}/oauth2/token", form, auth=(workspace["client_id"], workspace["client_secret"]))
    headers = {
        "authorization": f"Bearer {granted.json()['access_token']}",
        "content-type": "application/merge-patch+json",
    }
    url = f"{base_url}/v1/management/workspaces/{workspace['workspace_id']}/projects/{project['project_id']}"

    def set_to(value):
        body = {"configuration": {"verification": {"fall_back_on_mismatch": value}}}
        response = requests.patch(url, data=json.dumps(body), headers=headers)
        assert response.ok, response.text

    set_to(True)
    yield
    set_to(None)


@every_shop
def test_user_goes_on_after_a_mismatch(shop, send_sms, fall_back_on_mismatch):
    browser = shop.browser()
    phone_number = number(shop.name, "03")
    page_url = shop.sign_up(browser, phone_number)
    back = shop.check_silently(browser, page_url)
    # The shop redeems the code, and sends the browser to the page again.
    again = browser.get(back, allow_redirects=False).headers["location"]
    assert again == page_url
    text = html.unescape(browser.get(again).text)
    receiver, body = re.search(r"sms:(\+\d+)[?&]+body=([^\"'&]+)", text).groups()
    send_sms(phone_number, receiver, urllib.parse.unquote(body))
    # The SMS came from another number. The page asks for it once more, with another text.
    again = wait_for_other_text(browser, page_url, body)
    send_sms(phone_number, receiver, urllib.parse.unquote(again))
    text = browser.get(shop.wait_for_return_link(browser, page_url)).text
    assert "We could not verify your number." in text and "is verified" not in text


@every_shop
def test_return_of_another_session_is_rejected(shop):
    victim, attacker = shop.browser(), shop.browser()
    page_url = shop.sign_up(attacker, number(shop.name, "02"))
    # The victim's phone opens the attacker's link.
    back = shop.check_silently(victim, page_url)
    assert "belongs to another sign-up" in victim.get(back).text
    assert "is verified" not in attacker.get(shop.url + "/").text


@every_shop
def test_forged_return_is_rejected(shop):
    browser = shop.browser()
    page_url = shop.sign_up(browser, number(shop.name, "04"))
    genuine = shop.check_silently(browser, page_url)
    forged = re.sub(r"code=[^&]+", "code=forged", genuine)
    assert forged != genuine
    assert "is verified" not in browser.get(forged).text
    # A wrong code does not spoil the right one.
    assert "is verified" in browser.get(genuine).text


@every_shop
def test_unsupported_number_is_reported(shop):
    browser = shop.browser()
    for phone_number in [number(shop.name, "97"), "12345", "<b>"]:
        assert shop.sign_up(browser, phone_number) == "/"
        assert "We cannot verify this number." in browser.get(shop.url + "/").text


@pytest.mark.parametrize("name", SHOPS)
def test_sandbox_is_rejected_by_default(ringtrue, name):
    with start_shop(name, ringtrue) as shop:
        browser = shop.browser()
        assert shop.sign_up(browser, number(name, "06")) == "/"
        assert "Please try again later." in browser.get(shop.url + "/").text


@pytest.mark.parametrize("name", SHOPS)
def test_wrong_secret_is_not_shown_to_the_user(ringtrue, name):
    with start_shop(name, ringtrue, CLIENT_SECRET="wrong") as shop:
        browser = shop.browser()
        assert shop.sign_up(browser, number(name, "08")) == "/"
        text = browser.get(shop.url + "/").text
        assert "Please try again later." in text and "401" not in text
