//go:build long

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// screenshotDir is the folder for screenshots, which CI stores as artifacts.
const screenshotDir = "../../artifacts/screens"

// startBrowser starts a browser. If none is installed, it skips the test, or fails it in CI.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		const why = "no chromium, chromium-browser or google-chrome on PATH: apt-get install chromium"
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// A tab is a browser tab that collects errors.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	failures []string
}

// newTab opens a tab. The test fails if an error, an uncaught exception, a dialog or a network
// request occurs there.
func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	b.do() // opens the tab
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(stop)
	b.ctx = ctx
	if err := chromedp.Listen(ctx, b.handle); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.failures {
			t.Error(w)
		}
	})
	return b
}

func (b *tab) handle(event any) {
	report := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.failures = append(b.failures, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		report("exception: %s", describeException(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			report("console: %s", e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			report("log: %s", e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			report("request to %s", u)
		}
	case *page.EventJavascriptDialogOpening:
		report("dialog: %s", e.Message)
		go chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// call sends a command to the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	answer, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.Fatalf("%s: %v", command.Method, err)
	}
	return answer
}

// setWindow sets the window's size and color scheme.
func (b *tab) setWindow(width, height int64, scheme string) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// openFile loads a file, with the fragment hash.
func (b *tab) openFile(file, hash string) {
	b.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		b.Fatal(err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate("file://"+path+hash))
}

// expectValue checks the value of a JavaScript expression.
func (b *tab) expectValue(expression string, want any) {
	b.Helper()
	if got := b.evaluate(expression); fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("%s is %v, want %v", expression, got, want)
	}
}

func (b *tab) evaluate(expression string) any {
	b.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return got
}

// waitUntil waits until a JavaScript expression is true in the current page or in the page that is
// being loaded.
func (b *tab) waitUntil(expression string) {
	b.Helper()
	var err error
	for range 5 {
		_, err = chromedp.Run(b.ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(10*time.Second)))
		if err == nil || !strings.Contains(err.Error(), "Cannot find context") {
			break
		}
	}
	if err != nil {
		b.Fatalf("%s did not become true: %v", expression, err)
	}
}

// screenshot stores a picture of the window. If fullPage is set, nightly runs store one of the whole
// page.
func (b *tab) screenshot(name string, fullPage bool) {
	b.Helper()
	fullPage = fullPage && night // a screenshot of a long page takes longer than the rest of the test
	b.saveArtifact(name+".png", call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &fullPage}).Data)
}

func (b *tab) saveArtifact(name string, content []byte) {
	b.Helper()
	if err := os.MkdirAll(screenshotDir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(screenshotDir, name), content, 0o644); err != nil {
		b.Fatal(err)
	}
}

// lockpickExits runs lockpick and checks the exit code.
func lockpickExits(t *testing.T, code int, args ...string) {
	t.Helper()
	out, err := exec.Command("lockpick", args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Fatalf("lockpick %v: %v, want exit code %d\n%s", args, err, code, out)
	}
}

func describeException(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return e.Exception.Description
	}
	return e.Text
}
