//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	imageapi "github.com/docker/docker/api/types/image"

	"lockpick/docker/engine"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

func testEngine(t *testing.T) *engine.Engine {
	t.Helper()
	requireEngine(t)
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// officialImageChanges makes an image similar to the official images: the entrypoint is a script that
// runs as another user, who owns /data. In this image, the script fails.
var officialImageChanges = []string{"ENTRYPOINT [\"docker-entrypoint.sh\"]", "CMD [\"redis-server\"]", "VOLUME /data", "WORKDIR /data", "USER 999"}

// importTestImage imports an image that contains this machine's redis-server as /usr/local/bin/SERVER.
func importTestImage(t *testing.T, e *engine.Engine, ref, server string, changes ...string) {
	t.Helper()
	path, err := imageSource{}.findServer()
	if err != nil {
		t.Skip(err)
	}
	i, err := newImage("redis", path, path)
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
	self, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.API.ImageImport(t.Context(), imageapi.ImportSource{Source: &text, SourceName: "-"}, ref,
		imageapi.ImportOptions{Changes: append(changes, "LABEL "+engine.OwnerLabel+"="+self.String())})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if output, err := io.ReadAll(out); err != nil || bytes.Contains(output, []byte("errorDetail")) {
		t.Fatal(err, string(output))
	}
	t.Cleanup(func() { e.RemoveImage(context.Background(), ref) })
}

// Nodes run the image named by the scenario. They persist data although the image's data directory belongs
// to another user.
func TestNodesRunNamedImage(t *testing.T) {
	e := testEngine(t)
	const ref = "lockpick-test:named"
	importTestImage(t, e, ref, "redis-server", officialImageChanges...)
	s := twoNodes
	s.Topology.Image, s.Topology.Persistence = ref, "always"
	run(t, s, func(b testRun) {
		version := b.NodeReport().ServerVersion
		if !strings.HasPrefix(version, "redis ") || !strings.Contains(version, "image "+ref+" (sha256:") {
			t.Errorf("nodes run %q", version)
		}
		b.onNode("n1", "SET", "k", "v")
		for what, end := range map[string]func(string) (string, error){"kill": b.Kill, "shut down": b.Shutdown} {
			b.do(what, func() (string, error) { return end("n1") })
			if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(back, " (keys: 1)") {
				t.Errorf("after %s, restart returned %q", what, back)
			}
		}
	})
}

// progressLines collects progress messages.
type progressLines []string

func (l *progressLines) add(line string) { *l = append(*l, line) }

func TestUnusableImages(t *testing.T) {
	e := testEngine(t)
	const missing, other = "localhost:1/redis:99", "lockpick-test:other"
	importTestImage(t, e, other, "no-server-at-all")
	for ref, want := range map[string]string{missing: "can't pull it", other: "has no server"} {
		s := twoNodes
		s.Topology.Image = ref
		var progress progressLines
		err := testBackend().Prepare(t.Context(), []scenario.Scenario{s, s}, progress.add)
		var notFound *MissingError
		if !errors.As(err, &notFound) || !strings.Contains(err.Error(), ref) || !strings.Contains(err.Error(), want) || notFound.Remedy == "" {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
		if ref == missing && (len(progress) == 0 || progress[0] != "pulling "+ref) {
			t.Errorf("%s: progress messages are %q", ref, progress)
		}
	}
}

// nodeSoftware finds the server in the image's command or, if the command starts none, by searching the
// image.
func TestFindsServerInImage(t *testing.T) {
	for want, starts := range map[string][]string{
		"redis-server":            {"docker-entrypoint.sh", "redis-server"},
		"/opt/bin/valkey-server":  {"/opt/bin/valkey-server", "--save", ""},
		"valkey-server":           {"tini", "--", "some-server", "valkey-server", "/etc/valkey.conf"},
		"":                        {"sh", "-c", "exec redis-server", "--as-server"},
		"/usr/local/keydb-server": {"/usr/local/keydb-server"},
	} {
		if got := serverCommand(engine.ImageInfo{Command: starts}); got != want {
			t.Errorf("serverCommand of %q is %q, want %q", starts, got, want)
		}
	}
	e := testEngine(t)
	const ref = "lockpick-test:searched"
	importTestImage(t, e, ref, "valkey-server")
	self, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	from := testBackend().imageSource(e, self.String(), func(string) {})
	if nodes, err := from.nodeSoftware(t.Context(), ref); err != nil || nodes.program != "/usr/local/bin/valkey-server" {
		t.Errorf("found %q, %v", nodes.program, err)
	}
	if left := leftovers(t, engine.OwnerLabel+"="+self.String()); len(left) > 0 {
		t.Errorf("the search left %v behind", left)
	}
}
