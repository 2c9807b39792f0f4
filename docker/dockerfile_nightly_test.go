//go:build linux && nightly

package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/docker/engine"
	"lockpick/internal/files"
)

// dockerCommand runs the docker command and returns the output.
func dockerCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out[max(0, len(out)-3000):])
	}
	return strings.TrimSpace(string(out))
}

// Images can be built from both Dockerfiles, and lockpick works in them on each backend.
func TestDockerfiles(t *testing.T) {
	e := testEngine(t)
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("the docker command is missing: apt-get install docker.io")
	}
	redis := requireBaseImages(t, e)
	socket, err := os.Stat(engine.DefaultSocket)
	if err != nil {
		t.Skip(err)
	}
	self, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	label := engine.OwnerLabel + "=" + self.String()
	modules, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Skipf("go env GOPROXY: %v", err)
	}
	const prefix = "lockpick-test:"
	// The build stage gets its own tag so that it can be removed.
	for _, image := range []struct{ name, file, target, in string }{
		{"build", "Dockerfile", "build", ".."}, {"alone", "Dockerfile", "client", ".."}, {"whole", "Dockerfile", "", ".."}, {"node", "node.Dockerfile", "", "."},
	} {
		args := []string{"build", "--network", "host", "--label", label, "--file", image.file, "--tag", prefix + image.name}
		if image.in == ".." {
			args = append(args, "--build-arg", "GOPROXY="+strings.TrimSpace(string(modules)), "--target", image.target)
		}
		dockerCommand(t, append(args, image.in)...)
		t.Cleanup(func() { e.RemoveImage(context.Background(), prefix+image.name) })
	}
	in := func(image string, args ...string) string {
		// lockpick must see the machine's PIDs, because containers are labeled with their owner's PID.
		return dockerCommand(t, append([]string{"run", "--rm", "--label", label, "--network", "host", "--pid", "host",
			"--group-add", fmt.Sprint(socket.Sys().(*syscall.Stat_t).Gid),
			"--volume", engine.DefaultSocket + ":" + engine.DefaultSocket, prefix + image}, args...)...)
	}
	for _, image := range []string{"alone", "whole", "node"} {
		if user := dockerCommand(t, "image", "inspect", "--format", "{{.Config.User}}", prefix+image); user != "65532:65532" {
			t.Errorf("%s runs as %q", image, user)
		}
	}
	for _, image := range []string{"alone", "whole"} {
		if output := in(image, "version"); !strings.HasPrefix(output, "lockpick ") {
			t.Errorf("%s: version prints %q", image, output)
		}
	}
	for image, backend := range map[string]string{"alone": "sim", "whole": "process"} {
		if output := in(image, "run", "baseline/", "--backend", backend); !strings.Contains(output, "1 as expected") {
			t.Errorf("%s on %s: %s", image, backend, output)
		}
	}
	for _, image := range []string{"alone", "whole"} {
		if output := in(image, "run", "baseline/", "--backend", "docker", "--set", "topology.image="+redis); !strings.Contains(output, "1 as expected") {
			t.Errorf("%s in containers: %s", image, output)
		}
	}
	node := dockerCommand(t, "run", "--detach", "--label", label, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", prefix+"node")
	defer e.Remove(context.Background(), node)
	for began := time.Now(); !strings.Contains(e.Logs(t.Context(), node), "Ready to accept connections"); {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("node is not ready:\n%s", e.Logs(t.Context(), node))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// requireBaseImages skips the test unless the engine has the Dockerfile's base images. It returns the base
// image with Redis.
func requireBaseImages(t *testing.T, e *engine.Engine) (redis string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	bases := regexp.MustCompile(`(?m)^ARG (GO|BASE)=(\S+)$`).FindAllStringSubmatch(string(text), -1)
	if len(bases) != 2 {
		t.Fatalf("base images are %q, want 2", bases)
	}
	for _, base := range bases {
		if has, err := e.HasImage(t.Context(), base[2]); err != nil || !has {
			t.Skipf("the engine does not have the base image %s (%v): docker pull %s", base[2], err, base[2])
		}
	}
	return bases[1][2]
}
