package campaign

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// shardFolder is where shards lie in a store.
const shardFolder = "shards"

// shardSchema is the version of a shard's file.
const shardSchema = 1

// MaxShards bounds the shards of a sweep: they are read side by side.
const MaxShards = 1000

// ParseShard reads which shard is asked for, as in 3/8.
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

// ShardHead is the first line of a shard's file: what the sweep is, and which part of it this is.
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
	Scenarios []Pick            `json:"scenarios"`
	Skipped   []outcome.Outcome `json:"skipped,omitempty"`
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

// WriteShard has the runs of a shard made and writes its file, whose path it returns. run calls done
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
	in, err := above.Sub(shardFolder)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return filepath.Join(store, shardFolder, h.file()), in.WriteBy(h.file(), func(to io.Writer) error {
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
	for _, s := range h.Scenarios {
		s.MapCauses(verdict.CanonicalCause)
		if s.Control != nil {
			s.Control.MapCauses(verdict.CanonicalCause)
		}
	}
	return h, nil
}

// maxShardFile bounds a shard's file: ten million outcomes.
const maxShardFile = 16 << 30

// mostDepth is how many folders a shard may lie in below one that is named: an artefact's, its
// store's, and the shards'.
const mostDepth = 3

// storeOf is the store that a shard's file lies in; the folders of its runs are named from there.
func storeOf(path string) string { return filepath.Dir(filepath.Dir(path)) }

// unlinked refuses a run of a store if a folder on the way to it is a link.
func unlinked(store, run string) error {
	for at := run; at != "" && at != "."; at = filepath.Dir(at) {
		below := filepath.Join(store, at)
		if is, err := os.Lstat(below); err == nil && is.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link, and none is followed", below)
		}
	}
	return nil
}

// Sweep is the shards of one sweep that are there.
type Sweep struct {
	ShardHead                // of one of them
	shards    map[int]string // the path of each, by its number
}

// errNoShard says that there is no shard where one looked.
var errNoShard = errors.New("no shard's file is there")

// ReadShards reads the shards' files in folders and those below them; a path may be that of a file. It
// refuses files that are cut, changed, there twice, or of different sweeps.
func ReadShards(ctx context.Context, paths ...string) (*Sweep, error) {
	var found []string
	for _, path := range paths {
		if err := find(path, mostDepth, func(path string) { found = append(found, path) }); err != nil {
			return nil, err
		}
	}
	s := &Sweep{shards: map[int]string{}}
	for _, path := range found {
		h, err := check(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if len(s.shards) == 0 {
			s.ShardHead = h
		}
		if why := differs(s.ShardHead, h); why != "" {
			return nil, fmt.Errorf("%s and %s are of different sweeps: %s", s.shards[s.Shard], path, why)
		}
		if other, there := s.shards[h.Shard]; there && other != path {
			return nil, fmt.Errorf("shard %d is there twice: %s and %s", h.Shard, other, path)
		}
		s.shards[h.Shard] = path
	}
	if len(s.shards) == 0 {
		return nil, errNoShard
	}
	return s, nil
}

// find tells of the shards' files in a folder and those below it; path may be a file itself.
func find(path string, depth int, tell func(path string)) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		tell(path)
		return nil
	}
	in, err := files.OpenFolder(path)
	if err != nil {
		return err
	}
	defer in.Close()
	entries, err := in.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if (e.Name() == shardFolder || fileName.MatchString(e.Name())) && e.Type()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link, and none is followed", filepath.Join(path, e.Name()))
		}
		if e.IsDir() && e.Name() == shardFolder { // it is a store, and the rest of it are runs
			return find(filepath.Join(path, shardFolder), 0, tell)
		}
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		switch {
		case e.IsDir() && depth > 0:
			if err := find(below, depth-1, tell); err != nil {
				return err
			}
		case !e.IsDir() && fileName.MatchString(e.Name()):
			tell(below)
		}
	}
	return nil
}

// differs says in what two shards are not of one sweep; "": they are.
func differs(a, b ShardHead) string {
	switch {
	case a.Digest == b.Digest:
		return ""
	case a.Version != b.Version:
		return fmt.Sprintf("version %s and %s", a.Version, b.Version)
	case a.Of != b.Of:
		return fmt.Sprintf("%d shards and %d", a.Of, b.Of)
	case a.Backend != b.Backend:
		return fmt.Sprintf("backend %s and %s", a.Backend, b.Backend)
	case a.Seed != b.Seed || a.Seeds != b.Seeds:
		return fmt.Sprintf("%d seeds from %d on and %d from %d on", a.Seeds, a.Seed, b.Seeds, b.Seed)
	}
	return fmt.Sprintf("their scenarios are not the same (%s; %s)", a.Command, b.Command)
}

