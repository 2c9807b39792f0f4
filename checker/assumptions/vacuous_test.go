package assumptions

import (
	"testing"

	"lockpick/checker/histories"
	"lockpick/harness/history/facts"
)

// A run waits for the lock where nothing else can be why it was not as planned.
func TestWaits(t *testing.T) {
	const wanted = "0 c1 begin client\n1 c1 invoke acquire session=c1/1\n9 c1 fail acquire session=c1/1\n9 harness end run\n"
	for name, row := range map[string]struct {
		params, more string
		waits        bool
	}{
		"nobody got it":                     {"clients=c1", "", true},
		"somebody did":                      {"clients=c1,c2", "0 c2 begin client\n2 c2 invoke acquire session=c2/1\n3 c2 ok acquire session=c2/1", true},
		"nobody got it, as may be":          {"clients=c1 mayBeIdle", "", true},
		"a client never began":              {"clients=c1,c2", "", true},
		"the simulation lacks a command":    {"clients=c1", "2 n1 info lack node=n1 value=XADD", false},
		"a fault failed":                    {"clients=c1", "2 nemesis invoke kill node=n1 step=1\n3 nemesis fail kill node=n1 step=1", false},
		"a fault failed when it had begun":  {"clients=c1", "2 nemesis begin kill node=n1 step=1\n3 nemesis fail kill node=n1 step=1", false},
		"a fault was in force":              {"clients=c1", "2 nemesis begin kill node=n1 step=1\n3 nemesis end kill node=n1 step=1", true},
		"a fault was tried, and never seen": {"clients=c1", "2 nemesis invoke kill node=n1 step=1", true},
	} {
		r := facts.Read(histories.Story("params nodes=n1 " + row.params + "\n" + wanted + row.more))
		if got := Waits(r); got != row.waits || r.Malformed != "" {
			t.Errorf("%s: %t, want %t %s", name, got, row.waits, r.Malformed)
		}
		if got := Vacuous(r); row.waits && r.Grants == 0 && !r.Params.MayBeIdle && len(r.Params.Clients) == 1 && got != "nobody acquired a lock" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
