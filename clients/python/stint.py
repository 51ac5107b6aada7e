"""A client for Stint's POST /v1/check: may this request pass now?

    from stint import Client

    limits = Client("http://127.0.0.1:8080", timeout=0.05, on_failure="allow")
    decision = limits.check("api", {"user": "42"})
    if not decision.allowed:
        ...  # answer 429, with Retry-After: decision.retry_after

One file, Python 3.9 or newer, no dependency. A Client may be used by many threads; it keeps
connections open. A call is never sent twice, because it could be charged twice.
"""

import http.client
import io
import json
import math
import os
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

__all__ = ["Client", "Decision", "Refused", "Unavailable"]


class Refused(Exception):
    """Stint refused the call, because something in it is wrong. Nothing was charged."""

    def __init__(self, status: int, message: str):
        super().__init__(f"stint refused the call with status {status}: {message}")
        self.status = status


class Unavailable(Exception):
    """Stint did not answer in time, and on_failure is "raise"."""


@dataclass(frozen=True)
class Decision:
    """Whether a request may pass. Times are seconds."""

    allowed: bool
    rule: str = ""
    limit: Optional[int] = None  # None: no limit applies
    remaining: Optional[int] = None
    retry_after: float = 0  # of a denied request; math.inf: it never passes
    reset_after: float = 0
    delay: float = 0  # wait so long before the request is served (leaky_bucket)
    degraded: bool = False  # a failure policy answered: Stint's, or that of this client
    reason: str = ""  # of a denied request, such as "rate_limited"
    charged: Optional[int] = None  # with at_most
    results: tuple = field(default=())  # a Decision for each descriptor


class Client:
    """Client calls one Stint.

    url         http://HOST:PORT, or https://
    timeout     seconds for a whole call, connecting included, but not the lookup of a host name
    on_failure  what to answer if Stint does not: "allow", "deny" or "raise"
    context     an ssl.SSLContext for https, for example with an authority of your own
    idle        the most connections that are kept open while they are not used
    """

    def __init__(self, url: str = "http://127.0.0.1:8080", *, timeout: float = 0.1, on_failure: str = "allow",
                 context: Optional[ssl.SSLContext] = None, idle: int = 16):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8080")
        if not url.isascii():  # else each call would fail, and be answered by on_failure
            raise ValueError(f"{url!r}: write a host as xn--..., and a path with %xx")
        if on_failure not in ("allow", "deny", "raise"):
            raise ValueError(f'on_failure is {on_failure!r}: give "allow", "deny" or "raise"')
        if not 0 < timeout < 1e6:
            raise ValueError("timeout must be above 0 seconds, and below a million")
        self._address = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        self._path = parts.path.rstrip("/") + "/v1/check"
        self._host = parts.netloc.rpartition("@")[2]
        self._tls = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._timeout, self._on_failure, self._most = timeout, on_failure, idle
        self._idle: list = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def check(self, domain: str, *descriptors: Mapping[str, str], cost: int = 1, at_most: bool = False) -> Decision:
        """Decides descriptors by the rules of a domain, all as one. The order of a mapping counts."""
        entries = [{"entries": [{"key": k, "value": v} for k, v in d.items()]} for d in descriptors]
        return self._decide({"domain": domain, "descriptors": entries, "cost": cost}, at_most)

    def take(self, key: str, limit: Mapping[str, Any], cost: int = 1, at_most: bool = False) -> Decision:
        """Decides by a limit in the call, such as {"requests": 5, "per": "1s"}."""
        return self._decide({"key": key, "limit": dict(limit), "cost": cost}, at_most)

    def close(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decide(self, call: dict, at_most: bool) -> Decision:
        if at_most:
            call["at_most"] = True
        body = json.dumps(call).encode()
        try:
            status, text = self._post(body, time.monotonic() + self._timeout)
        except (OSError, ValueError, http.client.HTTPException) as e:  # ValueError: of chunks of a negative length
            return self._failed(e)
        try:
            answer = json.loads(text)
            if status == 200:
                return _decision(answer)
            message = answer["error"]["message"] if isinstance(answer["error"], dict) else str(answer["error"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            answer, message = None, text[:200].decode("utf-8", "replace")
        if 400 <= status < 500 and status not in (408, 429):
            raise Refused(status, message)
        return self._failed(Exception(f"status {status}: {message}"))

    def _failed(self, cause: Exception) -> Decision:
        if self._on_failure == "raise":
            raise Unavailable(f"no decision from {self._host}: {cause}") from cause
        allowed = self._on_failure == "allow"
        return Decision(allowed, degraded=True, reason="" if allowed else "limit_unavailable", retry_after=0 if allowed else 1)

    def _post(self, body: bytes, deadline: float):
        connection = self._connect(deadline)
        try:
            head = f"POST {self._path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.settimeout(_left(deadline))
            connection.sendall(head.encode("latin-1") + body)
            response = http.client.HTTPResponse(_Answer(connection, deadline), method="POST")
            response.begin()
            text = response.read(1 << 24)
            keep = not response.will_close and response.isclosed() and response.status >= 200  # below: another answer follows
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if keep and len(self._idle) < self._most:
                self._idle.append(connection)
                return response.status, text
        connection.close()
        return response.status, text

    def _connect(self, deadline: float) -> socket.socket:
        while True:
            with self._lock:
                self._forget_forked()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if not _readable(connection):
                return connection
            connection.close()  # the server has closed it
        connection = self._open(deadline)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection.settimeout(_left(deadline))
                connection = self._tls.wrap_socket(connection, server_hostname=self._address[0])
        except BaseException:
            connection.close()
            raise
        return connection

    def _forget_forked(self) -> None:
        """Closes the connections of the parent in a forked process: both would read the same answers."""
        if self._process != os.getpid():
            idle, self._idle, self._process = self._idle, [], os.getpid()
            for connection in idle:
                connection.close()

    def _open(self, deadline: float) -> socket.socket:
        """Connects to the first address of the host that accepts, with one deadline for all of them."""
        cause: OSError = OSError("the host has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(_left(deadline))
                connection.connect(address)
                return connection
            except OSError as e:
                connection.close()
                cause = e
        raise cause


def _readable(connection: socket.socket) -> bool:
    """Whether a byte or the end has arrived. select refuses descriptors from 1024, and Windows has no poll."""
    if not hasattr(select, "poll"):
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


class _Answer(io.RawIOBase):
    """A socket to read from that keeps a deadline for all reads together."""

    def __init__(self, connection: socket.socket, deadline: float):
        self._connection, self._deadline = connection, deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self._connection.settimeout(_left(self._deadline))
        return self._connection.recv_into(buffer)


def _decision(answer: dict) -> Decision:
    retry = answer["retry_after_ms"]
    if not isinstance(answer["allowed"], bool):
        raise TypeError("allowed is neither true nor false")
    return Decision(
        allowed=answer["allowed"], rule=answer["rule"], limit=answer["limit"], remaining=answer["remaining"],
        retry_after=math.inf if retry < 0 else retry / 1000, reset_after=answer["reset_after_ms"] / 1000,
        delay=answer["delay_ms"] / 1000, degraded=answer["degraded"], reason=answer.get("reason", ""),
        charged=answer.get("charged"), results=tuple(_decision(r) for r in answer.get("results", ())),
    )
