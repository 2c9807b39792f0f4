package node

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update enables rewriting the stories with redis-server's replies, for review.
var update = flag.Bool("update", false, "write the replies of a real redis-server into testdata/conformance/*.txt")

// Stories spend most of their time waiting, so it is faster to run more of them in parallel than
// there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func readStories(t *testing.T) (all []*Story) {
	t.Helper()
	paths, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range paths {
		s, err := readStory(path, "../../..")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// servers lists the servers under the names used in the "not" lines of stories.
var servers = []struct {
	name  string
	start func(*testing.T, *Story) Server
}{
	{"sim", func(_ *testing.T, s *Story) Server { return newSimulated(s.Persistence) }},
	{"miniredis", func(t *testing.T, _ *Story) Server { return newMini(t) }},
	{"redis", newReal},
}

// Every story gets the same replies from every server.
func TestStories(t *testing.T) {
	for _, on := range servers {
		if *update && on.name != "redis" {
			continue
		}
		for _, s := range readStories(t) {
			t.Run(on.name+"/"+strings.TrimSuffix(filepath.Base(s.Path), ".txt"), func(t *testing.T) {
				t.Parallel()
				if why, left := s.Excluded[on.name]; left {
					t.Skip(why)
				}
				replies := timelyReplies(t, s, on.start)
				if *update {
					if err := os.WriteFile(s.Path, []byte(s.rewrite(replies)), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				for _, d := range differences(s, replies) {
					t.Errorf("%s: %s", on.name, d)
				}
			})
		}
	}
}

// maxAttempts limits how often a story is run against a server that lags too far behind.
const maxAttempts = 10

// timelyReplies returns the server's replies from the first attempt with no late reply. It fails
// the test if every attempt has a late reply.
func timelyReplies(t *testing.T, s *Story, start func(*testing.T, *Story) Server) []Reply {
	t.Helper()
	var last Reply
	for range maxAttempts {
		replies, err := runStory(s, start(t, s))
		if err != nil {
			t.Fatal(err)
		}
		late := false
		if last, late = firstLateReply(s, replies); !late {
			return replies
		}
	}
	t.Fatalf("%s:%d: the reply was %v late in the last of %d attempts, but at most %v is allowed: is this machine busy?",
		s.Path, last.Step.Line, last.Delay, maxAttempts, s.slack())
	return nil
}
