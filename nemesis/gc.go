package nemesis

var gcKind = Kind{
	Name:          "gc",
	Model:         "pauses",
	Doc:           "pauses a client repeatedly, like garbage collections; most pauses are short, some long",
	AllowedFaults: "any, like pauses of clients",
	TargetTypes:   []Target{Client},
	Proof:         clientAndNodeUseProof,
	Fields:        []string{"every", "lasts"}, RequiredFields: []string{"every", "lasts"},
	RecordedKind: "pause", CapabilityName: "pause",
	MayOverlap: true, IsRepeated: true, Action: pauseKind.Action,
	Wording: Wording{Name: "garbage collections", State: StateStopped},
}
