//go:build nightly && linux

package campaign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeAWS adds a program aws to PATH that uses a local folder as the bucket.
func fakeAWS(t *testing.T) {
	t.Helper()
	bin, bucket := t.TempDir(), t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh -e
[ "$1 $2 $3" = "s3 cp --recursive" ]
at() { case $1 in s3://*) echo "%s/${1#s3://}" ;; *) echo "$1" ;; esac; }
mkdir -p "$(at "$5")"
cp -r "$(at "$4")/." "$(at "$5")"
`, bucket)
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// Kubernetes' own decoder accepts the manifest, and its command works for each index. The sweep is
// smaller than in the manifest.
func TestKubernetes(t *testing.T) {
	binary, decoder := buildLockpick(t), filepath.Join(t.TempDir(), "job")
	outputOf(t, exec.Command("go", "build", "-C", "../../.ci/engines", "-o", decoder, "./job"))
	manifest, err := filepath.Abs("engines/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Completions   int
		Command, Args []string
	}
	if err := json.Unmarshal([]byte(outputOf(t, exec.Command(decoder, manifest))), &job); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(job.Command, []string{"sh", "-ec"}) || len(job.Args) != 1 || !strings.Contains(job.Args[0], fmt.Sprintf("--shard $k/%d ", job.Completions)) {
		t.Fatalf("%+v", job)
	}
	fakeAWS(t)
	dir := t.TempDir()
	for index := range job.Completions {
		script := strings.ReplaceAll(job.Args[0], "baseline/ --seeds 10000", strings.Join(sweepArgs(), " "))
		script = strings.ReplaceAll(script, "/tmp/store", filepath.Join(t.TempDir(), "store"))
		outputOf(t, shellCommand(t, dir, binary, script, fmt.Sprint("JOB_COMPLETION_INDEX=", index)))
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"aws s3 cp --recursive s3://sweeps/baseline results", "lockpick merge results"} {
		if !bytes.Contains(text, []byte("#   "+line+"\n")) {
			t.Fatalf("the manifest does not contain %q", line)
		}
		outputOf(t, shellCommand(t, dir, binary, line))
	}
	checkMerged(t, binary, filepath.Join(dir, "results"))

	for old, wrong := range map[string]string{"completionMode: Indexed": "completionMode: NonIndexed", "parallelism:": "paralelism:", "Never": "OnFailure"} {
		path := filepath.Join(t.TempDir(), "wrong.yaml")
		if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(wrong), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(decoder, path)
		if output, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != 1 || !bytes.Contains(output, []byte("error: ")) {
			t.Errorf("with %s: %v: %s", wrong, c.ProcessState, output)
		}
	}
}
