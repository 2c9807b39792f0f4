package history

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A stored history may not exceed what a run can record, even if its file is small because it is
// compressed.
func TestStoredHistorySizeIsLimited(t *testing.T) {
	writeMany := func(w io.Writer) error {
		to := bufio.NewWriter(w)
		fmt.Fprintln(to, `{"n":1,"t":0,"process":"harness","type":"begin","op":"run","params":{"schema":1,"clients":["c1"],"nodes":["n1"],"quorum":1}}`)
		for n := 2; n <= MaxStoredEvents+1; n++ {
			fmt.Fprintf(to, `{"n":%d,"t":1,"process":"harness","type":"info","op":"run"}`+"\n", n)
		}
		return to.Flush()
	}
	for name, c := range map[string]struct {
		write func(f *os.File) error
		want  string
	}{
		"compressed events": {func(f *os.File) error { z := gzip.NewWriter(f); writeMany(z); return z.Close() }, "more than 450000 events"},
		"bytes":             {func(f *os.File) error { return f.Truncate(MaxFileBytes + 1) }, "the limit is 268435456"},
	} {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		f, err := os.Create(path)
		if err == nil {
			err = c.write(f)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
