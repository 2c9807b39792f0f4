# aioredlock of PyPI, joanvila/aioredlock: it uses aioredis 1, which Python 3.11 can't import
import asyncio, threading, time
from importlib.metadata import version

from aioredlock import Aioredlock, LockError
from aioredlock.errors import LockAcquiringError
from lockpick import No, RETRIES, chosen, serve, until

held, n = {}, 0
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


DRIVER = {"name": "driver", "values": ["defaults", "bounded"], "doc": "aioredis: its default, or connections with the scenario's timeout"}


def open_(m):
    global lib, ttl
    ttl = m["settings"]["ttl"]
    limits = {"timeout": m["settings"]["timeout"] / 1e3} if chosen(m, DRIVER) == "bounded" else {}
    nodes = [{"host": h, "port": int(p), **limits} for h, _, p in (n["addr"].rpartition(":") for n in m["nodes"])]
    lib = Aioredlock(nodes, **{"retry_count": 1} if chosen(m, RETRIES) == "none" else {})
    note_tries(lib.redis)
    return {"quorum": len(nodes) // 2 + 1}


def note_tries(redis):
    """Records the start of each try in began. A Lock has no deadline, and its lease begins with the try that succeeds."""
    set_lock = redis.set_lock

    def noted(*args):
        global began
        began = time.monotonic_ns()
        return set_lock(*args)

    redis.set_lock = noted


def lease():
    return until(began, ttl, ttl * 0.01 + 2)  # the library's own allowance for drift


def acquire(m):
    global n
    try:
        lock = wait(lib.lock(m["key"], lock_timeout=ttl / 1e3))
    except LockAcquiringError as e:
        raise No("taken", e)
    except LockError as e:
        raise No("unknown", e)
    n += 1
    held[f"h{n}"] = lock
    return {"handle": f"h{n}", "token": lock.id, **lease()}


def extend(m):
    try:
        wait(held[m["handle"]].extend())
    except LockAcquiringError as e:
        raise No("not-held", e)
    except (LockError, RuntimeError) as e:
        raise No("unknown", e)
    return lease()


def release(m):
    try:
        wait(held.pop(m["handle"]).release())
    except LockAcquiringError as e:
        raise No("not-held", e)
    except LockError as e:
        raise No("unknown", e)


hello = {"name": "aioredlock", "version": version("aioredlock"), "can": ["extend"], "options": [DRIVER, RETRIES]}
serve(hello, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
