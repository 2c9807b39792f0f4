-- Which server this is.
-- Answers the first 48 bits of its run_id.
return tonumber(string.sub(string.match(redis.call("info", "server"), "run_id:(%x+)"), 1, 12), 16)
