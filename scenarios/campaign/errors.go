package campaign

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
