-- Return the run_id of the server process.
return string.match(redis.call("info", "server"), "run_id:(%x+)")
