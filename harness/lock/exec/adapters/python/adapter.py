"""A starter for an adapter: one key on one node, with SET NX PX and compare-and-delete. Replace the code
between the lines with your library, and adapt the answers below. See lockpick help adapter."""
import secrets, socket, time
from contextlib import suppress
from lockpick import No, serve, until

# ---- your library ----
IF_OWN = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(%s) end return 0'
DEL, PEXPIRE = IF_OWN % '"del",KEYS[1]', IF_OWN % '"pexpire",KEYS[1],ARGV[2]'

def ask(*words):
    """Sends a command to the node on a new connection and returns its answer, a single line."""
    words = [str(w).encode() for w in words]
    with socket.create_connection(addr, timeout) as s:
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        line = s.makefile("rb").readline()
    if not line.endswith(b"\n"):
        raise OSError("the connection ended")
    return line.strip().decode()

def lease(began):
    return until(began, ttl, margin)  # counted from before the request

def lock(key):
    began, token = time.monotonic_ns(), secrets.token_hex(20)
    try:
        if ask("SET", key, token, "NX", "PX", ttl) != "+OK":
            raise No("taken")
        if time.monotonic_ns() < lease(began)["until"]:
            return {"handle": f"{key} {token}", "token": token, **lease(began)}
        why = "the answer arrived too late"
    except OSError as e:
        why = e
    with suppress(OSError):
        ask("EVAL", DEL, 1, key, token)  # the outcome is unknown, so the key may have been set
    raise No("unknown", why)

def if_own(script, handle, *args):
    if ask("EVAL", script, 1, *handle.rsplit(" ", 1), *args) != ":1":
        raise No("not-held")
# ----------------------

def open_(m):
    global addr, ttl, timeout, margin
    s, (host, _, port) = m["settings"], m["nodes"][0]["addr"].rpartition(":")
    addr, ttl, timeout, margin = (host, int(port)), int(s["ttl"]), s["timeout"] / 1e3, s["ttl"] * s["drift"] + 2
    return {"quorum": 1}

def extend(m):
    began = time.monotonic_ns()
    if_own(PEXPIRE, m["handle"], ttl)
    return lease(began)

serve({"name": "adapter", "version": "1", "can": ["extend"], "nodes": "one"}, {
    "open": open_, "acquire": lambda m: lock(m["key"]), "extend": extend, "release": lambda m: if_own(DEL, m["handle"])})
