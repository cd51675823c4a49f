from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from ringtrue import Ringtrue, RingtrueError

SHOP = "http://127.0.0.1:3000"
# Remove allow_sandbox when your project is live.
client = Ringtrue(allow_sandbox=True)


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        try:
            if url.path == "/":
                self.sign_up()
            elif url.path == "/verified":
                self.finish(url.query)
            else:
                self.respond(404)
        except RingtrueError as error:
            self.log_error("%s", error)
            self.respond(400, "We cannot verify this number.\n")

    def sign_up(self):
        verification = client.verifications.create(
            phone_number="+990123456736",  # from your sign-up form
            redirect_url=f"{SHOP}/verified",
        )
        # Your own server keeps the id in the user's session.
        cookie = f"verification={verification['verification_id']}; HttpOnly; SameSite=Lax"
        self.respond(303, location=verification["url"], set_cookie=cookie)

    def finish(self, query):
        session = SimpleCookie(self.headers.get("cookie")).get("verification")
        outcome = client.verifications.redeem(session and session.value, query)
        if outcome.open:
            self.respond(303, location=outcome.url)
        else:
            self.respond(200, f"Number verified: {outcome.verified}\n")

    def respond(self, status, text="", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_):
        pass  # The default logs the code.


print(f"Open {SHOP}/", flush=True)
ThreadingHTTPServer(("127.0.0.1", 3000), Shop).serve_forever()
