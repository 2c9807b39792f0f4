// Package shards divides the runs of a sweep among machines, and puts together what came of them.
//
// A sweep is scenarios, each with the same seeds; its runs are numbered, a scenario's seeds one
// after the other. Shard k of n has every n-th run, from the k-th on. What came of them is one
// file in a store, which appears when it is whole:
//
//	STORE/shards/DIGEST-k-of-n.jsonl    a Head
//	                                    an outcome a line, in the order of the runs
//	                                    {"end": how many}
//
// The digest stands for all that makes two sweeps different, so files of one sweep have the same.
// Read refuses what does not fit together; Each then gives the outcomes in the order in which one
// machine would have come to them.
//
// Deliberately missing: who runs what, and when. Any engine that can start a command n times and
// number the jobs will do.
package campaign

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// Folder is where shards lie in a store.
const ShardFolder = "shards"

// Schema is the version of a shard's file.
const shardSchema = 1

// Most bounds the shards of a sweep: they are read side by side.
const MaxShards = 1000

// Parse reads which shard is asked for, as in 3/8.
func ParseShard(text string) (k, n int, err error) {
	index, all, _ := strings.Cut(text, "/")
	if k, err = strconv.Atoi(index); err != nil {
		return 0, 0, fmt.Errorf("%q is no shard", text)
	}
	if n, err = strconv.Atoi(all); err != nil {
		return 0, 0, fmt.Errorf("%q does not say how many shards there are", text)
	}
	if n < 1 || n > MaxShards || k < 1 || k > n {
		return 0, 0, fmt.Errorf("there is no shard %d of %d", k, n)
	}
	return k, n, nil
}

// Head is the first line of a shard's file: what the sweep is, and which part of it this is.
type ShardHead struct {
	Schema    int               `json:"schema"`
	Digest    string            `json:"digest"` // of all that makes sweeps different
	Shard     int               `json:"shard"`  // from 1
	Of        int               `json:"of"`
	Version   string            `json:"version"` // of lockpick
	Backend   string            `json:"backend"`
	Seed      uint64            `json:"seed"`  // the first
	Seeds     int               `json:"seeds"` // of each scenario
	Command   string            `json:"command"`
	Named     bool              `json:"named"` // its scenarios were named, so that each is told of
	Sets      []string          `json:"sets,omitempty"`
	Scenarios []ShardScenario   `json:"scenarios"`
	Skipped   []outcome.Outcome `json:"skipped,omitempty"`
}

// Scenario is a scenario, resolved, and what the command line called its file.
type ShardScenario struct {
	From     string            `json:"from"`
	Scenario scenario.Scenario `json:"scenario"`
	// Control is the scenario with its own lock, where another stands in for that; nil: none does.
	Control *scenario.Scenario `json:"control,omitempty"`
}

// digest is that of a head: of version, backend, seeds, number of shards, and the scenarios.
func (h ShardHead) digest() string {
	h.Schema, h.Digest, h.Shard, h.Command, h.Named = 0, "", 0, "", false
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // plain data
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// total is how many runs the sweep has.
func (h ShardHead) total() int { return len(h.Scenarios) * h.Seeds }

// Runs is how many of the sweep's runs the shard has.
func (h ShardHead) Runs() int { return (h.total() + h.Of - h.Shard) / h.Of }

// Run is the number in the sweep of the shard's j-th run, both from 0.
func (h ShardHead) Run(j int) int { return h.Shard - 1 + j*h.Of }

// file is the name of the shard's file.
func (h ShardHead) file() string {
	return fmt.Sprintf("%s-%d-of-%d.jsonl", h.Digest[:digestShown], h.Shard, h.Of)
}

// digestShown is how much of a digest stands in a file's name.
const digestShown = 12

var fileName = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d}-\d+-of-\d+\.jsonl$`, digestShown))

// end is the last line of a shard's file.
type end struct {
	End *int `json:"end"`
}

// Write has the runs of a shard made and writes its file, whose path it returns. run calls done
// with each run's number in the shard and what came of it, in any order, one at a time. Where run
// fails there is no file.
func WriteShard(store string, h ShardHead, run func(done func(j int, o outcome.Outcome)) error) (path string, err error) {
	h.Schema = shardSchema
	h.Digest = h.digest()
	above, err := files.OpenFolder(store)
	if err != nil {
		return "", err
	}
	defer above.Close()
	in, err := above.Sub(ShardFolder)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return filepath.Join(store, ShardFolder, h.file()), in.WriteBy(h.file(), func(to io.Writer) error {
		lines := json.NewEncoder(to)
		lost := lines.Encode(h)
		next, early := 0, map[int]outcome.Outcome{}
		err := run(func(j int, o outcome.Outcome) {
			early[j] = o
			for o, ok := early[next]; ok && lost == nil; o, ok = early[next] {
				if o.Dir, lost = relative(store, o.Dir); lost == nil {
					lost = lines.Encode(o)
				}
				delete(early, next)
				next++
			}
		})
		if err = cmp.Or(err, lost, lines.Encode(end{&next})); err != nil {
			return err
		}
		return to.(interface{ Sync() error }).Sync()
	})
}

// relative is a run's directory as seen from the store, which may be elsewhere when it is read.
func relative(store, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	rel, err := filepath.Rel(store, dir)
	return filepath.ToSlash(rel), err
}

// parseHead reads a head, which has to be what it says.
func parseHead(line []byte) (h ShardHead, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("its first line is no head of a shard: %w", err)
	}
	switch {
	case h.Schema != shardSchema:
		return h, fmt.Errorf("it has schema %d, and this version reads %d", h.Schema, shardSchema)
	case h.Of < 1 || h.Of > MaxShards || h.Shard < 1 || h.Shard > h.Of:
		return h, fmt.Errorf("there is no shard %d of %d", h.Shard, h.Of)
	case h.Seeds < 1 || len(h.Scenarios) == 0 && len(h.Skipped) == 0:
		return h, errors.New("it has no runs")
	case h.Digest != h.digest():
		return h, errors.New("its digest is not that of what it says: it was changed")
	}
	return h, nil
}
