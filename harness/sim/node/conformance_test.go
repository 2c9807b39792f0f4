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

func readStories(t *testing.T) (stories []*Story) {
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
		stories = append(stories, s)
	}
	return stories
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
	for _, server := range servers {
		if *update && server.name != "redis" {
			continue
		}
		for _, s := range readStories(t) {
			t.Run(server.name+"/"+strings.TrimSuffix(filepath.Base(s.Path), ".txt"), func(t *testing.T) {
				t.Parallel()
				if reason, excluded := s.Excluded[server.name]; excluded {
					t.Skip(reason)
				}
				replies := timelyReplies(t, s, server.start)
				if *update {
					if err := os.WriteFile(s.Path, []byte(s.rewrite(replies)), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				for _, d := range differences(s, replies) {
					t.Errorf("%s: %s", server.name, d)
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
	var lastLate Reply
	for range maxAttempts {
		replies, err := runStory(s, start(t, s))
		if err != nil {
			t.Fatal(err)
		}
		isLate := false
		if lastLate, isLate = firstLateReply(s, replies); !isLate {
			return replies
		}
	}
	t.Fatalf("%s:%d: the reply was %v late in the last of %d attempts, but at most %v is allowed: is this machine busy?",
		s.Path, lastLate.Step.Line, lastLate.Delay, maxAttempts, s.maxLateness())
	return nil
}
