package nemesis

var gc = Kind{
	Name:   "gc",
	Model:  "pauses",
	Doc:    "pauses a client repeatedly, like garbage collections; most pauses are short, some long",
	Within: "any, like pauses of clients",
	On:     []Target{Client},
	Proof:  usedBoth,
	Takes:  []string{"every", "lasts"}, Needs: []string{"every", "lasts"},
	As: "pause", Power: "pause",
	Nests: true, Again: true, Act: pause.Act,
	Told: Told{Name: "garbage collections", State: Stopped},
}
