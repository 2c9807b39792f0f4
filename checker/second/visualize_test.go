package second_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

func visualize(t *testing.T, h *history.History, v verdict.Verdict) string {
	t.Helper()
	var page bytes.Buffer
	shown, err := second.Visualize(&page, h, v)
	if err != nil {
		t.Fatal(err)
	}
	if shown != (page.Len() > 0) {
		t.Fatalf("shown %v, %d bytes", shown, page.Len())
	}
	return page.String()
}

// drawing is the part of a picture's data that the tests use.
type drawing struct {
	Partitions []struct {
		History               []struct{ OriginalEnd, Description, Metadata string }
		PartialLinearizations [][]struct{ StateDescription string }
	}
}

// dataLine extracts the data, which is on a separate line because JSON contains no line breaks.
var dataLine = regexp.MustCompile(`(?m)^ *const data = (\{.*\})$`)

// data returns the data in a picture's page.
func data(t *testing.T, page string) drawing {
	t.Helper()
	var d drawing
	at := dataLine.FindStringSubmatch(page)
	if at == nil {
		t.Fatal("the page contains no data")
	}
	if err := json.Unmarshal([]byte(at[1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Only violated histories have a picture, and it contains the witness.
func TestPicturesOfTestdata(t *testing.T) {
	pictures := 0
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("find histories: %v, %d files", err, len(files))
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h := histories.MustParse(string(a.Files[0].Data))
		v := checker.Check(h)
		page := visualize(t, h, v)
		res := second.ResultToDraw(h, v)
		if (res != nil) != (page != "") {
			t.Errorf("%s: a violation to draw: %t; the page has %d bytes", file, res != nil, len(page))
		}
		if page == "" {
			continue
		}
		pictures++
		for _, s := range res.Witness.Sessions {
			if !strings.Contains(page, `"Description":"`+s+` acquire`) {
				t.Errorf("%s: session %s is not in its picture", file, s)
			}
		}
		// The page loads nothing: its only URLs are XML namespaces.
		for _, m := range regexp.MustCompile(`https?://[^"'\s)]*|src=|@import|url\(`).FindAllString(page, -1) {
			if m != "http://www.w3.org/2000/svg" {
				t.Errorf("%s: the page loads %s", file, m)
			}
		}
	}
	if pictures < 5 {
		t.Errorf("only %d pictures", pictures)
	}
}

// crowdedHistory returns a violation among many other sessions with unknown outcomes, which make
// porcupine's search large.
func crowdedHistory(sessions int) *history.History {
	rnd := rand.New(rand.NewPCG(11, 12))
	var b strings.Builder
	b.WriteString("params clients=c1,c2,c3 nodes=n1 mayBeIdle stampError=1ms\n0 c1 begin client\n0 c2 begin client\n0 c3 begin client\n")
	for i := range sessions {
		at, c := float64(i+1)*10, 1+i%3
		if i == sessions/2+1 {
			at -= 9.7 // while the previous session holds the lock
		}
		s := fmt.Sprintf("c%d/%d", c, i)
		fmt.Fprintf(&b, "%.3f c%d invoke acquire session=%s\n", at, c, s)
		if rnd.IntN(8) == 0 && i != sessions/2 && i != sessions/2+1 {
			fmt.Fprintf(&b, "%.3f c%d info acquire session=%s\n", at+1, c, s)
			continue
		}
		until := at + 8
		fmt.Fprintf(&b, "%.3f c%d ok acquire session=%s until=%.3f\n", at+1, c, s, until)
		if rnd.IntN(5) == 0 {
			continue
		}
		outcome := []string{"ok", "ok", "ok", "info"}[rnd.IntN(4)]
		fmt.Fprintf(&b, "%.3f c%d invoke release session=%s\n%.3f c%d %s release session=%s\n", at+6, c, s, at+7, c, outcome, s)
	}
	return histories.MustParse(b.String())
}

// A picture of a long history shows a part of it that contains the witness.
func TestPictureShowsPartOfLongHistory(t *testing.T) {
	h := crowdedHistory(400)
	v := checker.Check(h, verdict.MutualExclusion, verdict.LeaseLinearizable)
	if v.Assumption != "" || v.Results[0].Outcome != verdict.Violated {
		t.Fatalf("%s %+v", v.Assumption, v.Results)
	}
	first := visualize(t, h, v)
	k := data(t, first).Partitions[0]
	if n := len(k.History); n > second.PictureOperations || n < second.PictureOperations*9/10 {
		t.Errorf("the picture shows %d operations, want at most %d", n, second.PictureOperations)
	}
	unknown := 0
	for _, o := range k.History {
		if o.OriginalEnd == fmt.Sprint(facts.Never) {
			unknown++
		}
	}
	if unknown == 0 || unknown > second.PictureUnknown {
		t.Errorf("the picture shows %d operations of unknown outcome", unknown)
	}
	t.Logf("%d operations, %d linearizations, %d bytes", len(k.History), len(k.PartialLinearizations), len(first))
}

// Names from a history must stay data, even when the page's script inserts them.
func TestPictureEscapesHostileNames(t *testing.T) {
	const hostile = "</script><script>alert(1)</script><img/src=x/onerror=alert(1)>\"'`&lt;\u202e\u2028\n      const data = {}\x00"
	h := crowdedHistory(6)
	for i := range h.Events {
		e := &h.Events[i]
		if e.Process == "c1" {
			e.Process = "c1" + hostile
		}
		if e.Session != "" {
			e.Session += hostile
		}
		e.Key = hostile
	}
	h.Params.Clients[0] += hostile
	v := checker.Check(h, verdict.MutualExclusion, verdict.LeaseLinearizable)
	if v.Results[0].Outcome != verdict.Violated {
		t.Fatalf("%s %+v", v.Assumption, v.Results)
	}
	page, plain := visualize(t, h, v), visualize(t, crowdedHistory(6), checker.Check(crowdedHistory(6)))
	for _, s := range []string{"<script", "</script", "<img", "\u202e", "\u2028", "\n      const data = ", "<"} {
		if strings.Count(page, s) != strings.Count(plain, s) {
			t.Errorf("%q occurs %d times in the page, but %d times without hostile names", s, strings.Count(page, s), strings.Count(plain, s))
		}
	}
	d := data(t, page)
	var texts []string
	for _, o := range d.Partitions[0].History {
		texts = append(texts, o.Description, o.Metadata)
	}
	for _, steps := range d.Partitions[0].PartialLinearizations {
		for _, s := range steps {
			texts = append(texts, s.StateDescription)
		}
	}
	if i := slices.IndexFunc(texts, func(s string) bool { return strings.ContainsAny(s, "<>&\"`\n\x00\u202e") }); i >= 0 {
		t.Errorf("the script would show %q", texts[i])
	}
}

// Each violation has a picture or nothing to draw. There is nothing to draw for locks without loss
// notifications, whose leases may end without any client's knowledge.
func TestDrawsEveryViolation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	numDrawn, numUnnotified := 0, 0
	for i := range 1000 {
		h := histories.Random(rnd)
		h.Params.NoLossNotice, h.Params.ReportsKeys = i%2 == 0, i%4 == 0
		v := checker.Check(h)
		page := visualize(t, h, v)
		switch exclusion := v.Result(verdict.MutualExclusion); {
		case page != "":
			numDrawn++
		case exclusion != nil && exclusion.Outcome == verdict.Violated:
			numUnnotified++
			if !h.Params.NoLossNotice {
				t.Errorf("no picture of\n%s", histories.FormatLines(h))
			}
		}
	}
	if numDrawn < 50 || numUnnotified < 5 {
		t.Errorf("%d pictures and %d violations without notification: the test needs more of both", numDrawn, numUnnotified)
	}
}

func TestNothingToDraw(t *testing.T) {
	h := crowdedHistory(4)
	for _, v := range []verdict.Verdict{{}, {Results: []verdict.Result{{Property: verdict.MutualExclusion, Outcome: verdict.Holds}, {Property: verdict.ResourceSafety, Outcome: verdict.Violated, Witness: &verdict.Witness{}}}}} {
		if page := visualize(t, h, v); page != "" {
			t.Error("got a picture although there is nothing to draw")
		}
	}
	// A verdict on another history is an error, not a panic.
	other := verdict.Verdict{Results: []verdict.Result{{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Witness: &verdict.Witness{Sessions: []string{"x", "y"}, Key: "z"}}}}
	var page bytes.Buffer
	if shown, err := second.Visualize(&page, h, other); shown || err == nil || page.Len() > 0 {
		t.Errorf("%v, %v", shown, err)
	}
}
