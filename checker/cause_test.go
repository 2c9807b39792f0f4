package checker

import (
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/story"
)

const (
	// In each row c1 is to hold from 0.013 s on, and c2 gets in as well.
	causePrelude = `
params clients=c1,c2,c3 nodes=n1,n2,n3 quorum=2 ttl=10s rate=0.01
0.001 c3 invoke acquire session=c3/1
0.002 c3 ok acquire session=c3/1 token=C until=0.003
0.004 c3 invoke release session=c3/1
0.006 c3 info release session=c3/1
0.010 c1 invoke acquire session=c1/1`
	wins = `
0.012 c1-n1,n2 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=30`
)

// follows is c2's grant by n2 and n3.
func follows(at string) string {
	return "\n" + at + " c2-n2,n3 ok set token=B\n" + at + "1 c2 ok acquire session=c2/1 token=B until=40"
}

// causes is what may have become of c1's key on the node that both share, n2.
var causes = []struct {
	name    string
	history string
	cause   string
	node    string
	text    string // a part of it
}{
	{"the node's clock ran ahead", wins + `
0.020 c2 invoke acquire session=c2/1
0.030 c2-n2 fail set token=B0` + follows("9.10"),
		ExpiredEarly, "n2", "c1's key vanished from n2 by 9.099 s, before its 10 s were over"},
	{"a refusal by an error is no refusal of a set", wins + `
0.020 c2 invoke acquire session=c2/1
0.030 c2-n2 fail set token=B0 cause=LOADING Redis is loading the dataset in memory` + follows("0.10"),
		Overwritten, "n2", "n2 took c2's set at 0.099 s while c1's key was alive there until 10.01 s"},
	{"the client counted too little time", `
0.011 c1 info remark local=100.011` + wins + ` local=100.013
0.020 c2 invoke acquire session=c2/1` + "\n5.000 c1 invoke read local=103.500\n5.001 c1 ok read local=103.501" + follows("10.10"),
		ClientClock, "n2", "c1's clock fell behind"},
	{"a pause while the clock is read is no loss of time", `
0.011 c1 info remark local=100.011
0.0115 c1 info remark local=107.011` + wins + ` local=100.013
0.020 c2 invoke acquire session=c2/1` + follows("10.10"),
		GivenShorter, "n2", "c1 claimed the lock until 30 s"},
	{"the TTL went out in the wrong unit", `
0.012 c1-n1,n2 ok set token=A ttl=0.01
0.013 c1 ok acquire session=c1/1 token=A until=9.9
0.020 c2 invoke acquire session=c2/1` + follows("0.10"),
		GivenShorter, "n2", "c1's key on n2 lived its 0.01 s, to 0.02 s, but c1 claimed the lock until 9.9 s"},
	{"a restart after the key's time took nothing", wins + `
0.020 c2 invoke acquire session=c2/1
10.020 nemesis begin kill node=n2
10.050 nemesis end kill node=n2` + follows("10.10"),
		GivenShorter, "n2", "c1's key on n2 lived its 10 s, to 10.01 s"},
	{"a restart before the key was set took nothing", `
0.005 nemesis begin kill node=n2
0.008 nemesis end kill node=n2` + wins + `
0.020 c2 invoke acquire session=c2/1
0.030 c2-n2 fail set token=B0` + follows("1.10"),
		ExpiredEarly, "n2", ""},
	{"the key survived the restart, as its deletion shows", wins + `
0.020 c2 invoke acquire session=c2/1
1.020 nemesis begin kill node=n2
1.050 nemesis end kill node=n2
1.060 c3-n2 ok release` + follows("1.10"),
		DeletedByOther, "n2", "the release of session c3/1 without a token, sent on c3-n2 at 1.058 s, deleted c1's key on n2 at 1.059 s"},
	{"all clients use the same value", wins + `
0.020 c2 invoke acquire session=c2/1
1.000 c3-n2 ok release token=A
1.100 c2-n2,n3 ok set token=A
1.101 c2 ok acquire session=c2/1 token=A until=30`,
		DeletedByOther, "n2", "the release of session c3/1 with token A"},
	{"another token's release deletes nothing", wins + `
0.020 c2 invoke acquire session=c2/1
0.030 c2-n2 fail set token=B0
1.000 c3-n2 ok release token=C` + follows("1.10"),
		ExpiredEarly, "n2", ""},
	{"a release whose answer nobody saw explains what else nothing does", wins + `
0.020 c2 invoke acquire session=c2/1
0.030 c2-n2 fail set token=B0
1.000 c1-n2 info release token=A sent=0.009 applied=0 answered=0` + follows("1.10"),
		DeletedByOther, "n2", "the release of an earlier attempt of c1 with token A, sent on c1-n2 at 0.009 s, deleted c1's key on n2"},
	{"a lock that tells no tokens is known by its client and the time", `
0.012 c1-n1,n2 ok set token=A
0.013 c1 ok acquire session=c1/1 until=30
0.020 c2 invoke acquire session=c2/1
1.020 nemesis begin kill node=n2
1.050 nemesis end kill node=n2
1.100 c2-n2,n3 ok set token=B
1.101 c2 ok acquire session=c2/1 until=30`,
		RestartedAndForgot, "n2", "n2 restarted and forgot c1's key"},
	{"an earlier attempt's set is no vote, though no token is told", `
0.0105 c1-n2 ok set token=A0 sent=0.0101 applied=0.0102 answered=0.0103
0.0108 c1-n2 ok release token=A0 sent=0.0104 applied=0.0105 answered=0.0106
0.012 c1-n1 ok set token=A sent=0.0107 applied=0.0108 answered=0.0109
0.013 c1 ok acquire session=c1/1 until=30
0.020 c2 invoke acquire session=c2/1` + follows("1.10"),
		NeverSet, "", "c1 counted itself in with the votes of 1 of 3 nodes, and a quorum is 2"},
	{"an extension that n2 never got", wins + `
0.020 c2 invoke acquire session=c2/1
5.000 c1 invoke extend session=c1/1
5.002 c1-n1 ok extend token=A ttl=10
5.003 c1 ok extend session=c1/1 until=14.9` + follows("10.10"),
		GivenShorter, "n2", "c1 claimed the lock for longer"},
	{"an extension that n2 got, and forgot", wins + `
0.020 c2 invoke acquire session=c2/1
5.000 c1 invoke extend session=c1/1
5.002 c1-n1,n2 ok extend token=A ttl=10
5.003 c1 ok extend session=c1/1 until=14.9
10.020 nemesis begin kill node=n2
10.050 nemesis end kill node=n2` + follows("10.10"),
		RestartedAndForgot, "n2", ""},
	{"a vote that came after the return is none", `
0.012 c1-n1 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=30
0.014 c1-n2 ok set token=A sent=0.010 applied=0.0125 answered=0.014
0.020 c2 invoke acquire session=c2/1` + follows("1.10"),
		NeverSet, "", "c1 counted itself in with the votes of 1 of 3 nodes, and a quorum is 2"},
	{"an answer that the client never saw is no vote", `
0.012 c1-n1 ok set token=A
0.012 c1-n2 ok set token=A answered=0
0.013 c1 ok acquire session=c1/1 token=A until=30
0.020 c2 invoke acquire session=c2/1` + follows("1.10"),
		NeverSet, "", ""},
	{"no commands were recorded", `
0.013 c1 ok acquire session=c1/1 token=A until=30
0.020 c2 invoke acquire session=c2/1
0.030 c2 ok acquire session=c2/1 token=B until=30`,
		Unexplained, "", "no votes"},
	{"what happened on most nodes is the cause", `
0.012 c1-n1,n2,n3 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=30
0.020 c2 invoke acquire session=c2/1
1.010 c3-n1 ok release
1.020 nemesis begin kill node=n2
1.020 nemesis begin kill node=n3
1.050 nemesis end kill node=n2
1.050 nemesis end kill node=n3
1.100 c2-n1,n2,n3 ok set token=B
1.101 c2 ok acquire session=c2/1 token=B until=30`,
		RestartedAndForgot, "n2", "n2 restarted and forgot c1's key; likewise on n3"},
	{"somebody else had the key in between", wins + `
0.020 c2 invoke acquire session=c2/1
1.020 nemesis begin kill node=n2
1.050 nemesis end kill node=n2
1.060 c3-n2 ok set token=C
1.070 c3-n2 ok release token=C` + follows("1.10"),
		RestartedAndForgot, "n2", ""},
}