// check reads a shard's head and sees that all its outcomes are there, each in its place, and no
// run of theirs behind a link.
func check(ctx context.Context, path string) (ShardHead, error) {
	l, err := open(path)
	if err != nil {
		return ShardHead{}, err
	}
	defer l.Close()
	for j := range l.Runs() {
		o, err := l.outcome(j)
		if err == nil {
			err = unlinked(storeOf(path), filepath.FromSlash(o.Dir))
		}
		if err != nil || ctx.Err() != nil {
			return l.ShardHead, cmp.Or(err, ctx.Err())
		}
	}
	return l.ShardHead, l.ends()
}

// Missing are the shards that are not there.
func (s *Sweep) Missing() (missing []int) {
	for k := 1; k <= s.Of; k++ {
		if _, there := s.shards[k]; !there {
			missing = append(missing, k)
		}
	}
	return missing
}

// Total is how many runs the sweep has.
func (s *Sweep) Total() int { return s.total() }

// Each calls do with what came of each run, in order. No shard may be missing. It holds one
// outcome at a time.
func (s *Sweep) Each(ctx context.Context, do func(i int, o outcome.Outcome)) error {
	in := make([]*lines, s.Of)
	for k, path := range s.shards {
		l, err := open(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer l.Close()
		in[k-1] = l
	}
	for i := range s.total() {
		path := s.shards[i%s.Of+1]
		o, err := in[i%s.Of].outcome(i / s.Of)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("read %s: %w", path, err)
		case o.Dir != "":
			o.Dir = filepath.Join(storeOf(path), filepath.FromSlash(o.Dir))
		}
		do(i, o)
	}
	return nil
}

// lines reads a shard's file.
type lines struct {
	ShardHead
	*os.File
	scan *bufio.Scanner
}

// mostLine bounds an outcome, or a head with the whole catalogue in it.
const mostLine = 16 << 20

func open(path string) (*lines, error) {
	f, err := files.Open(path, maxShardFile)
	if err != nil {
		return nil, err
	}
	l := &lines{File: f, scan: bufio.NewScanner(f)}
	l.scan.Buffer(nil, mostLine)
	l.scan.Split(wholeLines)
	line, err := l.next()
	if err == nil {
		l.ShardHead, err = parseHead(line)
	} else if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// next is the next line; it is gone when the next is read.
func (l *lines) next() ([]byte, error) {
	if l.scan.Scan() {
		return l.scan.Bytes(), nil
	}
	if err := l.scan.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// outcome is what came of the shard's j-th run, which is the next line.
func (l *lines) outcome(j int) (o outcome.Outcome, err error) {
	line, err := l.next()
	if err == nil {
		err = json.Unmarshal(verdict.CanonicalJSON(line), &o)
	}
	i := l.Run(j)
	at, seed := l.Scenarios[i/l.Seeds].ID(), l.Seed+uint64(i%l.Seeds)
	switch {
	case errors.Is(err, io.EOF), err == nil && o.Schema == 0 && isEnd(line):
		return o, fmt.Errorf("it was cut: it has %d of %d outcomes", j, l.Runs())
	case err != nil:
		return o, fmt.Errorf("outcome %d of %d: %w", j+1, l.Runs(), err)
	case o.Check() != nil:
		return o, fmt.Errorf("outcome %d of %d: %w", j+1, l.Runs(), o.Check())
	case o.Scenario != at || o.Seed != seed:
		return o, fmt.Errorf("where %s with seed %d should stand is %s with seed %d", at, seed, o.Scenario, o.Seed)
	case o.Dir != "" && !filepath.IsLocal(filepath.FromSlash(o.Dir)):
		return o, fmt.Errorf("outcome %d of %d: its folder %q is not in the store", j+1, l.Runs(), o.Dir)
	}
	return o, nil
}

// ends sees that the file ends after its last outcome, as it says.
func (l *lines) ends() error {
	line, err := l.next()
	var e end
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it was cut: its end is not there")
	case err != nil:
		return err
	case json.Unmarshal(line, &e) != nil || e.End == nil:
		return fmt.Errorf("there is more in it than %d outcomes", l.Runs())
	case *e.End != l.Runs():
		return fmt.Errorf("its end tells of %d outcomes, and it has %d", *e.End, l.Runs())
	}
	if _, err = l.next(); err == nil {
		return errors.New("it goes on after its end")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// isEnd says whether a line is an end, whatever it tells.
func isEnd(line []byte) bool {
	var e end
	return json.Unmarshal(line, &e) == nil && e.End != nil
}

// wholeLines splits by line, and what has no end is none.
func wholeLines(text []byte, over bool) (int, []byte, error) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1, text[:i], nil
	}
	if over && len(text) > 0 {
		return 0, nil, errors.New("it was cut in the middle of a line")
	}
	return 0, nil, nil
}
