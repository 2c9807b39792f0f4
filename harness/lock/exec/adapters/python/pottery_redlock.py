# Redlock of pottery, brainix/pottery: pip install pottery==3.0.1 redis
#
# An acquire is one attempt (blocking=False), so that its start is known. A blocking acquire is a loop of
# such attempts, each with a new value, just like lockpick's own loop.
import time
from importlib.metadata import version

from lockpick import DRIVER, No, chosen, redises, serve, until
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

EXTENSIONS = {"name": "extensions", "values": ["defaults", "unlimited"], "doc": "maximum extensions per hold: the default of three, or no limit"}
held, n, limit = {}, 0, {}


def open_(m):
    global masters, ttl, limit
    ttl, masters = m["settings"]["ttl"], set(redises(m))
    Redlock._CLOCK_DRIFT_FACTOR = m["settings"]["drift"]
    limit = {"num_extensions": 1 << 30} if chosen(m, EXTENSIONS) == "unlimited" else {}
    return {"quorum": len(masters) // 2 + 1}


def lease(began):
    return until(began, ttl, ttl * Redlock._CLOCK_DRIFT_FACTOR + 2)


def acquire(m):
    global n
    lib = Redlock(key=m["key"], masters=masters, auto_release_time=ttl / 1e3, **limit)
    began = time.monotonic_ns()
    if not lib.acquire(blocking=False):
        raise No("unknown", "another client has it, or too few nodes answered")
    n += 1
    held[f"h{n}"] = lib
    return {"handle": f"h{n}", "token": lib._uuid, **lease(began)}


def refused(e):
    """pottery raises the same exception if the lock is not held and if nodes fail. Its errors make the
    difference: without any, each node has answered, and too few had the lock."""
    errors = [repr(error) for error in e.redis_errors]
    return No("unknown" if errors else "not-held", "; ".join([type(e).__name__, *errors]))


def extend(m):
    began = time.monotonic_ns()
    try:
        held[m["handle"]].extend()
    except ExtendUnlockedLock as e:
        raise refused(e)
    except TooManyExtensions as e:  # it has not contacted any node, so the lock is still held
        raise No("unknown", type(e).__name__)
    return lease(began)


def release(m):
    try:
        held.pop(m["handle"]).release()
    except ReleaseUnlockedLock as e:
        raise refused(e)


hello = {"name": "pottery", "version": version("pottery"), "can": ["extend"], "keyPrefix": "redlock:", "options": [DRIVER, EXTENSIONS]}
serve(hello, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
