//go:build linux

package fuse

import "slices"

// content is the bytes of a file, as they are seen and as they are on disk.
type content struct {
	data  []byte
	disk  []byte // may share data's array, but never beyond its own length
	first int    // bytes of the first write since the last sync, if it was to the end
}

// changed says whether a file is not as it is on disk.
func (c *content) changed() bool { return string(c.data) != string(c.disk) }

func (c *content) synced() { c.disk, c.first = c.data[:len(c.data):len(c.data)], 0 }

func (c *content) set(b []byte) { c.data, c.first = b, 0 }

// revert makes all as it is on disk, but for half of the first write since then if it is torn.
func (c *content) revert(torn bool) {
	kept := slices.Clone(c.disk)
	if at := len(c.disk); torn && c.first > 1 && at+c.first <= len(c.data) {
		kept = append(kept, c.data[at:at+c.first/2]...)
	}
	c.set(kept)
	c.synced()
}

// resize cuts a file, or fills it up with zeros.
func (c *content) resize(size uint64) {
	b := make([]byte, size)
	copy(b, c.data)
	c.set(b)
}

func (c *content) write(b []byte, at int64) {
	if at < int64(len(c.disk)) { // what is on disk shares the array
		c.data = slices.Clone(c.data)
	}
	if !c.changed() && at == int64(len(c.data)) {
		c.first = len(b)
	}
	if gap := at - int64(len(c.data)); gap > 0 {
		c.data = append(c.data, make([]byte, gap)...)
	}
	if over := len(c.data) - int(at); over >= len(b) {
		copy(c.data[at:], b)
	} else {
		c.data = append(c.data[:at], b...)
	}
}
