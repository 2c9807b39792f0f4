package suites

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"math"
	"mime"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"lockpick/internal/files"
	"lockpick/reports/display"
)

// pagePolicy is the content security policy for the server's own pages. They contain all styles and
// scripts they need, and connect to nothing.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// filePolicy is the content security policy for files in the store, which may be untrusted. The sandbox
// gives each page its own origin, so that the page cannot read the rest of the store.
const filePolicy = pagePolicy + "; sandbox allow-scripts allow-popups allow-downloads"

// contentTypes maps file extensions to content types. Files with other extensions are downloaded.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".json": "application/json", ".jsonl": "text/plain; charset=utf-8", ".xml": "application/xml",
	".md": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8", ".mmd": "text/plain; charset=utf-8",
	".edn": "text/plain; charset=utf-8", ".yaml": "text/plain; charset=utf-8",
}

// compress compresses text with gzip for clients that accept gzip. It shrinks pages to an eighth of
// their size.
var compress = func() func(http.Handler) http.HandlerFunc {
	var texts []string
	for _, kind := range contentTypes {
		if kind != contentTypes[".png"] {
			texts = append(texts, kind)
		}
	}
	wrap, err := gzhttp.NewWrapper(gzhttp.ContentTypes(texts))
	if err != nil {
		panic(err) // cannot fail: the content types are constants
	}
	return wrap
}()

// server serves a store to browsers on the same machine.
type server struct {
	store string
	root  *files.Folder // does not open paths and links that lead out of the store
	port  string

	drawMu sync.Mutex
	draw   func(dir string) error // draws the reports of a run
}

// NewServer returns an HTTP server for a store, for use with a loopback listener at the given address.
// The server accepts only GET and HEAD requests, and requires a loopback name in the Host header to
// reject requests from foreign pages whose host name was made to resolve to 127.0.0.1. It renders the
// index on each request, and calls draw to create a run's page if the page does not exist.
func NewServer(store string, at net.Addr, draw func(dir string) error) (*http.Server, error) {
	root, err := files.OpenFolder(store)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	h := &server{store: store, root: root, port: port, draw: draw}
	s := &http.Server{Handler: compress(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	s.RegisterOnShutdown(func() { root.Close() })
	return s, nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	switch name, ok := storePath(r.URL.Path); {
	case !s.isLoopbackHost(r.Host):
		http.Error(w, "this server accepts only requests to localhost or 127.0.0.1", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this server accepts only GET and HEAD requests", http.StatusMethodNotAllowed)
	case !ok:
		notFound(w, r)
	case name == "." || name == IndexFile:
		s.serveIndex(w, r)
	case path.Base(name) == PageFile && path.Dir(path.Dir(name)) == Folder:
		s.serveSuite(w, r, name)
	default:
		s.serveFile(w, r, name)
	}
}

//go:embed none.html.tmpl
var notFoundTemplate string

var notFoundPage = parseOnce("none", notFoundTemplate)

func notFound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", contentTypes[".html"])
	w.WriteHeader(http.StatusNotFound)
	if r.Method == http.MethodGet {
		notFoundPage().Execute(w, r.URL.Path)
	}
}

// isLoopbackHost reports whether a Host header consists of a loopback name and the server's port.
func (s *server) isLoopbackHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != s.port {
		return false
	}
	return name == "127.0.0.1" || strings.EqualFold(name, "localhost")
}

// storePath converts a URL's decoded path to a path in the store. It rejects hidden files, because they
// are unfinished.
func storePath(url string) (string, bool) {
	name := strings.TrimPrefix(url, "/")
	if name == "" {
		return ".", true
	}
	if strings.ContainsAny(name, "\\\x00") || !fs.ValidPath(name) {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return "", false
		}
	}
	return name, true
}

func (s *server) serveIndex(w http.ResponseWriter, r *http.Request) {
	page, err := drawIndex(s.store, true)
	if err != nil {
		http.Error(w, "the store can't be listed", http.StatusInternalServerError)
		return
	}
	sendPage(w, r, page)
}

// serveSuite renders a suite's page again, with links to all runs, because missing reports will be drawn
// when they are opened. If rendering fails, it sends the stored page.
func (s *server) serveSuite(w http.ResponseWriter, r *http.Request, name string) {
	var page bytes.Buffer
	suite, err := Open(filepath.Join(s.store, filepath.FromSlash(path.Dir(name))))
	if err == nil && s.root.Has(name) {
		suite.Store = s.store
		err = writePage(&page, newView(suite, otherBackends(suite), func(link string) bool {
			link = path.Join(Folder, "this", link) // link is relative to a suite's directory
			return s.root.Has(link) || path.Base(link) == runPage && s.root.Has(path.Dir(link)+"/"+runManifest)
		}))
	}
	if err != nil || page.Len() == 0 {
		s.serveFile(w, r, name)
		return
	}
	sendPage(w, r, page.Bytes())
}

func sendPage(w http.ResponseWriter, r *http.Request, page []byte) {
	w.Header().Set("Content-Type", contentTypes[".html"])
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	if r.Method == http.MethodGet {
		w.Write(page)
	}
}

// drawReport draws a run's reports if its page does not exist. It returns fs.ErrNotExist if there is no
// such run. It follows only links inside the store, such as a scenario's `latest` link.
func (s *server) drawReport(ctx context.Context, name string) error {
	dir := path.Dir(name)
	if path.Base(name) != runPage || !strings.Contains(dir, "/") || !s.root.Has(dir+"/"+runManifest) {
		return fs.ErrNotExist
	}
	s.drawMu.Lock() // drawing takes memory, and there may be several requests for the same page
	defer s.drawMu.Unlock()
	switch {
	case s.root.Has(name):
		return nil
	case ctx.Err() != nil: // the client has closed the connection
		return ctx.Err()
	}
	return s.draw(filepath.Join(s.store, filepath.FromSlash(dir)))
}

// serveFile sends a regular file. It does not list directories.
func (s *server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f, err := s.root.Open(name, math.MaxInt64) // the size does not matter, because the file is streamed
	if errors.Is(err, fs.ErrNotExist) {
		switch why := s.drawReport(r.Context(), name); {
		case why == nil:
			f, err = s.root.Open(name, math.MaxInt64)
		case !errors.Is(why, fs.ErrNotExist):
			http.Error(w, "the report can't be drawn: "+display.Sanitize(why.Error(), maxTextLen), http.StatusInternalServerError)
			return
		}
	}
	if err != nil {
		notFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		notFound(w, r)
		return
	}
	kind, known := contentTypes[path.Ext(name)]
	if !known {
		kind = "application/octet-stream"
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", filePolicy)
	http.ServeContent(w, r, "", info.ModTime(), f)
}
