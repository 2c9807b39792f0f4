package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"

	"lockpick/internal/files"
)

// Lines encodes a history's events as a Recorder writes them, in the order of their numbers. The
// events may be in any order.
func Lines(events []Event) (lines []byte, err error) {
	recorded := make([]*Event, len(events))
	for i := range events {
		recorded[events[i].N-1] = &events[i]
	}
	for _, e := range recorded {
		if lines, err = appendLine(lines, e); err != nil {
			return nil, fmt.Errorf("write history event %d: %w", e.N, err)
		}
	}
	return lines, nil
}

// appendLine appends an event as a line of JSON. The bytes are exactly those of encoding/json, at a
// fraction of the cost, because a run writes thousands of lines.
func appendLine(b []byte, e *Event) ([]byte, error) {
	c := codec{job: jobWrite, out: b}
	c.fields(e)
	if e.Params != nil {
		params, err := json.Marshal(e.Params)
		if err != nil {
			return nil, err
		}
		c.out = append(append(c.out, `,"params":`...), params...)
	}
	return append(c.out, '}', '\n'), nil
}

// appendString appends a JSON string. It uses encoding/json only for strings that need escaping.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // can't fail for a string
			return append(b, quoted...)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

// normalize returns the event as a reader will see it. JSON can't represent invalid UTF-8, and
// Params omits empty lists, so both are lost in writing.
func (e Event) normalize() Event {
	if e.Life != nil {
		l := *e.Life
		e.Life = &l
	}
	c := codec{job: jobRepair}
	c.fields(&e)
	if e.Params != nil {
		var p Params
		if text, err := json.Marshal(e.Params); err == nil && json.Unmarshal(text, &p) == nil {
			e.Params = &p
		}
	}
	return e
}

// codec does one job for each field of an event, in the order of the fields in a line. It parses
// lines written by appendLine itself, at a fraction of the cost of encoding/json. All other lines
// are parsed by decode, which also reports all errors. If decodePlain accepts a line, decode gives
// the same result.
type codec struct {
	job        job
	writeEmpty bool     // when writing: write even an empty field
	out        []byte   // when writing: the line so far
	rest       []byte   // when reading: the unread part of the line, or nil if the line is not plain
	strings    interner // when reading and sharing
}

type job int

const (
	jobRead job = iota
	jobWrite
	jobRepair // replace invalid UTF-8
	jobShare  // make equal strings share memory
)

// decode decodes a line into e, which must be empty.
func (c *codec) decode(line []byte, e *Event) error {
	if c.decodePlain(line, e) {
		return nil
	}
	var err error
	*e, err = decode(line)
	c.job = jobShare
	c.fields(e)
	return err
}

// decodePlain decodes a plain line, which is a line as written by appendLine, without params or
// escapes. It returns false for any other line. No field can occur twice, because the order of
// fields is fixed. A missing field is left empty, as in encoding/json.
func (c *codec) decodePlain(line []byte, e *Event) bool {
	c.job, c.rest = jobRead, line
	c.fields(e)
	atEnd := string(c.rest) == "}\n" || string(c.rest) == "}" // the last line may lack its newline
	return atEnd && e.check() == nil
}

// fields processes all fields except the params.
func (c *codec) fields(e *Event) {
	c.writeEmpty = true
	c.number(`{"n":`, &e.N)
	c.number(`,"t":`, &e.T)
	c.text(`,"process":`, &e.Process)
	c.text(`,"type":`, (*string)(&e.Type))
	c.text(`,"op":`, &e.Op)
	c.writeEmpty = false
	c.text(`,"key":`, &e.Key)
	c.text(`,"session":`, &e.Session)
	c.text(`,"token":`, &e.Token)
	c.number(`,"fence":`, &e.Fence)
	c.number(`,"validUntil":`, &e.ValidUntil)
	c.number(`,"local":`, &e.Local)
	c.flag(`,"wall":true`, &e.WallClock)
	c.number(`,"drift":`, &e.Drift)
	c.text(`,"node":`, &e.Node)
	c.text(`,"value":`, &e.Value)
	c.number(`,"version":`, &e.Version)
	c.number(`,"ttl":`, &e.TTL)
	c.number(`,"sent":`, &e.SentAt)
	c.number(`,"applied":`, &e.AppliedAt)
	c.number(`,"answered":`, &e.AnsweredAt)
	step := int64(e.Step)
	c.number(`,"step":`, &step)
	if e.Step = int(step); int64(e.Step) != step {
		c.rest = nil
	}
	c.text(`,"cause":`, &e.Cause)
	c.life(`,"life":`, &e.Life)
}

