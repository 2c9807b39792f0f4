package suites

import (
	"errors"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const exportLimit = 1 << 20

// relativeReference matches a link or a picture that is neither in the file nor on the web.
var relativeReference = regexp.MustCompile(` (href|src)="(?:[^#"hd][^"]*)"`)

// exportableStore creates a store with a suite of every kind of result. Each run's page names its scenario.
func exportableStore(t *testing.T) (store, suite string) {
	t.Helper()
	store = t.TempDir()
	for _, id := range []string{"pause", "clean", "surprise", "vacuous"} {
		dir := filepath.Join(store, id, "20260102T030405.000Z-sim-1")
		write(t, filepath.Join(dir, runManifest), "{}")
		write(t, filepath.Join(dir, runPage), `<!doctype html><html><head></head><body><p class="back" id="back"><a href="../../index.html">All</a></p>
<a href="#x">page "of" `+id+`</a> <a href="https://example.org">source</a>
<p>Other files of this run: <a href="sequence.txt">sequence.txt</a></p>
</body></html>`)
	}
	suite, err := Write(fullSuite(store))
	if err != nil {
		t.Fatal(err)
	}
	return store, suite
}

func noRendering(string) error { return errors.New("the history is gone") }

// An exported suite contains the pages of the runs with a violation or an unexpected result, the
// unexpected ones first, and refers to no other file.
func TestExportSuite(t *testing.T) {
	_, suite := exportableStore(t)
	x, err := NewExport(suite, exportLimit, noRendering)
	if err != nil {
		t.Fatal(err)
	}
	page := string(x.HTML)
	if found := relativeReference.FindAllString(page, -1); len(found) > 0 {
		t.Errorf("the file refers to others: %q", found)
	}
	var at []int
	for _, id := range []string{"surprise", "vacuous", "pause"} {
		at = append(at, strings.Index(page, html.EscapeString(`page "of" `+id)))
	}
	if at[0] < 0 || at[1] < at[0] || at[2] < at[1] || strings.Contains(page, "of&#34; clean") || x.NumRuns != 3 {
		t.Errorf("%d runs, at %v, want surprise, vacuous and pause", x.NumRuns, at)
	}
	for _, want := range []string{`<a href="#run-1">surprise</a>`, `<section class="embedded" id="run-1" aria-label="surprise, seed 1">`, `sandbox="allow-scripts allow-popups" srcdoc="<!doctype`,
		`<head><base href=&#34;about:srcdoc&#34;>`, `target=&#34;_blank&#34; href=&#34;https://example.org`, "does not contain the pages of 3 runs without a violation"} {
		if !strings.Contains(page, want) {
			t.Errorf("the file does not contain %q", want)
		}
	}
	for _, bad := range []string{"index.html", "sequence.txt", "suite.md"} {
		if strings.Contains(page, bad) {
			t.Errorf("the file contains %q", bad)
		}
	}
}

// Pages that do not fit are left out from the end, and the file says so.
func TestExportSizeLimit(t *testing.T) {
	_, suite := exportableStore(t)
	all, err := NewExport(suite, exportLimit, noRendering)
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(strings.Index(string(all.HTML), `<section class="embedded" id="run-3"`))
	x, err := NewExport(suite, limit, noRendering)
	if err != nil || x.NumRuns != 2 || x.NumTooLarge != 1 || !strings.Contains(string(x.HTML), "1 run that would exceed the size limit") || strings.Contains(string(x.HTML), "of&#34; pause") {
		t.Errorf("with a limit of %d bytes: %+v, %v", limit, x.LeftOut(), err)
	}
	if _, ok := errors.AsType[*TooLargeError](errOf(NewExport(suite, 100, noRendering))); !ok {
		t.Error("a limit below the size of the page is accepted")
	}
}

func errOf(_ *Export, err error) error { return err }

// A run is exported alone. Its page is rendered if there is none.
func TestExportRun(t *testing.T) {
	store, _ := exportableStore(t)
	x, err := NewExport(filepath.Join(store, "pause", "20260102T030405.000Z-sim-1"), exportLimit, noRendering)
	if err != nil || !strings.Contains(string(x.HTML), `page "of" pause`) || strings.Contains(string(x.HTML), "index.html") || x.LeftOut() != "" {
		t.Errorf("%v: %+v", err, x)
	}
	bare := filepath.Join(store, "bare", "20260102T030405.000Z-sim-1")
	write(t, filepath.Join(bare, runManifest), "{}")
	x, err = NewExport(bare, exportLimit, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, runPage), []byte("rendered"), 0o644)
	})
	if err != nil || string(x.HTML) != "rendered" {
		t.Errorf("%v: %+v", err, x)
	}
	if _, err := NewExport(store, exportLimit, noRendering); !errors.Is(err, ErrNotExportable) {
		t.Errorf("exporting a store: %v", err)
	}
}

// The pages of scorecards and assessments are exported with the runs they link to, and with their images,
// but not with what is outside the store.
func TestExportOtherPages(t *testing.T) {
	store, _ := exportableStore(t)
	write(t, filepath.Join(filepath.Dir(store), "outside", runPage), "secret")
	dir := filepath.Join(store, AssessmentFolder, "20260102T030405.000Z")
	write(t, filepath.Join(dir, "plot.svg"), "<svg/>")
	write(t, filepath.Join(dir, AssessmentPage), `<html><head></head><body><h1>Assessment</h1><a href="../../pause/20260102T030405.000Z-sim-1/report.html#p-x">run</a>
<a href="../../pause/20260102T030405.000Z-sim-1/report.html">again</a><a href="../../../outside/report.html">out</a><a href="../../bare/latest/report.html">bare</a>
<img src="plot.svg"><img src="../../../outside/report.html"><img src="gone.png"></body></html>`)
	write(t, filepath.Join(store, "bare", "latest", runManifest), "{}")
	x, err := NewExport(dir, exportLimit, noRendering)
	if err != nil {
		t.Fatal(err)
	}
	page := string(x.HTML)
	for _, want := range []string{`<a href="#run-1">run</a>`, `<a href="#run-1">again</a>`, "<a>out</a>", "<a>bare</a>", `<img src="data:image/svg+xml;base64,PHN2Zy8+">`, "<img><img>",
		"1 run that can&#39;t be drawn (the history is gone)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the file does not contain %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "secret") || x.NumRuns != 1 {
		t.Errorf("%d runs, or a page from outside the store", x.NumRuns)
	}
}
