package nemesis

var gc = Kind{
	Name:   "gc",
	Model:  "pauses",
	Doc:    "pauses a client again and again, every so often, as garbage collections do; most pauses are short, some long",
	Within: "any, as pauses of clients are",
	On:     []Target{Client},
	Proof:  usedBoth,
	Takes:  []string{"every", "lasts"}, Needs: []string{"every", "lasts"},
	As: "pause", Power: "pause",
	Nests: true, Again: true, Act: pause.Act,
	Told: Told{Name: "garbage collections", State: Stopped},
}
