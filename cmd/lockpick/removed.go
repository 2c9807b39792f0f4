package main

// removed lists the commands and flags that earlier releases had, with what to use instead: a
// command by its name, a flag by its command's name and its own. Using one is an error of usage
// (exit 64) whose hint says so.
var removed = map[string]string{
	"compare":                 "make a scorecard of each and open both",
	"envelope --pairs":        "run envelope for one fault at a time; for two, put both in a scenario file and change one, as in lockpick run mine.yaml --set plan.2.fault.by=40ms",
	"model-check --large":     "without flags the known scopes run within seconds; give a larger one with --nodes, --attempts, --extends and --crashes",
	"run --nodes":             "leave it out: lockpick makes its own nodes",
	"run --stop-at-violation": "leave it out: each run is judged to its end, and the report shows every key's life",
	"run --to":                "copy the shard's folder with your site's tool, as in aws s3 cp --recursive or rclone; see lockpick help shards",
	"run --watch":             "your editor's save hook or a tool such as entr runs lockpick again",
}
