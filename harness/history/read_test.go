package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// readSlowly is a simple equivalent of Read that ignores time and memory.
func readSlowly(text []byte) (*History, error) {
	br := bufio.NewReaderSize(bytes.NewReader(text), len(text)+1)
	var events []Event
	truncation := ""
	for line := 1; ; line++ {
		text, err := br.ReadBytes('\n')
		if len(text) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d bytes", line, maxLine)
		}
		if err != nil && len(text) == 0 {
			break
		}
		e, decodeErr := decode(text)
		if decodeErr != nil && err != nil && line > 1 {
			truncation = fmt.Sprintf("line %d is incomplete", line)
			break
		}
		if decodeErr != nil {
			return nil, fmt.Errorf("line %d: %w", line, decodeErr)
		}
		if line == 1 {
			if err := checkFirst(e); err != nil {
				return nil, err
			}
		} else if last := events[len(events)-1].N; e.N <= last {
			return nil, fmt.Errorf("line %d: event %d comes after event %d, but recorders number events in ascending order", line, e.N, last)
		}
		events = append(events, e)
	}
	h, err := New(events)
	if err == nil && truncation != "" {
		h.Truncation = truncation
	}
	return h, err
}

// checkRead checks that Read and readSlowly agree, and that writing the events and reading them
// again changes nothing.
func checkRead(t testing.TB, text []byte) *History {
	t.Helper()
	want, wantErr := readSlowly(text)
	got, err := Read(bytes.NewReader(text))
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		t.Errorf("%.500q:\ngot  %+v, %v\nwant %+v, %v", text, got, err, want, wantErr)
	}
	if wantErr != nil {
		return nil
	}
	events := slices.Clone(want.Events)
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.N, b.N) })
	var b []byte
	for i := range events {
		events[i] = events[i].normalize()
		var err error
		if b, err = appendLine(b, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	rereadHistory, err := Read(bytes.NewReader(b))
	if fromEvents, fromEventsErr := New(events); err != nil || fromEventsErr != nil || !reflect.DeepEqual(rereadHistory, fromEvents) {
		t.Errorf("%.500q:\nreread %+v, %v\nwant   %+v", text, rereadHistory, err, fromEvents)
	}
	return want
}

func TestReadAnyLength(t *testing.T) {
	for _, cycles := range []int{1, 3, 4, 50, 100, 1500} { // around the chunk sizes
		var b bytes.Buffer
		g := generatedHistory{cycles: cycles}
		if _, err := b.ReadFrom(&g); err != nil {
			t.Fatal(err)
		}
		h := checkRead(t, b.Bytes())
		if h == nil || h.Truncation != "" || len(h.Events) != g.numLines {
			t.Fatalf("%d cycles: %d lines were read as %+v", cycles, g.numLines, h)
		}
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		fromFile, err := ReadFile(path)
		if err != nil || !reflect.DeepEqual(fromFile, h) {
			t.Errorf("%d cycles: the file and the stream have different events, error %v", cycles, err)
		}
	}
}

// A compressed history reads like the original, and a truncated one like the part that can be
// decompressed. Compressed files that are not histories, or that expand too much, are rejected.
func TestReadCompressed(t *testing.T) {
	var text, compressed, compressedAgain bytes.Buffer
	g := generatedHistory{cycles: 1500}
	if _, err := text.ReadFrom(&g); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Pack(&compressed, bytes.NewReader(text.Bytes())), Pack(&compressedAgain, bytes.NewReader(text.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compressed.Bytes(), compressedAgain.Bytes()) || compressed.Len()*5 > text.Len() {
		t.Errorf("%d bytes were compressed to %d bytes, then to %d bytes", text.Len(), compressed.Len(), compressedAgain.Len())
	}
	want := checkRead(t, text.Bytes())
	path := filepath.Join(t.TempDir(), "h")
	read := func(text []byte) (*History, error) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path)
	}
	if h, err := read(compressed.Bytes()); err != nil || !reflect.DeepEqual(h, want) {
		t.Errorf("the compressed history is different, error %v", err)
	}
	for _, size := range []int{compressed.Len() - 1, compressed.Len() - 8, compressed.Len() / 2} {
		h, err := read(compressed.Bytes()[:size])
		if err != nil {
			t.Errorf("%d of %d bytes: %v", size, compressed.Len(), err)
			continue
		}
		if n := len(h.Events); size == compressed.Len()/2 && (h.Truncation == "" || n < g.numLines/4 || n >= g.numLines) || size > compressed.Len()/2 && n != g.numLines {
			t.Errorf("%d of %d bytes: %d of %d events, truncation %q", size, compressed.Len(), n, g.numLines, h.Truncation)
		}
	}
	corrupted := bytes.Clone(compressed.Bytes())
	corrupted[len(corrupted)-5] ^= 1 // damage the checksum
	var nested bytes.Buffer
	if err := Pack(&nested, bytes.NewReader(compressed.Bytes())); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"only the magic":   {0x1f, 0x8b},
		"invalid header":   append([]byte{0x1f, 0x8b}, text.Bytes()...),
		"wrong checksum":   corrupted,
		"trailing data":    append(bytes.Clone(compressed.Bytes()), "more of something else"...),
		"compressed twice": nested.Bytes(),
		"truncated header": compressed.Bytes()[:12],
	} {
		if h, err := read(text); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: history was read: %v, error %v", name, h != nil, err)
		}
	}
}

