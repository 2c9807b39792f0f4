//go:build nightly && linux

package shards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tool builds a program of the module beside the night's checks.
func tool(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	c := exec.CommandContext(t.Context(), "go", "build", "-C", "../../.ci/engines", "-o", path, program)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, text)
	}
	return path
}

// s3 starts a server of S3 with a bucket called sweeps, whose folder is returned, and makes it the
// one that the environment names.
func s3(t *testing.T) (address, folder string) {
	root := t.TempDir()
	folder = filepath.Join(root, "sweeps")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprint("127.0.0.1:", freePort(t))
	begin(t, tool(t, "github.com/versity/versitygw/cmd/versitygw"), "--access", "lockpick", "--secret", "of the night", "--port", address, "posix", root)
	await(t, "the server of S3 answers", time.Minute, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "http://" + address, "AWS_ACCESS_KEY_ID": "lockpick", "AWS_SECRET_ACCESS_KEY": "of the night",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "", "AWS_SESSION_TOKEN": ""} {
		t.Setenv(name, value)
	}
	return address, folder
}

// ends runs a command that has to end with a code, and say something.
func ends(t *testing.T, c *exec.Cmd, code int, words ...string) {
	t.Helper()
	said, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != code {
		t.Errorf("%v: %v, want exit code %d: %s", c.Args, err, code, said)
	}
	for _, w := range words {
		if !bytes.Contains(said, []byte(w)) {
			t.Errorf("%v: want %q in %s", c.Args, w, said)
		}
	}
}

// TestBucket records shards in a bucket of a real server, which is cut off, refuses and is damaged.
func TestBucket(t *testing.T) {
	binary := lockpick(t)
	address, folder := s3(t)
	t.Run("merged", func(t *testing.T) { mergedFromBucket(t, binary, folder) })
	t.Run("refused", func(t *testing.T) { bucketRefuses(t, binary, address) })
	t.Run("cut", func(t *testing.T) { cutUpload(t, binary, address, folder) })
	t.Run("Kubernetes", func(t *testing.T) { kubernetesJob(t, binary, folder) })
}

// mergedFromBucket merges shards from there, as it stands and as it is damaged.
func mergedFromBucket(t *testing.T, binary, folder string) {
	const place = "s3://sweeps/of/tonight"
	run := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), binary, append(args, "--store", filepath.Join(t.TempDir(), "store"))...)
	}
	for k := 1; k <= 8; k++ {
		if k == 5 {
			ends(t, run("merge", place), 2, "4 of 8 shards are missing: 5,6,7,8", "--shard 5/8")
		}
		ends(t, run(append(append([]string{"run"}, swept()...), "--shard", fmt.Sprint(k, "/8"), "--to", place)...), 0, "recorded: "+place+"/shards/", fmt.Sprintf("-%d-of-8.jsonl", k))
	}
	sameAsOne(t, binary, place)
	sameAsOne(t, binary, "s3://sweeps")

	objects, err := filepath.Glob(filepath.Join(folder, "of/tonight/shards/*.jsonl"))
	if err != nil || len(objects) != 8 {
		t.Fatal(objects, err)
	}
	third := objects[slices.IndexFunc(objects, func(o string) bool { return strings.Contains(o, "-3-of-8") })]
	name := place + "/shards/" + filepath.Base(third)
	whole, err := os.ReadFile(third)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(whole, []byte("\n"))
	put := func(path string, text []byte) {
		t.Helper()
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for want, text := range map[string][]byte{
		"it is empty":                     nil,
		"it was cut in the middle":        whole[:len(whole)/2],
		"it was cut: its end":             bytes.TrimSuffix(whole, all[len(all)-2]),
		"its digest is not":               bytes.Replace(whole, []byte(`"seed":1`), []byte(`"seed":2`), 1),
		"should stand random-faults with": bytes.Join(slices.Delete(slices.Clone(all), 2, 3), nil),
	} {
		put(third, text)
		ends(t, run("merge", place), 64, name, strings.Split(want, " random")[0])
	}
	put(third, whole)
	twice := filepath.Join(folder, "of/tonight/again/shards", filepath.Base(third))
	put(twice, bytes.Replace(whole, []byte(`"events":`), []byte(`"events":1`), 1))
	ends(t, run("merge", place), 64, "shard 3 is there twice: ", name, "s3://sweeps/of/tonight/again/shards/")
	if err := os.Remove(twice); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{"8 shards and 9": {"--shard", "1/9"}, " seeds from 1 on and ": {"--shard", "1/8", "--seed", "7"}} {
		other := filepath.Join(t.TempDir(), "other")
		says(t, exec.Command(binary, append(append([]string{"run"}, append(swept(), args...)...), "--store", other)...))
		ends(t, run("merge", place, other), 64, "are of different sweeps: ", want, other, place)
	}
	ends(t, run("merge", "--missing", place), 0)
	sameAsOne(t, binary, place)
}

