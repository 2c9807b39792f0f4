package sequence

// builder draws a scene, fact by fact.
type builder struct {
	f       *course
	scene   *scene
	lanes   *lanes
	sheet   *sheet
	caption caption
}

func newBuilder(sc *scene) *builder {
	return &builder{f: sc.f, scene: sc, lanes: lanesOf(sc), sheet: &sheet{from: sc.from, to: sc.to, slow: sc.f.slow()}}
}

// diagram is what was drawn.
func (b *builder) diagram() Diagram {
	return Diagram{
		Title: b.scene.headline(), Summary: b.scene.summary(), Caption: b.caption.sentences(b.lanes), Omitted: b.scene.omitted(),
		Lanes: b.lanes.all, Arrows: b.sheet.arrows, Bars: b.sheet.bars, Notes: b.sheet.notes, Bands: b.sheet.bands,
		Stop: b.f.stopped(),
	}
}
