"""A worker in Python, with nothing but its standard library: it goes through rows, says how far it is, goes on where the attempt before
left off, and stops when it is told to. The payload is {"rows": 20}."""

import http.client
import json
import os
import signal
import socket
import sys
import threading

EXIT_PERMANENT, EXIT_STOPPED = 65, 143

told = threading.Event()  # set once the worker is told to stop


class Agent(http.client.HTTPConnection):
    """HTTP on the agent's socket."""

    def __init__(self):
        super().__init__("agent", timeout=10)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.environ["LEASEHOLD_SOCKET"])


def call(method, path, body=None):
    """Makes one request, and returns what is answered. A refusal is an exception."""
    agent = Agent()
    try:
        agent.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        response = agent.getresponse()
        content = response.read()
    finally:
        agent.close()
    if response.status >= 400:
        raise RuntimeError(f"{method} {path}: {response.status} {content.decode(errors='replace')}")
    return json.loads(content) if content else None


def stop():
    """Ends the worker. The file is there before the signal: the reason, and below it what was said about it."""
    with open(os.environ["LEASEHOLD_CANCEL_FILE"]) as file:
        print("told to stop:", file.read(), flush=True)
    sys.exit(EXIT_STOPPED)


def read_rows():
    """The payload, or the end: the next attempt would find the same."""
    try:
        with open(os.environ["LEASEHOLD_PAYLOAD_FILE"], "rb") as file:
            order = json.load(file)
        rows = order["rows"]
        if type(rows) is not int or len(order) != 1:
            raise ValueError('it is not {"rows": N}')
    except (ValueError, KeyError, TypeError) as error:
        call("POST", "/v1/fail", {"retryable": False, "effect": "None", "reason": "PayloadInvalid", "message": f"the payload: {error!r}"[:500]})
        sys.exit(EXIT_PERMANENT)
    return rows


def main():
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    rows = read_rows()
    begin = int(call("GET", "/v1/task")["checkpoint"] or 0)
    for row in range(begin, rows):
        if told.wait(0.5):  # the work on a row, which is in a store after this
            stop()
        call("POST", "/v1/checkpoint", {"checkpoint": str(row + 1)})
        call("POST", "/v1/progress", {"current": row + 1, "total": rows, "message": "rows"})
    call("POST", "/v1/result", {"result": json.dumps({"rows": rows, "from": begin})})


main()
