package shards

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// count is the variable that says how many shards there are, where the engine does not.
const count = "LOCKPICK_SHARDS"

// engines are what engines of jobs tell each of n jobs that it is. first is what they call the
// first of them; all is the variable that says how many there are.
var engines = []struct {
	name, index, all string
	first            int
}{
	{"Docker Swarm", "LOCKPICK_SLOT", count, 0}, // set by --env 'LOCKPICK_SLOT={{.Task.Slot}}'
	{"Kubernetes", "JOB_COMPLETION_INDEX", count, 0},
	// The count of an array changes when a part of it is submitted again: no variable of Slurm's says n.
	{"Slurm", "SLURM_ARRAY_TASK_ID", count, 1},
	{"GitLab", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1},
}

// Parse reads which shard is asked for: k/n; auto, where an engine of jobs tells both in the
// environment; or auto/n, where it tells k.
func Parse(text string, env func(string) string) (k, n int, err error) {
	index, all, _ := strings.Cut(text, "/")
	if index == "auto" {
		if k, all, err = auto(all, env); err != nil {
			return 0, 0, err
		}
	} else if k, err = strconv.Atoi(index); err != nil {
		return 0, 0, fmt.Errorf("%q is no shard", text)
	}
	if n, err = strconv.Atoi(all); err != nil {
		return 0, 0, fmt.Errorf("%q does not say how many shards there are", text)
	}
	if n < 1 || n > Most || k < 1 || k > n {
		return 0, 0, fmt.Errorf("there is no shard %d of %d", k, n)
	}
	return k, n, nil
}

// auto asks the environment.
func auto(all string, env func(string) string) (int, string, error) {
	for _, e := range engines {
		text := env(e.index)
		if text == "" {
			continue
		}
		// Swarm numbers a job's slots from 0, and for slot 0 its template gives the node's ID.
		if e.index == "LOCKPICK_SLOT" && text == env("LOCKPICK_NODE") {
			text = "0"
		}
		i, err := strconv.Atoi(text)
		if err != nil {
			return 0, "", fmt.Errorf("%s says that this is job %s=%q, which is no number", e.name, e.index, text)
		}
		if all == "" {
			all = env(e.all)
		}
		if all == "" {
			return 0, "", fmt.Errorf("%s says that this is job %d, and nothing says of how many: set %s", e.name, i, e.all)
		}
		return i - e.first + 1, all, nil
	}
	return 0, "", errors.New("nothing in the environment says which shard this is")
}
