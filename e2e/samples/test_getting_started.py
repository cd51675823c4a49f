"""Runs the commands and programs of the console's page *Getting started* as it shows them, against the real binary."""

import contextlib
import html
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.parse

import pytest
import requests
from peers import ROOT

NAVIGATION = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
LIBRARIES = ["node", "python", "go"]
TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def management(ringtrue):
    """Calls the Management API of the demo workspace."""
    form = {"grant_type": "client_credentials", "scope": "management"}
    workspace = ringtrue["workspace"]
    credential = workspace["client_id"], workspace["client_secret"]
    token = requests.post(f"{ringtrue['base_url']}/oauth2/token", form, auth=credential).json()["access_token"]
    base_url = f"{ringtrue['base_url']}/v1/management/workspaces/{workspace['workspace_id']}"

    def post(path, body):
        response = requests.post(base_url + path, json=body, headers={"authorization": f"Bearer {token}"})
        assert response.ok, response.text
        return response.json()

    return post


@pytest.fixture(scope="module")
def project(management):
    """A project whose credential is in no file: the page has a place for its secret."""
    return management("/projects", {"name": "Shop", "mode": "sandbox"})


@pytest.fixture(scope="module")
def console(ringtrue):
    """A browser that is signed in to the console."""
    command = [os.environ["BINARY_UNDER_TEST"], "console", "link", "--data", ringtrue["data"], "--output", "json"]
    link = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    browser = requests.Session()
    browser.trust_env = False
    assert browser.get(re.search(r'"url":\s*"([^"]+)"', link)[1]).ok
    return browser


@pytest.fixture(scope="module")
def show(ringtrue, project, console):
    """Opens the tab of a tool."""
    workspace_id = ringtrue["workspace"]["workspace_id"]
    url = f"{ringtrue['base_url']}/console/workspaces/{workspace_id}/projects/{project['project_id']}/getting-started"

    def show(tool):
        response = console.get(url, params={"with": tool})
        assert response.ok, response.text
        assert project["credentials"][0]["client_secret"] not in response.text
        return Page(response.text, project["credentials"][0]["client_secret"])

    return show


class Page:
    def __init__(self, text, secret):
        self.text = text
        self.secret = secret

    def code(self, name):
        found = re.search(rf'<code id="{name}">(.*?)</code>', self.text, re.DOTALL)
        assert found, f"no {name}"
        return html.unescape(found[1])

    def setup(self):
        """The variables, with the secret that the user pastes."""
        commands = self.code("setup-commands")
        assert commands.count("'PASTE THE CLIENT SECRET'") == 1, commands
        return commands.replace("'PASTE THE CLIENT SECRET'", self.secret)

    def run(self, *names, folder, **more):
        """Runs the setup, then other commands. Returns the output."""
        script = "\n".join([self.setup(), *(self.code(f"{name}-commands") for name in names)])
        return run_in_shell(script, folder, **more)


def environment(**more):
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **more}


def run_in_shell(script, folder, **more):
    completed = subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env=environment(**more), capture_output=True, text=True
    )
    assert completed.returncode == 0, f"{script}\n{completed.stdout}{completed.stderr}"
    return completed.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A clone of what the libraries are packed from. Other tests build them in the repository at the same time."""
    folder = tmp_path_factory.mktemp("source")
    leave_out = shutil.ignore_patterns("node_modules", "dist", "tests", "kotlin")
    shutil.copytree(ROOT / "sdks", folder / "sdks", ignore=leave_out)
    # Already installed, by scripts/samples.
    (folder / "sdks/typescript/node_modules").symlink_to(ROOT / "sdks/typescript/node_modules")
    (folder / "crates/api/api").mkdir(parents=True)
    for file in ("crates/api/api/openapi.yaml", "LICENSE"):
        shutil.copy(ROOT / file, folder / file)
    return folder


@pytest.fixture(scope="module")
def installed(show, source, tmp_path_factory):
    """Installs a library with the commands of its tab, once. Returns the tab and the user's folder."""
    found = {}

    def install(tool):
        if tool not in found:
            folder = tmp_path_factory.mktemp(tool)
            page = show(tool)
            commands = page.code("install-commands")
            assert commands.startswith("RINGTRUE_SOURCE=~/ringtrue\n"), commands
            offline = {
                "npm_config_offline": "true",
                "npm_config_audit": "false",
                "GOTOOLCHAIN": "local",
                "GOFLAGS": "-mod=mod",
                "PIP_NO_INDEX": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                # pip's name for "without build isolation". The build tool comes from the packages of these tests.
                "PIP_NO_BUILD_ISOLATION": "0",
                "PYTHONPATH": sysconfig.get_path("purelib"),
            }
            run_in_shell(commands.replace("~/ringtrue", str(source)), folder, **offline)
            found[tool] = page, folder
        return found[tool]

    return install


