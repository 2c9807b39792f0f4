//go:build long

package main

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// watchDrawing makes the page record when the timeline's first violation becomes visible, in
// milliseconds since loading started. It runs before the page's own scripts.
const (
	watchDrawing = `(() => { const look = () => { if (document.querySelector('.timeline[data-drawn] .tl-svg [data-e]')) window.drawnAt = performance.now();
		else requestAnimationFrame(look); }; look(); })()`
	drawnFirst = `window.drawnAt > 0`
	opened     = `window.drawnAt`
)

func (b *tab) watchDrawing() {
	b.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchDrawing})
}

// testTimeline operates the timeline as a reader would: wheel, drag, keys, buttons, links, hover
// and click.
func testTimeline(t *testing.T, browser context.Context, report string) {
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(report, "#t=12-18")
	b.waitUntil(`document.querySelector('.timeline').dataset.drawn`)
	b.waitUntil(`location.hash === '#t=12-18'`)
	b.evaluate(`addEventListener('scroll', () => { window.scrolledAt = performance.now(); }), window.scrolledAt = performance.now()`)
	b.do(chromedp.ScrollIntoView(chromedp.CSS(`.tl-svg`)))
	b.waitUntil(`performance.now() - window.scrolledAt > 400`) // a wheel that scrolls the page must not zoom
	from, to := b.visibleRange()
	if from < 11.9 || to > 18.1 {
		t.Errorf("#t=12-18 shows %v to %v", from, to)
	}
	zooms := func(how string, action func()) {
		t.Helper()
		before := b.evaluate(`location.hash`)
		action()
		b.waitUntil(`location.hash !== '` + before.(string) + `'`)
		f, u := b.visibleRange()
		if f == from && u == to {
			t.Errorf("%s changes nothing", how)
		}
		from, to = f, u
	}
	x, y := b.center(`.tl-svg`)
	zooms("the wheel", func() {
		// The browser does not send a delta of 0.
		call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseWheel, X: x, Y: y, DeltaX: 0.01, DeltaY: -200})
	})
	zooms("dragging", func() { b.do(chromedp.DragAndDropXY(x, y, x+150, y)) })
	b.do(chromedp.Focus(chromedp.CSS(`.tl-view`)))
	for _, key := range []string{"+", "-"} {
		zooms("the key "+key, func() { b.do(chromedp.KeyEvent(key)) })
	}
	zooms("a button", func() { b.do(chromedp.Click(chromedp.CSS(`.tl-all`))) })
	zooms("next violation", func() { b.do(chromedp.Click(chromedp.CSS(`.tl-next`))) })
	if from > 14.6 || to < 18.3 || to-from > 25 {
		t.Errorf("the violation from 14.6 to 18.3 s is shown as %v to %v", from, to)
	}
	b.screenshot("timeline-violation", false)

	// Hovering an item shows its description; a click highlights it in all views.
	const one = `.tl-svg [data-e~="172"], .tl-svg [data-e~="845"], .tl-svg [data-e~="934"]`
	b.waitUntil(`document.querySelector('` + one + `')`)
	x, y = b.center(one)
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
	b.waitUntil(`!document.querySelector('.tl-tip').hidden && document.querySelector('.tl-tip').textContent.length > 5`)
	b.screenshot("timeline-hover", false)
	b.do(chromedp.MouseClickXY(x, y))
	b.waitUntil(`document.querySelectorAll('#events tr.tl-lit').length > 0`)
	b.waitUntil(`document.querySelector('.tl-chosen').textContent.length > 5`)
	b.screenshot("timeline-chosen", false)

	// A link in the page's text moves the timeline.
	b.do(chromedp.Click(chromedp.CSS(`#p-resource-safety .go`)))
	b.waitUntil(`location.hash.startsWith('#t=13.')`)
}

// visibleRange returns the time range in the page's address, in seconds.
func (b *tab) visibleRange() (from, to float64) {
	b.Helper()
	parts, _ := b.evaluate(`(location.hash.match(/^#t=([\d.]+)-([\d.]+)(?:&v=\d+)?$/) || []).slice(1).map(Number)`).([]any)
	if len(parts) != 2 {
		b.Fatalf("no range in the address: %v", b.evaluate(`location.hash`))
	}
	return parts[0].(float64), parts[1].(float64)
}

// center returns the center of an element in window coordinates.
func (b *tab) center(selector string) (x, y float64) {
	b.Helper()
	at, _ := b.evaluate(`(() => { const r = document.querySelector('` + selector + `').getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`).([]any)
	return at[0].(float64), at[1].(float64)
}
