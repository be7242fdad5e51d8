"""The names we are called by, and where a caller sits.

A browser sends its cookies, and speaks from this machine, for every page it shows. A page of
somebody else can make it call us by a name of its own that leads to our address. So whatever a
browser sends by itself counts only under a name that is ours: a loopback name, the host of
`serve_url` and `serve_host`, and what `serve_hosts` lists.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from fastapi import Request

from .doors import Serving

# A proxy on this machine makes everyone look as if they were here.
_BY_PROXY = {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"}
HOST = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?"
)


def ours(url: str, hosts: Iterable[str]) -> frozenset[str]:
    """The host names that count as ours, beside those of loopback."""
    named = [*hosts, urlsplit(url).netloc] if url else list(hosts)
    return frozenset(bare for one in named if (bare := _bare(one.strip())))


def is_ours(request: Request) -> bool:
    """Was this request sent to a name of ours? One without a name was not sent by a browser."""
    said = request.headers.getlist("host")
    if not said:
        return True
    if len(said) != 1 or not HOST.fullmatch(said[0]):
        return False
    serving: Serving = request.app.state.serving
    bare = _bare(said[0])
    return bare in serving.hosts or _is_loopback(bare)


def is_same_origin(request: Request) -> bool:
    """Does the page that sent this come from us? A browser says so with whatever is not a GET."""
    said = request.headers.get("sec-fetch-site", "same-origin")
    if said not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    serving: Serving = request.app.state.serving
    known = {request.headers.get("host", "").lower(), urlsplit(serving.url).netloc.lower()}
    return urlsplit(origin).netloc.lower() in known - {""}


def is_here(request: Request) -> bool:
    """Does the caller sit on this machine, with no proxy in between, and call us by our name?"""
    if request.client is None or _BY_PROXY & {name.lower() for name in request.headers}:
        return False
    return _is_loopback(request.client.host) and is_ours(request)


def _bare(host: str) -> str:
    """Without its port, in lower case, without the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
