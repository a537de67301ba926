"""A kubectl for tests: it answers from a JSON file and writes down what it was asked."""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:  # noqa: PLR0912, C901 - one branch for each verb
    state = Path(os.environ["FAKE_KUBECTL"])
    given = json.loads(state.read_text())
    flags = [a for a in sys.argv[1:] if a.startswith(("--namespace", "--context"))]
    arguments = [a for a in sys.argv[1:] if a not in flags]

    def note(**fields: object) -> None:
        with (state.parent / "calls").open("a") as file:
            file.write(json.dumps({"flags": flags, "arguments": arguments, **fields}) + "\n")

    verb = arguments[0]
    if "error" in given:
        note()
        sys.exit(given["error"])
    elif verb == "get" and "cronjob" in arguments:
        note()
        print(json.dumps(given["cronjob"]) if "cronjob" in given else "")
    elif verb == "get" and "pod" in arguments:
        note()
        print(json.dumps(given["job_pod"]))
    elif verb == "get" and any("job-name" in a for a in arguments):
        note()
        print(json.dumps({"items": [given["job_pod"]]}))
    elif verb == "get":
        note()
        print(json.dumps({"items": given["pods"]}))
    elif verb == "create":
        note(created=json.loads(sys.stdin.read()))
    elif verb == "delete":
        note()
    elif verb == "logs":
        note()
        print(given["log"], end="")
        sys.stdout.flush()
        time.sleep(given.get("log_seconds", 0))
    elif verb == "exec":
        note()
        print(json.dumps(given["listings"].pop(0)))
        state.write_text(json.dumps(given))
    elif verb == "port-forward":
        note(pid=os.getpid())
        what, *ports = arguments[2:]
        if what not in given["forwards"]:
            sys.exit(f"Error from server (NotFound): {what} not found")
        for port in ports:
            there = port.removeprefix(":")
            here = given["forwards"][what][there]
            print(f"Forwarding from 127.0.0.1:{here} -> {there}", flush=True)
        time.sleep(300)
    else:
        sys.exit(f"error: unknown command {verb}")


if __name__ == "__main__":
    main()