// A file can't expand to more than MaxFileBytes, however small it is.
func TestUnpackIsLimited(t *testing.T) {
	var bomb bytes.Buffer
	if err := Pack(&bomb, io.LimitReader(zeroReader{}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&bomb)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, &boundedReader{z, 1 << 19})
	if err == nil || n > 1<<19 || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("read %d bytes, error %v", n, err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadErrorsNameLines(t *testing.T) {
	text := string(record(t, completeRun...))
	lines := strings.SplitAfter(text, "\n")
	bom := "\xef\xbb\xbf"
	longLine := `{"n":3,"t":1,"process":"c1","type":"ok","op":"read","cause":"` + strings.Repeat("x", maxLine) + "\"}\n"
	maxLengthLine := strings.Replace(longLine, strings.Repeat("x", 100), "", 1)
	largeLine := strings.Replace(longLine, strings.Repeat("x", maxLine), strings.Repeat("y", 3*bufferSize), 1)
	for name, c := range map[string]struct{ text, want string }{
		"two large lines":        {lines[0] + lines[1] + largeLine + strings.Replace(largeLine, `"n":3`, `"n":4`, 1), ""},
		"CRLF":                   {strings.ReplaceAll(text, "\n", "\r\n"), ""},
		"no last newline":        {strings.TrimSuffix(text, "\n"), ""},
		"line of maximum length": {lines[0] + lines[1] + maxLengthLine, ""},
		"BOM":                    {bom + text, "line 1: not an event: invalid character 'ï' looking for beginning of value"},
		"BOM later":              {lines[0] + bom + lines[1], "line 2: not an event: invalid character 'ï' looking for beginning of value"},
		"empty line":             {lines[0] + lines[1] + "\n" + lines[2], "line 3: not an event: EOF"},
		"empty CRLF line":        {lines[0] + "\r\n" + lines[1], "line 2: not an event: EOF"},
		"empty first line":       {"\n" + text, "line 1: not an event: EOF"},
		"empty last line":        {text + "\n", "line 5: not an event: EOF"},
		"two on a line":          {lines[0] + strings.TrimSpace(lines[1]) + lines[2], "line 2: not an event: extra data on the same line"},
		"two halves of lines":    {lines[0] + lines[1][:40] + lines[2], "line 2: not an event: "},
		"too long line":          {lines[0] + lines[1] + longLine, "line 3: longer than 16777216 bytes"},
		"endless line":           {lines[0] + strings.Repeat("x", maxLine+1), "line 2: longer than 16777216 bytes"},
		"zeros":                  {lines[0] + strings.Repeat("\x00", 4096) + "\n", `line 2: not an event: invalid character '\x00' looking for beginning of value`},
		"same number":            {lines[0] + lines[1] + lines[1], "line 3: event 2 comes after event 2, but recorders number events in ascending order"},
		"two runs":               {text + text, "line 5: event 1 comes after event 4, but recorders number events in ascending order"},
		"no number":              {lines[0] + strings.Replace(lines[1], `"n":2,`, "", 1), "line 2: not an event: n, process, type and op are required"},
		"cut within a character": {lines[0] + lines[1][:30] + "\xc3", ""},
	} {
		if len(c.text) < maxLine { // otherwise the comparison is too slow
			checkRead(t, []byte(c.text))
		}
		_, err := Read(strings.NewReader(c.text))
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(got, c.want) && c.want != "" {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// Wherever a file is truncated, all complete lines are read and the truncation is reported.
func TestReadTruncatedAnywhere(t *testing.T) {
	text := record(t, completeRun...)
	for i := range text {
		h := checkRead(t, text[:i])
		if (h == nil) != (i < bytes.IndexByte(text, '\n')) {
			t.Errorf("truncated at %d: %+v", i, h)
		}
		if h == nil || i == len(text)-1 { // only the last newline is missing
			continue
		}
		if n := bytes.Count(text[:i+1], []byte("\n")); h.Truncation == "" || len(h.Events) != n {
			t.Errorf("truncated at %d: %d events, want %d; truncation %q", i, len(h.Events), n, h.Truncation)
		}
	}
}

// Earlier releases recorded the lock's key on each node, as events with op "key", when they stopped
// a run.
func TestReadSkipsKeysOfStoppedRun(t *testing.T) {
	events := slices.Insert(slices.Clone(completeRun), 3,
		Event{T: 9, Process: Harness, Type: Info, Op: OpStop, Key: "lock-1", Cause: "stopped at event 3"},
		Event{T: 9, Process: Harness, Type: OK, Op: "key", Key: "lock-1", Node: "n1", Token: "A", TTL: 7},
		Event{T: 9, Process: Harness, Type: Fail, Op: "key", Key: "lock-1", Node: "n2"})
	h := checkRead(t, record(t, events...))
	if h == nil || h.Truncation != "stopped at event 3" || len(h.Events) != len(completeRun)+1 || slices.ContainsFunc(h.Events, func(e Event) bool { return e.Op == "key" }) {
		t.Errorf("%+v", h)
	}
}

func TestReadReportsFailedLine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		g := generatedHistory{cycles: 50, failAfter: 1 + rnd.Int64N(150_000)}
		h, err := Read(&g)
		if want := fmt.Sprintf("line %d: %v", g.numLines, errReadFailed); h != nil || !errors.Is(err, errReadFailed) || err.Error() != want {
			t.Fatalf("reader failed after %d bytes: got %v, want %s", g.failAfter, err, want)
		}
	}
}

func TestReadFileRejectsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), dir+" is not a regular file") {
		t.Errorf("reading a directory: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a missing file: %v", err)
	}
	// Lines that are not events must not cause Read to allocate memory for events.
	path := filepath.Join(dir, "lines")
	if err := os.WriteFile(path, append(record(t, completeRun...), bytes.Repeat([]byte("\n"), 1<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "line 5: not an event") {
		t.Errorf("reading empty lines: %v", err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("rejecting the empty lines allocated %d bytes", n)
	}
}

func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	if _, err := text.ReadFrom(&generatedHistory{cycles: 10_000}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	text := record(f, completeRun...)
	f.Add(text)
	f.Add([]byte("{}\n"))
	f.Add(text[:len(text)-10])
	f.Add(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
	var b bytes.Buffer
	b.ReadFrom(io.Reader(&generatedHistory{cycles: 3}))
	f.Add(b.Bytes())
	for _, line := range unusualLines {
		f.Add(append(record(f, completeRun[0]), line...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h := checkRead(t, b); h != nil && len(h.Events) == 0 {
			t.Error("no events and no error")
		}
	})
}
