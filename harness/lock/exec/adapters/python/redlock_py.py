# redlock-py of PyPI, SPSCommerce/redlock-py: pip install redlock-py==1.0.8 redis
import time
from importlib.metadata import version

import redlock
from lockpick import DRIVER, No, RETRIES, chosen, redises, serve, until

held, n = {}, 0


def open_(m):
    global lib, ttl
    ttl = int(m["settings"]["ttl"])
    tries = {"retry_count": 1, "retry_delay": 1e-3} if chosen(m, RETRIES) == "none" else {}
    lib = redlock.Redlock(redises(m), **tries)
    lib.clock_drift_factor = m["settings"]["drift"]
    return {"quorum": lib.quorum}


def acquire(m):
    global n
    got = lib.lock(m["key"], ttl)
    if not got:
        raise No("unknown", "another client has it, or too few nodes answered")
    lease = until(time.monotonic_ns(), got.validity, 0)  # validity starts with the return of lock, whichever try succeeded
    n += 1
    held[f"h{n}"] = got
    return {"handle": f"h{n}", "token": got.key.decode(), **lease}


def release(m):
    lib.unlock(held.pop(m["handle"]))
    raise No("unknown", "the library doesn't report whether it was still held")


hello = {"name": "redlock-py", "version": version("redlock-py"), "options": [DRIVER, RETRIES]}
serve(hello, {"open": open_, "acquire": acquire, "release": release})
