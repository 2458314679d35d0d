"""A worker in Python, with nothing but its standard library: it goes through rows, says how far it is, goes on where the attempt before
left off, and stops when it is told to. The payload is {"rows": 20}. Without the agent's socket it does the same with files alone."""

import http.client
import json
import os
import signal
import socket
import sys
import time

EXIT_USAGE, EXIT_PERMANENT, EXIT_STOPPED = 64, 65, 143

is_told = False  # to stop


def main():
    signal.signal(signal.SIGTERM, hear)
    missing = [name for name in ("PAYLOAD_FILE", "RESULT_FILE", "CHECKPOINT_FILE", "CANCEL_FILE") if not place(name)]
    if missing:
        sys.exit(not_started(", ".join("LEASEHOLD_" + name for name in missing) + ": not set"))
    rows = read_rows()
    begin = read_checkpoint()
    for row in range(begin, rows):
        time.sleep(0.5)  # the work on a row, which is in a store after this
        if is_told:
            stop()
        if not say("checkpoint", {"checkpoint": str(row + 1)}):
            write(place("CHECKPOINT_FILE"), str(row + 1))
        say("progress", {"current": row + 1, "total": rows, "message": "rows"})
    result = json.dumps({"rows": rows, "from": begin})
    if not say("result", {"result": result}):
        write(place("RESULT_FILE"), result)


def place(name):
    return os.environ.get("LEASEHOLD_" + name, "")


def hear(*_):
    global is_told
    is_told = True


def stop():
    """Ends the worker. The file is there before the signal: the reason, and below it what was said about it."""
    try:
        with open(place("CANCEL_FILE")) as file:
            why = file.read()
    except FileNotFoundError:  # the signal is not the agent's
        why = "Terminated"
    print("told to stop:", why, flush=True)
    sys.exit(EXIT_STOPPED)


def not_started(why):
    """The exit code of a process that lacks what the agent gives it."""
    print(f"{why}: this process was not started by the agent", file=sys.stderr, flush=True)
    return EXIT_USAGE


def read_rows():
    """The payload, or the end: the next attempt would find the same."""
    try:
        with open(place("PAYLOAD_FILE"), "rb") as file:
            payload = file.read()
    except OSError as error:
        sys.exit(not_started(f"the payload: {error}"))
    try:
        order = json.loads(payload)
        rows = order["rows"]
        if type(rows) is not int or rows < 0 or len(order) != 1:
            raise ValueError('it is not {"rows": N}')
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"the payload: {error!r}"[:500]
        print(message, file=sys.stderr, flush=True)
        say("fail", {"retryable": False, "effect": "None", "reason": "PayloadInvalid", "message": message})
        sys.exit(EXIT_PERMANENT)  # which says it, too
    return rows


def read_checkpoint():
    """What the attempt before left; if that is no number of a row, from the start."""
    try:
        with open(place("CHECKPOINT_FILE")) as file:
            return max(int(file.read()), 0)
    except (FileNotFoundError, ValueError):
        return 0


def say(what, body):
    """Tells the agent, and reports whether it has heard. That there is no socket, or no answer, is no reason to break off."""
    if not place("SOCKET"):
        return False
    try:
        status, answer = call("POST", "/v1/" + what, body)
    except (OSError, http.client.HTTPException) as error:
        print(f"{what} is not heard: {error!r}", file=sys.stderr, flush=True)
        return False
    if status >= 400:
        print(f"{what} is refused: {status} {answer}", file=sys.stderr, flush=True)
        return False
    return True


class Agent(http.client.HTTPConnection):
    """HTTP on the agent's socket."""

    def __init__(self):
        super().__init__("agent", timeout=10)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(place("SOCKET"))


def call(method, path, body):
    """Makes one request, and returns status and text of the answer."""
    agent = Agent()
    try:
        agent.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        response = agent.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        agent.close()


def write(path, content):
    """Makes a file that is never read half."""
    with open(path + ".draft", "w") as file:
        file.write(content)
    os.replace(path + ".draft", path)


main()
