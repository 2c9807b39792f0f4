# aioredlock of PyPI, joanvila/aioredlock: it stands on aioredis 1, which Python 3.11 can't import any more
import asyncio, threading, time
from importlib.metadata import version

from aioredlock import Aioredlock, LockError
from aioredlock.errors import LockAcquiringError
from lockpick import No, serve, until

held, n = {}, 0
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def open_(m):
    global lib, ttl
    ttl = m["settings"]["ttl"]
    nodes = [{"host": h, "port": int(p), "timeout": m["settings"]["timeout"] / 1e3} for h, _, p in (n["addr"].rpartition(":") for n in m["nodes"])]
    lib = Aioredlock(nodes, retry_count=1)
    return {"quorum": len(nodes) // 2 + 1}


def lease(began):
    return until(began, ttl, ttl * 0.01 + 2)  # what it looks at itself; a Lock has no deadline


def acquire(m):
    global n
    began = time.monotonic_ns()
    try:
        lock = wait(lib.lock(m["key"], lock_timeout=ttl / 1e3))
    except LockAcquiringError as e:
        raise No("taken", e)
    except LockError as e:
        raise No("unknown", e)
    n += 1
    held[f"h{n}"] = lock
    return {"handle": f"h{n}", "token": lock.id, **lease(began)}


def extend(m):
    began = time.monotonic_ns()
    try:
        wait(held[m["handle"]].extend())
    except LockAcquiringError as e:
        raise No("not-held", e)
    except (LockError, RuntimeError) as e:
        raise No("unknown", e)
    return lease(began)


def release(m):
    try:
        wait(held.pop(m["handle"]).release())
    except LockAcquiringError as e:
        raise No("not-held", e)
    except LockError as e:
        raise No("unknown", e)


serve({"name": "aioredlock", "version": version("aioredlock"), "can": ["extend"]}, {"open": open_, "acquire": acquire, "extend": extend, "release": release})
