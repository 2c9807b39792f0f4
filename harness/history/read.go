package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"lockpick/internal/files"
)

// MaxEvents is when a run is stopped. Its record is kept in memory until it is judged, which
// takes a gigabyte or so by then. The longest of the catalogue has 22,609 events.
const MaxEvents = 300_000

// What a stored history may have, whoever made it. A run that was stopped at MaxEvents still
// records the resource's log, which has at most one entry for two events of its writes.
const (
	MaxStored = MaxEvents * 3 / 2 // events
	MaxFile   = 256 << 20         // bytes, unpacked; the events take somewhat more memory
)

// maxLine bounds one line, so that a file which is no history can't eat the memory.
const maxLine = 16 << 20

// minLine is the length of the shortest line that is an event.
const minLine = int64(len(`{"n":1,"process":"c","type":"o","op":"r"}`))

const bufferSize = 1 << 16

// The first piece is small, since most histories are, and so that a file which
// merely has many lines doesn't get room for as many events; no later one is
// larger than maxPiece, unless the number is known.
const (
	minPiece = 64
	maxPiece = 1 << 14
)

// Read reads a history as a stream. A last line that is cut in its middle, as a
// crash leaves it, ends the history there and is told in Cut; so is a history
// without the run's end. Anything else that no recorder wrote is an error that
// names the line.
//
// It keeps one line of the file and the events, which it gathers in pieces; so for
// a moment there are twice as many. ReadFile, which can know how many there will
// be, needs them once.
func Read(r io.Reader) (*History, error) { return read(r, 0, math.MaxInt) }

