# redlock-py of PyPI, SPSCommerce/redlock-py: pip install redlock-py==1.0.8 redis
import time
from importlib.metadata import version

import redlock
from lockpick import No, redises, serve, until

held, n = {}, 0


def open_(m):
    global lib, ttl
    ttl = int(m["settings"]["ttl"])
    lib = redlock.Redlock(redises(m["nodes"], m["settings"]["timeout"]), retry_count=1, retry_delay=1e-3)
    lib.clock_drift_factor = m["settings"]["drift"]
    return {"quorum": lib.quorum}


def acquire(m):
    global n
    began = time.monotonic_ns()  # what it returns is a validity from then on, less what passed
    got = lib.lock(m["key"], ttl)
    if not got:
        raise No("taken")
    n += 1
    held[f"h{n}"] = got
    return {"handle": f"h{n}", "token": got.key.decode(), **until(began, ttl, int(ttl * lib.clock_drift_factor) + 2)}


def release(m):
    lib.unlock(held.pop(m["handle"]))
    raise No("unknown", "it doesn't say whether it was still held")


serve({"name": "redlock-py", "version": version("redlock-py")}, {"open": open_, "acquire": acquire, "release": release})
