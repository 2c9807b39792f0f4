package suites

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

// writeMarkdown writes suite.md: the facts of suite.html for issues and wikis.
func writeMarkdown(w io.Writer, v view) {
	fmt.Fprintf(w, "# Safety report\n\n%s\n\n", markdown(v.Headline))
	fmt.Fprint(w, "## Expected and actual\n\n✓ holds · ✗ violated as expected, with its cause · ! unexpected · ? undecided · – skipped\n\n")
	for _, m := range v.More {
		fmt.Fprintf(w, "%s\n\n", markdown(m))
	}
	matrix(w, v)
	if len(v.Hidden) > 0 {
		fmt.Fprintf(w, "\nNot shown, for nothing was expected of them and nothing violated them: %s.\n", strings.Join(v.Hidden, ", "))
	}
	if len(v.Found) > 0 {
		fmt.Fprint(w, "\n## What was violated, and with which seed it is seen\n\n| scenario | property | cause | seeds | first | shortest | run again |\n|---|---|---|---|---|---|---|\n")
	}
	for _, x := range v.Found {
		fmt.Fprintf(w, "| %s | %s | %s | %d | %s | %s | `%s` |\n", markdown(x.Scenario), markdown(x.Property), markdown(x.Cause.Cause), x.Runs,
			link(fmt.Sprint(x.Cause.First.Seed), x.First), link(fmt.Sprintf("%d (%d events)", x.Cause.Shortest.Seed, x.Cause.Shortest.Events), x.Shortest),
			strings.NewReplacer("`", "'", "|", "\\|").Replace(visible(x.Cause.Shortest.Command)))
	}
	if len(v.Seeds) > 0 {
		fmt.Fprint(w, "\n## Seeds\n\n")
	}
	for _, name := range v.Seeds {
		fmt.Fprintf(w, "![%s](%s)\n", markdown(name), url.PathEscape(name))
	}
	skipped(w, v)
	troubled(w, v)
	fmt.Fprint(w, "\n## How it was run\n\n| | |\n|---|---|\n")
	for _, f := range v.Facts {
		fmt.Fprintf(w, "| %s | %s |\n", f[0], markdown(f[1]))
	}
	fmt.Fprint(w, "\n## What this can't tell\n\nEach line speaks of the runs above, with their seeds and under their faults. Where a property holds, no violation "+
		"was found in them; other seeds, other faults, other settings and other timings may show one. In the simulation the nodes and the network "+
		"are models. Runs that are skipped or undecided say nothing.\n")
}

func matrix(w io.Writer, v view) {
	several := len(v.Backends) > 1
	heads := append([]string{"scenario"}, v.Columns...)
	if several {
		heads = append([]string{"scenario", "backend"}, v.Columns...)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	var rows []row
	for _, f := range slices.Concat(v.Wrong, v.Fine) {
		rows = append(rows, f.Rows...)
	}
	for _, r := range rows {
		name := link(r.ID, r.Href)
		if r.State != "as expected" {
			name += " (" + r.State + ")"
		}
		for _, n := range r.Numbers {
			name += "; " + markdown(n)
		}
		cells := []string{name}
		if several {
			cells = append(cells, markdown(r.Backend))
		}
		if r.Note != "" {
			cells = append(cells, markdown(r.Note))
		}
		for _, m := range r.Cells {
			text := m.Symbol + " " + m.Word
			if m.Detail != "" {
				text += " (" + m.Detail + ")"
			}
			cells = append(cells, link(text, m.Href))
		}
		for len(cells) < len(heads) {
			cells = append(cells, "–")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

func skipped(w io.Writer, v view) {
	if len(v.Skipped) > 0 {
		fmt.Fprint(w, "\n## Skipped\n\n")
	}
	for _, x := range v.Skipped {
		fmt.Fprintf(w, "- %d %s on %s: %s: %s\n", len(x.IDs), x.State, markdown(x.Backend), markdown(x.Reason), markdown(strings.Join(x.IDs, ", ")))
	}
}

func troubled(w io.Writer, v view) {
	if len(v.Troubles) > 0 {
		fmt.Fprint(w, "\n## Tried again or failed\n\n")
	}
	for _, g := range v.Troubles {
		fmt.Fprintf(w, "- %s: ", link(g.ID, g.Href))
		for i, t := range g.Texts {
			if i > 0 {
				fmt.Fprint(w, " ")
			}
			fmt.Fprint(w, markdown(t))
		}
		fmt.Fprintln(w)
	}
}

func link(text, href string) string {
	if href == "" {
		return markdown(text)
	}
	return fmt.Sprintf("[%s](%s)", markdown(text), strings.NewReplacer("(", "%28", ")", "%29").Replace(href))
}
