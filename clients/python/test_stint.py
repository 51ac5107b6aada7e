"""Tests the client against a running Stint, whose address is in STINT_URL."""

import math
import os
import resource
import socket
import threading
import time
import unittest
import unittest.mock
import uuid

from stint import Client, Decision, Refused, Unavailable

URL = os.environ["STINT_URL"]
SLOW = {"requests": 3, "per": "1h"}


class Against(unittest.TestCase):
    def setUp(self):
        self.client = Client(URL, timeout=5, on_failure="raise")
        self.addCleanup(self.client.close)
        self.key = f"python {uuid.uuid4()}"

    def test_limit_in_the_call(self):
        for left in (2, 1, 0):
            d = self.client.take(self.key, SLOW)
            self.assertEqual((d.allowed, d.limit, d.remaining, d.degraded), (True, 3, left, False))
        d = self.client.take(self.key, SLOW)
        self.assertFalse(d.allowed)
        self.assertEqual(d.reason, "rate_limited")
        self.assertTrue(0 < d.retry_after <= 3600, d)
        self.assertEqual(self.client.take(self.key, SLOW, cost=4).retry_after, math.inf)

    def test_rules(self):
        d = self.client.check("api", {"user": self.key})
        self.assertTrue(d.allowed)
        self.assertEqual((d.rule, d.limit, len(d.results)), ("api/user", 100, 1))

    def test_at_most(self):
        self.assertEqual(self.client.take(self.key, SLOW, cost=8, at_most=True).charged, 3)

    def test_wrong_call(self):
        with self.assertRaisesRegex(Refused, "400"):
            self.client.take("", SLOW)

    def test_threads_share_connections(self):
        allowed = []

        def work():
            for _ in range(20):
                allowed.append(self.client.take(self.key, {"requests": 50, "per": "1h"}).allowed)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(allowed), sum(allowed)), (160, 50))
        self.assertLessEqual(len(self.client._idle), 8)


    def test_many_open_files(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 1200:
            resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        try:
            for left in (2, 1):
                self.assertEqual(self.client.take(self.key, SLOW).remaining, left)
        finally:
            for f in files:
                os.close(f)

    def test_fork(self):
        self.client.take(self.key, SLOW)
        before = self.client._idle[0].getsockname()
        child = os.fork()
        if child == 0:
            try:
                self.client.take(self.key, SLOW)
                os._exit(1 if self.client._idle[0].getsockname() == before else 0)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "the child used the connection of its parent")
        self.assertEqual(self.client.take(self.key, SLOW).remaining, 0)


class Without(unittest.TestCase):
    """No Stint answers."""

    def policies(self, url):
        for policy, allowed in (("allow", True), ("deny", False)):
            with Client(url, timeout=0.2, on_failure=policy) as client:
                began = time.monotonic()
                d = client.take("k", SLOW)
                self.assertEqual((d.allowed, d.degraded), (allowed, True))
                self.assertLess(time.monotonic() - began, 1)
        with Client(url, timeout=0.2, on_failure="raise") as client, self.assertRaises(Unavailable):
            client.take("k", SLOW)

    def test_nobody_listens(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.policies(f"http://127.0.0.1:{s.getsockname()[1]}")

    def serve(self, answer):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def test_silence(self):
        self.policies(self.serve(lambda c: time.sleep(5)))

    def test_a_byte_at_a_time(self):
        def trickle(c):
            with c:
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 100:
                    time.sleep(0.05)
                    try:
                        c.sendall(bytes([byte]))
                    except OSError:
                        return

        self.policies(self.serve(trickle))

    def test_odd_answers(self):
        good = b'{"allowed":true,"rule":"r","limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":0,"delay_ms":0,"degraded":false}'
        for body in (
            b"{}", b"null", b"[]", b"5", b"[" * 100_000, good.replace(b"true", b'"no"'), good.replace(b"true", b"null"),
            good.replace(b'after_ms":0', b'after_ms":' + b"9" * 400), good[:-1] + b',"results":[' * 1000,
        ):
            self.policies(self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)))
        for whole in (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n", b"HTTP/1.1 101 Other\r\nConnection: Upgrade\r\n\r\n", bytes(range(256))):
            self.policies(self.answer(whole))

    def answer(self, text):
        def once(c):
            with c:
                c.recv(1 << 16)
                c.sendall(text)

        return self.serve(once)

    def test_hints_before_the_answer(self):
        opened = []

        def hint(c):
            opened.append(c)
            while c.recv(1 << 16):
                c.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")

        with Client(self.serve(hint), timeout=5) as client:
            for _ in range(3):
                self.assertTrue(client.take("k", SLOW).degraded)
        self.assertEqual(len(opened), 3, "a connection was used again before its answer had arrived")

    def test_one_deadline_for_all_addresses(self):
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
            same = socket.getaddrinfo(*full.getsockname(), type=socket.SOCK_STREAM)
            with unittest.mock.patch("socket.getaddrinfo", return_value=same * 20):
                self.policies(f"http://127.0.0.1:{full.getsockname()[1]}")

    def test_status_503(self):
        def busy(c):
            with c:
                c.recv(1 << 16)
                c.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")

        self.policies(self.serve(busy))

    def test_settings(self):
        for wrong in ({"url": "127.0.0.1"}, {"on_failure": "maybe"}, {"timeout": 0}, {"url": "http://127.0.0.1:1/\u20ac"}, {"url": "http://\u4f8b.example"}):
            with self.assertRaises(ValueError):
                Client(**wrong)
        self.assertEqual(Decision(True).results, ())


if __name__ == "__main__":
    unittest.main()
