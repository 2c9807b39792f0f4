package timeline

import "lockpick/reports/words"

const (
	longestText = 400
	longestName = 24
)

// short cuts a name, so that one name can't take the room of the lanes.
func short(name string) string { return words.Fit(words.Visible(name, longestName), longestName) }

// sentence joins the parts that say something.
func sentence(parts ...string) string { return words.Join("; ", parts...) }
