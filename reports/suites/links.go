package suites

import (
	"net/url"
	"strings"
)

// group is a scenario with what is said of it.
type group struct {
	ID, Href string
	Texts    []string
}

// there tells which of a run's reports there are, so that no link leads nowhere.
type there func(path string) bool

const (
	runManifest = "run.json"
	runPage     = "report.html"
	runText     = "sequence.txt"
)

// page is where a run is read: its report, or until there is one its diagram.
func (has there) page(dir, anchor string) string {
	switch {
	case !linkable(dir):
		return ""
	case has(dir + "/" + runPage):
		return escaped(dir+"/"+runPage) + anchor
	case has(dir + "/" + runText):
		return escaped(dir + "/" + runText)
	}
	return ""
}

// linkable: an outcome.json from elsewhere may name anything as its directory.
func linkable(dir string) bool {
	rest, ok := strings.CutPrefix(dir, toStore)
	return ok && rest != "" && !strings.Contains("/"+rest+"/", "/../") && !strings.Contains(dir, "\\")
}

func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }
