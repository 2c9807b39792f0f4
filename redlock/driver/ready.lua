-- End the quarantine of the node. The caller knows that the node has forgotten nothing.
-- KEYS: the last known run_id of the node, its quarantine.
redis.call("set", KEYS[1], string.match(redis.call("info", "server"), "run_id:(%x+)"))
redis.call("getdel", KEYS[2])
return 1
