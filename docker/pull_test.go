//go:build linux

package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/docker/engine"
	"lockpick/harness/owned"
	"lockpick/harness/scenario"
)

func testEngine(t *testing.T) *engine.Engine {
	t.Helper()
	needEngine(t)
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// An image that the scenario names is pulled. Its server keeps its data, though the
// image's own directory for them is somebody else's.
func TestNodesRunTheImageThatIsNamed(t *testing.T) {
	e := testEngine(t)
	ref := startRegistry(t, false) + "/redis:7"
	store(t, e, ref, "redis-server", alike...)
	publish(t, e, ref)
	if has, err := e.HasImage(t.Context(), ref); err != nil || has {
		t.Fatalf("before, the engine has the image: %v, %v", has, err)
	}
	s := twoNodes
	s.Topology.Image, s.Topology.Persistence = ref, "always"
	run(t, s, func(b bench) {
		says := b.Stock()
		if !strings.HasPrefix(says, "redis ") || !strings.Contains(says, "image "+ref+" (sha256:") {
			t.Errorf("the nodes run %q", says)
		}
		if _, err := b.Node(t.Context(), "n1", "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		for what, end := range map[string]func(string) (string, error){"kill": b.Kill, "shut down": b.Shutdown} {
			b.do(what, func() (string, error) { return end("n1") })
			if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(back, " (keys: 1)") {
				t.Errorf("after %s, restart says %q", what, back)
			}
		}
	})
}

// lines collects what Prepare says.
type lines []string

func (l *lines) add(line string) { *l = append(*l, line) }

func prepare(t *testing.T, ref string) (said lines, err error) {
	t.Helper()
	s := twoNodes
	s.Topology.Image = ref
	err = testBackend().Prepare(t.Context(), []scenario.Scenario{s, s}, said.add)
	return said, err
}

func TestPrivateImagesNeedALogin(t *testing.T) {
	e := testEngine(t)
	host := startRegistry(t, true)
	ref := host + "/team/redis:7"
	store(t, e, ref, "redis-server", alike...)
	publish(t, e, ref)
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	var lack *Lack
	if _, err := prepare(t, ref); !errors.As(err, &lack) || !strings.Contains(err.Error(), ref) || !strings.Contains(lack.Remedy, "docker pull "+ref) {
		t.Errorf("nobody came out as %v", err)
	}
	// somebody:wrong, somebody:secret
	for _, auth := range []struct{ text, want string }{{"c29tZWJvZHk6d3Jvbmc=", "unauthorized"}, {"c29tZWJvZHk6c2VjcmV0", ""}} {
		text := `{"auths": {"` + host + `": {"auth": "` + auth.text + `"}}}`
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := prepare(t, ref)
		if len(said) == 0 || said[0] != "pulling "+ref+" from "+host || auth.want == "" && (len(said) != 2 || !strings.HasPrefix(said[1], "nodes run image "+ref+" (sha256:")) {
			t.Errorf("%s: it says %q", auth.text, said)
		}
		if auth.want == "" && err != nil || auth.want != "" && (err == nil || !strings.Contains(err.Error(), auth.want)) {
			t.Errorf("%s: %v, want %q", auth.text, err, auth.want)
		}
	}
}

func TestImagesThatCantBeHad(t *testing.T) {
	e := testEngine(t)
	host := startRegistry(t, false)
	store(t, e, host+"/other:1", "no-server-at-all")
	for ref, want := range map[string]string{host + "/redis:99": "can't pull it", host + "/other:1": "has no server"} {
		_, err := prepare(t, ref)
		var lack *Lack
		if !errors.As(err, &lack) || !strings.Contains(err.Error(), ref) || !strings.Contains(err.Error(), want) || lack.Remedy == "" {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
}

// What an image starts tells which program is the server; where it tells nothing, the
// image is searched.
func TestServerOfAnImage(t *testing.T) {
	for want, starts := range map[string][]string{
		"redis-server":            {"docker-entrypoint.sh", "redis-server"},
		"/opt/bin/valkey-server":  {"/opt/bin/valkey-server", "--save", ""},
		"valkey-server":           {"tini", "--", "some-server", "valkey-server", "/etc/valkey.conf"},
		"":                        {"sh", "-c", "exec redis-server", "--as-server"},
		"/usr/local/keydb-server": {"/usr/local/keydb-server"},
	} {
		if got := serverIn(engine.Contents{Starts: starts}); got != want {
			t.Errorf("%q starts %q, want %q", starts, got, want)
		}
	}
	e := testEngine(t)
	const ref = "lockpick-test:searched"
	store(t, e, ref, "valkey-server")
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	from := testBackend().supply(e, self.String(), func(string) {})
	if nodes, err := from.nodes(t.Context(), ref); err != nil || nodes.program != "/usr/local/bin/valkey-server" {
		t.Errorf("found %q, %v", nodes.program, err)
	}
	if left := remains(t, engine.OwnerLabel+"="+self.String()); len(left) > 0 {
		t.Errorf("the search left %v", left)
	}
}
