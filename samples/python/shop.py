"""A shop that signs users up with a verification: create, redirect, redeem. `sign_up` and `come_back` are all of it."""

import html
import os
import re
import secrets
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ringtrue import ApiError, ForeignReturnError, Ringtrue, RingtrueError

MAX_BODY_BYTES = 4096
MAX_SESSIONS = 10_000

client = Ringtrue(
    os.environ.get("BASE_URL", "http://127.0.0.1:8080"),
    os.environ.get("CLIENT_ID"),
    os.environ.get("CLIENT_SECRET"),
    # A sandbox verification proves nothing about a number.
    allow_sandbox=os.environ.get("ACCEPT_SANDBOX") == "1",
)
sessions = {}  # by their cookie. A real shop has a session store.
lock = threading.Lock()


def sign_up(session, phone_number, shop_url):
    """Starts a verification, and returns the URL of its page."""
    verification = client.verifications.create(phone_number=phone_number, redirect_url=f"{shop_url}/verified")
    # The session remembers its verification: a return with another one is rejected.
    session["verification_id"] = verification["verification_id"]
    session["phone_number"] = phone_number
    return verification["url"]


def come_back(session, query):
    """Handles the return of the browser. Returns where the browser goes next."""
    outcome = client.verifications.redeem(session.get("verification_id"), query)
    if outcome.open:
        return outcome.url
    if outcome.verified:
        session["verified_number"] = session["phone_number"]
        session.pop("message", None)
    elif outcome.reason == "no_match" and outcome.verification["method"] == "secure_sna":
        session["message"] = "This number is not the number of your phone."
    else:
        session["message"] = "We could not verify your number."
    return "/"


def message_for(error):
    """The text of an error is for developers; this is for users."""
    if isinstance(error, ForeignReturnError):
        return "This link belongs to another sign-up."
    is_input_error = isinstance(error, ApiError) and error.status == 400
    return "We cannot verify this number." if is_input_error else "Please try again later."


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
            self.redirect(session, cookie, lambda: come_back(session, url.query))
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
        except RingtrueError as error:
            print(error, file=sys.stderr, flush=True)
            session["message"] = message_for(error)
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
