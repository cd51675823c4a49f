"""A shop that signs users up with a verification: create, redirect, redeem. Uses the standard library only."""

import base64
import html
import json
import os
import re
import secrets
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8080")
MAX_BODY_BYTES = 4096
MAX_SESSIONS = 10_000

sessions = {}  # by their cookie. A real shop has a session store.
token = {"value": None, "expires_at": 0.0}
lock = threading.Lock()


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status


def send(request):
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response), response.headers
    except urllib.error.HTTPError as error:
        raise ApiError(error.code, error.read().decode()) from None


def access_token():
    """Returns a cached access token, and requests a new one shortly before it expires."""
    with lock:
        if token["expires_at"] < time.monotonic():
            credential = f"{os.environ['CLIENT_ID']}:{os.environ['CLIENT_SECRET']}"
            form = {"grant_type": "client_credentials", "scope": "verification"}
            request = urllib.request.Request(f"{BASE_URL}/oauth2/token", urllib.parse.urlencode(form).encode())
            request.add_header("authorization", "Basic " + base64.b64encode(credential.encode()).decode())
            try:
                granted, _ = send(request)
            except ApiError as error:
                raise RuntimeError(f"/oauth2/token: {error}") from None
            token["value"] = granted["access_token"]
            token["expires_at"] = time.monotonic() + granted["expires_in"] - 60
        return token["value"]


def post(path, body, **headers):
    """Calls the API as the backend of a project."""
    request = urllib.request.Request(BASE_URL + path, json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {access_token()}")
    request.add_header("content-type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    result, response_headers = send(request)
    # A sandbox verification proves nothing about a number.
    if response_headers.get("x-project-mode") != "live" and os.environ.get("ACCEPT_SANDBOX") != "1":
        raise RuntimeError("the project is in sandbox mode; set ACCEPT_SANDBOX=1 to try it out")
    return result


def sign_up(session, phone_number, shop_url):
    """Starts a verification, and returns the URL of its page."""
    verification = post(
        "/v1/verifications",
        {"phone_number": phone_number, "redirect_url": f"{shop_url}/verified"},
        # A repeated request does not create a second verification.
        idempotency_key=secrets.token_hex(16),
    )
    # The session remembers its verification: a return with another one is rejected.
    session["verification_id"] = verification["verification_id"]
    session["phone_number"] = phone_number
    return verification["url"]


def come_back(session, query):
    """Handles the return of the browser. Its parameters prove nothing until the code is redeemed.

    Returns where the browser goes next.
    """
    verification_id = session.get("verification_id")
    if verification_id is None or query.get("verification_id") != verification_id:
        session["message"] = "This link belongs to another sign-up."
        return "/"
    if "code" not in query:
        session["message"] = "We could not verify your number."
        return "/"
    # A reloaded page redeems the same code again and gets the same result.
    result = post(f"/v1/verifications/{verification_id}", {"code": query["code"]})
    # Still open, if the project goes on after a mismatch or asks for a SIM change: the page continues.
    if "url" in result:
        return result["url"]
    if result["status"] == "COMPLETED" and result["match"] is True:
        session["verified_number"] = session["phone_number"]
        session.pop("message", None)
    else:
        session["message"] = "This number is not the number of your phone."
    return "/"


def page(session):
    if "verified_number" in session:
        content = f"<p>Welcome! Your number {html.escape(session['verified_number'])} is verified.</p>"
    else:
        message = f'<p role="alert">{html.escape(session["message"])}</p>' if "message" in session else ""
        content = f"""{message}
<form method="post" action="/sign-up">
<label>Phone number <input name="phone_number" type="tel" required placeholder="+990123456700"></label>
<button>Sign up</button>
</form>"""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sample shop</title></head>
<body><h1>Sample shop</h1>
{content}
</body></html>"""


class Shop(BaseHTTPRequestHandler):
    timeout = 30

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        session, cookie = self.find_session()
        if url.path == "/":
            self.respond(200, cookie, page(session))
        elif url.path == "/verified":
            query = dict(urllib.parse.parse_qsl(url.query))
            self.redirect(session, cookie, lambda: come_back(session, query))
        else:
            self.respond(404, cookie)

    def do_POST(self):
        session, cookie = self.find_session()
        length = self.headers.get("content-length", "")
        if self.path != "/sign-up":
            self.respond(404, cookie)
        elif not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.respond(413, cookie)
        else:
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(length)).decode("utf-8", "replace")))
            shop_url = os.environ.get("SHOP_URL", f"http://127.0.0.1:{self.server.server_port}")
            self.redirect(session, cookie, lambda: sign_up(session, form.get("phone_number", ""), shop_url))

    def find_session(self):
        """Returns the session of the request, or a new one with its cookie."""
        found = re.search(r"(?:^|; )session=([0-9a-f]{32})(?:;|$)", self.headers.get("cookie", ""))
        with lock:
            if found and found[1] in sessions:
                return sessions[found[1]], None
            if len(sessions) >= MAX_SESSIONS:
                del sessions[next(iter(sessions))]
            created = secrets.token_hex(16)
            sessions[created] = {}
            # `Lax`, because the browser comes back from another site. Add `Secure` where the shop uses https.
            return sessions[created], f"session={created}; HttpOnly; SameSite=Lax; Path=/"

    def redirect(self, session, cookie, action):
        try:
            location = action()
        except (ApiError, OSError, RuntimeError) as error:
            # The message of the API is for developers.
            print(error, file=sys.stderr, flush=True)
            is_input_error = isinstance(error, ApiError) and error.status < 500
            session["message"] = "We cannot verify this number." if is_input_error else "Please try again later."
            location = "/"
        self.respond(303, cookie, location=location)

    def respond(self, status, cookie, text="", location=None):
        body = text.encode()
        self.send_response(status)
        if cookie:
            self.send_header("set-cookie", cookie)
        if location:
            self.send_header("location", location)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("SHOP_PORT", "3000"))), Shop)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
