package campaign

// ErrorKind classifies the errors of a campaign by what the user can do about them.
type ErrorKind int

const (
	storeFailed   ErrorKind = iota // can't write to the store
	CorpusFailed                   // can't read the corpus or one of its files
	InUse                          // another process is fuzzing the same scenarios
	NotResumable                   // the state in the folder is invalid, or belongs to different scenarios
	NotMeasurable                  // settings that can't be tested
	NotReproduced                  // a minimized scenario does not show its bug, which is a bug in lockpick
)

// Error is an error in a campaign.
type Error struct {
	Kind ErrorKind
	Path string // the file or folder to remove, if removing it helps
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// withKind wraps err in an Error of the given kind. It returns nil if err is nil.
func withKind(kind ErrorKind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Err: err}
}
