-- Which process this is.
-- Answers its run_id.
return string.match(redis.call("info", "server"), "run_id:(%x+)")
