package nemesis

var gc = Kind{
	Name:    "gc",
	Model:   "pauses",
	Doc:     "pauses a client repeatedly, like garbage collections; most pauses are short, some long",
	Allowed: "any, like pauses of clients",
	On:      []Target{Client},
	Proof:   usedBoth,
	Fields:  []string{"every", "lasts"}, RequiredFields: []string{"every", "lasts"},
	RecordedAs: "pause", Power: "pause",
	Overlaps: true, Repeats: true, Action: pause.Action,
	Wording: Wording{Name: "garbage collections", State: Stopped},
}
