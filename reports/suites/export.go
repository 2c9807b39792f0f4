package suites

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Export is a page of a store as one self-contained HTML file, in which links to the pages of runs lead to
// copies of them:
//
//	the page of a suite, of scorecards or of an assessment
//	  <a href="#run-1">
//	<section id="run-1"> <iframe srcdoc="the page of a run"> </section>
//
// The links need no script, because a section is shown while it is the target of the URL. Frames keep the
// styles, ids and scripts of the pages apart, and are sandboxed, because a store may come from strangers.
type Export struct {
	HTML         []byte
	NumRuns      int      // number of runs whose pages the file contains
	NumTooLarge  int      // number of runs left out because of the size limit
	NumWithout   int      // number of a suite's runs left out because they have neither a violation nor an unexpected result
	Unrenderable []string // why the pages of other runs are missing
}

// ErrNotExportable means that a directory contains no page to export.
var ErrNotExportable = errors.New("it is not a run, a suite, scorecards or an assessment")

// TooLargeError means that a page alone is larger than the limit.
type TooLargeError struct{ Bytes, MaxBytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the page has %s, and the limit is %s", display.Plural(int(e.Bytes), "byte"), display.Plural(int(e.MaxBytes), "byte"))
}

// NewExport exports the page in a directory of a store, with as many pages of runs as fit into maxBytes, in
// the order of the page's links. It calls render for a run that has no page yet.
func NewExport(dir string, maxBytes int64, render func(dir string) error) (*Export, error) {
	dir, err := uniqueDir(dir)
	if err != nil {
		return nil, err
	}
	in, err := files.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	x := &exporter{dir: dir, maxBytes: maxBytes, render: render, targets: map[string]string{}}
	var page []byte
	switch {
	case in.Has(runManifest):
		page, err = x.runPage(in, ".", dir)
	case in.Has(PageFile):
		page, err = x.suitePage()
	case in.Has(CardPage):
		page, err = in.Read(CardPage, maxJSON)
	case in.Has(AssessmentPage):
		page, err = in.Read(AssessmentPage, maxJSON)
	default:
		return nil, ErrNotExportable
	}
	if err != nil {
		return nil, err
	}
	if x.size = int64(len(page)); x.size > maxBytes {
		return nil, &TooLargeError{x.size, maxBytes}
	}
	if !in.Has(runManifest) {
		if x.store, err = files.OpenFolder(filepath.Join(dir, "../..")); err != nil {
			return nil, err
		}
		defer x.store.Close()
		page = x.addSections(x.redirectLinks(x.inlineImages(in, page)))
	}
	x.out.HTML = page
	return &x.out, nil
}

// exporter builds an Export.
type exporter struct {
	dir            string
	store          *files.Folder
	maxBytes, size int64
	render         func(dir string) error
	targets        map[string]string // in-file links to runs, by directory; "" for runs that are left out
	sections       bytes.Buffer
	out            Export
}

// runFiles matches the line of a run's page that links to other files in the run's directory.
var runFiles = regexp.MustCompile(`<p>Other files of this run: [^\n]*</p>`)

// runPage returns the page of a run, which is in the directory name of a folder, without links to other
// files. It renders the page if there is none.
func (x *exporter) runPage(in *files.Folder, name, dir string) ([]byte, error) {
	if !in.Has(name+"/"+runPage) && in.Has(name+"/"+runManifest) {
		if err := x.render(dir); err != nil {
			return nil, err
		}
	}
	page, err := in.Read(name+"/"+runPage, maxRunPage)
	if err != nil {
		return nil, err
	}
	page = backLine.ReplaceAllLiteral(page, []byte(`<p class="back" id="back"></p>`))
	return runFiles.ReplaceAllLiteral(page, nil), nil
}

// suitePage renders a suite's page with links to the runs that are worth exporting: those with a violation
// or an unexpected result.
func (x *exporter) suitePage() ([]byte, error) {
	s, err := Open(x.dir)
	if err != nil {
		return nil, err
	}
	store, err := files.OpenFolder(s.Store)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	isWanted := map[string]bool{}
	all := append([]*Suite{s}, otherBackends(s)...)
	for _, suite := range all {
		for _, c := range suite.Scenarios {
			violated := false
			for _, cell := range c.Cells {
				violated = violated || cell.NumViolated > 0 && cell.Number == ""
			}
			if !violated && c.Runs > 0 && outcome.CountPassed(c.Counts) == c.Runs {
				x.out.NumWithout += c.Runs
				continue
			}
			isWanted[c.Dir] = true
			for _, dir := range c.RunDirs {
				isWanted[dir] = true
			}
		}
	}
	v := newView(s, all[1:], func(link string) bool {
		inStore := path.Join(Folder, "this", link) // link is relative to a suite's directory
		return isWanted[path.Dir(link)] && path.Base(link) == runPage && (store.Has(inStore) || store.Has(path.Dir(inStore)+"/"+runManifest))
	})
	v.NumUndrawn = 0
	var page bytes.Buffer
	err = writePage(&page, v)
	return page.Bytes(), err
}

var (
	linkAttribute  = regexp.MustCompile(` href="([^"]*)"`)
	imageAttribute = regexp.MustCompile(` src="([^"]*)"`)
)

