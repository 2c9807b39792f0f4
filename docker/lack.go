package docker

// Lack is what keeps a run from its images, and what to do about it.
type Lack struct {
	Reason error
	Remedy string
}

func (l *Lack) Error() string { return l.Reason.Error() + "; to fix it: " + l.Remedy }
func (l *Lack) Unwrap() error { return l.Reason }

// usual is the image of nodes of which nothing is said.
const usual = "redis:7"

// MostNodes is how many containers of others can be nodes.
const MostNodes = 40
