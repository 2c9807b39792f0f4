package exec

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// attached are the pipes of an adapter that this process has started itself; nil: of none.
var attached struct {
	in  io.WriteCloser
	out io.Reader
}

// Attach starts the adapter whose lock New makes from then on: where both are in one container,
// in which nobody else could give this process its pipes. What ends the container ends it.
func Attach(argv []string) (err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if attached.in, err = cmd.StdinPipe(); err == nil {
		attached.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the adapter: %w", err)
	}
	return nil
}
