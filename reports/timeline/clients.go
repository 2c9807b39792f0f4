package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// mostClients is how many clients have lanes.
const mostClients = 24

// clientLanes draws each client: its operations, and below them its belief.
func (b *builder) clientLanes() {
	names := b.chart.first(b.run.f.Params.Clients, mostClients, "client")
	rows := map[string]int{}
	beliefs := map[string][]facts.Belief{}
	for _, x := range b.run.beliefs {
		beliefs[x.Client] = append(beliefs[x.Client], x)
	}
	for _, name := range names {
		if _, twice := rows[name]; twice {
			continue
		}
		b.chart.lane(name, client)
		rows[name] = b.chart.row(18)
		b.believed(b.chart.row(7), beliefs[name])
		b.clockRow(name)
		b.stalls(name)
	}
	b.operations(rows)
}

func (b *builder) believed(row int, beliefs []facts.Belief) {
	slices.SortStableFunc(beliefs, func(x, y facts.Belief) int { return cmp.Compare(x.From, y.From) })
	var last int64
	for _, x := range beliefs {
		from := max(x.From, last) // a client that holds two locks believes in one after the other here
		if from >= x.To {
			continue
		}
		last = x.To
		numbers := []int64{x.Opens}
		if x.Closes != 0 {
			numbers = append(numbers, x.Closes)
		}
		b.chart.add(item{Row: row, Kind: b.chart.kind("belief"), From: micros(min(from, b.run.end)), To: micros(min(x.To, b.run.end)),
			Label: b.chart.text(""), Detail: b.chart.text(short(x.Key) + " until " + display.Seconds(x.To)), Session: b.chart.text(x.Session), Events: numbers})
	}
}

// operations draws calls with their returns, in the order of calls.
func (b *builder) operations(rows map[string]int) {
	all := map[string][]facts.Operation{} // by client
	put := func(o facts.Operation) {
		if _, ok := rows[o.Call.Process]; ok {
			all[o.Call.Process] = append(all[o.Call.Process], o)
		}
	}
	for s := range b.run.f.Sessions() {
		put(s.Acquire)
		for a := range s.Actions() {
			put(a)
		}
	}
	for _, e := range b.run.f.Loose {
		put(facts.Operation{Call: e, Return: e})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := all[name]
		slices.SortStableFunc(of, func(x, y facts.Operation) int {
			return cmp.Or(cmp.Compare(x.Call.T, y.Call.T), cmp.Compare(x.Call.N, y.Call.N))
		})
		free := int64(0)
		for i, o := range of {
			free = b.operation(rows[name], o, b.run.over(of, i), free)
		}
	}
}

// operation draws one where its client's row is free, and says from when on it is again.
func (b *builder) operation(row int, o facts.Operation, to, free int64) int64 {
	e := o.Call
	if o.Return != nil {
		e = o.Return
	}
	class := o.Call.Op + "-" + string(o.Outcome())
	if _, known := looks[class]; !known {
		class = "other"
	}
	from := max(o.Call.T, free)
	b.chart.put(row, class, from, to, said{label: o.Call.Op, detail: about(o.Call, e), session: o.Call.Session}, o.Call, o.Return)
	return max(to, from)
}

func about(call, ret *event) string {
	var parts []string
	add := func(say bool, format string, args ...any) {
		if say {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	key := cmp.Or(call.Key, ret.Key)
	add(key != "", "%s", short(key))
	add(ret.ValidUntil != 0, "valid until %s", display.Seconds(ret.ValidUntil))
	add(ret.Fence != 0, "fencing token %d", ret.Fence)
	add(call.Op == history.OpRead && ret.Type == history.OK, "version %d", ret.Version)
	add(call.Op == history.OpWrite, "based on version %d", call.Version)
	add(ret.Cause != "", "%s", ret.Cause)
	return sentence(parts...)
}

// over is when the i-th of a client's operations returned, or else when the client did
// something else, or was gone.
func (r *run) over(of []facts.Operation, i int) int64 {
	o := of[i]
	if o.Return != nil {
		return o.Return.T
	}
	if i+1 < len(of) {
		return of[i+1].Call.T
	}
	if t, gone := r.f.Gone[o.Call.Process]; gone && t >= o.Call.T {
		return t
	}
	return r.end
}
