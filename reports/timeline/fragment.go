package timeline

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"lockpick/reports/display"
)

// Style is the timeline's style sheet. It needs the variables of palette.CSS.
//
//go:embed timeline.css
var Style string

// Script draws the timeline. It stands behind the fragment, and behind all that it
// is to highlight.
//
//go:embed timeline.js
var Script string

//go:embed fragment.html
var fragment string

var fragmentTemplate = template.Must(template.New("timeline").Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }}).Parse(fragment))

// Fragment is the timeline as a part of a page. An error is a bug.
func (t Timeline) Fragment() (template.HTML, error) {
	data, err := t.encode()
	if err != nil {
		return "", fmt.Errorf("encode timeline: %w", err)
	}
	var out strings.Builder
	err = fragmentTemplate.Execute(&out, struct {
		Timeline
		JSON   template.JS
		Legend []legend
	}{t, template.JS(data), t.legend()})
	if err != nil {
		return "", fmt.Errorf("write timeline: %w", err)
	}
	return template.HTML(out.String()), nil
}

// longestPlain is how many bytes of JSON stand in a page as they are.
const longestPlain = 128 << 10

// encode writes the timeline as JSON, or a long one as a string: that JSON by gzip, in base64.
func (t Timeline) encode() ([]byte, error) {
	data, err := json.Marshal(t) // which writes <, > and & as \u003c and so on
	if err != nil || len(data) <= longestPlain {
		return data, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(packed.Bytes()) // bytes are base64
}

// Range is the view as an address in the page, with a margin.
func (v view) Range() string {
	margin := max((v.To-v.From)/2, 5000)
	return "#t=" + display.Decimal(max(0, v.From-margin)*1000, 6) + "-" + display.Decimal((v.To+margin)*1000, 6)
}

// When is the view's span in words.
func (v view) When() string {
	return display.FromTo(v.From*1000, v.To*1000)
}

type legend struct{ Class, Words string }

// legend explains what is drawn, in the order of looks' sections.
func (t Timeline) legend() []legend {
	used := map[int]bool{}
	for _, i := range t.Items {
		used[i.Kind] = true
	}
	var out []legend
	for n, k := range t.Kinds {
		if used[n] {
			out = append(out, legend{k.Class, k.Words})
		}
	}
	return out
}
