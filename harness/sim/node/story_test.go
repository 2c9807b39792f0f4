package node

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func mustParseStory(t *testing.T, text string) *Story {
	t.Helper()
	s, err := parseStory("story.txt", ".", text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseStoryErrors(t *testing.T) {
	for text, want := range map[string]string{
		"# nothing":                     "story.txt: no step",
		"\t+OK":                         "does not follow a command",
		"wait 1s\n\t+OK":                "story.txt:2: reply",
		"GET k\n\tnil\n\tnil":           "story.txt:3: reply",
		"sleep 1s":                      "not a directive",
		"wait":                          "not a directive",
		"GET $x":                        "no script $x",
		"GET \"k":                       "words of",
		"PTTL k\n\t~10":                 "~number±tolerance",
		"INFO\n\t/(/":                   "missing closing",
		"script x nosuch.lua\nGET k":    "no such file",
		"persistence always\n# no step": "no step",
	} {
		if _, err := parseStory("story.txt", ".", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A difference shows both texts, for a wrong reply and for a reply that the story doesn't list.
func TestDifferencesShowBothTexts(t *testing.T) {
	s := mustParseStory(t, "SET k v PX 10000\n\t+OK\nGET k\n\t\"w\"\nPTTL k\n\t~9000±500\nPTTL k\n\t/:1.*/\nDBSIZE\n")
	replies, err := runStory(s, newSimulated("none"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(differences(s, replies), "\n")
	want := `story.txt:3: ["GET" "k"]
 got "v"
want "w"
story.txt:5: ["PTTL" "k"]
 got :10000
want ~9000±500
story.txt:9: ["DBSIZE"]
 got :1
want `
	if got != want {
		t.Errorf("differences:\n%s\nwant:\n%s", got, want)
	}
	rewritten := "SET k v PX 10000\n\t+OK\nGET k\n\t\"v\"\nPTTL k\n\t:10000\nPTTL k\n\t/:1.*/\nDBSIZE\n\t:1\n"
	if got := s.rewrite(replies); got != rewritten {
		t.Errorf("rewritten:\n%s\nwant:\n%s", got, rewritten)
	}
}

// lateServer is a server that is always late.
type lateServer struct {
	*simulatedServer
	lag time.Duration
}

func (s lateServer) Lag() time.Duration { return s.lag }

// A late reply doesn't count if the story is time-sensitive.
func TestLateReplies(t *testing.T) {
	const untimed = "SET k v\n\t+OK\nkill\n"
	for _, c := range []struct {
		text string
		lag  time.Duration
		want string
	}{
		{untimed, time.Hour, ""},
		{untimed + "wait 1s\n", maxDelay, ""},
		{untimed + "wait 1s\n", maxDelay + 1, "SET"},
		{"wait 1s\nkill\n", maxDelay + 1, "kill"},
		{"PTTL k\n\t~-2±100\n", 100 * time.Millisecond, ""},
		{"PTTL k\n\t~-2±100\n", 101 * time.Millisecond, "PTTL"},
	} {
		s := mustParseStory(t, c.text)
		replies, err := runStory(s, lateServer{newSimulated("none"), c.lag})
		if err != nil {
			t.Fatal(err)
		}
		first, isLate := firstLateReply(s, replies)
		if isLate != (c.want != "") || isLate && first.Step.Words[0] != c.want {
			t.Errorf("%q, %v late: %v %v, want %q", c.text, c.lag, first, isLate, c.want)
		}
	}
}

// slowDiskServer is a server whose disk has unsynced data for the first checks, regardless of the
// story.
type slowDiskServer struct {
	*simulatedServer
	checksLeft int
}

func (l *slowDiskServer) Unsynced() bool {
	l.checksLeft--
	return l.checksLeft >= 0
}

// A sync with a time limit counts as late if the disk needs longer.
func TestLateSyncs(t *testing.T) {
	s := mustParseStory(t, "SET k v\n\t+OK\nsync 300ms\npower-loss\n")
	for checks, want := range map[int]bool{0: false, int(maxDelay / syncStep): false, int(maxDelay/syncStep) + 1: true} {
		replies, err := runStory(s, &slowDiskServer{newSimulated("always"), checks})
		if err != nil {
			t.Fatal(err)
		}
		if first, isLate := firstLateReply(s, replies); isLate != want {
			t.Errorf("synced after %d checks: late %v at %v", checks, isLate, first)
		}
	}
}

// bareServer is a server without optional capabilities.
type bareServer struct{ Server }

// A directive that the server doesn't support causes an error and is never skipped.
func TestUnsupportedDirectives(t *testing.T) {
	for _, d := range []string{"kill", "shutdown", "restart", "power-loss", "sync", "sync 1s", "clock +1s"} {
		if _, err := runStory(mustParseStory(t, d), bareServer{newSimulated("always")}); !errors.Is(err, errUnsupported) {
			t.Errorf("%s: %v", d, err)
		}
	}
	for d, want := range map[string]string{"wait long": "invalid duration", "power-loss half": "invalid power loss",
		"clock fast": "invalid duration", "clock rate x": "invalid syntax", "clock still 2": "invalid clock directive",
		"run_id kept": "no run_id was noted", "restart": "it runs", "run_id noted\nkill\nrestart\nrun_id kept": ", was ",
		"run_id noted\nrun_id new": ", was ", "kill\nGET k": "it is down"} {
		if _, err := runStory(mustParseStory(t, d), newSimulated("always")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", d, err, want)
		}
	}
}
