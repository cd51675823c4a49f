#!/usr/bin/env python3
"""Checks that the library snippets in docs/integrating.md equal those in the libraries' READMEs, where tests run them."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = {"js": "typescript", "python": "python", "go": "go"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(path: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def main() -> None:
    # Other JavaScript is for browsers.
    shown = [
        (language, code)
        for language, code in blocks(ROOT / "docs/integrating.md")
        if language in LIBRARIES and "ringtrue" in code
    ]
    missing = set(LIBRARIES) - {language for language, _ in shown}
    if missing:
        sys.exit(f"docs/integrating.md has no library snippet in {', '.join(sorted(missing))}")
    for language, code in shown:
        readme = ROOT / "sdks" / LIBRARIES[language] / "README.md"
        if (language, code) not in blocks(readme):
            sys.exit(f"docs/integrating.md has a {language} snippet that is not in {readme.relative_to(ROOT)}:\n\n{code}")


main()