@contextlib.contextmanager
def start(page, folder, name, **replacements):
    """Saves a program and runs it as its text says, until the end of the block."""
    run = page.code(f"{name}-run")
    program = page.code(f"{name}-commands")
    for old, new in replacements.items():
        assert old.removeprefix("port_") in program
        program = program.replace(old.removeprefix("port_"), str(new))
    (folder / run.split(" ")[-1]).write_text(program + "\n")
    settings = environment(GOTOOLCHAIN="local", GOFLAGS="-mod=mod", GOPROXY="off", PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        ["sh", "-c", f"{page.setup()}\n{run}"],
        cwd=folder,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def check_silently(browser, page_url, stop, method="GET"):
    """Lets the hosted page start the silent check, and follows its redirects until a URL at which to stop."""
    leaving = browser.request(method, page_url + "/silent", headers=NAVIGATION)
    found = re.search(r'data-operator="([^"]+)"', leaving.text)
    assert found, leaving.text
    url = html.unescape(found[1])
    for _ in range(10):
        if url.startswith(stop):
            return url
        response = browser.get(url, allow_redirects=False)
        assert response.is_redirect, f"{response.status_code} {response.text}"
        url = urllib.parse.urljoin(url, response.headers["location"])
    return pytest.fail("too many redirects")


@pytest.mark.parametrize("tool", LIBRARIES)
def test_first_verification_of_a_library(installed, tool):
    page, folder = installed(tool)
    with start(page, folder, "verify") as program:
        url = program.stdout.readline().split(" ")[-1].strip()
        browser = requests.Session()
        browser.trust_env = False
        assert f'action="{urllib.parse.urlsplit(url).path}/silent"' in browser.get(url).text, "a button to start"
        # Without a redirect URL, the browser ends on the hosted page.
        check_silently(browser, url, url, "POST")
        assert program.stdout.readline().strip().lower() == "completed match: true"
        assert program.wait(TIMEOUT_SECONDS) == 0


@pytest.mark.parametrize("tool", LIBRARIES)
def test_sign_up_of_a_library(installed, tool):
    page, folder = installed(tool)
    port = free_port()
    shop = f"http://127.0.0.1:{port}"
    with start(page, folder, "sign-up", port_3000=port) as program:
        assert program.stdout.readline().strip() == f"Open {shop}/"
        browser, stranger = requests.Session(), requests.Session()
        browser.trust_env = stranger.trust_env = False
        wait_until_open(port)
        page_url = browser.get(shop + "/", allow_redirects=False).headers["location"]
        back = check_silently(browser, page_url, shop)
        assert stranger.get(back).status_code == 400, "the return of another session"
        assert browser.get(back).text.strip().lower() == "number verified: true"
        assert browser.get(shop + "/favicon.ico").status_code == 404


def wait_until_open(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail("the program does not listen")


@pytest.mark.parametrize("tool", LIBRARIES)
def test_callbacks_of_a_library(ringtrue, project, installed, tool):
    page, folder = installed(tool)
    port = free_port()
    with start(page, folder, "callbacks", port_9099=port) as program:
        assert program.stdout.readline().strip() == "Listening"
        wait_until_open(port)
        (created,) = project["credentials"]
        credential = created["client_id"], created["client_secret"]
        form = {"grant_type": "client_credentials", "scope": "verification"}
        token = requests.post(f"{ringtrue['base_url']}/oauth2/token", form, auth=credential).json()["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        body = {"phone_number": "+990123456750", "callback_url": f"http://127.0.0.1:{port}/callbacks"}
        created = requests.post(f"{ringtrue['base_url']}/v1/verifications", json=body, headers=headers).json()
        code = requests.get(created["next_step"]["url"], headers={"accept": "application/json"}).json()["code"]
        url = f"{ringtrue['base_url']}/v1/verifications/{created['verification_id']}"
        assert requests.post(url, json={"code": code}, headers=headers).ok
        line = program.stdout.readline().strip().lower()
        assert line == f"verification {created['verification_id']} completed match: true"
        forged = requests.post(f"http://127.0.0.1:{port}/callbacks", data=b"{}")
        assert forged.status_code == 401


def test_curl(show, tmp_path):
    page = show("curl")
    assert page.run("install", folder=tmp_path).startswith("curl ")
    for name in ("result", "reverse_sms", "secure_sna"):
        output = page.run(name, folder=tmp_path)
        assert '"COMPLETED"' in output and '"match":true' in output, output
    assert '"ACCEPTED"' in page.run("verification", folder=tmp_path)


def test_command_line(show, tmp_path):
    page = show("command-line")
    # The binary is not in a directory of the PATH, so the page names its path.
    output = page.run("client", "products", folder=tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert output.count("COMPLETED") == 5, output
    assert page.run("install", folder=tmp_path).startswith("ringtrue ")


def test_new_credential_is_used_in_the_chosen_tab(ringtrue, project, console, show, tmp_path):
    """The form of the page creates a credential, whose secret the page then shows once."""
    page = show("curl")
    form = re.search(r'<form method="post" action="([^"]+/getting-started/credential)">(.*?)</form>', page.text, re.DOTALL)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]+)"', form[2]))
    assert fields["with"] == "curl"
    response = console.post(ringtrue["base_url"] + form[1], fields)
    new = Page(response.text, "")
    setup = new.code("setup-commands")
    assert "PASTE" not in setup and project["credentials"][0]["client_id"] not in setup
    output = run_in_shell(f"{setup}\n{new.code('result-commands')}", tmp_path)
    assert '"match":true' in output
    assert "PASTE" in show("curl").code("setup-commands")
