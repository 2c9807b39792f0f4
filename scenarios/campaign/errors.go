package campaign

import "lockpick/reports/suites"

// simulation is the name of the back end in virtual time. The others run in real time, on real servers.
const simulation = "sim"

// Folders of a store that hold no runs of a scenario, but what campaigns leave.
const (
	huntsFolder     = "hunts"
	CorpusFolder    = "corpus"
	envelopesFolder = "envelopes"
	ShrunkFolder    = "shrunk"
)

// Folders lists them, with those of suites and scorecards.
func Folders() []string {
	return []string{suites.Folder, suites.ScoreFolder, huntsFolder, CorpusFolder, shardFolder, envelopesFolder, ShrunkFolder}
}

// MaxSeeds bounds the seeds of a campaign: a day of work for a large machine.
const MaxSeeds = 10_000_000

// ErrorKind tells errors of a campaign apart by what can be done about them.
type ErrorKind int

const (
	storeFailed   ErrorKind = iota // the store can't be written
	CorpusFailed                   // the corpus, or a file of it, can't be read
	Taken                          // another process is at the same
	NotResumable                   // what is in the folder is of no use, or of something else
	NotMeasurable                  // a setting is out of a dimension's range
	NotRepeated                    // a minimized scenario does not show what it was made of: a bug
)

// Error is an error of a campaign.
type Error struct {
	Kind ErrorKind
	Path string // the file or folder that it is about, where it helps to remove that
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// failed is an error of that kind, or nil.
func failed(kind ErrorKind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Err: err}
}
