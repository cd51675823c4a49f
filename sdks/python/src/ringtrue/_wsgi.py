"""The raw request of a WSGI environment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def raw_target(environ: Mapping[str, Any]) -> str:
    """Returns path and query as in the request line.

    WSGI decodes the path. Most servers also have the original: gunicorn and Werkzeug as `RAW_URI`, uWSGI, mod_wsgi and
    Waitress as `REQUEST_URI`. For others, the path is encoded again, which equals the original unless your callback URL
    has unusual escapes; `public_url` helps then.
    """
    raw = environ.get("RAW_URI") or environ.get("REQUEST_URI")
    if isinstance(raw, str) and raw:
        if raw.startswith("/"):
            return raw
        url = urlsplit(raw)
        return (url.path or "/") + (f"?{url.query}" if url.query else "")
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    # WSGI passes bytes as Latin-1.
    path = quote(path.encode("latin-1"), safe="/!$&'()*+,;=:@~")
    query = environ.get("QUERY_STRING", "")
    return (path or "/") + (f"?{query}" if query else "")


def raw_headers(environ: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the headers. A repeated header is one with a comma, which no signature covers."""
    return [
        (name[len("HTTP_") :].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")
    ]
