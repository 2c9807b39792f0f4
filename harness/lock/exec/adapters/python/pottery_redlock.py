# Redlock of pottery, brainix/pottery: pip install pottery==3.0.1 redis
import time
from importlib.metadata import version

from lockpick import No, redises, serve, until
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

held, n = {}, 0


def open_(m):
    global masters, ttl
    ttl, masters = m["settings"]["ttl"], set(redises(m["nodes"], m["settings"]["timeout"]))
    Redlock._CLOCK_DRIFT_FACTOR = m["settings"]["drift"]
    return {"quorum": len(masters) // 2 + 1}


def lease(began):
    return until(began, ttl, ttl * Redlock._CLOCK_DRIFT_FACTOR + 2)


def acquire(m):
    global n
    lib = Redlock(key=m["key"], masters=masters, auto_release_time=ttl / 1e3, num_extensions=1 << 30)
    began = time.monotonic_ns()
    if not lib.acquire(blocking=False):
        raise No("taken")
    n += 1
    held[f"h{n}"] = lib
    return {"handle": f"h{n}", "token": lib._uuid, **lease(began)}


def extend(m):
    began = time.monotonic_ns()
    try:
        held[m["handle"]].extend()
    except (ExtendUnlockedLock, TooManyExtensions) as e:
        raise No("not-held", e)
    return lease(began)


def release(m):
    try:
        held.pop(m["handle"]).release()
    except ReleaseUnlockedLock as e:
        raise No("not-held", e)


hello = {"name": "pottery", "version": version("pottery"), "can": ["extend"], "keyPrefix": "redlock:"}
serve(hello, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
