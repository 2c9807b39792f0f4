//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	imageapi "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"lockpick/docker/engine"
	"lockpick/harness/owned"
)

// hashed is "secret" as bcrypt has it, at its least cost.
const hashed = "$2b$04$NCLzcsm2mObjDzTyTP0.6u.tVgWy60yJBKljy0EYI2KTrEnczVpVi"

// startRegistry starts a registry of images on a loopback port, which engines trust
// without a certificate. A private one knows the user somebody, whose password is secret.
func startRegistry(t *testing.T, private bool) (host string) {
	t.Helper()
	needEngine(t)
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("there is no docker-registry to pull from: apt-get install docker-registry")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: '127.0.0.1:%s'}\n", dir, port)
	if private {
		config += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s/users}}\n", dir)
	}
	for name, text := range map[string]string{"users": "somebody:" + hashed + "\n", "config.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "serve", filepath.Join(dir, "config.yml"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for began := time.Now(); ; {
		if answer, err := http.Get("http://127.0.0.1:" + port + "/v2/"); err == nil {
			answer.Body.Close()
			return "localhost:" + port
		}
		if time.Since(began) > 20*time.Second {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("the registry does not answer:\n%s", &said)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// alike is an image like the official ones: it starts a script as another user, which
// owns /data. Here the script can't even be run.
var alike = []string{"ENTRYPOINT [\"docker-entrypoint.sh\"]", "CMD [\"redis-server\"]", "VOLUME /data", "WORKDIR /data", "USER 999"}

// store puts an image into the engine, with this machine's redis-server under a name.
func store(t *testing.T, e *engine.Engine, ref, server string, changes ...string) {
	t.Helper()
	path, err := supply{}.server()
	if err != nil {
		t.Skip(err)
	}
	i, err := imageOf("redis", path, path)
	if err != nil {
		t.Fatal(err)
	}
	i.files["/usr/local/bin/"+server] = i.files[path]
	delete(i.files, path)
	i.files["/usr/local/bin/docker-entrypoint.sh"] = []byte("#!/bin/false\n")
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755, Uid: 999, Gid: 999})
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(i.files[path]))})
		w.Write(i.files[path])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.API.ImageImport(t.Context(), imageapi.ImportSource{Source: &text, SourceName: "-"}, ref,
		imageapi.ImportOptions{Changes: append(changes, "LABEL "+engine.OwnerLabel+"="+self.String())})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if said, err := io.ReadAll(out); err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatal(err, string(said))
	}
	t.Cleanup(func() { e.RemoveImage(context.Background(), ref) })
}

// publish moves an image from the engine to its registry.
func publish(t *testing.T, e *engine.Engine, ref string) {
	t.Helper()
	auth, err := registry.EncodeAuthConfig(registry.AuthConfig{Username: "somebody", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.API.ImagePush(t.Context(), ref, imageapi.PushOptions{RegistryAuth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if said, err := io.ReadAll(out); err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatal(err, string(said))
	}
	if err := e.RemoveImage(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}
