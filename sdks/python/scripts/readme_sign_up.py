"""Runs the README's sign-up with an installed library: `readme_sign_up.py PYTHON FOLDER_WITH_FLASK`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "src"))

from support import UNLIMITED, Browser, Service, environment, free_port, wait_until  # noqa: E402

MAX_LINES = 15


def sign_up_example() -> str:
    """The first program of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def sign_up(shop: str, phone_number: str) -> str:
    """Signs up with a browser. Returns the text of the last page."""
    browser = Browser()
    status, text, page_url = browser.open(shop + "/sign-up", form={"phone": phone_number})
    assert status == 303, text
    back = browser.check_silently(page_url, shop + "/done")
    return browser.open(back)[1]


def main() -> None:
    """Starts the service and the shop."""
    python, site_packages = sys.argv[1:]
    example = sign_up_example()
    statements = [line for line in example.splitlines() if line.strip()]
    print(f"the README's sign-up has {len(statements)} lines")
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder) / "data", **UNLIMITED) as service:
        port = free_port()
        assert "https://shop.example.com/done" in example
        (Path(folder) / "app.py").write_text(example.replace("https://shop.example.com", f"http://127.0.0.1:{port}"))
        # The folder comes after the environment's own packages, and has no library of ours.
        env = environment(
            RINGTRUE_URL=service.url,
            RINGTRUE_CLIENT_ID=service.project["client_id"],
            RINGTRUE_CLIENT_SECRET=service.project["client_secret"],
            FLASK_SECRET_KEY="example",
            PYTHONPATH=site_packages,
        )
        command = [python, "-m", "flask", "run", "--debug", "--no-reload", "--port", str(port)]
        with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as shop:
            try:
                url = f"http://127.0.0.1:{port}"

                def is_up() -> bool:
                    assert shop.poll() is None, shop.stderr.read().decode() if shop.stderr else ""
                    try:
                        return Browser().open(url)[0] == 404
                    except OSError:
                        return False

                wait_until(is_up, "the shop starts")
                assert sign_up(url, "+990123456700") == "Verified: True"
                assert sign_up(url, "+990123456701") == "Verified: False"
            finally:
                shop.terminate()
    assert len(statements) <= MAX_LINES, "the sign-up is too long"


if __name__ == "__main__":
    main()
