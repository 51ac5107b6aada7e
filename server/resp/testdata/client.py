"""Asks a server of the Redis protocol with redis-py, without options. Prints what CL.THROTTLE says."""
import sys

import redis

for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol)
    assert client.ping()
    for _ in range(2):
        print(*client.execute_command("CL.THROTTLE", f"python{protocol}", 1, 1, 60))
    answer = client.execute_command("STINT.CHECK", "api", 1, "user", f"python{protocol}")
    if protocol == 2:
        answer = dict(zip(answer[::2], answer[1::2]))
    assert answer[b"rule"] == b"users" and answer[b"remaining"] == 2, answer
    with client.pipeline(transaction=False) as pipe:
        for _ in range(100):
            pipe.execute_command("CL.THROTTLE", "pipe", 1000, 1, 60)
        assert len(pipe.execute()) == 100
    client.close()