// bucketRefuses: who may not write, or has the name wrong, is told before anything is run.
func bucketRefuses(t *testing.T, binary, address string) {
	for name, x := range map[string]struct {
		env, place string
		words      []string
	}{
		"no bucket":     {"", "s3://nowhere/x", []string{"error: write to s3://nowhere/x: ", "hint: make the bucket nowhere"}},
		"no user":       {"AWS_ACCESS_KEY_ID=somebody", "s3://sweeps", []string{"error: write to s3://sweeps: ", "hint: see that AWS_ACCESS_KEY_ID"}},
		"wrong secret":  {"AWS_SECRET_ACCESS_KEY=guessed", "s3://sweeps", []string{"error: write to s3://sweeps: ", "hint: see that AWS_ACCESS_KEY_ID"}},
		"nobody at all": {"AWS_ACCESS_KEY_ID=", "s3://sweeps", []string{"nothing names credentials", "hint: set AWS_ACCESS_KEY_ID"}},
		"no server":     {fmt.Sprint("AWS_ENDPOINT_URL=http://127.0.0.1:", freePort(t)), "s3://sweeps", []string{"error: write to s3://sweeps: ", "hint: see that http://127.0.0.1:"}},
		"no S3":         {"AWS_ENDPOINT_URL=https://" + address, "s3://sweeps", []string{"error: write to s3://sweeps: ", "hint: see that https://127.0.0.1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"run", "baseline/", "--shard", "1/1", "--to", x.place}, {"merge", x.place}} {
				c := exec.CommandContext(t.Context(), binary, append(args, "--store", filepath.Join(t.TempDir(), "store"))...)
				c.Env = append(append(os.Environ(), "HOME="+t.TempDir()), x.env)
				words := x.words
				if args[0] == "merge" { // what it says of a public bucket
					words = []string{"error: list s3://", "hint: "}
				}
				ends(t, c, 3, words...)
			}
		})
	}
}

// cutter passes connections on to a server, and cuts each that has sent so many bytes, as long as
// it is told to.
func cutter(t *testing.T, server string, after int64) (address string, cuts *atomic.Bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	cuts = new(atomic.Bool)
	cuts.Store(true)
	go func() {
		for {
			from, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				from.Close()
				continue
			}
			go func() {
				defer from.Close()
				defer to.Close()
				if cuts.Load() {
					io.CopyN(to, from, after)
					return
				}
				io.Copy(to, from)
			}()
			go io.Copy(from, to)
		}
	}()
	return l.Addr().String(), cuts
}

// cutUpload: what was cut on its way into a bucket is not there, nor does it take the place of
// what was; the shard is in its store, and can be put together from there.
func cutUpload(t *testing.T, binary, address, folder string) {
	through, cuts := cutter(t, address, 20_000)
	t.Setenv("AWS_ENDPOINT_URL", "http://"+through)
	store := filepath.Join(t.TempDir(), "store")
	shard := func() *exec.Cmd {
		return exec.CommandContext(t.Context(), binary, append(append([]string{"run"}, swept()...), "--shard", "1/1", "--to", "s3://sweeps/cut", "--store", store)...)
	}
	there := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, "cut/shards/*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	ends(t, shard(), 3, "the shard is in "+store, "error: write s3://sweeps/cut/shards/", "hint: see that http://127.0.0.1:")
	if left := there(); len(left) != 0 {
		t.Errorf("a cut upload left %v", left)
	}
	ends(t, exec.Command(binary, "merge", "s3://sweeps/cut", "--store", t.TempDir()), 64, "no shard's file is there")
	sameAsOne(t, binary, store)

	cuts.Store(false)
	ends(t, shard(), 0, "recorded: s3://sweeps/cut/shards/")
	cuts.Store(true)
	ends(t, shard(), 3, "error: write s3://sweeps/cut/shards/")
	cuts.Store(false)
	sameAsOne(t, binary, "s3://sweeps/cut")
}

// kubernetesJob reads the manifest as Kubernetes does, and runs what it says for each index,
// with a smaller sweep.
func kubernetesJob(t *testing.T, binary, folder string) {
	reader := tool(t, "./job")
	manifest, err := filepath.Abs("engines/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Completions   int
		Command, Args []string
		Env           map[string]string
	}
	if err := json.Unmarshal([]byte(says(t, exec.Command(reader, manifest))), &job); err != nil {
		t.Fatal(err)
	}
	i := slices.Index(job.Args, "--seeds")
	if job.Completions != 8 || job.Command != nil || i < 0 || !slices.Contains(job.Args, fmt.Sprint("auto/", job.Completions)) {
		t.Fatalf("%+v", job)
	}
	job.Args = append(append(slices.Clone(job.Args[:1]), swept()...), job.Args[i+2:]...)
	job.Args[slices.Index(job.Args, "--store")+1] = filepath.Join(t.TempDir(), "store")
	for index := range job.Completions {
		c := exec.CommandContext(t.Context(), binary, job.Args...)
		c.Env = append(os.Environ(), fmt.Sprint("JOB_COMPLETION_INDEX=", index))
		for name, value := range job.Env {
			c.Env = append(c.Env, name+"="+value)
		}
		says(t, c)
	}
	sameAsOne(t, binary, job.Args[slices.Index(job.Args, "--to")+1])
	if found, err := filepath.Glob(filepath.Join(folder, "baseline/shards/*.jsonl")); err != nil || len(found) != 8 {
		t.Errorf("%v %v", found, err)
	}

	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{"completionMode: Indexed": "completionMode: NonIndexed", "parallelism:": "paralelism:", "Never": "OnFailure"} {
		path := filepath.Join(t.TempDir(), "wrong.yaml")
		if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(wrong), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		ends(t, exec.Command(reader, path), 1, "error: ")
	}
}
