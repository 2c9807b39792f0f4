//go:build nightly

package redlock_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMistakesAreDetected plants one mistake at a time in the lock, its drivers or its scripts.
// Each time, a test of this package or a test with a real server must fail.
func TestMistakesAreDetected(t *testing.T) {
	for _, m := range mistakes {
		t.Run(strings.ReplaceAll(m.description, " ", "-"), func(t *testing.T) {
			text := m.text(t)
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
			original, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, []byte(strings.Replace(text, m.old, m.new, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, replace, 0o644); err != nil {
				t.Fatal(err)
			}
			tests := []string{".", "./redisnode"}
			if strings.HasPrefix(m.file, "wire/") || m.file == "driver/grants.lua" {
				tests = []string{"./wire"}
			}
			if build, err := exec.Command("go", append([]string{"test", "-run", "^$", "-overlay", overlay}, tests...)...).CombinedOutput(); err != nil {
				t.Fatalf("the mistake does not compile: %v\n%s", err, build)
			}
			out, err := exec.Command("go", append([]string{"test", "-short", "-failfast", "-timeout", "1m", "-overlay", overlay}, tests...)...).CombinedOutput()
			if err == nil {
				t.Errorf("no test detects that it %s:\n%s", m.description, out)
			}
		})
	}
}
