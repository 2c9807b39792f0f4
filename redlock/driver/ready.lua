-- End the node's quarantine: somebody knows that it has forgotten nothing.
-- KEYS: the run_id that the node was known by, its quarantine.
redis.call("set", KEYS[1], string.match(redis.call("info", "server"), "run_id:(%x+)"))
redis.call("getdel", KEYS[2])
return 1
