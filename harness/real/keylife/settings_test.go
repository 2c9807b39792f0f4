//go:build linux

package keylife_test

import (
	"strings"
	"testing"

	"lockpick/harness/history"
)

const notify = "notify-keyspace-events"

func (b *bench) setting(name string) string {
	b.Helper()
	return b.direct("CONFIG", "GET", name).Items[1].Str
}

// A changed setting is restored at the end, also after a restart, and if another node can't be watched.
func TestSettingsArePutBack(t *testing.T) {
	for _, was := range []string{"xE", ""} {
		b := newBench(t, "none", "--"+notify, `"`+was+`"`)
		was = b.setting(notify)
		b.watch()
		if is := b.setting(notify); !strings.Contains(is, "K") || !strings.Contains(is, "A") {
			t.Errorf("it reports only %q", is)
		}
		b.client("c1").do("SET", "k", "v")
		b.until(history.KeySet, "k")
		b.kill()
		b.restart()
		b.until(history.KeyLost, "k")
		b.all()
		if is := b.setting(notify); is != was {
			t.Errorf("it was %q and is %q", was, is)
		}
		if err := b.lives.Watch(map[string]string{"n1": b.node.Addr(), "n2": "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "n2") {
			t.Errorf("Watch of a missing node: %v", err)
		}
		if is := b.setting(notify); is != was {
			t.Errorf("it was %q and is %q after another node failed", was, is)
		}
	}
}

// A node that refuses a required command is left unchanged, and the error says why.
func TestRefused(t *testing.T) {
	for command, want := range map[string]string{"CONFIG": "CONFIG: ERR unknown command", "MONITOR": "ERR unknown command 'MONITOR'"} {
		b := newBench(t, "none", "--rename-command", command, `""`)
		err := b.lives.Watch(map[string]string{"n1": b.node.Addr()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "n1") {
			t.Errorf("without %s: %v", command, err)
		}
		b.client("c1").do("SET", "k", "v")
		b.lives.Again("n1", b.node.Addr(), history.Restart)
		b.wants("")
	}
}
