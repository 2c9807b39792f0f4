//go:build nightly && linux

package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// helpFor returns the commands for an engine from lockpick help shards, with the test's sweep.
func helpFor(t *testing.T, binary, engine string) string {
	t.Helper()
	text := outputOf(t, exec.Command(binary, "help", "shards"))
	match := regexp.MustCompile(`(?m)^` + engine + `.*:\n((?:    .*\n)+)`).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no help for %s in %s", engine, text)
	}
	return strings.ReplaceAll(match[1], "baseline/ --seeds 10000", strings.Join(sweepArgs(), " "))
}

// shellCommand returns a command that runs a script in a folder, with lockpick in PATH and in the
// folder's bin.
func shellCommand(t *testing.T, dir, binary, script string, env ...string) *exec.Cmd {
	t.Helper()
	if err := os.Symlink(filepath.Dir(binary), filepath.Join(dir, "bin")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	c.Dir = dir
	c.Env = append(append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH")), env...)
	return c
}

// ciCommands extracts the commands that run a shard and merge the shards from a CI file.
func ciCommands(text string) (shard, merge string) {
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "- "), "run: ")
		switch {
		case strings.HasPrefix(line, "bin/lockpick run"):
			shard = line
		case strings.HasPrefix(line, "bin/lockpick merge"):
			merge = line
		}
	}
	return shard, merge
}

// The commands work as printed, except that the sweep is smaller here. GNU parallel repeats a shard
// whose process is killed.
func TestShardHelpCommands(t *testing.T) {
	requirePrograms(t, "apt-get install parallel", "parallel")
	binary := buildLockpick(t)
	t.Run("GNU parallel", func(t *testing.T) {
		dir := t.TempDir()
		c := shellCommand(t, dir, binary, helpFor(t, binary, "GNU parallel"), "SWEEP="+dir)
		var output strings.Builder
		c.Stdout, c.Stderr = &output, &output
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		killMidway(t, filepath.Join(dir, "store"), "SWEEP="+dir)
		if err := c.Wait(); err != nil || !strings.Contains(output.String(), fmt.Sprint(*engineSeeds, " runs on sim")) {
			t.Errorf("%v: %s", err, output.String())
		}
		checkMerged(t, binary, filepath.Join(dir, "store"))
	})
	t.Run("GitHub", func(t *testing.T) {
		dir := t.TempDir()
		shard, merge := ciCommands(helpFor(t, binary, "GitHub"))
		for k := 1; k <= 8; k++ { // each on its own machine, whose store is an artifact
			outputOf(t, shellCommand(t, dir, binary, strings.ReplaceAll(shard, "${{ matrix.shard }}", fmt.Sprint(k))))
			outputOf(t, shellCommand(t, dir, binary, fmt.Sprintf("mkdir -p results; mv store results/shard-%d", k)))
		}
		outputOf(t, shellCommand(t, dir, binary, merge))
		checkMerged(t, binary, filepath.Join(dir, "results"))
	})
	t.Run("GitLab", func(t *testing.T) {
		dir := t.TempDir()
		shard, merge := ciCommands(helpFor(t, binary, "GitLab"))
		for k := 1; k <= 8; k++ {
			outputOf(t, shellCommand(t, dir, binary, shard, fmt.Sprint("CI_NODE_INDEX=", k), "CI_NODE_TOTAL=8"))
		}
		outputOf(t, shellCommand(t, dir, binary, merge))
		checkMerged(t, binary, filepath.Join(dir, "results"))
	})
	t.Run("no folder is shared", func(t *testing.T) {
		fakeAWS(t)
		dir := t.TempDir()
		for k := 1; k <= 8; k++ {
			outputOf(t, shellCommand(t, dir, binary, helpFor(t, binary, "Machines without a shared folder"), fmt.Sprint("K=", k)))
		}
		outputOf(t, shellCommand(t, dir, binary, helpFor(t, binary, "Then, on the machine that merges")))
		checkMerged(t, binary, filepath.Join(dir, "results"))
	})
}
