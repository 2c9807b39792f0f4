//go:build long

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"lockpick/reports"
)

// diagramBottom is the bottom edge of the diagram's lanes and axis, in window coordinates.
const diagramBottom = `[...document.querySelectorAll('#verdict svg.sq .sq-tick')].reduce((y, e) => Math.max(y, e.getBoundingClientRect().bottom), 0)`

// unreadableLabels lists the diagram's labels that the browser draws cut off, overlapping, or
// crossed by an arrow.
const unreadableLabels = `(() => {
	const svg = document.querySelector('#verdict svg.sq'), all = [...svg.querySelectorAll('text')].map((e) => ({ text: e.textContent, class: e.getAttribute('class') || '', b: e.getBBox() }));
	const wrong = [], whole = svg.viewBox.baseVal, over = (p, q) => p.x + 1.5 < q.x + q.width && q.x + 1.5 < p.x + p.width && p.y + 2 < q.y + q.height && q.y + 2 < p.y + p.height;
	all.forEach((t, i) => {
		if (t.b.x < 0 || t.b.x + t.b.width > whole.width) wrong.push('cut: ' + t.text);
		all.slice(i + 1).forEach((o) => { if (over(t.b, o.b)) wrong.push(t.text + ' over ' + o.text); });
		if (!/sq-label|sq-in/.test(t.class)) return;
		svg.querySelectorAll('path.sq-arrow:not(.sq-head), path.sq-harm:not(.sq-head)').forEach((a) => {
			if (!/L/.test(a.getAttribute('d'))) return;
			for (let k = 0, n = a.getTotalLength(); k <= n; k += 2) {
				const q = a.getPointAtLength(k);
				if (q.x > t.b.x + 1 && q.x < t.b.x + t.b.width - 1 && q.y > t.b.y + 3 && q.y < t.b.y + t.b.height - 3) return wrong.push('an arrow through ' + t.text);
			}
		});
	});
	return wrong.join('; '); })()`

// testFirstScreen checks what a reader sees of a violation without scrolling: a sentence with cause
// and effect, whether it was expected, and the diagram, which must fit into a wide window. In a narrow
// window, the story comes before the diagram.
func testFirstScreen(t *testing.T, browser context.Context, report, name, sentence, badge string, modes []mode) {
	b := newTab(t, browser)
	for _, m := range modes {
		width, scheme := m.width, m.scheme
		b.setWindow(width, 900, scheme)
		b.openFile(report, "")
		b.expectValue(`document.querySelector('.lede').textContent`, sentence)
		b.expectValue(`[...document.querySelectorAll('.badge')].map((e) => e.textContent).join()`, badge)
		b.expectValue(`document.querySelector('.lede').getBoundingClientRect().bottom < 300`, true)
		first, next := "svg.sq", ".caption"
		if width < 500 {
			first, next = next, first
		}
		top, _ := b.evaluate(`document.querySelector('#verdict ` + first + `').getBoundingClientRect().top`).(float64)
		below, _ := b.evaluate(`document.querySelector('#verdict ` + next + `').getBoundingClientRect().top`).(float64)
		if top > 600 || below < top {
			t.Errorf("at %d px, %s begins at %.0f and %s at %.0f", width, first, top, next, below)
		}
		if bottom, _ := b.evaluate(diagramBottom).(float64); width == 1280 && bottom > 900 {
			t.Errorf("the diagram's lanes end at %.0f of 900", bottom)
		}
		b.expectValue(`[...document.querySelectorAll('svg.sq text')].filter(e => parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a < 10.99).map(e => e.textContent).join()`, "")
		if scheme == "light" {
			b.expectValue(unreadableLabels, "")
			b.expectValue(`document.querySelector('#verdict svg.sq').getBoundingClientRect().right <= innerWidth || innerWidth < 500`, true)
		}
		b.expectValue(`(() => { const of = [...document.querySelectorAll('.results tbody tr')].map((r) => r.querySelector('.mark').textContent.trim().split(' ').slice(1).join(' '));
			return of.indexOf('violated') === 0 && of.every((o, i) => o !== 'not exercised' || of.slice(i).every((p) => p === o)); })()`, true)
		b.screenshot(fmt.Sprintf("first-%s-%d-%s", name, width, scheme), false)
	}
}

// testIncidents steps through all incidents in a run with the keys n and p, and follows a link to
// one.
func testIncidents(t *testing.T, browser context.Context, store string) {
	report := filepath.Join(store, "gc-like-pauses", "latest", reports.PageFile)
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(report, "")
	b.waitUntil(`document.querySelector('.timeline').dataset.drawn`)
	const here = `[...document.querySelectorAll('.tl-views li')].findIndex((li) => li.classList.contains('tl-here'))`
	n := int(b.evaluate(`document.querySelectorAll('.tl-views li').length`).(float64))
	b.expectValue(`+document.querySelector('#p-resource-safety td[data-l=Occasions]').textContent.match(/violated (\d+) times/)[1]`, n)
	b.evaluate(`(async () => { const bytes = Uint8Array.from(atob(JSON.parse(document.querySelector('.tl-data').textContent)), (c) => c.charCodeAt(0)); // the data is compressed
		window.drawnOf = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json(); })(), 0`)
	b.waitUntil(`window.drawnOf`)
	seenViews := map[int]bool{}
	for range n {
		before := b.evaluate(`location.hash`)
		b.evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'n', bubbles: true }))`)
		b.waitUntil(`location.hash !== '` + before.(string) + `' && ` + here + ` >= 0 && location.hash.endsWith('&v=' + (` + here + ` + 1))`)
		b.waitUntil(`document.querySelector('.tl-view').getBoundingClientRect().top < innerHeight && document.querySelector('.tl-view').getBoundingClientRect().bottom > 0`)
		// The whole violation is in view.
		b.expectValue(`(() => { const v = window.drawnOf.views[`+here+`], m = location.hash.match(/t=([\d.]+)-([\d.]+)/);
			return m[1] * 1e6 <= v.from && v.to <= m[2] * 1e6; })()`, true)
		seenViews[int(b.evaluate(here).(float64))] = true
	}
	if len(seenViews) != n || n < 10 {
		t.Errorf("n reached %d of %d incidents", len(seenViews), n)
	}
	lastView := b.evaluate(here)
	b.evaluate(`document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'p', bubbles: true }))`)
	b.waitUntil(here + fmt.Sprintf(` !== %v`, lastView))
	b.expectValue(`document.querySelectorAll('.tl-map .tl-mark, .tl-map .tl-mark-here').length > 5`, true)
	b.evaluate(`window.movedAt = performance.now()`)
	b.waitUntil(`performance.now() - window.movedAt > 500`) // the view moves smoothly
	b.screenshot("incidents", false)
	b = newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(report, "#t=2-5")
	b.waitUntil(`document.querySelector('.timeline').dataset.drawn`)
	b.waitUntil(`(() => { const r = document.querySelector('#timeline').getBoundingClientRect(); return r.top > -5 && r.top < innerHeight / 2; })()`)
	b.screenshot("incident-link", false)
}
