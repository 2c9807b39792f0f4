# python-redis-lock of PyPI, ionelmc/python-redis-lock: pip install python-redis-lock==4.0.1
#
# An acquire is one attempt (blocking=False): the start of the lease would be unknown for one that waits, as it
# reports no deadline. Runs therefore never use BLPOP, which wakes waiting acquires.
import time
from importlib.metadata import version

from lockpick import DRIVER, No, redises, serve, until
from redis_lock import Lock, NotAcquired

held, n = {}, 0


def open_(m):
    global client, ttl
    ttl, client = m["settings"]["ttl"], redises(m)[0]
    return {"quorum": 1}


def acquire(m):
    global n
    lib = Lock(client, m["key"], expire=int(ttl / 1e3))
    began = time.monotonic_ns()
    if not lib.acquire(blocking=False):
        raise No("taken")
    n += 1
    held[f"h{n}"] = lib
    return {"handle": f"h{n}", "token": lib.id, **until(began, ttl, 0)}


def extend(m):
    began = time.monotonic_ns()
    try:
        held[m["handle"]].extend()
    except NotAcquired as e:
        raise No("not-held", e)
    return until(began, ttl, 0)


def release(m):
    try:
        held.pop(m["handle"]).release()
    except NotAcquired as e:
        raise No("not-held", e)


# TTLs are whole seconds.
hello = {"name": "python-redis-lock", "version": version("python-redis-lock"), "can": ["extend"], "keyPrefix": "lock:", "nodes": "one", "grain": 1000, "options": [DRIVER]}
serve(hello, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