func (c *codec) life(name string, life **Life) {
	switch {
	case c.job == jobRead && c.consume(name):
		*life = &Life{}
	case *life == nil:
		return
	case c.job == jobWrite:
		c.out = append(c.out, name...)
	}
	l := *life
	c.writeEmpty = true
	c.text(`{"what":`, (*string)(&l.Kind))
	c.writeEmpty = false
	c.number(`,"seq":`, &l.Seq)
	c.text(`,"run":`, &l.RunID)
	c.text(`,"value":`, &l.Value)
	c.text(`,"old":`, &l.OldValue)
	c.number(`,"expires":`, &l.Expiry)
	c.number(`,"before":`, &l.OldExpiry)
	c.number(`,"lo":`, &l.MinT)
	c.number(`,"hi":`, &l.MaxT)
	c.text(`,"by":`, &l.Sender)
	c.text(`,"command":`, &l.Command)
	c.flag(`,"script":true`, &l.Script)
	c.text(`,"why":`, &l.Replacement)
	switch {
	case c.job == jobWrite:
		c.out = append(c.out, '}')
	case c.job == jobRead && !c.consume(`}`):
		c.rest = nil
	}
}

// consume skips name if it comes next in the line, and reports whether it does.
func (c *codec) consume(name string) bool {
	if len(c.rest) < len(name) || string(c.rest[:len(name)]) != name {
		return false
	}
	c.rest = c.rest[len(name):]
	return true
}

func (c *codec) flag(name string, b *bool) {
	switch {
	case c.job == jobRead:
		*b = c.consume(name)
	case c.job == jobWrite && *b:
		c.out = append(c.out, name...)
	}
}

func (c *codec) number(name string, n *int64) {
	switch {
	case c.job == jobRead && c.consume(name):
		c.readNumber(n)
	case c.job == jobWrite && (c.writeEmpty || *n != 0):
		c.out = strconv.AppendInt(append(c.out, name...), *n, 10)
	}
}

func (c *codec) readNumber(n *int64) {
	b := c.rest
	i, sign := 0, int64(1)
	if len(b) > 0 && b[0] == '-' {
		i, sign = 1, -1
	}
	first, v := i, uint64(0)
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	// Nineteen digits fit into 64 bits. JSON does not allow leading zeros.
	if digits := i - first; digits == 0 || digits > 19 || v > math.MaxInt64 || b[first] == '0' && digits > 1 {
		c.rest = nil
		return
	}
	*n, c.rest = sign*int64(v), b[i:]
}

func (c *codec) text(name string, s *string) {
	switch c.job {
	case jobRead:
		if c.consume(name) {
			c.readText(s)
		}
	case jobWrite:
		if c.writeEmpty || *s != "" {
			c.out = appendString(append(c.out, name...), *s)
		}
	case jobRepair:
		if !utf8.ValidString(*s) {
			*s = string([]rune(*s))
		}
	case jobShare:
		*s = c.strings.intern(*s)
	}
}

func (c *codec) readText(s *string) {
	if c.consume(`"`) {
		for i, b := range c.rest {
			switch {
			case b == '"':
				*s, c.rest = c.strings.internBytes(c.rest[:i]), c.rest[i+1:]
				return
			case b < ' ' || b > '~' || b == '\\':
				c.rest = nil
				return
			}
		}
	}
	c.rest = nil
}

func decode(line []byte) (Event, error) {
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("not an event: extra data on the same line")
	}
	return e, e.check()
}

func (e *Event) check() error {
	if e.N <= 0 || e.Type == "" || e.Process == "" || e.Op == "" {
		return errors.New("not an event: n, process, type and op are required")
	}
	if e.Op == OpLife && e.Life == nil {
		return errors.New(`not an event: op "life" requires a life field`)
	}
	return nil
}

// interner makes equal strings share memory if they occur close to each other. A token, for
// example, occurs in a dozen consecutive events. The table has a fixed size, and newer strings
// replace older ones, so no file can make it use much memory.
type interner struct {
	seed  maphash.Seed
	slots []string
}

const internSlots = 1 << 13

