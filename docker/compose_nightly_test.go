//go:build linux && nightly

package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/docker/engine"

	"github.com/docker/docker/api/types/container"
	imageapi "github.com/docker/docker/api/types/image"
)

// composed is an image as compose.yaml takes one, without the label by which lockpick
// tells its own, since containers would have it.
func composed(t *testing.T, e *engine.Engine, i *image, changes ...string) (ref string) {
	t.Helper()
	var tar bytes.Buffer
	if err := i.write(&tar); err != nil {
		t.Fatal(err)
	}
	ref = fmt.Sprintf("lockpick-test-%s:%d", i.sort, os.Getpid())
	out, err := e.API.ImageImport(t.Context(), imageapi.ImportSource{Source: &tar, SourceName: "-"}, ref, imageapi.ImportOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := new(bytes.Buffer).ReadFrom(out); err != nil { // until then it is not there
		t.Fatal(err)
	}
	t.Cleanup(func() { e.RemoveImage(context.Background(), ref) })
	return ref
}

// redisImage is of this machine's redis-server.
func redisImage(t *testing.T) *image {
	server, err := supply{}.server()
	if err != nil {
		t.Skip(err)
	}
	redis, err := imageOf("redis", server, server)
	if err != nil {
		t.Fatal(err)
	}
	return redis
}

// compose is the command, in one of its two forms.
func compose(t *testing.T) []string {
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err != nil && os.Getenv("CI") != "" {
		t.Fatal("there is no docker compose, and in CI it has to be there: apt-get install docker-compose")
	} else if err != nil {
		t.Skip("there is no docker compose: apt-get install docker-compose")
	}
	return []string{"docker-compose"}
}

// The nodes of compose.yaml serve its lockpick, and one that sees no process of the
// machine and has to kill by the engine; both leave them as they were, and nothing of
// them all stays.
func TestCompose(t *testing.T) {
	e := testEngine(t)
	command := compose(t)
	redis := redisImage(t)
	is, err := e.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binary, store := filepath.Join(t.TempDir(), "lockpick"), t.TempDir()
	if err := askGo(t.Context(), is.Arch, "", "build", "-o", binary, clientPackage); err != nil {
		t.Fatal(err)
	}
	lockpick, err := imageOf("alone", binary, "/lockpick")
	if err != nil {
		t.Fatal(err)
	}
	alone := composed(t, e, lockpick, `ENTRYPOINT ["/lockpick"]`, "ENV LOCKPICK_STORE=/runs")
	env := append(os.Environ(), "REDIS_IMAGE="+composed(t, e, redis), "LOCKPICK_IMAGE="+alone, "LOCKPICK_STORE="+store, "LOCKPICK_ARGS=holder-crashes/ delayed-restart/")
	project := fmt.Sprintf("lockpick-test-%d", os.Getpid())
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(command[0], append(append(command[1:], "--project-name", project, "--file", "compose.yaml"), args...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("compose %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		do("down")
		if left := remains(t, "com.docker.compose.project="+project); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	said := do("run", "--rm", "lockpick")
	for _, want := range []string{"container lockpick-n5 serves as a node", "2 as expected"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(store, "delayed-restart", "*", "report.html")); len(found) == 0 {
		t.Errorf("there is no report in the store:\n%s", said)
	}
	made, err := e.API.ContainerCreate(t.Context(), &container.Config{Image: alone, Cmd: []string{"run", "--backend", "docker", "--nodes", "lockpick-n1,lockpick-n2,lockpick-n3,lockpick-n4,lockpick-n5",
		"delayed-restart/", "power-loss-everysec/"}}, &container.HostConfig{Binds: []string{engine.UsualSocket + ":" + engine.UsualSocket}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Remove(context.Background(), made.ID)
	ended, err := e.Start(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	status, err := ended()
	said = e.Logs(t.Context(), made.ID)
	if err != nil || status != 0 || !strings.Contains(said, "the engine sees other files") || !strings.Contains(said, "1 as expected, 1 skipped") {
		t.Errorf("it ended with %d, %v:\n%s", status, err, said)
	}
	for i := range 5 { // whose networks are those of compose
		is, err := e.Inspect(t.Context(), fmt.Sprintf("lockpick-n%d", i+1))
		if err != nil || is.State.Status != "running" || len(is.NetworkSettings.Networks) != 1 {
			t.Errorf("a node is left as %+v: %v", is, err)
		}
	}
}
