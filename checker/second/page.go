package second

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"lockpick/harness/history/facts"
)

type drawing struct {
	Partitions  []drawnKey
	Annotations json.RawMessage
}

type drawnKey struct {
	History               []drawnOperation
	PartialLinearizations [][]drawnStep
	Largest               map[int]int // operation: the first of the longest of these that have it
}

type drawnOperation struct {
	ClientId      int
	Start         int
	OriginalStart string
	End           int
	OriginalEnd   string
	Description   string
	Metadata      string
}

type drawnStep struct {
	Index            int // of an operation
	StateDescription string
}

// drawn finds the data: a line of its own, and JSON never makes another.
var drawn = regexp.MustCompile(`(?m)^ *const data = (\{.*\})$`)

// settle puts the partial linearizations of porcupine's page in an order, which
// it leaves to chance, and writes instants as people read them.
func settle(page []byte) ([]byte, error) {
	at := drawn.FindSubmatchIndex(page)
	if at == nil {
		return nil, errors.New("porcupine's page has no data where it should")
	}
	var d drawing
	in := json.NewDecoder(bytes.NewReader(page[at[2]:at[3]]))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		return nil, fmt.Errorf("read porcupine's page: %w", err)
	}
	for i := range d.Partitions {
		d.Partitions[i].settle()
	}
	data, err := json.Marshal(d) // it writes <, > and & as escapes
	if err != nil {
		return nil, err
	}
	return slices.Concat(page[:at[2]], data, page[at[3]:]), nil
}

func (k *drawnKey) settle() {
	for i := range k.History {
		o := &k.History[i]
		o.OriginalStart, o.OriginalEnd = legible(o.OriginalStart), legible(o.OriginalEnd)
	}
	slices.SortFunc(k.PartialLinearizations, func(a, b []drawnStep) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), slices.CompareFunc(a, b, func(x, y drawnStep) int { return cmp.Compare(x.Index, y.Index) }))
	})
	clear(k.Largest)
	for i, steps := range k.PartialLinearizations {
		for _, s := range steps {
			if _, ok := k.Largest[s.Index]; !ok {
				k.Largest[s.Index] = i
			}
		}
	}
}

// legible writes an instant that porcupine wrote in nanoseconds.
func legible(instant string) string {
	switch ns, err := strconv.ParseInt(instant, 10, 64); {
	case err != nil:
		return instant
	case ns == facts.Never:
		return "never"
	default:
		return strconv.FormatFloat(float64(ns)/1e9, 'f', 6, 64) + " s"
	}
}

// longestName bounds what a picture shows of a name, in bytes.
const longestName = 40

// inert writes a name so that a page shows it and never obeys it, whether it is
// taken for text or for HTML.
func inert(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case b.Len() > longestName:
			return b.String() + "…"
		case !unicode.IsPrint(r) || strings.ContainsRune("<>&\"`", r) || r == unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
