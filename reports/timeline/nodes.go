package timeline

import (
	"fmt"
	"slices"

	"lockpick/reports/display"
)

const mostNodes = 24

// nodeLanes draws for each node whose key it has, and until when.
func (b *builder) nodeLanes() {
	names := b.chart.first(b.run.f.Params.Nodes, mostNodes, "node")
	lives := b.run.inferred // as the links saw it, unless the nodes told
	if b.run.f.Params.Life {
		lives = b.run.told
	}
	byNode := lives()
	for _, name := range slices.Compact(slices.Clone(names)) {
		b.chart.lane(name, node)
		row := b.chart.row(16)
		for i, key := range byNode[name] {
			if i >= mostKeys {
				b.chart.omit(display.Plural(len(byNode[name])-mostKeys, "more key") + " on " + short(name))
				break
			}
			if i > 0 {
				row = b.chart.row(16)
			}
			for _, l := range key {
				b.drawLife(row, l)
			}
		}
		b.clockRow(name)
		b.stalls(name)
	}
}

// life is a key on a node from when it was set to when it was gone.
type life struct {
	key, owner string
	session    string // of the owner; "": nobody knows which
	from, to   int64
	due        int64    // when it was to expire as the node's clock ran then; never: it was not
	early      bool     // it was gone before that, or while its session believed in it
	how        string   // in words, "": as it was to be
	events     []*event // that tell of it
}

func (b *builder) drawLife(row int, l life) {
	until := ""
	if l.due < never {
		until = "due to expire at " + display.Seconds(l.due) + " by its clock"
	}
	class := "lease"
	if l.early {
		class = "lease-early"
	}
	b.chart.put(row, class, l.from, l.to, said{label: short(l.owner), session: l.session,
		detail: sentence(fmt.Sprintf("%s's %s", short(l.owner), short(l.key)), until, l.how)}, l.events...)
	if l.early {
		b.chart.put(row, "lost", l.to, l.to, said{detail: sentence(fmt.Sprintf("%s's key is gone", short(l.owner)), l.how), session: l.session}, l.events...)
	}
}
