package suites

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockpick/scenarios/outcome"
)

// startServer serves a store on loopback, as lockpick serve does, and returns the address.
func startServer(t *testing.T, store string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(store, l.Addr(), func(dir string) error {
		if strings.Contains(dir, "torn") {
			return errors.New("it can't be read")
		}
		return os.WriteFile(filepath.Join(dir, runPage), []byte("rendered"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return l.Addr().String()
}

// rawRequest sends a request as is, whereas an HTTP client would clean up the path.
func rawRequest(t *testing.T, addr, method, path, host string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", method, path, host)
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

const secret = "secret text"

// storeWithSecret creates a store with hidden files, next to a file that must not be served.
func storeWithSecret(t *testing.T) string {
	t.Helper()
	above := t.TempDir()
	store := filepath.Join(above, "store")
	write(t, filepath.Join(above, "secret.txt"), secret)
	storeReports(t, store, "pause", "pause/fenced")
	run := filepath.Join(store, "pause", "20260102T030405.000Z-sim-1")
	write(t, filepath.Join(run, ".hidden"), secret)
	write(t, filepath.Join(store, ".new-1", "run.json"), secret)
	write(t, filepath.Join(run, "history.jsonl"), "{}\n")
	write(t, filepath.Join(run, "core.bin"), "<script>")
	write(t, filepath.Join(run, "sequence.txt"), "c1\n")
	for link, to := range map[string]string{"out.txt": "../../../secret.txt", "far.txt": filepath.Join(above, "secret.txt"), "up": "../../.."} {
		if err := os.Symlink(to, filepath.Join(run, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Base(run), filepath.Join(store, "pause", "latest")); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestServeRejectsPathsOutsideStore(t *testing.T) {
	at := startServer(t, storeWithSecret(t))
	for _, path := range []string{
		"/../secret.txt", "/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt", "/pause/../../secret.txt", "/..\\secret.txt", "/%5c..%5csecret.txt",
		"//etc/passwd", "/pause//latest/report.html", "/etc/passwd", "/pause/latest/out.txt", "/pause/latest/far.txt", "/pause/latest/up/secret.txt",
		"/pause/latest/.hidden", "/.new-1/run.json", "/pause/latest/up", "/pause", "/pause/", "/pause/latest/", "/pause/latest/none.html",
		"/pause/latest/report.html/", "/pause/latest/report.html%00.txt", "/./index.html",
	} {
		r, body := rawRequest(t, at, "GET", path, at)
		if r.StatusCode != http.StatusNotFound || strings.Contains(body, secret) {
			t.Errorf("GET %s: %s %q, want 404", path, r.Status, body)
		}
	}
}

// If a page can't be rendered, the response states why.
func TestServeDrawError(t *testing.T) {
	store := t.TempDir()
	dir := filepath.Join(store, "baseline", "20260101T000000.000Z-sim-1-torn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, runManifest), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := startServer(t, store)
	r, body := rawRequest(t, at, "GET", "/baseline/"+filepath.Base(dir)+"/"+runPage, at)
	if r.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "it can't be read") || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("status is %d, content type %s, body %q", r.StatusCode, r.Header.Get("Content-Type"), body)
	}
}

// A run's page is rendered when it is opened. Pages outside the store, and other files, are not.
func TestServeDrawsOnDemand(t *testing.T) {
	store := storeWithSecret(t)
	bare := func(scenario string) string {
		dir := "/" + scenario + "/20260102T030405.000Z-sim-2/"
		write(t, filepath.Join(store, dir, "run.json"), "{}")
		return dir
	}
	plain, torn := bare("plain"), bare("torn")
	write(t, filepath.Join(store, "pause", "odd", "history.jsonl"), "{}")
	if err := os.Symlink("../..", filepath.Join(store, "pause", "above")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(filepath.Dir(store), "run.json"), "{}")
	at := startServer(t, store)
	for _, path := range []string{plain + "sequence.txt", "/pause/odd/" + runPage, "/pause/above/" + runPage, "/plain/" + runPage} {
		if r, body := rawRequest(t, at, "GET", path, at); r.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s %q, want 404", path, r.Status, body)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(store), runPage)); err == nil {
		t.Error("a page was rendered outside the store")
	}
	if _, body := rawRequest(t, at, "GET", "/", at); !strings.Contains(body, `href="`+plain[1:]+runPage) {
		t.Errorf("the index does not link to a report that is not rendered yet: %s", body)
	}
	dir, err := Write(&Suite{Store: store, Seeds: 1, StartTime: time.Unix(1e9, 0), Counts: map[string]int{"as expected": 1}, Runs: 1,
		Scenarios: []*Scenario{{Name: "plain", Row: outcome.Row{Runs: 1, Counts: map[string]int{"as expected": 1}, Dir: storePrefix + strings.Trim(plain, "/")}}}})
	if err != nil {
		t.Fatal(err)
	}
	link := `href="` + storePrefix + plain[1:] + runPage
	if page := read(t, filepath.Join(dir, PageFile)); strings.Contains(page, link) || !strings.Contains(page, "1 of these runs has no report yet") {
		t.Error("the stored suite links to a missing report or does not mention it")
	}
	if _, body := rawRequest(t, at, "GET", "/suites/"+filepath.Base(dir)+"/"+PageFile, at); !strings.Contains(body, link) || strings.Contains(body, "no report yet") {
		t.Error("the served suite does not link to a report that is not rendered yet")
	}
	for range 2 {
		if r, body := rawRequest(t, at, "GET", plain+runPage, at); r.StatusCode != http.StatusOK || body != "rendered" {
			t.Errorf("GET %s: %s %q, want the rendered page", plain, r.Status, body)
		}
	}
	if err := Index(store); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(store, IndexFile))
	if err != nil || strings.Contains(string(page), torn[1:]+runPage) || !strings.Contains(string(page), "no report yet") {
		t.Errorf("the stored index links to a missing report or does not mention it: %v", err)
	}
}

func TestServeContentTypes(t *testing.T) {
	at := startServer(t, storeWithSecret(t))
	run := "/pause/latest/"
	for path, want := range map[string]string{
		"/": "text/html; charset=utf-8", "/index.html": "text/html; charset=utf-8", run + "report.html": "text/html; charset=utf-8",
		run + "sequence.svg": "image/svg+xml", run + "outcome.json": "application/json", run + "history.jsonl": "text/plain; charset=utf-8",
		run + "sequence.txt": "text/plain; charset=utf-8", run + "core.bin": "application/octet-stream",
		"/pause+fenced/20260102T030405.000Z-sim-1/report.html": "text/html; charset=utf-8",
	} {
		r, body := rawRequest(t, at, "GET", path, at)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != want || body == "" {
			t.Errorf("GET %s: %s, content type %q, want %q", path, r.Status, r.Header.Get("Content-Type"), want)
		}
		policy := r.Header.Get("Content-Security-Policy")
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "connect-src 'none'") {
			t.Errorf("%s: missing security headers: %v", path, r.Header)
		}
		h, none := rawRequest(t, at, "HEAD", path, at)
		if h.StatusCode != http.StatusOK || h.ContentLength != int64(len(body)) || none != "" {
			t.Errorf("HEAD %s: %s, Content-Length %d, want %d; body %q", path, h.Status, h.ContentLength, len(body), none)
		}
	}
}

// Clients that accept gzip get compressed pages. Compressed files are sent unchanged.
func TestServeCompresses(t *testing.T) {
	store := storeWithSecret(t)
	page, packed := strings.Repeat("<p>repeated text</p>\n", 1000), strings.Repeat("\x1f\x8b", 1000)
	write(t, filepath.Join(store, "pause", "latest", runPage), page)
	write(t, filepath.Join(store, "pause", "latest", "history.jsonl.gz"), packed)
	at := startServer(t, store)
	for name, want := range map[string]string{runPage: page, "history.jsonl.gz": packed} {
		r, body := rawRequest(t, at, "GET", "/pause/latest/"+name, at+"\r\nAccept-Encoding: gzip")
		if gz := r.Header.Get("Content-Encoding") == "gzip"; gz != (name == runPage) || gz && len(body)*10 > len(want) || !gz && body != want {
			t.Errorf("%s: unexpected encoding: headers %v, %d bytes for a file of %d", name, r.Header, len(body), len(want))
		}
		if name != runPage {
			continue
		}
		if z, err := gzip.NewReader(strings.NewReader(body)); err != nil {
			t.Error(err)
		} else if text, err := io.ReadAll(z); err != nil || string(text) != want {
			t.Errorf("decompressed to %d bytes, want %d: %v", len(text), len(want), err)
		}
	}
	r, body := rawRequest(t, at, "GET", "/pause/<script>none", at)
	if r.StatusCode != http.StatusNotFound || !strings.Contains(body, `<a href="/">`) || strings.Contains(body, "<script>") || !strings.Contains(r.Header.Get("Content-Type"), "html") {
		t.Errorf("missing page: %s %s", r.Status, body)
	}
}

func TestServeRejectsOtherHosts(t *testing.T) {
	at := startServer(t, storeWithSecret(t))
	_, port, _ := net.SplitHostPort(at)
	for host, want := range map[string]int{
		at: 200, "localhost:" + port: 200, "LOCALHOST:" + port: 200,
		"evil.example": 403, "evil.example:" + port: 403, "127.0.0.1": 403, "127.0.0.1:1": 403, "127.0.0.1.evil.example:" + port: 403,
		"": 403, "localhost": 403,
	} {
		if r, body := rawRequest(t, at, "GET", "/", host); r.StatusCode != want {
			t.Errorf("Host %q: %s, want %d: %.100s", host, r.Status, want, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "CONNECT"} {
		if r, _ := rawRequest(t, at, method, "/", at); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s, want 405", method, r.Status)
		}
	}
}
