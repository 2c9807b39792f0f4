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
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// shardFolder is a store's folder for shards.
const shardFolder = "shards"

// shardSchema is the version of the shard file format.
const shardSchema = 1

// MaxShards limits the shards in a sweep, because merging keeps all of their files open.
const MaxShards = 1000

// ParseShard parses text such as 3/8: a shard's number and the number of shards.
func ParseShard(text string) (k, n int, err error) {
	index, all, _ := strings.Cut(text, "/")
	if k, err = strconv.Atoi(index); err != nil {
		return 0, 0, fmt.Errorf("%q is not a shard", text)
	}
	if n, err = strconv.Atoi(all); err != nil {
		return 0, 0, fmt.Errorf("%q lacks the number of shards", text)
	}
	if n < 1 || n > MaxShards || k < 1 || k > n {
		return 0, 0, fmt.Errorf("there is no shard %d of %d", k, n)
	}
	return k, n, nil
}

// ShardHeader is the first line of a shard file. It describes the sweep and the shard.
type ShardHeader struct {
	Schema    int               `json:"schema"`
	Digest    string            `json:"digest"` // identifies the sweep
	Shard     int               `json:"shard"`  // starts at 1
	Shards    int               `json:"of"`
	Version   string            `json:"version"` // of lockpick
	Backend   string            `json:"backend"`
	Seed      uint64            `json:"seed"`  // the first seed
	Seeds     int               `json:"seeds"` // per scenario
	Command   string            `json:"command"`
	Named     bool              `json:"named"` // whether the user named the scenarios, so that each gets a line of output
	Overrides []string          `json:"sets,omitempty"`
	Scenarios []Pick            `json:"scenarios"`
	Skipped   []outcome.Outcome `json:"skipped,omitempty"`
}

