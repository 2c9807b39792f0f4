package node

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update writes the stories again with the replies of redis-server, to be looked at.
var update = flag.Bool("update", false, "write the replies of a real redis-server into testdata/conformance/*.txt")

// Stories wait more than they calculate: more of them at once than there are cores
// are sooner told.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func stories(t *testing.T) (all []*Story) {
	t.Helper()
	paths, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range paths {
		s, err := read(path, "../../..")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// servers is who the stories are told to, in the words of their not-lines.
var servers = []struct {
	name  string
	start func(*testing.T, *Story) Server
}{
	{"sim", func(_ *testing.T, s *Story) Server { return newSimulated(s.Persistence) }},
	{"miniredis", func(t *testing.T, _ *Story) Server { return newMini(t) }},
	{"redis", newReal},
}

// Every story has the same replies on every server.
func TestStories(t *testing.T) {
	for _, on := range servers {
		if *update && on.name != "redis" {
			continue
		}
		for _, s := range stories(t) {
			t.Run(on.name+"/"+strings.TrimSuffix(filepath.Base(s.Path), ".txt"), func(t *testing.T) {
				t.Parallel()
				if why, left := s.Not[on.name]; left {
					t.Skip(why)
				}
				replies := heard(t, s, on.start)
				if *update {
					if err := os.WriteFile(s.Path, []byte(s.rewritten(replies)), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				for _, d := range differences(s, replies) {
					t.Errorf("%s differs: %s", on.name, d)
				}
			})
		}
	}
}

// tellings is how often a story is told to a server that is too late.
const tellings = 10

// heard is the replies of a server that was in time. Who never is has said nothing,
// which is no pass.
func heard(t *testing.T, s *Story, start func(*testing.T, *Story) Server) []Reply {
	t.Helper()
	var last Reply
	for range tellings {
		replies, err := tell(s, start(t, s))
		if err != nil {
			t.Fatal(err)
		}
		late := false
		if last, late = Late(s, replies); !late {
			return replies
		}
	}
	t.Fatalf("%s:%d: the reply came %v late in the last of %d tellings, and means nothing later than %v: is this machine busy?",
		s.Path, last.Step.Line, last.Late, tellings, s.slack())
	return nil
}
