//go:build nightly && linux

package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// adapterSetPattern matches the path of an adapter in a command, and captures the set to install with
// .ci/adapters.
var adapterSetPattern = regexp.MustCompile(`\.adapters/([a-z]+)/`)

// TestTrackRecordOnServers checks that each command in the track record shows its finding on real
// servers and exits with 0.
func TestTrackRecordOnServers(t *testing.T) {
	for _, f := range trackRecord(t) {
		t.Run(f.lock+" "+f.cause, func(t *testing.T) {
			needRedis(t)
			for _, m := range adapterSetPattern.FindAllStringSubmatch(f.command, -1) {
				installAdapters(t, m[1])
			}
			if strings.Contains(f.command, "go/bin/etcd") {
				if _, err := exec.LookPath("etcd"); err != nil {
					t.Skip("etcd is missing: apt-get install etcd-server")
				}
			}
			cmd := exec.Command("bash", "-c", f.command+" --json --store "+filepath.Join(t.TempDir(), "store"))
			cmd.Dir = "../.."
			code, all := runForOutcomes(t, cmd)
			f.check(t, code, all)
		})
	}
}
