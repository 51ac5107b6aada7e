"""Tests the client against a running Stint, whose address is in STINT_URL."""

import math
import os
import socket
import threading
import time
import unittest
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

    def test_status_503(self):
        def busy(c):
            with c:
                c.recv(1 << 16)
                c.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")

        self.policies(self.serve(busy))

    def test_settings(self):
        for wrong in ({"url": "127.0.0.1"}, {"on_failure": "maybe"}, {"timeout": 0}):
            with self.assertRaises(ValueError):
                Client(**wrong)
        self.assertEqual(Decision(True).results, ())


if __name__ == "__main__":
    unittest.main()