// read reads a history of about so many lines, and of at most that many events.
func read(r io.Reader, lines, most int) (*History, error) {
	br := bufio.NewReaderSize(r, bufferSize)
	var long []byte // a line that is longer than the buffer
	d := decoder{seen: newRecent()}
	events := make([]Event, 0, minPiece)
	var full [][]Event // pieces before these, so that none is moved as they become more
	lastN := int64(0)
	lines = min(lines, most)
	cutLine := ""
	for line := 1; ; line++ {
		text, err := readLine(br, &long)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		cut := err != nil // the last line has no newline
		if cut && len(text) == 0 {
			break
		}
		var e Event
		if err := d.event(text, &e); err != nil {
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
		if line > most {
			return nil, fmt.Errorf("it has more than %d events, and a run is stopped at %d", most, MaxEvents)
		}
		if e.N <= lastN {
			return nil, fmt.Errorf("line %d: event %d comes after event %d: a recorder numbers them upwards", line, e.N, lastN)
		}
		lastN = e.N
		switch size := cap(events); {
		case len(events) < size:
		case lines > size:
			events = append(make([]Event, 0, lines), events...)
		default:
			full = append(full, events)
			events = make([]Event, 0, min(2*size, maxPiece))
		}
		events = append(events, e)
	}
	if full != nil {
		events = slices.Concat(append(full, events)...)
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
	if !h.Ended() {
		h.Cut = fmt.Sprintf("it ends after event %d without the end of the run", len(events))
	}
	if why := stopped(events); why != "" {
		h.Cut = why
		// Earlier releases also recorded the lock's key on each node where they stopped a run.
		h.Events = slices.DeleteFunc(events, func(e Event) bool { return e.Op == "key" && e.Process == Harness })
	}
	Sort(h.Events)
	return h, nil
}

// stopped says why the run was stopped before its time, or "".
func stopped(events []Event) string {
	for i := range events {
		if e := &events[i]; e.Op == OpStop && e.Process == Harness {
			return e.Cause
		}
	}
	return ""
}

// Ended says whether the end of the run is there; as a rule it is the last event.
func (h *History) Ended() bool {
	for i := len(h.Events) - 1; i >= 0; i-- {
		if h.Events[i].Op == OpRun && h.Events[i].Type == End {
			return true
		}
	}
	return false
}

// begins says what is wrong with an event as the first one.
func begins(e Event) error {
	if e.Op != OpRun || e.Params == nil {
		return errors.New("line 1: not a run event with params: this is no history of lockpick")
	}
	if e.Params.Schema != Schema {
		return fmt.Errorf("line 1: schema %d, this version reads %d", e.Params.Schema, Schema)
	}
	if err := e.Params.check(); err != nil {
		return fmt.Errorf("line 1: params: %w", err)
	}
	return nil
}

// ReadFile reads the history in a regular file of at most MaxFile bytes.
func ReadFile(path string) (*History, error) {
	f, err := files.Open(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	h, err := FromFile(f)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, err)
	}
	return h, nil
}

// FromFile reads the history in an open file, also where it is compressed. It goes through
// a regular file that is not twice: to count its lines costs little, and saves as much
// memory as the events take.
func FromFile(f *os.File) (*History, error) {
	if !packed(f) {
		return read(f, countLines(f), MaxStored)
	}
	text, err := Unpack(f)
	if err != nil {
		return nil, err
	}
	return read(text, 0, MaxStored)
}

// Pack compresses a history's text by gzip; the same text gives the same bytes.
func Pack(to io.Writer, text io.Reader) error {
	z := gzip.NewWriter(to)
	if _, err := io.Copy(z, text); err != nil {
		return err
	}
	return z.Close()
}

// Unpack is the text in a file of a history, of which at most MaxFile bytes are given. A
// compressed one that lacks its end ends as any text that is cut.
func Unpack(f *os.File) (io.Reader, error) {
	if !packed(f) {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("it begins as what gzip has compressed: %w", err)
	}
	return &unpacked{z, MaxFile}, nil
}

// packed says whether a file begins as one of gzip does, without moving in it.
func packed(f *os.File) bool {
	var magic [2]byte
	_, err := f.ReadAt(magic[:], 0)
	return err == nil && magic == [2]byte{0x1f, 0x8b}
}

// unpacked is what comes out of a compressed file, which may be far more than went in.
type unpacked struct {
	z    *gzip.Reader
	left int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	switch u.left -= int64(n); {
	case u.left < 0:
		return 0, fmt.Errorf("unpacked it has more than %d bytes, which is more than a run records", int64(MaxFile))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, io.EOF
	}
	return n, err
}

// countLines counts the lines of a regular file, where they could hold an event, without
// moving in it; 0 of anything else. What it can't read, read will tell of.
func countLines(f *os.File) int {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	lines, size := 1, int64(0) // the last one may lack its end
	for buffer := make([]byte, bufferSize); err == nil; {
		var n int
		n, err = f.ReadAt(buffer, size)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		size += int64(n)
	}
	return int(min(int64(lines), size/minLine+1))
}

// readLine reads a line, with its end. It holds until the next one is read.
func readLine(br *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*long = append((*long)[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = br.ReadSlice('\n')
		*long = append(*long, line...)
		if len(*long) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
	}
	return *long, err
}

// Sort orders events by true time, and those of one instant by number. Real
// backends number events as they arrive, which is not quite how they happened.
func Sort(events []Event) {
	if sorted(events) {
		return
	}
	// An event is large: sort what it is sorted by, then move each event once.
	type place struct {
		t int64
		i int // where the event is
	}
	places := make([]place, len(events))
	for i := range events {
		places[i] = place{events[i].T, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.t != b.t {
			return cmp.Compare(a.t, b.t)
		}
		return cmp.Or(cmp.Compare(events[a.i].N, events[b.i].N), cmp.Compare(a.i, b.i))
	})
	// Each round moves one cycle of the permutation; a place that is done points to itself.
	for i := range places {
		if places[i].i == i {
			continue
		}
		e, to := events[i], i
		for places[to].i != i {
			from := places[to].i
			events[to], places[to].i = events[from], to
			to = from
		}
		events[to], places[to].i = e, to
	}
}

func sorted(events []Event) bool {
	for i := 1; i < len(events); i++ {
		a, b := &events[i-1], &events[i]
		if b.T < a.T || b.T == a.T && b.N < a.N {
			return false
		}
	}
	return true
}