// digest covers everything that must be equal in all shards of a sweep.
func (h ShardHeader) digest() string {
	h.Schema, h.Digest, h.Shard, h.Command, h.Named = 0, "", 0, "", false
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // plain data: can't happen
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func (h ShardHeader) total() int { return len(h.Scenarios) * h.Seeds }

// Runs returns the number of runs in the shard.
func (h ShardHeader) Runs() int { return (h.total() + h.Shards - h.Shard) / h.Shards }

// RunIndex returns the index in the sweep of the shard's j-th run.
func (h ShardHeader) RunIndex(j int) int { return h.Shard - 1 + j*h.Shards }

func (h ShardHeader) file() string {
	return fmt.Sprintf("%s-%d-of-%d.jsonl", h.Digest[:digestLen], h.Shard, h.Shards)
}

// digestLen is how many digits of the digest a file name contains.
const digestLen = 12

var shardFileName = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d}-\d+-of-\d+\.jsonl$`, digestLen))

// shardEnd is the last line of a shard file. It counts the outcomes.
type shardEnd struct {
	End *int `json:"end"`
}

// WriteShard runs a shard, writes its file and returns the file's path. run must call done once for
// each run, with the run's index in the shard and its outcome. The calls may come in any order but
// must not overlap. If run fails, WriteShard leaves no file.
func WriteShard(store string, h ShardHeader, run func(done func(j int, o outcome.Outcome)) error) (path string, err error) {
	h.Schema = shardSchema
	h.Digest = h.digest()
	storeDir, err := files.OpenFolder(store)
	if err != nil {
		return "", err
	}
	defer storeDir.Close()
	shardDir, err := storeDir.Sub(shardFolder)
	if err != nil {
		return "", err
	}
	defer shardDir.Close()
	return filepath.Join(store, shardFolder, h.file()), shardDir.WriteFunc(h.file(), func(to io.Writer) error {
		lines := json.NewEncoder(to)
		writeErr := lines.Encode(h)
		next, outOfOrder := 0, map[int]outcome.Outcome{}
		err := run(func(j int, o outcome.Outcome) {
			outOfOrder[j] = o
			for o, ok := outOfOrder[next]; ok && writeErr == nil; o, ok = outOfOrder[next] {
				if o.Dir, writeErr = relativeDir(store, o.Dir); writeErr == nil {
					writeErr = lines.Encode(o)
				}
				delete(outOfOrder, next)
				next++
			}
		})
		if err = cmp.Or(err, writeErr, lines.Encode(shardEnd{&next})); err != nil {
			return err
		}
		return to.(interface{ Sync() error }).Sync()
	})
}

// relativeDir makes a run's directory relative to the store, because the store may be moved before
// the shard is read.
func relativeDir(store, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	rel, err := filepath.Rel(store, dir)
	return filepath.ToSlash(rel), err
}

// parseHeader parses and validates a shard header.
func parseHeader(line []byte) (h ShardHeader, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("the first line is not a shard header: %w", err)
	}
	switch {
	case h.Schema != shardSchema:
		return h, fmt.Errorf("schema %d is not supported; this version reads schema %d", h.Schema, shardSchema)
	case h.Shards < 1 || h.Shards > MaxShards || h.Shard < 1 || h.Shard > h.Shards:
		return h, fmt.Errorf("there is no shard %d of %d", h.Shard, h.Shards)
	case h.Seeds < 1 || len(h.Scenarios) == 0 && len(h.Skipped) == 0:
		return h, errors.New("no runs")
	case h.Digest != h.digest():
		return h, errors.New("the digest does not match: the file was modified")
	}
	for _, s := range h.Scenarios {
		scenario.MapCauses(s.Scenario, verdict.CanonicalCause)
		if s.Comparison != nil {
			scenario.MapCauses(*s.Comparison, verdict.CanonicalCause)
		}
	}
	return h, nil
}

// maxShardFile limits the size of a shard file to about ten million outcomes.
const maxShardFile = 16 << 30

// maxDepth is how deep to search a folder for shards: artifact, store, shards.
const maxDepth = 3

// storeOf returns the store that contains a shard file. Run directories are relative to it.
func storeOf(path string) string { return filepath.Dir(filepath.Dir(path)) }

// refuseLinks fails if a folder on the path from the store to a run is a symbolic link.
func refuseLinks(store, run string) error {
	for rel := run; rel != "" && rel != "."; rel = filepath.Dir(rel) {
		path := filepath.Join(store, rel)
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link, which is not allowed", path)
		}
	}
	return nil
}

// Sweep is the set of a sweep's available shards.
type Sweep struct {
	ShardHeader                // of any shard
	shards      map[int]string // file paths by shard number
}

var errNoShard = errors.New("no shard files found")

// ReadShards finds the shard files at the given paths, which may be files or folders to search. It
// rejects incomplete or modified files, duplicates, and shards of different sweeps.
func ReadShards(ctx context.Context, paths ...string) (*Sweep, error) {
	var found []string
	for _, path := range paths {
		if err := findShards(path, maxDepth, func(path string) { found = append(found, path) }); err != nil {
			return nil, err
		}
	}
	s := &Sweep{shards: map[int]string{}}
	for _, path := range found {
		h, err := checkShard(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if len(s.shards) == 0 {
			s.ShardHeader = h
		}
		if why := difference(s.ShardHeader, h); why != "" {
			return nil, fmt.Errorf("%s and %s belong to different sweeps: %s", s.shards[s.Shard], path, why)
		}
		if other, exists := s.shards[h.Shard]; exists && other != path {
			return nil, fmt.Errorf("duplicate shard %d: %s and %s", h.Shard, other, path)
		}
		s.shards[h.Shard] = path
	}
	if len(s.shards) == 0 {
		return nil, errNoShard
	}
	return s, nil
}

// findShards calls add for the file at path or, if path is a folder, for each shard file in it, down
// to the given depth.
func findShards(path string, depth int, add func(path string)) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		add(path)
		return nil
	}
	dir, err := files.OpenFolder(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if (e.Name() == shardFolder || shardFileName.MatchString(e.Name())) && e.Type()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link, which is not allowed", filepath.Join(path, e.Name()))
		}
		if e.IsDir() && e.Name() == shardFolder { // the folder is a store, and everything else in it is runs
			return findShards(filepath.Join(path, shardFolder), 0, add)
		}
	}
	for _, e := range entries {
		entryPath := filepath.Join(path, e.Name())
		switch {
		case e.IsDir() && depth > 0:
			if err := findShards(entryPath, depth-1, add); err != nil {
				return err
			}
		case !e.IsDir() && shardFileName.MatchString(e.Name()):
			add(entryPath)
		}
	}
	return nil
}

// difference says how the sweeps of two shards differ, or returns "" if they are the same.
func difference(a, b ShardHeader) string {
	switch {
	case a.Digest == b.Digest:
		return ""
	case a.Version != b.Version:
		return fmt.Sprintf("versions %s and %s", a.Version, b.Version)
	case a.Shards != b.Shards:
		return fmt.Sprintf("%d shards and %d", a.Shards, b.Shards)
	case a.Backend != b.Backend:
		return fmt.Sprintf("backends %s and %s", a.Backend, b.Backend)
	case a.Seed != b.Seed || a.Seeds != b.Seeds:
		return fmt.Sprintf("%d seeds from %d and %d seeds from %d", a.Seeds, a.Seed, b.Seeds, b.Seed)
	}
	return fmt.Sprintf("their scenarios differ (%s; %s)", a.Command, b.Command)
}

// checkShard reads a shard file and returns its header. It fails unless the outcomes are complete
// and in order and no path to a run contains a symbolic link.
func checkShard(ctx context.Context, path string) (ShardHeader, error) {
	l, err := openShard(path)
	if err != nil {
		return ShardHeader{}, err
	}
	defer l.Close()
	for j := range l.Runs() {
		o, err := l.outcome(j)
		if err == nil {
			err = refuseLinks(storeOf(path), filepath.FromSlash(o.Dir))
		}
		if err != nil || ctx.Err() != nil {
			return l.ShardHeader, cmp.Or(err, ctx.Err())
		}
	}
	return l.ShardHeader, l.checkEnd()
}

// Missing returns the numbers of the missing shards.
func (s *Sweep) Missing() (missing []int) {
	for k := 1; k <= s.Shards; k++ {
		if _, exists := s.shards[k]; !exists {
			missing = append(missing, k)
		}
	}
	return missing
}

// Total returns the number of runs in the whole sweep.
func (s *Sweep) Total() int { return s.total() }

// Each calls do with the outcome of each run, in order. No shard may be missing. It holds one
// outcome in memory at a time.
func (s *Sweep) Each(ctx context.Context, do func(i int, o outcome.Outcome)) error {
	readers := make([]*shardReader, s.Shards)
	for k, path := range s.shards {
		l, err := openShard(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer l.Close()
		readers[k-1] = l
	}
	for i := range s.total() {
		path := s.shards[i%s.Shards+1]
		o, err := readers[i%s.Shards].outcome(i / s.Shards)
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

type shardReader struct {
	ShardHeader
	*os.File
	scan *bufio.Scanner
}

// maxLine limits the length of a line: an outcome, or a header that lists the whole catalog.
const maxLine = 16 << 20

func openShard(path string) (*shardReader, error) {
	f, err := files.Open(path, maxShardFile)
	if err != nil {
		return nil, err
	}
	l := &shardReader{File: f, scan: bufio.NewScanner(f)}
	l.scan.Buffer(nil, maxLine)
	l.scan.Split(splitWholeLines)
	line, err := l.next()
	if err == nil {
		l.ShardHeader, err = parseHeader(line)
	} else if errors.Is(err, io.EOF) {
		err = errors.New("the file is empty")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// next returns the next line, which is valid until the next call.
func (l *shardReader) next() ([]byte, error) {
	if l.scan.Scan() {
		return l.scan.Bytes(), nil
	}
	if err := l.scan.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// outcome reads the next line, which must be the outcome of the shard's j-th run.
func (l *shardReader) outcome(j int) (o outcome.Outcome, err error) {
	line, err := l.next()
	if err == nil {
		err = json.Unmarshal(verdict.CanonicalJSON(line), &o)
	}
	i := l.RunIndex(j)
	at, seed := l.Scenarios[i/l.Seeds].ID(), l.Seed+uint64(i%l.Seeds)
	switch {
	case errors.Is(err, io.EOF), err == nil && o.Schema == 0 && isEnd(line):
		return o, fmt.Errorf("the file is truncated: %d of %d outcomes", j, l.Runs())
	case err != nil:
		return o, fmt.Errorf("outcome %d of %d: %w", j+1, l.Runs(), err)
	case o.Check() != nil:
		return o, fmt.Errorf("outcome %d of %d: %w", j+1, l.Runs(), o.Check())
	case o.Scenario != at || o.Seed != seed:
		return o, fmt.Errorf("expected %s with seed %d, found %s with seed %d", at, seed, o.Scenario, o.Seed)
	case o.Dir != "" && !filepath.IsLocal(filepath.FromSlash(o.Dir)):
		return o, fmt.Errorf("outcome %d of %d: folder %q is not in the store", j+1, l.Runs(), o.Dir)
	}
	return o, nil
}

// checkEnd checks the end line and that nothing follows it.
func (l *shardReader) checkEnd() error {
	line, err := l.next()
	var e shardEnd
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is truncated: the end line is missing")
	case err != nil:
		return err
	case json.Unmarshal(line, &e) != nil || e.End == nil:
		return fmt.Errorf("more than %d outcomes", l.Runs())
	case *e.End != l.Runs():
		return fmt.Errorf("the end line counts %d outcomes, but there are %d", *e.End, l.Runs())
	}
	if _, err = l.next(); err == nil {
		return errors.New("data after the end line")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// isEnd reports whether a line is an end line, whatever its count.
func isEnd(line []byte) bool {
	var e shardEnd
	return json.Unmarshal(line, &e) == nil && e.End != nil
}

// splitWholeLines is a bufio.SplitFunc for lines. It fails if the last line has no newline.
func splitWholeLines(text []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1, text[:i], nil
	}
	if atEOF && len(text) > 0 {
		return 0, nil, errors.New("the file is truncated in the middle of a line")
	}
	return 0, nil, nil
}