func newInterner() interner {
	return interner{maphash.MakeSeed(), make([]string, internSlots)}
}

// internBytes returns b as a string, which may share memory with earlier strings. The caller may
// overwrite b later.
func (s *interner) internBytes(b []byte) string {
	slot := &s.slots[maphash.Bytes(s.seed, b)%internSlots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// intern returns a string equal to t, which may share memory with earlier strings.
func (s *interner) intern(t string) string {
	slot := &s.slots[maphash.String(s.seed, t)%internSlots]
	if *slot != t {
		*slot = t
	}
	return *slot
}

// MaxEvents is the number of events after which a run is stopped. All events of a run stay in
// memory until they have been checked, and this many take about a gigabyte. The longest run in the
// catalog has 22,609 events.
const MaxEvents = 300_000

// Limits on a stored history, whatever its origin. They exceed MaxEvents because a run that is
// stopped there still records the resource's log, which has at most one entry per two events.
const (
	MaxStoredEvents = MaxEvents * 3 / 2
	MaxFileBytes    = 256 << 20 // uncompressed; in memory the events take somewhat more
)

// maxLine is the maximum length of a line in bytes. It keeps files that aren't histories from
// exhausting memory.
const maxLine = 16 << 20

const bufferSize = 1 << 16

// Sizes of the first chunk and the largest chunk that Read allocates, in events. The first chunk is
// small because most histories are short.
const (
	minChunk = 64
	maxChunk = 1 << 14
)

// Read reads a history as a stream. If the last line is incomplete, for example after a crash, the
// history ends before that line and Truncation says so. Truncation also reports a missing end of
// the run. Anything else that no recorder could have written is an error, which names the line.
//
// Read keeps one line of the file in memory. It collects the events in chunks and joins them at the
// end, so for a moment it needs twice the memory of the events.
func Read(r io.Reader) (*History, error) { return read(r, math.MaxInt) }

func read(r io.Reader, maxEvents int) (*History, error) {
	br := bufio.NewReaderSize(r, bufferSize)
	var longLine []byte // buffer for lines longer than br's
	d := codec{strings: newInterner()}
	events := make([]Event, 0, minChunk)
	var chunks [][]Event // full chunks, which avoid copying events whenever more space is needed
	lastN := int64(0)
	truncation := ""
	for line := 1; ; line++ {
		text, err := readLine(br, &longLine)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		incomplete := err != nil // the line has no newline
		if incomplete && len(text) == 0 {
			break
		}
		var e Event
		if err := d.decode(text, &e); err != nil {
			if incomplete && line > 1 {
				truncation = fmt.Sprintf("line %d is incomplete", line)
				break
			}
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if line == 1 {
			if err := checkFirst(e); err != nil {
				return nil, err
			}
		}
		if line > maxEvents {
			return nil, fmt.Errorf("more than %d events, but runs are stopped at %d", maxEvents, MaxEvents)
		}
		if e.N <= lastN {
			return nil, fmt.Errorf("line %d: event %d comes after event %d, but recorders number events in ascending order", line, e.N, lastN)
		}
		lastN = e.N
		if size := cap(events); len(events) == size {
			chunks = append(chunks, events)
			events = make([]Event, 0, min(2*size, maxChunk))
		}
		events = append(events, e)
	}
	if chunks != nil {
		events = slices.Concat(append(chunks, events)...)
	}
	h, err := New(events)
	if err == nil && truncation != "" {
		h.Truncation = truncation
	}
	return h, err
}

// New returns a history of the given events, which must be in recording order. It keeps and sorts
// the slice. The result is what Read would return for the same events.
func New(events []Event) (*History, error) {
	if len(events) == 0 {
		return nil, errors.New("line 1: the history is empty")
	}
	if err := checkFirst(events[0]); err != nil {
		return nil, err
	}
	h := &History{Params: *events[0].Params, Events: events}
	if !h.HasEnd() {
		h.Truncation = fmt.Sprintf("it ends after event %d, before the end of the run", len(events))
	}
	if cause := stopCause(events); cause != "" {
		h.Truncation = cause
		// Earlier releases also recorded the lock's key on each node when stopping a run.
		h.Events = slices.DeleteFunc(events, func(e Event) bool { return e.Op == "key" && e.Process == Harness })
	}
	Sort(h.Events)
	return h, nil
}

// stopCause returns why the run was stopped early, or "" if it wasn't.
func stopCause(events []Event) string {
	for i := range events {
		if e := &events[i]; e.Op == OpStop && e.Process == Harness {
			return e.Cause
		}
	}
	return ""
}

// HasEnd reports whether the history contains the end of the run. That is usually its last event.
func (h *History) HasEnd() bool {
	for i := len(h.Events) - 1; i >= 0; i-- {
		if h.Events[i].Op == OpRun && h.Events[i].Type == End {
			return true
		}
	}
	return false
}

func checkFirst(e Event) error {
	if e.Op != OpRun || e.Params == nil {
		return errors.New("line 1: not a run event with params: this is not a lockpick history")
	}
	if e.Params.Schema != Schema {
		return fmt.Errorf("line 1: the history has schema %d, but this version of lockpick reads schema %d", e.Params.Schema, Schema)
	}
	if err := e.Params.check(); err != nil {
		return fmt.Errorf("line 1: params: %w", err)
	}
	return nil
}

// ReadFile reads a history from a regular file of at most MaxFileBytes.
func ReadFile(path string) (*History, error) {
	f, err := files.Open(path, MaxFileBytes)
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

// FromFile reads a history from an open file, which may be compressed.
func FromFile(f *os.File) (*History, error) {
	text, err := Unpack(f)
	if err != nil {
		return nil, err
	}
	return read(text, MaxStoredEvents)
}

// Pack compresses a history with gzip. The output depends only on the text.
func Pack(w io.Writer, text io.Reader) error {
	z := gzip.NewWriter(w)
	if _, err := io.Copy(z, text); err != nil {
		return err
	}
	return z.Close()
}

// Unpack returns a reader for the text of a history file, which may be compressed. Reading more
// than MaxFileBytes of a compressed file is an error. A truncated compressed file reads like
// truncated text.
func Unpack(f *os.File) (io.Reader, error) {
	if !isGzip(f) {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("invalid gzip data: %w", err)
	}
	return &boundedReader{z, MaxFileBytes}, nil
}

// isGzip reports whether a file looks like gzip data. It does not move the file offset.
func isGzip(f *os.File) bool {
	var magic [2]byte
	_, err := f.ReadAt(magic[:], 0)
	return err == nil && magic == [2]byte{0x1f, 0x8b}
}

// boundedReader returns an error if the decompressed text is too long.
type boundedReader struct {
	z         *gzip.Reader
	remaining int64
}

func (u *boundedReader) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	switch u.remaining -= int64(n); {
	case u.remaining < 0:
		return 0, fmt.Errorf("the uncompressed text has more than %d bytes, which is more than a run records", int64(MaxFileBytes))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, io.EOF
	}
	return n, err
}

// readLine reads a line, including its newline. The result is valid until the next call. Lines that
// don't fit into br's buffer are collected in buf.
func readLine(br *bufio.Reader, buf *[]byte) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*buf = append((*buf)[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = br.ReadSlice('\n')
		*buf = append(*buf, line...)
		if len(*buf) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
	}
	return *buf, err
}

// Sort orders events by true time, and simultaneous events by number. Sorting is necessary because
// real backends number events as they arrive, which is not exactly the order in which they
// happened.
func Sort(events []Event) {
	if isSorted(events) {
		return
	}
	// Events are large, so sort small keys and then move each event once.
	type position struct {
		t int64
		i int // the event's index
	}
	positions := make([]position, len(events))
	for i := range events {
		positions[i] = position{events[i].T, i}
	}
	slices.SortFunc(positions, func(a, b position) int {
		if a.t != b.t {
			return cmp.Compare(a.t, b.t)
		}
		return cmp.Or(cmp.Compare(events[a.i].N, events[b.i].N), cmp.Compare(a.i, b.i))
	})
	// Each iteration follows one cycle of the permutation. Completed positions point to themselves.
	for i := range positions {
		if positions[i].i == i {
			continue
		}
		e, to := events[i], i
		for positions[to].i != i {
			from := positions[to].i
			events[to], positions[to].i = events[from], to
			to = from
		}
		events[to], positions[to].i = e, to
	}
}

func isSorted(events []Event) bool {
	for i := 1; i < len(events); i++ {
		a, b := &events[i-1], &events[i]
		if b.T < a.T || b.T == a.T && b.N < a.N {
			return false
		}
	}
	return true
}
