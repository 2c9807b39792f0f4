//go:build long

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// visibleRows lists the visible rows in a suite's table.
const visibleRows = `[...document.querySelectorAll('tr[data-outcome]')].filter((r) => r.checkVisibility()).map((r) => r.dataset.scenario.trim()).join()`

// testSuiteFilters filters the runs in a suite with the keyboard.
func testSuiteFilters(t *testing.T, browser context.Context, suite string) {
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(suite, "")
	b.expectValue(visibleRows, "") // a long table is folded
	b.expectValue(`[...document.querySelectorAll('.card h3 a')].map((a) => a.textContent).join()`, "wrong,never-comes")
	b.do(chromedp.Click(chromedp.CSS(`#matrix summary`)))
	all := fmt.Sprint(b.evaluate(visibleRows))
	if !strings.HasPrefix(all, "wrong,never-comes,lost-packets") || strings.Contains(all, "baseline/") {
		t.Errorf("wrong first rows, or the table is not collapsed: %s", all)
	}
	pressKeys := func(selector, keys string) {
		t.Helper()
		b.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent(keys))
	}
	pressKeys(`tr[data-scenario="baseline"] .fold`, "\r")
	b.expectValue(`(`+visibleRows+`).split(',').filter((n) => n.startsWith('baseline/')).length`, 4)
	b.expectValue(`document.querySelector('tr[data-scenario="baseline"] .fold').ariaExpanded`, true)
	pressKeys(`[name=scenario]`, "clock slew")
	b.expectValue(`location.hash`, "#scenario=clock+slew")
	b.expectValue(visibleRows, "clock-jump/slewed")
	pressKeys(`#filters [type=reset]`, "\r")
	b.waitUntil(`location.hash === ''`)
	pressKeys(`[name=outcome]`, "unex")
	b.expectValue(`location.hash`, "#outcome=unexpected")
	b.expectValue(visibleRows, "wrong")
	b.screenshot("suite-filtered", false)
	b.openFile(suite, "#outcome=violated&property=resource-safety")
	b.expectValue(`[...document.querySelectorAll('tr[data-outcome]')].every((r) => r.hidden !== !!r.querySelector('[data-property="resource-safety"][data-got=violated]'))`, true)
	b.expectValue(`document.querySelector('[name=property]').value`, "resource-safety")
	b.evaluate(`location.hash = '#outcome=skipped'`)
	b.waitUntil(`(` + visibleRows + `).startsWith('lost-packets')`)
	b.openFile(suite, "#nothing=of-it&outcome=such")
	b.expectValue(visibleRows, all)
	b.do(chromedp.Click(chromedp.CSS(`.counters li[data-filter=unexpected] a`)))
	b.waitUntil(visibleRows + ` === 'wrong'`)

	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.openFile(suite, "")
	b.evaluate(`document.getElementById('matrix').open = true`)
	b.expectValue(`document.querySelectorAll('tr[data-outcome]').length === (`+visibleRows+`).split(',').length && document.getElementById('filters').hidden`, true)
}

// testSeeds selects seeds in a sweep with the keyboard, and follows a seed's link to its report.
func testSeeds(t *testing.T, browser context.Context, sweep string) {
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(sweep, "")
	b.expectValue(`[...new Set([...document.querySelectorAll('.seeds')].map((s) => [...s.querySelectorAll('text')].map((e) => e.textContent).slice(1).join()))].join(' ')`, "seed,+0,+10,1")
	for _, href := range b.evaluate(`[...document.querySelectorAll('.grid a')].map((a) => decodeURI(new URL(a.href.baseVal, location).pathname))`).([]any) {
		if _, err := os.Stat(href.(string)); err != nil {
			t.Error(err)
		}
	}
	b.do(chromedp.Focus(chromedp.CSS(`.seeds`)))
	for range 8 {
		b.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	b.expectValue(`document.querySelector('.seeds code').textContent`, "lockpick run random-faults/ --seed 8")
	b.screenshot("seeds", false)
	b.do(chromedp.KeyEvent("\t"))
	b.expectValue(`document.activeElement.getAttribute('aria-label')`, "seed 8: violated, as expected or informational, report")
	b.do(chromedp.Focus(chromedp.CSS(`.seeds`)), chromedp.KeyEvent("\r"))
	b.waitUntil(`location.pathname.endsWith('-sim-8/report.html')`)
}

// testIndexPages turns the pages of an index, alone and together with a filter. Without scripts, all runs
// are on one page.
func testIndexPages(t *testing.T, browser context.Context, index string) {
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	b.openFile(index, "")
	const numVisible = `[...document.querySelectorAll('table[data-pages=runs] tr[data-outcome]')].filter((r) => r.checkVisibility()).length`
	all := int(b.evaluate(`document.querySelectorAll('table[data-pages=runs] tr[data-outcome]').length`).(float64))
	if all <= 30 || all > 60 {
		t.Fatalf("%d runs, want two pages", all)
	}
	b.expectValue(numVisible, 30)
	b.expectValue(`document.querySelector('.pager:not([hidden])').textContent`, fmt.Sprintf("Newer1–30 of %dOlder", all))
	b.do(chromedp.Click(chromedp.CSS(`.pager a[rel=next]`)))
	b.waitUntil(`location.hash === '#runs=2'`)
	b.waitUntil(fmt.Sprintf(`%s === %d`, numVisible, all-30))
	b.screenshot("index-second-page", false)
	b.do(chromedp.Click(chromedp.CSS(`.pager a[rel=prev]`)))
	b.waitUntil(numVisible + ` === 30`)
	b.openFile(index, "#runs=2&outcome=as+expected")
	b.expectValue(`document.querySelector('[name=outcome]').value`, "as expected")
	b.waitUntil(numVisible + ` > 0`)
	b.openFile(index, "#runs=99")
	b.expectValue(numVisible, all-30)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.openFile(index, "")
	b.expectValue(numVisible, all)
}

// testExport follows a link from an exported suite to a run and back, with and without scripts.
func testExport(t *testing.T, browser context.Context, export string) {
	b := newTab(t, browser)
	b.setWindow(1280, 900, "light")
	const frame = `[...document.querySelectorAll('iframe')].filter((f) => f.checkVisibility()).map((f) => f.title).join()`
	for _, scripts := range []bool{true, false} {
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts})
		b.openFile(export, "")
		b.expectValue(frame, "")
		b.do(chromedp.Click(chromedp.CSS(`.card h3 a`)))
		b.expectValue(`location.hash`, "#run-1")
		b.expectValue(frame, "report of wrong, seed 1")
		b.expectValue(`document.querySelector('main').checkVisibility()`, false)
		b.expectValue(`document.documentElement.scrollWidth <= 1280 && document.querySelector('#run-1 iframe').getBoundingClientRect().height > 700`, true)
		b.screenshot(fmt.Sprintf("export-%v", scripts), false)
		b.do(chromedp.Click(chromedp.CSS(`#run-1 a`)))
		b.expectValue(frame, "")
		b.expectValue(`document.querySelector('main').checkVisibility()`, true)
	}
}
