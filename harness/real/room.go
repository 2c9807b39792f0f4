package real

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// Room lets clients run one after the other where to start a process is cheap and to
// make room for it is not, as in a container. Each order is a fresh process's, which
// waits for it from when the one before has ended; what follows an order is said to that
// process until it ends, of which the room tells. cleared, if it is not nil, is called
// whenever one has ended. Room returns when in ends, or a process that has no order.
func ClientLoop(in io.Reader, out, errs io.Writer, program []string, cleared func()) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	for {
		left, err := admit(program, out, errs, lines)
		if left == nil || err != nil {
			return err
		}
		if cleared != nil {
			cleared()
		}
		text, err := json.Marshal(clientReport{Left: left})
		if err != nil {
			return err
		}
		// One that was ended in the middle of a line has not ended that.
		if _, err := fmt.Fprintf(out, "\n%s\n", text); err != nil {
			return err
		}
	}
}

// admit runs one client, and says how it has left; nil: there are no lines any more.
func admit(program []string, out, errs io.Writer, lines <-chan string) (*clientExit, error) {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = out, errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for ordered := false; ; {
		select {
		case line, more := <-lines:
			if !more {
				cmd.Process.Kill() // it may have ended
				<-ended
				return nil, nil
			}
			// What is said to a client that has ended comes late, and is nobody's order.
			if ordered = ordered || strings.HasPrefix(line, "{"); ordered {
				io.WriteString(in, line) // one that has ended hears nothing
			}
		case err := <-ended:
			if !ordered {
				return nil, fmt.Errorf("a client ended before it had an order: %v", err)
			}
			if err == nil {
				return &clientExit{}, nil
			}
			left := &clientExit{Error: err.Error()}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				if is, ok := exit.Sys().(interface {
					Signaled() bool
					Signal() syscall.Signal
				}); ok && is.Signaled() {
					left.Signal = int(is.Signal())
				}
			}
			return left, nil
		}
	}
}
