//go:build long

package main

import (
	"context"
	"testing"
)

// drawnFirst is true once the page shows its first violation, and opened is when that
// was, in milliseconds since the load began.
const (
	drawnFirst = `document.readyState === 'complete'`
	opened     = `performance.getEntriesByType('navigation')[0].loadEventStart`
)

func testTimeline(t *testing.T, browser context.Context, report string) {
	b := newTab(t, browser)
	b.open(report, "#t=12-18")
}
