//go:build linux && nightly

package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	containerapi "github.com/docker/docker/api/types/container"
	imageapi "github.com/docker/docker/api/types/image"

	"lockpick/docker/engine"
)

// composeImage imports an image for compose.yaml. It contains lockpick and, for building node images, this
// machine's redis-server. It has no owner label, because its containers would inherit the label.
func composeImage(t *testing.T, e *engine.Engine) (ref string) {
	t.Helper()
	about, err := e.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err := imageSource{}.findServer()
	if err != nil {
		t.Skip(err)
	}
	i, err := newImage("whole", server, server)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "lockpick")
	if err := runGo(t.Context(), about.Arch, "", "build", "-o", binary, clientPackage); err != nil {
		t.Fatal(err)
	}
	if err := i.add(binary, "/lockpick"); err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if err := i.write(&tar); err != nil {
		t.Fatal(err)
	}
	ref = fmt.Sprintf("lockpick-test-whole:%d", os.Getpid())
	out, err := e.API.ImageImport(t.Context(), imageapi.ImportSource{Source: &tar, SourceName: "-"}, ref,
		imageapi.ImportOptions{Changes: []string{`ENTRYPOINT ["/lockpick"]`, "ENV LOCKPICK_STORE=/runs"}})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := new(bytes.Buffer).ReadFrom(out); err != nil { // the image exists only once the reply is complete
		t.Fatal(err)
	}
	t.Cleanup(func() { e.RemoveImage(context.Background(), ref) })
	return ref
}

// composeCommand returns the compose command, which has two forms.
func composeCommand(t *testing.T) []string {
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err != nil && os.Getenv("CI") != "" {
		t.Fatal("docker compose is missing, but required in CI: apt-get install docker-compose")
	} else if err != nil {
		t.Skip("docker compose is missing: apt-get install docker-compose")
	}
	return []string{"docker-compose"}
}

// lockpick works in the container of compose.yaml, and in a container where it can't see the machine's
// processes and must kill them through the engine. It leaves nothing behind.
func TestCompose(t *testing.T) {
	e := testEngine(t)
	command := composeCommand(t)
	image, store := composeImage(t, e), t.TempDir()
	env := append(os.Environ(), "LOCKPICK_IMAGE="+image, "LOCKPICK_STORE="+store, "LOCKPICK_ARGS=holder-crashes/ delayed-restart/")
	project := fmt.Sprintf("lockpick-test-%d", os.Getpid())
	before := leftovers(t, engine.OwnerLabel)
	t.Cleanup(func() {
		for _, label := range []string{"com.docker.compose.project=" + project, engine.OwnerLabel} {
			for _, name := range leftovers(t, label) {
				if !slices.Contains(before, name) {
					t.Errorf("left behind: %s", name)
				}
			}
		}
	})
	cmd := exec.Command(command[0], append(command[1:], "--project-name", project, "--file", "compose.yaml", "run", "--rm", "lockpick")...)
	cmd.Env = env
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "2 as expected") {
		t.Errorf("compose run: %v\n%s", err, output)
	}
	if found, _ := filepath.Glob(filepath.Join(store, "delayed-restart", "*", "report.html")); len(found) == 0 {
		t.Errorf("no report in the store:\n%s", output)
	}
	created, err := e.API.ContainerCreate(t.Context(), &containerapi.Config{Image: image, Cmd: []string{"run", "--backend", "docker", "delayed-restart/", "power-loss-everysec/"}},
		&containerapi.HostConfig{Binds: []string{engine.DefaultSocket + ":" + engine.DefaultSocket}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Remove(context.Background(), created.ID)
	wait, err := e.Start(t.Context(), created.ID)
	if err != nil {
		t.Fatal(err)
	}
	status, err := wait()
	logs := e.Logs(t.Context(), created.ID)
	if err != nil || status != 0 || !strings.Contains(logs, "the engine sees other files") || !strings.Contains(logs, "1 as expected, 1 skipped") {
		t.Errorf("container exited with status %d, %v:\n%s", status, err, logs)
	}
}