// inlineImages replaces links to images with the images, or removes them.
func (x *exporter) inlineImages(in *files.Folder, page []byte) []byte {
	return imageAttribute.ReplaceAllFunc(page, func(attribute []byte) []byte {
		name, err := url.PathUnescape(html.UnescapeString(string(imageAttribute.FindSubmatch(attribute)[1])))
		kind := contentTypes[path.Ext(name)]
		if strings.HasPrefix(name, "data:") {
			return attribute
		}
		if err != nil || !strings.HasPrefix(kind, "image/") {
			return nil
		}
		image, err := in.Read(filepath.FromSlash(name), maxRunPage)
		if err != nil {
			return nil
		}
		return fmt.Appendf(nil, ` src="data:%s;base64,%s"`, kind, base64.StdEncoding.EncodeToString(image))
	})
}

// redirectLinks makes links to runs lead to their copies, and removes other links into the store.
func (x *exporter) redirectLinks(page []byte) []byte {
	return linkAttribute.ReplaceAllFunc(page, func(attribute []byte) []byte {
		u, err := url.Parse(html.UnescapeString(string(linkAttribute.FindSubmatch(attribute)[1])))
		switch {
		case err != nil:
			return nil
		case u.Scheme != "" || u.Path == "": // a web page, or a part of this page
			return attribute
		case path.Base(u.Path) != runPage:
			return nil
		}
		dir := filepath.Join(x.dir, filepath.FromSlash(path.Dir(u.Path)))
		target, seen := x.targets[dir]
		if !seen {
			target = x.embed(dir)
			x.targets[dir] = target
		}
		if target == "" {
			return nil
		}
		return fmt.Appendf(nil, ` href="#%s"`, target)
	})
}

// inAttribute escapes a page for the attribute srcdoc.
var inAttribute = strings.NewReplacer("&", "&amp;", `"`, "&#34;")

// embed adds a section with a run's page and returns its id, or "" if the page is left out.
func (x *exporter) embed(dir string) string {
	name, err := filepath.Rel(filepath.Join(x.dir, "../.."), dir)
	if err != nil || !filepath.IsLocal(name) {
		return ""
	}
	page, err := x.runPage(x.store, filepath.ToSlash(name), dir)
	if err != nil {
		x.out.Unrenderable = append(x.out.Unrenderable, display.FirstLine(err.Error()))
		return ""
	}
	// Without a base, links within the page would lead to the outer page. Web pages open in a tab of
	// their own, because most of them refuse to be shown in a frame.
	text := strings.Replace(string(page), "<head>", `<head><base href="about:srcdoc">`, 1)
	text = inAttribute.Replace(strings.ReplaceAll(text, `<a href="http`, `<a target="_blank" href="http`))
	if x.size+int64(len(text)) > x.maxBytes {
		x.out.NumTooLarge++
		return ""
	}
	x.size += int64(len(text))
	x.out.NumRuns++
	id := fmt.Sprintf("run-%d", x.out.NumRuns)
	title := template.HTMLEscapeString(sanitize(runName(dir)))
	fmt.Fprintf(&x.sections, `<section class="embedded" id="%s" aria-label="%s"><p><a href="#">Back to the report</a> <b>%[2]s</b></p>
<iframe title="report of %[2]s" loading="lazy" sandbox="allow-scripts allow-popups" srcdoc="%[3]s"></iframe></section>
`, id, title, text)
	return id
}

// runName returns a run's scenario and, if its directory states it, its seed.
func runName(dir string) string {
	if m := runDirPattern.FindStringSubmatch(filepath.Base(dir)); m != nil {
		return strings.ReplaceAll(filepath.Base(filepath.Dir(dir)), "+", "/") + ", seed " + m[3]
	}
	return strings.ReplaceAll(filepath.Base(dir), "+", "/")
}

const exportStyle = `<style>a:not([href]){color:inherit!important;text-decoration:none}nav a:not([href]){display:none}
.embedded{display:none}.embedded:target{display:flex;flex-direction:column;position:fixed;inset:0;background:var(--paper)}.embedded p{margin:0;padding:.5rem 1rem;max-width:none;border-bottom:1px solid var(--line)}.embedded p a{margin-right:1rem}
.embedded iframe{flex:1;border:0;width:100%}body:has(.embedded:target)>:not(.embedded){display:none}</style>
`

// addSections completes the page with the runs' pages and a note on what was left out.
func (x *exporter) addSections(page []byte) []byte {
	page = bytes.Replace(page, []byte("</head>"), []byte(exportStyle+"</head>"), 1)
	if note := x.out.LeftOut(); note != "" {
		page = bytes.Replace(page, []byte("</h1>"), fmt.Appendf(nil, "</h1>\n<p class=\"note\" id=\"left-out\">%s</p>", template.HTMLEscapeString(sanitize(note))), 1)
	}
	return bytes.Replace(page, []byte("</body>"), append(x.sections.Bytes(), "</body>"...), 1)
}

// LeftOut states which pages the file does not contain, or returns "" if it contains all.
func (x *Export) LeftOut() string {
	var parts []string
	if x.NumWithout > 0 {
		parts = append(parts, display.Plural(x.NumWithout, "run")+" without a violation")
	}
	if x.NumTooLarge > 0 {
		parts = append(parts, display.Plural(x.NumTooLarge, "run")+" that would exceed the size limit")
	}
	if n := len(x.Unrenderable); n > 0 {
		parts = append(parts, fmt.Sprintf("%s that can't be drawn (%s)", display.Plural(n, "run"), x.Unrenderable[0]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "This file does not contain the pages of " + display.List(parts) + "."
}
