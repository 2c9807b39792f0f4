# Redlock of pottery, brainix/pottery: pip install pottery==3.0.1 redis
#
# An acquire is one attempt (blocking=False), of which a caller knows when it began. A blocking one is a loop of
# such attempts, each with a new value, as lockpick makes them.
import time
from importlib.metadata import version

from lockpick import DRIVER, No, chosen, redises, serve, until
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

EXTENSIONS = {"name": "extensions", "values": ["defaults", "unlimited"], "doc": "most extensions of one hold: as it comes, which is three, or any number"}
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
        raise No("unknown", "another has it, or too few nodes answered")
    n += 1
    held[f"h{n}"] = lib
    return {"handle": f"h{n}", "token": lib._uuid, **lease(began)}


def refused(e):
    """pottery raises one exception both where the nodes deny that the lock is held and where they fail.
    Only its errors tell which: without any, each node has answered, and too few had the lock."""
    errors = [repr(error) for error in e.redis_errors]
    return No("unknown" if errors else "not-held", "; ".join([type(e).__name__, *errors]))


def extend(m):
    began = time.monotonic_ns()
    try:
        held[m["handle"]].extend()
    except ExtendUnlockedLock as e:
        raise refused(e)
    except TooManyExtensions as e:  # it has asked no node: the lock is held as before
        raise No("unknown", type(e).__name__)
    return lease(began)


def release(m):
    try:
        held.pop(m["handle"]).release()
    except ReleaseUnlockedLock as e:
        raise refused(e)


hello = {"name": "pottery", "version": version("pottery"), "can": ["extend"], "keyPrefix": "redlock:", "options": [DRIVER, EXTENSIONS]}
serve(hello, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
