//go:build linux

package keylife_test

import (
	"strings"
	"testing"

	"lockpick/harness/history"
)

const notifySetting = "notify-keyspace-events"

func (b *testNode) setting(name string) string {
	b.Helper()
	return b.direct("CONFIG", "GET", name).Items[1].Str
}

// A node's setting is restored at the end, even after a restart or if another node can't be
// watched.
func TestSettingsAreRestored(t *testing.T) {
	for _, want := range []string{"xE", ""} {
		b := newTestNode(t, "none", "--"+notifySetting, `"`+want+`"`)
		want = b.setting(notifySetting)
		b.watch()
		if got := b.setting(notifySetting); !strings.Contains(got, "K") || !strings.Contains(got, "A") {
			t.Errorf("the setting is %q while the node is watched", got)
		}
		b.client("c1").do("SET", "k", "v")
		b.waitFor(history.KeySet, "k")
		b.kill()
		b.restart()
		b.waitFor(history.KeyLost, "k")
		b.allFacts()
		if got := b.setting(notifySetting); got != want {
			t.Errorf("the setting is %q, want %q", got, want)
		}
		if err := b.recorder.Watch(map[string]string{"n1": b.node.Addr(), "n2": "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "n2") {
			t.Errorf("Watch with an unreachable node: %v", err)
		}
		if got := b.setting(notifySetting); got != want {
			t.Errorf("after a failed Watch, the setting is %q, want %q", got, want)
		}
	}
}

// If a node refuses a required command, Watch leaves its settings unchanged and names the command.
func TestWatchNamesRefusedCommand(t *testing.T) {
	for command, want := range map[string]string{"CONFIG": "CONFIG: ERR unknown command", "MONITOR": "ERR unknown command 'MONITOR'"} {
		b := newTestNode(t, "none", "--rename-command", command, `""`)
		err := b.recorder.Watch(map[string]string{"n1": b.node.Addr()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "n1") {
			t.Errorf("node without %s: %v", command, err)
		}
		b.client("c1").do("SET", "k", "v")
		b.recorder.Reattach("n1", b.node.Addr(), history.Restart)
		b.wantFacts("")
	}
}
