package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is rows of cells, the first of them the head.
type table [][]string

// lines sets a table in columns, a text for each row. Where a row gets too long for the width,
// the last cells of all rows but the head stand on lines of their own. Cells of the head may have
// several lines.
func (t table) lines(indent string, width int) []string {
	var widths []int
	numeric := t.numeric()
	longest := 0
	heads := stacked(t[0])
	rows := slices.Concat(heads, t[1:])
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(cell); i < len(row)-1 || numeric[i] {
				widths[i] = max(widths[i], n)
			} else {
				longest = max(longest, n)
			}
		}
	}
	all := utf8.RuneCountInString(indent) + longest
	for _, n := range widths {
		all += n + 2
	}
	var out []string
	for k, row := range rows {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			if numeric[i] {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + cell + "  ")
				continue
			}
			if i == len(row)-1 {
				if all > width && k >= len(heads) {
					text := strings.TrimRight(line.String(), " ")
					line.Reset()
					line.WriteString(text + "\n" + indent + "  ")
				}
				line.WriteString(cell)
				continue
			}
			line.WriteString(cell + strings.Repeat(" ", widths[i]+2-utf8.RuneCountInString(cell)))
		}
		out = append(out, strings.TrimRight(line.String(), " "))
	}
	return slices.Concat([]string{strings.Join(out[:len(heads)], "\n")}, out[len(heads):])
}

// stacked is a head as rows of its lines, which stand at the bottom.
func stacked(head []string) (rows table) {
	for i, cell := range head {
		parts := strings.Split(cell, "\n")
		for len(rows) < len(parts) {
			rows = slices.Insert(rows, 0, make([]string, len(head)))
		}
		for k, part := range parts {
			rows[len(rows)-len(parts)+k][i] = part
		}
	}
	return rows
}

// fitting is t with the words of its head, but for the first, below each other where it is wider else.
func (t table) fitting(width int) table {
	if utf8.RuneCountInString(t.lines("", width)[0]) <= width {
		return t
	}
	head := slices.Clone(t[0])
	for i := range head[1:] {
		head[i+1] = strings.ReplaceAll(head[i+1], " ", "\n")
	}
	return slices.Concat(table{head}, t[1:])
}

// printTable prints a table as wide as w shows it.
func printTable(w io.Writer, t table) {
	for i, line := range t.lines("", width(w)) {
		if i == 0 {
			line = painted(w, faint, line)
		}
		fmt.Fprintln(w, line)
	}
}

// numeric says of each column whether it has numbers alone, which stand below each other.
func (t table) numeric() []bool {
	out := make([]bool, len(t[0]))
	for i := range out {
		out[i] = true
		for _, row := range t[1:] {
			out[i] = out[i] && strings.Trim(row[i], "0123456789") == ""
		}
	}
	return out
}
