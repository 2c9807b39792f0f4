package suites

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// externalLink matches a link from a suite's page to something outside the store.
var externalLink = regexp.MustCompile(`(href|src)="(\.\./\.\./\.\.|/|[a-z]+:)[^"]*"`)

// Everything that parseSuite accepts can be rendered, without links that lead out of the store.
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
		s, err := parseSuite(text)
		if err != nil {
			return
		}
		v := newView(s, []*Suite{s}, func(string) bool { return true })
		var page, markdown bytes.Buffer
		if err := writePage(&page, v); err != nil {
			t.Fatal(err)
		}
		writeMarkdown(&markdown, v)
		if out := externalLink.Find(page.Bytes()); out != nil {
			t.Errorf("link that leads out of the store: %s", out)
		}
	})
}
