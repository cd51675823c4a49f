"""Checks that every link and image of a static site leads to an existing file, and every fragment to an existing id."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.targets, self.ids = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(values[name] for name in ("id", "name") if values.get(name))
        self.targets.extend(values[name] for name in ("href", "src", "srcset") if values.get(name))


def main(folder):
    pages = {path.resolve(): Page(path) for path in Path(folder).rglob("*.html")}
    # Its links are relative to wherever it is served.
    pages.pop((Path(folder) / "404.html").resolve(), None)
    dead = set()
    for path, page in pages.items():
        for target in page.targets:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            missing_id = url.fragment and file in pages and unquote(url.fragment) not in pages[file].ids
            if not file.is_file() or missing_id:
                dead.add(f"{path.relative_to(Path(folder).resolve())}: {target}")
    if dead or not pages:
        sys.exit("dead links:\n" + "\n".join(sorted(dead)))
    print(f"{len(pages)} pages, no dead links")


if __name__ == "__main__":
    main(sys.argv[1])
