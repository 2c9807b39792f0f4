package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxLine bounds one line, so that a file which is no history can't eat the memory.
const maxLine = 16 << 20

// Read reads a history as a stream. A last line that is cut in its middle, as a
// crash leaves it, ends the history there and is told in Cut; so is a history
// without the run's end. Anything else that no recorder wrote is an error that
// names the line.
func Read(r io.Reader) (*History, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	var events []Event
	cutLine := ""
	for line := 1; ; line++ {
		text, err := readLine(br)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		cut := err != nil // the last line has no newline
		if cut && len(text) == 0 {
			break
		}
		e, err := decode(text)
		if err != nil {
			if cut && line > 1 {
				cutLine = fmt.Sprintf("line %d is cut in its middle", line)
				break
			}
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if line == 1 {
			if err := begins(e); err != nil {
				return nil, err
			}
		}
		if n := len(events); n > 0 && e.N <= events[n-1].N {
			return nil, fmt.Errorf("line %d: event %d comes after event %d: a recorder numbers them upwards", line, e.N, events[n-1].N)
		}
		events = append(events, e)
	}
	h, err := New(events)
	if err == nil && cutLine != "" {
		h.Cut = cutLine
	}
	return h, err
}

// New makes a history of events in the order in which they were recorded, which
// it keeps and sorts. It is what Read makes of the same events' lines.
func New(events []Event) (*History, error) {
	if len(events) == 0 {
		return nil, errors.New("line 1: the history is empty")
	}
	if err := begins(events[0]); err != nil {
		return nil, err
	}
	h := &History{Params: *events[0].Params, Events: events}
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Op == OpRun && e.Type == End }) {
		h.Cut = fmt.Sprintf("it ends after event %d without the end of the run", len(events))
	}
	if i := slices.IndexFunc(events, func(e Event) bool { return e.Process == Harness && e.Op == OpStop }); i >= 0 {
		h.Cut = events[i].Cause
	}
	Sort(h.Events)
	return h, nil
}

// begins says what is wrong with an event as the first one.
func begins(e Event) error {
	if e.Op != OpRun || e.Params == nil {
		return errors.New("line 1: not a run event with params: this is no history of lockpick")
	}
	if e.Params.Schema != Schema {
		return fmt.Errorf("line 1: schema %d, this version reads %d", e.Params.Schema, Schema)
	}
	return nil
}

// ReadFile reads the history in a file.
func ReadFile(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, err)
	}
	return h, nil
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func decode(line []byte) (Event, error) {
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("not an event: something follows on the same line")
	}
	if e.N <= 0 || e.Type == "" || e.Process == "" || e.Op == "" {
		return e, errors.New("not an event: n, process, type and op are needed")
	}
	return e, nil
}
