package suites

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// outward is a link from a suite's page to above the store, or to another machine.
var outward = regexp.MustCompile(`(href|src)="(\.\./\.\./\.\.|/|[a-z]+:)[^"]*"`)

// Any outcome.json of a suite that is taken for one can be drawn, and again from what is
// then written.
func FuzzOutcome(f *testing.F) {
	golden, err := os.ReadFile("testdata/outcome.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	for _, text := range []string{"", "{}", "null", `{"schema":1,"scenarios":[]}`, `{"schema":1,"scenarios":[{"name":"a","dir":"../../../x","seeds":"../y"}],"outcomes":[{"schema":1}]}`,
		`{"schema":1,"scenarios":[{"properties":[{"decided":-1}]}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse(text)
		if err != nil {
			return
		}
		v := look(s, []*Suite{s}, func(string) bool { return true })
		var page, markdown bytes.Buffer
		if err := writePage(&page, v); err != nil {
			t.Fatal(err)
		}
		writeMarkdown(&markdown, v)
		if out := outward.Find(page.Bytes()); out != nil {
			t.Errorf("a link of the page leads out of the store: %s", out)
		}
	})
}
