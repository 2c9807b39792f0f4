//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogins(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	if as, err := LoginFor("redis:7"); err != nil || as != (Login{}) {
		t.Errorf("without a file: %v, %v", as, err)
	}
	// a:b, c:d:e
	text := `{"auths": {"https://index.docker.io/v1/": {"auth": "YTpi"}, "r.example:5000": {"auth": "YzpkOmU="}, "bad.example": {"auth": "?"}, "none.example": {}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]Login{
		"redis:7": {Hub, "a", "b"}, "valkey/valkey:8": {Hub, "a", "b"}, "docker.io/library/redis": {Hub, "a", "b"},
		"r.example:5000/x/redis:7": {"r.example:5000", "c", "d:e"}, "localhost/redis": {}, "none.example/redis": {},
	} {
		if as, err := LoginFor(ref); err != nil || as != want {
			t.Errorf("%s: %v, %v, want %v", ref, as, err, want)
		}
	}
	if _, err := LoginFor("bad.example/redis"); err == nil || !strings.Contains(err.Error(), "docker login bad.example") {
		t.Errorf("a login that can't be read came out as %v", err)
	}
}
