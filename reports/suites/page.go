package suites

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"lockpick/reports/palette"
)

//go:embed suite.html.tmpl
var suiteTemplate string

//go:embed style.css
var style string

// texts are the functions of both pages.
var texts = template.FuncMap{
	"text":  visible,
	"style": func() template.CSS { return template.CSS(palette.CSS + style) },
}

var suitePage = template.Must(template.New("suite").Funcs(texts).Parse(suiteTemplate))

// writePage writes suite.html.
func writePage(w io.Writer, v view) error {
	if err := suitePage.Execute(w, v); err != nil {
		return fmt.Errorf("draw suite: %w", err)
	}
	return nil
}