func TestCause(t *testing.T) {
	for _, row := range causes {
		t.Run(row.name, func(t *testing.T) {
			h, err := story.Parse(causePrelude + row.history + "\n50 harness end run")
			if err != nil {
				t.Fatal(err)
			}
			if why := malformed(h); why != "" {
				t.Fatal(why)
			}
			r := newRecord(h)
			got := r.explain(r.Named("c1/1"), r.Named("c2/1"))
			if got.cause != row.cause || got.node != row.node || !strings.Contains(got.text, row.text) {
				t.Errorf("got %s %s %q\nwant %s %s %q", got.cause, got.node, got.text, row.cause, row.node, row.text)
			}
		})
	}
}

// A clock that went wrong by less than a key was short is not to blame for it.
func TestClocksAreBlamedForWhatTheyCanDo(t *testing.T) {
	for by, want := range map[time.Duration]string{2 * time.Millisecond: Overwritten, 9 * time.Second: ExpiredEarly, -9 * time.Second: ExpiredEarly, 0: ExpiredEarly} {
		h, err := story.Parse(causePrelude + wins + `
0.020 nemesis invoke clock-slew node=n2 step=1
0.021 nemesis begin clock-slew node=n2 step=1
0.022 c2 invoke acquire session=c2/1` + follows("5.10") + "\n50 harness end run")
		if err != nil {
			t.Fatal(err)
		}
		h.Params.Steps = []history.PlannedStep{{Step: 1, By: by}}
		r := newRecord(h)
		if got := r.explain(r.Named("c1/1"), r.Named("c2/1")); got.cause != want {
			t.Errorf("a clock that slews by %v: %s, want %s (%s)", by, got.cause, want, got.text)
		}
	}
}
