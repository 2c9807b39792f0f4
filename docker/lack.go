package docker

import "strings"

// Lack is what keeps a run from its images, and what to do about it.
type Lack struct {
	Reason error
	Remedy string
}

func (l *Lack) Error() string { return l.Reason.Error() + "; to fix it: " + l.Remedy }
func (l *Lack) Unwrap() error { return l.Reason }

// usual is the default node image.
const usual = "redis:7"

// MostNodes is how many containers of others can be nodes.
const MostNodes = 40

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ":")
}

// ownerLabel is the label of everything that a run makes; its value is an owned.Owner.
const ownerLabel = "lockpick"

// runLabel tells the runs of one owner apart.
const runLabel = "lockpick.run"
