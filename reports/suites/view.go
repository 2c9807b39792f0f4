package suites

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// view is what a suite's report says, in either form: texts, marks and links.
type view struct {
	Headline string
	Title    string
	Found    []found
	Grids    []gridded
	Tone     string // of the headline: good, calm where nothing was expected of what was violated, or none
	Columns  []string
	Backends []string
	States   []string  // of the rows
	Wrong    []*family // otherwise than expected, then undecided
	Skipped  []*skip
	Fine     []*family
	Undrawn  int     // rows of a run that is kept, and has no report
	Troubles []group // retries and errors
	Facts    [][2]string
	Hidden   []string // properties without a column
	Rates    []string // pictures of many seeds
	Seeds    []string // and of these, which text can show
	More     []string // what else there is to say of the matrix
	Index    string
}

// look makes the report of a suite, with the latest ones of other backends beside it.
func look(s *Suite, others []*Suite, has there) view {
	all := append([]*Suite{s}, others...)
	_, broke := s.free()
	v := view{Headline: s.Headline(), Index: toStore + "index.html"}
	switch {
	case s.Code != outcome.ExitOK || s.Interrupted:
	case broke:
		v.Tone = "calm"
	default:
		v.Tone = "good"
	}
	v.Title = display.Clip(v.Headline, 120)
	v.Columns, v.Hidden = columns(all)
	v.Found, v.Grids = s.founds(has), s.grids(has)
	v.Rates, v.Seeds = s.Rates, slices.Clone(s.Rates)
	for _, c := range s.Scenarios {
		if c.Seeds != "" {
			v.Seeds = append(v.Seeds, c.Seeds)
		}
	}
	for _, x := range all {
		v.Backends = append(v.Backends, x.Backend)
	}
	v.fill(all, has)
	for _, c := range s.Scenarios {
		if t := c.troubles(); len(t) > 0 {
			v.Troubles = append(v.Troubles, group{c.ID(), has.page(c.Dir, "#verdict"), t})
		}
	}
	for _, x := range others {
		v.More = append(v.More, fmt.Sprintf("The rows of %s are those of its suite of %s: %s", x.Backend, stamp(x.Started), x.Headline()))
	}
	v.Facts = s.facts()
	return v
}

// troubles are the tries that did not count, and the errors.
func (c *Scenario) troubles() []string {
	var out []string
	for _, why := range c.Retried {
		out = append(out, "tried again: "+why)
	}
	if more := c.Retries - len(c.Retried); more > 0 {
		out = append(out, fmt.Sprintf("tried again %d more times", more))
	}
	for _, e := range c.Errors {
		out = append(out, "error: "+e)
	}
	if len(out) > 0 && c.Command != "" {
		out = append(out, "run again: "+c.Command)
	}
	return out
}

func (s *Suite) facts() [][2]string {
	f := [][2]string{
		{"command", s.Command}, {"backend", s.Backend}, {"seeds", s.seeds()},
		{"begun", stamp(s.Started)}, {"wall clock", fmt.Sprintf("%.1f s", s.Seconds)},
		{"lockpick", s.Version}, {"built with", s.Go}, {"host", fmt.Sprintf("%s/%s, %s", s.OS, s.Arch, display.Plural(s.CPUs, "CPU"))},
		{"exit code", fmt.Sprint(s.Code)},
	}
	if len(s.Sets) > 0 {
		f = append(f, [2]string{"overrides", strings.Join(s.Sets, ", ") + " (expected violations and numbers no longer apply)"})
	}
	return f
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

//go:embed suite.html.tmpl
var suiteTemplate string

//go:embed style.css
var style string

// Style is that of all pages but a run's: colours, texts and tables.
var Style = display.ColorsCSS + style

//go:embed filter.js
var filter template.JS

// texts are the functions of both pages.
var texts = template.FuncMap{
	"text":   visible,
	"filter": func() template.JS { return filter },
	"rated": func(picture string) string {
		return "how often " + visible(strings.TrimSuffix(strings.TrimPrefix(picture, "rates-"), ".svg")) + " was violated in each scenario"
	},
	"table": func(f *family, several bool, wide int) tabled { return tabled{f, several, wide} },
	"style": func() template.CSS { return template.CSS(Style + gridStyle) },
}

var suitePage = template.Must(template.New("suite").Funcs(texts).Parse(suiteTemplate))

// writePage writes suite.html.
func writePage(w io.Writer, v view) error {
	if err := suitePage.Execute(w, v); err != nil {
		return fmt.Errorf("draw suite: %w", err)
	}
	return nil
}
